//! One record after the other out of a block's payload.
use super::u64_at;
use crate::encode::Deltas;
use crate::record::{
    ADDRESS_ABSOLUTE, ADDRESS_LENGTHS, Execution, SIZE_LENGTHS, Space, SystemKind, TIME_LENGTHS, execution, extended,
    frame, kind, node_parent, stack_reference,
};

/// Something that happened in the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub ticks: u64,
    pub thread: u32,
    /// A node of the event's lane, 0 for none.
    pub stack: u32,
    pub kind: EventKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    HostAlloc {
        address: u64,
        size: u64,
    },
    HostFree {
        address: u64,
    },
    HostMap {
        address: u64,
        size: u64,
    },
    HostUnmap {
        address: u64,
        size: u64,
    },
    /// `mremap`: whatever was mapped at `old` is at `new`.
    HostRemap {
        old: u64,
        old_size: u64,
        new: u64,
        new_size: u64,
    },
    DeviceAlloc {
        space: Space,
        device: u32,
        address: u64,
        size: u64,
        attributes: u32,
    },
    DeviceFree {
        space: Space,
        address: u64,
    },
    PoolTotal {
        space: Space,
        device: u32,
        total: u64,
    },
    OutOfMemory {
        space: Space,
        device: u32,
        size: u64,
        flag: u64,
    },
    System {
        kind: SystemKind,
        value: u64,
    },
    /// The text is the number of a [`Definition::Text`] that came just before.
    Mark {
        text: u32,
    },
    RangeStart {
        id: u64,
        text: u32,
    },
    RangeEnd {
        id: u64,
    },
    /// The thread is about to launch a kernel.
    Launch,
    /// The runtime gave a task its number; `task` is the word it reported, `name` the hash of the kernel's, 0 for none.
    Task {
        device: u32,
        stream: u32,
        task: u32,
        name: u64,
    },
    StreamExpansion {
        status: u8,
    },
    /// The device's counter at the event's time, give or take half of `width` ticks.
    DeviceClock {
        device: u32,
        frequency_khz: u64,
        counter: u64,
        width: u64,
    },
    /// A line of a device's task log. The event's time is when it was read; `streams` says whether it has a stream.
    Execution {
        device: u32,
        streams: bool,
        line: Execution,
    },
}

/// Something later records of the same lane refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition<'a> {
    Module {
        id: u32,
        start: u64,
        end: u64,
        bias: u64,
        build_id: &'a [u8],
        path: &'a [u8],
    },
    Code {
        id: u32,
        python_version: u16,
        first_line: u32,
        file: &'a [u8],
        function: &'a [u8],
        line_table: &'a [u8],
    },
    Node {
        id: u32,
        parent: u32,
        frame: FrameRecord,
    },
    /// The text of the event that follows. Numbers count up within a cursor.
    Text {
        id: u32,
        text: &'a [u8],
    },
    /// `ASCEND_RT_VISIBLE_DEVICES` of the process.
    VisibleDevices {
        text: &'a [u8],
    },
    /// What a kernel's hash stands for, in all lanes.
    KernelName {
        hash: u64,
        text: &'a [u8],
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FrameRecord {
    /// A return address as in the module's file.
    C { module: u32, offset: u64 },
    /// A return address outside all modules.
    Unknown { address: u64 },
    /// Byte offset of the running instruction.
    Python { code: u32, instruction: u32 },
    /// Not a frame: the node's parent is a C stack, `python` the Python stack of the same moment.
    Pair { python: u32 },
}

/// What the record at hand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record<'a> {
    Event {
        stack: u32,
        kind: EventKind,
    },
    /// An event with a text, which the cursor numbers.
    TextEvent {
        text: &'a [u8],
        kind: EventKind,
    },
    Thread(u32),
    Definition(Definition<'a>),
    /// Lines of a task log, to be read one by one with [`execution_line`].
    Executions {
        device: u32,
        streams: bool,
        lines: &'a [u8],
    },
    /// A type of a later version; skipped.
    Unknown,
}

/// The bytes make no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Nonsense;

/// Reads the record at the start of `bytes`; returns it, its time and its length.
pub(super) fn read<'a>(bytes: &'a [u8], last: &mut Deltas) -> Result<(u64, Record<'a>, usize), Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let first = fields.byte()?;
    let (time_code, address_code, last_code) = (first >> 2 & 3, first >> 4 & 3, first >> 6);
    let record = match first & 3 {
        kind::EXTENDED => {
            let record_type = fields.byte()?;
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let length = fields.integer(2)? as usize;
            extended_record(record_type, fields.take(length)?, last)?
        }
        kind::HOST_ALLOC => {
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let address = fields.address(address_code, last)?;
            let size = fields.integer(SIZE_LENGTHS[last_code as usize])?;
            let field = fields.varint()?;
            Record::Event { stack: resolve(field, last)?, kind: EventKind::HostAlloc { address, size } }
        }
        kind::HOST_FREE => {
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let address = fields.address(address_code, last)?;
            let field = match u32::from(last_code) {
                stack_reference::EXPLICIT => fields.varint()?,
                other => u64::from(other),
            };
            Record::Event { stack: resolve(field, last)?, kind: EventKind::HostFree { address } }
        }
        _ => node(&mut fields, first, last)?,
    };
    Ok((last.ticks, record, fields.at))
}

/// A node, whose first byte is `first`.
fn node<'a>(fields: &mut Fields<'a>, first: u8, last: &mut Deltas) -> Result<Record<'a>, Nonsense> {
    let (frame_kind, below) = (first >> 2 & 3, first >> 4 & 3);
    let (known, numbered) = (first & 1 << 6 != 0, first & 1 << 7 != 0);
    let id = if numbered { fields.small()? } else { last.node.wrapping_add(1) };
    let parent = match below {
        node_parent::NONE => 0,
        node_parent::PREVIOUS => id.wrapping_sub(1),
        node_parent::EARLIER => id.wrapping_sub(fields.small()?),
        _ => return Err(Nonsense),
    };
    let container = match frame_kind {
        frame::C | frame::PYTHON if !known => fields.small()?,
        _ => last.container(frame_kind),
    };
    let field = fields.varint()?;
    let (second, frame) = match frame_kind {
        frame::C => {
            let offset = last.offset.wrapping_add(from_zigzag(field));
            (offset, FrameRecord::C { module: container, offset })
        }
        frame::PYTHON => {
            let instruction = u32::try_from(field).map_err(|_| Nonsense)?;
            (field, FrameRecord::Python { code: container, instruction })
        }
        frame::PAIR => {
            let python = id.wrapping_sub(u32::try_from(field).map_err(|_| Nonsense)?);
            (field, FrameRecord::Pair { python })
        }
        _ => (field, FrameRecord::Unknown { address: field }),
    };
    last.note_node(id, frame_kind, container, second);
    // A node can only hang below an older one: this is what keeps a reader's walk to the root finite.
    if parent >= id || matches!(frame, FrameRecord::Pair { python } if python >= id) {
        return Err(Nonsense);
    }
    Ok(Record::Definition(Definition::Node { id, parent, frame }))
}

fn from_zigzag(field: u64) -> u64 {
    (field >> 1) ^ (field & 1).wrapping_neg()
}

fn resolve(field: u64, last: &mut Deltas) -> Result<u32, Nonsense> {
    match u32::try_from(field).map_err(|_| Nonsense)? {
        stack_reference::NONE => Ok(0),
        stack_reference::SAME_AS_LAST => Ok(last.stack),
        explicit => {
            last.stack = explicit - 1;
            Ok(last.stack)
        }
    }
}

fn extended_record<'a>(record_type: u8, payload: &'a [u8], last: &mut Deltas) -> Result<Record<'a>, Nonsense> {
    let mut fields = Fields { bytes: payload, at: 0 };
    Ok(match record_type {
        extended::THREAD => Record::Thread(fields.small()?),
        extended::MODULE => Record::Definition(Definition::Module {
            id: fields.small()?,
            start: fields.integer(8)?,
            end: fields.integer(8)?,
            bias: fields.integer(8)?,
            build_id: fields.text()?,
            path: fields.text()?,
        }),
        extended::CODE => Record::Definition(Definition::Code {
            id: fields.small()?,
            python_version: fields.small()? as u16,
            first_line: fields.small()?,
            file: fields.text()?,
            function: fields.text()?,
            line_table: fields.text()?,
        }),
        extended::HOST_MAP => {
            let (address, size, stack) = (fields.integer(8)?, fields.varint()?, fields.small()?);
            Record::Event { stack, kind: EventKind::HostMap { address, size } }
        }
        extended::HOST_UNMAP => {
            let (address, size, stack) = (fields.integer(8)?, fields.varint()?, fields.small()?);
            Record::Event { stack, kind: EventKind::HostUnmap { address, size } }
        }
        extended::HOST_REMAP => {
            let (old, old_size) = (fields.integer(8)?, fields.varint()?);
            let (new, new_size) = (fields.integer(8)?, fields.varint()?);
            let stack = fields.small()?;
            Record::Event { stack, kind: EventKind::HostRemap { old, old_size, new, new_size } }
        }
        extended::DEVICE_ALLOC => {
            let (space, device) = (fields.space()?, fields.small()?);
            let address = fields.device_address(last)?;
            let (size, attributes) = (fields.varint()?, fields.small()?);
            let stack = resolve(fields.varint()?, last)?;
            Record::Event { stack, kind: EventKind::DeviceAlloc { space, device, address, size, attributes } }
        }
        extended::DEVICE_FREE => {
            let (space, address) = (fields.space()?, fields.device_address(last)?);
            let stack = resolve(fields.varint()?, last)?;
            Record::Event { stack, kind: EventKind::DeviceFree { space, address } }
        }
        extended::POOL_TOTAL => {
            let (space, device, total) = (fields.space()?, fields.small()?, fields.varint()?);
            Record::Event { stack: 0, kind: EventKind::PoolTotal { space, device, total } }
        }
        extended::OUT_OF_MEMORY => {
            let (space, device) = (fields.space()?, fields.small()?);
            let (size, flag) = (fields.varint()?, fields.varint()?);
            let stack = resolve(fields.varint()?, last)?;
            Record::Event { stack, kind: EventKind::OutOfMemory { space, device, size, flag } }
        }
        extended::VISIBLE_DEVICES => Record::Definition(Definition::VisibleDevices { text: fields.text()? }),
        extended::SYSTEM => {
            let kind = SystemKind::from_code(fields.byte()?).ok_or(Nonsense)?;
            Record::Event { stack: 0, kind: EventKind::System { kind, value: fields.varint()? } }
        }
        extended::MARK => Record::TextEvent { text: fields.text()?, kind: EventKind::Mark { text: 0 } },
        extended::RANGE_START => {
            let id = fields.varint()?;
            Record::TextEvent { text: fields.text()?, kind: EventKind::RangeStart { id, text: 0 } }
        }
        extended::RANGE_END => Record::Event { stack: 0, kind: EventKind::RangeEnd { id: fields.varint()? } },
        extended::LAUNCH => Record::Event { stack: 0, kind: EventKind::Launch },
        extended::TASK => {
            let (device, stream, task) = (fields.small()?, fields.small()?, fields.small()?);
            Record::Event { stack: 0, kind: EventKind::Task { device, stream, task, name: fields.integer(8)? } }
        }
        extended::KERNEL_NAME => {
            Record::Definition(Definition::KernelName { hash: fields.integer(8)?, text: fields.text()? })
        }
        extended::STREAM_EXPANSION => {
            Record::Event { stack: 0, kind: EventKind::StreamExpansion { status: fields.byte()? } }
        }
        extended::DEVICE_CLOCK => {
            let (device, frequency_khz) = (fields.small()?, fields.varint()?);
            let (counter, width) = (fields.integer(8)?, fields.varint()?);
            Record::Event { stack: 0, kind: EventKind::DeviceClock { device, frequency_khz, counter, width } }
        }
        extended::EXECUTIONS => {
            let (device, flags) = (fields.small()?, fields.byte()?);
            let lines = fields.bytes.get(fields.at..).unwrap_or_default();
            Record::Executions { device, streams: flags & 1 != 0, lines }
        }
        _ => Record::Unknown,
    })
}

/// Reads the line of a task log at the start of `bytes`, which follows `last`; returns its length too.
pub(super) fn execution_line(bytes: &[u8], streams: bool, last: Execution) -> Result<(Execution, usize), Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let first = fields.byte()?;
    let mut line = last;
    line.end = first & execution::END != 0;
    line.unit = first >> execution::UNIT_SHIFT & execution::UNIT_MASK;
    if first & execution::SAME_TASK == 0 {
        // Only the low bits count: a difference that leaves the range wraps.
        line.task = u64::from(last.task).wrapping_add(from_zigzag(fields.varint()?)) as u32;
        if streams {
            line.stream = u64::from(last.stream).wrapping_add(from_zigzag(fields.varint()?)) as u16;
        }
    }
    line.counter = last.counter.wrapping_add(from_zigzag(fields.varint()?));
    Ok((line, fields.at))
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Nonsense> {
        let end = self.at.checked_add(length).ok_or(Nonsense)?;
        let taken = self.bytes.get(self.at..end).ok_or(Nonsense)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Nonsense> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian integer of at most eight bytes.
    fn integer(&mut self, length: usize) -> Result<u64, Nonsense> {
        // Away from the end of the block one unaligned load does it.
        if let Some(word) = u64_at(self.bytes, self.at) {
            self.at += length;
            return Ok(if length == 8 { word } else { word & ((1 << (8 * length)) - 1) });
        }
        let taken = self.take(length)?;
        Ok(taken.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn varint(&mut self) -> Result<u64, Nonsense> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Nonsense)
    }

    fn small(&mut self) -> Result<u32, Nonsense> {
        u32::try_from(self.varint()?).map_err(|_| Nonsense)
    }

    fn text(&mut self) -> Result<&'a [u8], Nonsense> {
        let length = self.small()? as usize;
        self.take(length)
    }

    fn space(&mut self) -> Result<Space, Nonsense> {
        Space::from_code(self.byte()?).ok_or(Nonsense)
    }

    fn device_address(&mut self, last: &mut Deltas) -> Result<u64, Nonsense> {
        let field = self.varint()?;
        last.device_address = last.device_address.wrapping_add(from_zigzag(field));
        Ok(last.device_address)
    }

    fn address(&mut self, code: u8, last: &mut Deltas) -> Result<u64, Nonsense> {
        let field = self.integer(ADDRESS_LENGTHS[code as usize])?;
        last.address =
            if code == ADDRESS_ABSOLUTE { field } else { (last.address >> 4).wrapping_add(from_zigzag(field)) << 4 };
        Ok(last.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{self, Extended, MAX_EVENT};
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = (u64, u32, EventKind)> {
        let address = prop_oneof![any::<u64>(), (0u64..1 << 43).prop_map(|a| a << 4), Just(0u64)];
        let size = prop_oneof![0u64..300, any::<u64>(), 60_000u64..70_000];
        let kind = (address, size, 0..9u8).prop_map(|(address, size, which)| match which {
            0 => EventKind::HostAlloc { address, size },
            1 => EventKind::HostFree { address },
            2 => EventKind::HostMap { address, size },
            4 => EventKind::DeviceAlloc {
                space: Space::ALL[size as usize % 7],
                device: size as u32,
                address,
                size,
                attributes: address as u32,
            },
            5 => EventKind::DeviceFree { space: Space::ALL[size as usize % 7], address },
            6 => EventKind::OutOfMemory { space: Space::Driver, device: 3, size, flag: address },
            3 => EventKind::HostRemap { old: !address, old_size: size / 2, new: address, new_size: size },
            _ => EventKind::HostUnmap { address, size },
        });
        let wait = prop_oneof![0u64..300, 0u64..1 << 40];
        (wait, prop_oneof![Just(0u32), 1u32..5, 1u32..u32::MAX - 1], kind)
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(events in proptest::collection::vec(event(), 0..200), base in 0u64..1 << 60) {
            let mut bytes = vec![0u8; events.len() * (MAX_EVENT + 90)];
            let mut last = Deltas::at(base);
            let mut at = 0;
            let mut ticks = base;
            let mut expected = Vec::new();
            for (wait, stack, kind) in &events {
                ticks += wait;
                let out = bytes[at..].as_mut_ptr();
                // SAFETY: the buffer holds the largest record for each event.
                let end = unsafe {
                    match *kind {
                        EventKind::HostAlloc { address, size } => {
                            encode::host_alloc(out, &mut last, ticks, address, size, *stack)
                        }
                        EventKind::HostFree { address } => {
                            encode::host_free(out, &mut last, ticks, address, *stack)
                        }
                        EventKind::HostMap { address, size } => {
                            let record = Extended::HostMap { address, size, stack: *stack };
                            encode::extended(out, &mut last, ticks, &record)
                        }
                        EventKind::HostRemap { old, old_size, new, new_size } => {
                            let record = Extended::HostRemap { old, old_size, new, new_size, stack: *stack };
                            encode::extended(out, &mut last, ticks, &record)
                        }
                        EventKind::DeviceAlloc { space, device, address, size, attributes } => {
                            let record =
                                Extended::DeviceAlloc { space, device, address, size, attributes, stack: *stack };
                            encode::extended(out, &mut last, ticks, &record)
                        }
                        EventKind::DeviceFree { space, address } => {
                            let record = Extended::DeviceFree { space, address, stack: *stack };
                            encode::extended(out, &mut last, ticks, &record)
                        }
                        EventKind::OutOfMemory { space, device, size, flag } => {
                            let record = Extended::OutOfMemory { space, device, size, flag, stack: *stack };
                            encode::extended(out, &mut last, ticks, &record)
                        }
                        EventKind::HostUnmap { address, size } => {
                            let record = Extended::HostUnmap { address, size, stack: *stack };
                            encode::extended(out, &mut last, ticks, &record)
                        }
                        other => panic!("{other:?} is not generated"),
                    }
                };
                at += end as usize - out as usize;
                expected.push((ticks, *stack, *kind));
            }
            let mut last = Deltas::at(base);
            let mut rest = &bytes[..at];
            let mut decoded = Vec::new();
            while !rest.is_empty() {
                let (ticks, record, length) = read(rest, &mut last).unwrap();
                let Record::Event { stack, kind } = record else { panic!("{record:?}") };
                decoded.push((ticks, stack, kind));
                rest = &rest[length..];
            }
            prop_assert_eq!(decoded, expected);
        }

        #[test]
        fn any_bytes_end_in_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut last = Deltas::at(0);
            let mut rest = bytes.as_slice();
            while let Ok((_, _, length)) = read(rest, &mut last) {
                prop_assert!(length > 0 && length <= rest.len());
                rest = &rest[length..];
            }
        }

        #[test]
        fn definitions_come_back(
            id in 1u32.., path in proptest::collection::vec(any::<u8>(), 0..5000),
            table in proptest::collection::vec(any::<u8>(), 0..60_000), numbers in any::<(u64, u64, u64)>(),
        ) {
            let name = &path[..path.len().min(4096)];
            let (start, end, bias) = numbers;
            let record = Extended::Module { id, start, end, bias, build_id: b"abc", path: &path };
            let read = Definition::Module { id, start, end, bias, build_id: b"abc", path: name };
            round_trip(&record, read)?;
            let (python_version, first_line, function) = (0x30b, 7, b"f".as_slice());
            let record =
                Extended::Code { id, python_version, first_line, file: &path, function, line_table: &table };
            let line_table = &table[..table.len().min(48 * 1024)];
            let read = Definition::Code { id, python_version, first_line, file: name, function, line_table };
            round_trip(&record, read)?;
            for (frame_kind, first, second, frame) in [
                (frame::C, 3, start, FrameRecord::C { module: 3, offset: start }),
                (frame::UNKNOWN, 0, start, FrameRecord::Unknown { address: start }),
                (frame::PYTHON, 9, 12, FrameRecord::Python { code: 9, instruction: 12 }),
                (frame::PAIR, 0, u64::from(id - 1), FrameRecord::Pair { python: id - 1 }),
            ] {
                let record = Extended::Node { id, parent: id - 1, frame_kind, first, second };
                round_trip(&record, Definition::Node { id, parent: id - 1, frame })?;
            }
        }
    }

    fn round_trip(record: &Extended<'_>, expected: Definition<'_>) -> Result<(), TestCaseError> {
        let mut bytes = vec![0u8; record.room()];
        // SAFETY: the buffer has the room the record asks for.
        let end = unsafe { encode::extended(bytes.as_mut_ptr(), &mut Deltas::at(3), u64::MAX / 2, record) };
        let length = end as usize - bytes.as_ptr() as usize;
        prop_assert!(length <= bytes.len());
        let (_, read, read_length) = read(&bytes[..length], &mut Deltas::at(3)).unwrap();
        prop_assert_eq!(read, Record::Definition(expected));
        prop_assert_eq!(read_length, length);
        Ok(())
    }

    #[test]
    fn a_node_below_a_younger_one_is_nonsense() {
        let record = Extended::Node { id: 5, parent: 5, frame_kind: frame::UNKNOWN, first: 0, second: 1 };
        let mut bytes = vec![0u8; record.room()];
        // SAFETY: the buffer has the room the record asks for.
        unsafe { encode::extended(bytes.as_mut_ptr(), &mut Deltas::at(0), 0, &record) };
        assert_eq!(read(&bytes, &mut Deltas::at(0)), Err(Nonsense));
    }
}

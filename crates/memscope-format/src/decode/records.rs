//! One record after the other out of a block's payload.
use super::u64_at;
use crate::encode::{Deltas, NodeDeltas, Path};
use crate::record::{
    ADDRESS_ABSOLUTE, ADDRESS_LENGTHS, AccessMode, Execution, FrameRecord, MOST_DIMENSIONS, Phase, Protection,
    SIZE_LENGTHS, Space, StackRef, SystemKind, TIME_LENGTHS, TensorOwner, execution, extended, frame, free_stack, kind,
    node_parent, stack_field,
};

/// Something that happened in the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub ticks: u64,
    pub thread: u32,
    /// Nodes of the event's lane.
    pub stack: StackRef,
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
        protection: Protection,
    },
    /// `mprotect`, of whatever is mapped there.
    HostProtect {
        address: u64,
        size: u64,
        protection: Protection,
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
    /// The program asked what the memory of a device is; the text as in a mark is the name it gave.
    Snapshot {
        device: u32,
        text: u32,
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
    /// Path and name are in the [`Definition::Launch`] that came just before.
    AtbOperatorStart {
        launch: u64,
        device: u32,
        workspace: u64,
        workspace_size: u64,
    },
    AtbOperatorEnd {
        launch: u64,
    },
    /// The path is in the [`Definition::Launch`] that came just before.
    AtbKernel {
        phase: Phase,
        device: u32,
    },
    /// By what the newest [`Definition::Launch`] names, of the [`Definition::Tensor`] that came just before.
    Access {
        mode: AccessMode,
        owner: TensorOwner,
        device: u32,
        address: u64,
        size: u64,
    },
    Heap {
        space: Space,
        device: u32,
        address: u64,
        size: u64,
    },
    HeapEnd {
        space: Space,
        address: u64,
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
    /// Of an operator or kernel; what is empty is not known. A kernel has a path only.
    Launch {
        path: &'a [u8],
        name: &'a [u8],
    },
    Tensor(TensorShape),
}

/// What a tensor is made of, in the codes of its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TensorShape {
    pub dtype: i32,
    pub format: i32,
    dimensions: [i64; MOST_DIMENSIONS],
    rank: usize,
}

impl TensorShape {
    pub fn dimensions(&self) -> &[i64] {
        self.dimensions.get(..self.rank).unwrap_or_default()
    }
}

/// What the record at hand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record<'a> {
    Event {
        stack: StackRef,
        kind: EventKind,
    },
    /// An event with a text, which the cursor numbers.
    TextEvent {
        text: &'a [u8],
        kind: EventKind,
    },
    /// An event with a path and perhaps a name, which [`launch_texts`] reads.
    LaunchEvent {
        stack: StackRef,
        texts: &'a [u8],
        kind: EventKind,
    },
    /// An event with a tensor, which [`tensor`] reads.
    TensorEvent {
        tensor: &'a [u8],
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
pub(super) fn read<'a>(
    bytes: &'a [u8],
    last: &mut Deltas,
    last_node: &mut NodeDeltas,
) -> Result<(u64, Record<'a>, usize), Nonsense> {
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
            Record::Event { stack: fields.stack(last)?, kind: EventKind::HostAlloc { address, size } }
        }
        kind::HOST_FREE => {
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let address = fields.address(address_code, last)?;
            let stack = match last_code {
                free_stack::NONE => StackRef::NONE,
                free_stack::GIVEN => fields.stack(last)?,
                _ => return Err(Nonsense),
            };
            Record::Event { stack, kind: EventKind::HostFree { address } }
        }
        _ => node(&mut fields, first, last_node)?,
    };
    Ok((last.ticks, record, fields.at))
}

/// A node, whose first byte is `first`.
fn node<'a>(fields: &mut Fields<'a>, first: u8, last: &mut NodeDeltas) -> Result<Record<'a>, Nonsense> {
    let (frame_kind, below) = (first >> 2 & 3, first >> 4 & 3);
    let (known, numbered) = (first & 1 << 6 != 0, first & 1 << 7 != 0);
    let id = if numbered { fields.small()? } else { last.node.wrapping_add(1) };
    last.node = id;
    let parent = match below {
        _ if frame_kind == frame::FOLLOWER => id.wrapping_sub(1),
        node_parent::NONE => 0,
        node_parent::PREVIOUS => id.wrapping_sub(1),
        node_parent::EARLIER => id.wrapping_sub(fields.small()?),
        _ => return Err(Nonsense),
    };
    let frame = match frame_kind {
        frame::C => {
            let neighbour = last.neighbour(below);
            let module = if known { neighbour.0 } else { fields.small()? };
            let offset = neighbour.1.wrapping_add(from_zigzag(fields.varint()?));
            if below == node_parent::PREVIOUS {
                last.followers.note(neighbour, (module, offset));
            }
            last.note_c_frame(below, (module, offset));
            FrameRecord::C { module, offset }
        }
        frame::FOLLOWER => {
            let (module, offset) = last.followers.follow(last.c_frame, below).ok_or(Nonsense)?;
            last.note_c_frame(node_parent::PREVIOUS, (module, offset));
            FrameRecord::C { module, offset }
        }
        frame::PYTHON => {
            last.code = if known { last.code } else { fields.small()? };
            FrameRecord::Python { code: last.code, instruction: fields.small()? }
        }
        _ => FrameRecord::Unknown { address: fields.varint()? },
    };
    // A node can only hang below an older one: this is what keeps a reader's walk to the root finite.
    if parent >= id {
        return Err(Nonsense);
    }
    Ok(Record::Definition(Definition::Node { id, parent, frame }))
}

/// The node number at a zigzag distance from another.
fn number_at(from: u32, distance: u64) -> Result<u32, Nonsense> {
    u32::try_from(u64::from(from).wrapping_add(from_zigzag(distance))).map_err(|_| Nonsense)
}

fn from_zigzag(field: u64) -> u64 {
    (field >> 1) ^ (field & 1).wrapping_neg()
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
            let (address, size, stack) = (fields.integer(8)?, fields.varint()?, fields.stack(last)?);
            // Before protections were recorded, all mapped memory counted.
            Record::Event { stack, kind: EventKind::HostMap { address, size, protection: Protection::READ_WRITE } }
        }
        extended::HOST_MAP_PROTECTED | extended::HOST_PROTECT => {
            let (address, size) = (fields.integer(8)?, fields.varint()?);
            let protection = Protection(fields.byte()?);
            let stack = fields.stack(last)?;
            let kind = match record_type {
                extended::HOST_PROTECT => EventKind::HostProtect { address, size, protection },
                _ => EventKind::HostMap { address, size, protection },
            };
            Record::Event { stack, kind }
        }
        extended::HOST_UNMAP => {
            let (address, size, stack) = (fields.integer(8)?, fields.varint()?, fields.stack(last)?);
            Record::Event { stack, kind: EventKind::HostUnmap { address, size } }
        }
        extended::HOST_REMAP => {
            let (old, old_size) = (fields.integer(8)?, fields.varint()?);
            let (new, new_size) = (fields.integer(8)?, fields.varint()?);
            let stack = fields.stack(last)?;
            Record::Event { stack, kind: EventKind::HostRemap { old, old_size, new, new_size } }
        }
        extended::DEVICE_ALLOC => {
            let (space, device) = (fields.space()?, fields.small()?);
            let address = fields.device_address(last)?;
            let (size, attributes) = (fields.varint()?, fields.small()?);
            let stack = fields.stack(last)?;
            Record::Event { stack, kind: EventKind::DeviceAlloc { space, device, address, size, attributes } }
        }
        extended::DEVICE_FREE => {
            let (space, address) = (fields.space()?, fields.device_address(last)?);
            let stack = fields.stack(last)?;
            Record::Event { stack, kind: EventKind::DeviceFree { space, address } }
        }
        extended::POOL_TOTAL => {
            let (space, device, total) = (fields.space()?, fields.small()?, fields.varint()?);
            Record::Event { stack: StackRef::NONE, kind: EventKind::PoolTotal { space, device, total } }
        }
        extended::OUT_OF_MEMORY => {
            let (space, device) = (fields.space()?, fields.small()?);
            let (size, flag) = (fields.varint()?, fields.varint()?);
            let stack = fields.stack(last)?;
            Record::Event { stack, kind: EventKind::OutOfMemory { space, device, size, flag } }
        }
        extended::VISIBLE_DEVICES => Record::Definition(Definition::VisibleDevices { text: fields.text()? }),
        extended::SYSTEM => {
            let kind = SystemKind::from_code(fields.byte()?).ok_or(Nonsense)?;
            Record::Event { stack: StackRef::NONE, kind: EventKind::System { kind, value: fields.varint()? } }
        }
        extended::MARK => Record::TextEvent { text: fields.text()?, kind: EventKind::Mark { text: 0 } },
        extended::RANGE_START => {
            let id = fields.varint()?;
            Record::TextEvent { text: fields.text()?, kind: EventKind::RangeStart { id, text: 0 } }
        }
        extended::RANGE_END => {
            Record::Event { stack: StackRef::NONE, kind: EventKind::RangeEnd { id: fields.varint()? } }
        }
        extended::SNAPSHOT => {
            let device = fields.small()?;
            Record::TextEvent { text: fields.text()?, kind: EventKind::Snapshot { device, text: 0 } }
        }
        extended::LAUNCH => Record::Event { stack: StackRef::NONE, kind: EventKind::Launch },
        extended::TASK => {
            let (device, stream, task) = (fields.small()?, fields.small()?, fields.small()?);
            Record::Event {
                stack: StackRef::NONE,
                kind: EventKind::Task { device, stream, task, name: fields.integer(8)? },
            }
        }
        extended::KERNEL_NAME => {
            Record::Definition(Definition::KernelName { hash: fields.integer(8)?, text: fields.text()? })
        }
        extended::STREAM_EXPANSION => {
            Record::Event { stack: StackRef::NONE, kind: EventKind::StreamExpansion { status: fields.byte()? } }
        }
        extended::DEVICE_CLOCK => {
            let (device, frequency_khz) = (fields.small()?, fields.varint()?);
            let (counter, width) = (fields.integer(8)?, fields.varint()?);
            Record::Event {
                stack: StackRef::NONE,
                kind: EventKind::DeviceClock { device, frequency_khz, counter, width },
            }
        }
        extended::EXECUTIONS => {
            let (device, flags) = (fields.small()?, fields.byte()?);
            let lines = fields.bytes.get(fields.at..).unwrap_or_default();
            Record::Executions { device, streams: flags & 1 != 0, lines }
        }
        extended::ATB_OPERATOR_START => {
            let (launch, device) = (fields.varint()?, fields.small()?);
            let (workspace, workspace_size) = (fields.device_address(last)?, fields.varint()?);
            let stack = fields.stack(last)?;
            let kind = EventKind::AtbOperatorStart { launch, device, workspace, workspace_size };
            Record::LaunchEvent { stack, texts: fields.rest(), kind }
        }
        extended::ATB_OPERATOR_END => {
            Record::Event { stack: StackRef::NONE, kind: EventKind::AtbOperatorEnd { launch: fields.varint()? } }
        }
        extended::ATB_KERNEL => {
            let phase = Phase::from_code(fields.byte()?).ok_or(Nonsense)?;
            let device = fields.small()?;
            Record::LaunchEvent {
                stack: StackRef::NONE,
                texts: fields.rest(),
                kind: EventKind::AtbKernel { phase, device },
            }
        }
        extended::ACCESS => {
            let mode = AccessMode::from_code(fields.byte()?).ok_or(Nonsense)?;
            let owner = TensorOwner::from_code(fields.byte()?).ok_or(Nonsense)?;
            let device = fields.small()?;
            let (address, size) = (fields.device_address(last)?, fields.varint()?);
            let kind = EventKind::Access { mode, owner, device, address, size };
            Record::TensorEvent { tensor: fields.rest(), kind }
        }
        extended::HEAP => {
            let (space, device) = (fields.space()?, fields.small()?);
            let (address, size) = (fields.device_address(last)?, fields.varint()?);
            Record::Event { stack: StackRef::NONE, kind: EventKind::Heap { space, device, address, size } }
        }
        extended::HEAP_END => {
            let (space, address) = (fields.space()?, fields.device_address(last)?);
            Record::Event { stack: StackRef::NONE, kind: EventKind::HeapEnd { space, address } }
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

/// Turns `path`, the lane's last one, into that of a launch, and gives its name, which is empty if there is none.
pub(super) fn launch_texts<'a>(
    texts: &'a [u8],
    kind: EventKind,
    path: &'a mut Vec<u8>,
) -> Result<Launch<'a>, Nonsense> {
    let mut fields = Fields { bytes: texts, at: 0 };
    let shared = fields.small()? as usize;
    if shared > path.len() {
        return Err(Nonsense);
    }
    path.truncate(shared);
    path.extend_from_slice(fields.text()?);
    if path.len() > Path::LIMIT {
        return Err(Nonsense);
    }
    let in_path = match kind {
        EventKind::AtbOperatorStart { .. } => fields.small()? as usize,
        _ => return Ok(Launch { path, name: b"" }),
    };
    let name = match in_path {
        0 => fields.text()?,
        length => path.get(path.len().wrapping_sub(length)..).ok_or(Nonsense)?,
    };
    Ok(Launch { path, name })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Launch<'a> {
    pub(super) path: &'a [u8],
    pub(super) name: &'a [u8],
}

pub(super) fn tensor(bytes: &[u8]) -> Result<TensorShape, Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let mut shape = TensorShape { dtype: fields.code()?, format: fields.code()?, ..TensorShape::default() };
    shape.rank = fields.small()? as usize;
    for place in shape.dimensions.get_mut(..shape.rank).ok_or(Nonsense)? {
        *place = from_zigzag(fields.varint()?) as i64;
    }
    Ok(shape)
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

    fn stack(&mut self, last: &mut Deltas) -> Result<StackRef, Nonsense> {
        let field = self.varint()?;
        let python_code = field & 3;
        if python_code == stack_field::NO_STACK {
            return Ok(StackRef::NONE);
        }
        let c = number_at(last.stack.c, field >> 2)?;
        last.stack.c = c;
        let python = match python_code {
            stack_field::NO_PYTHON => 0,
            stack_field::SAME_PYTHON => last.stack.python,
            _ => {
                last.stack.python = number_at(last.stack.python, self.varint()?)?;
                last.stack.python
            }
        };
        Ok(StackRef { c, python })
    }

    /// What is left.
    fn rest(&mut self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// A small number of either sign.
    fn code(&mut self) -> Result<i32, Nonsense> {
        i32::try_from(from_zigzag(self.varint()?) as i64).map_err(|_| Nonsense)
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
#[path = "record_tests.rs"]
mod tests;

//! A row as a record of fixed size: what is sorted, and lies on disk while it is.
use crate::rows::{DeviceId, Event, EventType};
use memscope_model::{
    BlockId, Device, DriverTraits, NewBlock, OldBlock, Origin, OwnerId, PageSize, Pool, StackId, TimestampNs,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) time: TimestampNs,
    /// The number of the row; orders rows of one time.
    pub(crate) id: u64,
    pub(crate) thread: u32,
    pub(crate) stack: StackId,
    pub(crate) device: Device,
    /// Which of the files.
    pub(crate) file: u16,
    pub(crate) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Malloc {
        block: NewBlock,
        reserved: Option<u64>,
    },
    Free {
        block: OldBlock,
        reserved: Option<u64>,
    },
    /// The texts of the row are kept beside the records.
    Note {
        event: Event,
        event_type: EventType,
        pointer: Option<u64>,
        texts: Texts,
    },
}

/// Where the texts of a row are among those of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Texts {
    pub(crate) start: u64,
    pub(crate) length: u32,
}

/// A record's bytes on disk.
pub(crate) const RECORD_BYTES: usize = 72;

pub(crate) fn device(id: DeviceId) -> Option<Device> {
    Some(match id {
        DeviceId::Cpu => Device::Cpu,
        DeviceId::Npu(number) => Device::Npu(u16::try_from(number).ok()?),
        DeviceId::Unknown => Device::Unknown,
    })
}

// The tables that give words and enumerations a number on disk, which nobody sees who does not sort.
const POOLS: [Pool; 7] =
    [Pool::Host, Pool::Pinned, Pool::Hal, Pool::PtaCaching, Pool::PtaWorkspace, Pool::Atb, Pool::MindSpore];
const PAGES: [PageSize; 3] = [PageSize::Normal, PageSize::Huge, PageSize::Giant];

fn number_of<T: PartialEq>(table: &[T], value: &T) -> u8 {
    table.iter().position(|known| known == value).unwrap_or(0) as u8
}

/// Which kind of record it is.
const MALLOC: u8 = 0;
const FREE: u8 = 1;
const NOTE: u8 = 2;
/// Bits of the flags.
const NUMBERED: u8 = 1;
const SYNTHETIC: u8 = 2;
const RESERVED: u8 = 4;
const POINTER: u8 = 8;

impl Record {
    /// What the order is by.
    pub(crate) fn order(&self) -> (TimestampNs, u64) {
        (self.time, self.id)
    }

    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.time.0.to_le_bytes());
        put(&self.id.to_le_bytes());
        put(&self.thread.to_le_bytes());
        put(&self.stack.0.to_le_bytes());
        put(&device_number(self.device).to_le_bytes());
        put(&self.file.to_le_bytes());
        // Of all kinds: three large numbers, a small one, four bytes.
        let (kind, numbers, small, details) = match self.what {
            What::Malloc { block, reserved } => {
                let numbers = [block.id.map_or(0, |id| id.0), block.address, block.size, reserved.unwrap_or(0)];
                let flags = flag(NUMBERED, block.id.is_some())
                    | flag(SYNTHETIC, block.synthetic)
                    | flag(RESERVED, reserved.is_some());
                let (origin, module, page) = origin_numbers(block.origin);
                (MALLOC, numbers, block.owner.0, [number_of(&POOLS, &block.pool), flags, origin, module, page])
            }
            What::Free { block, reserved } => {
                let numbers = [block.id.map_or(0, |id| id.0), block.address, 0, reserved.unwrap_or(0)];
                let flags = flag(NUMBERED, block.id.is_some())
                    | flag(SYNTHETIC, block.synthetic)
                    | flag(RESERVED, reserved.is_some());
                (FREE, numbers, 0, [number_of(&POOLS, &block.pool), flags, 0, 0, 0])
            }
            What::Note { event, event_type, pointer, texts } => {
                let numbers = [pointer.unwrap_or(0), texts.start, 0, 0];
                let flags = flag(POINTER, pointer.is_some());
                (NOTE, numbers, texts.length, [event.number(), flags, event_type.number(), 0, 0])
            }
        };
        put(&[kind]);
        numbers.iter().for_each(|number| put(&number.to_le_bytes()));
        put(&small.to_le_bytes());
        put(&details);
        bytes
    }

    /// `None` if the bytes are of no record: whoever may write into the temporary file may do so.
    pub(crate) fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        let mut fields = Fields(bytes);
        let (time, id) = (TimestampNs(fields.long()?), fields.long()?);
        let (thread, stack) = (fields.int()?, StackId(fields.int()?));
        let device = device_of_number(fields.int()?);
        let file = u16::from_le_bytes(fields.take()?);
        let [kind] = fields.take()?;
        let numbers = [fields.long()?, fields.long()?, fields.long()?, fields.long()?];
        let small = fields.int()?;
        let [first, flags, third, fourth, fifth]: [u8; 5] = fields.take()?;
        let has = |bit: u8| flags & bit != 0;
        let block = has(NUMBERED).then_some(BlockId(numbers[0]));
        let (address, synthetic) = (numbers[1], has(SYNTHETIC));
        let reserved = has(RESERVED).then_some(numbers[3]);
        let what = match kind {
            MALLOC => What::Malloc {
                block: NewBlock {
                    id: block,
                    device,
                    pool: *POOLS.get(usize::from(first))?,
                    origin: origin_of_numbers(third, fourth, fifth)?,
                    address,
                    size: numbers[2],
                    owner: OwnerId(small),
                    synthetic,
                },
                reserved,
            },
            FREE => What::Free {
                block: OldBlock { id: block, device, pool: *POOLS.get(usize::from(first))?, address, synthetic },
                reserved,
            },
            NOTE => What::Note {
                event: Event::of_number(first)?,
                event_type: EventType::of_number(third)?,
                pointer: has(POINTER).then_some(numbers[0]),
                texts: Texts { start: numbers[1], length: small },
            },
            _ => return None,
        };
        Some(Record { time, id, thread, stack, device, file, what })
    }
}

fn flag(bit: u8, set: bool) -> u8 {
    if set { bit } else { 0 }
}

const CPU: u32 = 1 << 16;
const UNKNOWN: u32 = CPU + 1;

fn device_number(device: Device) -> u32 {
    match device {
        Device::Npu(number) => u32::from(number),
        Device::Cpu => CPU,
        Device::Unknown => UNKNOWN,
    }
}

fn device_of_number(number: u32) -> Device {
    match u16::try_from(number) {
        Ok(number) => Device::Npu(number),
        Err(_) if number == CPU => Device::Cpu,
        Err(_) => Device::Unknown,
    }
}

fn origin_numbers(origin: Origin) -> (u8, u8, u8) {
    match origin {
        Origin::Heap => (0, 0, 0),
        Origin::Mapping => (1, 0, 0),
        Origin::Driver(traits) => (2, traits.module, number_of(&PAGES, &traits.page)),
        Origin::DriverHandle(traits) => (3, traits.module, number_of(&PAGES, &traits.page)),
        Origin::Registered => (4, 0, 0),
        Origin::Region => (5, 0, 0),
    }
}

fn origin_of_numbers(origin: u8, module: u8, page: u8) -> Option<Origin> {
    let traits = DriverTraits { module, page: *PAGES.get(usize::from(page))? };
    Some(match origin {
        0 => Origin::Heap,
        1 => Origin::Mapping,
        2 => Origin::Driver(traits),
        3 => Origin::DriverHandle(traits),
        4 => Origin::Registered,
        5 => Origin::Region,
        _ => return None,
    })
}

/// What of a record's bytes is still to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn int(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn records() -> impl Strategy<Value = Record> {
        let device = prop_oneof![Just(Device::Cpu), Just(Device::Unknown), any::<u16>().prop_map(Device::Npu)];
        let pool = proptest::sample::select(POOLS.to_vec());
        let origin = (0u8..6, any::<u8>(), 0u8..3).prop_map(|(origin, module, page)| match origin {
            2 | 3 => origin_of_numbers(origin, module, page).unwrap(),
            plain => origin_of_numbers(plain, 0, 0).unwrap(),
        });
        let numbers = (any::<Option<u64>>(), any::<u64>(), any::<u64>(), any::<Option<u64>>());
        let others = (0u64..9, 0u64..5, any::<u32>(), any::<u32>(), any::<u16>(), any::<u32>(), any::<bool>());
        (device, pool, origin, numbers, others, 0u8..3, (0u8..9, 0u8..20)).prop_map(
            |(device, pool, origin, (id, address, size, reserved), others, kind, (event, event_type))| {
                let (time, number, thread, stack, file, owner, synthetic) = others;
                let what = match kind {
                    0 => What::Malloc {
                        block: NewBlock {
                            id: id.map(BlockId),
                            device,
                            pool,
                            origin,
                            address,
                            size,
                            owner: OwnerId(owner),
                            synthetic,
                        },
                        reserved,
                    },
                    1 => What::Free {
                        block: OldBlock { id: id.map(BlockId), device, pool, address, synthetic },
                        reserved,
                    },
                    _ => What::Note {
                        event: Event::of_number(event).unwrap(),
                        event_type: EventType::of_number(event_type).unwrap(),
                        pointer: id,
                        texts: Texts { start: address, length: owner },
                    },
                };
                Record { time: TimestampNs(time), id: number, thread, stack: StackId(stack), device, file, what }
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_comes_back_from_its_bytes(record in records()) {
            prop_assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }

        #[test]
        fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), RECORD_BYTES)) {
            Record::from_bytes(bytes.as_slice().try_into().unwrap());
        }
    }
}

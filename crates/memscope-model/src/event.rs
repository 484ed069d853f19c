//! What happened to memory, and in which words.
use crate::StackId;
use std::fmt;

/// Where the memory is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Device {
    Cpu,
    Npu(u8),
    Unknown,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Npu(number) => write!(f, "{number}"),
            Device::Unknown => f.write_str("N/A"),
        }
    }
}

/// Who hands the memory out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pool {
    /// The C library's heap and the mappings of the process.
    Host,
}

impl Pool {
    /// The `Event Type` of the pool's allocations and frees.
    pub fn event_type(self) -> &'static str {
        match self {
            Pool::Host => "HOST",
        }
    }
}

/// The number of a block within its process, from 1 in the order in which blocks appear: the `allocation_id`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    Malloc,
    Free,
}

/// Which kind of call made the block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// The malloc family.
    Heap,
    /// `mmap` and its kin.
    Mapping,
}

/// A block begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryEvent {
    /// From 0 upwards without gaps, in the order of the stream.
    pub id: u64,
    /// Nanoseconds since the epoch; never less than in the event before.
    pub time_ns: u64,
    pub thread: u32,
    pub device: Device,
    pub pool: Pool,
    pub action: Action,
    pub origin: Origin,
    pub address: u64,
    /// The size of the block, in a free too; 0 in a free that is not matched.
    pub size: u64,
    pub block: BlockId,
    /// The stack of this call: in a free, of the freeing call if it was recorded.
    pub stack: StackId,
    /// The stack of the call that made the block; in an allocation the same as `stack`.
    pub allocation_stack: StackId,
    /// Live bytes of this device and pool after the event.
    pub total: u64,
    /// False in the free of a block whose allocation was never seen; such a block has a number of its own.
    pub matched: bool,
    /// No call of its own in the program, only what keeps the books right: the end of a block whose memory was handed
    /// out again without a recorded free, or was mapped over, and the beginning of what a partial unmapping left.
    pub synthetic: bool,
}

//! What a replay came to.
use crate::facts::{Damage, NothingChosen, Problem, Stopped};
use crate::{Block, Device, KernelCounts, Names, Owners, Pool, RefusedCall, StackId, Steps, TimestampNs};

/// The sums of a whole replay, or of its part up to where a sink broke off.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Allocations and frees given to the sinks, synthetic ones included.
    pub events: u64,
    /// Those of them that the user chose to see.
    pub chosen_events: u64,
    /// Other events given to the sinks.
    pub notes: u64,
    /// Of all devices, given to the sinks or not.
    pub mallocs: u64,
    pub frees: u64,
    /// Frees of blocks whose allocation was never seen; of device memory, which gives no event, and of host memory.
    pub unmatched_frees: u64,
    /// Blocks that ended because their address was allocated again.
    pub replaced_blocks: u64,
    /// Unmappings that touched no known mapping; they give no event.
    pub unknown_unmaps: u64,
    /// Recorded events that cannot have happened (more memory than an address space holds); they give no event.
    pub implausible_events: u64,
    /// Events whose stack was recorded but the definition of a part of it, or of all, is lost.
    pub events_without_stack: u64,
    /// Events the process could not record, as it counted them itself.
    pub lost_events: u64,
    /// Those of them that came from threads for which there was no window.
    pub lost_without_window: u64,
    /// Records of types this version does not know.
    pub unknown_records: u64,
    /// Why no event was chosen, if the user chose a time (steps, or between `start` and `stop`) that never came.
    pub nothing_chosen: Option<NothingChosen>,
    pub problems: Vec<Problem>,
    /// Allocations that were refused, the first ones.
    pub out_of_memory: Vec<OutOfMemory>,
    /// How many were.
    pub refusals: u64,
    pub kernels: KernelCounts,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Why recording ended before the process did.
    pub stopped: Option<Stopped>,
    /// A sink broke off.
    pub interrupted: bool,
    /// Times of the first and the last event, 0 if there is none.
    pub first_time: TimestampNs,
    pub last_time: TimestampNs,
    /// Calls of the malloc family that made a block, and the most bytes such blocks held.
    pub heap_allocations: u64,
    pub peak_heap_bytes: u64,
    /// The most bytes that usable mappings held.
    pub peak_mapped_bytes: u64,
    /// Address space of the host that was mapped without access, at the end and at most: not part of any pool.
    pub reserved_space: u64,
    pub peak_reserved_space: u64,
    pub steps: Steps,
    /// What the numbers of names and owners in events stand for.
    pub names: Names,
    pub owners: Owners,
    /// One entry for each pool of a device asked for that had an event, in their order.
    pub pools: Vec<PoolUsage>,
    pub(crate) live: Vec<Block>,
}

impl Outcome {
    /// Recording stopped, and the process did not: what was alive then may have been freed since.
    pub fn is_cut_short(&self) -> bool {
        self.stopped.is_some() && self.lost_events > 0
    }

    /// The blocks of the devices asked for that are alive at the end, in the order in which they were allocated.
    pub fn live_blocks(&self) -> impl ExactSizeIterator<Item = &Block> {
        self.live.iter()
    }

    /// For whoever keeps the outcomes of many processes and has no use for their blocks.
    pub fn forget_live_blocks(&mut self) {
        self.live = Vec::new();
    }
}

/// The use of one pool of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolUsage {
    pub device: Device,
    pub pool: Pool,
    pub live_bytes: u64,
    pub live_blocks: u64,
    pub peak_bytes: u64,
    /// When the peak was first reached; 0 if no byte was ever allocated.
    pub peak_time: TimestampNs,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    /// What the pool had reserved at last and at most, if it ever said so.
    pub reserved_bytes: Option<u64>,
    pub peak_reserved_bytes: Option<u64>,
}

impl PoolUsage {
    pub(crate) fn new(device: Device, pool: Pool) -> PoolUsage {
        PoolUsage {
            device,
            pool,
            live_bytes: 0,
            live_blocks: 0,
            peak_bytes: 0,
            peak_time: TimestampNs::default(),
            allocated_bytes: 0,
            freed_bytes: 0,
            reserved_bytes: None,
            peak_reserved_bytes: None,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, size: u64, time: TimestampNs) {
        self.live_bytes += size;
        self.live_blocks += 1;
        self.allocated_bytes = self.allocated_bytes.wrapping_add(size);
        if self.live_bytes > self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            self.peak_time = time;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, size: u64) {
        self.live_bytes -= size;
        self.live_blocks -= 1;
        self.freed_bytes = self.freed_bytes.wrapping_add(size);
    }

    /// Whether `size` more bytes can be: more than any consumer's signed integer holds never were in any program.
    #[inline]
    pub(crate) fn fits(&self, size: u64) -> bool {
        self.live_bytes.checked_add(size).is_some_and(|used| used <= MOST_BYTES)
    }
}

/// The pool that a device's memory comes from at last.
pub(crate) fn lowest_pool(device: Device) -> Pool {
    if device == Device::Cpu { Pool::Host } else { Pool::Hal }
}

pub(crate) const MOST_BYTES: u64 = i64::MAX as u64;

/// An allocation that was refused for want of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    pub time: TimestampNs,
    pub thread: u32,
    pub device: Device,
    pub call: RefusedCall,
    pub size: u64,
    pub stack: StackId,
    /// Live bytes of the device at that moment: in the driver's books, of the host in its own.
    pub used_bytes: u64,
}

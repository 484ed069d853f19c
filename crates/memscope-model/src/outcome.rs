//! What a replay came to.
use crate::{BlockId, Device, Origin, Pool, StackId};

/// The sums of a whole replay, or of its part up to where the visitor broke off.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Events given to the visitor: allocations and frees, synthetic ones included.
    pub events: u64,
    pub mallocs: u64,
    pub frees: u64,
    /// Frees of blocks whose allocation was never seen.
    pub unmatched_frees: u64,
    /// Blocks that ended because their address was allocated again.
    pub replaced_blocks: u64,
    /// Unmappings that touched no known mapping; they give no event.
    pub unknown_unmaps: u64,
    /// Recorded events that cannot have happened (more memory than an address space holds); they give no event.
    pub implausible_events: u64,
    /// Events whose stack was recorded but whose definition is lost.
    pub events_without_stack: u64,
    /// Events the process could not record, as it counted them itself.
    pub lost_events: u64,
    /// Records of types this version does not know.
    pub unknown_records: u64,
    /// What could not be read, one sentence a place.
    pub damage: Vec<String>,
    /// Why recording ended before the process did.
    pub stop_reason: Option<String>,
    /// The visitor broke off.
    pub interrupted: bool,
    /// Times of the first and the last event, 0 if there is none.
    pub first_time_ns: u64,
    pub last_time_ns: u64,
    /// One entry for each device and pool that had an event, in their order.
    pub pools: Vec<PoolUsage>,
    pub(crate) live: Vec<LiveBlock>,
}

impl Outcome {
    /// The blocks alive at the end, in the order in which they were allocated.
    pub fn live_blocks(&self) -> impl ExactSizeIterator<Item = &LiveBlock> {
        self.live.iter()
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
    pub peak_time_ns: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
}

/// A block that was not freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveBlock {
    pub block: BlockId,
    pub device: Device,
    pub pool: Pool,
    pub origin: Origin,
    pub address: u64,
    pub size: u64,
    /// When it was allocated.
    pub time_ns: u64,
    /// Who allocated it.
    pub thread: u32,
    pub stack: StackId,
}

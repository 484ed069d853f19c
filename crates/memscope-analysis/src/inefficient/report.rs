//! What was found.
use memscope_model::{BlockId, Device, Inefficiencies, NameId, OwnerId, Pool, StackId, TimestampNs};

/// What counts as inefficient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InefficiencySettings {
    /// Smaller blocks are left out.
    pub least_bytes: u64,
    /// The kinds that are looked for.
    pub kinds: Inefficiencies,
    /// More operators than this between two accesses make a block idle.
    pub idle_threshold: u64,
}

impl InefficiencySettings {
    pub const DEFAULT_IDLE_THRESHOLD: u64 = 3000;
}

impl Default for InefficiencySettings {
    fn default() -> InefficiencySettings {
        InefficiencySettings {
            least_bytes: 0,
            kinds: Inefficiencies::ALL,
            idle_threshold: Self::DEFAULT_IDLE_THRESHOLD,
        }
    }
}

/// All that a trace says about memory that was held for nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InefficiencyReport {
    /// Most bytes × operators first.
    pub findings: Vec<Inefficiency>,
    /// The pools that had a block, in the order of their first.
    pub pools: Vec<InefficientPool>,
    /// Outermost operators.
    pub operators: u64,
    /// Accesses to blocks, of whatever size.
    pub accesses: u64,
}

/// What one kind of inefficiency cost at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inefficiency {
    /// One of them.
    pub kind: Inefficiencies,
    pub device: Device,
    pub pool: Pool,
    /// Where the blocks were allocated.
    pub stack: StackId,
    pub owner: OwnerId,
    /// The outermost operator that allocated them.
    pub operator: Option<NameId>,
    pub blocks: u64,
    /// How often; a block may be idle more than once.
    pub times: u64,
    /// Of the blocks, once for each time.
    pub bytes: u64,
    /// Sum of bytes × operators that passed while they were held for nothing.
    pub byte_operators: u64,
    /// Bytes of the blocks that were held for nothing when the pool was at its peak.
    pub bytes_at_peak: u64,
    /// The one with the most bytes × operators.
    pub worst: WorstBlock,
}

/// One block, and between which operators it was held for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorstBlock {
    pub block: BlockId,
    pub address: u64,
    pub size: u64,
    /// Operators in between.
    pub operators: u64,
    /// `None`: outside of all operators, or it has no name.
    pub from: Option<NameId>,
    pub to: Option<NameId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InefficientPool {
    pub device: Device,
    pub pool: Pool,
    pub peak_bytes: u64,
    pub peak_time: TimestampNs,
    /// Of the peak: held for nothing at that moment. Without it the peak is lower by at most so much.
    pub bytes_at_peak: u64,
}

//! What is said of the use of pools over time. Plain data.
use crate::held::Held;
use crate::holders::OwnerShare;
use memscope_model::{Device, Pool, StackId, TimestampNs};

#[derive(Clone, PartialEq, Debug)]
pub struct FluctuationReport {
    /// What the gaps are of.
    pub basis: Basis,
    /// How many steps began.
    pub steps: u32,
    /// Pieces of time begin here, one after the other.
    pub bins_from: TimestampNs,
    pub bin_ns: u64,
    /// By device and pool.
    pub pools: Vec<PoolFluctuation>,
}

/// What memory is compared within.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// Steps that ended, from the second on.
    Steps,
    /// No step but the first ended: pieces of time, without the first and the last, in which programs begin and end.
    Time,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PoolFluctuation {
    pub device: Device,
    pub pool: Pool,
    /// `None` if the pool never held a byte in any of them.
    pub gaps: Option<Gaps>,
    /// The steps that ended since the pool appeared, by number.
    pub steps: Vec<StepUse>,
    /// `None` of a time that was not chosen, or before the pool appeared.
    pub bins: Vec<Option<Bin>>,
    /// `None` if it never held a byte in the chosen time.
    pub peak: Option<Peak>,
    /// When most was reserved without being used; `None` of pools that do not tell what they reserve.
    pub worst: Option<Reserve>,
}

/// Where memory fluctuated most and least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gaps {
    /// The smallest ratio of the least to the most in use.
    pub min: Gap,
    /// The largest.
    pub max: Gap,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The number of the step, or of the piece of time, from 1.
    pub number: u32,
    pub least: u64,
    /// Never 0.
    pub most: u64,
}

impl Gap {
    pub fn ratio(&self) -> f64 {
        self.least as f64 / self.most as f64
    }

    fn is_below(&self, other: &Gap) -> bool {
        u128::from(self.least) * u128::from(other.most) < u128::from(other.least) * u128::from(self.most)
    }
}

impl Gaps {
    /// Of two alike the first counts; where nothing was ever in use, there is nothing to compare.
    pub(super) fn of(all: impl Iterator<Item = Gap>) -> Option<Gaps> {
        all.filter(|gap| gap.most > 0).fold(None, |gaps: Option<Gaps>, gap| {
            let Some(Gaps { min, max }) = gaps else { return Some(Gaps { min: gap, max: gap }) };
            let (min, max) = (if gap.is_below(&min) { gap } else { min }, if max.is_below(&gap) { gap } else { max });
            Some(Gaps { min, max })
        })
    }
}

/// What a pool had at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    pub time: TimestampNs,
    pub step: Option<u32>,
    pub used: u64,
    /// As the pool said at last, if it ever did.
    pub reserved: Option<u64>,
}

impl Reserve {
    /// Reserved without being used. In how many pieces is not known.
    pub fn unused(&self) -> u64 {
        self.reserved.unwrap_or(0).saturating_sub(self.used)
    }
}

/// The use of a pool within a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepUse {
    pub number: u32,
    pub least: u64,
    pub most: u64,
    /// In use when the step began and when it ended.
    pub begin: u64,
    pub end: u64,
    pub reserved_at_end: Option<u64>,
    pub most_unused: u64,
}

impl StepUse {
    pub(super) fn new(number: u32, state: &Reserve) -> StepUse {
        let used = state.used;
        StepUse {
            number,
            least: used,
            most: used,
            begin: used,
            end: used,
            reserved_at_end: state.reserved,
            most_unused: state.unused(),
        }
    }

    #[inline]
    pub(super) fn see(&mut self, state: &Reserve) {
        self.least = self.least.min(state.used);
        self.most = self.most.max(state.used);
        self.end = state.used;
        self.reserved_at_end = state.reserved;
        self.most_unused = self.most_unused.max(state.unused());
    }

    pub fn gap(&self) -> Gap {
        Gap { number: self.number, least: self.least, most: self.most }
    }
}

/// The use of a pool within a piece of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bin {
    pub least: u64,
    pub most: u64,
    pub most_reserved: Option<u64>,
    pub most_unused: u64,
}

impl Bin {
    pub(super) fn new(state: &Reserve) -> Bin {
        Bin { least: state.used, most: state.used, most_reserved: state.reserved, most_unused: state.unused() }
    }

    #[inline]
    pub(super) fn see(&mut self, state: &Reserve) {
        *self = self.with(&Bin::new(state));
    }

    #[inline]
    pub(super) fn with(&self, other: &Bin) -> Bin {
        Bin {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            most_reserved: self.most_reserved.max(other.most_reserved),
            most_unused: self.most_unused.max(other.most_unused),
        }
    }
}

/// When most of a pool was in use, and who held it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peak {
    pub at: Reserve,
    pub blocks: u64,
    /// Most bytes first; both sum up to what was in use.
    pub owners: Vec<OwnerShare>,
    pub stacks: Vec<(StackId, Held)>,
}

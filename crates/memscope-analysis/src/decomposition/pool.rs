//! Who owns the memory of one pool.
use super::PoolDecomposition;
use crate::held::{Held, Saved, Shares};
use crate::holders::{Holders, OwnerShare};
use memscope_model::{Action, Device, Pool};
use std::collections::BTreeMap;

/// The moments that are kept: when most of the device was in use, and the one asked for.
pub(super) const DEVICE_PEAK: usize = 0;
pub(super) const ASKED: usize = 1;
/// How often each of them came so far.
pub(super) type Taken = [u64; 2];

#[derive(Clone, Debug)]
pub(super) struct PoolOwners {
    pub(super) device: Device,
    pub(super) pool: Pool,
    /// Index of the device.
    pub(super) of: usize,
    pub(super) reserved: Option<u64>,
    saved_reserved: [Saved<Option<u64>>; 2],
    shares: Shares<2>,
    changes: StepLog,
}

/// What changed from one step's end to the next: no more than that is kept of each.
#[derive(Clone, Debug, Default)]
struct StepLog {
    /// How many steps ended.
    ends: u32,
    /// Holders that changed since the last end; by holder, the end they were noted for.
    changed: Vec<u32>,
    noted: Vec<u32>,
    /// The number of the end, the holder and what it held then.
    shares: Vec<(u32, u32, Held)>,
    reserved: Vec<(u32, Option<u64>)>,
}

impl PoolOwners {
    pub(super) fn new(device: Device, pool: Pool, of: usize, ends: u32) -> PoolOwners {
        PoolOwners {
            device,
            pool,
            of,
            reserved: None,
            saved_reserved: [Saved::default(); 2],
            shares: Shares::default(),
            changes: StepLog { ends, ..StepLog::default() },
        }
    }

    #[inline]
    pub(super) fn change(&mut self, action: Action, size: u64, holder: usize, taken: &Taken) {
        let held = self.shares.changing(holder, taken);
        match action {
            Action::Malloc => held.add(size),
            Action::Free => held.remove(size),
        }
        self.changes.note(holder);
    }

    #[inline]
    pub(super) fn reserve(&mut self, reserved: Option<u64>, taken: &Taken) {
        if reserved != self.reserved {
            for (saved, taken) in self.saved_reserved.iter_mut().zip(taken) {
                saved.before_change(*taken, self.reserved);
            }
            self.reserved = reserved;
        }
    }

    /// A step ends, the next of all that are kept.
    pub(super) fn end_step(&mut self) {
        let PoolOwners { changes, shares, reserved, .. } = self;
        for holder in changes.changed.drain(..) {
            changes.shares.push((changes.ends, holder, shares.live(holder as usize)));
        }
        if changes.reserved.last().is_none_or(|(_, last)| last != reserved) {
            changes.reserved.push((changes.ends, *reserved));
        }
        changes.ends += 1;
    }

    pub(super) fn now(&self, holders: &Holders) -> PoolDecomposition {
        self.decomposed(holders.named(self.shares.now()), self.reserved)
    }

    pub(super) fn at(&self, moment: usize, taken: u64, holders: &Holders) -> PoolDecomposition {
        let reserved = self.saved_reserved[moment].of(taken, self.reserved);
        self.decomposed(holders.named(self.shares.at(moment, taken)), reserved)
    }

    /// At the end of each step since the pool appeared, with the number of that end.
    pub(super) fn at_step_ends(&self, holders: &Holders) -> Vec<(u32, PoolDecomposition)> {
        let StepLog { shares, reserved, ends, .. } = &self.changes;
        let Some(first) = shares.first().map(|(end, ..)| *end) else { return Vec::new() };
        let (mut shares, mut reservations) = (shares.iter().peekable(), reserved.iter().peekable());
        let (mut held, mut reserved) = (BTreeMap::new(), None);
        (first..*ends)
            .map(|end| {
                while let Some((_, holder, share)) = shares.next_if(|(at, ..)| *at <= end) {
                    held.insert(*holder as usize, *share);
                }
                while let Some((_, now)) = reservations.next_if(|(at, _)| *at <= end) {
                    reserved = *now;
                }
                held.retain(|_, share| share.blocks > 0);
                let owners = holders.named(held.iter().map(|(holder, share)| (*holder, *share)));
                (end, self.decomposed(owners, reserved))
            })
            .collect()
    }

    fn decomposed(&self, owners: Vec<OwnerShare>, reserved: Option<u64>) -> PoolDecomposition {
        let used = owners.iter().fold(Held::default(), |sum, OwnerShare { held, .. }| Held {
            bytes: sum.bytes + held.bytes,
            blocks: sum.blocks + held.blocks,
        });
        PoolDecomposition { pool: self.pool, used, reserved, owners }
    }
}

impl StepLog {
    #[inline]
    fn note(&mut self, holder: usize) {
        if holder >= self.noted.len() {
            self.noted.resize(holder + 1, u32::MAX);
        }
        if self.noted[holder] != self.ends {
            self.noted[holder] = self.ends;
            self.changed.push(holder as u32);
        }
    }
}

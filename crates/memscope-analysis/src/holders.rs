//! Who blocks belong to: their owner, or, where they have none, the kind of call that made them.
use crate::held::Held;
use memscope_model::{Origin, OwnerId, Owners};
use std::cmp::Reverse;

/// Whose a share is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Holder {
    /// An owner's words, levels joined by `@`.
    Owner(String),
    Unlabelled(Making),
}

/// Which kind of call made a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Making {
    Heap,
    Mapping,
    Driver,
    DriverHandle,
    Registered,
    Region,
}

const MAKINGS: [Making; 6] =
    [Making::Heap, Making::Mapping, Making::Driver, Making::DriverHandle, Making::Registered, Making::Region];

impl Making {
    fn of(origin: Origin) -> Making {
        match origin {
            Origin::Heap => Making::Heap,
            Origin::Mapping => Making::Mapping,
            Origin::Driver(_) => Making::Driver,
            Origin::DriverHandle(_) => Making::DriverHandle,
            Origin::Registered => Making::Registered,
            Origin::Region => Making::Region,
        }
    }
}

/// What one holder held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerShare {
    pub holder: Holder,
    pub held: Held,
}

/// Numbers holders from 0, densely, and remembers their words: those of the trace are gone with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders {
    words: Vec<Option<String>>,
}

impl Holders {
    /// The number of whoever holds such a block.
    #[inline]
    pub(crate) fn number(&mut self, owner: OwnerId, origin: Origin, owners: &Owners) -> usize {
        if owner == OwnerId::NONE {
            return Making::of(origin) as usize;
        }
        let index = owner.0 as usize - 1;
        if self.words.get(index).is_none_or(Option::is_none) {
            self.learn(index, owner, owners);
        }
        MAKINGS.len() + index
    }

    #[cold]
    fn learn(&mut self, index: usize, owner: OwnerId, owners: &Owners) {
        if index >= self.words.len() {
            self.words.resize(index + 1, None);
        }
        self.words[index] = owners.name(owner).map(str::to_owned);
    }

    /// Shares by number, with their words, most bytes first.
    pub(crate) fn named(&self, shares: impl Iterator<Item = (usize, Held)>) -> Vec<OwnerShare> {
        let mut named: Vec<OwnerShare> = shares
            .map(|(number, held)| {
                let words = number.checked_sub(MAKINGS.len()).and_then(|index| self.words.get(index)?.clone());
                let unlabelled = || Holder::Unlabelled(MAKINGS.get(number).copied().unwrap_or(Making::Region));
                OwnerShare { holder: words.map_or_else(unlabelled, Holder::Owner), held }
            })
            .collect();
        named.sort_unstable_by(|a, b| (Reverse(a.held.bytes), &a.holder).cmp(&(Reverse(b.held.bytes), &b.holder)));
        named
    }
}

//! What is known of a block only later than its row: found in a first pass, written in a second.
//!
//! Numbers of blocks are the same in every pass over a trace. Only blocks that have something to be said of are kept.
use crate::BlockId;
use rustc_hash::FxHashMap;
use std::fmt;

/// Ways to hold memory for nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Inefficiencies(u8);

impl Inefficiencies {
    pub const NONE: Inefficiencies = Inefficiencies(0);
    /// Allocated long before its first use.
    pub const EARLY_ALLOCATION: Inefficiencies = Inefficiencies(1);
    /// Freed long after its last use.
    pub const LATE_DEALLOCATION: Inefficiencies = Inefficiencies(2);
    /// Unused for long between two uses.
    pub const TEMPORARY_IDLENESS: Inefficiencies = Inefficiencies(4);

    pub const ALL: Inefficiencies = Inefficiencies(7);
    /// One by one, in the order in which files name them.
    pub const KINDS: [Inefficiencies; 3] =
        [Inefficiencies::EARLY_ALLOCATION, Inefficiencies::LATE_DEALLOCATION, Inefficiencies::TEMPORARY_IDLENESS];
    const WORDS: [&'static str; 3] = ["early_allocation", "late_deallocation", "temporary_idleness"];

    /// The names of all that are in it.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let named = Inefficiencies::KINDS.into_iter().zip(Inefficiencies::WORDS);
        named.filter(move |(kind, _)| self.contains(*kind)).map(|(_, word)| word)
    }

    pub fn from_word(text: &str) -> Option<Inefficiencies> {
        let place = Inefficiencies::WORDS.iter().position(|word| *word == text)?;
        Some(Inefficiencies::KINDS[place])
    }

    pub const fn contains(self, other: Inefficiencies) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Separated by commas, as files have it.
impl fmt::Display for Inefficiencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, word) in self.words().enumerate() {
            write!(f, "{}{word}", if place > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl std::ops::BitOrAssign for Inefficiencies {
    fn bitor_assign(&mut self, other: Inefficiencies) {
        self.0 |= other.0;
    }
}

/// What was found out about blocks.
#[derive(Clone, Debug, Default)]
pub struct Annotations(FxHashMap<BlockId, Inefficiencies>);

impl Annotations {
    pub fn get(&self, block: BlockId) -> Inefficiencies {
        self.0.get(&block).copied().unwrap_or_default()
    }

    pub fn add_inefficiencies(&mut self, block: BlockId, found: Inefficiencies) {
        *self.0.entry(block).or_default() |= found;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (BlockId, Inefficiencies)> + '_ {
        self.0.iter().map(|(block, found)| (*block, *found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_adds_up_and_nothing_is_said_of_others() {
        let mut annotations = Annotations::default();
        annotations.add_inefficiencies(BlockId(3), Inefficiencies::EARLY_ALLOCATION);
        annotations.add_inefficiencies(BlockId(3), Inefficiencies::TEMPORARY_IDLENESS);
        let found = annotations.get(BlockId(3));
        assert!(found.contains(Inefficiencies::TEMPORARY_IDLENESS));
        assert!(!found.contains(Inefficiencies::LATE_DEALLOCATION));
        assert_eq!(annotations.get(BlockId(4)), Inefficiencies::NONE);
        assert_eq!(annotations.iter().map(|(block, _)| block).collect::<Vec<_>>(), [BlockId(3)]);
    }

    #[test]
    fn each_kind_has_a_word() {
        assert!(Inefficiencies::ALL.words().map(Inefficiencies::from_word).eq(Inefficiencies::KINDS.map(Some)));
        assert_eq!(Inefficiencies::ALL.to_string(), "early_allocation,late_deallocation,temporary_idleness");
        assert_eq!((Inefficiencies::NONE.words().count(), Inefficiencies::from_word("early")), (0, None));
    }
}

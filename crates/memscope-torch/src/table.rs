//! The operators seen so far, with what is known of them, for all threads.
use crate::operator::Facts;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// A table that only grows; torch has some three thousand operators, and a program uses a few hundred. Each goes by the number
/// of its place.
pub struct Table {
    places: [Entry; Table::SIZE],
}

/// A cache line.
#[repr(C, align(64))]
struct Entry {
    /// 0 while it is free, [`BUSY`] while it is filled.
    key: AtomicUsize,
    identity: [AtomicUsize; 2],
    facts: [AtomicU64; 4],
    epoch: AtomicU32,
}

/// No key.
const BUSY: usize = 2;

/// What came of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    Known(u32, Facts),
    /// It is not what it seems.
    Refused,
    /// There is no place for it.
    Full,
}

impl Table {
    pub const SIZE: usize = 4096;
    const LONGEST_SEARCH: usize = 64;

    pub const fn new() -> Table {
        Table { places: [const { Entry::free() }; Table::SIZE] }
    }

    /// The operator of that key, which is greater than [`BUSY`], and, unless it stays for ever, of that identity. What is not known
    /// yet, or was found in another epoch, is asked for.
    #[inline(always)]
    pub fn find(
        &self,
        key: usize,
        identity: impl Fn() -> [usize; 2],
        epoch: u32,
        ask: impl Fn() -> Option<Facts>,
    ) -> Found {
        let first = spread(key);
        for step in 0..Self::LONGEST_SEARCH {
            let number = (first + step) % Self::SIZE;
            let Some(entry) = self.places.get(number) else { return Found::Full };
            let there = entry.key.load(Acquire);
            if there == key && (entry.facts[0].load(Relaxed) & Facts::STAYS != 0 || entry.has(identity())) {
                if entry.epoch.load(Relaxed) != epoch {
                    let Some(facts) = ask() else { return Found::Refused };
                    entry.keep(facts, epoch);
                }
                return Found::Known(number as u32, entry.facts());
            }
            if there == 0 {
                return self.add(number, key, identity(), epoch, ask);
            }
        }
        Found::Full
    }

    /// What is known of the operator that goes by a number.
    #[inline(always)]
    pub fn of_number(&self, number: u32) -> Option<Facts> {
        self.places.get(number as usize).map(Entry::facts)
    }

    #[cold]
    fn add(
        &self,
        first: usize,
        key: usize,
        identity: [usize; 2],
        epoch: u32,
        ask: impl Fn() -> Option<Facts>,
    ) -> Found {
        let Some(facts) = ask() else { return Found::Refused };
        for step in 0..Self::LONGEST_SEARCH {
            let number = (first + step) % Self::SIZE;
            let Some(entry) = self.places.get(number) else { return Found::Full };
            // Of two threads that add the same, each may get a place: it goes by two numbers then.
            if entry.key.compare_exchange(0, BUSY, AcqRel, Relaxed).is_ok() {
                for (place, word) in entry.identity.iter().zip(identity) {
                    place.store(word, Relaxed);
                }
                entry.keep(facts, epoch);
                entry.key.store(key, Release);
                return Found::Known(number as u32, facts);
            }
        }
        Found::Full
    }
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            key: AtomicUsize::new(0),
            identity: [const { AtomicUsize::new(0) }; 2],
            facts: [const { AtomicU64::new(0) }; 4],
            epoch: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    fn has(&self, identity: [usize; 2]) -> bool {
        self.identity.iter().zip(identity).all(|(place, word)| place.load(Relaxed) == word)
    }

    fn keep(&self, facts: Facts, epoch: u32) {
        for (place, word) in self.facts.iter().zip(facts.to_words()) {
            place.store(word, Relaxed);
        }
        self.epoch.store(epoch, Relaxed);
    }

    #[inline(always)]
    fn facts(&self) -> Facts {
        Facts::from_words(core::array::from_fn(|word| self.facts.get(word).map_or(0, |place| place.load(Relaxed))))
    }
}

#[inline(always)]
fn spread(key: usize) -> usize {
    (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - 12)
}

/// The key of an operator that is known by its name only.
pub fn key_of_name(name: &[u8]) -> usize {
    let hash = name
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    // Odd, as no address of a schema is.
    hash as usize | 5
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    fn facts(arguments: u64) -> Facts {
        Facts::from_words([arguments, 0, 0, 0])
    }

    #[test]
    fn an_operator_is_asked_for_once_and_keeps_its_number() {
        let table = Table::new();
        let asked = Cell::new(0);
        let look = |key, identity| {
            table.find(
                key,
                || [identity, 0],
                1,
                || {
                    asked.set(asked.get() + 1);
                    Some(facts(asked.get()))
                },
            )
        };
        let first = look(0x1000, 7);
        assert!(matches!(first, Found::Known(..)));
        assert_eq!((look(0x1000, 7), asked.get()), (first, 1));
        // Another at the same address.
        assert_ne!(look(0x1000, 8), first);
        assert_eq!((look(0x1000, 7), asked.get()), (first, 2));
    }

    #[test]
    fn of_an_operator_that_stays_the_identity_is_not_asked() {
        let table = Table::new();
        let stays = || Some(facts(Facts::STAYS));
        let first = table.find(0x1000, || [7, 0], 1, stays);
        assert_eq!(table.find(0x1000, || unreachable!(), 1, stays), first);
    }

    #[test]
    fn another_epoch_asks_again() {
        let table = Table::new();
        let Found::Known(number, _) = table.find(0x1000, || [1, 1], 1, || Some(facts(3))) else { panic!() };
        assert_eq!(table.find(0x1000, || [1, 1], 2, || Some(facts(4))), Found::Known(number, facts(4)));
        assert_eq!(table.find(0x1000, || [1, 1], 2, || None), Found::Known(number, facts(4)));
        assert_eq!(table.find(0x1000, || [1, 1], 3, || None), Found::Refused);
    }

    #[test]
    fn a_full_table_says_so() {
        let table = Table::new();
        let numbers: Vec<Found> =
            (1..10_000usize).map(|key| table.find(key * 8, || [0, 0], 1, || Some(facts(1)))).collect();
        assert!(numbers.contains(&Found::Full));
        let mut known: Vec<u32> = numbers
            .iter()
            .filter_map(|found| if let Found::Known(number, _) = found { Some(*number) } else { None })
            .collect();
        let count = known.len();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), count);
        assert!(count > Table::SIZE / 2);
    }
}

//! The process's unwind rows by return address, or by the address a signal interrupted.
use super::row::Row;
use crate::tables::hash;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// Which address, looked up how, at which unload epoch.
///
/// ```text
///  63    48 47     46       0
/// ┌────────┬──────┬──────────┐
/// │ epoch  │exact │ address  │
/// └────────┴──────┴──────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RowKey(u64);

const EXACT: u64 = 1 << 47;
const EPOCH_SHIFT: u32 = 48;
/// An entry somebody is just writing; no address is this low.
const BUSY: u64 = 1;

impl RowKey {
    /// `exact`: the row at the address itself (an interrupted instruction), not the one of the call before it.
    /// `None` for an address beyond 47 bits, which no program of ours has code at.
    #[inline]
    pub(super) fn new(address: usize, exact: bool, epoch: u32) -> Option<RowKey> {
        let address = address as u64;
        (address < EXACT).then_some(RowKey(address | u64::from(exact) << 47 | u64::from(epoch) << EPOCH_SHIFT))
    }

    /// The first entry of the key's set. Addresses of the same 16 KiB of code share a page of the table, so that a short
    /// process touches few.
    #[inline]
    fn set(self) -> usize {
        const PAGE_BITS: u32 = 8;
        const REGION_SHIFT: u32 = 14;
        let address = self.0 & (EXACT - 1);
        let page = hash(address >> REGION_SHIFT) >> (64 - (CAPACITY_BITS - PAGE_BITS));
        let within = hash(address) >> (64 - PAGE_BITS);
        (page << PAGE_BITS | within) as usize & !(WAYS - 1)
    }

    fn is_same_epoch(self, other: u64) -> bool {
        (self.0 ^ other) >> EPOCH_SHIFT == 0
    }
}

/// 262 144 rows in 4 MiB of which only touched pages exist.
const CAPACITY_BITS: u32 = 18;
const CAPACITY: usize = 1 << CAPACITY_BITS;
/// A key is in one of the entries of its set, which are one cache line, or not in the table.
const WAYS: usize = 4;

struct Entry {
    key: AtomicU64,
    row: AtomicU64,
}

/// Sets of a few entries, without locks. An entry is written by whoever swaps its key for `BUSY`: then the row, then the
/// new key. A reader takes key, row, key again and believes the row only if both keys are its own, so that an entry may
/// be given to another key while somebody reads it. A writer that dies in between (a signal, a fork) costs one entry.
///
/// A full set gives up one of its entries: large programs run through hundreds of thousands of call sites once, while
/// they start, and must not keep the table from those they stay at.
static TABLE: AtomicPtr<Entry> = AtomicPtr::new(null_mut());

/// To be called with each new unload epoch before it begins: the key holds 16 bits of it, and before they come round again
/// nothing of their first time may be left.
pub(super) fn epoch_begins(epoch: u32) {
    if epoch as u16 == 0 {
        wipe();
    }
}

fn wipe() {
    let Some(table) = NonNull::new(TABLE.load(Ordering::Acquire)) else { return };
    for at in 0..CAPACITY {
        // SAFETY: the table has CAPACITY entries, is never unmapped, and atomics may be shared.
        let entry = unsafe { table.add(at).as_ref() };
        let key = entry.key.load(Ordering::Relaxed);
        if key != BUSY {
            // Losing the race means that somebody writes a row of now.
            let _ = entry.key.compare_exchange(key, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[inline]
pub(super) fn find(key: RowKey) -> Option<Row> {
    let table = NonNull::new(TABLE.load(Ordering::Acquire))?;
    let set = key.set();
    for way in 0..WAYS {
        // SAFETY: sets lie within CAPACITY, the table is never unmapped, and atomics may be shared.
        let entry = unsafe { table.add(set + way).as_ref() };
        if entry.key.load(Ordering::Acquire) == key.0 {
            let row = entry.row.load(Ordering::Acquire);
            return (entry.key.load(Ordering::Relaxed) == key.0).then_some(Row::from_word(row));
        }
    }
    None
}

/// Keeps the row, in place of a stale one if there is one, else of any in the set.
#[cold]
pub(super) fn insert(key: RowKey, row: Row) {
    /// Who gives way, in turn.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let Some(table) = table_or_new() else { return };
    let set = key.set();
    // SAFETY: as in `find`.
    let entry_at = |way: usize| unsafe { table.add(set + way % WAYS).as_ref() };
    let stale = (0..WAYS).find(|way| {
        let found = entry_at(*way).key.load(Ordering::Relaxed);
        found == 0 || (found != BUSY && !key.is_same_epoch(found))
    });
    let entry = entry_at(stale.unwrap_or_else(|| TURN.fetch_add(1, Ordering::Relaxed)));
    let found = entry.key.load(Ordering::Relaxed);
    if found != BUSY && entry.key.compare_exchange(found, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        // Pairs with the acquiring load of the row: who sees the new row sees that the old key is gone.
        fence(Ordering::Release);
        entry.row.store(row.word(), Ordering::Relaxed);
        entry.key.store(key.0, Ordering::Release);
    }
}

fn table_or_new() -> Option<NonNull<Entry>> {
    if let Some(table) = NonNull::new(TABLE.load(Ordering::Acquire)) {
        return Some(table);
    }
    const LENGTH: usize = CAPACITY * size_of::<Entry>();
    let fresh = memscope_sys::map_anonymous(LENGTH).ok()?;
    match TABLE.compare_exchange(null_mut(), fresh.as_ptr().cast(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh.cast()),
        Err(winner) => {
            // SAFETY: nobody else has seen this mapping.
            unsafe { memscope_sys::unmap(fresh, LENGTH) };
            NonNull::new(winner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{Cfa, SavedFp};
    use super::*;

    #[test]
    fn a_row_is_found_at_its_own_address_and_epoch_only() {
        let row = Row::new(Cfa::Sp { offset: 24 }, SavedFp::Same);
        let address = 0x1234_5678_9abc;
        insert(RowKey::new(address, false, 7).unwrap(), row);
        assert!(find(RowKey::new(address, false, 7).unwrap()) == Some(row));
        assert!(find(RowKey::new(address, false, 8).unwrap()).is_none());
        assert!(find(RowKey::new(address, true, 7).unwrap()).is_none());
        assert!(find(RowKey::new(address + 1, false, 7).unwrap()).is_none());
        assert!(RowKey::new(1 << 47, false, 7).is_none());
    }

    #[test]
    fn a_full_set_takes_the_newest_row() {
        let row = Row::new(Cfa::Sp { offset: 40 }, SavedFp::Same);
        let rows = 4 * CAPACITY;
        let found = (0..rows).filter(|number| {
            let key = RowKey::new(0x2000_0000_0000 + number * 64, false, 3).unwrap();
            insert(key, row);
            find(key) == Some(row)
        });
        // All but those that other tests, which use the same table, have displaced in between.
        assert!(found.count() > rows / 100 * 99);
    }

    #[test]
    fn concurrent_writers_of_changing_epochs_never_mix_rows() {
        let row_of = |address: usize, epoch: u32| {
            Row::new(Cfa::Sp { offset: (address >> 4 & 0xff_ffff) as i32 }, SavedFp::AtCfa(epoch as i32))
        };
        let all_hits = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let all_hits = &all_hits;
                scope.spawn(move || {
                    let mut state = thread as u64 + 1;
                    let mut hits = 0;
                    for round in 0..200_000u32 {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        // All in one page of the table, twice as many as it has entries.
                        let address = 0x5000_0000_0000 + ((state >> 40) as usize & 0x1ff) * 16;
                        let epoch = 0x4000 + (round / 5000);
                        let key = RowKey::new(address, false, epoch).unwrap();
                        match find(key) {
                            Some(row) => {
                                hits += 1;
                                assert!(row == row_of(address, epoch));
                            }
                            None => insert(key, row_of(address, epoch)),
                        }
                    }
                    all_hits.fetch_add(hits, Ordering::Relaxed);
                });
            }
        });
        // Threads that are in different epochs take entries from each other, but not all the time.
        assert!(all_hits.into_inner() > 10_000);
    }
}

//! Unwind rows, one word each, and the process-wide cache that finds them by return address.
//!
//! A row is what `.eh_frame` says for one address, reduced to what stack walking needs: where the canonical frame
//! address is, and where the caller's frame pointer was saved.
//!
//! Rows a lane asked for lately are also in a small table of its own ([`NearRows`]): a loop in a large program needs a
//! thousand of them, which the large table spreads over as many cache lines and hundreds of pages.
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// How to find the canonical frame address (the stack pointer before the call that made this frame).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cfa {
    Sp {
        offset: i32,
    },
    Fp {
        offset: i32,
    },
    /// What lies at stack pointer + `offset`, plus `add`.
    AtSp {
        offset: i32,
        add: u8,
    },
    /// What lies at frame pointer + `offset`, plus `add`: gcc's realigned frames.
    AtFp {
        offset: i32,
        add: u8,
    },
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SavedFp {
    /// Still in the register.
    Same,
    AtCfa(i32),
    AtFp(i32),
    AtSp(i32),
}

/// ```text
///  63            32 31           5 4   3 2     1     0
/// ┌────────────────┬──────────────┬─────┬───┬─────┬────┐
/// │ CFA offset     │ fp offset    │ fp  │ 1 │deref│base│   a row that can be stepped over; base: 0 sp, 1 fp;
/// └────────────────┴──────────────┴─────┴───┴─────┴────┘   with deref the offset is 24 bits and 8 bits of `add`
///   0 in all other bits                   0   kind         kind: 0 unknown, 1 end of stack, 2 signal frame
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Row(u64);

const FP_BASED: u64 = 1;
const DEREF: u64 = 1 << 1;
const STEPPABLE: u64 = 1 << 2;
const SAVED_SHIFT: u32 = 3;
const SAVED_MASK: u64 = 3;

impl Row {
    /// Nothing usable is known about the address: the walk ends there.
    pub(super) const UNKNOWN: Row = Row(0);
    /// The outermost frame of a thread.
    pub(super) const END: Row = Row(1);
    /// The kernel's signal trampoline: the interrupted registers lie on the stack.
    pub(super) const SIGNAL: Row = Row(2);

    /// `UNKNOWN` where an offset does not fit.
    pub(super) fn new(cfa: Cfa, saved: SavedFp) -> Row {
        let (kind, offset) = match cfa {
            Cfa::Sp { offset } => (0, Some(offset)),
            Cfa::Fp { offset } => (FP_BASED, Some(offset)),
            Cfa::AtSp { offset, add } => (DEREF, with_add(offset, add)),
            Cfa::AtFp { offset, add } => (DEREF | FP_BASED, with_add(offset, add)),
        };
        let (saved_kind, saved_offset) = match saved {
            SavedFp::Same => (0, 0),
            SavedFp::AtCfa(offset) => (1, offset),
            SavedFp::AtFp(offset) => (2, offset),
            SavedFp::AtSp(offset) => (3, offset),
        };
        let Some(offset) = offset else { return Row::UNKNOWN };
        if saved_offset.abs() >= 1 << 26 {
            return Row::UNKNOWN;
        }
        let low = (saved_offset as u32) << 5 | saved_kind << SAVED_SHIFT;
        Row(u64::from(offset as u32) << 32 | u64::from(low) | STEPPABLE | kind)
    }

    #[inline]
    pub(super) fn is_steppable(self) -> bool {
        self.0 & STEPPABLE != 0
    }

    #[inline]
    pub(super) fn is_fp_based(self) -> bool {
        self.0 & FP_BASED != 0
    }

    #[inline]
    pub(super) fn is_deref(self) -> bool {
        self.0 & DEREF != 0
    }

    /// Offset from the base register to the CFA; of a row without deref.
    #[inline]
    pub(super) fn cfa_offset(self) -> isize {
        (self.0 as i64 >> 32) as isize
    }

    /// Offset from the base register to the word that holds the CFA, and what to add to it; of a row with deref.
    pub(super) fn cfa_word(self) -> (isize, usize) {
        let field = self.cfa_offset();
        (field >> 8, field as u8 as usize)
    }

    /// The caller's frame pointer is still in the register.
    #[inline]
    pub(super) fn keeps_fp(self) -> bool {
        self.0 & (SAVED_MASK << SAVED_SHIFT) == 0
    }

    /// The next frame follows from the stack pointer alone: no frame pointer, no word in memory.
    #[inline]
    pub(super) fn needs_sp_only(self) -> bool {
        self.0 & (FP_BASED | DEREF | 2 << SAVED_SHIFT) == 0
    }

    /// What is added to the base of the place where the frame pointer was saved.
    #[inline]
    pub(super) fn saved_offset(self) -> isize {
        (self.0 as i32 >> 5) as isize
    }

    /// What nearly all rows are: steppable, CFA relative to a register, frame pointer kept or saved relative to the CFA.
    #[inline]
    pub(super) fn is_simple(self) -> bool {
        self.0 & (STEPPABLE | DEREF | 2 << SAVED_SHIFT) == STEPPABLE
    }

    #[inline]
    pub(super) fn saved_fp(self) -> SavedFp {
        let offset = self.saved_offset() as i32;
        match self.0 >> SAVED_SHIFT & SAVED_MASK {
            0 => SavedFp::Same,
            1 => SavedFp::AtCfa(offset),
            2 => SavedFp::AtFp(offset),
            _ => SavedFp::AtSp(offset),
        }
    }
}

fn with_add(offset: i32, add: u8) -> Option<i32> {
    (offset.abs() < 1 << 23).then_some(offset << 8 | i32::from(add))
}

/// Which address, looked up how, at which unload epoch.
///
/// ```text
///  63    48 47     46       0
/// ┌────────┬──────┬──────────┐
/// │ epoch  │exact │ address  │
/// └────────┴──────┴──────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

const EXACT: u64 = 1 << 47;
const EPOCH_SHIFT: u32 = 48;
/// An entry somebody is just writing; no address is this low.
const BUSY: u64 = 1;

impl Key {
    /// `exact`: the row at the address itself (an interrupted instruction), not the one of the call before it.
    /// `None` for an address beyond 47 bits, which no program of ours has code at.
    #[inline]
    pub(super) fn new(address: usize, exact: bool, epoch: u32) -> Option<Key> {
        let address = address as u64;
        (address < EXACT).then_some(Key(address | u64::from(exact) << 47 | u64::from(epoch) << EPOCH_SHIFT))
    }

    /// The first entry of the key's set. Addresses of the same 16 KiB of code share a page of the table, so that a short
    /// process touches few.
    #[inline]
    fn set(self) -> usize {
        const PAGE_BITS: u32 = 8;
        const REGION_SHIFT: u32 = 14;
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let address = self.0 & (EXACT - 1);
        let page = (address >> REGION_SHIFT).wrapping_mul(GOLDEN) >> (64 - (CAPACITY_BITS - PAGE_BITS));
        let within = address.wrapping_mul(GOLDEN) >> (64 - PAGE_BITS);
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

/// To be told each new unload epoch before it begins: the key holds 16 bits of it, and before they come round again nothing of their
/// first time may be left.
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

/// A lane's own cache in front of the process's, of return addresses only, in the unload epoch at hand. Zeroed memory is
/// empty.
#[repr(C, align(64))]
pub(super) struct NearRows {
    /// Each a cache line.
    sets: [[NearRow; WAYS]; NEAR_SETS],
    inserted: usize,
    /// Which sets are in use besides the first ones, which are for the first rows, so that a short thread touches few pages.
    further_sets: usize,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct NearRow {
    return_address: usize,
    row: Row,
}

impl NearRow {
    const NONE: NearRow = NearRow { return_address: 0, row: Row::UNKNOWN };
}

const NEAR_SETS: usize = 1 << NEAR_BITS;
const NEAR_BITS: u32 = 9;
const FIRST_NEAR_SETS: usize = 64;
const FIRST_NEAR_ROWS: usize = 24;

impl NearRows {
    pub(super) const fn new() -> NearRows {
        NearRows { sets: [[NearRow::NONE; WAYS]; NEAR_SETS], inserted: 0, further_sets: 0 }
    }

    /// In every unload epoch anew.
    pub(super) fn forget(&mut self) {
        // Others were never written.
        let used = self.mask() + 1;
        for set in self.sets.iter_mut().take(used) {
            *set = [NearRow::NONE; WAYS];
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, return_address: usize) -> Option<Row> {
        // Written out: this is the heart of every walk, and the libraries are compiled for size.
        let [a, b, c, d] = self.sets.get(near_set(return_address) & self.mask())?;
        if a.return_address == return_address {
            Some(a.row)
        } else if b.return_address == return_address {
            Some(b.row)
        } else if c.return_address == return_address {
            Some(c.row)
        } else if d.return_address == return_address {
            Some(d.row)
        } else {
            None
        }
    }

    /// Keeps a row; the oldest of its set goes.
    pub(super) fn insert(&mut self, return_address: usize, row: Row) {
        self.inserted += 1;
        if self.inserted == FIRST_NEAR_ROWS {
            self.further_sets = NEAR_SETS - 1;
        }
        let mask = self.mask();
        if let Some(set) = self.sets.get_mut(near_set(return_address) & mask) {
            let [a, b, c, _] = *set;
            *set = [NearRow { return_address, row }, a, b, c];
        }
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.further_sets | (FIRST_NEAR_SETS - 1)
    }
}

#[inline(always)]
fn near_set(return_address: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((return_address as u64).wrapping_mul(GOLDEN) >> (u64::BITS - NEAR_BITS)) as usize
}

#[inline]
pub(super) fn find(key: Key) -> Option<Row> {
    let table = NonNull::new(TABLE.load(Ordering::Acquire))?;
    let set = key.set();
    for way in 0..WAYS {
        // SAFETY: sets lie within CAPACITY, the table is never unmapped, and atomics may be shared.
        let entry = unsafe { table.add(set + way).as_ref() };
        if entry.key.load(Ordering::Acquire) == key.0 {
            let row = entry.row.load(Ordering::Acquire);
            return (entry.key.load(Ordering::Relaxed) == key.0).then_some(Row(row));
        }
    }
    None
}

/// Keeps the row, in place of a stale one if there is one, else of any in the set.
#[cold]
pub(super) fn insert(key: Key, row: Row) {
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
        entry.row.store(row.0, Ordering::Relaxed);
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
    use super::*;

    #[test]
    fn rows_keep_what_they_were_made_of() {
        let saved = [SavedFp::Same, SavedFp::AtCfa(-16), SavedFp::AtFp(0), SavedFp::AtSp(1 << 20)];
        for saved in saved {
            for offset in [8, -8, 1 << 24, i32::MAX] {
                let row = Row::new(Cfa::Sp { offset }, saved);
                assert!(row.is_steppable() && !row.is_fp_based() && !row.is_deref());
                assert_eq!((row.cfa_offset(), row.saved_fp()), (offset as isize, saved));
                assert!(Row::new(Cfa::Fp { offset }, saved).is_fp_based());
            }
            for (offset, add) in [(-8, 0), (-4096, 16), (1 << 22, 255)] {
                let row = Row::new(Cfa::AtFp { offset, add }, saved);
                assert!(row.is_steppable() && row.is_fp_based() && row.is_deref());
                assert_eq!(row.cfa_word(), (offset as isize, usize::from(add)));
                assert_eq!(row.saved_fp(), saved);
            }
        }
        for row in [Row::UNKNOWN, Row::END, Row::SIGNAL] {
            assert!(!row.is_steppable());
        }
    }

    #[test]
    fn offsets_that_do_not_fit_give_no_row() {
        assert!(Row::new(Cfa::AtFp { offset: 1 << 23, add: 0 }, SavedFp::Same) == Row::UNKNOWN);
        assert!(Row::new(Cfa::Sp { offset: 8 }, SavedFp::AtCfa(-(1 << 26))) == Row::UNKNOWN);
    }

    #[test]
    fn a_row_is_found_at_its_own_address_and_epoch_only() {
        let row = Row::new(Cfa::Sp { offset: 24 }, SavedFp::Same);
        let address = 0x1234_5678_9abc;
        insert(Key::new(address, false, 7).unwrap(), row);
        assert!(find(Key::new(address, false, 7).unwrap()) == Some(row));
        assert!(find(Key::new(address, false, 8).unwrap()).is_none());
        assert!(find(Key::new(address, true, 7).unwrap()).is_none());
        assert!(find(Key::new(address + 1, false, 7).unwrap()).is_none());
        assert!(Key::new(1 << 47, false, 7).is_none());
    }

    #[test]
    fn a_lane_finds_the_newest_rows_of_each_set_until_it_forgets() {
        let row = Row::new(Cfa::Sp { offset: 56 }, SavedFp::Same);
        let mut near = Box::new(NearRows::new());
        let addresses = |count: usize| (0..count).map(|number| 0x3000_0000_0000 + number * 8);
        // The table grows on the first way.
        addresses(NEAR_SETS).for_each(|address| near.insert(address, row));
        near.forget();
        for address in addresses(NEAR_SETS) {
            assert!(near.find(address).is_none());
            near.insert(address, row);
            assert!(near.find(address) == Some(row));
        }
        // A set holds four of the one it has on average.
        assert!(addresses(NEAR_SETS).filter(|address| near.find(*address).is_none()).count() < NEAR_SETS / 20);
        for address in addresses(9 * WAYS * NEAR_SETS) {
            near.insert(address, row);
            assert!(near.find(address) == Some(row));
        }
        let kept = addresses(9 * WAYS * NEAR_SETS).filter(|address| near.find(*address).is_some()).count();
        assert!(kept <= WAYS * NEAR_SETS && kept > WAYS * NEAR_SETS / 2, "{kept}");
        near.forget();
        assert!(addresses(9 * WAYS * NEAR_SETS).all(|address| near.find(address).is_none()));
    }

    #[test]
    fn a_full_set_takes_the_newest_row() {
        let row = Row::new(Cfa::Sp { offset: 40 }, SavedFp::Same);
        let rows = 4 * CAPACITY;
        let found = (0..rows).filter(|number| {
            let key = Key::new(0x2000_0000_0000 + number * 64, false, 3).unwrap();
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
                        let key = Key::new(address, false, epoch).unwrap();
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

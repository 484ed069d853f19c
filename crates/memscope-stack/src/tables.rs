//! The tables of a lane: small sets in front of something larger, and hash tables that grow. All zero bytes are an empty one
//! of either kind, so that a lane's memory needs no set-up.
use core::ptr::NonNull;

/// What a table holds.
///
/// # Safety
/// All zero bytes are a value; it stands for no entry.
pub(crate) unsafe trait Entry: Copy {
    // SAFETY: the promise above.
    const NONE: Self = unsafe { core::mem::zeroed() };
}

/// An entry that can be looked up in a [`Table`].
pub(crate) trait Keyed: Entry {
    fn is_none(&self) -> bool;

    /// By [`hash`] of its key.
    fn hash(&self) -> u64;
}

/// Multiplies by the golden ratio: each bit of `word` reaches all bits above it, so that the top bits are the best ones.
#[inline(always)]
pub(crate) fn hash(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Entries in sets by hash, the newest first; the oldest of a full set goes. Short threads touch few pages of it: up to `FEW`
/// insertions only the first sets are used.
#[repr(C)]
pub(crate) struct Sets<E, const SETS: usize, const WAYS: usize, const FEW: usize> {
    sets: [[E; WAYS]; SETS],
    inserted: usize,
    /// Bits of the number of a set, besides those of the first sets.
    further: usize,
}

const FIRST_SETS: usize = 64;

impl<E: Entry, const SETS: usize, const WAYS: usize, const FEW: usize> Sets<E, SETS, WAYS, FEW> {
    pub(crate) const fn new() -> Self {
        const { assert!(SETS.is_power_of_two() && SETS >= FIRST_SETS) };
        Sets { sets: [[E::NONE; WAYS]; SETS], inserted: 0, further: 0 }
    }

    pub(crate) fn forget(&mut self) {
        // Others were never written.
        let used = self.mask() + 1;
        for set in self.sets.iter_mut().take(used) {
            *set = [E::NONE; WAYS];
        }
    }

    /// The set of a hash; there always is one.
    #[inline(always)]
    pub(crate) fn get(&self, hash: u64) -> Option<&[E; WAYS]> {
        self.sets.get(self.index(hash))
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, hash: u64) -> Option<&mut [E; WAYS]> {
        let index = self.index(hash);
        self.sets.get_mut(index)
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, hash: u64, entry: E) {
        self.inserted += 1;
        if self.inserted == FEW {
            self.further = SETS - 1;
        }
        if let Some(set) = self.get_mut(hash) {
            let mut next = entry;
            for slot in set {
                next = core::mem::replace(slot, next);
            }
        }
    }

    #[inline(always)]
    fn index(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - SETS.ilog2())) as usize & self.mask()
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.further | (FIRST_SETS - 1)
    }
}

/// Entries in memory of their own: open addressing, `FIRST` entries at first, doubled when three quarters full, and begun anew
/// when it has `LAST`. A program that makes new keys without end makes the table no larger.
pub(crate) struct Table<E, const FIRST: usize, const LAST: usize> {
    entries: Option<NonNull<E>>,
    /// Number of entries less one; the number is a power of two.
    mask: usize,
    used: usize,
}

/// The answer of [`Table::entry`].
pub(crate) enum Lookup<'a, E> {
    Found(&'a mut E),
    /// [`Entry::NONE`], for the caller to set.
    New(&'a mut E),
}

impl<E: Keyed, const FIRST: usize, const LAST: usize> Table<E, FIRST, LAST> {
    pub(crate) const fn new() -> Self {
        const { assert!(FIRST.is_power_of_two() && LAST.is_power_of_two()) };
        Table { entries: None, mask: 0, used: 0 }
    }

    /// The entry with this hash that `is_wanted`.
    #[inline]
    pub(crate) fn find(&mut self, hash: u64, is_wanted: impl Fn(&E) -> bool) -> Option<&mut E> {
        let mut entry = probe(self.entries?, self.mask, hash, is_wanted);
        // SAFETY: `probe` gives entries of the table, and the borrow of that is exclusive.
        let entry = unsafe { entry.as_mut() };
        if entry.is_none() { None } else { Some(entry) }
    }

    /// Finds or creates the entry with this hash that `is_wanted`; `None` if there is no memory for it.
    #[inline]
    pub(crate) fn entry(&mut self, hash: u64, is_wanted: impl Fn(&E) -> bool) -> Option<Lookup<'_, E>> {
        let mut found = self.entries.map(|entries| probe(entries, self.mask, hash, is_wanted));
        if let Some(mut entry) = found {
            // SAFETY: `probe` gives entries of the table, and the borrow of that is exclusive.
            let entry = unsafe { entry.as_mut() };
            if !entry.is_none() {
                return Some(Lookup::Found(entry));
            }
        }
        if self.is_crowded() && self.grow() {
            found = self.entries.map(|entries| probe(entries, self.mask, hash, |_| false));
        }
        // Without memory for a larger one it serves until it is full, but probing needs one empty entry to end at.
        if self.used >= self.mask {
            return None;
        }
        self.used += 1;
        // SAFETY: as before.
        found.map(|mut entry| Lookup::New(unsafe { entry.as_mut() }))
    }

    /// Takes its first memory, if there is any.
    #[cold]
    pub(crate) fn prepare(&mut self) {
        if self.entries.is_none() {
            self.grow();
        }
    }

    pub(crate) fn forget(&mut self) {
        if let Some(entries) = self.entries {
            // SAFETY: the table is `mask + 1` entries long, and zero bytes are empty ones.
            unsafe { entries.write_bytes(0, self.mask + 1) };
        }
        self.used = 0;
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.used * 4 >= self.mask * 3
    }

    #[cold]
    fn grow(&mut self) -> bool {
        let capacity = if self.entries.is_none() { FIRST } else { (self.mask + 1) * 2 };
        if capacity > LAST {
            self.forget();
            return true;
        }
        let Ok(memory) = memscope_sys::map_own(capacity * size_of::<E>()) else { return false };
        let entries = memory.cast::<E>();
        if let Some(old) = self.entries {
            for index in 0..=self.mask {
                // SAFETY: the old table is mapped whole, and `probe` gives entries of the new one.
                unsafe {
                    let entry = old.add(index).read();
                    if !entry.is_none() {
                        probe(entries, capacity - 1, entry.hash(), |_| false).write(entry);
                    }
                }
            }
            // SAFETY: mapped by an earlier `grow` and nothing refers to it any more.
            unsafe { memscope_sys::unmap_own(old.cast(), (self.mask + 1) * size_of::<E>()) };
        }
        (self.entries, self.mask) = (Some(entries), capacity - 1);
        true
    }
}

/// The entry that `is_wanted`, or the empty one where it would be, of `mask + 1` entries of which one at least is empty.
#[inline]
fn probe<E: Keyed>(entries: NonNull<E>, mask: usize, hash: u64, is_wanted: impl Fn(&E) -> bool) -> NonNull<E> {
    // The low bits, and the ones above them that depend on more of the key.
    let mut index = (hash ^ (hash >> 29)) as usize & mask;
    loop {
        // SAFETY: the index is masked to the table, which `grow` mapped whole; only this lane's thread uses it.
        let entry = unsafe { entries.add(index) };
        // SAFETY: as before.
        let found = unsafe { entry.as_ref() };
        if is_wanted(found) || found.is_none() {
            return entry;
        }
        index = (index + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Square {
        root: u64,
        square: u64,
    }

    // SAFETY: no square of ours has the root 0.
    unsafe impl Entry for Square {}

    impl Keyed for Square {
        fn is_none(&self) -> bool {
            self.root == 0
        }

        fn hash(&self) -> u64 {
            hash(self.root)
        }
    }

    const LAST: usize = 1 << 14;
    type Squares = Table<Square, 512, LAST>;

    fn find(table: &mut Squares, root: u64) -> Option<Lookup<'_, Square>> {
        table.entry(hash(root), |square| square.root == root)
    }

    fn insert(table: &mut Squares, root: u64) {
        let Some(Lookup::New(square)) = find(table, root) else { panic!("{root} is not new") };
        *square = Square { root, square: root * root };
    }

    #[test]
    fn entries_survive_growth_and_are_gone_once_forgotten() {
        let mut table = Squares::new();
        for root in 1..5_000 {
            insert(&mut table, root << 4);
        }
        for root in (1..5_000).map(|root| root << 4) {
            assert!(matches!(find(&mut table, root), Some(Lookup::Found(found)) if found.square == root * root));
        }
        table.forget();
        assert!(matches!(find(&mut table, 16), Some(Lookup::New(_))));
    }

    #[test]
    fn a_table_that_is_full_begins_anew() {
        let mut table = Squares::new();
        let mut begun = 0;
        for root in (1..100_000).map(|root| root << 4) {
            insert(&mut table, root);
            // The last one is always there, and the first ones are not for ever.
            assert!(matches!(find(&mut table, root), Some(Lookup::Found(_))));
            begun += usize::from(table.used == 1);
            assert!(table.mask < LAST);
        }
        assert!(begun > 3);
    }

    #[test]
    fn a_set_has_the_newest_entries_until_all_are_forgotten() {
        const WAYS: usize = 4;
        const SETS: usize = 512;
        let mut sets = Box::new(Sets::<Square, SETS, WAYS, 24>::new());
        let insert = |sets: &mut Sets<_, SETS, WAYS, 24>, root| sets.insert(hash(root), Square { root, square: 0 });
        let has = |sets: &Sets<Square, SETS, WAYS, 24>, root: u64| {
            sets.get(hash(root)).unwrap().iter().any(|square| square.root == root)
        };
        let roots = |count: usize| (1..=count as u64).map(|number| 0x3000_0000_0000 + number * 8);
        // More sets come into use on the way.
        roots(SETS).for_each(|root| insert(&mut sets, root));
        sets.forget();
        for root in roots(SETS) {
            assert!(!has(&sets, root));
            insert(&mut sets, root);
            assert!(has(&sets, root));
        }
        // A set holds four of the one it has on average.
        assert!(roots(SETS).filter(|root| !has(&sets, *root)).count() < SETS / 20);
        for root in roots(9 * WAYS * SETS) {
            insert(&mut sets, root);
            assert!(has(&sets, root));
        }
        let kept = roots(9 * WAYS * SETS).filter(|root| has(&sets, *root)).count();
        assert!(kept <= WAYS * SETS && kept > WAYS * SETS / 2, "{kept}");
        sets.forget();
        assert!(!roots(9 * WAYS * SETS).any(|root| has(&sets, root)));
    }
}

//! A map from non-zero words to small values, in memory of its own: open addressing, doubled when three quarters full, and
//! begun anew when it is as large as it may be. A program that makes code without end makes the map no larger.
use core::ptr::NonNull;

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Slot<V> {
    /// 0 marks an empty slot.
    key: u64,
    pub value: V,
}

const FIRST_CAPACITY: usize = 512;
const LAST_CAPACITY: usize = 1 << 16;

/// All zero bytes are an empty table; `V` must allow all zero bytes too.
pub(super) struct Table<V> {
    slots: Option<NonNull<Slot<V>>>,
    /// Number of slots less one; the number is a power of two.
    mask: usize,
    used: usize,
    /// There was no memory for a larger one: the old one serves until it is full.
    cannot_grow: bool,
}

/// The answer of [`Table::entry`].
pub(super) enum Entry<'a, V> {
    Known(&'a mut V),
    /// Just created, with a value of zero bytes, which the caller must set.
    New(&'a mut V),
}

impl<V: Copy> Table<V> {
    pub(super) const fn new() -> Table<V> {
        Table { slots: None, mask: 0, used: 0, cannot_grow: false }
    }

    /// Finds or creates the value of `key`; `None` if the key is 0 or there is no memory.
    #[inline]
    pub(super) fn entry(&mut self, key: u64) -> Option<Entry<'_, V>> {
        if key == 0 {
            return None;
        }
        loop {
            if let Some(slots) = self.slots {
                let mut at = hash(key) & self.mask;
                let slot = loop {
                    // SAFETY: `at` is masked to the table, which `grow` mapped whole; only this lane's thread uses it.
                    let slot = unsafe { &mut *slots.as_ptr().add(at) };
                    if slot.key == key {
                        return Some(Entry::Known(&mut slot.value));
                    }
                    if slot.key == 0 {
                        break slot;
                    }
                    at = (at + 1) & self.mask;
                };
                if self.used * 4 < self.mask * 3 || self.cannot_grow {
                    // Probing needs one empty slot to end at.
                    if self.used >= self.mask {
                        return None;
                    }
                    self.used += 1;
                    slot.key = key;
                    return Some(Entry::New(&mut slot.value));
                }
            }
            if !self.grow() {
                self.slots?;
                self.cannot_grow = true;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(slots) = self.slots {
            // SAFETY: the table is `mask + 1` slots long, and zero bytes are empty slots.
            unsafe { slots.as_ptr().write_bytes(0, self.mask + 1) };
        }
        self.used = 0;
        self.cannot_grow = false;
    }

    #[cold]
    fn grow(&mut self) -> bool {
        let capacity = if self.slots.is_none() { FIRST_CAPACITY } else { (self.mask + 1) * 2 };
        if capacity > LAST_CAPACITY {
            self.clear();
            return true;
        }
        let Ok(memory) = memscope_sys::map_own(capacity * size_of::<Slot<V>>()) else {
            return false;
        };
        let slots = memory.cast::<Slot<V>>();
        let mask = capacity - 1;
        if let Some(old) = self.slots {
            for i in 0..=self.mask {
                // SAFETY: both tables are mapped whole and indices stay below their capacities.
                unsafe {
                    let slot = *old.as_ptr().add(i);
                    if slot.key != 0 {
                        let mut at = hash(slot.key) & mask;
                        while (*slots.as_ptr().add(at)).key != 0 {
                            at = (at + 1) & mask;
                        }
                        *slots.as_ptr().add(at) = slot;
                    }
                }
            }
            // SAFETY: the old table was mapped by an earlier `grow` and nothing refers to it any more.
            unsafe { memscope_sys::unmap_own(old.cast(), (self.mask + 1) * size_of::<Slot<V>>()) };
        }
        self.slots = Some(slots);
        self.mask = mask;
        true
    }
}

#[inline]
fn hash(key: u64) -> usize {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_growth_and_are_gone_after_clear() {
        let mut table = Table::<u32>::new();
        for key in 1..5_000u64 {
            match table.entry(key << 4) {
                Some(Entry::New(value)) => *value = key as u32,
                _ => panic!("{key} is not new"),
            }
        }
        for key in 1..5_000u64 {
            assert!(matches!(table.entry(key << 4), Some(Entry::Known(value)) if u64::from(*value) == key));
        }
        table.clear();
        assert!(matches!(table.entry(16), Some(Entry::New(0))));
        assert!(table.entry(0).is_none());
    }

    #[test]
    fn a_table_that_is_full_begins_anew() {
        let mut table = Table::<u32>::new();
        let mut forgotten = 0;
        for key in 1..300_000u64 {
            let Some(Entry::New(value)) = table.entry(key << 4) else { panic!("{key} is not new") };
            *value = key as u32;
            // The last one is always there, and the first ones are not for ever.
            assert!(matches!(table.entry(key << 4), Some(Entry::Known(value)) if u64::from(*value) == key));
            forgotten += usize::from(table.used == 1);
            assert!(table.mask < LAST_CAPACITY);
        }
        assert!(forgotten > 3);
    }
}

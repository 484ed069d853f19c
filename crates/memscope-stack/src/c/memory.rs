//! The stretch of the current stack that is known to be readable.
//!
//! A walk that follows unwind tables may be led astray (wrong tables, generated code), so a word is read only after
//! the kernel has vouched for its page. Pages of a stack stay mapped as long as something runs on it.

const PAGE: usize = 4096;
/// A frame larger than this is taken for a mistake, and so is a stack that goes on so far from the last one.
const NEAR: usize = 16 << 20;

/// Zeroed memory is "nothing known".
pub(super) struct StackMemory {
    start: usize,
    length: usize,
}

impl StackMemory {
    pub(super) const fn new() -> StackMemory {
        StackMemory { start: 0, length: 0 }
    }

    pub(super) fn forget(&mut self) {
        *self = StackMemory::new();
    }

    /// Makes `sp`, which the caller is running on, part of the range. False if that meant starting a new range: what
    /// was remembered about the old one may not be read any more.
    #[inline]
    pub(super) fn enter(&mut self, sp: usize) -> bool {
        if self.contains(sp) {
            return true;
        }
        self.enter_outside(sp)
    }

    #[cold]
    fn enter_outside(&mut self, sp: usize) -> bool {
        let page = sp & !(PAGE - 1);
        // The usual case: the same stack, deeper than ever before.
        if page < self.start && self.start - page <= NEAR {
            let mut start = self.start;
            while start > page && memscope_sys::is_readable(start - PAGE) {
                start -= PAGE;
            }
            if start == page {
                self.length += self.start - page;
                self.start = page;
                return true;
            }
        }
        self.start = page;
        self.length = PAGE;
        false
    }

    /// The word at `address`, `None` if it is not aligned or not in readable memory near the known range.
    #[inline]
    pub(super) fn read(&mut self, address: usize) -> Option<usize> {
        if !address.is_multiple_of(8) || !(self.contains(address) || self.extend(address)) {
            return None;
        }
        // SAFETY: aligned, and in a page the kernel called readable; it is part of a stack the calling thread runs on.
        Some(unsafe { (address as *const usize).read_volatile() })
    }

    #[inline]
    fn contains(&self, address: usize) -> bool {
        // Both ends are page ends, so an aligned word is inside whole or not at all.
        address.wrapping_sub(self.start) < self.length
    }

    #[cold]
    fn extend(&mut self, address: usize) -> bool {
        let end = self.start + self.length;
        if address < end || address - end > NEAR {
            return false;
        }
        while !self.contains(address) {
            if !memscope_sys::is_readable(self.start + self.length) {
                return false;
            }
            self.length += PAGE;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end_of_mapped_memory() {
        let pages = memscope_sys::map_anonymous(4 * PAGE).unwrap();
        let start = pages.as_ptr() as usize;
        // SAFETY: the last page is ours and nothing uses it.
        assert_eq!(unsafe { libc::mprotect(pages.add(3 * PAGE).as_ptr().cast(), PAGE, libc::PROT_NONE) }, 0);
        let mut memory = StackMemory::new();
        assert!(!memory.enter(start + PAGE + 8));
        assert!(memory.enter(start + PAGE + 16));
        assert_eq!(memory.read(start + PAGE), Some(0));
        assert_eq!(memory.read(start + 3 * PAGE - 8), Some(0));
        assert_eq!(memory.read(start + 3 * PAGE - 7), None);
        assert_eq!(memory.read(start + 3 * PAGE), None);
        assert_eq!(memory.read(start), None, "below the stack pointer");
        assert!(memory.enter(start), "deeper on the same stack");
        assert_eq!(memory.read(start), Some(0));
        assert_eq!(memory.read(start + 2 * NEAR), None);
        assert!(!memory.enter(start + 64 * NEAR), "another stack");
        assert_eq!(memory.read(start), None);
    }
}

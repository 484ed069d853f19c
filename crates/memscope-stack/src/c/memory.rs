//! The stretch of the current stack that is known to be readable.
//!
//! A walk that follows unwind tables may be led astray (wrong tables, generated code), so a word is read only after
//! the kernel has vouched for its page. Pages of a stack stay mapped as long as something runs on it.

const PAGE: usize = 4096;
/// A frame larger than this is taken for a mistake.
const LARGEST_FRAME: usize = 16 << 20;
/// A stack pointer further below is taken for another stack. Where it is the same, in a function with a large frame, the
/// stack is unwound anew once. But programs that switch between stacks do so all the time, and must not pay for every page
/// between them.
const DEEPER: usize = 8 * PAGE;

/// Zeroed memory is "nothing known".
pub(super) struct StackMemory {
    start: usize,
    length: usize,
    /// How often the kernel was asked.
    #[cfg(test)]
    asked: usize,
}

impl StackMemory {
    pub(super) const fn new() -> StackMemory {
        StackMemory {
            start: 0,
            length: 0,
            #[cfg(test)]
            asked: 0,
        }
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
        if page < self.start && self.start - page <= DEEPER {
            let mut start = self.start;
            while start > page && self.ask(start - PAGE) {
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
        if address < end || address - end > LARGEST_FRAME {
            return false;
        }
        while !self.contains(address) {
            if !self.ask(self.start + self.length) {
                return false;
            }
            self.length += PAGE;
        }
        true
    }

    fn ask(&mut self, address: usize) -> bool {
        #[cfg(test)]
        {
            self.asked += 1;
        }
        memscope_sys::is_readable(address)
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
        assert_eq!(memory.read(start + 2 * LARGEST_FRAME), None);
        assert!(!memory.enter(start + 64 * LARGEST_FRAME), "another stack");
        assert_eq!(memory.read(start), None);
    }

    #[test]
    fn a_switch_to_another_stack_asks_about_few_pages() {
        const FIBERS: usize = 4;
        const SWITCHES: usize = 100;
        for stack_size in [16 << 10, 64 << 10, 256 << 10, 1 << 20, 6 << 20, 12 << 20] {
            let pages = memscope_sys::map_anonymous(FIBERS * stack_size).unwrap();
            let mut memory = StackMemory::new();
            for switch in 0..SWITCHES {
                let top = pages.as_ptr() as usize + stack_size * (1 + switch * 3 % FIBERS);
                let sp = top - PAGE - 64;
                memory.enter(sp);
                assert_eq!(memory.read(sp), Some(0));
                assert_eq!(memory.read(top - 8), Some(0));
            }
            assert!(memory.asked <= SWITCHES * 2, "{} of {stack_size}", memory.asked);
            // SAFETY: nothing refers to it any more.
            unsafe { memscope_sys::unmap(pages, FIBERS * stack_size) };
        }
    }
}

//! The functions behind the wrappers.
//!
//! All are found at the first call of one of them, which the loader itself makes before the program runs: without its lock
//! and without an allocation, so that nobody waits for anybody. A thread that comes meanwhile searches as well, and finds
//! the same.
use crate::hooks::ORIGINALS;
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use memscope_sys::loader;

static SEARCHED: AtomicBool = AtomicBool::new(false);

/// Where a function is looked for: in what comes after us in the global scope, which is libc or an allocator before it.
pub(crate) struct Next;

/// The address of a wrapped function. No more, so that those of all share a cache line or two.
pub(crate) struct Original(AtomicUsize);

impl Original {
    pub(crate) const fn new(_name: &'static CStr, _: Next) -> Original {
        Original(AtomicUsize::new(0))
    }

    /// 0 if no library has it: then the call has to fail as the program's would without us.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        match self.0.load(Relaxed) {
            0 => self.search(),
            address => address,
        }
    }

    #[cold]
    #[inline(never)]
    fn search(&self) -> usize {
        if !SEARCHED.load(Acquire) {
            // First: whoever finds an address finds the recorder too, also if this is left half way by a jump.
            crate::recording::connect();
            for (name, original) in ORIGINALS {
                // SAFETY: `dlopen` allocates before it loads anything, and so comes after this: there is nothing to unload.
                let found = unsafe { loader::find_next_at_start(name) };
                original.0.store(found.map_or(0, |found| found.address), Release);
            }
            SEARCHED.store(true, Release);
        }
        self.0.load(Relaxed)
    }
}

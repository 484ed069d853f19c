//! The functions behind the wrappers.
//!
//! All are found at the first call of one of them, which the loader itself makes before the program runs: without its lock
//! and without an allocation, so that nobody waits for anybody. A thread that comes meanwhile searches as well, and finds
//! the same.
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use memscope_sys::loader;

macro_rules! originals {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// The wrapped functions.
        #[derive(Clone, Copy)]
        pub(crate) enum Function { $($variant),* }
        const NAMES: &[&CStr] = &[$($name),*];
    };
}

originals! {
    Malloc = c"malloc",
    Calloc = c"calloc",
    Realloc = c"realloc",
    Reallocarray = c"reallocarray",
    Free = c"free",
    PosixMemalign = c"posix_memalign",
    AlignedAlloc = c"aligned_alloc",
    Memalign = c"memalign",
    Valloc = c"valloc",
    Pvalloc = c"pvalloc",
    Mmap = c"mmap",
    Mmap64 = c"mmap64",
    Munmap = c"munmap",
    Mremap = c"mremap",
    Mprotect = c"mprotect",
    PkeyMprotect = c"pkey_mprotect",
}

static ADDRESSES: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
static SEARCHED: AtomicBool = AtomicBool::new(false);

/// Where an original is to be found.
pub(crate) enum Original {
    At(usize),
    /// No library has it: fail the call as the program would fail without us.
    Absent,
}

#[inline(always)]
pub(crate) fn find(function: Function) -> Original {
    match ADDRESSES[function as usize].load(Relaxed) {
        0 => search(function),
        address => Original::At(address),
    }
}

#[cold]
#[inline(never)]
fn search(function: Function) -> Original {
    if !SEARCHED.load(Acquire) {
        // First: whoever finds an address finds the recorder too, also if this is left half way by a jump.
        crate::recording::connect();
        for (address, name) in ADDRESSES.iter().zip(NAMES) {
            // SAFETY: `dlopen` allocates before it loads anything, and so comes after this: there is nothing to unload.
            let found = unsafe { loader::find_next_at_start(name) };
            address.store(found.map_or(0, |found| found.address), Release);
        }
        SEARCHED.store(true, Release);
    }
    match ADDRESSES[function as usize].load(Relaxed) {
        0 => Original::Absent,
        address => Original::At(address),
    }
}

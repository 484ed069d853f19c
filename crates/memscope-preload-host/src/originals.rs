//! The functions behind the wrappers, found once.
//!
//! The search itself may allocate (`dlsym` keeps its error texts on the heap): such calls are served from a small
//! static arena, whose blocks are never given back.
use crate::thread::thread_pointer;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

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
static STATE: AtomicU32 = AtomicU32::new(NEW);
static SEARCHER: AtomicUsize = AtomicUsize::new(0);

const NEW: u32 = 0;
const SEARCHING: u32 = 1;
const FOUND: u32 = 2;

/// Where an original is to be found.
pub(crate) enum Original {
    At(usize),
    /// This very thread is searching: serve the call from the arena.
    Searching,
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
fn search(function: Function) -> Original {
    loop {
        match STATE.load(Acquire) {
            FOUND => {
                return match ADDRESSES[function as usize].load(Relaxed) {
                    0 => Original::Absent,
                    address => Original::At(address),
                };
            }
            SEARCHING if SEARCHER.load(Relaxed) == thread_pointer() => return Original::Searching,
            SEARCHING => core::hint::spin_loop(),
            _ => {
                if STATE.compare_exchange(NEW, SEARCHING, AcqRel, Relaxed).is_ok() {
                    SEARCHER.store(thread_pointer(), Relaxed);
                    for (address, name) in ADDRESSES.iter().zip(NAMES) {
                        // SAFETY: `dlsym` takes a C string; what it allocates comes from the arena.
                        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
                        address.store(found as usize, Relaxed);
                    }
                    crate::recording::connect();
                    SEARCHER.store(0, Relaxed);
                    STATE.store(FOUND, Release);
                }
            }
        }
    }
}

const ARENA_SIZE: usize = 16 * 1024;
const ALIGNMENT: usize = 16;

#[repr(C, align(16))]
struct Arena {
    bytes: UnsafeCell<[u8; ARENA_SIZE]>,
    used: AtomicUsize,
}

// SAFETY: ranges of `bytes` are handed out once each by the atomic `used`.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena { bytes: UnsafeCell::new([0; ARENA_SIZE]), used: AtomicUsize::new(0) };

/// Zeroed memory for a call during the search; null when the arena is used up.
pub(crate) fn arena_alloc(size: usize) -> *mut c_void {
    let rounded = match size.checked_next_multiple_of(ALIGNMENT) {
        Some(rounded) => rounded.max(ALIGNMENT),
        None => return core::ptr::null_mut(),
    };
    let start = ARENA.used.fetch_add(rounded, Relaxed);
    match start.checked_add(rounded) {
        // SAFETY: the range lies in the arena and is handed out only here.
        Some(end) if end <= ARENA_SIZE => unsafe { ARENA.bytes.get().cast::<u8>().add(start).cast() },
        _ => core::ptr::null_mut(),
    }
}

/// How much of the arena lies at and after `pointer`; `None` for any other pointer.
#[inline(always)]
pub(crate) fn arena_rest(pointer: *mut c_void) -> Option<usize> {
    let offset = (pointer as usize).wrapping_sub(ARENA.bytes.get() as usize);
    (offset < ARENA_SIZE).then(|| ARENA_SIZE - offset)
}

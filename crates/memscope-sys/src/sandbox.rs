//! What the program forbids itself, and so us: seccomp.
//!
//! A program installs a filter that kills it on every call it does not expect of itself, and it does not expect ours. So
//! the hooks of `prctl` and `syscall` show each filter to this module before the kernel gets it, and from then on every
//! system call of ours is put before the filters first, with its arguments. What they would not simply let pass is not
//! made.
//!
//! A filter holds for the thread that installs it, its later children, and with a flag for all threads. Here it holds for
//! the whole process: we make fewer calls than we might, never one too many.
//!
//! A filter that is installed by code with a system call instruction of its own is not shown to anybody, and to ask the
//! kernel may be what it kills for. Somebody outside of the process can count its filters, and says in a word of shared
//! memory ([`heed`]) that there are more than are known here: then no call is made any more. Filters from before `exec` are
//! not known either; they have let pass what a beginning needs.
use crate::{calls, nr};
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

mod bpf;
mod installed;
pub use bpf::Instruction;
pub use installed::installed;

/// The filters seen so far, newest first. A forked child inherits them, as it inherits the kernel's.
static FILTERS: AtomicPtr<Filter> = AtomicPtr::new(ptr::null_mut());
/// How many times something was installed, or is about to be, that is not among them: strict mode, and filters that
/// could not be copied.
static STRICT: AtomicU32 = AtomicU32::new(0);
static UNKNOWN: AtomicU32 = AtomicU32::new(0);
/// Somebody outside has seen filters that are not among them.
static TOLD: AtomicBool = AtomicBool::new(false);
/// Anything of the above: the one word every call of ours looks at, beside the one of [`heed`].
static ANY: AtomicBool = AtomicBool::new(false);
/// See [`heed`].
static WORD: AtomicPtr<AtomicPtr<AtomicU32>> = AtomicPtr::new(ptr::null_mut());

/// A copy of the program's filter, in memory of its own, never given back.
#[repr(C)]
struct Filter {
    next: *mut Filter,
    length: usize,
    /// Unset again if the kernel did not take it.
    holds: AtomicBool,
}

/// As the program hands it to the kernel: `struct sock_fprog`.
#[repr(C)]
pub struct Program {
    pub length: u16,
    pub filter: *const Instruction,
}

const MOST_INSTRUCTIONS: usize = 4096;

/// Whether a filter of the program would do anything with this call but let it pass.
///
/// A function of its own: inlined into each call of ours it would be a tenth of the library.
#[inline(never)]
pub fn forbids(number: usize, arguments: &[usize; 6]) -> bool {
    (ANY.load(Relaxed) || is_told()) && is_refused(number, arguments)
}

/// From now on the word that `word` leads to, if to any, is looked at before each call of ours: not 0, it says that the
/// program has filters which are not known here. A forked child does not have its parent's.
pub fn heed(word: &'static AtomicPtr<AtomicU32>) {
    WORD.store(ptr::from_ref(word).cast_mut(), Release);
}

/// As before the first [`heed`]: what it was given is about to go.
pub fn heed_nothing() {
    WORD.store(ptr::null_mut(), Release);
    if TOLD.swap(false, AcqRel) {
        ANY.store(false, Release);
    }
}

/// Whether somebody outside has said that there are filters which are not known here. A forked child of such a process is
/// told as well.
#[inline]
pub fn is_told() -> bool {
    // SAFETY: `heed` was given the place for ever, and what is stored there stays mapped while it is.
    let word = unsafe { WORD.load(Acquire).as_ref().and_then(|word| word.load(Acquire).as_ref()) };
    if word.is_some_and(|word| word.load(Relaxed) != 0) {
        TOLD.store(true, Release);
        ANY.store(true, Release);
    }
    TOLD.load(Acquire)
}

/// How many filters were installed, or are about to be, in ways that are seen.
pub fn known() -> u32 {
    let mut count = STRICT.load(Acquire) + UNKNOWN.load(Acquire);
    let mut filter = FILTERS.load(Acquire);
    // SAFETY: as in `is_refused`.
    while let Some(known) = unsafe { filter.as_ref() } {
        count += u32::from(known.holds.load(Acquire));
        filter = known.next;
    }
    count
}

#[cold]
fn is_refused(number: usize, arguments: &[usize; 6]) -> bool {
    if UNKNOWN.load(Acquire) != 0 || TOLD.load(Acquire) {
        return true;
    }
    // Strict mode knows four calls; of those we make two.
    if STRICT.load(Acquire) != 0 && number != nr::READ && number != nr::WRITE {
        return true;
    }
    let data = bpf::call_data(number, arguments);
    let mut filter = FILTERS.load(Acquire);
    // SAFETY: a published filter stays mapped and its instructions do not change.
    while let Some(known) = unsafe { filter.as_ref() } {
        if known.holds.load(Acquire) && !bpf::lets_pass(known.instructions(), &data) {
            return true;
        }
        filter = known.next;
    }
    false
}

/// Whether a filter of the program would, or may, end who makes this call: so it would in the next program of the process, where
/// nothing is known of the filter any more.
#[cold]
pub fn kills(number: usize, arguments: &[usize; 6]) -> bool {
    if !ANY.load(Relaxed) && !is_told() {
        return false;
    }
    if UNKNOWN.load(Acquire) != 0 || TOLD.load(Acquire) {
        return true;
    }
    let data = bpf::call_data(number, arguments);
    let mut filter = FILTERS.load(Acquire);
    // SAFETY: as in `is_refused`.
    while let Some(known) = unsafe { filter.as_ref() } {
        if known.holds.load(Acquire) && bpf::kills(known.instructions(), &data) {
            return true;
        }
        filter = known.next;
    }
    false
}

impl Filter {
    fn instructions(&self) -> &[Instruction] {
        // SAFETY: `expect_filter` has put as many behind this structure.
        unsafe { core::slice::from_raw_parts(ptr::from_ref(self).add(1).cast(), self.length) }
    }
}

/// What the program is about to ask the kernel for. It counts from now on.
#[must_use]
pub enum Expected {
    Nothing,
    Strict,
    Unknown,
    Filter(&'static AtomicBool),
}

impl Expected {
    /// The kernel has refused: it does not count.
    pub fn was_refused(self) {
        match self {
            Expected::Nothing => {}
            Expected::Strict => drop(STRICT.fetch_sub(1, AcqRel)),
            Expected::Unknown => drop(UNKNOWN.fetch_sub(1, AcqRel)),
            Expected::Filter(holds) => holds.store(false, Release),
        }
    }
}

/// `SECCOMP_MODE_STRICT` is about to be asked for.
pub fn expect_strict() -> Expected {
    STRICT.fetch_add(1, AcqRel);
    ANY.store(true, Release);
    Expected::Strict
}

/// A filter is about to be installed. A pointer the kernel will refuse is nothing to expect.
///
/// # Safety
/// `program` is what the program hands to the kernel; nobody changes it in the meantime.
pub unsafe fn expect_filter(program: *const Program) -> Expected {
    // SAFETY: read only if it can be; see `is_readable`.
    let (length, from) = unsafe {
        if !is_readable(program as usize, size_of::<Program>()) {
            return Expected::Nothing;
        }
        (usize::from((*program).length), (*program).filter)
    };
    let bytes = length * size_of::<Instruction>();
    if length == 0 || length > MOST_INSTRUCTIONS || !is_readable(from as usize, bytes) {
        return Expected::Nothing;
    }
    let Ok(memory) = calls::map_anonymous(size_of::<Filter>() + bytes) else {
        UNKNOWN.fetch_add(1, AcqRel);
        ANY.store(true, Release);
        return Expected::Unknown;
    };
    let filter = memory.cast::<Filter>().as_ptr();
    // SAFETY: fresh memory, large enough; the instructions can be read, as was just asked.
    let known = unsafe {
        filter.add(1).cast::<Instruction>().copy_from_nonoverlapping(from, length);
        filter.write(Filter { next: ptr::null_mut(), length, holds: AtomicBool::new(true) });
        loop {
            let next = FILTERS.load(Acquire);
            (*filter).next = next;
            if FILTERS.compare_exchange(next, filter, AcqRel, Acquire).is_ok() {
                break;
            }
        }
        &*filter
    };
    ANY.store(true, Release);
    Expected::Filter(&known.holds)
}

/// Whether the kernel could read all of a range. Where an earlier filter forbids asking, the program is believed: it did
/// not come so far with wrong pointers.
fn is_readable(address: usize, length: usize) -> bool {
    const PAGE: usize = 4096;
    let Some(last) = address.checked_add(length.saturating_sub(8)) else { return false };
    if address == 0 || forbids(nr::RT_SIGPROCMASK, &[usize::MAX, address, 0, 8, 0, 0]) {
        return address != 0;
    }
    let mut place = address;
    while place < last {
        if !calls::is_readable(place) {
            return false;
        }
        place += PAGE;
    }
    calls::is_readable(last)
}

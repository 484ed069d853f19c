//! Anonymous mappings. File mappings are not memory the program asked for, except where they replace some.
use crate::hooks::{self, Pointer};
use crate::recording::{Call, says_no_memory};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MREMAP_MAYMOVE, PROT_EXEC, PROT_READ, PROT_WRITE, off_t,
};
use memscope_hook::{Entry, host_call};

pub(crate) unsafe extern "C" fn mmap(
    address: Pointer,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
    entry: Entry,
) -> Pointer {
    let Some(original) = hooks::mmap::find() else { return MAP_FAILED };
    // SAFETY: the program's own arguments are passed on, here and below.
    map(length, protection, flags, entry, || unsafe { original(address, length, protection, flags, file, offset) })
}

pub(crate) unsafe extern "C" fn mmap64(
    address: Pointer,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
    entry: Entry,
) -> Pointer {
    let Some(original) = hooks::mmap64::find() else { return MAP_FAILED };
    // SAFETY: as above.
    map(length, protection, flags, entry, || unsafe { original(address, length, protection, flags, file, offset) })
}

fn map(length: usize, protection: c_int, flags: c_int, entry: Entry, original: impl FnOnce() -> Pointer) -> Pointer {
    let call = Call::enter(entry);
    let mapped = original();
    if let Some(call) = call {
        let no_reserve = if flags & MAP_NORESERVE != 0 { NO_RESERVE } else { 0 };
        if mapped == MAP_FAILED {
            if says_no_memory() {
                call.refused(host_call::MMAP, length, access(protection) | no_reserve);
            }
        } else if flags & MAP_ANONYMOUS != 0 {
            if access(protection) == 0 {
                RESERVED.store(true, Relaxed);
            }
            call.mapped(mapped as usize, whole_pages(length), access(protection) | no_reserve);
        } else if flags & MAP_FIXED != 0 {
            call.unmapped(mapped as usize, whole_pages(length), call.now());
        }
    }
    mapped
}

pub(crate) unsafe extern "C" fn munmap(address: Pointer, length: usize, entry: Entry) -> c_int {
    let Some(original) = hooks::munmap::find() else { return FAILED };
    let call = Call::enter(entry);
    let began = call.as_ref().map_or(0, Call::now);
    // SAFETY: as above.
    let answer = unsafe { original(address, length) };
    // Refused, nothing is unmapped: no range, a sealed one, or none that could be cut out for want of room in the kernel's list.
    if let Some(call) = call
        && answer == 0
    {
        call.unmapped(address as usize, whole_pages(length), began);
    }
    answer
}

pub(crate) unsafe extern "C" fn mremap(
    old: Pointer,
    old_length: usize,
    new_length: usize,
    flags: c_int,
    new_address: Pointer,
    entry: Entry,
) -> Pointer {
    let Some(original) = hooks::mremap::find() else { return MAP_FAILED };
    let call = Call::enter(entry);
    let began = call.as_ref().map_or(0, Call::now);
    // SAFETY: as above.
    let new = unsafe { original(old, old_length, new_length, flags, new_address) };
    if let Some(call) = call {
        if new != MAP_FAILED {
            let (old_length, new_length) = (whole_pages(old_length), whole_pages(new_length));
            call.remapped((old as usize, old_length), (new as usize, new_length), began);
        } else if flags & MREMAP_MAYMOVE != 0 && says_no_memory() {
            // Where it may not move, it is the place that was not to be had; who needs the memory asks again.
            call.refused(host_call::MREMAP, new_length, 0);
        }
    }
    new
}

pub(crate) unsafe extern "C" fn mprotect(address: Pointer, length: usize, protection: c_int, entry: Entry) -> c_int {
    let Some(original) = hooks::mprotect::find() else { return FAILED };
    // SAFETY: as above.
    protect(address, length, protection, entry, || unsafe { original(address, length, protection) })
}

pub(crate) unsafe extern "C" fn pkey_mprotect(
    address: Pointer,
    length: usize,
    protection: c_int,
    key: c_int,
    entry: Entry,
) -> c_int {
    let Some(original) = hooks::pkey_mprotect::find() else {
        // A C library without it: a program that asks whether there is one must hear so.
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return FAILED;
    };
    // SAFETY: as above.
    protect(address, length, protection, entry, || unsafe { original(address, length, protection, key) })
}

/// Told after the call, because one that failed changed nothing. Whether it changes what is usable is found out later: it
/// takes the history of the range, which nobody keeps here.
fn protect(
    address: Pointer,
    length: usize,
    protection: c_int,
    entry: Entry,
    original: impl FnOnce() -> c_int,
) -> c_int {
    let call = if may_matter(protection) { Call::enter(entry) } else { None };
    let answer = original();
    if let Some(call) = call
        && answer != FAILED
        && length != 0
    {
        call.protected(address as usize, whole_pages(length), access(protection));
    }
    answer
}

/// Whether this process ever had address space without access. Most never do, and their calls of `mprotect` cost nothing.
/// Relaxed is enough: who gives access to a range has learnt of it from who reserved it.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// Whether a new protection can change what is usable: it takes access away, or there may be something to give it to.
fn may_matter(protection: c_int) -> bool {
    if access(protection) == 0 {
        RESERVED.store(true, Relaxed);
    }
    RESERVED.load(Relaxed)
}

const FAILED: c_int = -1;

/// Beside the three bits of access in a record of a mapping.
const NO_RESERVE: u8 = 8;

fn access(protection: c_int) -> u8 {
    (protection & (PROT_READ | PROT_WRITE | PROT_EXEC)) as u8
}

/// Both architectures have pages of at least this size; a length is rounded to what a reader can add up.
const PAGE: usize = 4096;

fn whole_pages(length: usize) -> usize {
    length.checked_next_multiple_of(PAGE).unwrap_or(length)
}

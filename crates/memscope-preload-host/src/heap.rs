//! The malloc family.
use crate::hooks::{self, Pointer};
use crate::recording::{Call, says_no_memory};
use core::ffi::c_int;
use core::ptr;
use memscope_hook::{Entry, host_call};

pub(crate) unsafe extern "C" fn malloc(size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::malloc::find() else { return ptr::null_mut() };
    // SAFETY: the program's own arguments are passed on, here and below.
    allocate(size, entry, || unsafe { original(size) }, host_call::MALLOC)
}

pub(crate) unsafe extern "C" fn calloc(count: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::calloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(count.saturating_mul(size), entry, || unsafe { original(count, size) }, host_call::CALLOC)
}

pub(crate) unsafe extern "C" fn aligned_alloc(align: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::aligned_alloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(align, size) }, host_call::ALIGNED_ALLOC)
}

pub(crate) unsafe extern "C" fn memalign(align: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::memalign::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(align, size) }, host_call::MEMALIGN)
}

pub(crate) unsafe extern "C" fn valloc(size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::valloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(size) }, host_call::VALLOC)
}

pub(crate) unsafe extern "C" fn pvalloc(size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::pvalloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(size) }, host_call::PVALLOC)
}

/// Records what the original gives, with its size, or that it gave nothing. `function` is one of [`host_call`].
#[inline(always)]
fn allocate(size: usize, entry: Entry, original: impl Fn() -> Pointer, function: u8) -> Pointer {
    let Some(call) = Call::enter(entry) else { return original() };
    let pointer = original();
    if !pointer.is_null() {
        call.allocated(pointer as usize, size);
    } else if is_refusal(function, size) {
        call.refused(function, size, 0);
    }
    pointer
}

/// Whether a call that gave nothing wanted something; those with an alignment fail for a wrong one as well.
#[cold]
#[inline(never)]
fn is_refusal(function: u8, size: usize) -> bool {
    let aligns = matches!(function, host_call::ALIGNED_ALLOC | host_call::MEMALIGN);
    size != 0 && (!aligns || says_no_memory())
}

pub(crate) unsafe extern "C" fn posix_memalign(out: *mut Pointer, align: usize, size: usize, entry: Entry) -> c_int {
    let Some(original) = hooks::posix_memalign::find() else { return libc::ENOMEM };
    let call = Call::enter(entry);
    // SAFETY: as above.
    let answer = unsafe { original(out, align, size) };
    if let Some(call) = call {
        match answer {
            // SAFETY: on success the function has stored the block's address there.
            0 => call.allocated(unsafe { *out } as usize, size),
            libc::ENOMEM => call.refused(host_call::POSIX_MEMALIGN, size, 0),
            _ => {}
        }
    }
    answer
}

pub(crate) unsafe extern "C" fn free(pointer: Pointer, entry: Entry) {
    let Some(original) = hooks::free::find() else { return };
    let call = if pointer.is_null() { None } else { Call::enter(entry) };
    if let Some(call) = &call {
        call.freeing(pointer as usize);
    }
    // SAFETY: as above.
    unsafe { original(pointer) };
}

pub(crate) unsafe extern "C" fn realloc(pointer: Pointer, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::realloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    resize(pointer, size, entry, || unsafe { original(pointer, size) }, host_call::REALLOC)
}

pub(crate) unsafe extern "C" fn reallocarray(pointer: Pointer, count: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::reallocarray::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    resize(
        pointer,
        count.saturating_mul(size),
        entry,
        || unsafe { original(pointer, count, size) },
        host_call::REALLOCARRAY,
    )
}

/// Records what a realloc turned out to be: allocation, move, free, or failure (which leaves the old block alone).
#[inline(always)]
fn resize(old: Pointer, size: usize, entry: Entry, original: impl FnOnce() -> Pointer, function: u8) -> Pointer {
    let Some(call) = Call::enter(entry) else { return original() };
    let began = call.now();
    let new = original();
    match (old.is_null(), new.is_null()) {
        (true, false) => call.allocated(new as usize, size),
        (false, false) => call.moved(old as usize, new as usize, size, began),
        (false, true) if size == 0 => call.moved(old as usize, 0, 0, began),
        (_, true) if is_refusal(function, size) => call.refused(function, size, 0),
        _ => {}
    }
    new
}

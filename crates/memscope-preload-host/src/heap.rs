//! The malloc family.
use crate::hooks::{self, Pointer};
use crate::recording::Call;
use core::ffi::c_int;
use core::ptr;
use memscope_hook::Entry;

pub(crate) unsafe extern "C" fn malloc(size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::malloc::find() else { return ptr::null_mut() };
    // SAFETY: the program's own arguments are passed on, here and below.
    allocate(size, entry, || unsafe { original(size) })
}

pub(crate) unsafe extern "C" fn calloc(count: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::calloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(count.wrapping_mul(size), entry, || unsafe { original(count, size) })
}

pub(crate) unsafe extern "C" fn aligned_alloc(align: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::aligned_alloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(align, size) })
}

pub(crate) unsafe extern "C" fn memalign(align: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::memalign::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(align, size) })
}

pub(crate) unsafe extern "C" fn valloc(size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::valloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(size) })
}

pub(crate) unsafe extern "C" fn pvalloc(size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::pvalloc::find() else { return ptr::null_mut() };
    // SAFETY: as above.
    allocate(size, entry, || unsafe { original(size) })
}

/// Records what the original gives, with its size.
#[inline(always)]
fn allocate(size: usize, entry: Entry, original: impl Fn() -> Pointer) -> Pointer {
    let Some(call) = Call::enter(entry) else { return original() };
    let pointer = original();
    if !pointer.is_null() {
        call.allocated(pointer as usize, size);
    }
    pointer
}

pub(crate) unsafe extern "C" fn posix_memalign(out: *mut Pointer, align: usize, size: usize, entry: Entry) -> c_int {
    let Some(original) = hooks::posix_memalign::find() else { return libc::ENOMEM };
    let call = Call::enter(entry);
    // SAFETY: as above.
    let answer = unsafe { original(out, align, size) };
    if let Some(call) = call
        && answer == 0
    {
        // SAFETY: on success the function has stored the block's address there.
        call.allocated(unsafe { *out } as usize, size);
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
    resize(pointer, size, entry, || unsafe { original(pointer, size) })
}

pub(crate) unsafe extern "C" fn reallocarray(pointer: Pointer, count: usize, size: usize, entry: Entry) -> Pointer {
    let Some(original) = hooks::reallocarray::find() else { return ptr::null_mut() };
    // An overflowing product fails in the original and is then not looked at.
    // SAFETY: as above.
    resize(pointer, count.wrapping_mul(size), entry, || unsafe { original(pointer, count, size) })
}

/// Records what a realloc turned out to be: allocation, move, free, or failure (which leaves the old block alone).
#[inline(always)]
fn resize(old: Pointer, size: usize, entry: Entry, original: impl FnOnce() -> Pointer) -> Pointer {
    let Some(call) = Call::enter(entry) else { return original() };
    let began = call.now();
    let new = original();
    match (old.is_null(), new.is_null()) {
        (true, false) => call.allocated(new as usize, size),
        (false, false) => call.moved(old as usize, new as usize, size, began),
        (false, true) if size == 0 => call.moved(old as usize, 0, 0, began),
        _ => {}
    }
    new
}

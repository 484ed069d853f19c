//! The malloc family. `stack` and `frame` come from the entry stubs.
use crate::originals::{Function, Original, find};
use crate::recording::Call;
use core::ffi::{c_int, c_void};
use core::ptr;

type Pointer = *mut c_void;

/// An allocation by the original at `$address`, recorded with `$size` if it succeeds.
macro_rules! allocate {
    ($function:ident, $type:ty, ($($argument:expr),*), $size:expr, $stack:ident, $frame:ident) => {
        match find(Function::$function) {
            Original::At(address) => {
                // SAFETY: the address is that of the C function of this name, which has this type.
                let original: $type = unsafe { core::mem::transmute(address) };
                let Some(call) = Call::enter($stack, $frame) else {
                    // SAFETY: the program's own arguments are passed on.
                    return unsafe { original($($argument),*) };
                };
                // SAFETY: the program's own arguments are passed on.
                let pointer = unsafe { original($($argument),*) };
                if !pointer.is_null() {
                    call.allocated(pointer as usize, $size);
                }
                pointer
            }
            Original::Absent => ptr::null_mut(),
        }
    };
}

pub(crate) unsafe extern "C" fn malloc(size: usize, stack: usize, frame: usize) -> Pointer {
    allocate!(Malloc, unsafe extern "C" fn(usize) -> Pointer, (size), size, stack, frame)
}

pub(crate) unsafe extern "C" fn calloc(count: usize, size: usize, stack: usize, frame: usize) -> Pointer {
    let total = count.wrapping_mul(size);
    allocate!(Calloc, unsafe extern "C" fn(usize, usize) -> Pointer, (count, size), total, stack, frame)
}

pub(crate) unsafe extern "C" fn aligned_alloc(align: usize, size: usize, stack: usize, frame: usize) -> Pointer {
    type Type = unsafe extern "C" fn(usize, usize) -> Pointer;
    allocate!(AlignedAlloc, Type, (align, size), size, stack, frame)
}

pub(crate) unsafe extern "C" fn memalign(align: usize, size: usize, stack: usize, frame: usize) -> Pointer {
    type Type = unsafe extern "C" fn(usize, usize) -> Pointer;
    allocate!(Memalign, Type, (align, size), size, stack, frame)
}

pub(crate) unsafe extern "C" fn valloc(size: usize, stack: usize, frame: usize) -> Pointer {
    allocate!(Valloc, unsafe extern "C" fn(usize) -> Pointer, (size), size, stack, frame)
}

pub(crate) unsafe extern "C" fn pvalloc(size: usize, stack: usize, frame: usize) -> Pointer {
    allocate!(Pvalloc, unsafe extern "C" fn(usize) -> Pointer, (size), size, stack, frame)
}

pub(crate) unsafe extern "C" fn posix_memalign(
    out: *mut Pointer,
    align: usize,
    size: usize,
    stack: usize,
    frame: usize,
) -> c_int {
    let Original::At(address) = find(Function::PosixMemalign) else { return libc::ENOMEM };
    // SAFETY: the address is that of the C function of this name, which has this type.
    let original: unsafe extern "C" fn(*mut Pointer, usize, usize) -> c_int = unsafe { core::mem::transmute(address) };
    let call = Call::enter(stack, frame);
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { original(out, align, size) };
    if let Some(call) = call
        && answer == 0
    {
        // SAFETY: on success the function has stored the block's address there.
        call.allocated(unsafe { *out } as usize, size);
    }
    answer
}

pub(crate) unsafe extern "C" fn free(pointer: Pointer, stack: usize, frame: usize) {
    let Original::At(address) = find(Function::Free) else { return };
    // SAFETY: the address is that of the C function of this name, which has this type.
    let original: unsafe extern "C" fn(Pointer) = unsafe { core::mem::transmute(address) };
    let call = if pointer.is_null() { None } else { Call::enter(stack, frame) };
    if let Some(call) = &call {
        call.freeing(pointer as usize);
    }
    // SAFETY: the program's own argument is passed on.
    unsafe { original(pointer) };
}

pub(crate) unsafe extern "C" fn realloc(pointer: Pointer, size: usize, stack: usize, frame: usize) -> Pointer {
    let Original::At(address) = find(Function::Realloc) else { return ptr::null_mut() };
    // SAFETY: the address is that of the C function of this name, which has this type.
    let original: unsafe extern "C" fn(Pointer, usize) -> Pointer = unsafe { core::mem::transmute(address) };
    // SAFETY: the program's own arguments are passed on.
    resize(pointer, size, stack, frame, || unsafe { original(pointer, size) })
}

pub(crate) unsafe extern "C" fn reallocarray(
    pointer: Pointer,
    count: usize,
    size: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    let Original::At(address) = find(Function::Reallocarray) else { return ptr::null_mut() };
    // SAFETY: the address is that of the C function of this name, which has this type.
    let original: unsafe extern "C" fn(Pointer, usize, usize) -> Pointer = unsafe { core::mem::transmute(address) };
    // An overflowing product fails in the original and is then not looked at.
    // SAFETY: the program's own arguments are passed on.
    resize(pointer, count.wrapping_mul(size), stack, frame, || unsafe { original(pointer, count, size) })
}

/// Records what a realloc turned out to be: allocation, move, free, or failure (which leaves the old block alone).
#[inline(always)]
fn resize(old: Pointer, size: usize, stack: usize, frame: usize, original: impl FnOnce() -> Pointer) -> Pointer {
    let Some(call) = Call::enter(stack, frame) else { return original() };
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

//! What a program does to itself as a whole: forks, and locks its memory.
use crate::original::Original;
use core::ffi::c_int;
use memscope_recorder::{forks, sys};

static FORK: Original = Original::next(c"fork");
static BARE_FORK: Original = Original::next(c"_Fork");
static LOCK_ALL: Original = Original::next(c"mlockall");

/// From the constructor: fork may be called where nothing may be searched.
pub(crate) fn find_originals() {
    for original in [&FORK, &BARE_FORK, &LOCK_ALL] {
        original.address();
    }
}

#[unsafe(no_mangle)]
extern "C" fn fork() -> c_int {
    fork_by(&FORK)
}

/// Without what libraries registered for a fork, so that a signal handler may call it.
#[unsafe(no_mangle)]
extern "C" fn _Fork() -> c_int {
    fork_by(&BARE_FORK)
}

fn fork_by(original: &Original) -> c_int {
    const FAILED: c_int = -1;
    let address = original.address();
    if address == 0 {
        return FAILED;
    }
    // SAFETY: the address is that of a C function of this type.
    let original: unsafe extern "C" fn() -> c_int = unsafe { core::mem::transmute(address) };
    let before = forks::before();
    // SAFETY: fork has no preconditions of its own.
    let answer = unsafe { original() };
    if answer == 0 {
        forks::in_child(&before);
    }
    answer
}

#[unsafe(no_mangle)]
extern "C" fn mlockall(flags: c_int) -> c_int {
    const FAILED: c_int = -1;
    const MCL_ONFAULT: c_int = 4;
    let address = LOCK_ALL.address();
    if address == 0 {
        return FAILED;
    }
    // SAFETY: the address is that of libc's `mlockall`, which has this type.
    let original: unsafe extern "C" fn(c_int) -> c_int = unsafe { core::mem::transmute(address) };
    // SAFETY: the program's own argument is passed on.
    let answer = unsafe { original(flags) };
    if answer == 0 {
        sys::future_is_locked(flags & libc::MCL_FUTURE != 0 && flags & MCL_ONFAULT == 0);
    }
    answer
}

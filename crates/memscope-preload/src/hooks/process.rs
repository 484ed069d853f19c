//! What a program does to itself as a whole: forks, and locks its memory.
use super::{_Fork, fork, mlockall};
use core::ffi::c_int;
use memscope_recorder::{forks, sys};

/// From the constructor: fork may be called where nothing may be searched.
pub(crate) fn find_originals() {
    for original in [fork::ORIGINAL, _Fork::ORIGINAL, mlockall::ORIGINAL] {
        original.address();
    }
}

pub(super) fn fork_by(_address: usize, original: impl FnOnce() -> c_int) -> c_int {
    let before = forks::before();
    let answer = original();
    if answer == 0 {
        forks::in_child(&before);
    }
    answer
}

pub(super) unsafe extern "C" fn lock_all(flags: c_int) -> c_int {
    const MCL_ONFAULT: c_int = 4;
    // SAFETY: the program's own argument is passed on.
    let answer = unsafe { mlockall::call(flags) };
    if answer == 0 {
        sys::future_is_locked(flags & libc::MCL_FUTURE != 0 && flags & MCL_ONFAULT == 0);
    }
    answer
}

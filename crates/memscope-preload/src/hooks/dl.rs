//! The dynamic loader: only unloading matters, because it lets addresses change their meaning. The loader's own counters
//! tell more of it (`memscope_stack::c`); this is for a C library where they are not found.
use crate::recording::hidden;
use core::ffi::{c_char, c_int};

pub(super) fn close_by(_address: usize, original: impl FnOnce() -> c_int) -> c_int {
    keep_python();
    let answer = original();
    crate::original::library_unloaded();
    crate::torch::library_unloaded();
    memscope_recorder::library_unloaded();
    answer
}

/// Captures call into a Python that was loaded late: it stays. Here the loader's lock may be taken, for the program is about to
/// take it itself.
fn keep_python() {
    if let Some(path) = memscope_recorder::library_to_keep() {
        // SAFETY: the path is the loader's own. Takes a reference to a library that is loaded, or gives null; loads nothing.
        hidden(|_| unsafe {
            libc::dlopen(path as *const c_char, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            libc::dlerror();
            libc::dlerror();
        });
    }
}

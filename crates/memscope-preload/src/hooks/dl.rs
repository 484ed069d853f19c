//! The dynamic loader: only unloading matters, because it lets addresses change their meaning. The loader's own counters
//! tell more of it (`memscope_stack::c`); this is for a C library where they are not found.
//!
//! `dlopen` must not be hooked: it looks up its caller for `RPATH`.
use super::hidden;
use crate::original::Original;
use core::ffi::{c_char, c_int, c_void};

static DLCLOSE: Original = Original::next(c"dlclose");

/// # Safety
/// As for `dlclose` of `dlfcn.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    const FAILED: c_int = -1;
    let address = DLCLOSE.address();
    if address == 0 {
        return FAILED;
    }
    keep_python();
    // SAFETY: the address is that of libc's `dlclose`, which has this type.
    let original: unsafe extern "C" fn(*mut c_void) -> c_int = unsafe { core::mem::transmute(address) };
    // SAFETY: the caller's duty is passed on.
    let answer = unsafe { original(handle) };
    crate::original::library_unloaded();
    memscope_recorder::library_unloaded();
    answer
}

/// Captures call into a Python that was loaded late: it stays. Here the loader's lock may be taken, for the program is about to
/// take it itself.
fn keep_python() {
    if let Some(path) = memscope_recorder::library_to_keep() {
        // SAFETY: the path is the loader's own. Takes a reference to a library that is loaded, or gives null; loads nothing.
        hidden(|| unsafe {
            libc::dlopen(path as *const c_char, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            libc::dlerror();
            libc::dlerror();
        });
    }
}

//! The dynamic loader: only unloading matters, because it lets addresses change their meaning. The loader's own counters
//! tell more of it (`memscope_stack::c`); this is for a C library where they are not found.
//!
//! `dlopen` must not be hooked: it looks up its caller for `RPATH`.
use crate::original::Original;
use core::ffi::{c_int, c_void};

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
    // SAFETY: the address is that of libc's `dlclose`, which has this type.
    let original: unsafe extern "C" fn(*mut c_void) -> c_int = unsafe { core::mem::transmute(address) };
    // SAFETY: the caller's duty is passed on.
    let answer = unsafe { original(handle) };
    memscope_recorder::library_unloaded();
    answer
}

//! The recorder's C table.
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use memscope_hook::{API_VERSION, Api};

static TABLE: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());

/// The table, if a recording library is in the process: preloaded by whoever started it, or loaded by us.
pub(crate) fn find() -> Option<&'static Api> {
    let known = TABLE.load(Acquire);
    // SAFETY: a table is static in a library that is never unloaded.
    if let Some(api) = unsafe { known.as_ref() } {
        return Some(api);
    }
    // SAFETY: a name in the global scope; whoever defines it is the recording library, whose function has this type. Of an
    // older or newer one no more is read than its size and version.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"msmemscope_api".as_ptr());
        if found.is_null() {
            return None;
        }
        let provide: extern "C" fn() -> *const Api = std::mem::transmute(found);
        let api = provide();
        if ((*api).size as usize) < size_of::<Api>() || (*api).version != API_VERSION {
            return None;
        }
        TABLE.store(api.cast_mut(), Release);
        api.as_ref()
    }
}

/// Whether there is a recording library, of whatever version.
pub(crate) fn is_there() -> bool {
    // SAFETY: a name in the global scope.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"msmemscope_api".as_ptr()) }.is_null()
}

/// Whether there is one that [`find`] cannot talk to.
pub(crate) fn is_of_another_version() -> bool {
    find().is_none() && is_there()
}

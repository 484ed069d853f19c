//! Functions the hooks call on their own account, and do without if they are not there.
use crate::original::{Library, Original};
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Searched for once: it is first asked for when its library is at work.
pub(crate) struct Helper {
    function: Original,
    /// [`UNKNOWN`], [`ABSENT`] or the address.
    state: AtomicUsize,
}

const UNKNOWN: usize = 0;
const ABSENT: usize = 1;

impl Helper {
    pub(crate) const fn new(name: &'static CStr, library: Library) -> Helper {
        Helper { function: Original::new(name, library), state: AtomicUsize::new(UNKNOWN) }
    }

    /// 0 if it is not there.
    pub(crate) fn address(&self) -> usize {
        match self.state.load(Relaxed) {
            UNKNOWN => {
                let found = self.function.address();
                self.state.store(if found == 0 { ABSENT } else { found }, Relaxed);
                found
            }
            ABSENT => 0,
            address => address,
        }
    }
}

/// Keeps `errno` as it is while helpers are called, which may change it.
pub(crate) struct KeptErrno(i32);

impl KeptErrno {
    pub(crate) fn keep() -> KeptErrno {
        // SAFETY: the thread's own `errno`.
        KeptErrno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: the thread's own `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

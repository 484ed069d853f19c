//! The function a hook stands in front of.
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Looked up at the first call, in the objects after ours.
pub(crate) struct Original {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Original {
    pub(crate) const fn new(name: &'static CStr) -> Original {
        Original { name, address: AtomicUsize::new(0) }
    }

    /// The original's address, 0 if no other object has one.
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Relaxed) {
            0 => {
                // SAFETY: `dlsym` takes a C string; the program itself may call it here.
                let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
                self.address.store(address, Relaxed);
                address
            }
            address => address,
        }
    }
}

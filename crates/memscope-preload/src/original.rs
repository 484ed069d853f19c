//! The function a hook stands in front of.
//!
//! Frameworks load CANN with `RTLD_LOCAL`, so neither the next object nor the global scope need have it: then it is
//! taken from the library by name, which is in the process already or the hook would not have been called. An original
//! that cannot be found makes the hook fail as the call would fail without us, never succeed.
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use memscope_recorder::slot::{Guard, MARK_WORD};

/// Looked up at the first call.
pub(crate) struct Original {
    name: &'static CStr,
    /// The driver's own name for what other libraries call by `name`.
    inner: Option<&'static CStr>,
    library: Option<&'static CStr>,
    /// Where other versions of CANN have it.
    other_library: Option<&'static CStr>,
    address: AtomicUsize,
}

impl Original {
    /// A function of libc.
    pub(crate) const fn next(name: &'static CStr) -> Original {
        Original { name, inner: None, library: None, other_library: None, address: AtomicUsize::new(0) }
    }

    /// A function of a library that may be loaded out of sight.
    pub(crate) const fn of(library: &'static CStr, name: &'static CStr) -> Original {
        Original { name, inner: None, library: Some(library), other_library: None, address: AtomicUsize::new(0) }
    }

    /// The same, where it is in one library or, in other versions, in another.
    pub(crate) const fn of_either(library: &'static CStr, other: &'static CStr, name: &'static CStr) -> Original {
        let (library, other_library) = (Some(library), Some(other));
        Original { name, inner: None, library, other_library, address: AtomicUsize::new(0) }
    }

    /// The same, where newer versions export a second symbol that is not meant to be interposed.
    pub(crate) const fn with_inner(library: &'static CStr, name: &'static CStr, inner: &'static CStr) -> Original {
        let library = Some(library);
        Original { name, inner: Some(inner), library, other_library: None, address: AtomicUsize::new(0) }
    }

    /// The original's address, 0 if no other object has one.
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Relaxed) {
            0 => self.search(),
            address => address,
        }
    }

    #[cold]
    fn search(&self) -> usize {
        let mark = MARK_WORD;
        // What the loader allocates in a search is not the program's; without a guard we are within another hook.
        let _guard = Guard::enter_at(&mark);
        let mut found = self.in_scope(libc::RTLD_NEXT, libc::RTLD_DEFAULT);
        for library in [self.library, self.other_library].into_iter().flatten() {
            if found != 0 {
                break;
            }
            // SAFETY: takes a reference to a library that is loaded, or gives null; loads nothing.
            let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if !handle.is_null() {
                found = self.in_scope(handle, handle);
            }
        }
        // SAFETY: no preconditions. A failed search leaves a message that is not the program's: the first call takes
        // it, the second frees it.
        unsafe {
            libc::dlerror();
            libc::dlerror();
        }
        self.address.store(found, Relaxed);
        found
    }

    fn in_scope(&self, by_name: *mut c_void, by_inner: *mut c_void) -> usize {
        // SAFETY: `dlsym` takes a scope or a live handle and a C string.
        let look_up = |scope, name: &CStr| unsafe { libc::dlsym(scope, name.as_ptr()) } as usize;
        let inner = self.inner.map_or(0, |inner| look_up(by_inner, inner));
        if inner != 0 { inner } else { look_up(by_name, self.name) }
    }
}

/// Calls the original as a function of the given type; the error where there is none.
macro_rules! call_original {
    ($original:expr, fn($($type:ty),*) -> c_int, ($($argument:expr),*), $absent:expr) => {
        match $original.address() {
            0 => return $absent,
            address => {
                // SAFETY: the address is that of the C function of this name, which has this type.
                let original: unsafe extern "C" fn($($type),*) -> c_int = unsafe { core::mem::transmute(address) };
                // SAFETY: the program's own arguments are passed on.
                unsafe { original($($argument),*) }
            }
        }
    };
}
pub(crate) use call_original;

/// What the driver says where it has no such function (`DRV_ERROR_NOT_SUPPORT`).
pub(crate) const DRIVER_ABSENT: c_int = 0xfffe;
/// What ACL says of an internal failure.
pub(crate) const ACL_ABSENT: c_int = 500_000;
/// What the runtime says where it has no such function.
pub(crate) const RUNTIME_ABSENT: c_int = 0x99;
/// The same of ACL, for launches.
pub(crate) const ACL_LAUNCH_ABSENT: c_int = 500_003;

//! The function a hook stands in front of.
//!
//! Found without the loader's lock, which another thread may hold while it waits for the one that calls the hook. The order
//! is the loader's own: what comes after us in the global scope. Frameworks load CANN with `RTLD_LOCAL`, so that scope
//! need not have it: then it is taken from the library by name, and, because simulators and other installations of CANN
//! have other names, from whatever library has it. It is in the process already or the hook would not have been called.
//! An original that cannot be found makes the hook fail as the call would fail without us, never succeed.
use core::ffi::{CStr, c_int};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use memscope_recorder::sys::loader::{self, Found, Object};

/// How often the program may have unloaded a library.
static UNLOADS: AtomicU32 = AtomicU32::new(0);

/// A library may have been unloaded: what was found in it is looked for again.
pub(crate) fn library_unloaded() {
    UNLOADS.fetch_add(1, Release);
}

fn unload_epoch() -> u32 {
    UNLOADS.load(Acquire)
}

/// Looked up at the first call, and again when its library may have gone.
pub(crate) struct Original {
    name: &'static CStr,
    /// The driver's own name for what other libraries call by `name`.
    inner: Option<&'static CStr>,
    library: Option<&'static CStr>,
    /// Where other versions of CANN have it.
    other_library: Option<&'static CStr>,
    address: AtomicUsize,
    /// The [`Object::id`] of the library it is in.
    object: AtomicUsize,
    /// One more than the unload epoch in which the address was seen to be right; 0 never.
    epoch: AtomicU64,
}

/// The epoch of what is never unloaded.
const FOR_EVER: u64 = u64::MAX;

impl Original {
    const fn new(name: &'static CStr) -> Original {
        let (address, object, epoch) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        Original { name, inner: None, library: None, other_library: None, address, object, epoch }
    }

    /// A function of libc.
    pub(crate) const fn next(name: &'static CStr) -> Original {
        Original::new(name)
    }

    /// A function of a library that may be loaded out of sight.
    pub(crate) const fn of(library: &'static CStr, name: &'static CStr) -> Original {
        Original { library: Some(library), ..Original::new(name) }
    }

    /// The same, where it is in one library or, in other versions, in another.
    pub(crate) const fn of_either(library: &'static CStr, other: &'static CStr, name: &'static CStr) -> Original {
        Original { library: Some(library), other_library: Some(other), ..Original::new(name) }
    }

    /// The same, where newer versions export a second symbol that is not meant to be interposed.
    pub(crate) const fn with_inner(library: &'static CStr, name: &'static CStr, inner: &'static CStr) -> Original {
        Original { inner: Some(inner), library: Some(library), ..Original::new(name) }
    }

    /// The original's address, 0 if no other object has one.
    pub(crate) fn address(&self) -> usize {
        let seen = self.epoch.load(Acquire);
        let holds = seen == u64::from(unload_epoch()) + 1 || seen == FOR_EVER;
        if holds { self.address.load(Relaxed) } else { self.search() }
    }

    /// The [`Object::id`] of the library it was found in, 0 if there is none.
    pub(crate) fn library_id(&self) -> usize {
        if self.address() == 0 { 0 } else { self.object.load(Relaxed) }
    }

    #[cold]
    #[inline(never)]
    fn search(&self) -> usize {
        loop {
            let epoch = u64::from(unload_epoch()) + 1;
            let known = self.address.load(Acquire);
            if known != 0 && self.is_still_at(known) {
                self.epoch.store(epoch, Release);
                return known;
            }
            let found = self.find();
            let address = found.map_or(0, |found| found.address);
            // Of two threads that were at it, the later one begins anew: what it has may be the older answer.
            if self.address.compare_exchange(known, address, AcqRel, Relaxed).is_err() {
                continue;
            }
            self.object.store(found.map_or(0, |found| found.object.id()), Relaxed);
            let epoch = match (address, self.library) {
                // It may be loaded any time.
                (0, _) => 0,
                (_, None) => FOR_EVER,
                _ => epoch,
            };
            self.epoch.store(epoch, Release);
            return address;
        }
    }

    /// Something was unloaded since; mostly it was something else.
    fn is_still_at(&self, address: usize) -> bool {
        let Some(object) = Object::of_id(self.object.load(Relaxed)) else { return false };
        let names = [self.inner, Some(self.name)];
        names.into_iter().flatten().any(|name| object.find(name) == Some(address))
    }

    fn find(&self) -> Option<Found> {
        let libraries = || [self.library, self.other_library].into_iter().flatten();
        let in_library = |library: &CStr| {
            let inner = self.inner.and_then(|inner| loader::find_in(library, inner));
            inner.or_else(|| loader::find_in(library, self.name))
        };
        let inner = self.inner.and_then(loader::find_global);
        let in_sight = inner.or_else(|| loader::find_next(self.name));
        let by_name = in_sight.or_else(|| libraries().find_map(in_library));
        let inner_anywhere = || self.inner.and_then(loader::find_anywhere);
        by_name.or_else(inner_anywhere).or_else(|| loader::find_anywhere(self.name))
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

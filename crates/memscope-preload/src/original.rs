//! The hooked function itself.
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

/// Where an original is looked for besides what comes after us in the global scope.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    name: Option<&'static CStr>,
    /// Where other versions of CANN have it.
    other_name: Option<&'static CStr>,
    /// The library's own name for what others call by the hooked one; newer drivers export it so that it is not hooked.
    inner: Option<&'static CStr>,
}

impl Library {
    /// A library that may be loaded out of sight.
    const fn named(name: &'static CStr) -> Library {
        Library { name: Some(name), ..LIBC }
    }

    const fn or(self, other: &'static CStr) -> Library {
        Library { other_name: Some(other), ..self }
    }

    pub(crate) const fn with_inner(self, name: &'static CStr) -> Library {
        Library { inner: Some(name), ..self }
    }
}

pub(crate) const LIBC: Library = Library { name: None, other_name: None, inner: None };
pub(crate) const DRIVER: Library = Library::named(c"libascend_hal.so");
pub(crate) const RUNTIME: Library = Library::named(c"libruntime.so");
pub(crate) const PROFILING: Library = Library::named(c"libprofapi.so");
pub(crate) const ACL: Library = Library::named(c"libascendcl.so");
pub(crate) const ACL_IMPLEMENTATION: Library = Library::named(c"libascendcl_impl.so").or(c"libacl_rt_impl.so");
pub(crate) const ATB: Library = Library::named(c"libatb.so");
/// The lowest of torch's libraries.
pub(crate) const C10: Library = Library::named(c"libc10.so");
pub(crate) const TORCH: Library = Library::named(c"libtorch_cpu.so");
pub(crate) const TORCH_NPU: Library = Library::named(c"libtorch_npu.so");
pub(crate) const CXX: Library = Library::named(c"libstdc++.so.6");

/// What libc says of a failure.
pub(crate) const FAILED: c_int = -1;
/// What functions say that answer with an error number (`ENOSYS`).
pub(crate) const NO_SYSTEM_CALL: c_int = 38;
/// What the driver says where it has no such function (`DRV_ERROR_NOT_SUPPORT`).
pub(crate) const DRIVER_ABSENT: c_int = 0xfffe;
/// What ACL says of an internal failure.
pub(crate) const ACL_ABSENT: c_int = 500_000;
/// What the runtime says where it has no such function.
pub(crate) const RUNTIME_ABSENT: c_int = 0x99;
/// The same of ACL, for launches.
pub(crate) const ACL_LAUNCH_ABSENT: c_int = 500_003;

/// Looked up at the first call, and again when its library may have gone.
pub(crate) struct Original {
    name: &'static CStr,
    library: Library,
    address: AtomicUsize,
    /// The [`Object::id`] of the library it is in.
    object: AtomicUsize,
    /// One more than the unload epoch in which the address was seen to be right; 0 never.
    epoch: AtomicU64,
}

/// The epoch of what is never unloaded.
const FOR_EVER: u64 = u64::MAX;

impl Original {
    pub(crate) const fn new(name: &'static CStr, library: Library) -> Original {
        let (address, object, epoch) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        Original { name, library, address, object, epoch }
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
            let epoch = match (address, self.library.name) {
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
        let names = [self.library.inner, Some(self.name)];
        names.into_iter().flatten().any(|name| object.find(name) == Some(address))
    }

    fn find(&self) -> Option<Found> {
        let libraries = || [self.library.name, self.library.other_name].into_iter().flatten();
        let in_library = |library: &CStr| {
            let inner = self.library.inner.and_then(|inner| loader::find_in(library, inner));
            inner.or_else(|| loader::find_in(library, self.name))
        };
        let inner = self.library.inner.and_then(loader::find_global);
        let in_sight = inner.or_else(|| loader::find_next(self.name));
        let by_name = in_sight.or_else(|| libraries().find_map(in_library));
        let inner_anywhere = || self.library.inner.and_then(loader::find_anywhere);
        by_name.or_else(inner_anywhere).or_else(|| loader::find_anywhere(self.name))
    }
}

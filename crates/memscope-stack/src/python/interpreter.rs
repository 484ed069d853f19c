//! The CPython of this process, if there is one, and the innermost frame of the current thread.
use super::deaths::{DeathCount, DeathWatch};
use super::layout::{FIRST_OWNER_NOT_PYTHON, Layout, PUBLISHED_WORDS, Position};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_ulong, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use memscope_sys::loader::{self, Found, Watch};

/// Whether Python stacks can be had in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    NoPython,
    /// `PY_VERSION_HEX >> 16`, e.g. 0x030b.
    Supported(u16),
    /// A version or a build (free-threaded, reference tracing) whose frames we cannot read; 0 if not even the
    /// version could be found.
    Unknown(u16),
}

pub(super) struct Interpreter {
    pub layout: Layout,
    /// `&PyCode_Type`: the proof that what a frame calls its code is a code object.
    pub code_type: usize,
    /// `&PyCell_Type`, `&PyCFunction_Type`, `&PyCMethod_Type`, `&PyMethodDescr_Type` and
    /// `&PyModule_Type`; 0 if it is not found.
    pub cell_type: usize,
    pub function_types: [usize; 2],
    pub descriptor_type: usize,
    pub module_type: usize,
    /// Of code objects that have no numbers.
    deaths: DeathWatch,
    /// `&_PyRuntime`.
    runtime: usize,
    thread_state: unsafe extern "C" fn() -> *mut c_void,
}

/// Written once, by whoever moved [`STATE`] to `BUSY`, and only read after `STATE` says `SUPPORTED`.
struct Published(UnsafeCell<MaybeUninit<Interpreter>>);

// SAFETY: `STATE` orders the one write before all reads.
unsafe impl Sync for Published {}

static INTERPRETER: Published = Published(UnsafeCell::new(MaybeUninit::uninit()));
/// One of the kinds below, and for the last two the version in the low half.
static STATE: AtomicU32 = AtomicU32::new(NO_PYTHON);
const NO_PYTHON: u32 = 0;
const BUSY: u32 = 1 << 16;
const SUPPORTED: u32 = 2 << 16;
const UNKNOWN: u32 = 3 << 16;

/// Objects that are loaded while the process runs: one of them may be Python.
static WATCH: Watch = Watch::new();
/// Python was loaded, but is not ready yet.
static AWAITED: AtomicBool = AtomicBool::new(false);
/// The [`loader::Object::id`] of a Python that was not there from the beginning, and can be unloaded; 0 if it need not be kept.
static TO_BE_KEPT: AtomicUsize = AtomicUsize::new(0);

/// Looks for CPython in the libraries of the process. To be called once the process has its libraries.
///
/// Takes no lock and allocates nothing.
pub fn initialise() {
    WATCH.has_changed();
    attempt(Moment::AtStart);
}

/// Looks again if something was loaded since, and says whether Python was found just now. At next to no cost if nothing was:
/// to be called every so many captures of a process without Python.
#[cold]
pub fn look_again() -> bool {
    (WATCH.has_changed() || AWAITED.load(Ordering::Relaxed)) && attempt(Moment::Later)
}

/// Whether no Python was found yet.
#[inline(always)]
pub fn is_missing() -> bool {
    STATE.load(Ordering::Relaxed) == NO_PYTHON
}

/// The path of a Python that could be unloaded, a C string; asked for once. Its functions are called by captures for ever: it
/// has to be kept.
pub fn library_to_keep() -> Option<usize> {
    if TO_BE_KEPT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let object = loader::Object::of_id(TO_BE_KEPT.swap(0, Ordering::Relaxed))?;
    Some(object.path())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// All libraries are ready for use.
    AtStart,
    /// The loader may be at work on this very library.
    Later,
}

/// Whether Python was found.
fn attempt(moment: Moment) -> bool {
    if STATE.compare_exchange(NO_PYTHON, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    let state = match find(moment) {
        None => NO_PYTHON,
        Some(Err(version)) => UNKNOWN | u32::from(version),
        Some(Ok(interpreter)) => {
            let version = interpreter.layout.version;
            // SAFETY: `BUSY` makes this thread the only writer, and there are no readers before `SUPPORTED`.
            unsafe { (*INTERPRETER.0.get()).write(interpreter) };
            SUPPORTED | u32::from(version)
        }
    };
    STATE.store(state, Ordering::Release);
    state != NO_PYTHON
}

/// A function of the Python of this process, by its name.
pub fn find_function(name: &CStr) -> Option<usize> {
    loader::find_global(name).or_else(|| loader::find_anywhere(name)).map(|found| found.address)
}

/// What [`initialise`] found.
pub fn support() -> Support {
    let state = STATE.load(Ordering::Acquire);
    match state & !0xffff {
        SUPPORTED => Support::Supported(state as u16),
        UNKNOWN => Support::Unknown(state as u16),
        _ => Support::NoPython,
    }
}

/// The interpreter, if it is one whose frames we can read.
#[inline]
pub(super) fn interpreter() -> Option<&'static Interpreter> {
    if STATE.load(Ordering::Acquire) & !0xffff != SUPPORTED {
        return None;
    }
    // SAFETY: `SUPPORTED` was stored after the value was written, and it is never written again.
    Some(unsafe { (*INTERPRETER.0.get()).assume_init_ref() })
}

/// The interpreter, or the version of one we cannot read, or nothing at all.
fn find(moment: Moment) -> Option<Result<Interpreter, u16>> {
    const PROOF: &CStr = c"PyGILState_GetThisThreadState";
    let Found { address: thread_state, object } =
        loader::find_global(PROOF).or_else(|| loader::find_anywhere(PROOF))?;
    let symbol = |name: &CStr| object.find(name);
    let code_type = symbol(c"PyCode_Type");
    if moment == Moment::Later {
        let ready = code_type.is_some_and(is_ready);
        AWAITED.store(!ready, Ordering::Relaxed);
        if !ready {
            return None;
        }
        TO_BE_KEPT.store(object.id(), Ordering::Relaxed);
    }
    let version_data = symbol(c"Py_Version").map(|address| {
        // SAFETY: `Py_Version` is a constant unsigned long of every CPython that has it.
        (unsafe { *(address as *const c_ulong) }) as u32
    });
    let Some(hex) = version_data.or_else(|| symbol(c"Py_GetVersion").and_then(version_told)) else {
        return Some(Err(0));
    };
    let version = (hex >> 16) as u16;
    let (Some(runtime), Some(code_type)) = (symbol(c"_PyRuntime"), code_type) else {
        return Some(Err(version));
    };
    let layout = if version >= 0x030d {
        // SAFETY: from 3.13 on `_PyRuntime` begins with its published offsets, followed by far more than these
        // words; a newer version may give them another meaning but not be smaller.
        Layout::published(unsafe { &*(runtime as *const [u64; PUBLISHED_WORDS]) }, hex)
    } else if symbol(c"_Py_PrintReferences").is_some() {
        // Exported by builds with Py_TRACE_REFS alone, whose objects all have two more words.
        None
    } else {
        Layout::of_version(hex)
    };
    let Some(layout) = layout else { return Some(Err(version)) };
    // SAFETY: this is the C signature of the function of that name in every CPython.
    let thread_state = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> *mut c_void>(thread_state) };
    let type_of = |name: &CStr| symbol(name).unwrap_or(0);
    Some(Ok(Interpreter {
        layout,
        code_type,
        cell_type: type_of(c"PyCell_Type"),
        function_types: [type_of(c"PyCFunction_Type"), type_of(c"PyCMethod_Type")],
        descriptor_type: type_of(c"PyMethodDescr_Type"),
        module_type: type_of(c"PyModule_Type"),
        deaths: DeathWatch::new(),
        runtime,
        thread_state,
    }))
}

/// Whether the type at `address` was made ready for use, which is done when Python is initialised. A library is in the
/// loader's list before it is relocated, when none of its functions can be called.
fn is_ready(address: usize) -> bool {
    const FLAGS: usize = 168;
    const READY: u64 = 1 << 12;
    let mut flags = 0u64;
    // SAFETY: the place is as large as what is copied.
    let copied = unsafe { memscope_sys::read_own_memory(address + FLAGS, (&raw mut flags).cast(), size_of::<u64>()) };
    copied == Ok(size_of::<u64>()) && flags & READY != 0
}

/// `PY_VERSION_HEX` by way of `Py_GetVersion`, which formats a static string and may be called at any time.
fn version_told(function: usize) -> Option<u32> {
    // SAFETY: the C signature of `Py_GetVersion`, which returns a C string that lives as long as the process.
    let text = unsafe {
        let function = core::mem::transmute::<usize, unsafe extern "C" fn() -> *const c_char>(function);
        CStr::from_ptr(function())
    };
    parse_version(text.to_bytes())
}

/// `PY_VERSION_HEX` of a text like "3.10.13 (main, …", with the release level 0 where it is no release.
fn parse_version(text: &[u8]) -> Option<u32> {
    let mut rest = text;
    let mut number = || -> Option<u32> {
        let mut value = None;
        while let Some((digit @ b'0'..=b'9', tail)) = rest.split_first() {
            value = Some(value.unwrap_or(0u32).checked_mul(10)?.checked_add(u32::from(digit - b'0'))?);
            rest = tail;
        }
        if let Some((b'.', tail)) = rest.split_first() {
            rest = tail;
        }
        value.filter(|value| *value < 256)
    };
    let (major, minor, micro) = (number()?, number()?, number()?);
    let release = matches!(rest.first(), None | Some(b' ' | b'+'));
    Some(major << 24 | minor << 16 | micro << 8 | if release { 0xf0 } else { 0 })
}

/// Reads a field of an interpreter structure.
///
/// # Safety
/// A `T` must be readable at `address + offset`.
#[inline]
pub(super) unsafe fn load<T: Copy>(address: usize, offset: usize) -> T {
    // SAFETY: the caller's.
    unsafe { ((address + offset) as *const T).read() }
}

/// Out of the way: the end of a program is no place for speed.
#[cold]
fn is_other(finalizing: usize, thread: usize) -> bool {
    finalizing != thread
}

/// Whether this can be the address of an interpreter structure, all of which are aligned to 8.
#[inline]
pub(super) fn is_plausible(address: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    const END_OF_USER_SPACE: usize = 1 << 47;
    #[cfg(not(target_arch = "x86_64"))]
    const END_OF_USER_SPACE: usize = 1 << 48;
    const FIRST_PAGES: usize = 0x1_0000;
    // The three lowest bits become the highest ones, so that one comparison finds them, too.
    address.wrapping_sub(FIRST_PAGES).rotate_right(3) < (END_OF_USER_SPACE - FIRST_PAGES) >> 3
}

/// What there is to know of a frame.
impl Layout {
    /// What `frame` calls its code (0 where there is none yet), not known to be a code object.
    ///
    /// # Safety
    /// `frame` must be a frame of the current thread.
    #[inline]
    pub(super) unsafe fn code_of(&self, frame: usize) -> usize {
        /// 3.14 keeps flags of the reference in the low bits; in older versions they are 0.
        const TAGS: usize = 7;
        // SAFETY: the caller's; frames are linked after their fields were set.
        unsafe { load::<usize>(frame, self.frame_code.into()) & !TAGS }
    }

    /// The raw position of `frame`, for [`Layout::instruction`].
    ///
    /// # Safety
    /// `frame` must be a frame of the current thread.
    #[inline]
    pub(super) unsafe fn position_of(&self, frame: usize) -> usize {
        let mask = if matches!(self.position, Position::Pointer { .. }) { usize::MAX } else { 0xffff_ffff };
        // SAFETY: the caller's. `int f_lasti` is aligned to 8 and followed by another int in 3.9 and 3.10.
        unsafe { load::<usize>(frame, self.frame_position.into()) & mask }
    }

    /// The calling frame, 0 at the outermost.
    ///
    /// # Safety
    /// `frame` must be a frame of the current thread.
    #[inline]
    pub(super) unsafe fn previous_of(&self, frame: usize) -> usize {
        // SAFETY: the caller's.
        unsafe { load(frame, self.frame_previous.into()) }
    }

    /// Whether `frame` only marks where C code entered the interpreter.
    ///
    /// # Safety
    /// `frame` must be a frame of the current thread.
    #[inline]
    pub(super) unsafe fn is_entry(&self, frame: usize) -> bool {
        match self.frame_owner {
            None => false,
            // SAFETY: the caller's.
            Some(offset) => unsafe { load::<u8>(frame, offset.into()) >= FIRST_OWNER_NOT_PYTHON },
        }
    }
}

impl Interpreter {
    /// Begins to count the deaths of code objects, if they have no numbers.
    ///
    /// # Safety
    /// A frame of this interpreter must exist. This library must never be unloaded.
    #[cold]
    pub(super) unsafe fn watch_code(&self) {
        if self.layout.code_version.is_none() {
            // SAFETY: an interpreter that has frames is initialised.
            unsafe { self.deaths.begin(self.code_type) };
        }
    }

    /// The present moment among deaths of code objects, unknown if they are not counted.
    #[inline]
    pub(super) fn now(&self) -> DeathCount {
        if self.layout.code_version.is_some() {
            return DeathCount::UNKNOWN;
        }
        // SAFETY: types are static, and this one was found in the interpreter.
        unsafe { self.deaths.now(self.code_type) }
    }

    /// The innermost frame of the current thread, 0 if it runs no Python.
    #[inline]
    pub(super) fn current_frame(&self) -> usize {
        // SAFETY: callable at any time without the interpreter lock, also before the interpreter is initialised and
        // after it was finalised: it then answers NULL.
        let thread = unsafe { (self.thread_state)() } as usize;
        if !is_plausible(thread) {
            return 0;
        }
        // SAFETY: `_PyRuntime` is static; the layout was validated or belongs to this version.
        let finalizing: usize = unsafe { load(self.runtime, self.layout.runtime_finalizing.into()) };
        // From here on, the finalising thread frees the states of all others, while those may still be in C code
        // and still have theirs in the thread-specific value.
        if finalizing != 0 && is_other(finalizing, thread) {
            return 0;
        }
        // SAFETY: a thread's own state is freed by the thread itself, after the thread-specific value was reset.
        let frame: usize = unsafe { load(thread, self.layout.thread_frame.into()) };
        match self.layout.c_frame_current {
            None => frame,
            Some(_) if !is_plausible(frame) => 0,
            // SAFETY: a `_PyCFrame` lies in the thread state or in a C frame of this thread that has not returned.
            Some(offset) => unsafe { load(frame, offset.into()) },
        }
    }

    #[cfg(test)]
    pub(super) fn synthetic(layout: Layout, code_type: usize) -> Interpreter {
        extern "C" fn no_thread() -> *mut c_void {
            core::ptr::null_mut()
        }
        Interpreter {
            layout,
            code_type,
            cell_type: 0,
            function_types: [0; 2],
            descriptor_type: 0,
            module_type: 0,
            deaths: DeathWatch::new(),
            runtime: 0,
            thread_state: no_thread,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_python_says() {
        assert_eq!(parse_version(b"3.10.13 (main, May  9 2026) [GCC 12]"), Some(0x030a_0df0));
        assert_eq!(parse_version(b"3.9.18+ (heads/3.9)"), Some(0x0309_12f0));
        assert_eq!(parse_version(b"3.9.0rc2 (default)"), Some(0x0309_0000));
        assert_eq!(parse_version(b"3.9"), None);
        assert_eq!(parse_version(b""), None);
        assert_eq!(parse_version(b"3.99999999999.1"), None);
    }

    #[test]
    fn only_aligned_user_space_addresses_are_plausible() {
        assert!(is_plausible(0x7f12_3456_7890));
        for address in [0, 8, 0xffff, 0x7f12_3456_7891, 1 << 48, usize::MAX - 7] {
            assert!(!is_plausible(address), "{address:#x}");
        }
    }

    #[test]
    fn a_process_without_python_has_no_stack() {
        initialise();
        assert_eq!(support(), Support::NoPython);
        assert!(interpreter().is_none());
    }
}

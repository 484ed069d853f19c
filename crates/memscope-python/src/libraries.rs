//! The recording libraries, brought into the running process: what `LD_PRELOAD` does for one that is being started.
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use memscope_hook::Attachment;
use memscope_session::libraries::AttachedLibraries;

/// Loaded for ever, for whoever comes later.
const FOR_ALL: c_int = libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NODELETE;

/// Loads what is missing and makes the process use it. `None`: nothing was missing, all of it was preloaded.
pub(crate) fn attach(libraries: &AttachedLibraries) -> Result<Option<Attachment>, String> {
    for path in libraries.recorders.paths() {
        load_for_all(path)?;
    }
    if !IS_LATE.load(Relaxed) {
        return Ok(None);
    }
    let first = attach_once(&libraries.attach)?;
    // A library that is loaded now shows to what those are bound that are loaded from now on.
    let probe = load(&libraries.probe, libc::RTLD_NOW)?;
    // Once more: a thread that was in the middle of binding a call may have overwritten what was replaced.
    let second = attach_once(&libraries.attach);
    // SAFETY: the handle is from `load`; nothing of the library was ever called.
    unsafe { libc::dlclose(probe) };
    let second = second?;
    Ok(Some(Attachment {
        replaced: first.replaced + second.replaced,
        refused: first.refused.max(second.refused),
        ..second
    }))
}

/// Whether one of them came when the program ran already.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// Unless one of this name is there already: preloaded, whichever file that was.
fn load_for_all(path: &Path) -> Result<(), String> {
    if !path.file_name().is_some_and(is_loaded) {
        load(path, FOR_ALL)?;
        IS_LATE.store(true, Relaxed);
    }
    Ok(())
}

fn is_loaded(name: &OsStr) -> bool {
    extern "C" fn is_named(object: *mut libc::dl_phdr_info, _: usize, name: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, whose name is a C string or null, and what was passed below.
        let (path, name) = unsafe { ((*object).dlpi_name, *name.cast::<&OsStr>()) };
        if path.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        c_int::from(path.file_name() == Some(name))
    }
    let mut name = name;
    // SAFETY: the function reads what it is given, and the name outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(is_named), (&raw mut name).cast()) != 0 }
}

/// Loads the recorder, where whoever comes later finds it, and names it where frameworks look for it.
pub(crate) fn announce(libraries: &AttachedLibraries) -> Result<(), String> {
    if let Some(recorder) = libraries.recorders.paths().first() {
        load_for_all(recorder)?;
    }
    name_in_environment(libraries);
    Ok(())
}

/// Its constructor does the work; it is not needed any longer when it has told the result.
fn attach_once(path: &Path) -> Result<Attachment, String> {
    let library = load(path, libc::RTLD_NOW)?;
    // SAFETY: the library is ours, and its function has this type; what it points to is copied before the library goes.
    unsafe {
        let function = libc::dlsym(library, c"msmemscope_attachment".as_ptr());
        let attachment = (!function.is_null()).then(|| {
            let attachment: extern "C" fn() -> *const Attachment = std::mem::transmute(function);
            *attachment()
        });
        libc::dlclose(library);
        attachment.ok_or_else(|| format!("{} is not the library of this version", path.display()))
    }
}

fn load(path: &Path, mode: c_int) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| String::from("a path has a zero byte"))?;
    // SAFETY: a path, and libraries whose constructors are ours; `dlerror` gives a C string that lives until the next call.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), mode);
        if handle.is_null() {
            let error = libc::dlerror();
            let reason =
                if error.is_null() { "unknown".into() } else { CStr::from_ptr(error).to_string_lossy().into_owned() };
            return Err(format!("{} cannot be loaded: {reason}", path.display()));
        }
        Ok(handle)
    }
}

/// Frameworks report their pools only to a library they see in `LD_PRELOAD`: it is written there, before what is there
/// already. Programs started from here inherit it; without settings the library does nothing in them.
pub(crate) fn name_in_environment(libraries: &AttachedLibraries) {
    let Some(recorder) = libraries.recorders.paths().first() else { return };
    let mut value = recorder.as_os_str().as_bytes().to_vec();
    // SAFETY: `getenv` gives a C string, which is copied before the environment changes.
    let existing = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    if !existing.is_null() {
        // SAFETY: as above.
        let existing = unsafe { CStr::from_ptr(existing) }.to_bytes();
        if existing.split(|byte| matches!(byte, b':' | b' ')).any(|entry| entry == value) {
            return;
        }
        if !existing.is_empty() {
            value.push(b':');
            value.extend_from_slice(existing);
        }
    }
    if let Ok(value) = CString::new(value) {
        // SAFETY: two C strings. Threads that read the environment meanwhile are in the same danger as with any `setenv` of
        // the program; it happens once.
        unsafe { libc::setenv(c"LD_PRELOAD".as_ptr(), value.as_ptr(), 1) };
    }
}

//! The profile function of each thread, before 3.12.
//!
//! A thread has one. Where it has another's already, that stays. Threads that begin later get ours from `threading`, which
//! calls a Python callable for it: that is a function in C that puts the profile function in its place at its first call.
use super::installers;
use super::python::{METH_FASTCALL, MethodDefinition, Object, Owned, ProfileFunction, Python};
use crate::recording::hidden;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use memscope_hook::calls;
use memscope_recorder::calls as recorder;
use memscope_recorder::slot::Guard;

const CALL: c_int = 0;
const RETURN: c_int = 3;
const NATIVE_CALL: c_int = 4;
const NATIVE_EXCEPTION: c_int = 5;
const NATIVE_RETURN: c_int = 6;

/// What `threading` calls in a new thread, and what `sys.getprofile` shows in all of ours: how we know what is ours.
static STARTER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

static DEFINITION: MethodDefinition = MethodDefinition {
    name: c"msmemscope_profile".as_ptr(),
    function: first_call as *const c_void,
    flags: METH_FASTCALL,
    documentation: ptr::null(),
};

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn begin(python: &Python) -> u32 {
    // SAFETY: the lock is held, here and below.
    unsafe {
        let Some(starter) = starter(python) else { return calls::REFUSED };
        // First, so that what it calls is not traced.
        let mut others = !begin_in_new_threads(python, starter);
        each_thread(python, |profile| match profile {
            Profile::None => (python.set_profile)(Some(told), starter),
            Profile::Ours => {}
            Profile::Others => others = true,
        });
        calls::BEGUN | if others { calls::OTHERS_KEPT } else { 0 }
    }
}

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn end(python: &Python) -> u32 {
    let mut taken = false;
    // SAFETY: as above.
    unsafe {
        each_thread(python, |profile| match profile {
            Profile::Ours => (python.set_profile)(None, ptr::null_mut()),
            Profile::None => {}
            Profile::Others => taken = true,
        });
        end_in_new_threads(python);
    }
    calls::ENDED | if taken { calls::TAKEN_OVER } else { 0 }
}

/// Made once, and kept.
unsafe fn starter(python: &Python) -> Option<Object> {
    let known = STARTER.load(Relaxed);
    if !known.is_null() {
        return Some(known);
    }
    // SAFETY: the lock is held; the definition is static, in a library that is never unloaded.
    let made = unsafe { (python.new_function)(&DEFINITION, ptr::null_mut(), ptr::null_mut()) };
    if made.is_null() {
        // SAFETY: the lock is held.
        unsafe { (python.clear_error)() };
        return None;
    }
    STARTER.store(made, Relaxed);
    Some(made)
}

/// Whose profile function a thread has.
enum Profile {
    None,
    Ours,
    Others,
}

/// Visits each thread of the interpreter as if it were the running one.
unsafe fn each_thread(python: &Python, mut visit: impl FnMut(Profile)) {
    // SAFETY: the lock is held, so that no thread begins or ends; a thread that is not running does not notice.
    unsafe {
        let own = (python.thread)();
        let mut thread = (python.first_thread)((python.interpreter)(own));
        while !thread.is_null() {
            (python.use_thread)(thread);
            visit(profile(python));
            thread = (python.next_thread)(thread);
        }
        (python.use_thread)(own);
    }
}

/// That of the running thread.
unsafe fn profile(python: &Python) -> Profile {
    // SAFETY: the lock is held; what `sys` has is lent.
    unsafe {
        let get = (python.get_of_sys)(c"getprofile".as_ptr());
        if get.is_null() {
            return Profile::Others;
        }
        match python.owned((python.call)(get, ptr::null_mut())) {
            Some(profile) if profile.is_none() => Profile::None,
            Some(profile) if profile.object == STARTER.load(Relaxed) => Profile::Ours,
            _ => Profile::Others,
        }
    }
}

/// `threading`, and the callable it has for new threads.
unsafe fn threading_hook(python: &Python) -> Option<(Owned<'_>, Owned<'_>)> {
    // SAFETY: the lock is held.
    unsafe {
        let threading = python.owned((python.import)(c"threading".as_ptr()))?;
        let hook = python.owned((python.attribute)(threading.object, c"_profile_hook".as_ptr()))?;
        Some((threading, hook))
    }
}

/// `false` if somebody else has the place.
unsafe fn begin_in_new_threads(python: &Python, starter: Object) -> bool {
    // SAFETY: the lock is held.
    unsafe {
        let Some((threading, hook)) = threading_hook(python) else { return false };
        if hook.object == starter {
            return true;
        }
        hook.is_none() && python.call_with(threading.object, c"setprofile", starter).is_some()
    }
}

unsafe fn end_in_new_threads(python: &Python) {
    // SAFETY: the lock is held.
    unsafe {
        if let Some((threading, hook)) = threading_hook(python)
            && hook.object == STARTER.load(Relaxed)
        {
            let _ = python.call_with(threading.object, c"setprofile", python.none);
        }
    }
}

/// The interpreter tells what happens in a thread.
unsafe extern "C" fn told(_: Object, frame: *mut c_void, what: c_int, argument: Object) -> c_int {
    // SAFETY: the frame runs on this thread, and so does what is called; the lock is held.
    unsafe {
        hidden(|guard| record(guard, frame as usize, what, argument as usize));
        match what {
            NATIVE_CALL => installers::call_is_told(argument, ptr::null_mut()),
            NATIVE_RETURN | NATIVE_EXCEPTION if !installers::end_is_told(argument) => return -1,
            _ => {}
        }
    }
    0
}

const _: ProfileFunction = told;

/// # Safety
/// The interpreter tells this on this thread.
#[inline(always)]
unsafe fn record(guard: &Guard<'_>, frame: usize, what: c_int, argument: usize) {
    // SAFETY: the caller's.
    unsafe {
        match what {
            CALL => {
                if let Some(code) = recorder::code_of_frame_object(frame) {
                    recorder::called(guard, code);
                }
            }
            RETURN => {
                if let Some(code) = recorder::code_of_frame_object(frame) {
                    recorder::ended(guard, code);
                }
            }
            NATIVE_CALL if argument != 0 && recorder::is_native(argument) => recorder::native_called(guard, argument),
            NATIVE_RETURN | NATIVE_EXCEPTION if argument != 0 && recorder::is_native(argument) => {
                recorder::native_ended(guard, argument);
            }
            _ => {}
        }
    }
}

/// `threading` has made this callable the profile function of a new thread, and here is its first call, with frame, event and
/// argument: from the next on they come without a callable.
unsafe extern "C" fn first_call(_: Object, arguments: *const Object, count: isize) -> Object {
    let Some(python) = Python::find() else { return ptr::null_mut() };
    // SAFETY: the interpreter calls this, with its lock held.
    unsafe {
        let starter = STARTER.load(Relaxed);
        match recorder::are_traced() {
            true => (python.set_profile)(Some(told), starter),
            // The trace has ended between the thread's beginning and its first call.
            false => (python.set_profile)(None, ptr::null_mut()),
        }
        // Of functions in C a thread that begins ends one, `sys.setprofile` itself.
        if count == 3 && python.is_text(*arguments.add(1), c"call") {
            let frame = *arguments as usize;
            hidden(|guard| record(guard, frame, CALL, 0));
        }
        (python.keep)(python.none);
    }
    python.none
}

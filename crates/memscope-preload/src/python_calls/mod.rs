//! The trace of Python calls: the interpreter tells which functions begin and end, the recorder writes it down.
//!
//! * [`monitoring`]: from 3.12 on, by `sys.monitoring`, for all threads at once.
//! * [`profiling`]: before, by a profile function in C, thread by thread.
//! * [`installers`]: the functions by which the program installs a profiler of its own.
//! * [`python`]: the interpreter's functions, found by name.
//!
//! What is called here is Python's own, with its lock held, at the beginning and the end of a trace; a call that is told
//! costs a record and nothing else. Under the command there is nobody in the process who asks for a trace: then the audit
//! hook, which can be added before there is an interpreter, hears when the program's own code is about to run.
mod installers;
mod monitoring;
mod profiling;
mod python;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use memscope_hook::calls;
use memscope_recorder::Support;
use python::Python;

/// The first version that has `sys.monitoring`.
const FIRST_WITH_MONITORING: u16 = 0x030c;

pub(crate) unsafe extern "C" fn begin(when: u32) -> u32 {
    if when == calls::IF_ASKED_FOR && !memscope_recorder::wanted().traceback {
        return calls::NOT_WANTED;
    }
    if memscope_recorder::calls::are_traced() {
        return calls::ALREADY_BEGUN;
    }
    let Support::Supported(version) = memscope_recorder::calls::support() else { return calls::UNKNOWN_PYTHON };
    let Some(python) = Python::find() else { return calls::UNKNOWN_PYTHON };
    // Before the interpreter tells anything.
    memscope_recorder::calls::begin();
    // SAFETY: the caller holds the interpreter's lock.
    let answer =
        unsafe { if version >= FIRST_WITH_MONITORING { monitoring::begin(python) } else { profiling::begin(python) } };
    if answer & !calls::OTHERS_KEPT == calls::BEGUN {
        // SAFETY: as above.
        unsafe { installers::begin(python) };
    } else {
        memscope_recorder::calls::end();
    }
    answer
}

pub(crate) unsafe extern "C" fn end() -> u32 {
    if !memscope_recorder::calls::are_traced() {
        return calls::NOT_BEGUN;
    }
    let Some(python) = Python::find() else { return calls::NOT_BEGUN };
    // SAFETY: the caller holds the interpreter's lock.
    let answer = unsafe {
        installers::end(python);
        if monitoring::is_at_work() { monitoring::end(python) } else { profiling::end(python) }
    };
    memscope_recorder::calls::end();
    answer
}

/// Whether the program's own code has been reached.
static PROGRAM_RUNS: AtomicBool = AtomicBool::new(false);

/// Arranges for a trace from the first line of the program, if the settings have it and the program is Python's. Before there
/// is an interpreter.
pub(crate) fn begin_with_program() {
    type AddHook = unsafe extern "C" fn(AuditHook, *mut c_void) -> c_int;
    if !memscope_recorder::calls::are_wanted_from_start() {
        return;
    }
    let Some(add_hook) = memscope_recorder::find_function(c"PySys_AddAuditHook") else { return };
    // SAFETY: the C function of that name has this type, and can be called before the interpreter is initialised.
    unsafe { core::mem::transmute::<usize, AddHook>(add_hook)(hear, core::ptr::null_mut()) };
}

type AuditHook = unsafe extern "C" fn(*const c_char, *mut c_void, *mut c_void) -> c_int;

/// The interpreter says what it is about to do.
unsafe extern "C" fn hear(event: *const c_char, _: *mut c_void, _: *mut c_void) -> c_int {
    if PROGRAM_RUNS.load(Relaxed) {
        return 0;
    }
    // SAFETY: a C string, which the interpreter gives with its lock held.
    unsafe {
        if CStr::from_ptr(event).to_bytes().starts_with(b"cpython.run_") {
            PROGRAM_RUNS.store(true, Relaxed);
            begin(calls::ALWAYS);
        }
    }
    0
}

//! The runtime's reports to a profiler: kernel names, and the numbers of tasks.
//!
//! Claimed only if kernels are asked for, because there is room for one profiler: whoever registers last gets the reports.
use crate::original::{Original, PROFILING};
use crate::recording::hidden;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use memscope_recorder::device::PhysicalDevice;
use memscope_recorder::kernel;
use memscope_recorder::slot::Guard;
use memscope_recorder::sys::{self, loader};
use memscope_recorder::watch;
use memscope_recorder::{Extended, event};

memscope_hook::functions! {
    found by Original;
    MsprofRegisterProfileCallback(kind: c_int, function: *mut c_void, size: u32) -> c_int, in PROFILING;
}

/// Who has the callbacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Callbacks {
    Ours,
    /// Another profiler, or nobody: there is no profiling library.
    NotOurs,
}

static STATE: AtomicU32 = AtomicU32::new(UNTRIED);
const UNTRIED: u32 = 0;
const OURS: u32 = 1;
const TAKEN: u32 = 2;
const ABSENT: u32 = 3;
/// A thread is at it; the low bits are those of its process, which may be the parent of this one.
const TRYING: u32 = 1 << 31;

/// Registers if it can be done already. Called early, because the runtime may ask for the hash of a name, once, when the
/// kernel is loaded.
#[inline]
pub(crate) fn offer() {
    if STATE.load(Acquire) == UNTRIED && memscope_recorder::wanted().kernels {
        hidden(|_| attempt());
    }
}

/// Registers before the first launch at the latest, and says what came of it.
pub(super) fn ensure() -> Callbacks {
    offer();
    // The runtime needs the library: if it is not there now, it will not come.
    let _ = STATE.compare_exchange(UNTRIED, ABSENT, AcqRel, Acquire);
    wait_for_attempt();
    match STATE.load(Acquire) {
        OURS => Callbacks::Ours,
        TAKEN => {
            hidden(|_| kernel::note_profiling_taken());
            Callbacks::NotOurs
        }
        _ => Callbacks::NotOurs,
    }
}

/// Waits until another thread has registered; not for a thread that is in another process, and not for ever.
fn wait_for_attempt() {
    const PATIENCE: u32 = 1000;
    const MILLISECOND: u64 = 1_000_000;
    for _ in 0..PATIENCE {
        match STATE.load(Acquire) {
            state if state == trying() => sys::wait_while(&STATE, state, MILLISECOND),
            _ => break,
        }
    }
    // If it comes to an end all the same, that still counts.
    let state = STATE.load(Acquire);
    if state & TRYING != 0 {
        let _ = STATE.compare_exchange(state, ABSENT, AcqRel, Acquire);
    }
}

fn trying() -> u32 {
    TRYING | sys::getpid()
}

#[cold]
fn attempt() {
    let Some(register) = MsprofRegisterProfileCallback::find() else { return };
    if STATE.compare_exchange(UNTRIED, trying(), AcqRel, Acquire).is_err() {
        return;
    }
    let ours = !another_profiler_runs()
        && CALLBACKS.iter().all(|(kind, function)| {
            // SAFETY: the functions have the types their kinds ask for, and are never unloaded.
            unsafe { register(*kind, function.0, size_of::<*mut c_void>() as u32) == 0 }
        });
    STATE.store(if ours { OURS } else { TAKEN }, Release);
    sys::wake_all(&STATE);
}

/// CANN lets a later profiler silently replace an earlier one, so its return code does not tell: look for signs of
/// `msprof`, which starts programs with this variable, and of `mspti`.
fn another_profiler_runs() -> bool {
    if kernel::is_set(b"PROFILER_SAMPLECONFIG=") {
        return true;
    }
    loader::loaded(c"libmspti.so").is_some()
}

/// An address that is the same for all threads.
struct Function(*mut c_void);

// SAFETY: a function may be called from anywhere.
unsafe impl Sync for Function {}

/// Kinds of callback, in the order of registration.
static CALLBACKS: [(c_int, Function); 3] = [
    (12, Function(hash_of_name as *mut c_void)),
    (4, Function(on_compact_report as *mut c_void)),
    (9, Function(on_api_report as *mut c_void)),
];

/// The runtime asks for the number of a name.
unsafe extern "C" fn hash_of_name(name: *const c_char, length: usize) -> u64 {
    /// Longer ones are no names; what is hashed must be all of it.
    const LONGEST: usize = 1 << 20;
    if name.is_null() || length > LONGEST {
        return 0;
    }
    // SAFETY: the caller gives that many bytes.
    let name = unsafe { core::slice::from_raw_parts(name.cast::<u8>(), length) };
    let hash = kernel::name_hash(name);
    if hash != 0 && !kernel::name_is_known(hash) {
        hidden(|guard| kernel::define_name(guard, hash, name));
    }
    hash
}

/// `struct MsprofCompactInfo`.
#[repr(C)]
struct CompactReport {
    magic: u16,
    level: u16,
    kind: u32,
    thread: u32,
    length: u32,
    time: u64,
    body: TaskTrack,
}

#[repr(C)]
struct TaskTrack {
    device: u16,
    stream: u16,
    task: u32,
    kind: u64,
    name: u64,
    reserved: [u64; 2],
}

const _: () = assert!(size_of::<CompactReport>() == 64);

/// The runtime reports something small.
unsafe extern "C" fn on_compact_report(_aging: u32, data: *const c_void, length: u32) -> c_int {
    const BAD_LENGTH: c_int = 5;
    const RUNTIME: u16 = 5000;
    const TASK_TRACK: u32 = 802;
    const STREAM_EXPANSION: u32 = 804;
    if data.is_null() || length as usize != size_of::<CompactReport>() {
        return BAD_LENGTH;
    }
    // SAFETY: the caller gives a whole report.
    let report = unsafe { data.cast::<CompactReport>().read_unaligned() };
    match (report.level, report.kind) {
        (RUNTIME, TASK_TRACK) => {
            let TaskTrack { device, stream, task, name, .. } = report.body;
            let device = PhysicalDevice(u32::from(device));
            if hidden(|guard| kernel::task(guard, device, u32::from(stream), task, name)).is_none()
                && watch::Calling::is_under_way()
            {
                // A copy that a watch asked for: its execution comes in the log, and is not to be a stranger's.
                // SAFETY: the thread holds the guard, and the recorder is not at work while the runtime is.
                let guard = unsafe { Guard::lent(0, 0) };
                kernel::task(&guard, device, u32::from(stream), task, name);
            } else if name != 0 {
                watch::kernel_reported(name);
            }
            // A stream of a device other than the thread's: see to its log before the next launch, not in here.
            if kernel::task_log(device).is_some_and(|log| log.is_idle() && log.want()) {
                kernel::recheck_task_logs();
            }
        }
        // The first byte of the body.
        (RUNTIME, STREAM_EXPANSION) => {
            hidden(|guard| event(guard, &Extended::StreamExpansion { status: report.body.device as u8 }));
        }
        _ => {}
    }
    0
}

/// Without it nothing is reported; what it says we do not need.
unsafe extern "C" fn on_api_report(_aging: u32, _data: *const c_void) -> c_int {
    0
}

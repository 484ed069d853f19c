//! Which tasks kernels become, and when the device ran them: a client of the runtime's profiling interface.
//!
//! [`callbacks`] hears from the runtime what it makes of a launch. [`channel`] is the driver's task log, started before a
//! device's first launch, read by one thread a device, ended with ACL or the process. [`clock`] tells how its times
//! compare with ours.
mod callbacks;
mod channel;
mod clock;

use crate::original::{Original, RUNTIME, RUNTIME_ABSENT};
use crate::recording::hidden;
use callbacks::Callbacks;
pub(crate) use callbacks::offer;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use memscope_recorder::device::{LogicalDevice, PhysicalDevice, SystemKind, system};
use memscope_recorder::kernel;
use memscope_recorder::task_log::TaskLogState;

memscope_hook::functions! {
    found by Original;
    rtGetDevice(device: *mut i32) -> c_int, in RUNTIME, else RUNTIME_ABSENT;
    rtGetVisibleDeviceIdByLogicDeviceId(device: u32, physical: *mut i32) -> c_int, in RUNTIME, else RUNTIME_ABSENT;
}

const SUCCESS: c_int = 0;

/// The process is ending: logs are not started any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// Before a thread's first launch, and whenever it may have changed its device.
#[cold]
#[inline(never)]
pub(crate) fn check_task_log() {
    ensure_logs(callbacks::ensure());
}

/// Sees to the logs of the thread's device and of those that were missed, and says which device that is: frameworks
/// choose it in ways we do not see.
fn ensure_logs(callbacks: Callbacks) {
    hidden(|guard| {
        let epoch = kernel::check_epoch();
        let Some(device) = current_device() else { return };
        system(guard, SystemKind::SetDevice, u64::from(device.0));
        // Whoever has the callbacks has, or wants, the log as well.
        if callbacks == Callbacks::Ours && !OVER.load(Acquire) {
            let physical = physical(device);
            if let Some(log) = kernel::task_log(physical) {
                start(physical, log);
            }
            kernel::task_logs().filter(|(_, log)| log.is_wanted()).for_each(|(device, log)| start(device, log));
        }
        kernel::task_log_checked(epoch, device);
    });
}

/// The calling thread's device.
fn current_device() -> Option<LogicalDevice> {
    let mut device: i32 = -1;
    // SAFETY: the pointer is to a variable of that type.
    let answer = unsafe { rtGetDevice::call(&raw mut device) };
    if answer != SUCCESS {
        return None;
    }
    u32::try_from(device).ok().map(LogicalDevice)
}

/// A device as the driver numbers it.
fn physical(device: LogicalDevice) -> PhysicalDevice {
    let mut physical: i32 = -1;
    // SAFETY: the pointer is to a variable of that type.
    let answer = unsafe { rtGetVisibleDeviceIdByLogicDeviceId::call(device.0, &raw mut physical) };
    // Without an answer the program sees all devices, by the machine's numbers.
    PhysicalDevice(u32::try_from(physical).ok().filter(|_| answer == SUCCESS).unwrap_or(device.0))
}

fn start(device: PhysicalDevice, log: &'static TaskLogState) {
    if !log.claim() {
        return;
    }
    let short_lines = channel::has_short_lines();
    channel::command_start(device);
    if !channel::start(device, short_lines) {
        log.refuse();
        kernel::note_task_log_refused();
        return;
    }
    log.begin();
    if !channel::start_reader(device, short_lines) {
        channel::stop(device);
        log.refuse();
        kernel::note_task_log_refused();
        return;
    }
    end_with_program();
}

/// Ends all logs: what they hold is read, and the readers are gone or given up.
pub(crate) fn end_all() {
    hidden(|_| {
        for (device, log) in kernel::task_logs() {
            log.end(|| channel::stop(device));
        }
        // A program may begin again.
        kernel::recheck_task_logs();
    });
}

/// Registered after CANN's own static objects were made, and so run before they are destroyed. Our destructor would be
/// too late in programs that load CANN at run time.
fn end_with_program() {
    unsafe extern "C" {
        fn __cxa_atexit(function: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
    }
    extern "C" fn at_exit(_: *mut c_void) {
        OVER.store(true, Release);
        end_all();
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, AcqRel) {
        // SAFETY: the function lives as long as the process: this library is not unloaded.
        unsafe { __cxa_atexit(at_exit, core::ptr::null_mut(), core::ptr::null_mut()) };
    }
}

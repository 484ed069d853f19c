//! Kernel launches: the runtime's functions and those of ACL, which call the runtime's.
use super::{rtStreamBeginCapture, rtStreamEndCapture};
use crate::hooks::atb::KeptErrno;
use crate::kernel_times;
use crate::recording::hidden;
use crate::watched_memory::{Runtime, capture_begins, capture_ended};
use core::ffi::{c_int, c_void};
use memscope_hook::Entry;
use memscope_recorder::kernel;
use memscope_recorder::slot::KernelLaunch;
use memscope_recorder::watch::{self, WatchSource};

#[inline(always)]
pub(super) fn launch_by(address: usize, original: impl FnOnce() -> c_int) -> c_int {
    let mark = mark(address);
    let launch = begin(&mark);
    if launch.is_some() && watch::is_on() {
        return watched(original);
    }
    original()
}

/// Looks at what is watched before and after. A kernel's name is known when the runtime has reported its task.
#[cold]
#[inline(never)]
fn watched(original: impl FnOnce() -> c_int) -> c_int {
    if !watch::at_kernels() || watch::is_in_named_kernel() {
        return original();
    }
    let number = watch::new_number();
    let kernel =
        |hash| watch::Operator { source: WatchSource::Kernel, number, kernel: hash, name: b"", short_name: b"" };
    watch::take_kernel();
    hidden(|guard| {
        let _errno = KeptErrno::keep();
        watch::begins(guard, &kernel(0), &|_| {}, &Runtime::of_device());
    });
    let answer = original();
    hidden(|guard| {
        let _errno = KeptErrno::keep();
        watch::ends(guard, &kernel(watch::take_kernel()), &|_| {}, &Runtime::of_device());
    });
    answer
}

/// From here on nobody may wait for the device, [`crate::watched_memory`] neither. Noted before it is so: another thread may be about to.
pub(super) unsafe extern "C" fn begin_capture(stream: usize, mode: c_int, _entry: Entry) -> c_int {
    capture_begins(stream);
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { rtStreamBeginCapture::call(stream, mode) };
    if answer != 0 {
        capture_ended(stream);
    }
    answer
}

pub(super) unsafe extern "C" fn end_capture(stream: usize, model: *mut *mut c_void, _entry: Entry) -> c_int {
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { rtStreamEndCapture::call(stream, model) };
    capture_ended(stream);
    answer
}

/// A word no other frame is likely to have at the same place. Unknown to the compiler, so that it is stored.
#[inline(always)]
fn mark(address: usize) -> usize {
    core::hint::black_box(address ^ 0x6d73_6d65_6d73_636f)
}

/// Records a launch, unless kernels are not asked for or this call is part of another launch.
#[inline(always)]
fn begin(mark: &usize) -> Option<KernelLaunch<'_>> {
    if !memscope_recorder::wanted().kernels {
        return None;
    }
    let launch = KernelLaunch::enter(mark)?;
    if !kernel::is_task_log_checked() {
        kernel_times::check_task_log();
    }
    hidden(kernel::launch);
    Some(launch)
}

//! Kernel launches: the runtime's functions and those of ACL, which call the runtime's.
use crate::kernel_times;
use crate::recording::hidden;
use core::ffi::c_int;
use memscope_recorder::kernel;
use memscope_recorder::slot::KernelLaunch;

#[inline(always)]
pub(super) fn launch_by(address: usize, original: impl FnOnce() -> c_int) -> c_int {
    let mark = mark(address);
    let _launch = begin(&mark);
    original()
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

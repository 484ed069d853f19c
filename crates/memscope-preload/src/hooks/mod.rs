//! The hooked functions, by the library they belong to. This is the list of all of them but those of C++, which are in
//! [`atb`].
mod acl;
mod atb;
mod dl;
mod hal;
mod mstx;
mod process;
mod profiling;
mod runtime;
mod sandbox;
mod task_log;

stub!(halMemAlloc(3) => hal::allocate);
stub!(halMemFree(1) => hal::free);
stub!(halMemCreate(4) => hal::create);
stub!(halMemRelease(1) => hal::release);
stub!(aclrtHostRegisterV2(3) => acl::host_register);
stub!(aclrtHostUnregister(1) => acl::host_unregister);
stub!(aclInit(1) => acl::initialise);
stub!(aclFinalize(1) => acl::finalise);
stub!(aclrtSetDevice(1) => acl::set_device);
// The ten launch functions are in `runtime`, in a list of their own.

/// Runs `record` with the thread's guard, which hides what the recorder itself does; not at all if this call is part of
/// another hook's recording.
///
/// The guard is not held while the original runs: what that allocates on the host belongs to the program.
#[inline(always)]
fn recording(stack_pointer: usize, frame_pointer: usize, record: impl FnOnce(memscope_recorder::Entry)) {
    // SAFETY: the stub passes the stack pointer on entry, where the return address is until the hook returns.
    if let Some(_guard) = unsafe { memscope_recorder::slot::Guard::enter(stack_pointer, frame_pointer) } {
        record(memscope_recorder::Entry { stack_pointer, frame_pointer });
    }
}

/// The same for code that is called without a stub and takes no stacks.
#[inline(always)]
fn hidden<T>(work: impl FnOnce() -> T) -> Option<T> {
    let mark = memscope_recorder::slot::MARK_WORD;
    let _guard = memscope_recorder::slot::Guard::enter_at(&mark)?;
    Some(work())
}

/// The time before an original is called, for what it gives up; 0 if this call is part of another hook's recording. With the
/// guard, because it may be the thread's first event.
#[inline(always)]
fn ticks_now() -> u64 {
    hidden(memscope_recorder::ticks_now).unwrap_or(0)
}

pub(crate) use process::find_originals;
pub(crate) use sandbox::find_originals as find_sandbox_originals;
pub(crate) use task_log::end_all as end_task_logs;

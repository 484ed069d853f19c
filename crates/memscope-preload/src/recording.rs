//! The guard around what hooks and callbacks do.
use memscope_hook::Entry;
use memscope_recorder::slot::{Guard, MARK_WORD};

/// Runs `record` with the thread's guard, which hides what the recorder itself does; not at all if this call is part of
/// another hook's recording.
///
/// The guard is not held while the original runs: what that allocates on the host belongs to the program.
#[inline(always)]
pub(crate) fn recording(entry: Entry, record: impl FnOnce(&Guard<'_>)) {
    // SAFETY: the stub passes the stack pointer on entry, where the return address is until the hook returns.
    if let Some(guard) = unsafe { Guard::enter(entry.stack_pointer, entry.frame_pointer) } {
        record(&guard);
    }
}

/// The same for code that is called without a stub and takes no stacks.
#[inline(always)]
pub(crate) fn hidden<T>(work: impl FnOnce(&Guard<'_>) -> T) -> Option<T> {
    let mark = MARK_WORD;
    let guard = Guard::enter_at(&mark)?;
    Some(work(&guard))
}

/// The time before an original is called, for what it gives up; 0 if this call is part of another hook's recording. With the
/// guard, because it may be the thread's first event.
#[inline(always)]
pub(crate) fn ticks_now() -> u64 {
    hidden(memscope_recorder::ticks_now).unwrap_or(0)
}

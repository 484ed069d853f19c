//! The threads of the process as the kernel knows them; in the model, as the model does.
use memscope_sys as sys;

/// The calling thread's number, 0 where the program forbids to ask.
pub(crate) fn current() -> u32 {
    #[cfg(all(test, feature = "model"))]
    if let Some(thread) = crate::model::current_thread() {
        return thread;
    }
    sys::gettid()
}

/// Whether one of the threads of `process` has this number.
pub(crate) fn exists(process: u32, thread: u32) -> bool {
    #[cfg(all(test, feature = "model"))]
    if let Some(exists) = crate::model::thread_exists(thread) {
        return exists;
    }
    sys::thread_exists(process, thread)
}

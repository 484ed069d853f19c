//! Where the order of stores matters to somebody else: a signal handler, a reader, or who takes over the lane of a thread that has
//! ended there.
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;

/// Keeps the compiler from moving a load or store across it.
#[inline(always)]
pub(crate) fn fence() {
    compiler_fence(SeqCst);
    point();
}

/// Lets the model ([`crate::model`]) end the thread here, interrupt it or have another one run. Nothing in a build.
#[inline(always)]
pub(crate) fn point() {
    #[cfg(all(test, feature = "model"))]
    crate::model::point();
}

/// Whether a frame goes because the model leaves it by a jump or ends its thread: then nothing of it is put right on the way, as it is
/// not in a program.
#[inline(always)]
pub(crate) fn is_left() -> bool {
    #[cfg(all(test, feature = "model"))]
    return std::thread::panicking();
    #[cfg(not(all(test, feature = "model")))]
    false
}

/// Whether the model knows that a handler of its own is at work. In a program the stack tells.
#[inline(always)]
pub(crate) fn is_in_handler() -> bool {
    #[cfg(all(test, feature = "model"))]
    return crate::model::is_in_handler();
    #[cfg(not(all(test, feature = "model")))]
    false
}

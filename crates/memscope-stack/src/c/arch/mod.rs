//! What differs between processors: how to get from a frame to the one that called it.
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod current;

pub(super) use current::{
    NearRows, Rule, code_address, entry, entry_pointer, epoch_begins, prefetch, step, step_alone,
};

/// One activation of a function, as seen when the call it is in returns.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Where the return address into this function lies.
    pub(super) slot: usize,
    /// The contents of `slot`, as they are.
    pub(super) return_address: usize,
    /// Where the stack pointer will be.
    pub(super) sp: usize,
    pub(super) fp: usize,
}

impl Frame {
    /// Not in a call but stopped by a signal at `return_address`: then `slot` is in the kernel's record of registers,
    /// which is never right below where the stack goes on. A flag would say it more plainly, but its padding bytes are
    /// copied with the frame in pieces that stall the processor (measured: a quarter of the time per frame).
    #[inline]
    pub(super) fn is_interrupted(&self) -> bool {
        self.sp != self.slot.wrapping_add(size_of::<usize>())
    }
}

/// What came of a step outwards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Outer,
    /// A signal handler's frame was left for the frame it interrupted, possibly on another stack.
    Interrupted,
    /// It was the outermost frame.
    End,
    /// Nothing is known about its return address.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    Unknown,
    /// Something should follow, but the stack does not look as the tables say.
    Lost,
}

//! What differs between processors: how to get from a frame to the one that called it.
use super::memory::StackMemory;
use super::modules::Modules;

/// Tests have it on every processor, so that it cannot fall behind.
#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{Aarch64 as Current, prefetch};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{X86_64 as Current, prefetch};

pub(super) type Rule = <Current as Processor>::Rule;
pub(super) type NearRows = <Current as Processor>::NearRows;

/// A way to walk stacks.
pub(super) trait Processor {
    type Rule: UnwindRule;
    /// What a lane keeps of what it needed to know for a step.
    type NearRows;

    /// The address a return address word stands for.
    fn code_address(return_address: usize) -> usize;

    /// The innermost frame of a hook that was entered with this stack pointer and frame pointer.
    fn entry(sp: usize, fp: usize, memory: &mut StackMemory) -> Option<Frame>;

    /// What a hook entered with this frame was given as its stack pointer.
    fn entry_pointer(frame: &Frame) -> usize;

    /// The next outer frame and the rule by which it was found; `frame` itself where there is none.
    fn step(
        frame: Frame,
        memory: &mut StackMemory,
        modules: &mut Modules,
        near: &mut Self::NearRows,
        epoch: u32,
    ) -> (Step, Self::Rule, Frame);

    /// The same for a walk that belongs to no lane, and keeps nothing.
    fn step_alone(frame: Frame, memory: &mut StackMemory, epoch: u32) -> (Step, Frame);

    /// To be called with each new unload epoch before it begins.
    fn epoch_begins(epoch: u32);
}

/// How the next outer frame follows from a frame. Arguments are those of two neighbours.
pub(super) trait UnwindRule: Copy {
    const NONE: Self;

    /// The outer slot depends on the frame pointer.
    fn uses_fp(self) -> bool;

    /// The outer frame follows from the slot alone.
    fn needs_slot_only(self) -> bool;

    /// The outer frame has the same frame pointer.
    fn keeps_fp(self) -> bool;

    /// Where the outer frame pointer is, if it is not the same.
    fn fp_word(self, slot: usize, fp: usize, outer_slot: usize) -> usize;

    /// The outer slot depends on a word in memory.
    fn finds_slot_in_memory(self) -> bool;

    /// The word in memory that decided where the outer slot is, and its contents.
    fn slot_word(self, slot: usize, fp: usize, outer_slot: usize) -> Option<(usize, usize)>;
}

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

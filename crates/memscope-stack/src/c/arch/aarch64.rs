//! aarch64: the chain of frame records. The platform's ABI has every function that calls keep one, so tables are not
//! needed: x29 points to a pair of words, the caller's x29 and the return address.
use super::super::memory::StackMemory;
use super::super::modules::Modules;
use super::{Frame, Step};

const WORD: usize = 8;
/// Bits above the address hold a pointer authentication code where the program uses them.
const ADDRESS_BITS: u32 = 48;

/// How the next outer frame follows from a frame: here the same for all.
#[derive(Clone, Copy)]
pub(in super::super) struct Rule;

impl Rule {
    pub(in super::super) const NONE: Rule = Rule;

    #[inline]
    pub(in super::super) fn uses_fp(self) -> bool {
        true
    }

    #[inline]
    pub(in super::super) fn needs_slot_only(self) -> bool {
        false
    }

    #[inline]
    pub(in super::super) fn keeps_fp(self) -> bool {
        false
    }

    #[inline]
    pub(in super::super) fn fp_word(self, _slot: usize, fp: usize, _outer_slot: usize) -> usize {
        fp
    }

    #[inline]
    pub(in super::super) fn finds_slot_in_memory(self) -> bool {
        false
    }

    #[inline]
    pub(in super::super) fn slot_word(self, _slot: usize, _fp: usize, _outer_slot: usize) -> Option<(usize, usize)> {
        None
    }
}

/// There are no rows to keep.
pub(in super::super) struct NearRows;

impl NearRows {
    pub(in super::super) const fn new() -> NearRows {
        NearRows
    }

    pub(in super::super) fn forget(&mut self) {}
}

/// The address a return address word stands for.
#[inline]
pub(in super::super) fn code_address(return_address: usize) -> usize {
    return_address & ((1 << ADDRESS_BITS) - 1)
}

/// A call leaves the return address in a register, so the hook's entry must have made a frame record: `sp` is its
/// address, `fp` the caller's x29.
#[inline]
pub(in super::super) fn entry(sp: usize, fp: usize, memory: &mut StackMemory) -> Option<Frame> {
    let slot = sp.wrapping_add(WORD);
    Some(Frame { slot, return_address: memory.read(slot)?, sp: slot.wrapping_add(WORD), fp })
}

/// The next outer frame; `frame` itself where there is none.
#[inline]
pub(in super::super) fn step(
    frame: Frame,
    memory: &mut StackMemory,
    _modules: &mut Modules,
    _near: &mut NearRows,
    _epoch: u32,
) -> (Step, Rule, Frame) {
    step_of_records(frame, memory)
}

#[inline(always)]
fn step_of_records(frame: Frame, memory: &mut StackMemory) -> (Step, Rule, Frame) {
    let record = frame.fp;
    if record == 0 {
        return (Step::End, Rule, frame);
    }
    // A record below its predecessor is none: the chain of a stack only goes up.
    if record < frame.sp {
        return (Step::Lost, Rule, frame);
    }
    let slot = record.wrapping_add(WORD);
    let (Some(fp), Some(return_address)) = (memory.read(record), memory.read(slot)) else {
        return (Step::Lost, Rule, frame);
    };
    let sp = slot.wrapping_add(WORD);
    (Step::Outer, Rule, Frame { slot, return_address, sp, fp })
}

/// The same for a walk that belongs to no lane. It goes on through a signal handler's frame to what was interrupted: the
/// kernel puts a frame record with the interrupted x29 on the handler's stack, which may be another one.
pub(in super::super) fn step_alone(frame: Frame, memory: &mut StackMemory, _epoch: u32) -> (Step, Frame) {
    if !returns_to_the_kernel(code_address(frame.return_address)) {
        let (step, _, outer) = step_of_records(frame, memory);
        return (step, outer);
    }
    let Some(fp) = memory.read(frame.fp) else { return (Step::Lost, frame) };
    if fp == 0 {
        return (Step::End, frame);
    }
    if !memscope_sys::is_readable(fp) {
        return (Step::Lost, frame);
    }
    memory.enter(fp);
    let slot = fp.wrapping_add(WORD);
    let (Some(outer_fp), Some(return_address)) = (memory.read(fp), memory.read(slot)) else {
        return (Step::Lost, frame);
    };
    (Step::Interrupted, Frame { slot, return_address, sp: slot.wrapping_add(WORD), fp: outer_fp })
}

/// Whether `address` is where a signal handler returns to.
fn returns_to_the_kernel(address: usize) -> bool {
    /// `mov x8, #139; svc #0`
    const SIGNAL_RETURN: [u32; 2] = [0xd280_1168, 0xd400_0001];
    address.is_multiple_of(4)
        && memscope_sys::is_readable(address)
        // SAFETY: just found readable; code does not go away under a frame that returns to it.
        && unsafe { (address as *const [u32; 2]).read() } == SIGNAL_RETURN
}

/// What a hook entered with this frame was given as its stack pointer.
pub(in super::super) fn entry_pointer(frame: &Frame) -> usize {
    frame.slot.wrapping_sub(WORD)
}

/// Has the cache line at `address` fetched; any address will do.
#[inline(always)]
pub(in super::super) fn prefetch(address: *const i8) {
    // SAFETY: a prefetch reads nothing as far as the program can tell, and does not fault.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

pub(in super::super) fn epoch_begins(_epoch: u32) {}

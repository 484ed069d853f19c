//! aarch64: the chain of frame records. The platform's ABI has every function that calls keep one, so tables are not
//! needed: x29 points to a pair of words, the caller's x29 and the return address.
use super::super::memory::StackMemory;
use super::super::modules::Modules;
use super::{Frame, Processor, Step, UnwindRule};

const WORD: usize = 8;
/// Bits above the address hold a pointer authentication code where the program uses them.
const ADDRESS_BITS: u32 = 48;

pub(in super::super) struct Aarch64;

impl Processor for Aarch64 {
    type Rule = RecordRule;
    type NearRows = NoRows;

    #[inline]
    fn code_address(return_address: usize) -> usize {
        return_address & ((1 << ADDRESS_BITS) - 1)
    }

    /// A call leaves the return address in a register, so the hook's entry must have made a frame record: `sp` is its
    /// address, `fp` the caller's x29.
    #[inline]
    fn entry(sp: usize, fp: usize, memory: &mut StackMemory) -> Option<Frame> {
        let slot = sp.wrapping_add(WORD);
        Some(Frame { slot, return_address: memory.read(slot)?, sp: slot.wrapping_add(WORD), fp })
    }

    fn entry_pointer(frame: &Frame) -> usize {
        frame.slot.wrapping_sub(WORD)
    }

    #[inline]
    fn step(
        frame: Frame,
        memory: &mut StackMemory,
        _modules: &mut Modules,
        _near: &mut NoRows,
        _epoch: u32,
    ) -> (Step, RecordRule, Frame) {
        step_of_records(frame, memory)
    }

    /// Goes on through a signal handler's frame to what was interrupted: the kernel puts a frame record with the interrupted
    /// x29 on the handler's stack, which may be another one.
    fn step_alone(frame: Frame, memory: &mut StackMemory, _epoch: u32) -> (Step, Frame) {
        if !returns_to_the_kernel(Self::code_address(frame.return_address)) {
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

    fn epoch_begins(_epoch: u32) {}
}

#[inline(always)]
fn step_of_records(frame: Frame, memory: &mut StackMemory) -> (Step, RecordRule, Frame) {
    let record = frame.fp;
    if record == 0 {
        return (Step::End, RecordRule, frame);
    }
    // A record below its predecessor is none: the chain of a stack only goes up.
    if record < frame.sp {
        return (Step::Lost, RecordRule, frame);
    }
    let slot = record.wrapping_add(WORD);
    let (Some(fp), Some(return_address)) = (memory.read(record), memory.read(slot)) else {
        return (Step::Lost, RecordRule, frame);
    };
    let sp = slot.wrapping_add(WORD);
    (Step::Outer, RecordRule, Frame { slot, return_address, sp, fp })
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

/// The same for all frames.
#[derive(Clone, Copy)]
pub(in super::super) struct RecordRule;

impl UnwindRule for RecordRule {
    const NONE: RecordRule = RecordRule;

    #[inline]
    fn uses_fp(self) -> bool {
        true
    }

    #[inline]
    fn needs_slot_only(self) -> bool {
        false
    }

    #[inline]
    fn keeps_fp(self) -> bool {
        false
    }

    #[inline]
    fn fp_word(self, _slot: usize, fp: usize, _outer_slot: usize) -> usize {
        fp
    }

    #[inline]
    fn finds_slot_in_memory(self) -> bool {
        false
    }

    #[inline]
    fn slot_word(self, _slot: usize, _fp: usize, _outer_slot: usize) -> Option<(usize, usize)> {
        None
    }
}

/// There are no rows to keep.
pub(in super::super) struct NoRows;

#[cfg_attr(not(target_arch = "aarch64"), expect(dead_code))]
impl NoRows {
    pub(in super::super) const fn new() -> NoRows {
        NoRows
    }

    pub(in super::super) fn forget(&mut self) {}
}

/// Has the cache line at `address` fetched; any address will do.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(in super::super) fn prefetch(address: *const i8) {
    // SAFETY: a prefetch reads nothing as far as the program can tell, and does not fault.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of frame records, each at an even word: the caller's x29 and the return address.
    fn walk(words: &[usize]) -> (Step, Vec<usize>) {
        let mut memory = StackMemory::new();
        let sp = words.as_ptr() as usize;
        memory.enter(sp);
        let mut frame = Aarch64::entry(sp, words[0], &mut memory).unwrap();
        assert_eq!(Aarch64::entry_pointer(&frame), sp);
        let mut addresses = vec![Aarch64::code_address(frame.return_address)];
        loop {
            let (step, rule, outer) = Aarch64::step(frame, &mut memory, &mut Modules::new(), &mut NoRows::new(), 0);
            if step != Step::Outer {
                assert!(step == Aarch64::step_alone(frame, &mut memory, 0).0);
                return (step, addresses);
            }
            // What the last stack is compared by: where the outer frame pointer was.
            let fp_word = rule.fp_word(frame.slot, frame.fp, outer.slot);
            assert!(rule.uses_fp() && !rule.keeps_fp() && memory.read(fp_word) == Some(outer.fp));
            assert!(rule.slot_word(frame.slot, frame.fp, outer.slot).is_none() && !outer.is_interrupted());
            addresses.push(Aarch64::code_address(outer.return_address));
            frame = outer;
        }
    }

    #[test]
    fn records_are_followed_to_the_one_that_ends_the_chain() {
        let mut words = [0usize; 64];
        let at = |index: usize, words: &[usize; 64]| &raw const words[index] as usize;
        (words[0], words[1]) = (at(10, &words), 0x1111);
        // With a pointer authentication code.
        (words[10], words[11]) = (at(40, &words), 0x00a5_0000_0000_2222);
        (words[40], words[41]) = (0, 0x3333);
        let (end, addresses) = walk(&words);
        assert!(end == Step::End);
        assert_eq!(addresses, [0x1111, 0x2222, 0x3333]);
    }

    #[test]
    fn a_record_below_its_predecessor_or_in_no_memory_ends_the_walk() {
        let mut words = [0usize; 64];
        for lost in [&raw const words[0] as usize, &raw const words[20] as usize + 4, usize::MAX - 15] {
            (words[0], words[1]) = (&raw const words[10] as usize, 0x1111);
            (words[10], words[11]) = (lost, 0x2222);
            let (end, addresses) = walk(&words);
            assert!(end == Step::Lost);
            assert_eq!(addresses, [0x1111, 0x2222]);
        }
    }
}

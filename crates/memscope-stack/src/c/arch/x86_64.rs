//! x86-64: no frame pointers, so by unwind rows. A call pushes the return address, so it lies right below the CFA.
use super::super::cfi::{Found, Registers, Tables};
use super::super::memory::StackMemory;
use super::super::modules::Modules;
use super::super::near_rows::NearRows;
use super::super::objects::{self, LoadedModule};
use super::super::row::{Row, SavedFp};
use super::super::row_table::{self, RowKey};
use super::{Frame, Processor, Step, UnwindRule};

const WORD: usize = 8;

const REGISTERS: Registers =
    Registers { frame_pointer: 6, stack_pointer: 7, return_address: 16, return_address_at: -8 };

pub(in super::super) struct X86_64;

impl Processor for X86_64 {
    type Rule = RowRule;
    type NearRows = NearRows;

    #[inline]
    fn code_address(return_address: usize) -> usize {
        return_address
    }

    /// `sp` points to the return address, as a call leaves it.
    #[inline]
    fn entry(sp: usize, fp: usize, memory: &mut StackMemory) -> Option<Frame> {
        Some(Frame { slot: sp, return_address: memory.read(sp)?, sp: sp + WORD, fp })
    }

    fn entry_pointer(frame: &Frame) -> usize {
        frame.slot
    }

    /// By value, inlined, and cold paths on copies, so that the frame stays in registers.
    #[inline(always)]
    fn step(
        frame: Frame,
        memory: &mut StackMemory,
        modules: &mut Modules,
        near: &mut NearRows,
        epoch: u32,
    ) -> (Step, RowRule, Frame) {
        let near_row = if frame.is_interrupted() { None } else { near.find(frame.return_address) };
        let row = match near_row {
            Some(row) => row,
            None => far_row(frame.return_address, frame.is_interrupted(), epoch, modules, near),
        };
        step_by(row, frame, memory)
    }

    /// The process's rows are all it has.
    fn step_alone(frame: Frame, memory: &mut StackMemory, epoch: u32) -> (Step, Frame) {
        let key = RowKey::new(frame.return_address, frame.is_interrupted(), epoch);
        let row = match key.and_then(row_table::find) {
            Some(row) => row,
            None => row_of(frame.return_address, frame.is_interrupted(), key, objects::loaded_object_at),
        };
        let (step, _, outer) = step_by(row, frame, memory);
        (step, outer)
    }

    fn epoch_begins(epoch: u32) {
        row_table::epoch_begins(epoch);
    }
}

#[inline(always)]
fn step_by(row: Row, frame: Frame, memory: &mut StackMemory) -> (Step, RowRule, Frame) {
    if row.is_simple() {
        let base = if row.is_fp_based() { frame.fp } else { frame.sp };
        let cfa = base.wrapping_add_signed(row.cfa_offset());
        let slot = cfa.wrapping_sub(WORD);
        // The stack grows downwards: an outer slot below is a mistake, and would let a walk go round in circles.
        if slot < frame.sp {
            return (Step::Lost, RowRule(row), frame);
        }
        let Some(return_address) = memory.read(slot) else { return (Step::Lost, RowRule(row), frame) };
        // Without a branch: which functions save it is nothing a processor could predict.
        let saves_fp = usize::from(row.keeps_fp()).wrapping_sub(1);
        let word = slot.wrapping_add(row.saved_offset().wrapping_add(WORD as isize) as usize & saves_fp);
        let Some(saved) = memory.read(word) else { return (Step::Lost, RowRule(row), frame) };
        let fp = frame.fp & !saves_fp | saved & saves_fp;
        return (Step::Outer, RowRule(row), Frame { slot, return_address, sp: cfa, fp });
    }
    let mut unusual = frame;
    let step = unusual_step(&mut unusual, row, memory);
    let Frame { slot, return_address, sp, fp } = unusual;
    (step, RowRule(row), Frame { slot, return_address, sp, fp })
}

/// Has the cache line at `address` fetched; any address will do.
#[inline(always)]
pub(in super::super) fn prefetch(address: *const i8) {
    // SAFETY: every x86-64 processor has SSE, and a prefetch does not fault.
    unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address) };
}

#[cold]
fn unusual_step(frame: &mut Frame, row: Row, memory: &mut StackMemory) -> Step {
    let (outer, step) = if row.is_steppable() {
        (outer(frame, row, memory), Step::Outer)
    } else if row == Row::SIGNAL {
        (interrupted(frame, memory), Step::Interrupted)
    } else if row == Row::END {
        return Step::End;
    } else {
        return Step::Unknown;
    };
    let Some(outer) = outer else { return Step::Lost };
    *frame = outer;
    step
}

/// Any row that can be stepped over.
fn outer(frame: &Frame, row: Row, memory: &mut StackMemory) -> Option<Frame> {
    let base = if row.is_fp_based() { frame.fp } else { frame.sp };
    let cfa = if row.is_deref() {
        let (offset, add) = row.cfa_word();
        memory.read(base.wrapping_add_signed(offset))?.wrapping_add(add)
    } else {
        base.wrapping_add_signed(row.cfa_offset())
    };
    let slot = cfa.wrapping_sub(WORD);
    if slot < frame.sp {
        return None;
    }
    let return_address = memory.read(slot)?;
    let fp = if row.keeps_fp() { frame.fp } else { memory.read(RowRule(row).fp_word(frame.slot, frame.fp, slot))? };
    Some(Frame { slot, return_address, sp: cfa, fp })
}

/// Above the return address of a signal handler lies a `ucontext` with the registers of what it interrupted.
fn interrupted(frame: &Frame, memory: &mut StackMemory) -> Option<Frame> {
    const REGISTERS_AT: usize = 40;
    const RBP: usize = REGISTERS_AT + 10 * WORD;
    const RSP: usize = REGISTERS_AT + 15 * WORD;
    const RIP: usize = REGISTERS_AT + 16 * WORD;
    let slot = frame.sp + RIP;
    let fp = memory.read(frame.sp + RBP)?;
    let sp = memory.read(frame.sp + RSP)?;
    let return_address = memory.read(slot)?;
    // The handler may run on a stack of its own. The other one is where the thread was, hence readable at its top
    // unless the registers are made up.
    if !memscope_sys::is_readable(sp) {
        return None;
    }
    memory.enter(sp);
    Some(Frame { slot, return_address, sp, fp })
}

#[derive(Clone, Copy)]
pub(in super::super) struct RowRule(Row);

impl UnwindRule for RowRule {
    const NONE: RowRule = RowRule(Row::UNKNOWN);

    #[inline]
    fn uses_fp(self) -> bool {
        self.0.is_fp_based() || matches!(self.0.saved_fp(), SavedFp::AtFp(_))
    }

    #[inline]
    fn needs_slot_only(self) -> bool {
        self.0.needs_sp_only()
    }

    #[inline]
    fn keeps_fp(self) -> bool {
        self.0.keeps_fp()
    }

    #[inline]
    fn fp_word(self, slot: usize, fp: usize, outer_slot: usize) -> usize {
        let base = match self.0.saved_fp() {
            SavedFp::AtFp(_) => fp,
            SavedFp::AtSp(_) => slot + WORD,
            SavedFp::AtCfa(_) | SavedFp::Same => outer_slot + WORD,
        };
        base.wrapping_add_signed(self.0.saved_offset())
    }

    #[inline]
    fn finds_slot_in_memory(self) -> bool {
        self.0.is_deref()
    }

    #[inline]
    fn slot_word(self, slot: usize, fp: usize, outer_slot: usize) -> Option<(usize, usize)> {
        if !self.0.is_deref() {
            return None;
        }
        let base = if self.0.is_fp_based() { fp } else { slot + WORD };
        let (offset, add) = self.0.cfa_word();
        Some((base.wrapping_add_signed(offset), (outer_slot + WORD).wrapping_sub(add)))
    }
}

/// The row for a frame that is not in the lane's own cache; keeps it there if it is one of a call.
#[cold]
#[inline(never)]
fn far_row(return_address: usize, is_interrupted: bool, epoch: u32, modules: &mut Modules, near: &mut NearRows) -> Row {
    let key = RowKey::new(return_address, is_interrupted, epoch);
    let row = match key.and_then(row_table::find) {
        Some(row) => row,
        None => row_of(return_address, is_interrupted, key, |pc| modules.at(pc).copied()),
    };
    if !is_interrupted && row != Row::UNKNOWN {
        near.insert(return_address, row);
    }
    row
}

/// The row for a frame not in the cache, put there if it can be found again: an address outside all objects may belong
/// to a library that is loaded later.
#[cold]
fn row_of(
    return_address: usize,
    is_interrupted: bool,
    key: Option<RowKey>,
    module_at: impl FnOnce(usize) -> Option<LoadedModule>,
) -> Row {
    // A return address may be the first byte of the next function; the call it belongs to is not.
    let pc = if is_interrupted { return_address } else { return_address.wrapping_sub(1) };
    let Some(module) = module_at(pc) else { return Row::UNKNOWN };
    let tables = Tables { header: module.unwind_header, start: module.unwind_start, end: module.unwind_end };
    let row = match tables.find(pc, REGISTERS) {
        Found::Row(row) => row,
        Found::SignalFrame | Found::Nothing => {
            if module.is_readable(return_address, SIGNAL_RETURN.len())
                // SAFETY: the bytes are code of a loaded object, just found readable.
                && unsafe { (return_address as *const [u8; SIGNAL_RETURN.len()]).read() } == SIGNAL_RETURN
            {
                Row::SIGNAL
            } else if !is_interrupted && tables.begins_function(return_address) {
                // Behind no call but at the beginning of a function: put there by hand (`makecontext`), to be returned into
                // when the first function of a stack ends.
                Row::END
            } else {
                Row::UNKNOWN
            }
        }
    };
    if let Some(key) = key {
        row_table::insert(key, row);
    }
    row
}

/// `mov $15, %rax; syscall`: where a signal handler returns to.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

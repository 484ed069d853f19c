//! What ATB asks about saving tensors: the only way to hear of its kernels is to let it save them.
//!
//! ATB's own `Probe` always says no; tools that dump tensors put theirs in its place. Where one of them is at work, its
//! answers stand, and kernels are seen as far as it saves them.
use crate::hooks::{Execute, InRange, NeedSaveCxx11, NeedSaveOld, RunnerSaves, SaveAfter, SaveBefore, SaveDescription};
use crate::original::Original;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};
use memscope_hook::Entry;
use memscope_hook::around::Next;
use memscope_recorder::{wanted, watch};

/// ATB was told to save something it would not have saved. It never is where another tool's `Probe` comes before ours.
static FORCED: AtomicBool = AtomicBool::new(false);

/// Whether ATB saves tensors because of us alone, and need not do so in fact.
pub(super) fn only_we_ask() -> bool {
    FORCED.load(Relaxed) && !another_tool_saves()
}

const NOT_ASKED: u8 = 0;
const NOBODY: u8 = 1;
const SOMEBODY: u8 = 2;
static SAVER: AtomicU8 = AtomicU8::new(NOT_ASKED);

/// Whether a tool that dumps tensors stands in for ATB's `Probe`, or has ever said yes.
fn another_tool_saves() -> bool {
    match SAVER.load(Relaxed) {
        NOT_ASKED => {
            let (execute, probe) = (Execute::ORIGINAL.library_id(), SaveBefore::ORIGINAL.library_id());
            if execute == 0 || probe == 0 {
                return false;
            }
            let other = execute != probe;
            SAVER.store(if other { SOMEBODY } else { NOBODY }, Relaxed);
            other
        }
        saver => saver == SOMEBODY,
    }
}

fn forces_kernels() -> bool {
    let wanted = wanted();
    (wanted.kernels || wanted.kernel_accesses) && !another_tool_saves()
}

/// Yes if we need it, else whatever the original says.
fn yes_if(forced: bool, original: &Original) -> Next {
    if forced {
        FORCED.store(true, Relaxed);
        return Next::answer(1);
    }
    Next::jump(original.address())
}

/// Asked when an operator is set up. Whether somebody really wants it is found out on the way.
fn need_save(original: &Original) -> Next {
    if !forces_kernels() {
        return Next::jump(original.address());
    }
    FORCED.store(true, Relaxed);
    match original.address() {
        0 => Next::answer(1),
        original => Next::call(original, 1),
    }
}

pub(in crate::hooks) unsafe extern "C" fn need_save_old(_ids: usize, _kind: usize, _: Entry) -> Next {
    need_save(NeedSaveOld::ORIGINAL)
}

pub(in crate::hooks) unsafe extern "C" fn need_save_cxx11(_ids: usize, _kind: usize, _: Entry) -> Next {
    need_save(NeedSaveCxx11::ORIGINAL)
}

pub(in crate::hooks) unsafe extern "C" fn need_save_said(answer: usize, _token: usize, _: Entry) -> usize {
    // A C++ bool is the low byte.
    if answer & 0xff != 0 {
        SAVER.store(SOMEBODY, Relaxed);
    }
    1
}

pub(in crate::hooks) unsafe extern "C" fn save_before(_: Entry) -> Next {
    yes_if(forces_kernels(), SaveBefore::ORIGINAL)
}

pub(in crate::hooks) unsafe extern "C" fn save_after(_: Entry) -> Next {
    yes_if(forces_kernels(), SaveAfter::ORIGINAL)
}

pub(in crate::hooks) unsafe extern "C" fn in_range(_count: u64, _: Entry) -> Next {
    yes_if(forces_kernels(), InRange::ORIGINAL)
}

/// Lets operators know their paths; saves nothing.
pub(in crate::hooks) unsafe extern "C" fn save_description(_: Entry) -> Next {
    let wanted = wanted();
    let is_asked_for = wanted.operators || wanted.kernels || wanted.accesses || watch::is_on();
    let forced = is_asked_for && !another_tool_saves();
    if forced { Next::answer(1) } else { Next::jump(SaveDescription::ORIGINAL.address()) }
}

/// Operators are seen by themselves: their tensors need not be saved as well.
pub(in crate::hooks) unsafe extern "C" fn runner_saves(_runner: usize, _: Entry) -> Next {
    if only_we_ask() { Next::answer(0) } else { Next::jump(RunnerSaves::ORIGINAL.address()) }
}

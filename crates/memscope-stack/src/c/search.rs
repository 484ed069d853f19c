//! Whether a frame is still there: a walk that belongs to no lane.
//!
//! A hook that was left by `longjmp` never says so. Whoever finds its mark asks here whether the frame that made it is
//! among the callers of the frame at hand, on the other side of a signal handler perhaps.
use super::arch::{Current, Processor, Step};
use super::memory::StackMemory;
use super::{LOWEST_CODE, unload_epoch};

/// What came of a search for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// It is live; `crossed_signal`: as what a signal handler interrupted, or as one of its callers.
    Found { crossed_signal: bool },
    /// There is no frame at that address, but it lies between two live ones.
    Between { crossed_signal: bool },
    /// No live frame is around it: the walk went to the end of the stack. Where the stack that it may lie below begins: the
    /// smallest address above it at which the walk came onto a stack, or `usize::MAX`.
    Absent { above: usize },
    /// The walk got lost before that was known: generated code, wrong tables, too many frames. With `crossed_signal` it
    /// came as far as what a signal handler interrupted.
    Unknown { crossed_signal: bool },
}

const MOST_FRAMES: usize = 4096;

/// Looks for the live frame of a hook that was given `wanted` as its stack pointer, among the callers of the one that was
/// given `sp` and `fp`, which itself does not count. Keeps nothing, allocates nothing, takes no lock, and needs little of
/// the stack.
///
/// # Safety
/// `sp` and `fp` as for [`super::CStack::capture`]; `wanted` may be anything.
#[cold]
pub unsafe fn find_frame(sp: usize, fp: usize, wanted: usize) -> Search {
    let mut memory = StackMemory::new();
    memory.enter(sp);
    let Some(mut frame) = Current::entry(sp, fp, &mut memory) else { return Search::Unknown { crossed_signal: false } };
    let epoch = unload_epoch();
    let mut crossed_signal = false;
    // Where the walk came onto the stack it is on.
    let mut lowest = frame.slot;
    let above = |before: usize, lowest: usize| if lowest > wanted { before.min(lowest) } else { before };
    let mut nearest = above(usize::MAX, lowest);
    for _ in 0..MOST_FRAMES {
        if Current::code_address(frame.return_address) < LOWEST_CODE {
            return Search::Absent { above: nearest };
        }
        let (step, outer) = Current::step_alone(frame, &mut memory, epoch);
        frame = outer;
        match step {
            Step::Outer => {}
            Step::Interrupted => {
                crossed_signal = true;
                lowest = frame.sp;
                nearest = above(nearest, lowest);
                // Its slot is in the kernel's record of registers, not on the stack it was interrupted on.
                continue;
            }
            Step::End => return Search::Absent { above: nearest },
            Step::Unknown | Step::Lost => return Search::Unknown { crossed_signal },
        }
        if Current::entry_pointer(&frame) == wanted {
            return Search::Found { crossed_signal };
        }
        if lowest <= wanted && wanted < Current::entry_pointer(&frame) {
            return Search::Between { crossed_signal };
        }
    }
    Search::Unknown { crossed_signal }
}

//! How the observer comes to be told of calls.
//!
//! torch asks itself for the listeners of each call, and where there are any it makes an object for the call and shows it to them,
//! also if the call is made within one that is recorded already, or has a text that has to be put together first. For what it does
//! so without need is more than all that is done here, the observer is registered with torch only until it is seen that the
//! question is hooked. From then on it is put among the listeners of those calls it is to hear of, and of no others: what else
//! listens to torch is told as before.
//!
//! It stays registered where torch calls its own function directly, or is not as we know it.
use super::{AddObserver, DisableObserver, OBSERVER, observer};
use crate::hooks::StepCallbacks;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicUsize};
use memscope_hook::around::{Next, call_for_object};
use memscope_recorder::aten;
use memscope_torch::callback::FUNCTION;
use memscope_torch::listeners::{Added, Listeners};

/// Where torch's question goes straight on to; 0 while its answer is looked at.
pub(crate) static GATE: AtomicUsize = AtomicUsize::new(0);
static WAY: AtomicU32 = AtomicU32::new(NONE);
/// Calls whose question came by here, of those the registered observer was told of.
static HOOKED: AtomicU32 = AtomicU32::new(0);

const NONE: u32 = 0;
/// Registered, and for good.
const REGISTERED: u32 = 1;
/// Registered, until it is seen that all questions come by here.
const TRIED: u32 = 2;
/// Put among the listeners.
const ADDED: u32 = 3;

/// So many calls show that all come by here: nearly all are made by one library.
const PROOFS: u32 = 64;

/// The observer was registered with torch, which is laid out as we know it or not.
pub(super) fn registered(is_known: bool) {
    WAY.store(if is_known { TRIED } else { REGISTERED }, Relaxed);
    set_gate();
}

/// Whether torch itself is to call the observer.
pub(super) fn is_registered() -> bool {
    WAY.load(Relaxed) != ADDED
}

/// torch may be asked for something else from now on.
pub(super) fn set_gate() {
    loop {
        let is_open = is_open();
        GATE.swap(if is_open { 0 } else { StepCallbacks::ORIGINAL.address() }, SeqCst);
        // Another thread may have changed what counts meanwhile, and set the gate before.
        if is_open == self::is_open() {
            return;
        }
    }
}

/// A library was unloaded.
pub(crate) fn library_unloaded() {
    if GATE.load(Relaxed) != 0 {
        set_gate();
    }
}

#[inline(always)]
fn is_open() -> bool {
    WAY.load(Relaxed) >= TRIED && aten::is_traced()
}

/// torch asks who listens to a call: the answer is an object, for which there is room.
pub(crate) unsafe extern "C" fn asked(room: usize, scope: u8) -> Next {
    let original = StepCallbacks::ORIGINAL.address();
    if original == 0 {
        // SAFETY: torch's own room.
        unsafe { Listeners::none_at(room) };
        return Next::jump(unchanged as *const () as usize);
    }
    if !is_open() {
        return shut(original);
    }
    // What is called within an operator that is recorded is part of it.
    if scope != FUNCTION as u8 || aten::is_called_inside(room) {
        return Next::jump(original);
    }
    Next::call(original, 1)
}

unsafe extern "C" fn unchanged(room: usize) -> usize {
    room
}

#[cold]
#[inline(never)]
fn shut(original: usize) -> Next {
    set_gate();
    Next::jump(original)
}

/// torch has put its answer there.
pub(crate) unsafe extern "C" fn answered(room: usize) -> usize {
    if WAY.load(Relaxed) == ADDED {
        // SAFETY: torch's own answer, to what was asked for such a call.
        if unsafe { Listeners::add(room, &observer::wanted_callback()) } == Added::NoRoom {
            // SAFETY: the same.
            unsafe { register_again(room) };
        }
    // SAFETY: the same, or so many bytes of something else.
    } else if unsafe { Listeners::has(room, &observer::wanted_callback()) } {
        aten::note_question(room);
    }
    room
}

/// The registered observer is told that an operator is called.
#[inline(always)]
pub(super) fn told(call: usize) {
    if WAY.load(Relaxed) == TRIED {
        weigh(call);
    }
}

#[cold]
#[inline(never)]
fn weigh(call: usize) {
    if !aten::was_question_of(call) {
        WAY.store(REGISTERED, Relaxed);
        set_gate();
    } else if HOOKED.fetch_add(1, Relaxed) + 1 == PROOFS
        && let Some(disable) = DisableObserver::find()
        && WAY.compare_exchange(TRIED, ADDED, AcqRel, Relaxed).is_ok()
    {
        // Where both are at work for a moment, the observer is not put where it is already.
        OBSERVER.is_enabled.store(0, Relaxed);
        // SAFETY: torch's own function, and the handle of our observer.
        unsafe { disable(OBSERVER.handle.load(Relaxed)) };
    }
}

/// There are more listeners than torch has room for in its answer. It makes more itself, for those who are registered.
///
/// # Safety
/// torch's answer is there.
#[cold]
#[inline(never)]
unsafe fn register_again(room: usize) {
    let Some(add) = AddObserver::find() else { return };
    if WAY.compare_exchange(ADDED, REGISTERED, AcqRel, Relaxed).is_err() {
        return;
    }
    // SAFETY: torch's own functions; an answer that is all in its place can be given anew.
    unsafe {
        OBSERVER.handle.store(add(observer::wanted_callback()), Relaxed);
        OBSERVER.is_enabled.store(1, Relaxed);
        if Listeners::are_in_place(room) {
            call_for_object(StepCallbacks::ORIGINAL.address(), FUNCTION, room as *mut u8);
        }
    }
    set_gate();
}

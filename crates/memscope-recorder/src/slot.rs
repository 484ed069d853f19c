//! The thread's corner: one small block of initial-exec thread-local storage.
//!
//! Why not `thread_local!`: in a shared library it goes through `__tls_get_addr` (measured 14 ticks a call against 5),
//! which may allocate on a thread's first touch, inside malloc. Stable Rust has no other way than assembly to ask for
//! the initial-exec model; the library is always preloaded, so the static TLS block has room for it.
use crate::lane::Lane;

#[cfg_attr(target_arch = "x86_64", path = "tls/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "tls/aarch64.rs")]
mod tls;

/// What a thread carries. The first two words are the guard: wrappers in other libraries reach them by [`offset`] alone.
#[repr(C)]
pub struct Slot {
    /// Stack pointer of the hook that is at work on this thread, 0 for none.
    pub(crate) guard: usize,
    /// The word at that place of the stack, which stays there as long as the hook does.
    pub(crate) guard_word: usize,
    /// The thread's lane, null before its first event.
    pub(crate) lane: *mut Lane,
    /// The recorder itself is at work: a hook call now comes from a signal handler and is lost.
    pub(crate) recording: bool,
    /// Events lost that way since the lane last looked.
    pub(crate) interrupted: u32,
    /// Where the launch hook that is at work on this thread keeps its mark, 0 for none, and the mark.
    launch: usize,
    launch_word: usize,
    /// The launch epoch of the process ([`crate::kernel`]) this thread has settled with; 0 none.
    pub(crate) launch_epoch: u32,
    /// The device it then launched on.
    pub(crate) launch_device: u32,
}

/// Bytes reserved in the thread-local block by the assembly of each architecture.
const RESERVED: usize = 64;
const _: () = assert!(size_of::<Slot>() <= RESERVED);

/// The calling thread's slot.
#[inline(always)]
pub fn current() -> *mut Slot {
    tls::slot().cast()
}

/// Distance of the slot from the thread pointer, the same for all threads.
pub fn offset() -> isize {
    tls::offset()
}

/// No stack is larger; a frame further away is not of this stack.
const SAME_STACK: usize = 64 << 20;

/// For a hook entered at `stack_pointer` that finds the guard taken: whether it may take it all the same, because the
/// hook that had it was left by `longjmp` (out of a signal handler) and will never release it.
///
/// A hook within another has the smaller stack pointer, and the outer hook's frame is still there: the word at the guard
/// is what it was. A call that comes while the recorder itself is at work is lost, and counted.
///
/// # Safety
/// Called on entry of a hook, before it uses the recorder.
#[cold]
pub unsafe fn may_take_over(stack_pointer: usize) -> bool {
    let slot = current();
    // SAFETY: the slot is the thread's own; the guarded word is read only if it can be.
    unsafe {
        let guard = (*slot).guard;
        let outer = stack_pointer.wrapping_sub(guard) > SAME_STACK;
        // Where the program forbids to ask, the hook counts as there: rather one event too few than a torn one.
        let there = !memscope_sys::knows_what_is_readable()
            || memscope_sys::is_readable(guard) && *(guard as *const usize) == (*slot).guard_word;
        if outer && there {
            if (*slot).recording {
                (*slot).interrupted = (*slot).interrupted.wrapping_add(1);
            }
            return false;
        }
        crate::lane::guard_abandoned();
    }
    true
}

/// The guard of the calling thread for the duration of a hook: makes calls from within the real function, and our own,
/// invisible.
pub struct Guard {
    slot: *mut Slot,
}

impl Guard {
    /// `None` if this call is nested in another hook and must pass through unrecorded.
    ///
    /// # Safety
    /// `stack_pointer` is a place on the calling thread's stack whose word does not change before the guard is dropped.
    #[inline(always)]
    pub unsafe fn enter(stack_pointer: usize) -> Option<Guard> {
        let slot = current();
        // SAFETY: the slot is the thread's own, and nothing holds a reference to it across this call; the caller vouches
        // for the word.
        unsafe {
            if (*slot).guard != 0 && !may_take_over(stack_pointer) {
                return None;
            }
            (*slot).guard = stack_pointer;
            (*slot).guard_word = *(stack_pointer as *const usize);
        }
        Some(Guard { slot })
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the slot outlives the hook; it is the calling thread's.
        unsafe { (*self.slot).guard = 0 };
    }
}

/// A launch in progress on the calling thread. Launch functions call each other; only the outermost is a launch.
///
/// Not the guard above: what the program's libraries allocate within a launch is theirs, and is recorded.
pub struct Launch {
    slot: *mut Slot,
}

impl Launch {
    /// `None` if this call is part of another launch. A launch that was left by a jump is recognised as a guard is.
    ///
    /// # Safety
    /// `mark` is a place on the calling thread's stack whose word does not change before the launch is dropped.
    #[inline(always)]
    pub unsafe fn enter(mark: usize) -> Option<Launch> {
        let slot = current();
        // SAFETY: the slot is the thread's own; the caller vouches for the word.
        unsafe {
            if (*slot).launch != 0 && is_within(mark, (*slot).launch, (*slot).launch_word) {
                return None;
            }
            (*slot).launch = mark;
            (*slot).launch_word = *(mark as *const usize);
        }
        Some(Launch { slot })
    }
}

impl Drop for Launch {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the slot outlives the hook; it is the calling thread's.
        unsafe { (*self.slot).launch = 0 };
    }
}

/// Whether a frame at `place` was called from the frame whose mark `word` is at `outer`, if that is still there.
///
/// # Safety
/// `place` is on the calling thread's stack.
unsafe fn is_within(place: usize, outer: usize, word: usize) -> bool {
    /// So close above a live frame there is stack; further away the kernel is asked first.
    const NEAR: usize = 16 << 10;
    let distance = outer.wrapping_sub(place);
    distance <= SAME_STACK
        && (distance <= NEAR || memscope_sys::is_readable(outer))
        // SAFETY: the word can be read, as was just made sure.
        && unsafe { *(outer as *const usize) } == word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_slot_at_the_same_offset() {
        let mine = current() as usize;
        let theirs = std::thread::spawn(|| current() as usize).join().unwrap();
        assert_ne!(mine, theirs);
        assert_eq!(mine, current() as usize);
    }

    /// Two places of a stack, the first below the second.
    fn places(stack: &[usize; 2]) -> (usize, usize) {
        (&raw const stack[0] as usize, &raw const stack[1] as usize)
    }

    #[test]
    fn a_nested_guard_is_refused_until_the_outer_one_is_dropped() {
        let stack = [1, 2];
        let (below, above) = places(&stack);
        // SAFETY: the words are not changed.
        unsafe {
            let outer = Guard::enter(above).unwrap();
            assert!(Guard::enter(below).is_none());
            drop(outer);
            assert!(Guard::enter(below).is_some());
        }
    }

    #[test]
    fn a_guard_left_by_a_jump_is_taken_over() {
        let mut stack = [1, 2];
        let (below, above) = places(&stack);
        // SAFETY: the words are changed only where the guard counts as left.
        unsafe {
            core::mem::forget(Guard::enter(below).unwrap());
            // Further out than the frame that held it.
            core::mem::forget(Guard::enter(above).unwrap());
            assert!(Guard::enter(below).is_none());
            // Further in, but the frame that held it is gone.
            (&raw mut stack[1]).write_volatile(3);
            assert!(Guard::enter(below).is_some());
        }
    }

    #[test]
    fn a_launch_within_a_launch_is_none_and_one_left_by_a_jump_does_not_count() {
        let mut stack = [11, 22];
        let (below, above) = places(&stack);
        // SAFETY: the words are changed only where the launch counts as left.
        unsafe {
            let outer = Launch::enter(above).unwrap();
            assert!(Launch::enter(below).is_none());
            drop(outer);
            core::mem::forget(Launch::enter(below).unwrap());
            core::mem::forget(Launch::enter(above).unwrap());
            assert!(Launch::enter(below).is_none());
            (&raw mut stack[1]).write_volatile(33);
            assert!(Launch::enter(below).is_some());
            // Somewhere that cannot be read.
            (*current()).launch = below + (48 << 20);
            assert!(Launch::enter(below).is_some());
        }
    }
}

//! The thread's corner: one small block of initial-exec thread-local storage.
//!
//! Why not `thread_local!`: in a shared library it goes through `__tls_get_addr` (measured 14 ticks a call against 5),
//! which may allocate on a thread's first touch, inside malloc. Stable Rust has no other way than assembly to ask for
//! the initial-exec model; the library is always preloaded, so the static TLS block has room for it.
use crate::lane::Lane;

#[cfg_attr(target_arch = "x86_64", path = "tls/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "tls/aarch64.rs")]
mod tls;

/// What a thread carries. The first word is the guard: wrappers in other libraries reach it by [`offset`] alone.
#[repr(C)]
pub struct Slot {
    /// Stack pointer of the hook that is at work on this thread, 0 for none.
    pub(crate) guard: usize,
    /// The thread's lane, null before its first event.
    pub(crate) lane: *mut Lane,
    /// The recorder itself is at work: a hook call now comes from a signal handler and is lost.
    pub(crate) recording: bool,
    /// Events lost that way since the lane last looked.
    pub(crate) interrupted: u32,
}

/// Bytes reserved in the thread-local block by the assembly of each architecture.
const RESERVED: usize = 32;
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

/// A guard older than this many bytes below is not the frame of the same stack any more.
const SAME_STACK: usize = 64 << 20;

/// Whether a hook entered at `stack_pointer` is nested in one whose guard is `guard`.
///
/// A nested call has the smaller stack pointer. A guard at or below ours belongs to a frame that was left by `longjmp`
/// out of a signal handler: it will never be released, so it does not count.
#[inline(always)]
pub fn is_nested(guard: usize, stack_pointer: usize) -> bool {
    guard != 0 && stack_pointer.wrapping_sub(guard) > SAME_STACK
}

/// The guard of the calling thread for the duration of a hook: makes calls from within the real function, and our own,
/// invisible.
pub struct Guard {
    slot: *mut Slot,
}

impl Guard {
    /// `None` if this call is nested in another hook and must pass through unrecorded.
    #[inline(always)]
    pub fn enter(stack_pointer: usize) -> Option<Guard> {
        let slot = current();
        // SAFETY: the slot is the thread's own, and nothing holds a reference to it across this call.
        unsafe {
            if (*slot).guard != 0 {
                if is_nested((*slot).guard, stack_pointer) {
                    note_interruption(slot);
                    return None;
                }
                crate::lane::guard_abandoned();
            }
            (*slot).guard = stack_pointer;
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

/// Counts a call that came while the recorder was at work.
///
/// # Safety
/// `slot` is the calling thread's.
#[inline(always)]
pub unsafe fn note_interruption(slot: *mut Slot) {
    // SAFETY: the caller vouches for the slot.
    unsafe {
        if (*slot).recording {
            (*slot).interrupted = (*slot).interrupted.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_frames_are_nested_and_abandoned_guards_are_not() {
        assert!(!is_nested(0, 0x7fff_0000));
        assert!(is_nested(0x7fff_0000, 0x7ffe_f000));
        assert!(!is_nested(0x7fff_0000, 0x7fff_0000));
        assert!(!is_nested(0x7fff_0000, 0x7fff_8000));
        assert!(is_nested(0x7fff_0000_0000, 0x5000_0000));
    }

    #[test]
    fn each_thread_has_its_own_slot_at_the_same_offset() {
        let mine = current() as usize;
        let theirs = std::thread::spawn(|| current() as usize).join().unwrap();
        assert_ne!(mine, theirs);
        assert_eq!(mine, current() as usize);
    }

    #[test]
    fn a_second_guard_on_the_same_stack_is_refused_until_the_first_is_dropped() {
        let outer = Guard::enter(0x1000_0000).unwrap();
        assert!(Guard::enter(0x0fff_0000).is_none());
        drop(outer);
        assert!(Guard::enter(0x0fff_0000).is_some());
    }
}

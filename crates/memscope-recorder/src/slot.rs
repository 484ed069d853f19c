//! The thread's corner: one small block of initial-exec thread-local storage.
//!
//! Why not `thread_local!`: in a shared library it goes through `__tls_get_addr` (measured 14 ticks a call against 5),
//! which may allocate on a thread's first touch, inside malloc. Stable Rust has no other way than assembly to ask for
//! the initial-exec model; the library is always preloaded, so the static TLS block has room for it.
use crate::aten::OpenOperator;
use crate::device::LogicalDevice;
use crate::lane::{self, Entry, Lane};
use crate::step;
use crate::storage::Request;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use memscope_stack::c::{Search, find_frame};

#[cfg_attr(target_arch = "x86_64", path = "tls/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "tls/aarch64.rs")]
mod tls;

/// What a thread carries. The first two words are the guard: wrappers in other libraries reach them by [`offset`] alone.
#[repr(C)]
pub struct Slot {
    /// Stack pointer of the hook that is at work on this thread, 0 for none; with [`MARK`] a word somewhere in its frame.
    pub(crate) guard: usize,
    /// The word at that place of the stack, which stays there as long as the hook does.
    pub(crate) guard_word: usize,
    /// The thread's lane, null before its first event.
    pub(crate) lane: *mut Lane,
    /// What the recorder is at while the thread has no lane; then the lane says it. See [`Progress`].
    recording: Progress,
    /// Where the launch hook that is at work on this thread keeps its mark, 0 for none, and the mark.
    launch: usize,
    launch_word: usize,
    /// The launch epoch of the process ([`crate::kernel`]) in which this thread checked its device.s task log; 0 never.
    pub(crate) launch_epoch: u32,
    /// The device it then launched on.
    pub(crate) launch_device: LogicalDevice,
    /// A second guard, for a hook called by a signal handler that interrupted the first outside of the recorder.
    on_top: usize,
    on_top_word: usize,
    /// A window that was mapped and is not yet a lane's, and its length; 0 for none. A forked child does not have it.
    pub(crate) coming: usize,
    pub(crate) coming_length: usize,
    pub(crate) storage_request: Request,
    /// The hash of the kernel that the runtime reported last, for [`crate::watch`].
    pub(crate) kernel_reported: u64,
    /// The runtime is at work for [`crate::watch`].
    pub(crate) calling_runtime: bool,
    pub(crate) in_named_kernel: bool,
    /// The operator of ATB that began last, and its stream.
    pub(crate) stream_of: u64,
    pub(crate) last_stream: usize,
    /// The outermost operator of torch that is at work on this thread.
    pub(crate) operator: OpenOperator,
    /// Where torch was told last who listens to a call, for [`crate::aten`].
    pub(crate) question: usize,
}

/// Bytes reserved in the thread-local block by the assembly of each architecture.
const RESERVED: usize = 192;
const _: () = assert!(size_of::<Slot>() <= RESERVED);

/// The calling thread's slot.
#[inline(always)]
pub fn current() -> *mut Slot {
    #[cfg(all(test, feature = "model"))]
    if let Some(slot) = crate::model::slot() {
        return slot;
    }
    tls::slot().cast()
}

/// Says that a window was mapped, and is not yet a lane's, to a child that a signal handler forks before it is.
pub(crate) fn note_coming(memory: *mut u8, length: usize) {
    let slot = current();
    // SAFETY: the slot is the thread's own.
    unsafe {
        (*slot).coming_length = length;
        step::fence();
        (*slot).coming = memory as usize;
        step::fence();
    }
}

/// Distance of the slot from the thread pointer, the same for all threads.
pub fn offset() -> isize {
    tls::offset()
}

/// How much further the second guard is.
pub const SECOND_GUARD: usize = core::mem::offset_of!(Slot, on_top);

/// What the recorder is at on a thread, in one word that is changed by one store: whoever finds it left, by a jump or by a
/// thread that has ended, can tell how many of the call's events are missing. It lies in the lane, which outlives its thread.
///
/// ```text
///  63           56 55                                                     0
/// ┌───────────────┬────────────────────────────────────────────────────────┐
/// │ events to     │ 0 not at work, 1 at work on an event, 2 on none, else  │
/// │ come after    │ where the cursor is once the event is published        │
/// └───────────────┴────────────────────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress(usize);

impl Progress {
    pub(crate) const IDLE: Progress = Progress(0);
    /// The lane is being changed, and no event is under way.
    pub(crate) const BETWEEN_EVENTS: Progress = Progress(2);
    const AT_WORK: usize = 1;
    const AFTER_SHIFT: u32 = 56;

    pub(crate) fn is_idle(self) -> bool {
        self == Progress::IDLE
    }

    /// At work on the first of `events`.
    #[inline(always)]
    pub(crate) fn begin(events: u64) -> Progress {
        Progress((events.saturating_sub(1).min(0xff) as usize) << Progress::AFTER_SHIFT | Progress::AT_WORK)
    }

    /// The event under way is about to be published: the cursor will be at `end`; so many follow.
    #[inline(always)]
    pub(crate) fn publishing(end: usize, to_come: u64) -> Progress {
        Progress((to_come as usize) << Progress::AFTER_SHIFT | end)
    }

    /// How many events of the call are missing in a lane whose cursor is published at `published`.
    pub(crate) fn missing(self, published: usize) -> u64 {
        if self == Progress::IDLE || self == Progress::BETWEEN_EVENTS {
            return 0;
        }
        let (after, at) = (self.0 >> Progress::AFTER_SHIFT, self.0 & ((1 << Progress::AFTER_SHIFT) - 1));
        after as u64 + u64::from(at != published)
    }

    /// Stores it into the word of a lane or slot, in its place among the other stores.
    ///
    /// # Safety
    /// The word can be written.
    #[inline(always)]
    pub(crate) unsafe fn store(self, word: *mut Progress) {
        // Neither what comes before nor what comes after may pass this store: a signal handler of this thread looks at it, and
        // who takes over the lane of a thread that ended here.
        step::fence();
        // SAFETY: the caller vouches for the word.
        unsafe { word.write_volatile(self) };
        step::fence();
    }
}

impl Slot {
    /// Notes what the recorder is at on a thread that has no lane.
    ///
    /// # Safety
    /// `slot` is the calling thread's.
    #[inline(always)]
    pub(crate) unsafe fn set(slot: *mut Slot, progress: Progress) {
        // SAFETY: the caller vouches for the slot.
        unsafe { progress.store(ptr::addr_of_mut!((*slot).recording)) };
    }

    /// What the recorder is at on a thread that has no lane, or has only just got one.
    unsafe fn progress(slot: *const Slot) -> Progress {
        // SAFETY: the caller vouches for the slot.
        unsafe { ptr::addr_of!((*slot).recording).read_volatile() }
    }

    /// Whether the recorder is at work on the thread, or was left there.
    ///
    /// # Safety
    /// As for [`Slot::set`].
    pub(crate) unsafe fn is_recording(slot: *const Slot) -> bool {
        // SAFETY: the caller vouches for the slot, and a lane stays mapped.
        unsafe {
            !Slot::progress(slot).is_idle() || (*slot).lane.as_ref().is_some_and(|lane| !lane.progress().is_idle())
        }
    }

    /// In a forked child, of a thread the recorder was at work on: neither lane nor guard.
    ///
    /// # Safety
    /// As for [`Slot::set`].
    pub(crate) unsafe fn begin_anew(slot: *mut Slot) {
        // SAFETY: the caller vouches for the slot.
        unsafe {
            (*slot).lane = ptr::null_mut();
            Slot::set(slot, Progress::IDLE);
            (*slot).on_top = 0;
            (*slot).guard = 0;
            (*slot).coming = 0;
        }
    }

    /// The hook that held the guard was left by a jump and will not come back: `guard` is the one that has it instead. If
    /// it was left in the recorder itself, its half-made record is dropped, and everything later records would refer to is
    /// begun anew.
    ///
    /// # Safety
    /// `slot` is the calling thread's, which is not in the recorder; `guard` is of a hook at work on it.
    #[cold]
    unsafe fn replace_abandoned(slot: *mut Slot, guard: usize) -> Nested {
        // SAFETY: the caller vouches for the slot, and for the word at the guard.
        unsafe {
            // First, so that a signal handler finds the lane in use; before that it does this work itself.
            (*slot).guard_word = *((guard & !MARK) as *const usize);
            step::fence();
            (*slot).guard = guard;
            step::fence();
            if Slot::is_recording(slot) {
                lane::recover(slot, Slot::progress(slot));
                // Last: this, too, may be left by a jump.
                Slot::set(slot, Progress::IDLE);
            }
        }
        Nested::Instead
    }
}

/// On a guard: the word at it is not a return address but one the hook put there.
const MARK: usize = 1;
/// For [`Guard::enter_at`]: a word that is nothing else.
pub const MARK_WORD: usize = 0x9d3b_6e01_c5a7_f24d;
/// No stack is larger; a frame further away is not of this stack.
const SAME_STACK: usize = 64 << 20;

/// What becomes of a hook that finds the guard taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Nested {
    /// It is part of what the other hook does, or cannot be recorded now and was counted: it passes unrecorded.
    Pass = 0,
    /// The other hook was left by a jump: the guard is this one's already.
    Instead = 1,
    /// It comes from a signal handler that interrupted the other, which is outside of the recorder: it is recorded, under
    /// the second guard.
    OnTop = 2,
}

/// Judges a hook entered at `stack_pointer` with the caller's frame pointer that finds the guard taken.
///
/// # Safety
/// Called on entry of a hook, before it uses the recorder; the two are what its stub was entered with.
#[cold]
pub unsafe fn nested(stack_pointer: usize, frame_pointer: usize) -> Nested {
    let slot = current();
    // SAFETY: the slot is the thread's own, and the caller vouches for the pointers.
    unsafe {
        let search = |guard: usize| find_frame(stack_pointer, frame_pointer, guard & !MARK);
        if (*slot).on_top != 0 {
            match search((*slot).on_top) {
                Search::Found { crossed_signal: false } => return Nested::Pass,
                // A handler that interrupted a handler's hook: there is no third guard.
                Search::Found { .. } => return lost(slot),
                _ => (*slot).on_top = 0,
            }
        }
        let is_mark = (*slot).guard & MARK != 0;
        if !word_stays(slot) {
            return Slot::replace_abandoned(slot, stack_pointer);
        }
        match search((*slot).guard) {
            Search::Found { crossed_signal } => within(slot, crossed_signal),
            // A mark is no frame's place, but lies in one.
            Search::Between { crossed_signal } if is_mark => within(slot, crossed_signal),
            Search::Between { .. } => Slot::replace_abandoned(slot, stack_pointer),
            Search::Absent { above } if is_one_stack((*slot).guard & !MARK, above) => {
                Slot::replace_abandoned(slot, stack_pointer)
            }
            // On another stack, and what is suspended there may come back: who switches stacks in a signal handler has
            // interrupted the recorder, or the real function, and has not left it.
            Search::Absent { .. } => lost(slot),
            Search::Unknown { crossed_signal } => by_place(slot, stack_pointer, crossed_signal),
        }
    }
}

/// The same for a hook of which nothing is known but a place in its frame.
unsafe fn nested_at(place: usize) -> Nested {
    let slot = current();
    // SAFETY: the slot is the thread's own.
    unsafe { by_place(slot, place | MARK, step::is_in_handler()) }
}

/// Whether memory goes on without a gap from `place` up to `above`, as it does within a stack.
fn is_one_stack(place: usize, above: usize) -> bool {
    const PAGE: usize = 4096;
    above.wrapping_sub(place) <= SAME_STACK
        && memscope_sys::knows_what_is_readable()
        && (place..above).step_by(PAGE).all(memscope_sys::is_readable)
}

/// Whether the word at the guard is what it was. Changed, it tells that the hook has gone; unchanged, it tells little.
unsafe fn word_stays(slot: *const Slot) -> bool {
    // SAFETY: the caller passes the thread's own slot; the guarded word is read only if it can be.
    unsafe {
        let (guard, is_mark) = ((*slot).guard & !MARK, (*slot).guard & MARK != 0);
        let word = if is_mark { MARK_WORD } else { (*slot).guard_word };
        // 0: a signal handler had the guard while it was being taken.
        // Where the program forbids to ask, the hook counts as there: rather one event too few than a torn one.
        word == 0
            || !memscope_sys::knows_what_is_readable()
            || memscope_sys::is_readable(guard) && *(guard as *const usize) == word
    }
}

/// The other hook is live.
unsafe fn within(slot: *mut Slot, crossed_signal: bool) -> Nested {
    // SAFETY: the caller passes the thread's own slot.
    let recording = unsafe { Slot::is_recording(slot) };
    match (crossed_signal, recording) {
        // The real function, or the recorder's own work, calls a function that is hooked too.
        (false, _) => Nested::Pass,
        (true, false) => Nested::OnTop,
        // SAFETY: as above.
        (true, true) => unsafe { lost(slot) },
    }
}

/// A call that can neither be recorded nor is part of another.
unsafe fn lost(slot: *mut Slot) -> Nested {
    // SAFETY: the caller passes the thread's own slot; counting is safe on top of whatever was interrupted.
    unsafe { lane::lose((*slot).lane, 1) };
    Nested::Pass
}

/// Where the stack cannot be walked to its end: a hook within another has the smaller stack pointer, unless it is on a stack
/// for signal handlers.
unsafe fn by_place(slot: *mut Slot, guard: usize, crossed_signal: bool) -> Nested {
    // SAFETY: the caller passes the thread's own slot and its own guard.
    unsafe {
        let is_outer = (guard & !MARK).wrapping_sub((*slot).guard & !MARK) <= SAME_STACK;
        if is_outer && memscope_sys::is_on_signal_stack() == Some(false) || !word_stays(slot) {
            return Slot::replace_abandoned(slot, guard);
        }
        // Our own work calls no hooked function where the stack cannot be walked.
        let recording = Slot::is_recording(slot);
        within(slot, crossed_signal || recording)
    }
}

/// The guard of the calling thread for the duration of a hook: makes calls from within the real function, and our own,
/// invisible. Whatever records something borrows it; it does not leave its thread.
pub struct Guard<'m> {
    /// One of the slot's two.
    words: *mut [usize; 2],
    /// What the hook's stub was entered with; 0 where no stack can be taken.
    stack_pointer: usize,
    frame_pointer: usize,
    /// The word on the stack that the guard is known by.
    mark: PhantomData<&'m usize>,
}

impl Guard<'static> {
    /// `None` if this call is nested in another hook and must pass through unrecorded.
    ///
    /// # Safety
    /// `stack_pointer` and `frame_pointer` are those the hook's stub was entered with, and the guard is dropped before
    /// the hook returns.
    #[inline(always)]
    pub unsafe fn enter(stack_pointer: usize, frame_pointer: usize) -> Option<Guard<'static>> {
        // SAFETY: the caller vouches for the pointers; the return address stays where it is.
        let words = unsafe { take(stack_pointer, 0, || nested(stack_pointer, frame_pointer)) }?;
        Some(Guard { words, stack_pointer, frame_pointer, mark: PhantomData })
    }

    /// The guard that a caller in another library has taken and will drop. Zeroes for a caller that gives no entry.
    ///
    /// # Safety
    /// The calling thread's guard is held, by a hook that was entered so, as long as this is used.
    #[inline(always)]
    pub unsafe fn lent(stack_pointer: usize, frame_pointer: usize) -> ManuallyDrop<Guard<'static>> {
        ManuallyDrop::new(Guard { words: ptr::null_mut(), stack_pointer, frame_pointer, mark: PhantomData })
    }
}

impl<'m> Guard<'m> {
    /// The same for code that is called without a stub; it can take no stacks. `mark` is [`MARK_WORD`], in a variable of the
    /// caller's.
    #[inline(always)]
    pub fn enter_at(mark: &'m usize) -> Option<Guard<'m>> {
        let place = ptr::from_ref(mark) as usize;
        // SAFETY: the word is borrowed from the calling thread's stack, and does not change before the guard is dropped.
        let words = unsafe { take(place, MARK, || nested_at(place)) }?;
        Some(Guard { words, stack_pointer: 0, frame_pointer: 0, mark: PhantomData })
    }

    /// Where the hook was entered.
    #[inline(always)]
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry { stack_pointer: self.stack_pointer, frame_pointer: self.frame_pointer, guard: PhantomData }
    }

    /// For an event of which only the Python stack is asked for, where there is no stub that could say where the C stack begins.
    #[inline(always)]
    pub(crate) fn python_only(&self) -> Entry<'_> {
        Entry { stack_pointer: Entry::PYTHON_ONLY, frame_pointer: 0, guard: PhantomData }
    }

    /// For an event whose stack nobody asks for.
    #[inline(always)]
    pub(crate) fn no_stack(&self) -> Entry<'_> {
        Entry { stack_pointer: 0, frame_pointer: 0, guard: PhantomData }
    }
}

/// Takes one of the thread's two guards.
///
/// # Safety
/// `place` is on the calling thread's stack, and its word does not change before the guard is dropped.
#[inline(always)]
unsafe fn take(place: usize, mark: usize, judge: impl FnOnce() -> Nested) -> Option<*mut [usize; 2]> {
    let slot = current();
    // SAFETY: the slot is the thread's own, and nothing holds a reference to it across this call; the caller vouches
    // for the word.
    unsafe {
        let mut words = ptr::addr_of_mut!((*slot).guard).cast::<[usize; 2]>();
        if (*slot).guard != 0 {
            match judge() {
                Nested::Pass => return None,
                Nested::Instead => return Some(words),
                Nested::OnTop => words = ptr::addr_of_mut!((*slot).on_top).cast(),
            }
        }
        // In this order: a signal in between finds no guard, and not one with another's word.
        step::fence();
        (*words)[1] = *(place as *const usize);
        step::fence();
        (*words)[0] = place | mark;
        Some(words)
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if step::is_left() {
            return;
        }
        // SAFETY: the slot outlives the hook; it is the calling thread's.
        unsafe {
            (*self.words)[0] = 0;
            step::fence();
            // It may be a guard's that was being taken when a signal came.
            (*self.words)[1] = 0;
        }
    }
}

/// A kernel launch in progress on the calling thread. Launch functions call each other; only the outermost is a launch.
///
/// Not the guard above: what the program's libraries allocate within a launch is theirs, and is recorded.
pub struct KernelLaunch<'m> {
    slot: *mut Slot,
    mark: PhantomData<&'m usize>,
}

impl<'m> KernelLaunch<'m> {
    /// `None` if this call is part of another launch. A launch that was left by a jump is recognised as a guard is.
    /// `mark` is a variable of the caller's, in which no other frame has the same.
    #[inline(always)]
    pub fn enter(mark: &'m usize) -> Option<KernelLaunch<'m>> {
        let slot = current();
        let place = ptr::from_ref(mark) as usize;
        // SAFETY: the slot is the thread's own, and the mark is borrowed from its stack.
        unsafe {
            if (*slot).launch != 0 && is_within(place, (*slot).launch, (*slot).launch_word) {
                return None;
            }
            (*slot).launch = place;
            (*slot).launch_word = *mark;
        }
        Some(KernelLaunch { slot, mark: PhantomData })
    }
}

impl Drop for KernelLaunch<'_> {
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
#[inline(always)]
pub(crate) unsafe fn is_within(place: usize, outer: usize, word: usize) -> bool {
    /// So close above a live frame there is stack; further away the kernel is asked first.
    const NEAR: usize = 16 << 10;
    let distance = outer.wrapping_sub(place);
    distance <= SAME_STACK
        && (distance <= NEAR || is_readable_far_away(outer))
        // SAFETY: the word can be read, as was just made sure.
        && unsafe { *(outer as *const usize) } == word
}

/// Out of the way, so that who asks nearby needs no registers for it.
#[cold]
#[inline(never)]
fn is_readable_far_away(place: usize) -> bool {
    memscope_sys::is_readable(place)
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

    #[test]
    fn what_is_missing_of_a_call_that_was_left_is_what_was_not_published() {
        assert_eq!(Progress::begin(1).missing(900), 1);
        assert_eq!(Progress::publishing(950, 0).missing(900), 1);
        assert_eq!(Progress::publishing(950, 0).missing(950), 0);
        assert_eq!(Progress::begin(2).missing(900), 2);
        assert_eq!(Progress::publishing(950, 1).missing(900), 2);
        assert_eq!(Progress::publishing(950, 1).missing(950), 1);
        assert_eq!(Progress::IDLE.missing(900), 0);
        assert_eq!(Progress::BETWEEN_EVENTS.missing(900), 0);
    }

    #[test]
    fn a_nested_guard_is_refused_until_the_outer_one_is_dropped() {
        let stack = [MARK_WORD; 2];
        let outer = Guard::enter_at(&stack[1]).unwrap();
        assert!(Guard::enter_at(&stack[0]).is_none());
        drop(outer);
        assert!(Guard::enter_at(&stack[0]).is_some());
    }

    #[test]
    fn a_guard_left_by_a_jump_is_taken_over() {
        let mut stack = [MARK_WORD; 2];
        core::mem::forget(Guard::enter_at(&stack[0]).unwrap());
        // Further out than the frame that held it.
        core::mem::forget(Guard::enter_at(&stack[1]).unwrap());
        assert!(Guard::enter_at(&stack[0]).is_none());
        // Further in, but the frame that held it is gone.
        // SAFETY: the word is ours.
        unsafe { (&raw mut stack[1]).write_volatile(3) };
        assert!(Guard::enter_at(&stack[0]).is_some());
    }

    #[test]
    fn a_launch_within_a_launch_is_none_and_one_left_by_a_jump_does_not_count() {
        let mut stack = [11usize, 22];
        let outer = KernelLaunch::enter(&stack[1]).unwrap();
        assert!(KernelLaunch::enter(&stack[0]).is_none());
        drop(outer);
        core::mem::forget(KernelLaunch::enter(&stack[0]).unwrap());
        core::mem::forget(KernelLaunch::enter(&stack[1]).unwrap());
        assert!(KernelLaunch::enter(&stack[0]).is_none());
        // SAFETY: the word is ours.
        unsafe { (&raw mut stack[1]).write_volatile(33) };
        assert!(KernelLaunch::enter(&stack[0]).is_some());
        // Somewhere that cannot be read.
        // SAFETY: the slot is this thread's.
        unsafe { (*current()).launch = &raw const stack[0] as usize + (48 << 20) };
        assert!(KernelLaunch::enter(&stack[0]).is_some());
    }
}

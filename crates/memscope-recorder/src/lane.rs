//! Lanes: the streams of a spool, each written by one thread at a time.
//!
//! A lane outlives its thread. A thread's end is not observed (its last frees come after every destructor we could
//! register); instead a new thread looks for a lane whose thread is gone and takes it over, with its window, its
//! stack memory and its numbers. So a program that starts a million threads has as many lanes as it had threads at once.
use crate::atb::LastPath;
use crate::clock;
use crate::control;
use crate::process::{self, MAX_LANES, Process};
use crate::slot::{self, Slot};
use crate::stacks::Stacks;
use crate::writer::Writer;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use memscope_format::encode::Extended;
use memscope_format::layout::ClockKind;
use memscope_format::record::StackRef;
use memscope_sys as sys;

/// Where a hooked function was entered.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The stack pointer on entry: on x86-64 the return address is at it.
    pub stack_pointer: usize,
    /// The frame pointer register on entry, still the caller's.
    pub frame_pointer: usize,
}

impl Entry {
    /// For an event whose stack nobody asks for.
    pub(crate) const NO_STACK: Entry = Entry { stack_pointer: 0, frame_pointer: 0 };

    #[inline(always)]
    fn wants_stack(self) -> bool {
        self.stack_pointer != 0
    }
}

/// In memory of its own that a forked child finds zeroed: owner 0 is "no lane". What each event touches comes first.
#[repr(C)]
pub(crate) struct Lane {
    pub(crate) writer: Writer,
    owner: AtomicU32,
    stacks: Stacks,
    pub(crate) last_path: LastPath,
}

/// An allocation returned `address`.
///
/// # Safety
/// Called on the thread, and below the frame, that `entry` describes, with the guard held.
#[inline(always)]
pub unsafe fn host_alloc(address: usize, size: usize, entry: Entry) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane at hand.
    unsafe {
        match at_hand(slot, |lane| !lane.stacks.wanted()) {
            Some((lane, ticks)) => {
                ptr::addr_of_mut!((*slot).recording).write_volatile(true);
                lane.writer.host_alloc(ticks, address as u64, size as u64, StackRef::NONE);
                ptr::addr_of_mut!((*slot).recording).write_volatile(false);
            }
            None => host_alloc_in_full(address, size, entry),
        }
    }
}

/// Out of the way, so that the short way needs no registers saved.
#[inline(never)]
unsafe fn host_alloc_in_full(address: usize, size: usize, entry: Entry) {
    // SAFETY: passed on.
    unsafe {
        record(entry, 1, |lane, ticks, stack| lane.writer.host_alloc(ticks, address as u64, size as u64, stack));
    }
}

/// `address` is about to be freed. Its stack is not taken: who frees explains little, and would cost as much again.
///
/// # Safety
/// Called with the guard held.
#[inline(always)]
pub unsafe fn host_free(address: usize) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane at hand.
    unsafe {
        match at_hand(slot, |_| true) {
            Some((lane, ticks)) => {
                ptr::addr_of_mut!((*slot).recording).write_volatile(true);
                lane.writer.host_free(ticks, address as u64, StackRef::NONE);
                ptr::addr_of_mut!((*slot).recording).write_volatile(false);
            }
            None => host_free_in_full(address),
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn host_free_in_full(address: usize) {
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, stack| lane.writer.host_free(ticks, address as u64, stack));
    }
}

/// The thread's lane and the time, if an event can be written without further ado and `suits` the lane.
///
/// # Safety
/// `slot` is the calling thread's and the guard is held; the reference ends before either changes.
#[inline(always)]
unsafe fn at_hand<'l>(slot: *mut Slot, suits: impl FnOnce(&Lane) -> bool) -> Option<(&'l mut Lane, u64)> {
    // SAFETY: the lane a slot names is owned by its thread and mapped for ever; the guard keeps a signal handler from
    // entering here a second time, so the reference is the only one.
    let lane = unsafe { (*slot).lane.as_mut() }?;
    if !lane.writer.is_ready() || lane.writer.clock != ClockKind::Counter || !suits(lane) {
        return None;
    }
    // Last: it takes as long as all the rest.
    let ticks = clock::ticks(ClockKind::Counter);
    if lane.writer.is_calibration_due(ticks) {
        return None;
    }
    Some((lane, ticks))
}

/// `realloc` moved or resized `old`, which was given up at some moment after `began` ([`ticks_now`]). `new` is 0 where it
/// only freed.
///
/// Both halves are written after the call, because only then it is known that it succeeded; the free carries the time
/// before it, because from then on another thread may have been given the address.
///
/// # Safety
/// As for [`host_alloc`].
#[inline(always)]
pub unsafe fn host_moved(old: usize, new: usize, size: usize, began: u64, entry: Entry) {
    // SAFETY: passed on.
    unsafe {
        let events = if new == 0 { 1 } else { 2 };
        record(entry, events, |lane, ticks, stack| {
            // The counter may have been set back since.
            lane.writer.host_free(began.min(ticks), old as u64, StackRef::NONE);
            if new == 0 {
                return;
            }
            if lane.writer.make_ready() {
                lane.writer.host_alloc(ticks, new as u64, size as u64, stack);
            } else {
                lane.writer.lose(1);
            }
        });
    }
}

/// The time on this thread's lane. A thread that has none gets one here, because records cannot be older than their lane;
/// 0 if there is none to be had.
pub fn ticks_now() -> u64 {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own; a lane stays mapped.
    unsafe {
        let mut lane = (*slot).lane;
        if lane.is_null() || (*lane).owner.load(Relaxed) == 0 {
            ptr::addr_of_mut!((*slot).recording).write_volatile(true);
            lane = own_lane(slot);
            ptr::addr_of_mut!((*slot).recording).write_volatile(false);
        }
        if lane.is_null() || !(*lane).writer.is_open() { 0 } else { clock::ticks((*lane).writer.clock) }
    }
}

/// The hook that held the guard was left by a jump and will not come back. If it was left in the recorder itself, its
/// half-made record is dropped, and everything later records would refer to is begun anew.
///
/// # Safety
/// Called on a thread that is not in the recorder, before a new guard is used.
#[cold]
pub(crate) unsafe fn guard_abandoned() {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane it names; the caller vouches that nobody uses it.
    unsafe {
        let recording = ptr::addr_of_mut!((*slot).recording);
        if !recording.read_volatile() {
            return;
        }
        if let Some(lane) = (*slot).lane.as_mut()
            && lane.owner.load(Relaxed) != 0
        {
            lane.writer.recover();
            lane.stacks.forget();
            lane.writer.lose(1);
        }
        // Last: this, too, may be left by a jump.
        recording.write_volatile(false);
    }
}

/// The calling thread records nothing any more; what it would have is counted as lost.
pub(crate) fn close_own() {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane it names; a forked child's is zeroed.
    unsafe {
        if let Some(lane) = (*slot).lane.as_mut()
            && lane.owner.load(Relaxed) != 0
        {
            lane.writer.close();
        }
    }
}

/// Fresh anonymous memory was mapped.
///
/// # Safety
/// As for [`host_alloc`].
pub unsafe fn host_map(address: usize, size: usize, entry: Entry) {
    // SAFETY: passed on.
    unsafe {
        record(entry, 1, |lane, ticks, stack| {
            let record = Extended::HostMap { address: address as u64, size: size as u64, stack };
            lane.writer.extended_event(ticks, &record);
        });
    }
}

/// A range is about to be unmapped, or was mapped over.
///
/// # Safety
/// Called with the guard held.
pub unsafe fn host_unmap(address: usize, size: usize) {
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, stack| {
            let record = Extended::HostUnmap { address: address as u64, size: size as u64, stack };
            lane.writer.extended_event(ticks, &record);
        });
    }
}

/// A mapping was moved or resized at some moment after `began` ([`ticks_now`]).
///
/// # Safety
/// As for [`host_alloc`].
pub unsafe fn host_remapped(old: (usize, usize), new: (usize, usize), began: u64, entry: Entry) {
    // SAFETY: passed on.
    unsafe {
        record(entry, 1, |lane, ticks, stack| {
            let (old, old_size) = (old.0 as u64, old.1 as u64);
            let (new, new_size) = (new.0 as u64, new.1 as u64);
            let record = Extended::HostRemap { old, old_size, new, new_size, stack };
            // Stamped with the earlier time: afterwards another thread may have been given the old range.
            lane.writer.extended_event(began.min(ticks), &record);
        });
    }
}

/// The frame of every event: find the lane, take the time and the stack, let `write` encode `events` records.
///
/// # Safety
/// As for [`host_alloc`].
#[inline(always)]
pub(crate) unsafe fn record(entry: Entry, events: u64, write: impl FnOnce(&mut Lane, u64, StackRef)) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own. The lane it names is owned by this thread and mapped for ever; the guard
    // keeps a signal handler from entering here a second time, so the reference is the only one.
    unsafe {
        ptr::addr_of_mut!((*slot).recording).write_volatile(true);
        let mut lane = (*slot).lane;
        if lane.is_null() || !(*lane).writer.is_ready() {
            lane = prepare(slot, events);
        }
        if let Some(lane) = lane.as_mut() {
            let ticks = clock::ticks(lane.writer.clock);
            if lane.writer.is_calibration_due(ticks) {
                lane.writer.calibrate(ticks);
                if !lane.writer.make_ready() {
                    lane.writer.lose(events);
                    ptr::addr_of_mut!((*slot).recording).write_volatile(false);
                    return;
                }
            }
            let mut stack = StackRef::NONE;
            if lane.stacks.wanted() && entry.wants_stack() && control::is_tracing() {
                stack = lane.stacks.capture(entry, &mut lane.writer);
                // New definitions may have filled the window.
                if !lane.writer.make_ready() {
                    lane.writer.lose(events);
                    ptr::addr_of_mut!((*slot).recording).write_volatile(false);
                    return;
                }
            }
            write(lane, ticks, stack);
        }
        ptr::addr_of_mut!((*slot).recording).write_volatile(false);
    }
}

/// The slow path of an event: first event of a thread or a forked child, full window, or nothing to record into.
/// Null if the `events` are lost, which have then been counted.
///
/// # Safety
/// `slot` is the calling thread's.
#[cold]
#[inline(never)]
unsafe fn prepare(slot: *mut Slot, events: u64) -> *mut Lane {
    // SAFETY: the slot is ours and a lane, once made, stays mapped.
    unsafe {
        let interrupted = u64::from(core::mem::take(&mut (*slot).interrupted));
        let Some(lane) = own_lane(slot).as_mut() else {
            if let Some(process) = process::ensure() {
                process.lose_without_window(events + interrupted);
            }
            return ptr::null_mut();
        };
        if interrupted != 0 {
            lane.writer.lose(interrupted);
        }
        if lane.writer.make_ready() {
            return lane;
        }
        lane.writer.lose(events);
        ptr::null_mut()
    }
}

/// The thread's lane, got now if it has none; null if there is none to be had.
///
/// # Safety
/// `slot` is the calling thread's.
unsafe fn own_lane(slot: *mut Slot) -> *mut Lane {
    // SAFETY: the slot is ours and a lane, once made, stays mapped.
    unsafe {
        if let Some(lane) = (*slot).lane.as_mut()
            && lane.owner.load(Relaxed) != 0
        {
            return lane;
        }
        (*slot).lane = ptr::null_mut();
        if let Some(process) = process::ensure()
            && !process.is_stopped()
            && !clock::is_gone()
        {
            let thread = sys::gettid();
            if thread == 0 {
                return ptr::null_mut();
            }
            if let Some(lane) = take_over(process, thread).or_else(|| Lane::create(process, thread)) {
                (*slot).lane = lane.as_ptr();
            }
        }
        (*slot).lane
    }
}

/// Looks at a few lanes, in turn, for one whose thread has ended.
fn take_over(process: &'static Process, thread: u32) -> Option<NonNull<Lane>> {
    const LOOKS: u32 = 8;
    let count = process.lane_count.load(Acquire).min(MAX_LANES as u32);
    for _ in 0..LOOKS.min(count) {
        let number = process.hand.fetch_add(1, Relaxed) % count;
        let Some(lane) = NonNull::new(process.lanes.get(number as usize)?.load(Acquire)) else { continue };
        // SAFETY: a published lane stays mapped; only its atomic owner is touched before it is ours.
        let owner = unsafe { &(*lane.as_ptr()).owner };
        let previous = owner.load(Acquire);
        if previous == KEPT {
            continue;
        }
        // Our own number on a lane that is not ours: the kernel gave us a dead thread's id.
        let gone = previous == thread || (previous != 0 && !sys::thread_exists(process.pid, previous));
        if gone && owner.compare_exchange(previous, thread, AcqRel, Relaxed).is_ok() {
            // SAFETY: the previous thread has ended and the exchange made the lane ours.
            let lane_ref = unsafe { &mut *lane.as_ptr() };
            lane_ref.writer.change_thread(thread);
            lane_ref.stacks.change_thread();
            return Some(lane);
        }
    }
    None
}

impl Lane {
    fn create(process: &'static Process, thread: u32) -> Option<NonNull<Lane>> {
        // Asked again with every event while there are too many: the count must not come round.
        if process.lane_count.load(Relaxed) as usize >= MAX_LANES {
            return None;
        }
        let number = process.lane_count.fetch_add(1, AcqRel);
        let place = process.lanes.get(number as usize)?;
        let window = process.map_window(number).ok()?;
        let size = size_of::<Lane>().next_multiple_of(4096);
        let memory = sys::map_anonymous(size).ok()?;
        sys::wipe_on_fork(memory, size).ok()?;
        let lane = memory.cast::<Lane>();
        // SAFETY: fresh zeroed memory of the lane's size that only we know. Zeroes are a valid `Stacks` (see there), so
        // it is not written: that would touch all of its pages.
        unsafe {
            let lane = lane.as_ptr();
            (*lane).writer.open(process, window, number, thread);
            (*lane).stacks.configure(process::config());
            (*lane).owner.store(thread, Release);
        }
        place.store(lane.as_ptr(), Release);
        Some(lane)
    }
}

/// The owner of a lane that is kept for one purpose and not for whoever comes next.
const KEPT: u32 = u32::MAX;

/// Makes `lane`, or a new one if it is null, the calling thread's until it ends, and nobody else's afterwards.
/// Returns it, to be handed on to the next thread with the same purpose; null if there is none to be had.
///
/// # Safety
/// `lane` is null or was returned by this function to a thread that does not use it any more.
pub(crate) unsafe fn keep(lane: *mut Lane) -> *mut Lane {
    let Some(process) = process::ensure() else { return ptr::null_mut() };
    let thread = sys::gettid();
    if thread == 0 {
        return ptr::null_mut();
    }
    let slot = slot::current();
    // SAFETY: the slot is the thread's own; the caller vouches for the lane, and a new one is ours.
    unsafe {
        match lane.as_mut() {
            Some(lane) => lane.writer.change_thread(thread),
            None => {
                let Some(lane) = Lane::create(process, thread) else { return ptr::null_mut() };
                (*lane.as_ptr()).owner.store(KEPT, Release);
                (*slot).lane = lane.as_ptr();
                return lane.as_ptr();
            }
        }
        (*slot).lane = lane;
    }
    lane
}

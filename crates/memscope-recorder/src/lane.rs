//! Lanes: the streams of a spool, each written by one thread at a time.
//!
//! A lane outlives its thread. A thread's end is not observed (its last frees come after every destructor we could
//! register); instead a new thread looks for a lane whose thread is gone and takes it over, with its window, its
//! stack memory and its numbers. So a program that starts a million threads has as many lanes as it had threads at once.
use crate::atb::LastPath;
use crate::aten::LaneOperators;
use crate::calls::OpenCalls;
use crate::clock;
use crate::config::{Config, Wanted};
use crate::control;
use crate::equipment::Equipment;
use crate::labels::LabelNames;
use crate::process::{self, Process};
use crate::slot::{self, Guard, Progress, Slot};
use crate::stacks::StackCapture;
use crate::step;
use crate::storage;
use crate::threads;
use crate::writer::Writer;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use memscope_format::encode::{Extended, NodeDeltas};
use memscope_format::layout::ClockKind;
use memscope_format::record::{HostAddr, HostCall, Protection, StackRef};
use memscope_sys as sys;

/// Where a hook was entered that holds the guard for `'g`: of the calling thread, and further out on its stack.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'g> {
    /// The stack pointer on entry: on x86-64 the return address is at it.
    pub(crate) stack_pointer: usize,
    /// The frame pointer register on entry, still the caller's.
    pub(crate) frame_pointer: usize,
    pub(crate) guard: PhantomData<&'g Guard<'g>>,
}

impl Entry<'_> {
    /// No stack pointer.
    pub(crate) const PYTHON_ONLY: usize = 1;

    /// Whether there is a place where the C stack begins.
    #[inline(always)]
    pub(crate) fn has_c_stack(self) -> bool {
        self.stack_pointer != Entry::PYTHON_ONLY
    }

    #[inline(always)]
    fn wants_stack(self) -> bool {
        self.stack_pointer != 0
    }
}

/// In memory that a forked child finds zeroed: owner 0 is "no lane". What each event touches comes first.
#[repr(C)]
pub(crate) struct Lane {
    pub(crate) writer: Writer,
    /// Null where neither stacks, paths nor names are asked for and no call was traced.
    tables: *mut Tables,
    /// Null until the lane's first label.
    pub(crate) labels: *mut LabelNames,
    wants_stacks: bool,
    owner: AtomicU32,
}

/// What a lane remembers of stacks, paths, names and calls, in memory of its own. Zeroes are empty tables.
#[repr(C)]
pub(crate) struct Tables {
    pub(crate) stacks: StackCapture,
    nodes: NodeDeltas,
    last_path: LastPath,
    operators: LaneOperators,
    pub(crate) calls: OpenCalls,
}

impl Tables {
    const BYTES: usize = size_of::<Tables>().next_multiple_of(4096);

    fn are_wanted(config: &Config) -> bool {
        config.c_depth > 0 || config.python_depth > 0 || config.wanted != Wanted::NOTHING
    }
}

/// An allocation returned `address`.
#[inline(always)]
pub fn host_alloc(guard: &Guard<'_>, address: usize, size: usize) {
    // SAFETY: the slot is the thread's own, and so is the lane at hand, while the guard is borrowed.
    match unsafe { at_hand(slot::current(), |lane| !lane.wants_stacks) } {
        Some((lane, ticks)) => {
            lane.writer.host_alloc(ticks, HostAddr(address as u64), size as u64, StackRef::NONE);
            lane.writer.set(Progress::IDLE);
        }
        None => host_alloc_in_full(address, size, guard.entry()),
    }
}

/// Out of the way, so that the short way needs no registers saved. The arguments are in the order of the C table, so that
/// they are where they have to be.
#[inline(never)]
fn host_alloc_in_full(address: usize, size: usize, entry: Entry<'_>) {
    record(entry, 1, |lane, ticks, stack| {
        lane.writer.host_alloc(ticks, HostAddr(address as u64), size as u64, stack);
    });
}

/// `address` is about to be freed. Its stack is not taken: who frees explains little, and would cost as much again.
#[inline(always)]
pub fn host_free(guard: &Guard<'_>, address: usize) {
    // SAFETY: the slot is the thread's own, and so is the lane at hand, while the guard is borrowed.
    match unsafe { at_hand(slot::current(), |_| true) } {
        Some((lane, ticks)) => {
            lane.writer.host_free(ticks, HostAddr(address as u64), StackRef::NONE, 0);
            lane.writer.set(Progress::IDLE);
        }
        None => host_free_in_full(address, guard.no_stack()),
    }
}

#[cold]
#[inline(never)]
fn host_free_in_full(address: usize, entry: Entry<'_>) {
    record(entry, 1, |lane, ticks, stack| {
        lane.writer.host_free(ticks, HostAddr(address as u64), stack, 0);
    });
}

/// The thread's lane, at work on one event, and the time, if it can be written without further ado and `suits` the lane.
///
/// # Safety
/// `slot` is the calling thread's and the guard is held; the reference ends before either changes.
#[inline(always)]
unsafe fn at_hand<'l>(slot: *mut Slot, suits: impl FnOnce(&Lane) -> bool) -> Option<(&'l mut Lane, u64)> {
    // SAFETY: the lane a slot names is owned by its thread and mapped for ever; the guard keeps a signal handler from
    // entering here a second time, so the reference is the only one.
    let lane = unsafe { (*slot).lane.as_mut() }?;
    // First: what is found at hand must not be used up by a signal handler.
    lane.writer.set(Progress::begin(1));
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
#[inline(always)]
pub fn host_moved(guard: &Guard<'_>, old: usize, new: usize, size: usize, began: u64) {
    let events = if new == 0 { 1 } else { 2 };
    record(guard.entry(), events, |lane, ticks, stack| {
        // The counter may have been set back since.
        lane.writer.host_free(began.min(ticks), HostAddr(old as u64), StackRef::NONE, events - 1);
        if new == 0 {
            return;
        }
        lane.writer.set(Progress::begin(1));
        if lane.writer.make_ready() {
            lane.writer.host_alloc(ticks, HostAddr(new as u64), size as u64, stack);
        } else {
            lane.writer.lose(1);
        }
    });
}

/// The time on this thread's lane. A thread that has none gets one here, because records cannot be older than their lane;
/// 0 if there is none to be had.
pub fn ticks_now(_: &Guard<'_>) -> u64 {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own; a lane stays mapped.
    unsafe {
        let mut lane = (*slot).lane;
        if lane.is_null() || !(*lane).is_made() {
            Slot::set(slot, Progress::BETWEEN_EVENTS);
            lane = own_lane(slot);
            Slot::set(slot, Progress::IDLE);
        }
        if lane.is_null() || !(*lane).writer.is_open() { 0 } else { clock::ticks((*lane).writer.clock) }
    }
}

/// The recorder was left by a jump in the middle of a call: of one that the lane knows of, or, at `before_lane`, of one that had not
/// got it yet.
///
/// # Safety
/// `slot` is the calling thread's, and nobody uses its lane.
pub(crate) unsafe fn recover(slot: *mut Slot, before_lane: Progress) {
    // SAFETY: the caller vouches for the slot and so for its lane.
    unsafe {
        match (*slot).lane.as_mut().filter(|lane| lane.is_made()) {
            Some(lane) if !lane.progress().is_idle() => lane.recover(),
            Some(_) => {}
            None => (*slot).lane = ptr::null_mut(),
        }
        lose((*slot).lane, before_lane.missing(0));
    }
}

/// What code that was interrupted at work may still look at: everything of a lane but its owner.
pub(crate) struct Interrupted {
    writer: MaybeUninit<Writer>,
    tables: *mut Tables,
    labels: *mut LabelNames,
    wants_stacks: bool,
}

/// A copy of the lane as it is; `None` if there is none.
///
/// # Safety
/// `lane` is the calling thread's, or null.
pub(crate) unsafe fn interrupted(lane: *const Lane) -> Option<Interrupted> {
    // SAFETY: the caller vouches for the lane. A writer that is at work may be anything in between: it is not looked at.
    unsafe {
        let lane = lane.as_ref()?;
        let mut writer = MaybeUninit::uninit();
        ptr::copy_nonoverlapping(&raw const lane.writer, writer.as_mut_ptr(), 1);
        Some(Interrupted { writer, tables: lane.tables, labels: lane.labels, wants_stacks: lane.wants_stacks })
    }
}

/// Puts it back, in a forked child, where zeroes are now. Tables are ordinary memory, of which the child has a copy.
///
/// # Safety
/// It was copied from this lane of the calling thread.
pub(crate) unsafe fn put_back(lane: *mut Lane, interrupted: &Interrupted) {
    // SAFETY: the caller vouches for both; the lane has no owner, so it is never taken for one.
    unsafe {
        ptr::copy_nonoverlapping(interrupted.writer.as_ptr(), ptr::addr_of_mut!((*lane).writer), 1);
        (*lane).tables = interrupted.tables;
        (*lane).labels = interrupted.labels;
        (*lane).wants_stacks = interrupted.wants_stacks;
        (*lane).writer.pretend();
    }
}

/// Gives the calling thread's lane the largest window there is: it may be its last.
pub(crate) fn widen_own(_: &Guard<'_>) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane it names, while the guard is borrowed.
    unsafe {
        if let Some(lane) = (*slot).lane.as_mut()
            && lane.is_made()
        {
            lane.writer.set(Progress::BETWEEN_EVENTS);
            lane.writer.widen();
            lane.writer.set(Progress::IDLE);
        }
    }
}

/// The calling thread records nothing any more; what it would have is counted as lost.
pub(crate) fn close_own() {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane it names; a forked child's is zeroed.
    unsafe {
        if let Some(lane) = (*slot).lane.as_mut()
            && lane.is_made()
        {
            lane.writer.close();
        }
    }
}

/// Counts events that are lost, by the lane or, if it has none, by the process. Safe on top of whatever was interrupted.
///
/// # Safety
/// `lane` is the calling thread's, or null.
pub(crate) unsafe fn lose(lane: *mut Lane, events: u64) {
    // SAFETY: the caller vouches for the lane; an owned one has a window.
    match unsafe { lane.as_ref() }.filter(|lane| lane.is_made()) {
        Some(lane) => lane.writer.lose(events),
        None => process::lose(events),
    }
}

/// Fresh anonymous memory was mapped.
pub fn host_map(guard: &Guard<'_>, address: usize, size: usize, protection: Protection) {
    record(guard.entry(), 1, |lane, ticks, stack| {
        let record = Extended::HostMap { address: HostAddr(address as u64), size: size as u64, protection, stack };
        lane.writer.extended_event(ticks, &record);
    });
}

/// The protection of a range was changed.
pub fn host_protect(guard: &Guard<'_>, address: usize, size: usize, protection: Protection) {
    record(guard.entry(), 1, |lane, ticks, stack| {
        let record = Extended::HostProtect { address: HostAddr(address as u64), size: size as u64, protection, stack };
        lane.writer.extended_event(ticks, &record);
    });
}

/// Host memory was asked for and not to be had. `flag` as in the record. What torch asks for a storage is told by its own answer.
#[cold]
pub fn host_refused(guard: &Guard<'_>, call: HostCall, size: usize, flag: u64) {
    if storage::is_in_request(guard.entry().stack_pointer) {
        return;
    }
    record(guard.entry(), 1, |lane, ticks, stack| {
        lane.writer.extended_event(ticks, &Extended::HostRefused { call, size: size as u64, flag, stack });
    });
}

/// A range was unmapped, or mapped over, at some moment after `began` ([`ticks_now`]): told afterwards, because the kernel may
/// refuse to, and stamped with the earlier time, as a mapping that moved is.
pub fn host_unmap(guard: &Guard<'_>, address: usize, size: usize, began: u64) {
    record(guard.no_stack(), 1, |lane, ticks, stack| {
        let record = Extended::HostUnmap { address: HostAddr(address as u64), size: size as u64, stack };
        lane.writer.extended_event(began.min(ticks), &record);
    });
}

/// A mapping was moved or resized at some moment after `began` ([`ticks_now`]).
pub fn host_remapped(guard: &Guard<'_>, old: (usize, usize), new: (usize, usize), began: u64) {
    record(guard.entry(), 1, |lane, ticks, stack| {
        let (old, old_size) = (HostAddr(old.0 as u64), old.1 as u64);
        let (new, new_size) = (HostAddr(new.0 as u64), new.1 as u64);
        let record = Extended::HostRemap { old, old_size, new, new_size, stack };
        // Stamped with the earlier time: afterwards another thread may have been given the old range.
        lane.writer.extended_event(began.min(ticks), &record);
    });
}

/// An event that needs nothing but its record, and no stack.
pub fn event(guard: &Guard<'_>, event: &Extended<'_>) {
    record(guard.no_stack(), 1, |lane, ticks, _| lane.writer.extended_event(ticks, event));
}

/// The same with the stack of the hook that was called.
pub fn event_with_stack<'a>(guard: &Guard<'_>, event: impl FnOnce(StackRef) -> Extended<'a>) {
    record(guard.entry(), 1, |lane, ticks, stack| lane.writer.extended_event(ticks, &event(stack)));
}

/// The calling thread has entered a hook whose original may cause events: [`event_around`] will follow, with a stack that begins
/// where theirs have it.
#[inline(always)]
pub(crate) fn expect_inner() {
    // SAFETY: the slot is the thread's own, and so is the lane it names; a forked child's is zeroed.
    unsafe {
        if let Some(lane) = (*slot::current()).lane.as_mut()
            && let Some(stacks) = lane.stacks()
        {
            stacks.expect_inner();
        }
    }
}

/// [`event_with_stack`] after the original of a hook that began with [`expect_inner`]. What comes so often is encoded where it is
/// written.
pub(crate) fn event_around<'a>(guard: &Guard<'_>, event: impl FnOnce(StackRef) -> Extended<'a>) {
    let capture = |stacks: &mut StackCapture, entry: Entry<'_>, writer: &mut Writer| {
        // SAFETY: the lane is the calling thread's.
        unsafe { stacks.capture_around(entry, writer) }
    };
    record_with(guard.entry(), 1, capture, |lane, ticks, stack| lane.writer.frequent_event(ticks, &event(stack)));
}

/// The frame of every event: find the lane, take the time and the stack, let `write` encode `events` records. `write` has
/// the lane, and records nothing by another way.
#[inline(always)]
pub(crate) fn record(entry: Entry<'_>, events: u64, write: impl FnOnce(&mut Lane, u64, StackRef)) {
    // SAFETY: the lane is the calling thread's.
    record_with(entry, events, |stacks, entry, writer| unsafe { stacks.capture(entry, writer) }, write);
}

/// The same with a stack that is had by `capture`.
#[inline(always)]
fn record_with(
    entry: Entry<'_>,
    events: u64,
    capture: impl FnOnce(&mut StackCapture, Entry<'_>, &mut Writer) -> StackRef,
    write: impl FnOnce(&mut Lane, u64, StackRef),
) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own. The lane it names is owned by this thread and mapped for ever; the guard of
    // the entry keeps a signal handler from entering here a second time, so the reference is the only one.
    unsafe {
        let mut lane = (*slot).lane;
        if let Some(lane) = lane.as_mut() {
            lane.writer.set(Progress::begin(events));
        }
        if lane.is_null() || !(*lane).writer.is_ready() {
            lane = prepare(slot, events);
        }
        if let Some(lane) = lane.as_mut() {
            let ticks = clock::ticks(lane.writer.clock);
            if lane.writer.is_calibration_due(ticks) {
                lane.writer.calibrate(ticks);
            }
            match lane.stack(entry, capture) {
                Some(stack) => write(lane, ticks, stack),
                None => lane.writer.lose(events),
            }
            lane.writer.set(Progress::IDLE);
        }
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
        Slot::set(slot, Progress::begin(events));
        let Some(lane) = own_lane(slot).as_mut() else {
            process::lose(events);
            Slot::set(slot, Progress::IDLE);
            return ptr::null_mut();
        };
        // The lane says it from here on, and there is no moment at which neither does.
        lane.writer.set(Progress::begin(events));
        Slot::set(slot, Progress::IDLE);
        if lane.writer.make_ready() {
            return lane;
        }
        lane.writer.lose(events);
        lane.writer.set(Progress::IDLE);
    }
    ptr::null_mut()
}

/// The thread's lane, got now if it has none; null if there is none to be had.
///
/// # Safety
/// `slot` is the calling thread's.
unsafe fn own_lane(slot: *mut Slot) -> *mut Lane {
    // SAFETY: the slot is ours and a lane, once made, stays mapped.
    unsafe {
        if let Some(lane) = (*slot).lane.as_mut()
            && lane.is_made()
        {
            return lane;
        }
        (*slot).lane = ptr::null_mut();
        if let Some(process) = process::ensure()
            && !process.is_stopped()
            && !clock::is_gone()
            && process.is_at_home()
        {
            let thread = threads::current();
            if thread == 0 {
                return ptr::null_mut();
            }
            let home = process.home();
            if !take_over(slot, process, thread) {
                create(slot, process, thread);
            }
            step::fence();
            // Forked by a handler in the middle of this: what was got here is the parent's.
            if process.home() != home {
                return own_lane(slot);
            }
        }
        (*slot).lane
    }
}

/// Looks at a few lanes, in turn, for one whose thread has ended, and makes it the calling thread's.
///
/// # Safety
/// `slot` is the calling thread's.
unsafe fn take_over(slot: *mut Slot, process: &'static Process, thread: u32) -> bool {
    const LOOKS: u32 = 8;
    let count = process.lane_count.load(Acquire);
    for _ in 0..LOOKS.min(count) {
        let Some(lane) = process.lanes.get(process.hand.fetch_add(1, Relaxed) % count) else { continue };
        // SAFETY: lanes stay mapped; only the atomic owner, 0 while it is made, is touched before it is ours.
        let owner = unsafe { &(*lane.as_ptr()).owner };
        let previous = owner.load(Acquire);
        if matches!(previous, KEPT | UNFINISHED) {
            continue;
        }
        // Our own number on a lane that is not ours: the kernel gave us a dead thread's id.
        let gone = previous == thread || (previous != 0 && !process.has_thread(previous));
        if gone && owner.compare_exchange(previous, thread, AcqRel, Relaxed).is_ok() {
            step::point();
            // SAFETY: the slot is ours; the previous thread has ended and the exchange made the lane ours. The slot names it first:
            // a child that is forked in the middle of this has to know of it.
            unsafe {
                let lane = &mut *lane.as_ptr();
                let is_whole = lane.begin_change();
                (*slot).lane = lane;
                step::fence();
                lane.inherit(thread, is_whole);
            }
            return true;
        }
    }
    false
}

/// Makes a new lane and names it in the slot, if it can be had. Nothing is kept of what was had before something could not be: near
/// its limits the program needs it itself.
///
/// # Safety
/// `slot` is the calling thread's.
unsafe fn create(slot: *mut Slot, process: &'static Process, thread: u32) -> bool {
    if !process.may_try_lane() {
        return false;
    }
    // SAFETY: passed on.
    let made = unsafe { try_create(slot, process, thread) };
    process.tried_lane(made);
    made
}

/// # Safety
/// As for [`create`].
unsafe fn try_create(slot: *mut Slot, process: &'static Process, thread: u32) -> bool {
    let config = process::config();
    let home = process.home();
    // In a child that a handler forks in the middle of this: the window is not there, and the place may be of a lane of the child's own.
    let is_forked = || process.home() != home;
    let table_bytes = if Tables::are_wanted(config) { Tables::BYTES } else { 0 };
    let Some(Equipment { window, tables }) = process.take_equipment(table_bytes) else { return false };
    if is_forked() {
        return false;
    }
    let tables = tables.cast::<Tables>();
    step::point();
    let number = process.lane_count.fetch_add(1, AcqRel);
    let Some(place) = process.lanes.make(number) else {
        // Asked again with every event while there are too many: the count must not come round.
        process.lane_count.fetch_sub(1, AcqRel);
        process.give_back_equipment(Equipment { window, tables: tables.cast() }, table_bytes);
        return false;
    };
    // SAFETY: the slot is ours; zeroed memory that nobody uses before it has an owner. Zeroes are valid tables (see there), so they are
    // not written: that would touch all of their pages.
    unsafe {
        let lane = place.as_ptr();
        step::point();
        (*slot).lane = lane;
        step::fence();
        if is_forked() {
            (*slot).lane = ptr::null_mut();
            return false;
        }
        // A child that is forked from here on knows of the lane by the slot.
        (*lane).owner.store(UNFINISHED, Relaxed);
        let nodes = if tables.is_null() { ptr::null_mut() } else { ptr::addr_of_mut!((*tables).nodes) };
        (*lane).writer.open(process, window, number, thread, nodes);
        (*lane).tables = tables;
        (*lane).wants_stacks = config.c_depth > 0 || config.python_depth > 0;
        if let Some(stacks) = (*lane).stacks() {
            stacks.configure(config);
        }
        step::point();
        (*lane).owner.store(thread, Release);
        step::fence();
        if is_forked() {
            (*lane).owner.store(0, Relaxed);
            (*slot).lane = ptr::null_mut();
            return false;
        }
    }
    true
}

impl Lane {
    /// Whether it is one at all: in a forked child it is not, nor where a jump has left the making of it.
    fn is_made(&self) -> bool {
        !matches!(self.owner.load(Relaxed), 0 | UNFINISHED)
    }

    pub(crate) fn progress(&self) -> Progress {
        self.writer.progress()
    }

    #[cfg(all(test, feature = "model"))]
    pub(crate) fn release_window(&mut self) {
        self.writer.release_window();
    }

    /// From here on whoever finds the lane, after a jump or the end of its thread, has to mend it. Whether it is whole now.
    fn begin_change(&mut self) -> bool {
        let is_whole = self.progress().is_idle();
        if is_whole {
            self.writer.set(Progress::BETWEEN_EVENTS);
        }
        is_whole
    }

    /// Makes the lane the calling thread's, whose last owner has ended, perhaps in the middle of an event.
    fn inherit(&mut self, thread: u32, is_whole: bool) {
        if !is_whole {
            self.mend();
        }
        self.change_thread(thread);
        self.writer.set(Progress::IDLE);
    }

    /// After a jump out of the recorder.
    fn recover(&mut self) {
        self.mend();
        // It may have been on the way to its new owner.
        let thread = threads::current();
        if thread != 0 && thread != self.writer.thread() {
            self.change_thread(thread);
        }
        self.writer.set(Progress::IDLE);
    }

    /// Drops the half-made record of a call that was left, and counts what is missing of it; everything that later records would refer to
    /// begins anew. The lane stays in change: who leaves this has it done again.
    fn mend(&mut self) {
        let missing = self.progress().missing(self.writer.published());
        step::point();
        if missing > 0 {
            self.writer.lose(missing);
        }
        // Only now: who ends before it counts an event too many as lost, and not one too few.
        self.writer.set(Progress::BETWEEN_EVENTS);
        self.writer.recover();
        step::point();
        // SAFETY: null, or the lane's own tables.
        if let Some(tables) = unsafe { self.tables.as_mut() } {
            tables.stacks.forget();
            tables.calls.forget();
        }
    }

    fn change_thread(&mut self, thread: u32) {
        self.writer.change_thread(thread);
        // SAFETY: null, or the lane's own tables.
        if let Some(tables) = unsafe { self.tables.as_mut() } {
            tables.stacks.change_thread();
            tables.calls.forget();
        }
    }

    fn stacks(&mut self) -> Option<&mut StackCapture> {
        // SAFETY: null, or the lane's own tables.
        unsafe { self.tables.as_mut() }.map(|tables| &mut tables.stacks)
    }

    /// The lane's tables, got now if it has none: what is traced may be asked for late. `None` if there is no memory.
    #[inline(always)]
    pub(crate) fn own_tables(&mut self) -> Option<NonNull<Tables>> {
        NonNull::new(self.tables).or_else(|| self.get_tables())
    }

    #[cold]
    fn get_tables(&mut self) -> Option<NonNull<Tables>> {
        let tables = sys::map_own(Tables::BYTES).ok()?.cast::<Tables>();
        self.tables = tables.as_ptr();
        Some(tables)
    }

    /// The path in the newest record of the lane that has one.
    pub(crate) fn last_path(&mut self) -> Option<&mut LastPath> {
        // SAFETY: null, or the lane's own tables.
        unsafe { self.tables.as_mut() }.map(|tables| &mut tables.last_path)
    }

    /// What the lane remembers of operators.
    #[inline(always)]
    pub(crate) fn operators(&mut self) -> Option<&mut LaneOperators> {
        // SAFETY: null, or the lane's own tables.
        unsafe { self.tables.as_mut() }.map(|tables| &mut tables.operators)
    }

    /// The stack of an event, everything defined that is new in it; `None` if the event cannot be written behind it.
    ///
    /// # Safety
    /// The lane is the calling thread's.
    #[inline(always)]
    unsafe fn stack(
        &mut self,
        entry: Entry<'_>,
        capture: impl FnOnce(&mut StackCapture, Entry<'_>, &mut Writer) -> StackRef,
    ) -> Option<StackRef> {
        if !(self.wants_stacks && entry.wants_stack() && control::is_tracing()) {
            // A calibration may have ended the window, or all of them.
            return self.writer.make_ready().then_some(StackRef::NONE);
        }
        // SAFETY: a lane that wants stacks has tables of its own.
        let stacks = unsafe { &mut (*self.tables).stacks };
        let stack = capture(stacks, entry, &mut self.writer);
        // New definitions may have filled the window.
        let ready = self.writer.make_ready();
        if self.writer.has_dropped() {
            stacks.forget();
            return None;
        }
        ready.then_some(stack)
    }
}

/// The owner of a lane that is kept for one purpose and not for whoever comes next.
const KEPT: u32 = u32::MAX;
/// That of one that is being made. If its thread ends meanwhile it stays so.
const UNFINISHED: u32 = u32::MAX - 1;

/// Makes `lane`, or a new one if it is null, the calling thread's until it ends, and nobody else's afterwards.
/// Returns it, to be handed on to the next thread with the same purpose; null if there is none to be had.
///
/// # Safety
/// `lane` is null or was returned by this function to a thread that does not use it any more.
pub(crate) unsafe fn keep(lane: *mut Lane) -> *mut Lane {
    let Some(process) = process::ensure() else { return ptr::null_mut() };
    let thread = threads::current();
    if thread == 0 {
        return ptr::null_mut();
    }
    let slot = slot::current();
    // SAFETY: the slot is the thread's own; the caller vouches for the lane, and a new one is ours.
    unsafe {
        match lane.as_mut() {
            Some(lane) => {
                let is_whole = lane.begin_change();
                lane.inherit(thread, is_whole);
            }
            None => {
                if create(slot, process, thread) {
                    (*(*slot).lane).owner.store(KEPT, Release);
                }
                return (*slot).lane;
            }
        }
        (*slot).lane = lane;
    }
    lane
}

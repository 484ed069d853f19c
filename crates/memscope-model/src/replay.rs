//! Merging the lanes of a spool by time.
mod atb;
mod kernels;

use self::kernels::{LogTotals, LogTurn};
use crate::books::{Books, Moment};
use crate::device_books::Allocation;
use crate::device_numbers::DeviceNumbers;
use crate::kernel_books::{KernelBooks, TaskId};
use crate::lane::Lane;
use crate::launches::OpenOperators;
use crate::notes::{OpenRanges, ThreadDevices};
use crate::selection::Gate;
use crate::settings::Settings;
use crate::task_log::{TaskLog, is_of_task_log};
use crate::{
    BlockId, Device, MemoryEvent, ModelError, NoteEvent, NoteKind, OutOfMemory, Outcome, Pool, RefusedCall, Selection,
    Stacks, TraceEvent,
};
use memscope_format::decode::{Event, EventKind, LaneCursor, Spool, SpoolError, StackRef, Timeline};
use memscope_format::layout::StopReason;
use memscope_format::record::{Space, SystemKind, UNKNOWN_DEVICE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::ControlFlow;

/// Who is given the events.
type Visit<'v> = &'v mut dyn FnMut(TraceEvent<'_>, &Stacks) -> ControlFlow<()>;

/// One pass over a spool.
pub(crate) struct Replay<'p> {
    spool: &'p Spool,
    stacks: &'p mut Stacks,
    timeline: Timeline,
    books: Books,
    delivery: Delivery,
    device_numbers: DeviceNumbers,
    thread_devices: ThreadDevices,
    ranges: OpenRanges,
    kernels: KernelBooks,
    log_totals: LogTotals,
    operators: OpenOperators,
    problems: Vec<String>,
    out_of_memory: Vec<OutOfMemory>,
    refusals: u64,
    recorded: u64,
    events_without_stack: u64,
    interrupted: bool,
    /// How many more lanes may be searched for missing events; made-up recordings must not take for ever.
    searches: u32,
}

/// Hands events to the visitor: those of the devices asked for, with a word on whether their time was.
struct Delivery {
    gate: Gate,
    events: u64,
    chosen_events: u64,
    notes: u64,
    /// Times of the first and the last event handed over.
    first_time_ns: u64,
    last_time_ns: u64,
}

impl Delivery {
    #[inline]
    fn memory(&mut self, event: &mut MemoryEvent, stacks: &Stacks, visit: Visit<'_>) -> ControlFlow<()> {
        if !self.gate.devices.contains(event.device) {
            return ControlFlow::Continue(());
        }
        event.selection = self.gate.select(event);
        self.events += 1;
        self.chosen_events += u64::from(event.selection != Selection::NotChosen);
        self.see(event.time_ns);
        visit(TraceEvent::Memory(event), stacks)
    }

    #[inline]
    fn see(&mut self, time_ns: u64) {
        if self.events + self.notes == 1 {
            self.first_time_ns = time_ns;
        }
        self.last_time_ns = time_ns;
    }
}

/// A lane and the event it comes to next.
struct Pending {
    lane: Lane,
    event: Event,
    /// The event contradicts the books, or a name is missing, and what could be done about it was.
    settled: bool,
}

/// What stands in a lane before its first event is read; never booked.
const NO_EVENT: Event = Event { ticks: 0, thread: 0, stack: StackRef::NONE, kind: EventKind::HostFree { address: 0 } };

impl<'p> Replay<'p> {
    pub(crate) fn new(spool: &'p Spool, settings: &Settings, stacks: &'p mut Stacks) -> Result<Replay<'p>, ModelError> {
        let gate = Gate::new(settings, spool)?;
        Ok(Replay {
            timeline: spool.timeline(),
            spool,
            stacks,
            books: Books::new(),
            delivery: Delivery { gate, events: 0, chosen_events: 0, notes: 0, first_time_ns: 0, last_time_ns: 0 },
            device_numbers: DeviceNumbers::default(),
            thread_devices: ThreadDevices::default(),
            ranges: OpenRanges::default(),
            kernels: KernelBooks::default(),
            log_totals: LogTotals::default(),
            operators: OpenOperators::default(),
            problems: Vec::new(),
            out_of_memory: Vec::new(),
            refusals: 0,
            recorded: 0,
            events_without_stack: 0,
            interrupted: false,
            searches: 1 << 22,
        })
    }

    pub(crate) fn run(mut self, visit: Visit<'_>, progress: &mut dyn FnMut(f64)) -> Result<Outcome, ModelError> {
        let mut outcome = Outcome::default();
        outcome.damage.extend(self.spool.damage().iter().map(ToString::to_string));
        let mut progress = Progress { whole: self.spool.recorded_bytes().max(1), done: 0, report: progress };
        let mut lanes = Vec::new();
        let mut logs = Vec::new();
        let mut order = BinaryHeap::new();
        for number in self.spool.lanes() {
            let mut pending = Pending { lane: Lane::new(number), event: NO_EVENT, settled: false };
            if !self.advance(&mut pending)? {
                finish(pending.lane.cursor(), &mut outcome);
            } else if is_of_task_log(pending.event.kind) {
                let log = TaskLog::open(self.spool, number, &self.timeline)?;
                log.devices_without_streams().for_each(|device| self.kernels.see_without_streams(device));
                logs.push(log);
            } else {
                order.push(Reverse((pending.event.ticks, lanes.len())));
                lanes.push(Some(pending));
            }
        }
        // Numbered after the lanes, so that a launch comes before an execution of the same tick.
        for (index, log) in (lanes.len()..).zip(&mut logs) {
            if let Some(ticks) = log.next_ticks(self.spool, &self.timeline)? {
                order.push(Reverse((ticks, index)));
            }
        }
        // Two lanes with events of the same tick take turns by number: which came first cannot be told any more.
        while let Some(Reverse((ticks, index))) = order.pop() {
            if let Some(log) = index.checked_sub(lanes.len()).and_then(|number| logs.get_mut(number)) {
                let limit = order.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
                match self.run_log(log, index, limit, visit, &mut progress)? {
                    LogTurn::Over(ticks) => order.push(Reverse((ticks, index))),
                    LogTurn::Finished => {}
                    LogTurn::Interrupted => {
                        self.interrupted = true;
                        break;
                    }
                }
                continue;
            }
            let Some(pending) = lanes[index].as_mut() else { continue };
            if pending.event.ticks != ticks {
                // The event that was due was taken out of turn.
                order.push(Reverse((pending.event.ticks, index)));
                continue;
            }
            let limit = order.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
            let turn = self.run_lane(pending, index, limit, visit, &mut progress)?;
            progress.done += pending.lane.take_bytes();
            match turn {
                Turn::Over => order.push(Reverse((pending.event.ticks, index))),
                Turn::Contradiction => {
                    pending.settled = true;
                    let event = pending.event;
                    order.push(Reverse((event.ticks, index)));
                    if self.settle(event, index, &mut lanes, visit, &mut outcome)?.is_break() {
                        self.interrupted = true;
                        break;
                    }
                }
                Turn::NameMissing { until } => {
                    pending.settled = true;
                    order.push(Reverse((pending.event.ticks, index)));
                    self.search_names(&mut lanes, until)?;
                }
                // Dropping the lane gives its block back: a program may have had thousands of threads.
                Turn::Finished => {
                    finish(pending.lane.cursor(), &mut outcome);
                    lanes[index] = None;
                }
                Turn::Interrupted => {
                    self.interrupted = true;
                    break;
                }
            }
        }
        for pending in lanes.iter().flatten() {
            finish(pending.lane.cursor(), &mut outcome);
        }
        for log in &logs {
            finish(log.cursor(), &mut outcome);
            self.log_totals.add(log);
        }
        if !self.interrupted {
            (progress.report)(1.0);
        }
        Ok(self.conclude(outcome))
    }

    /// Visits the lane's events while they come before `limit`, the next event of any other lane.
    fn run_lane(
        &mut self,
        pending: &mut Pending,
        index: usize,
        limit: (u64, usize),
        visit: Visit<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Turn, ModelError> {
        const EVENTS_A_REPORT: u64 = 1 << 16;
        loop {
            let Event { ticks, thread, stack, kind } = pending.event;
            if !pending.settled && limit.0 != u64::MAX && self.books.contradiction(kind).is_some() {
                return Ok(Turn::Contradiction);
            }
            if kind == EventKind::Launch
                && !pending.settled
                && let Some(until) = self.missing_name(pending)?
            {
                return Ok(Turn::NameMissing { until });
            }
            pending.settled = false;
            let stack = pending.lane.stack(stack, self.stacks).unwrap_or_else(|rest| {
                self.events_without_stack += 1;
                rest
            });
            let now = Moment { time_ns: self.timeline.epoch_ns(ticks), thread, stack };
            let more = if is_of_host(kind) {
                let Replay { books, delivery, stacks, .. } = self;
                let stacks = &**stacks;
                if books.enter(now, kind, &mut |event| delivery.memory(event, stacks, &mut *visit)).is_break() {
                    return Ok(Turn::Interrupted);
                }
                self.advance(pending)?
            } else {
                match self.enter_in_order(now, kind, pending, visit)? {
                    ControlFlow::Continue(more) => more,
                    ControlFlow::Break(()) => return Ok(Turn::Interrupted),
                }
            };
            self.recorded += 1;
            if self.recorded.is_multiple_of(EVENTS_A_REPORT) {
                progress.done += pending.lane.take_bytes();
                progress.tell();
            }
            if !more {
                return Ok(Turn::Finished);
            }
            if (pending.event.ticks, index) > limit {
                return Ok(Turn::Over);
            }
        }
    }

    /// Looks for the event whose absence makes `event` impossible, among those of other lanes that are a little later,
    /// and books it first.
    ///
    /// Two threads that hand an address over may be dated in the wrong order: the processor reads its counter early while
    /// it waits for the other's memory.
    #[cold]
    fn settle(
        &mut self,
        event: Event,
        index: usize,
        lanes: &mut [Option<Pending>],
        visit: Visit<'_>,
        outcome: &mut Outcome,
    ) -> Result<ControlFlow<()>, ModelError> {
        let Some((address, frees)) = self.books.contradiction(event.kind) else {
            return Ok(ControlFlow::Continue(()));
        };
        let time_ns = self.timeline.epoch_ns(event.ticks);
        // A free that another thread's, dated too early, has anticipated: then this lane's own next allocation of the
        // address is the block it freed.
        let anticipated =
            !frees && self.books.was_freed_by_another(address, event.thread, time_ns.saturating_sub(SOON_NS));
        for (other, place) in lanes.iter_mut().enumerate() {
            let Some(pending) = place.as_mut().filter(|_| other != index || anticipated) else { continue };
            let Some(left) = self.searches.checked_sub(1) else { break };
            self.searches = left;
            let Some((missing, was_next)) = self.take_missing(pending, address, frees, time_ns)? else { continue };
            // Threads that hand over all the time are no reason to give up.
            self.searches = self.searches.saturating_add(other as u32 + 1);
            let stack = pending.lane.stack(missing.stack, self.stacks).unwrap_or_else(|rest| rest);
            let now = Moment { time_ns, thread: missing.thread, stack };
            if was_next && !self.advance(pending)? {
                finish(pending.lane.cursor(), outcome);
                *place = None;
            }
            self.recorded += 1;
            let Replay { books, delivery, stacks, .. } = self;
            let stacks = &**stacks;
            return Ok(books.enter(now, missing.kind, &mut |event| delivery.memory(event, stacks, &mut *visit)));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first event of the lane about `address`, if it is the kind that is missing and comes soon after `time_ns`, and
    /// whether it is the one at hand; one further ahead is taken out of the lane.
    fn take_missing(
        &mut self,
        pending: &mut Pending,
        address: u64,
        frees: bool,
        time_ns: u64,
    ) -> Result<Option<(Event, bool)>, SpoolError> {
        const MOST_EVENTS: usize = 4096;
        let mut event = pending.event;
        for index in 0..MOST_EVENTS {
            if !is_of_host(event.kind) || self.timeline.epoch_ns(event.ticks) > time_ns.saturating_add(SOON_NS) {
                break;
            }
            let is_free = match event.kind {
                EventKind::HostAlloc { address: of, .. } if of == address => Some(false),
                EventKind::HostFree { address: of } if of == address => Some(true),
                _ => None,
            };
            if is_free == Some(frees) {
                let ahead = index.checked_sub(1);
                if let Some(ahead) = ahead {
                    pending.lane.take(ahead);
                }
                return Ok(Some((event, ahead.is_none())));
            }
            // In the lane of the contradiction the first such event is the contradiction itself.
            if is_free.is_some() && !(index == 0 && pending.settled) {
                break;
            }
            match pending.lane.peek(index, self.spool, self.stacks)? {
                Some(next) => event = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// Goes on to the lane's next event; tells whether there is one.
    #[inline(always)]
    fn advance(&mut self, pending: &mut Pending) -> Result<bool, SpoolError> {
        let more = pending.lane.advance(self.spool, self.stacks, &mut pending.event)?;
        if pending.lane.has_news() {
            self.see_news(&mut pending.lane);
        }
        Ok(more)
    }

    /// Takes in what a lane told that matters to all.
    #[cold]
    fn see_news(&mut self, lane: &mut Lane) {
        let news = lane.take_news();
        if let Some(list) = news.visible_devices {
            self.problems.extend(self.device_numbers.see(&list).err());
        }
        for (hash, name) in news.kernel_names {
            self.kernels.define_name(hash, name);
        }
    }

    /// Books an event that is not about host memory and goes on to the lane's next; some have to wait for that.
    #[cold]
    #[inline(never)]
    fn enter_in_order(
        &mut self,
        now: Moment,
        kind: EventKind,
        pending: &mut Pending,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<(), bool>, SpoolError> {
        if kind == EventKind::Launch {
            return Ok(match self.enter_launch(now, pending, visit)? {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        if !waits_for_total(kind) {
            return Ok(match self.enter_rare(now, kind, &pending.lane, visit) {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        // MindSpore tells what its pool has reserved just after the block that changed it.
        let more = self.advance(pending)?;
        if more && let EventKind::PoolTotal { space: Space::MindSpore, device, total } = pending.event.kind {
            let device = self.device_numbers.device(Space::MindSpore, device);
            self.books.devices.reserve(Space::MindSpore, device, total, &mut self.books.counts);
        }
        Ok(self.enter_rare(now, kind, &pending.lane, visit).map_continue(|()| more))
    }

    /// Everything that is not about host memory.
    fn enter_rare(&mut self, now: Moment, kind: EventKind, lane: &Lane, visit: Visit<'_>) -> ControlFlow<()> {
        let Replay { books, delivery, stacks, device_numbers, .. } = self;
        let stacks = &**stacks;
        match kind {
            EventKind::DeviceAlloc { space, device, address, size, attributes } => {
                let device = device_numbers.device(space, device);
                let allocation = Allocation { space, device, address, size, attributes };
                let mut emit = |event: &mut MemoryEvent| delivery.memory(event, stacks, &mut *visit);
                books.devices.alloc(now, allocation, &mut books.counts, &mut emit)
            }
            EventKind::DeviceFree { space, address } => {
                let mut emit = |event: &mut MemoryEvent| delivery.memory(event, stacks, &mut *visit);
                books.devices.free(now, space, address, &mut books.counts, &mut emit)
            }
            EventKind::PoolTotal { space, device, total } => {
                let device = device_numbers.device(space, device);
                books.devices.reserve(space, device, total, &mut books.counts);
                ControlFlow::Continue(())
            }
            EventKind::OutOfMemory { space, device, size, flag } => {
                let device = device_numbers.device(space, device);
                self.refuse(now, RefusedCall::of(space, device), device, (size, flag), visit)
            }
            EventKind::System { kind, value } => self.enter_system(now, kind, value, visit),
            EventKind::Snapshot { device, .. } => {
                let device = match device {
                    UNKNOWN_DEVICE => self.thread_devices.of(now.thread),
                    number => device_numbers.seen_by_program(number),
                };
                self.snapshot(now, device, lane.text(), visit)
            }
            EventKind::Mark { .. } => self.mark(now, NoteKind::Mark(lane.text()), visit),
            EventKind::RangeStart { id, .. } => {
                let text = lane.text();
                self.ranges.start(id, text);
                // A step's own start and end are within it.
                self.delivery.gate.range_start(id, text);
                self.mark(now, NoteKind::RangeStart { id, text }, visit)
            }
            EventKind::RangeEnd { id } => {
                let text = self.ranges.end(id);
                let flow = self.mark(now, NoteKind::RangeEnd { id, text: text.as_deref() }, visit);
                self.delivery.gate.range_end(id);
                flow
            }
            EventKind::HostAlloc { .. }
            | EventKind::HostFree { .. }
            | EventKind::HostMap { .. }
            | EventKind::HostProtect { .. }
            | EventKind::HostUnmap { .. }
            | EventKind::HostRemap { .. } => ControlFlow::Continue(()),
            EventKind::Task { device, stream, task, name } => {
                self.enter_task(now, TaskId::reported(device, stream, task), name, visit)
            }
            EventKind::StreamExpansion { status } => {
                self.kernels.set_expanded(status);
                ControlFlow::Continue(())
            }
            // Task logs have lanes of their own; launches were booked before.
            EventKind::DeviceClock { .. } | EventKind::Execution { .. } | EventKind::Launch => {
                self.books.counts.implausible()
            }
            EventKind::Heap { space, device, address, size } => {
                let device = device_numbers.device(space, device);
                books.devices.heap(space, device, address, size, &mut books.counts);
                ControlFlow::Continue(())
            }
            EventKind::HeapEnd { space, address } => {
                let mut emit = |event: &mut MemoryEvent| delivery.memory(event, stacks, &mut *visit);
                books.devices.heap_end(now, space, address, &mut books.counts, &mut emit)
            }
            EventKind::AtbOperatorStart { .. }
            | EventKind::AtbOperatorEnd { .. }
            | EventKind::AtbKernel { .. }
            | EventKind::Access { .. } => self.enter_atb(now, kind, lane, visit),
        }
    }

    fn enter_system(&mut self, now: Moment, kind: SystemKind, value: u64, visit: Visit<'_>) -> ControlFlow<()> {
        match kind {
            SystemKind::AclInit => self.note(now, Device::Unknown, NoteKind::AclInit, true, visit),
            SystemKind::AclFinalize => self.note(now, Device::Unknown, NoteKind::AclFinalize, true, visit),
            SystemKind::StartTrace => {
                self.note(now, Device::Unknown, NoteKind::StartTrace, true, visit)?;
                self.start_trace(now, visit)
            }
            SystemKind::StopTrace => {
                self.delivery.gate.stop(BlockId(self.books.counts.blocks));
                self.note(now, Device::Unknown, NoteKind::StopTrace, true, visit)
            }
            SystemKind::Step => {
                let flow = match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
                    Some(device) => self.note(now, device, NoteKind::Step(value), true, visit),
                    None => ControlFlow::Continue(()),
                };
                self.delivery.gate.step_mark();
                flow
            }
            SystemKind::SetDevice => {
                let number = u32::try_from(value).unwrap_or(u32::MAX);
                self.thread_devices.set(now.thread, self.device_numbers.seen_by_program(number));
                ControlFlow::Continue(())
            }
        }
    }

    /// Tells of the blocks that are alive when tracing begins.
    fn start_trace(&mut self, now: Moment, visit: Visit<'_>) -> ControlFlow<()> {
        let Some(told) = self.delivery.gate.start() else { return ControlFlow::Continue(()) };
        for alive in self.books.live_after(told) {
            if self.delivery.gate.devices.contains(alive.device) {
                let event = self.books.told_again(now.time_ns, &alive);
                visit(TraceEvent::Alive(&event), self.stacks)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn mark(&mut self, now: Moment, kind: NoteKind<'_>, visit: Visit<'_>) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_open();
        match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
            Some(device) => self.note(now, device, kind, chosen, visit),
            None => ControlFlow::Continue(()),
        }
    }

    fn refuse(
        &mut self,
        now: Moment,
        call: RefusedCall,
        device: Device,
        (size, flag): (u64, u64),
        visit: Visit<'_>,
    ) -> ControlFlow<()> {
        // A program may ask again and again; the first refusals tell the story.
        const KEPT: usize = 1000;
        if !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        self.refusals += 1;
        if self.out_of_memory.len() < KEPT {
            let driver = self.books.devices.pool(device, Pool::Hal);
            self.out_of_memory.push(OutOfMemory {
                time_ns: now.time_ns,
                thread: now.thread,
                device,
                call,
                size,
                stack: now.stack,
                driver_bytes: driver.map_or(0, |usage| usage.live_bytes),
            });
        }
        self.snapshot(now, device, OOM_SNAPSHOT, visit)?;
        self.note(now, device, NoteKind::OutOfMemory { call, size, flag }, true, visit)
    }

    /// Asked for, so told whether tracing is on or not.
    fn snapshot(&mut self, now: Moment, device: Device, name: &str, visit: Visit<'_>) -> ControlFlow<()> {
        if !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        let memory = self.books.devices.snapshot(device);
        self.note(now, device, NoteKind::Snapshot { name, memory }, true, visit)
    }

    fn note(
        &mut self,
        now: Moment,
        device: Device,
        kind: NoteKind<'_>,
        chosen: bool,
        visit: Visit<'_>,
    ) -> ControlFlow<()> {
        let id = self.books.counts.next_id();
        self.delivery.notes += 1;
        self.delivery.see(now.time_ns);
        let note = NoteEvent { id, time_ns: now.time_ns, thread: now.thread, device, stack: now.stack, kind, chosen };
        visit(TraceEvent::Note(&note), self.stacks)
    }

    fn conclude(self, mut outcome: Outcome) -> Outcome {
        let (books, delivery) = (self.books, self.delivery);
        let counts = books.counts;
        outcome.events = delivery.events;
        outcome.chosen_events = delivery.chosen_events;
        outcome.notes = delivery.notes;
        outcome.mallocs = counts.mallocs;
        outcome.frees = counts.frees;
        outcome.unmatched_frees = counts.unmatched_frees;
        outcome.replaced_blocks = counts.replaced_blocks;
        outcome.unknown_unmaps = counts.unknown_unmaps;
        outcome.implausible_events = counts.implausible_events + self.log_totals.foreign;
        outcome.kernels = self.kernels.counts;
        outcome.problems = self.problems;
        let taken = self.spool.process().profiling_taken();
        outcome.problems.extend(kernels::problems(&self.kernels, &self.log_totals, taken));
        if delivery.events > 0 && !self.interrupted {
            outcome.nothing_chosen = delivery.gate.never_open();
        }
        outcome.out_of_memory = self.out_of_memory;
        outcome.refusals = self.refusals;
        outcome.events_without_stack = self.events_without_stack;
        outcome.lost_events = self.spool.lost_events();
        outcome.lost_without_window = self.spool.process().lost_without_window;
        outcome.stop_reason = stop_reason(self.spool);
        outcome.interrupted = self.interrupted;
        outcome.first_time_ns = delivery.first_time_ns;
        outcome.last_time_ns = delivery.last_time_ns;
        (outcome.heap_allocations, outcome.peak_heap_bytes) = (books.of_heap.allocations, books.of_heap.peak_bytes);
        outcome.peak_mapped_bytes = books.of_mappings.peak_bytes;
        (outcome.reserved_space, outcome.peak_reserved_space) = books.reserved.bytes();
        outcome.pools = books.pools();
        outcome.live = books.live_after(BlockId(0));
        outcome.pools.retain(|usage| delivery.gate.devices.contains(usage.device));
        outcome.live.retain(|block| delivery.gate.devices.contains(block.device));
        outcome
    }
}

#[inline]
fn is_of_host(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::HostAlloc { .. }
            | EventKind::HostFree { .. }
            | EventKind::HostMap { .. }
            | EventKind::HostProtect { .. }
            | EventKind::HostUnmap { .. }
            | EventKind::HostRemap { .. }
    )
}

/// The pool's total that belongs to the event comes after it.
fn waits_for_total(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::DeviceAlloc { space: Space::MindSpore, .. } | EventKind::DeviceFree { space: Space::MindSpore, .. }
    )
}

/// The name of the snapshot at a refusal.
const OOM_SNAPSHOT: &str = "OOM_Snapshot";

/// How far apart two events of one address may be dated in the wrong order.
const SOON_NS: u64 = 20_000;

/// Why a lane's turn ended.
enum Turn {
    /// Another lane has the next event.
    Over,
    /// The lane's next event cannot be what happened next.
    Contradiction,
    /// The lane's next event is a launch whose name other lanes may tell until then.
    NameMissing {
        until: u64,
    },
    Finished,
    Interrupted,
}

/// Bytes read out of all recorded ones; never says 1 before the end, because a damaged rest may be skipped.
struct Progress<'r> {
    whole: u64,
    done: u64,
    report: &'r mut dyn FnMut(f64),
}

impl Progress<'_> {
    fn tell(&mut self) {
        const NEARLY: f64 = 0.99;
        (self.report)((self.done as f64 / self.whole as f64).min(NEARLY));
    }
}

fn finish(cursor: &LaneCursor, outcome: &mut Outcome) {
    outcome.damage.extend(cursor.damage().iter().map(ToString::to_string));
    outcome.unknown_records += cursor.unknown_records();
}

fn stop_reason(spool: &Spool) -> Option<String> {
    match spool.process().stop_reason {
        StopReason::None => None,
        StopReason::WriteFailed => {
            let error = io::Error::from_raw_os_error(spool.process().stop_errno as i32);
            Some(format!("the recording could not be written: {error}"))
        }
        StopReason::SizeCap => Some("the size limit of the recording was reached".to_owned()),
        StopReason::Sandbox => {
            Some("a seccomp filter of the program, or PR_SET_TSC, forbids what recording needs".to_owned())
        }
    }
}

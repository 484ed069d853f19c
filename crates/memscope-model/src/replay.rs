//! Merging the lanes of a spool by time.
mod atb;
mod aten;
mod kernels;
mod labels;
mod refused;
mod watch;

use self::kernels::{LogTotals, LogTurn};
use crate::books::{Books, BooksView, Counts, Handover};
use crate::device_books::{Allocation, DeviceBooks, Emit};
use crate::device_numbers::DeviceNumbers;
use crate::facts::{Damage, NothingChosen, Problem, Stopped};
use crate::host_books::HostBooks;
use crate::kernel_books::{KernelBooks, TaskId};
use crate::labels::{Labels, LateOwners, Windows};
use crate::lane::Lane;
use crate::operators::{OpenAtbOperator, OpenAtenOperator, OpenOperators};
use crate::ranges::{OpenRanges, ThreadDevices};
use crate::refusals::{self, Refusals};
use crate::selection::Gate;
use crate::task_log::{TaskLogReader, is_of_task_log};
use crate::trace::{Status, TraceSink};
use crate::{
    Action, BlockEvent, BlockId, Device, DeviceRoom, HostAddr, ModelError, Moment, Names, NoteEvent, NoteKind, Origin,
    Outcome, OwnerId, Owners, Pool, RefusedCall, Selection, SnapshotMemory, StackId, Stacks, State, Steps, TimestampNs,
    TraceEvent, state,
};
use memscope_format::decode::{Event, EventKind, LaneCursor, Spool, SpoolError, StackRef, Stretch, Timeline};
use memscope_format::layout::{StopReason, notes};
use memscope_format::record::{LogicalDevice, Phase, Space, SystemKind};
use memscope_format::settings::RecordSettings;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One pass over a spool, which can be suspended after any event.
pub(crate) struct Replay {
    spool: Arc<Spool>,
    /// Handed on to the next pass, so that ids stay valid.
    pub(crate) stacks: Stacks,
    names: Names,
    timeline: Timeline,
    /// Where in it the pass is.
    stretch: Stretch,
    /// In boxes, because each is taken out for its turn.
    lanes: Vec<Option<Box<Pending>>>,
    logs: Vec<TaskLogReader>,
    /// The next event of each lane, and then of each log: ticks and number.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    books: Books,
    delivery: Delivery,
    device_numbers: DeviceNumbers,
    thread_devices: ThreadDevices,
    ranges: OpenRanges,
    kernels: KernelBooks,
    operators: OpenOperators<OpenAtbOperator>,
    aten_operators: OpenOperators<OpenAtenOperator>,
    watches: watch::Watches,
    problems: Vec<Problem>,
    damage: Vec<Damage>,
    unknown_records: u64,
    refusals: Refusals,
    recorded: u64,
    /// Bytes of the recording that were read.
    bytes: u64,
    events_without_stack: u64,
    interrupted: bool,
    /// How many more lanes may be searched for missing events; made-up recordings must not take for ever.
    searches: u32,
}

/// Hands events to the sink: those of the devices asked for, with a word on whether their time was.
struct Delivery {
    gate: Gate,
    steps: Steps,
    owners: Owners,
    labels: Labels,
    events: u64,
    chosen_events: u64,
    notes: u64,
    /// Times of the first and the last event emitted.
    first_time: TimestampNs,
    last_time: TimestampNs,
}

impl Delivery {
    #[inline]
    fn memory(
        &mut self,
        event: &mut BlockEvent,
        books: BooksView<'_>,
        (stacks, names): (&Stacks, &Names),
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        if !self.gate.devices.contains(event.block.device) {
            return ControlFlow::Continue(());
        }
        if self.labels.collects() {
            match event.action {
                Action::Malloc => self.labels.allocated(&event.block),
                Action::Free => self.labels.freed(&event.block, &mut self.owners),
            }
        }
        event.selection = self.gate.select(event);
        self.events += 1;
        self.chosen_events += u64::from(event.selection != Selection::NotChosen);
        self.see(event.at.time);
        sink.event(&TraceEvent::Memory(event), &self.state(&books, stacks, names))
    }

    fn note(
        &mut self,
        note: &NoteEvent<'_>,
        books: BooksView<'_>,
        (stacks, names): (&Stacks, &Names),
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        self.notes += 1;
        self.see(note.at.time);
        sink.event(&TraceEvent::Note(note), &self.state(&books, stacks, names))
    }

    #[inline]
    fn state<'s>(&'s self, books: &'s dyn state::Books, stacks: &'s Stacks, names: &'s Names) -> State<'s> {
        let chosen = self.gate.is_open();
        State { stacks, names, owners: &self.owners, steps: &self.steps, chosen, books }
    }

    #[inline]
    fn see(&mut self, time: TimestampNs) {
        if self.events + self.notes == 1 {
            self.first_time = time;
        }
        self.last_time = time;
    }
}

/// A lane and the event it comes to next.
struct Pending {
    lane: Lane,
    event: Event,
    /// The event contradicts the books, or a name is missing, and what could be done about it was.
    settled: bool,
    /// The labels open in its thread.
    windows: Windows,
}

/// What a lane has before its first event is read; never booked.
const NO_EVENT: Event =
    Event { ticks: 0, thread: 0, stack: StackRef::NONE, kind: EventKind::HostFree { address: HostAddr(0) } };

impl Replay {
    /// `late`: what a pass before has found of labels of blocks; `None`: this is that pass.
    pub(crate) fn new(
        spool: &Arc<Spool>,
        settings: &RecordSettings<'_>,
        span: Option<NonZeroU32>,
        stacks: Stacks,
        late: Option<&Arc<LateOwners>>,
    ) -> Result<Replay, ModelError> {
        let counts = Counts { late: late.cloned().unwrap_or_default(), ..Counts::default() };
        let mut replay = Replay {
            timeline: spool.timeline(),
            stretch: Stretch::default(),
            spool: Arc::clone(spool),
            stacks,
            names: Names::default(),
            lanes: Vec::new(),
            logs: Vec::new(),
            order: BinaryHeap::new(),
            books: Books { counts, ..Books::default() },
            delivery: Delivery {
                gate: Gate::new(settings, span, spool)?,
                steps: Steps::default(),
                owners: late.map_or_else(Owners::default, |late| late.words.clone()),
                labels: Labels::new(late.is_none()),
                events: 0,
                chosen_events: 0,
                notes: 0,
                first_time: TimestampNs::default(),
                last_time: TimestampNs::default(),
            },
            device_numbers: DeviceNumbers::default(),
            thread_devices: ThreadDevices::default(),
            ranges: OpenRanges::default(),
            kernels: KernelBooks::default(),
            operators: OpenOperators::default(),
            aten_operators: OpenOperators::default(),
            watches: watch::Watches::default(),
            problems: Vec::new(),
            damage: spool.damage().iter().cloned().map(Damage::Spool).collect(),
            unknown_records: 0,
            refusals: Refusals::new(settings),
            recorded: 0,
            bytes: 0,
            events_without_stack: 0,
            interrupted: false,
            searches: 1 << 22,
        };
        replay.open_lanes()?;
        Ok(replay)
    }

    fn open_lanes(&mut self) -> Result<(), ModelError> {
        let numbers: Vec<u32> = self.spool.lanes().collect();
        for number in numbers {
            let mut pending = Box::new(Pending {
                lane: Lane::new(number),
                event: NO_EVENT,
                settled: false,
                windows: Windows::default(),
            });
            if !self.advance(&mut pending)? {
                self.finish(pending.lane.cursor());
            } else if is_of_task_log(pending.event.kind) {
                let log = TaskLogReader::open(&self.spool, number, &self.timeline)?;
                log.devices_without_streams().for_each(|device| self.kernels.see_without_streams(device));
                self.logs.push(log);
            } else {
                self.order.push(Reverse((pending.event.ticks, self.lanes.len())));
                self.lanes.push(Some(pending));
            }
        }
        // Numbered after the lanes, so that a launch comes before an execution of the same tick.
        for (index, log) in (self.lanes.len()..).zip(&mut self.logs) {
            if let Some(ticks) = log.next_ticks(&self.spool, &self.timeline)? {
                self.order.push(Reverse((ticks, index)));
            }
        }
        Ok(())
    }

    /// Goes on for a few thousand recorded events.
    pub(crate) fn step(&mut self, sink: &mut dyn TraceSink) -> Result<Status, ModelError> {
        /// Few enough for whoever waits between two steps, many enough not to notice the steps.
        const EVENTS_A_STEP: u64 = 1 << 12;
        let end = self.recorded + EVENTS_A_STEP;
        while self.recorded < end {
            if !self.next_turn(end, sink)? {
                return Ok(Status::Over);
            }
        }
        Ok(Status::More)
    }

    /// The lane or log with the next event has its turn; `false` if there is none, or the sink broke off.
    ///
    /// Two lanes with events of the same tick take turns by number: which came first is not known.
    fn next_turn(&mut self, end: u64, sink: &mut dyn TraceSink) -> Result<bool, ModelError> {
        let Some(Reverse((ticks, index))) = self.order.pop() else {
            self.interrupted = self.snapshots_at_end(sink).is_break();
            return Ok(false);
        };
        let limit = self.order.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
        let Some(place) = self.lanes.get_mut(index) else {
            return self.turn_of_log(index, limit, sink);
        };
        let Some(mut pending) = place.take() else { return Ok(true) };
        if pending.event.ticks != ticks {
            // The event that was due was taken out of turn.
            self.order.push(Reverse((pending.event.ticks, index)));
            self.lanes[index] = Some(pending);
            return Ok(true);
        }
        let turn = self.run_lane(&mut pending, index, limit, end, sink)?;
        self.bytes += pending.lane.take_bytes();
        let event = pending.event;
        match turn {
            Turn::Over => {}
            Turn::Contradiction | Turn::NameMissing { .. } => pending.settled = true,
            Turn::Finished => {
                self.finish(pending.lane.cursor());
                // Dropping the lane gives its block back: a program may have had thousands of threads.
                return Ok(true);
            }
            Turn::Interrupted => {
                self.lanes[index] = Some(pending);
                self.interrupted = true;
                return Ok(false);
            }
        }
        self.order.push(Reverse((event.ticks, index)));
        self.lanes[index] = Some(pending);
        match turn {
            Turn::Contradiction => {
                self.interrupted = self.settle(event, index, sink)?.is_break();
            }
            Turn::NameMissing { until } => self.search_names(until)?,
            _ => {}
        }
        Ok(!self.interrupted)
    }

    fn turn_of_log(&mut self, index: usize, limit: (u64, usize), sink: &mut dyn TraceSink) -> Result<bool, ModelError> {
        let number = index - self.lanes.len();
        let mut log = self.logs.swap_remove(number);
        let turn = self.run_log(&mut log, index, limit, sink);
        self.logs.push(log);
        let last = self.logs.len() - 1;
        self.logs.swap(number, last);
        match turn? {
            LogTurn::Over(ticks) => self.order.push(Reverse((ticks, index))),
            LogTurn::Finished => {}
            LogTurn::Interrupted => self.interrupted = true,
        }
        Ok(!self.interrupted)
    }

    /// Bytes read out of all recorded ones; never says 1 before the end, because a damaged rest may be skipped.
    pub(crate) fn progress(&self) -> f64 {
        const NEARLY: f64 = 0.99;
        (self.bytes as f64 / self.spool.recorded_bytes().max(1) as f64).min(NEARLY)
    }

    fn finish(&mut self, cursor: &LaneCursor) {
        self.damage.extend(cursor.damage().iter().cloned().map(Damage::Spool));
        self.unknown_records += cursor.unknown_records();
    }

    /// Books the lane's events while they come before `limit`, the next event of any other lane, and before the step's
    /// `end`.
    fn run_lane(
        &mut self,
        pending: &mut Pending,
        index: usize,
        limit: (u64, usize),
        end: u64,
        sink: &mut dyn TraceSink,
    ) -> Result<Turn, ModelError> {
        loop {
            let Event { ticks, thread, stack, kind } = pending.event;
            if !pending.settled && limit.0 != u64::MAX && self.books.contradicted_by(kind).is_some() {
                return Ok(Turn::Contradiction);
            }
            if kind == EventKind::KernelLaunch
                && !pending.settled
                && let Some(until) = self.missing_name(pending)?
            {
                return Ok(Turn::NameMissing { until });
            }
            pending.settled = false;
            let stack = pending.lane.stack(stack, &mut self.stacks).unwrap_or_else(|rest| {
                self.events_without_stack += 1;
                rest
            });
            let time = self.timeline.time_near(ticks, &mut self.stretch);
            let now = self.moment(time, thread, stack);
            self.delivery.labels.turn_to(thread, pending.windows.of(thread));
            let more = if is_of_host(kind) {
                if self.refusals.is_unanswered()
                    && matches!(kind, EventKind::HostAlloc { .. } | EventKind::HostMap { .. })
                    && self.snapshot_after_refusal(now, (Device::Cpu, Pool::Host), sink).is_break()
                {
                    return Ok(Turn::Interrupted);
                }
                if self.enter_host(now, kind, sink).is_break() {
                    return Ok(Turn::Interrupted);
                }
                self.advance(pending)?
            } else {
                match self.enter_in_order(now, kind, pending, sink)? {
                    ControlFlow::Continue(more) => more,
                    ControlFlow::Break(()) => return Ok(Turn::Interrupted),
                }
            };
            self.recorded += 1;
            if !more {
                return Ok(Turn::Finished);
            }
            if (pending.event.ticks, index) > limit || self.recorded >= end {
                return Ok(Turn::Over);
            }
        }
    }

    #[inline]
    fn moment(&self, time: TimestampNs, thread: u32, stack: StackId) -> Moment {
        Moment { event: 0, time, thread, stack, step: self.delivery.steps.current() }
    }

    #[inline]
    fn enter_host(&mut self, now: Moment, kind: EventKind, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let Replay { books, delivery, stacks, names, .. } = self;
        let Books { host, devices, counts } = books;
        host.owner = delivery.labels.owner_now(OwnerId::NONE, &mut delivery.owners);
        host.enter(now, kind, counts, &mut |event: &mut BlockEvent, host: &HostBooks| {
            delivery.memory(event, BooksView { host, devices }, (stacks, names), &mut *sink)
        })
    }

    /// Changes the books of devices, and delivers the events that makes.
    fn enter_device(
        &mut self,
        sink: &mut dyn TraceSink,
        change: impl FnOnce(&mut DeviceBooks, &mut Counts, Emit<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Replay { books, delivery, stacks, names, .. } = self;
        let Books { host, devices, counts } = books;
        change(devices, counts, &mut |event: &mut BlockEvent, devices: &DeviceBooks| {
            delivery.memory(event, BooksView { host, devices }, (stacks, names), &mut *sink)
        })
    }

    /// Looks for the event whose absence makes `event` impossible, among those of other lanes that are a little later,
    /// and books it first.
    ///
    /// Two threads that hand an address over may be dated in the wrong order: the processor reads its counter early while
    /// it waits for the other's memory.
    #[cold]
    fn settle(&mut self, event: Event, index: usize, sink: &mut dyn TraceSink) -> Result<ControlFlow<()>, ModelError> {
        let Some(contradiction) = self.books.contradicted_by(event.kind) else {
            return Ok(ControlFlow::Continue(()));
        };
        let missing = Handover { is_free: !contradiction.is_free, ..contradiction };
        let time = self.timeline.time(event.ticks);
        // A free that another thread's, dated too early, has anticipated: then this lane's own next allocation of the
        // address is the block it freed.
        let anticipated =
            !missing.is_free && self.books.was_freed_by_another(missing, event.thread, time.earlier_by(SOON_NS));
        for other in 0..self.lanes.len() {
            if other == index && !anticipated {
                continue;
            }
            let Some(mut pending) = self.lanes[other].take() else { continue };
            let Some(left) = self.searches.checked_sub(1) else {
                self.lanes[other] = Some(pending);
                break;
            };
            self.searches = left;
            let Some((found, was_next)) = self.take_missing(&mut pending, missing, time)? else {
                self.lanes[other] = Some(pending);
                continue;
            };
            // Threads that hand over all the time are no reason to give up.
            self.searches = self.searches.saturating_add(other as u32 + 1);
            let stack = pending.lane.stack(found.stack, &mut self.stacks).unwrap_or_else(|rest| rest);
            let now = self.moment(time, found.thread, stack);
            self.delivery.labels.turn_to(found.thread, pending.windows.of(found.thread));
            if was_next && !self.advance(&mut pending)? {
                self.finish(pending.lane.cursor());
            } else {
                self.lanes[other] = Some(pending);
            }
            self.recorded += 1;
            return Ok(match is_of_host(found.kind) {
                true => self.enter_host(now, found.kind, sink),
                false => self.enter_block(now, found.kind, sink),
            });
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first event of the lane about the address, if it is what is missing and comes soon after `time`, and whether it is the one
    /// at hand; one further ahead is taken out of the lane.
    fn take_missing(
        &mut self,
        pending: &mut Pending,
        missing: Handover,
        time: TimestampNs,
    ) -> Result<Option<(Event, bool)>, SpoolError> {
        const MOST_EVENTS: usize = 4096;
        let mut event = pending.event;
        for index in 0..MOST_EVENTS {
            let handover = Handover::of(event.kind);
            if !(is_of_host(event.kind) || handover.is_some())
                || self.timeline.time(event.ticks) > time.later_by(SOON_NS)
            {
                break;
            }
            if handover == Some(missing) {
                let ahead = index.checked_sub(1);
                if let Some(ahead) = ahead {
                    pending.lane.take(ahead);
                }
                return Ok(Some((event, ahead.is_none())));
            }
            // In the lane of the contradiction the first such event is the contradiction itself.
            let is_about_it = handover.is_some_and(|of| (of.of, of.address) == (missing.of, missing.address));
            if is_about_it && !(index == 0 && pending.settled) {
                break;
            }
            match pending.lane.peek(index, &self.spool, &mut self.stacks)? {
                Some(next) => event = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// Goes on to the lane's next event; tells whether there is one.
    #[inline(always)]
    fn advance(&mut self, pending: &mut Pending) -> Result<bool, SpoolError> {
        let more = pending.lane.advance(&self.spool, &mut self.stacks, &mut pending.event)?;
        if pending.lane.has_shared_definitions() {
            self.see_news(&mut pending.lane);
        }
        Ok(more)
    }

    /// Takes in the definitions of a lane that count for all lanes.
    #[cold]
    fn see_news(&mut self, lane: &mut Lane) {
        let shared = lane.take_shared_definitions();
        if let Some(list) = shared.visible_devices {
            self.problems.extend(self.device_numbers.see(&list).err());
        }
        for (hash, name) in shared.kernel_names {
            self.kernels.define_name(hash, self.names.intern(&name));
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
        sink: &mut dyn TraceSink,
    ) -> Result<ControlFlow<(), bool>, SpoolError> {
        if kind == EventKind::KernelLaunch {
            return Ok(match self.enter_launch(now, pending, sink)? {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        if is_of_watch(kind) {
            let kernel = self.kernel_of_moment(pending)?;
            return Ok(match self.enter_watch(now, kind, &pending.lane, kernel, sink) {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        if self.label(kind, now.thread, pending) {
            return Ok(ControlFlow::Continue(self.advance(pending)?));
        }
        if !waits_for_total(kind) {
            return Ok(match self.enter_rare(now, kind, &pending.lane, sink) {
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
        Ok(self.enter_rare(now, kind, &pending.lane, sink).map_continue(|()| more))
    }

    /// A block of a device or a pool begins or ends.
    fn enter_block(&mut self, now: Moment, kind: EventKind, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        match kind {
            EventKind::DeviceAlloc { space, device, address, size, attributes } => {
                let device = self.device_numbers.device(space, device);
                self.snapshot_after_refusal(now, (device, Pool::of(space, device)), sink)?;
                let base = OwnerId::of(Pool::of(space, device), Origin::of(space, attributes));
                let owner = self.delivery.labels.owner_now(base, &mut self.delivery.owners);
                let allocation = Allocation { space, device, address, size, attributes, owner };
                self.enter_device(sink, |devices, counts, emit| devices.alloc(now, allocation, counts, emit))
            }
            EventKind::DeviceFree { space, address } => {
                self.enter_device(sink, |devices, counts, emit| devices.free(now, space, address, counts, emit))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Everything that is not about host memory.
    fn enter_rare(&mut self, now: Moment, kind: EventKind, lane: &Lane, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let Replay { books, device_numbers, .. } = self;
        match kind {
            EventKind::DeviceAlloc { .. } | EventKind::DeviceFree { .. } => self.enter_block(now, kind, sink),
            EventKind::PoolTotal { space, device, total } => {
                let device = device_numbers.device(space, device);
                books.devices.reserve(space, device, total, &mut books.counts);
                ControlFlow::Continue(())
            }
            EventKind::OutOfMemory { space, device, size, flag } => {
                let device = device_numbers.device(space, device);
                self.refuse(now, RefusedCall::of(space, device), device, (size, flag), sink)
            }
            EventKind::HostRefused { call, size, flag } => {
                self.refuse(now, RefusedCall::Host(call), Device::Cpu, (size, flag), sink)
            }
            EventKind::System { kind, value } => self.enter_system(now, kind, value, sink),
            EventKind::Snapshot { device, .. } => {
                if device == LogicalDevice::ALL {
                    return self.snapshot_of_all(now, lane.text(), sink);
                }
                let device = self.snapshot_device(device, now.thread);
                self.snapshot(now, device, lane.text(), sink)
            }
            EventKind::Mark { .. } => self.mark(now, NoteKind::Mark(lane.text()), sink),
            EventKind::RangeStart { id, .. } => {
                let text = lane.text();
                self.ranges.start(id, text);
                // A step's own start and end are within it.
                if self.delivery.gate.is_within_span() {
                    self.delivery.steps.range_start(id, text);
                }
                self.delivery.gate.update(&self.delivery.steps);
                let now = Moment { step: self.delivery.steps.current(), ..now };
                self.mark(now, NoteKind::RangeStart { id, text }, sink)
            }
            EventKind::RangeEnd { id } => {
                let text = self.ranges.end(id);
                let flow = self.mark(now, NoteKind::RangeEnd { id, text: text.as_deref() }, sink);
                self.delivery.steps.range_end(id);
                self.delivery.gate.update(&self.delivery.steps);
                flow
            }
            EventKind::HostAlloc { .. }
            | EventKind::HostFree { .. }
            | EventKind::HostMap { .. }
            | EventKind::HostProtect { .. }
            | EventKind::HostUnmap { .. }
            | EventKind::HostRemap { .. } => ControlFlow::Continue(()),
            EventKind::Task { device, stream, task, name } => {
                self.enter_task(now, TaskId::reported(device, stream, task), name, sink)
            }
            EventKind::StreamExpansion { status } => {
                self.kernels.set_expanded(status);
                ControlFlow::Continue(())
            }
            // Task logs have lanes of their own; launches were booked before.
            EventKind::DeviceClock { .. } | EventKind::Execution { .. } | EventKind::KernelLaunch => {
                self.books.counts.implausible()
            }
            EventKind::Heap { space, device, address, size } => {
                let device = device_numbers.device(space, device);
                books.devices.heap(space, device, address, size, &mut books.counts);
                ControlFlow::Continue(())
            }
            EventKind::HeapEnd { space, address } => {
                self.enter_device(sink, |devices, counts, emit| devices.heap_end(now, space, address, counts, emit))
            }
            EventKind::AtbOperatorStart { .. }
            | EventKind::AtbOperatorEnd { .. }
            | EventKind::AtbKernel { .. }
            | EventKind::Access { .. } => self.enter_atb(now, kind, lane, sink),
            EventKind::AtenOperatorStart { .. } | EventKind::AtenOperatorEnd { .. } | EventKind::AtenAccess { .. } => {
                self.enter_aten(now, kind, lane, sink)
            }
            EventKind::FunctionStart { name } => self.function(now, Phase::Start, lane.label_name(name), sink),
            EventKind::FunctionEnd { name } => self.function(now, Phase::End, lane.label_name(name), sink),
            EventKind::ToldSnapshot { device, reserved, max_reserved, allocated, max_allocated, free, total } => {
                let device = self.snapshot_device(device, now.thread);
                let of_device = Some(DeviceRoom { free: free.min(total), total });
                let mut memory = SnapshotMemory { reserved, max_reserved, allocated, max_allocated, of_device };
                if device == Device::Cpu {
                    let booked = refusals::snapshot(device, &self.books);
                    (memory.allocated, memory.max_allocated) = (booked.allocated, booked.max_allocated);
                }
                self.told_snapshot(now, device, lane.text(), memory, sink)
            }
            // Booked before, with the lane they belong to.
            EventKind::LabelStart { .. } | EventKind::LabelEnd { .. } | EventKind::LabelBlock { .. } => {
                ControlFlow::Continue(())
            }
            // The lane has left them out.
            EventKind::CallsBegin {}
            | EventKind::CallFound { .. }
            | EventKind::Call { .. }
            | EventKind::ModuleCall { .. }
            | EventKind::NativeCall { .. }
            | EventKind::CallEnd {} => ControlFlow::Continue(()),
            EventKind::WatchBegin { .. }
            | EventKind::WatchMoment { .. }
            | EventKind::WatchLook { .. }
            | EventKind::WatchEnd { .. }
            | EventKind::WatchProblem { .. } => self.enter_watch(now, kind, lane, 0, sink),
        }
    }

    fn enter_system(&mut self, now: Moment, kind: SystemKind, value: u64, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_within_span();
        match kind {
            SystemKind::AclInit => self.note(now, Device::Unknown, NoteKind::AclInit, chosen, sink),
            SystemKind::AclFinalize => self.note(now, Device::Unknown, NoteKind::AclFinalize, chosen, sink),
            SystemKind::StartTrace => {
                self.note(now, Device::Unknown, NoteKind::StartTrace, chosen, sink)?;
                self.start_trace(now, sink)
            }
            SystemKind::StopTrace => {
                self.delivery.gate.stop(BlockId(self.books.counts.blocks), &self.delivery.steps);
                self.note(now, Device::Unknown, NoteKind::StopTrace, chosen, sink)
            }
            SystemKind::Step => {
                let flow = match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
                    Some(device) => self.note(now, device, NoteKind::Step(value), chosen, sink),
                    None => ControlFlow::Continue(()),
                };
                if chosen {
                    self.delivery.steps.mark();
                }
                self.delivery.gate.update(&self.delivery.steps);
                flow
            }
            SystemKind::SetDevice => {
                let number = u32::try_from(value).unwrap_or(u32::MAX);
                self.thread_devices.set(now.thread, self.device_numbers.seen_by_program(LogicalDevice(number)));
                ControlFlow::Continue(())
            }
        }
    }

    /// Tells of the blocks that are alive when tracing begins.
    fn start_trace(&mut self, now: Moment, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let Some(announced) = self.delivery.gate.start(&self.delivery.steps) else { return ControlFlow::Continue(()) };
        for block in self.books.live_after(announced) {
            if self.delivery.gate.devices.contains(block.device) {
                let event = self.books.announced_again(now, block);
                let books = self.books.view();
                let state = self.delivery.state(&books, &self.stacks, &self.names);
                sink.event(&TraceEvent::Alive(&event), &state)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn mark(&mut self, now: Moment, kind: NoteKind<'_>, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_open();
        match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
            Some(device) => self.note(now, device, kind, chosen, sink),
            None => ControlFlow::Continue(()),
        }
    }

    fn note(
        &mut self,
        now: Moment,
        device: Device,
        kind: NoteKind<'_>,
        chosen: bool,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let note = NoteEvent { at: self.books.counts.next(now), device, kind, chosen };
        self.delivery.note(&note, self.books.view(), (&self.stacks, &self.names), sink)
    }

    /// What all events so far come to.
    pub(crate) fn outcome(&self) -> Outcome {
        let Replay { books, delivery, spool, .. } = self;
        let (counts, devices) = (&books.counts, delivery.gate.devices);
        let mut outcome = Outcome {
            events: delivery.events,
            chosen_events: delivery.chosen_events,
            notes: delivery.notes,
            mallocs: counts.mallocs,
            frees: counts.frees,
            unmatched_frees: counts.unmatched_frees,
            replaced_blocks: counts.replaced_blocks,
            unknown_unmaps: counts.unknown_unmaps,
            implausible_events: counts.implausible_events,
            events_without_stack: self.events_without_stack,
            lost_events: spool.lost_events(),
            lost_without_window: spool.process().lost_without_window,
            unknown_records: self.unknown_records,
            nothing_chosen: None,
            problems: self.problems.clone(),
            out_of_memory: self.refusals.kept.clone(),
            refusals: self.refusals.count,
            kernels: self.kernels.counts,
            damage: self.damage.clone(),
            stopped: stopped(spool),
            interrupted: self.interrupted,
            first_time: delivery.first_time,
            last_time: delivery.last_time,
            heap_allocations: books.host.of_heap.allocations,
            peak_heap_bytes: books.host.of_heap.peak_bytes,
            peak_mapped_bytes: books.host.of_mappings.peak_bytes,
            reserved_space: 0,
            peak_reserved_space: 0,
            steps: delivery.steps.clone(),
            names: self.names.clone(),
            owners: delivery.owners.clone(),
            pools: state::Books::pools(&books.view()),
            live: books.live_after(BlockId(0)),
        };
        for cursor in self
            .lanes
            .iter()
            .flatten()
            .map(|pending| pending.lane.cursor())
            .chain(self.logs.iter().map(TaskLogReader::cursor))
        {
            outcome.damage.extend(cursor.damage().iter().cloned().map(Damage::Spool));
            outcome.unknown_records += cursor.unknown_records();
        }
        let mut log_totals = LogTotals::default();
        self.logs.iter().for_each(|log| log_totals.add(log));
        outcome.implausible_events += log_totals.foreign;
        outcome.problems.extend(kernels::problems(&self.kernels, &log_totals, spool.process().profiling_taken()));
        if delivery.events > 0 && !self.interrupted {
            // Where calls were asked for, it may have been for them alone.
            let only_calls = spool.process().notes & notes::CALLS_TRACED != 0;
            let never_open = delivery.gate.never_open();
            outcome.nothing_chosen = never_open.filter(|why| !only_calls || *why != NothingChosen::NeverStarted);
        }
        (outcome.reserved_space, outcome.peak_reserved_space) = books.host.reserved.bytes();
        outcome.pools.retain(|usage| devices.contains(usage.device));
        outcome.live.retain(|block| devices.contains(block.device));
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

fn is_of_watch(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::WatchBegin { .. }
            | EventKind::WatchMoment { .. }
            | EventKind::WatchLook { .. }
            | EventKind::WatchEnd { .. }
            | EventKind::WatchProblem { .. }
    )
}

/// The pool's total that belongs to the event comes after it.
fn waits_for_total(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::DeviceAlloc { space: Space::MindSpore, .. } | EventKind::DeviceFree { space: Space::MindSpore, .. }
    )
}

/// How far apart two events of one address may be dated in the wrong order.
const SOON_NS: u64 = 20_000;

/// Why a lane's turn ended.
enum Turn {
    /// Another lane has the next event.
    Over,
    /// The lane's next event cannot be what happened next.
    Contradiction,
    /// The lane's next event is a launch whose name other lanes may define until then.
    NameMissing {
        until: u64,
    },
    Finished,
    Interrupted,
}

fn stopped(spool: &Spool) -> Option<Stopped> {
    let process = spool.process();
    (process.stop_reason != StopReason::None)
        .then_some(Stopped { reason: process.stop_reason, errno: process.stop_errno as i32 })
}

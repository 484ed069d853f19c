//! Merging the lanes of a spool by time.
mod atb;
mod aten;
mod delivery;
mod entries;
mod handovers;
mod kernels;
mod labels;
mod marks;
mod outcome;
mod refused;
mod watch;

use self::delivery::Delivery;
use self::entries::is_of_host;
use self::kernels::LogTurn;
use crate::books::{Books, Counts};
use crate::device_numbers::DeviceNumbers;
use crate::facts::{Damage, Problem};
use crate::kernel_books::KernelBooks;
use crate::labels::{LateOwners, Windows};
use crate::lane::Lane;
use crate::operators::{OpenAtbOperator, OpenAtenOperator, OpenOperators};
use crate::ranges::{OpenRanges, ThreadDevices};
use crate::refusals::Refusals;
use crate::selection::Gate;
use crate::task_log::{TaskLogReader, is_of_task_log};
use crate::trace::{Status, TraceSink};
use crate::{Device, HostAddr, ModelError, Moment, Names, NoteEvent, NoteKind, Pool, StackId, Stacks, TimestampNs};
use memscope_format::decode::{Event, EventKind, LaneCursor, Spool, SpoolError, StackRef, Stretch, Timeline};
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
            delivery: Delivery::new(Gate::new(settings, span, spool)?, late),
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
}

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

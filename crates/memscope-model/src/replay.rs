//! Merging the lanes of a spool by time.
use crate::books::{Books, Moment};
use crate::lane::Lane;
use crate::{MemoryEvent, ModelError, Outcome, StackId, Stacks};
use memscope_format::decode::{Event, Spool, Timeline};
use memscope_format::layout::StopReason;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::ControlFlow;

/// One pass over a spool.
pub(crate) struct Replay<'p> {
    spool: &'p Spool,
    stacks: &'p mut Stacks,
    timeline: Timeline,
    books: Books,
    recorded: u64,
    events_without_stack: u64,
    first_time_ns: u64,
    last_time_ns: u64,
    interrupted: bool,
}

/// A lane and the event it comes to next.
struct Pending {
    lane: Lane,
    event: Event,
}

impl<'p> Replay<'p> {
    pub(crate) fn new(spool: &'p Spool, stacks: &'p mut Stacks) -> Replay<'p> {
        Replay {
            timeline: spool.timeline(),
            spool,
            stacks,
            books: Books::new(),
            recorded: 0,
            events_without_stack: 0,
            first_time_ns: 0,
            last_time_ns: 0,
            interrupted: false,
        }
    }

    pub(crate) fn run(
        mut self,
        visit: &mut dyn FnMut(&MemoryEvent, &Stacks) -> ControlFlow<()>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Outcome, ModelError> {
        let mut outcome = Outcome::default();
        outcome.damage.extend(self.spool.damage().iter().map(ToString::to_string));
        let mut progress = Progress { whole: self.spool.recorded_bytes().max(1), done: 0, report: progress };
        let mut lanes = Vec::new();
        let mut order = BinaryHeap::new();
        for number in self.spool.lanes() {
            let mut lane = Lane::new(number);
            match lane.next(self.spool, self.stacks)? {
                Some(event) => {
                    order.push(Reverse((event.ticks, lanes.len())));
                    lanes.push(Some(Pending { lane, event }));
                }
                None => finish(&lane, &mut outcome),
            }
        }
        // Two lanes with events of the same tick take turns by number: which came first cannot be told any more.
        while let Some(Reverse((_, index))) = order.pop() {
            let Some(pending) = lanes[index].as_mut() else { continue };
            let limit = order.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
            let turn = self.run_lane(pending, index, limit, visit, &mut progress)?;
            progress.done += pending.lane.take_bytes();
            match turn {
                Turn::Over => order.push(Reverse((pending.event.ticks, index))),
                // Dropping the lane gives its block back: a program may have had thousands of threads.
                Turn::Finished => {
                    finish(&pending.lane, &mut outcome);
                    lanes[index] = None;
                }
                Turn::Interrupted => {
                    self.interrupted = true;
                    break;
                }
            }
        }
        for pending in lanes.iter().flatten() {
            finish(&pending.lane, &mut outcome);
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
        visit: &mut dyn FnMut(&MemoryEvent, &Stacks) -> ControlFlow<()>,
        progress: &mut Progress<'_>,
    ) -> Result<Turn, ModelError> {
        const EVENTS_A_REPORT: u64 = 1 << 16;
        loop {
            if self.enter(pending, visit).is_break() {
                return Ok(Turn::Interrupted);
            }
            self.recorded += 1;
            if self.recorded.is_multiple_of(EVENTS_A_REPORT) {
                progress.done += pending.lane.take_bytes();
                progress.tell();
            }
            match pending.lane.next(self.spool, self.stacks)? {
                Some(event) => pending.event = event,
                None => return Ok(Turn::Finished),
            }
            if (pending.event.ticks, index) > limit {
                return Ok(Turn::Over);
            }
        }
    }

    #[inline]
    fn enter(
        &mut self,
        pending: &mut Pending,
        visit: &mut dyn FnMut(&MemoryEvent, &Stacks) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Event { ticks, thread, stack, kind } = pending.event;
        let stack = pending.lane.stack(stack, self.stacks).unwrap_or_else(|| {
            self.events_without_stack += 1;
            StackId::NONE
        });
        let now = Moment { time_ns: self.timeline.epoch_ns(ticks), thread, stack };
        let before = self.books.events();
        let stacks = &*self.stacks;
        let flow = self.books.enter(now, kind, &mut |event| visit(event, stacks));
        if self.books.events() > before {
            if before == 0 {
                self.first_time_ns = now.time_ns;
            }
            self.last_time_ns = now.time_ns;
        }
        flow
    }

    fn conclude(self, mut outcome: Outcome) -> Outcome {
        let books = self.books;
        outcome.events = books.events();
        outcome.mallocs = books.mallocs;
        outcome.frees = books.frees;
        outcome.unmatched_frees = books.unmatched_frees;
        outcome.replaced_blocks = books.replaced_blocks;
        outcome.unknown_unmaps = books.unknown_unmaps;
        outcome.implausible_events = books.implausible_events;
        outcome.events_without_stack = self.events_without_stack;
        outcome.lost_events = self.spool.lost_events();
        outcome.stop_reason = stop_reason(self.spool);
        outcome.interrupted = self.interrupted;
        outcome.first_time_ns = self.first_time_ns;
        outcome.last_time_ns = self.last_time_ns;
        outcome.pools = books.pools();
        outcome.live = books.into_live();
        outcome
    }
}

/// Why a lane's turn ended.
enum Turn {
    /// Another lane has the next event.
    Over,
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

fn finish(lane: &Lane, outcome: &mut Outcome) {
    outcome.damage.extend(lane.cursor().damage().iter().map(ToString::to_string));
    outcome.unknown_records += lane.cursor().unknown_records();
}

fn stop_reason(spool: &Spool) -> Option<String> {
    match spool.process().stop_reason {
        StopReason::None => None,
        StopReason::WriteFailed => {
            let error = io::Error::from_raw_os_error(spool.process().stop_errno as i32);
            Some(format!("the recording could not be written: {error}"))
        }
        StopReason::SizeCap => Some("the size limit of the recording was reached".to_owned()),
    }
}

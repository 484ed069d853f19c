//! What can be said of a process as a whole.
use crate::report::words;
use memscope_analysis::StepSpans;
use memscope_model::{
    Action, BlockEvent, Device, Moment, Outcome, Pool, Selection, State, StepSource, TimestampNs, TraceEvent, TraceSink,
};
use std::ops::ControlFlow;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overview {
    /// When the recording began.
    pub start: TimestampNs,
    /// Of the first and the last event, 0 if there is none.
    pub first_time: TimestampNs,
    pub last_time: TimestampNs,
    /// Those of files.
    pub events: u64,
    pub step_source: Option<StepSource>,
    pub steps: Vec<StepOverview>,
    /// In the order of their first event.
    pub pools: Vec<PoolOverview>,
    /// What could not be read.
    pub damage: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepOverview {
    pub number: u32,
    pub begin: TimestampNs,
    /// `None` if its end was not seen.
    pub end: Option<TimestampNs>,
}

/// The use of one pool of one device within the time that was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolOverview {
    pub device: Device,
    pub pool: Pool,
    pub allocations: u64,
    pub frees: u64,
    pub allocated_bytes: u64,
    pub peak_bytes: u64,
    pub peak_time: TimestampNs,
    /// After the last event, of what was traced.
    pub live_bytes: u64,
}

#[derive(Default)]
pub(super) struct Tally {
    spans: StepSpans,
    pools: Vec<PoolOverview>,
    last_pool: usize,
    events: u64,
    first: Option<TimestampNs>,
    last: TimestampNs,
}

impl Tally {
    pub(super) fn finish(self, outcome: &Outcome, start: TimestampNs) -> Overview {
        let steps = self.spans.finish(&outcome.steps).into_iter();
        Overview {
            start,
            first_time: self.first.unwrap_or_default(),
            last_time: self.last,
            events: self.events,
            step_source: outcome.steps.source(),
            steps: steps.map(|span| StepOverview { number: span.number, begin: span.begin, end: span.end }).collect(),
            pools: self.pools,
            damage: outcome.damage.iter().map(words::damage).collect(),
        }
    }

    fn see(&mut self, at: &Moment) {
        self.events += 1;
        self.first.get_or_insert(at.time);
        self.last = at.time;
    }

    fn pool(&mut self, device: Device, pool: Pool) -> &mut PoolOverview {
        let is = |known: &PoolOverview| (known.device, known.pool) == (device, pool);
        if !self.pools.get(self.last_pool).is_some_and(is) {
            self.last_pool = self.pools.iter().position(is).unwrap_or_else(|| {
                self.pools.push(PoolOverview {
                    device,
                    pool,
                    allocations: 0,
                    frees: 0,
                    allocated_bytes: 0,
                    peak_bytes: 0,
                    peak_time: TimestampNs::default(),
                    live_bytes: 0,
                });
                self.pools.len() - 1
            });
        }
        &mut self.pools[self.last_pool]
    }

    fn memory(&mut self, event: &BlockEvent, state: &State<'_>) {
        if state.is_untraced(event.block.id) {
            return;
        }
        let usage = self.pool(event.block.device, event.block.pool);
        // What is allocated while nothing is traced is no part of it.
        usage.live_bytes = match event.action {
            Action::Free if state.untraced_after.is_some() && event.matched => {
                usage.live_bytes.saturating_sub(event.block.size)
            }
            Action::Free if state.untraced_after.is_some() => usage.live_bytes,
            _ => event.used,
        };
        if event.selection == Selection::NotChosen {
            return;
        }
        match event.action {
            Action::Malloc => {
                usage.allocations += 1;
                usage.allocated_bytes = usage.allocated_bytes.saturating_add(event.block.size);
            }
            Action::Free => usage.frees += 1,
        }
        if event.used > usage.peak_bytes && event.selection == Selection::Chosen {
            (usage.peak_bytes, usage.peak_time) = (event.used, event.at.time);
        }
        self.see(&event.at);
    }
}

impl TraceSink for Tally {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => self.memory(event, state),
            TraceEvent::Alive(event) => self.see(&event.at),
            TraceEvent::Note(note) if note.chosen => self.see(&note.at),
            _ => {}
        }
        self.spans.event(event, state)
    }
}

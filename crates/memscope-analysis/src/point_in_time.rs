//! The moments at which one may ask who holds the memory.
use crate::main_program::MainProgram;
use memscope_model::{BlockEvent, Moment, State, TimestampNs};

/// A moment of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PointInTime {
    /// When most of the pool was in use.
    Peak,
    /// After the last event.
    End,
    /// After all events up to this time.
    Time(TimestampNs),
    /// When the step of this number, from 1, ended. One that no event came after, nor in, is the end; whether there is such
    /// a step at all, [`memscope_model::Steps::count`] tells.
    StepEnd(u32),
    /// When a Python program's own code had ended, and the interpreter began to take itself apart: what modules hold is
    /// freed after that, and was never given up by the program. Known from Python stacks, so only where those were
    /// recorded; see [`crate::main_program`] for how.
    MainReturned,
}

/// Waits for a moment while events pass by.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) point: PointInTime,
    /// Counts how often the moment came; the last time counts.
    pub(crate) taken: u64,
    /// The moment is not over: if nothing follows, it is the end of the trace.
    pending: bool,
    pub(crate) time: TimestampNs,
    main_program: MainProgram,
}

impl Watch {
    pub(crate) fn new(point: PointInTime) -> Watch {
        let pending = matches!(point, PointInTime::End | PointInTime::Time(_));
        Watch { point, taken: 0, pending, time: TimestampNs::default(), main_program: MainProgram::default() }
    }

    /// Looks at an event before it changes anything.
    #[inline]
    pub(crate) fn see(&mut self, event: &BlockEvent, state: &State<'_>) {
        if self.point == PointInTime::MainReturned {
            let shown = self.main_program.shows(event, state.stacks);
            self.go_on(shown.unwrap_or(self.pending), event.at.time);
        } else {
            self.see_moment(&event.at, state);
        }
    }

    /// The same of any other event: they change nothing, but time passes, and steps.
    #[inline]
    pub(crate) fn see_moment(&mut self, at: &Moment, state: &State<'_>) {
        let pending = match self.point {
            PointInTime::Peak | PointInTime::End | PointInTime::MainReturned => return,
            PointInTime::Time(until) => self.pending && at.time <= until,
            PointInTime::StepEnd(number) => {
                let steps = state.steps;
                // What comes before the first mark is step 1, if marks make the steps, which is not known yet.
                let now = if steps.source().is_none() { Some(1) } else { steps.number(at.step) };
                // No event was in it, and its end is over.
                if self.taken == 0 && !self.pending && now.unwrap_or(steps.count() + 1) > number {
                    self.go_on(true, at.time);
                }
                now == Some(number)
            }
        };
        self.go_on(pending, at.time);
    }

    fn go_on(&mut self, pending: bool, time: TimestampNs) {
        if self.pending && !pending {
            self.taken += 1;
        }
        self.pending = pending;
        if pending {
            self.time = time;
        }
    }

    /// The moment came and is over, as far as events up to now tell: how often it came.
    #[inline]
    pub(crate) fn is_over(&self) -> Option<u64> {
        (!self.pending && self.taken > 0 && !self.main_program.goes_on()).then_some(self.taken)
    }

    /// Where what was held is found: `None` if the moment never came.
    pub(crate) fn found(&self) -> Option<Found> {
        match (self.pending, self.taken) {
            (true, _) => Some(Found::AtTheEnd),
            (false, 0) => None,
            (false, _) if self.main_program.goes_on() => None,
            (false, _) => Some(Found::Saved),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Saved,
    AtTheEnd,
}

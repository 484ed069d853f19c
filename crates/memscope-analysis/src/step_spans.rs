//! When the steps of a trace began and ended.
use crate::step_watch::StepWatch;
use memscope_model::{Moment, NoteKind, State, StepSource, Steps, TimestampNs, TraceEvent, TraceSink};
use std::ops::ControlFlow;

/// A step from its beginning to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepSpan {
    pub number: u32,
    pub begin: TimestampNs,
    /// `None` if the trace does not have it.
    pub end: Option<TimestampNs>,
}

/// Follows a trace. Grows with the steps.
#[derive(Clone, Debug, Default)]
pub struct StepSpans {
    watch: StepWatch,
    /// When the time that is chosen began, of which the first step is a part if calls of `step()` make them.
    first: Option<TimestampNs>,
    /// When something last came that ends a step: it is over only after that.
    ending: TimestampNs,
    /// By number, from 1.
    spans: Vec<StepSpan>,
}

impl StepSpans {
    /// In the order of their numbers; `steps` as they are at the end of the trace.
    pub fn finish(mut self, steps: &Steps) -> Vec<StepSpan> {
        if self.watch.has_news(steps) {
            self.update(self.ending, steps);
        }
        self.spans
    }

    #[cold]
    fn update(&mut self, now: TimestampNs, steps: &Steps) {
        let is_first = self.spans.is_empty();
        let change = self.watch.update(steps);
        if is_first && !change.was_no_step {
            self.spans.push(StepSpan { number: 1, begin: self.first.unwrap_or(now), end: None });
        }
        for number in change.ended {
            self.end(number);
        }
        let begin = if steps.source() == Some(StepSource::Marks) { self.ending } else { now };
        for number in change.began {
            self.spans.push(StepSpan { number, begin, end: None });
            if !self.watch.running().contains(&number) {
                self.end(number);
            }
        }
    }

    fn end(&mut self, number: u32) {
        let place = (number as usize).checked_sub(1);
        if let Some(span) = place.and_then(|place| self.spans.get_mut(place)) {
            span.end = Some(self.ending.max(span.begin));
        }
    }
}

impl TraceSink for StepSpans {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        let (at, is_ending): (&Moment, bool) = match event {
            TraceEvent::Memory(event) => (&event.at, false),
            TraceEvent::Note(note) => (&note.at, matches!(note.kind, NoteKind::Step(_) | NoteKind::RangeEnd { .. })),
            _ => return ControlFlow::Continue(()),
        };
        if state.chosen {
            self.first.get_or_insert(at.time);
        }
        if self.watch.has_news(state.steps) {
            self.update(at.time, state.steps);
        }
        if is_ending {
            self.ending = at.time;
        }
        ControlFlow::Continue(())
    }
}

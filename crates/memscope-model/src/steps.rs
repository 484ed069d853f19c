//! The steps of a training: which one the trace is in.
use rustc_hash::FxHashMap;

/// The text of a range that is a step.
pub const STEP_TEXT: &str = "step start";

/// Where among the steps something happened. What that means is known only when the first step shows how the program
/// marks them, which may be later: [`Steps::number`] tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StepId(pub u32);

/// What makes steps. The two ways exclude each other: whichever came first counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepSource {
    /// Ranges of the text [`STEP_TEXT`]; what is outside of them is in no step.
    Ranges,
    /// Calls of `step()`; the n-th ends step n, and what comes before the first is step 1.
    Marks,
}

/// The steps so far.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    source: Option<StepSource>,
    /// Of marks: how many came. Of ranges: how many began.
    count: u32,
    /// Open step ranges by number of the range: that of the step.
    open: FxHashMap<u64, u32>,
    current: StepId,
}

impl Steps {
    /// What makes steps in this trace; `None` before the first.
    pub fn source(&self) -> Option<StepSource> {
        self.source
    }

    /// Where the trace is.
    #[inline]
    pub fn current(&self) -> StepId {
        self.current
    }

    /// The number of the step, from 1; `None` outside of all steps.
    pub fn number(&self, step: StepId) -> Option<u32> {
        match self.source? {
            StepSource::Marks => Some(step.0.saturating_add(1)),
            StepSource::Ranges => (step.0 > 0).then_some(step.0),
        }
    }

    /// How many steps began.
    pub fn count(&self) -> u32 {
        match self.source {
            Some(StepSource::Marks) => self.count.saturating_add(1),
            _ => self.count,
        }
    }

    /// How many calls of `step()` came, if they make the steps.
    pub(crate) fn marks(&self) -> u32 {
        if self.source == Some(StepSource::Marks) { self.count } else { 0 }
    }

    /// The numbers of the step ranges that are open.
    pub(crate) fn open_ranges(&self) -> impl Iterator<Item = u32> + '_ {
        self.open.values().copied()
    }

    pub(crate) fn mark(&mut self) {
        if *self.source.get_or_insert(StepSource::Marks) == StepSource::Marks {
            self.count = self.count.saturating_add(1);
            self.current = StepId(self.count);
        }
    }

    pub(crate) fn range_start(&mut self, id: u64, text: &str) {
        if text == STEP_TEXT && *self.source.get_or_insert(StepSource::Ranges) == StepSource::Ranges {
            self.count = self.count.saturating_add(1);
            self.open.insert(id, self.count);
            self.current = StepId(self.count);
        }
    }

    pub(crate) fn range_end(&mut self, id: u64) {
        if self.open.remove(&id).is_some() {
            self.current = StepId(self.open.values().copied().max().unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_first_mark_is_step_one() {
        let mut steps = Steps::default();
        let before = steps.current();
        assert_eq!((steps.number(before), steps.count()), (None, 0));
        steps.mark();
        let after = steps.current();
        assert_eq!((steps.number(before), steps.number(after), steps.count()), (Some(1), Some(2), 2));
    }

    #[test]
    fn what_is_outside_of_ranges_is_in_no_step() {
        let mut steps = Steps::default();
        let before = steps.current();
        steps.range_start(7, STEP_TEXT);
        let first = steps.current();
        steps.range_start(8, "something else");
        steps.range_start(9, STEP_TEXT);
        let nested = steps.current();
        steps.range_end(9);
        assert_eq!(steps.current(), first);
        steps.range_end(7);
        steps.range_end(8);
        assert_eq!(steps.current(), before);
        let numbers = [before, first, nested].map(|step| steps.number(step));
        assert_eq!((numbers, steps.count()), ([None, Some(1), Some(2)], 2));
    }

    #[test]
    fn the_way_that_came_first_counts() {
        let mut steps = Steps::default();
        steps.mark();
        steps.range_start(1, STEP_TEXT);
        assert_eq!((steps.source(), steps.count()), (Some(StepSource::Marks), 2));
    }
}

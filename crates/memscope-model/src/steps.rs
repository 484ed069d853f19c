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

impl StepSource {
    /// The number of the step, from 1; `None` outside of all steps.
    pub fn number(self, step: StepId) -> Option<u32> {
        match self {
            StepSource::Marks => Some(step.0.saturating_add(1)),
            StepSource::Ranges => (step.0 > 0).then_some(step.0),
        }
    }
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
    /// Counts the beginnings and ends of steps.
    changes: u64,
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
        self.source?.number(step)
    }

    /// How many steps began.
    pub fn count(&self) -> u32 {
        match self.source {
            Some(StepSource::Marks) => self.count.saturating_add(1),
            _ => self.count,
        }
    }

    /// The numbers of the steps that run now, in no order: ranges may lie within each other, or overlap.
    pub fn running(&self) -> impl Iterator<Item = u32> + '_ {
        let by_marks = (self.source == Some(StepSource::Marks)).then(|| self.count());
        self.open_ranges().chain(by_marks)
    }

    /// Moves on whenever a step begins or ends; 0 before the first.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
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
            self.changes += 1;
        }
    }

    pub(crate) fn range_start(&mut self, id: u64, text: &str) {
        if text == STEP_TEXT && *self.source.get_or_insert(StepSource::Ranges) == StepSource::Ranges {
            self.count = self.count.saturating_add(1);
            self.open.insert(id, self.count);
            self.current = StepId(self.count);
            self.changes += 1;
        }
    }

    pub(crate) fn range_end(&mut self, id: u64) {
        if self.open.remove(&id).is_some() {
            self.current = StepId(self.open.values().copied().max().unwrap_or(0));
            self.changes += 1;
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
    fn ranges_that_overlap_run_together() {
        let mut steps = Steps::default();
        let running = |steps: &Steps| {
            let mut running: Vec<u32> = steps.running().collect();
            running.sort_unstable();
            (running, steps.changes())
        };
        assert_eq!(running(&steps), (vec![], 0));
        steps.range_start(7, STEP_TEXT);
        steps.range_start(8, STEP_TEXT);
        assert_eq!(running(&steps), (vec![1, 2], 2));
        steps.range_end(7);
        steps.range_end(7);
        assert_eq!(running(&steps), (vec![2], 3));
        let mut steps = Steps::default();
        steps.mark();
        assert_eq!(running(&steps), (vec![2], 1));
    }

    #[test]
    fn the_way_that_came_first_counts() {
        let mut steps = Steps::default();
        steps.mark();
        steps.range_start(1, STEP_TEXT);
        assert_eq!((steps.source(), steps.count()), (Some(StepSource::Marks), 2));
    }
}

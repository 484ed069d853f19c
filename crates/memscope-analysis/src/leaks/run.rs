//! The moments of a run at which memory is compared: the ends of its steps, or of equal parts of its time.
use super::row::Scale;
use super::run_clock::RunClock;
use memscope_model::{StepId, StepSource, Steps, TimestampNs};

/// The most places of a row: steps, and parts of the time.
const MOST_STEPS: u32 = 1024;
const MOST_PARTS: u32 = 64;
/// The shortest part of the time, about an eighth of a millisecond, as a power of two of nanoseconds.
const PART_SHIFT: u32 = 17;

/// The moments so far. Time counts until the first step shows that there are steps.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    axis: Axis,
    pub(super) scale: Scale,
    /// How many are over.
    pub(super) passed: u32,
}

#[derive(Clone, Debug)]
enum Axis {
    Time(RunClock),
    Steps(StepEdges),
}

/// Where steps begin and end.
#[derive(Clone, Debug, Default)]
struct StepEdges {
    /// By step, from the first: the event with which it began.
    starts: Vec<u64>,
    /// The event with which the newest step that is over ended.
    last_end: u64,
    current: StepId,
    /// The newest step is not over.
    open: bool,
}

/// What happened to the moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// There are steps: what was known of time is void.
    Anew,
    /// So many are over.
    Passed(u32),
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { axis: Axis::Time(RunClock::default()), scale: Scale::new(MOST_PARTS), passed: 0 }
    }
}

impl Moments {
    /// Looks at the time and the steps of an event before it changes anything; `is_import` if the event tells.
    #[inline]
    pub(super) fn see(
        &mut self,
        event: u64,
        time: TimestampNs,
        steps: &Steps,
        is_import: Option<bool>,
    ) -> Option<Turn> {
        match &mut self.axis {
            Axis::Time(_) if steps.source().is_some() => {
                // What comes before the first mark is step 1.
                let mut edges = StepEdges::default();
                if steps.source() == Some(StepSource::Marks) {
                    edges.starts.push(0);
                    edges.open = true;
                }
                self.axis = Axis::Steps(edges);
                (self.scale, self.passed) = (Scale::new(MOST_STEPS), 0);
                Some(Turn::Anew)
            }
            Axis::Time(clock) => {
                let passed = moment_of(clock.see(time, is_import));
                (passed > self.passed).then_some(Turn::Passed(passed))
            }
            Axis::Steps(edges) => {
                if edges.starts.len() == steps.count() as usize && edges.current == steps.current() {
                    return None;
                }
                let over = edges.see(event, steps);
                (over > self.passed).then_some(Turn::Passed(over))
            }
        }
    }

    pub(super) fn has_steps(&self) -> bool {
        matches!(self.axis, Axis::Steps(_))
    }

    /// The number of steps that began.
    pub(super) fn steps(&self) -> usize {
        match &self.axis {
            Axis::Time(_) => 0,
            Axis::Steps(edges) => edges.starts.len(),
        }
    }

    /// Nanoseconds of the time of a place, and when the first began.
    pub(super) fn time(&self) -> (TimestampNs, u64) {
        let start = match self.axis {
            Axis::Time(ref clock) => clock.start(),
            Axis::Steps(_) => TimestampNs::default(),
        };
        (start, u64::from(self.scale.width()) << PART_SHIFT)
    }

    /// How many places there are up to a time.
    pub(super) fn places(&self, until: Option<TimestampNs>) -> usize {
        let passed = match (&self.axis, until) {
            (Axis::Time(clock), Some(until)) => self.passed.min(moment_of(clock.read(until))),
            _ => self.passed,
        };
        self.scale.places(passed, self.passed)
    }

    /// Where something belongs that was made then.
    pub(super) fn of(&self, event: u64, time: TimestampNs) -> Made {
        match &self.axis {
            Axis::Time(clock) => {
                let last = self.passed.saturating_sub(1);
                Made::In { moment: moment_of(clock.read(time)).min(last) }
            }
            Axis::Steps(edges) => match edges.starts.partition_point(|start| *start <= event) {
                0 => Made::Before,
                _ if event >= edges.last_end => Made::TooLate,
                step => Made::In { moment: step as u32 - 1 },
            },
        }
    }
}

/// A run's allocations, imports left out, in equal parts: how far a program has come with its work, whatever else the machine
/// had to do meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Work {
    allocations: u64,
    pub(super) scale: Scale,
    pub(super) passed: u32,
}

/// Allocations of a moment, as a power of two.
const WORK_SHIFT: u32 = 6;

impl Default for Work {
    fn default() -> Work {
        Work { allocations: 0, scale: Scale::new(MOST_PARTS), passed: 0 }
    }
}

impl Work {
    /// One more; how many moments are over, if that is news.
    #[inline]
    pub(super) fn see(&mut self) -> Option<u32> {
        self.allocations += 1;
        let passed = u32::try_from(self.allocations >> WORK_SHIFT).unwrap_or(u32::MAX);
        (passed > self.passed).then_some(passed)
    }
}

/// When something was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made {
    /// Before the first step.
    Before,
    /// In a step, or between it and the next one.
    In { moment: u32 },
    /// After the end of the last step that ended: it did not outlive any.
    TooLate,
}

fn moment_of(nanoseconds: u64) -> u32 {
    u32::try_from(nanoseconds >> PART_SHIFT).unwrap_or(u32::MAX)
}

impl StepEdges {
    /// The steps that are over now. One is over when its range ends, or when the next one begins, or by the call of `step()`.
    fn see(&mut self, event: u64, steps: &Steps) -> u32 {
        let count = steps.count();
        let has_begun = count as usize > self.starts.len();
        let was_open = std::mem::replace(&mut self.open, steps.number(steps.current()) == Some(count));
        self.starts.resize(count as usize, event);
        self.current = steps.current();
        let over = if has_begun || self.open { count.saturating_sub(1) } else { count };
        if was_open && (has_begun || !self.open) {
            self.last_end = event;
        }
        over
    }
}

//! Which steps began and ended since the event before.
use memscope_model::{StepSource, Steps};
use std::ops::RangeInclusive;

/// Follows the steps of a trace from event to event. Steps that no event fell into are not forgotten.
#[derive(Clone, Debug)]
pub(crate) struct StepWatch {
    changes: u64,
    /// How many began.
    began: u32,
    running: Vec<u32>,
}

/// What became of the steps; in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StepChange {
    /// Ranges make the steps: what was taken for step 1 was none.
    pub(crate) was_no_step: bool,
    pub(crate) ended: Vec<u32>,
    /// Those that began. All are over but the ones of `running`.
    pub(crate) began: RangeInclusive<u32>,
}

impl Default for StepWatch {
    /// What comes before the first mark is step 1, unless ranges make the steps, which is not known yet.
    fn default() -> StepWatch {
        StepWatch { changes: 0, began: 1, running: vec![1] }
    }
}

impl StepWatch {
    #[inline]
    pub(crate) fn has_news(&self, steps: &Steps) -> bool {
        self.changes != steps.changes()
    }

    pub(crate) fn running(&self) -> &[u32] {
        &self.running
    }

    pub(crate) fn update(&mut self, steps: &Steps) -> StepChange {
        let was_no_step = self.changes == 0 && steps.source() == Some(StepSource::Ranges);
        if was_no_step {
            self.began = 0;
            self.running.clear();
        }
        let mut running: Vec<u32> = steps.running().collect();
        running.sort_unstable();
        let ended = self.running.iter().copied().filter(|number| running.binary_search(number).is_err()).collect();
        let began = self.began + 1..=steps.count();
        *self = StepWatch { changes: steps.changes(), began: steps.count(), running };
        StepChange { was_no_step, ended, began }
    }
}

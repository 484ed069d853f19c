//! What watches a trace for the report of its process.
use crate::analyze::{Analysts, Wishes};
use crate::settings::Analysis;
use memscope_analysis::{PointInTime, UsageTally};
use memscope_model::{Process, TraceSink};

/// All of a process, in one pass.
pub struct Analyses {
    pub(super) usage: UsageTally,
    /// Those of the table of analyses that the run was asked for.
    pub(super) asked_for: Analysts,
}

impl Analyses {
    /// As the run was asked for.
    pub fn of_recording(process: &Process) -> Analyses {
        Analyses::of(process, &Analysis::of_recording(&process.settings()))
    }

    pub fn of(process: &Process, analysis: &Analysis) -> Analyses {
        let settings = process.settings();
        // Without Python stacks it is not known when main returned.
        let usage = match settings.has_python_stacks() {
            true => UsageTally::at(&[PointInTime::MainReturned]),
            false => UsageTally::new(),
        };
        let wishes = Wishes { oom_listed: analysis.oom, ..Wishes::default() };
        Analyses { usage, asked_for: Analysts::of_run(analysis, &wishes) }
    }

    /// Of dump files, which do not say what was recorded.
    pub fn of_dump() -> Analyses {
        let asked_for = Analysts::of_run(&Analysis::DEFAULT, &Wishes::default());
        Analyses { usage: UsageTally::at(&[PointInTime::MainReturned]), asked_for }
    }

    /// What has to see the trace.
    pub fn sinks(&mut self) -> Vec<&mut dyn TraceSink> {
        let mut sinks: Vec<&mut dyn TraceSink> = vec![&mut self.usage];
        sinks.extend(self.asked_for.sinks());
        sinks
    }
}

//! The analyses that watch a trace for the report of its process: the one list of them.
use memscope_analysis::{PointInTime, UsageTally};
use memscope_model::{Process, TraceSink};

/// All of a process, in one pass.
pub struct Analyses {
    pub(super) usage: UsageTally,
}

impl Analyses {
    pub fn of_recording(process: &Process) -> Analyses {
        // Without Python stacks it is not known when main returned.
        let has_python = process.settings().has_python_stacks();
        let usage = if has_python { UsageTally::at(&[PointInTime::MainReturned]) } else { UsageTally::new() };
        Analyses { usage }
    }

    /// Of dump files, which do not say what was recorded.
    pub fn of_dump() -> Analyses {
        Analyses { usage: UsageTally::at(&[PointInTime::MainReturned]) }
    }

    /// What has to see the trace.
    pub fn sinks(&mut self) -> [&mut dyn TraceSink; 1] {
        [&mut self.usage]
    }
}

//! A pass over a trace that whoever waits for it may break off.
use memscope_model::{ModelError, Outcome, Status, TraceSink, TraceSource};
use std::ops::ControlFlow;

/// Is told how much of all is done, and says whether to go on.
pub type Progress<'p> = dyn FnMut(f64) -> ControlFlow<()> + Send + 'p;

/// As [`TraceSource::run`]; broken off it is [`ModelError::Interrupted`].
pub(crate) fn pass(
    trace: &mut dyn TraceSource,
    sinks: &mut [&mut dyn TraceSink],
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Outcome, ModelError> {
    trace.rewind();
    while trace.step(sinks)? == Status::More {
        if progress(trace.progress()).is_break() {
            return Err(ModelError::Interrupted);
        }
    }
    let outcome = trace.outcome();
    match progress(1.0) {
        ControlFlow::Continue(()) => Ok(outcome),
        ControlFlow::Break(()) => Err(ModelError::Interrupted),
    }
}

/// For whoever only wants to show how far it is.
pub fn going_on(report: &mut (dyn FnMut(f64) + Send)) -> impl FnMut(f64) -> ControlFlow<()> + Send {
    |fraction| {
        report(fraction);
        ControlFlow::Continue(())
    }
}

//! Conclusions from a replay: pure functions and accumulators, no input, no output.
//!
//! [`UsageTally`] is a [`memscope_model::TraceSink`]: it says where the memory was at the peak, where it is at the end, and
//! where it was at other moments ([`PointInTime`]), by call stack, in a single pass and constant time an event.
//! [`Fluctuation`] says how it went up and down, [`Decomposition`] who owned it.
//! [`watch::WatchTally`] says who changed a watched block.
//! [`oom::OomWatch`] says what was going on when memory ran out.
//!
//! The caller's duties: give it all events of one process, in the order of the trace; stacks are numbers of that
//! process, spelled by its [`memscope_model::Stacks`].
//!
//! What it is not: it formats nothing and knows no file.
#![forbid(unsafe_code)]

mod compare;
mod decomposition;
mod fluctuation;
mod held;
mod holders;
mod inefficient;
pub mod leaks;
mod main_program;
pub mod oom;
mod point_in_time;
pub mod python_code;
mod step_spans;
mod step_watch;
mod time_bins;
mod usage;
pub mod watch;

pub use compare::{Aligned, Alignment, Launch, LaunchKind, LaunchTally, Launches, Levels, OwnerTally, Run};
pub use decomposition::{
    Decomposition, DecompositionReport, DeviceDecomposition, DeviceMoment, OwnerLevel, OwnerNode, PoolDecomposition,
    StepDecomposition,
};
pub use fluctuation::{Basis, Bin, Fluctuation, FluctuationReport, Gap, Gaps, Peak, PoolFluctuation, Reserve, StepUse};
pub use held::Held;
pub use holders::{Holder, Making, OwnerShare};
pub use inefficient::{
    Inefficiency, InefficiencyReport, InefficiencySettings, InefficiencyTally, InefficientPool, WorstBlock,
};
pub use point_in_time::PointInTime;
pub use step_spans::{StepSpan, StepSpans};
pub use usage::{Holdings, PoolTally, StackUsage, UsageTally};

//! Conclusions from a replay: pure functions and accumulators, no input, no output.
//!
//! [`UsageTally`] is a [`memscope_model::TraceSink`]: it says where the memory was at the peak, where it is at the end, and
//! where it was at other moments ([`PointInTime`]), by call stack, in a single pass and constant time an event.
//!
//! The caller's duties: give it all events of one process, in the order of the trace; stacks are numbers of that
//! process, spelled by its [`memscope_model::Stacks`].
//!
//! What it is not: it formats nothing and knows no file.
#![forbid(unsafe_code)]

pub mod leaks;
mod main_program;
mod point_in_time;
mod usage;

pub use point_in_time::PointInTime;
pub use usage::{Held, Holdings, PoolTally, StackUsage, UsageTally};

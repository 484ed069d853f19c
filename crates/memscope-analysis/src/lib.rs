//! Conclusions from a replay: pure functions and accumulators, no input, no output.
//!
//! [`Usage`] is fed each event of [`memscope_model::Process::replay`] and then says where the memory was at the
//! peak and where it is at the end, by call stack, in a single pass and constant time an event. [`leaks`] groups the
//! blocks that were never freed.
//!
//! The caller's duties: feed all events of one process, in the order of the replay; stacks are numbers of that
//! process, spelled by its [`memscope_model::Stacks`].
//!
//! What it is not: it formats nothing and knows no file.
#![forbid(unsafe_code)]

mod leak;
mod usage;

pub use leak::{Leak, leaks};
pub use usage::{PoolTally, StackUsage, Usage};

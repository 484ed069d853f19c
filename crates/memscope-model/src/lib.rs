//! A recorded process as one stream of memory events in time order, each with its block, its stack and the running
//! total.
//!
//! [`find_processes`] finds what was recorded below an output directory, [`Process::open`] opens one process, and
//! [`Process::replay`] streams its events: the lanes of the spool are merged by time, frees are joined to their
//! allocations, mappings are cut where they are unmapped in part, and the stacks of all lanes become one set of
//! [`StackId`]s. What stays in memory is one block a lane, the live blocks and the distinct stacks, so the length of
//! a recording does not matter. At the end [`Outcome`] says what is alive, what the peaks were, and what is missing.
//!
//! The caller's duties: none; any bytes may be in the directory. What is damaged is left out and named in
//! [`Outcome::damage`].
//!
//! What it is not: it knows neither names nor lines (that is `memscope-symbols`) and draws no conclusions (that is
//! `memscope-analysis`).
#![cfg_attr(not(any(test, feature = "testing")), forbid(unsafe_code))]
// The spool builder of the tests calls the recorder's encoder, which writes through raw pointers.
#![cfg_attr(any(test, feature = "testing"), deny(unsafe_code))]

mod books;
mod directory;
mod error;
mod event;
mod lane;
mod outcome;
mod process;
mod replay;
mod settings;
mod stacks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use directory::{Found, find_processes, survey_processes};
pub use error::ModelError;
pub use event::{Action, BlockId, Device, MemoryEvent, Origin, Pool};
pub use memscope_format::decode::{ProcessInfo, ProcessState};
pub use outcome::{LiveBlock, Outcome, PoolUsage};
pub use process::Process;
pub use stacks::{Code, CodeId, Frame, Module, ModuleId, StackId, Stacks};

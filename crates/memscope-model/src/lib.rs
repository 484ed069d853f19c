//! A recorded process as a trace: one stream of events in time order, for many consumers. Events are of blocks
//! ([`BlockEvent`]: a [`Block`] begins or ends at a [`Moment`]), or notes (marks, steps, refused allocations, launches and
//! executions of kernels).
//!
//! A [`TraceSource`] hands events to [`TraceSink`]s, all in one pass, with the [`State`] after each: stacks, names, owners,
//! steps, live blocks. [`Process`] is the source that reads a spool: [`find_processes`] finds what was recorded below an
//! output directory, [`Process::open`] opens one. The lanes of the spool are merged by time, frees are joined to their
//! allocations, mappings are cut where they are unmapped in part, device numbers become physical ones, and the stacks of
//! all lanes become one set of [`StackId`]s. A [`Ledger`] does the same bookkeeping for sources that are files. What stays
//! in memory is one block of bytes a lane, the live blocks and the distinct stacks, so the length of a recording does not
//! matter. At the end [`Outcome`] says what is alive, what the peaks were, and what is missing.
//!
//! The books are kept of everything. Events of devices that were not asked for are not given to sinks; those outside the
//! chosen time say so in [`BlockEvent::selection`].
//!
//! The caller's duties: none; any bytes may be in the directory. What is damaged is left out and named in
//! [`Outcome::damage`].
//!
//! What it is not: it knows neither names nor lines (that is `memscope-symbols`) and draws no conclusions (that is
//! `memscope-analysis`).
#![forbid(unsafe_code)]

mod address_ranges;
mod annotations;
mod books;
mod device_books;
mod device_clock;
mod device_numbers;
mod directory;
mod error;
mod event;
mod facts;
mod host_books;
mod kernel_books;
mod labels;
mod lane;
mod last_frees;
mod ledger;
mod names;
mod operators;
mod outcome;
mod owners;
mod phases;
mod process;
mod python_calls;
mod ranges;
mod refusals;
mod replay;
mod selection;
mod stacks;
mod state;
mod steps;
mod task_log;
#[cfg(test)]
mod tests;
mod trace;
pub mod watch;

pub use annotations::{Annotations, Inefficiencies};
pub use directory::{FoundProcesses, find_processes, survey_processes};
pub use error::ModelError;
pub use event::{
    Access, AccessMode, AccessedBlock, AtbOperator, BlockId, Device, DeviceRoom, DriverTraits, HostCall, KernelPhase,
    NoteEvent, NoteKind, Origin, PageSize, Phase, Pool, RefusalList, RefusedCall, SnapshotMemory, StreamHandle,
    TensorOwner,
};
pub use facts::{Damage, NothingChosen, Problem, RowPlace, StopReason, Stopped};
pub use kernel_books::KernelCounts;
pub use ledger::{Circumstances, Ledger, NewBlock, OldBlock};
pub use memscope_format::decode::{ProcessInfo, ProcessState};
pub use memscope_format::layout::notes as header_notes;
pub use memscope_format::layout::{SPOOL_DIRECTORY, WINDOWS_FILE};
pub use memscope_format::record::{DevAddr, HostAddr, TimestampNs};
pub use memscope_format::settings::{self as record_settings, RecordSettings};
pub use names::{Name, NameId, Names};
pub use outcome::{OutOfMemory, Outcome, PoolUsage};
pub use owners::{OwnerId, Owners};
pub use process::Process;
pub use python_calls::{PythonCall, PythonCalls};
pub use stacks::{Code, CodeId, Frame, Module, ModuleId, NodeId, StackId, Stacks, TextId};
pub use state::State;
pub use steps::{STEP_TEXT, StepId, StepSource, Steps};
pub use trace::{Action, Block, BlockEvent, Moment, Selection, Status, TraceEvent, TraceInfo, TraceSink, TraceSource};

//! What a recording says, for a person to read.
mod analyses;
mod completeness;
pub mod ends;
pub mod holders;
mod own_allocator;
pub(crate) mod process;
pub(crate) mod quantity;
pub mod resident_size;
mod run;
pub mod summary;
mod tables;
pub(crate) mod words;

pub use analyses::Analyses;
pub use process::ProcessReport;
pub use run::{ReportOutcome, report_run};

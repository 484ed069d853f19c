//! What a recording says, for a person to read.
mod call_site;
pub mod ends;
mod own_allocator;
pub(crate) mod process;
pub(crate) mod quantity;
pub mod resident_size;
mod run;
pub mod summary;
mod words;

pub use process::ProcessReport;
pub use run::{ReportOutcome, report_run};

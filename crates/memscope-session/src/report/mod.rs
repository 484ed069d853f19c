//! What a recording says, for a person to read.
mod call_site;
pub mod ends;
mod own_allocator;
mod process;
mod quantity;
pub mod resident_size;
mod run;
pub mod summary;
mod words;

pub use process::ProcessReport;
pub use run::{ReportOutcome, report_run};

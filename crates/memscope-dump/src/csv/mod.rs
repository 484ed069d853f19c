//! The csv form of a dump: RFC 4180 with `\n` line ends.
pub(crate) mod read;
mod write;

pub use write::CsvWriter;

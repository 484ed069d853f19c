//! The csv form of a dump: RFC 4180 with `\n` line ends.
mod write;

pub use write::CsvWriter;

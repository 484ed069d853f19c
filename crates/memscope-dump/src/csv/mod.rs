//! The csv form of a dump: RFC 4180 with `\n` line ends. The table of stacks is a file of its own beside the rows.
mod calls;
mod files;
pub(crate) mod read;
pub(crate) mod write;

pub(crate) use files::{call_bytes, frame_bytes, open, row_bytes};
pub use write::CsvWriter;
pub(crate) use write::push_plain;

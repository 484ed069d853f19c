//! The SQLite form of a dump.
mod files;
mod write;

pub(crate) use files::{frame_bytes, open, row_bytes};
pub use write::DbWriter;

//! The SQLite form of a dump.
mod files;
pub(crate) mod read;
mod write;

pub(crate) use files::{call_bytes, frame_bytes, open, row_bytes};
pub use write::DbWriter;

/// Says in the header of a database that it was written here: its texts have no quotes around them.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"msms");

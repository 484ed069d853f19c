//! The SQLite form of a dump.
pub(crate) mod read;
mod write;

pub use write::DbWriter;
pub(crate) use write::Written;

/// Says in the header of a database that it was written here: its texts have no quotes around them.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"msms");

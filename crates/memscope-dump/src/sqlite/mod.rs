//! The SQLite form of a dump.
mod write;

pub use write::DbWriter;
pub(crate) use write::Written;

//! Dump files as traces: those written here, and those of the existing tool in both its generations.
//!
//! A row's way: [`crate::csv`] or [`crate::sqlite`] finds its cells, [`row`] makes a [`record::Record`] of them, which has
//! a fixed size, [`runs`] puts the records of all files of a process in the order of time, and [`source::FileSource`] has
//! a [`memscope_model::Ledger`] make events of them.
pub(crate) mod attributes;
pub(crate) mod cells;
pub(crate) mod error;
mod frames;
mod note;
mod record;
mod row;
mod runs;
pub(crate) mod source;
pub(crate) mod sources;

use self::cells::RowCells;
use self::error::ReadError;
use memscope_model::RowPlace;
use std::borrow::Cow;
use std::path::Path;

/// What became of a row: its cells, or why it has none.
pub(crate) type FoundRow<'a> = Result<&'a RowCells<'a>, Cow<'static, str>>;

/// Gives a row and where it stands to whoever reads the file.
pub(crate) type VisitRow<'a> = &'a mut dyn FnMut(RowPlace, FoundRow<'_>);

/// Rows, in the order of the file.
pub(crate) trait RowFile {
    fn path(&self) -> &Path;

    /// Goes on for some thousand rows; `false` if there are no more.
    fn read_some(&mut self, visit: VisitRow<'_>) -> Result<bool, ReadError>;

    /// The rows of the stacks that rows of the file refer to; none, if the file has them in its rows.
    fn read_stacks(&mut self, visit: VisitRow<'_>) -> Result<(), ReadError>;

    /// Whether texts that a csv would have in quotes have them here.
    fn has_quoted_texts(&self) -> bool;

    /// How much of the file was read, from 0 to 1.
    fn progress(&self) -> f64;
}

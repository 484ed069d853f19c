//! The forms files can have. This table is all that knows them: a new form is a row here, its words below, and a module
//! with its [`DumpWriter`].
use crate::brand::Brand;
use crate::destination::PartialFile;
use crate::error::ExportError;
use crate::problem::Problem;
use crate::rows::{CallRow, FrameRow, Row};
use crate::{csv, sqlite};
use std::path::PathBuf;

/// What the files are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Csv,
    Db,
    /// The recording is all.
    NoFiles,
}

/// In the order of [`Format`]; a place is what a recording keeps, so new ones go to the end.
static FORMATS: [FormatSpec; 3] = [
    FormatSpec {
        format: Format::Csv,
        word: "csv",
        for_viewer: false,
        files: Some(FormatFiles {
            open: csv::open,
            row_bytes: csv::row_bytes,
            frame_bytes: csv::frame_bytes,
            call_bytes: csv::call_bytes,
        }),
    },
    FormatSpec {
        format: Format::Db,
        word: "db",
        for_viewer: true,
        files: Some(FormatFiles {
            open: sqlite::open,
            row_bytes: sqlite::row_bytes,
            frame_bytes: sqlite::frame_bytes,
            call_bytes: sqlite::call_bytes,
        }),
    },
    FormatSpec { format: Format::NoFiles, word: "none", for_viewer: false, files: None },
];

/// For messages, help and completions.
pub const FORMAT_WORDS: &[&str] = &["csv", "db", "none"];
pub const FORMAT_CHOICES: &str = "csv, db, none";
pub const FORMAT_HELP: &str = "Format of the exported files: csv, db for MindStudio Insight, or none: summary and \
                               recording only, files by a later export [default: csv; of export: that of the run]";

struct FormatSpec {
    format: Format,
    /// On the command line; also the extension of the files.
    word: &'static str,
    /// Rows are arranged for MindStudio Insight, and its limits count.
    for_viewer: bool,
    files: Option<FormatFiles>,
}

/// How files of a format are made.
pub(crate) struct FormatFiles {
    pub(crate) open: fn(&FileNames) -> Result<Box<dyn DumpWriter>, ExportError>,
    /// What a row takes, rather more than less.
    pub(crate) row_bytes: fn(&Row<'_>) -> u64,
    pub(crate) frame_bytes: fn(&FrameRow<'_>) -> u64,
    pub(crate) call_bytes: fn(&CallRow<'_>) -> u64,
}

impl Format {
    pub fn all() -> impl Iterator<Item = Format> {
        FORMATS.iter().map(|spec| spec.format)
    }

    /// On the command line; also the extension of the files.
    pub fn word(self) -> &'static str {
        self.spec().word
    }

    pub fn from_word(word: &str) -> Option<Format> {
        Format::all().find(|format| format.word() == word)
    }

    /// As recordings keep it.
    pub const fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<Format> {
        Format::all().find(|format| format.code() == code)
    }

    pub(crate) fn is_for_viewer(self) -> bool {
        self.spec().for_viewer
    }

    /// `None` if there are none.
    pub(crate) fn files(self) -> Option<&'static FormatFiles> {
        self.spec().files.as_ref()
    }

    fn spec(self) -> &'static FormatSpec {
        &FORMATS[usize::from(self.code())]
    }
}

/// Where the rows of one device go.
pub(crate) struct FileNames {
    pub(crate) dump: PathBuf,
    /// The table of stacks, if it is a file of its own.
    pub(crate) stacks: PathBuf,
    pub(crate) brand: Brand,
    /// In the names of files.
    pub(crate) time: String,
}

/// Writes the files of one device under temporary names; dropped, it leaves none.
pub(crate) trait DumpWriter {
    fn row(&mut self, row: &Row<'_>) -> Result<(), ExportError>;

    /// The next row of the table of stacks.
    fn frame(&mut self, row: &FrameRow<'_>) -> Result<(), ExportError>;

    /// Calls come thread by thread.
    fn call(&mut self, row: &CallRow<'_>) -> Result<(), ExportError>;

    /// Whether a viewer would refuse the file for want of a second row.
    fn wants_second_row(&self) -> bool {
        false
    }

    /// Completes the files. `alive` are the numbers of the blocks that were never freed, ascending; `problems` is what a
    /// viewer will not show.
    fn finish(self: Box<Self>, alive: &[u64], problems: &mut Vec<Problem>) -> Result<Vec<PartialFile>, ExportError>;
}

/// Where the rows of a file have their call stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackForm {
    /// In each row, as the manual has them.
    Inline,
    /// Once, in a table beside the rows.
    Table,
}

impl StackForm {
    pub const ALL: [StackForm; 2] = [StackForm::Inline, StackForm::Table];

    pub const fn word(self) -> &'static str {
        match self {
            StackForm::Inline => "inline",
            StackForm::Table => "table",
        }
    }

    pub fn from_word(word: &str) -> Option<StackForm> {
        StackForm::ALL.into_iter().find(|form| form.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_at_its_place_in_the_table_and_its_word_in_the_lists() {
        let words: Vec<&str> = Format::all().map(Format::word).collect();
        assert_eq!(words, FORMAT_WORDS);
        assert_eq!(words.join(", "), FORMAT_CHOICES);
        for (place, format) in Format::all().enumerate() {
            assert_eq!(usize::from(format.code()), place);
            assert_eq!(Format::from_code(format.code()), Some(format));
            assert_eq!(Format::from_word(format.word()), Some(format));
            assert!(FORMAT_HELP.contains(format.word()));
        }
        assert_eq!((Format::from_word("xlsx"), Format::from_code(200)), (None, None));
    }
}

//! Why an export failed.
use crate::room::size_text;
use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Each names the file or directory as the user knows it, never a temporary one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    #[error("cannot read the recording: {0}")]
    Recording(#[from] memscope_model::ModelError),
    #[error("cannot create directory {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}{}", path.display(), remedy(is_full(source)))]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}{}", path.display(), remedy(source.sqlite_error_code() == Some(ErrorCode::DiskFull)))]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("cannot write {}: another export of the same recording is writing it", path.display())]
    Busy { path: PathBuf },
    #[error(
        "no room for {}{}: about {} are needed and {} are free; the recording is kept: `export -o DIR` writes to \
         another place, {}--events or --steps write less, --data-format=none writes no files",
        path.display(),
        and_others(*others),
        size_text(*needed),
        size_text(*free),
        if *inline { "--stacks=table or " } else { "" },
    )]
    NoRoom {
        path: PathBuf,
        /// How many files more.
        others: usize,
        needed: u64,
        free: u64,
        /// Rows have their stacks in them.
        inline: bool,
    },
    #[error("cannot write {}: {source}; --output=DIR writes to another place", path.display())]
    Comparison { path: PathBuf, source: io::Error },
    #[error("the export was cancelled; nothing was written")]
    Cancelled,
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Of a disk that others filled meanwhile.
const fn remedy(full: bool) -> &'static str {
    if full { "; the recording is kept: `export -o DIR` writes to another place" } else { "" }
}

fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " and another file".to_owned(),
        _ => format!(" and {others} other files"),
    }
}

impl ExportError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> ExportError + '_ {
        move |source| ExportError::Write { path: path.to_owned(), source }
    }

    pub(crate) fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> ExportError + '_ {
        move |source| ExportError::Database { path: path.to_owned(), source }
    }
}

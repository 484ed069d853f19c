//! Why an export failed.
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
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("cannot write {}: another export of the same recording is writing it", path.display())]
    Busy { path: PathBuf },
    #[error("the export was cancelled; nothing was written")]
    Cancelled,
}

impl ExportError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> ExportError + '_ {
        move |source| ExportError::Write { path: path.to_owned(), source }
    }

    pub(crate) fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> ExportError + '_ {
        move |source| ExportError::Database { path: path.to_owned(), source }
    }
}

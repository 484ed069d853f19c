//! Why a dump file cannot be read.
use memscope_model::ModelError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot read {}: another program is writing to it; close that, or copy the file", path.display())]
    Locked { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("{} is no dump of memory events: {why}", path.display())]
    Foreign { path: PathBuf, why: String },
    #[error(
        "{} holds neither a recording nor a dump (memscope_dump_*.csv or .db, leaks_dump_*.csv or .db)",
        path.display()
    )]
    Nothing { path: PathBuf },
    #[error("{} holds {number} processes; name the directory or file of one", path.display())]
    Several { path: PathBuf, number: usize },
    #[error("cannot put the rows of {} in order: {source}; TMPDIR says where there is room for that", path.display())]
    Order { path: PathBuf, source: io::Error },
}

impl ReadError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> ReadError + '_ {
        move |source| ReadError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> ReadError + '_ {
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                ReadError::Locked { path: path.to_owned() }
            }
            Some(rusqlite::ErrorCode::NotADatabase) => ReadError::Foreign {
                path: path.to_owned(),
                why: "it is neither a csv nor an SQLite database".to_owned(),
            },
            _ => ReadError::Database { path: path.to_owned(), source },
        }
    }
}

impl From<ReadError> for ModelError {
    fn from(error: ReadError) -> ModelError {
        ModelError::Source(Box::new(error))
    }
}

//! Adds what was found of blocks to a dump file that is there: `inefficient_type` in the attributes of the rows that
//! allocate them.
//!
//! Everything else stays byte for byte as it was, and earlier results stay, too. A csv is written anew beside the old one
//! and takes its place at the end, a database is changed in one transaction: whatever goes wrong, the file is as before.
mod attribute;
mod csv;
mod sqlite;

use crate::error::ExportError;
use crate::read::error::ReadError;
use crate::read::sources::is_database;
use memscope_model::{Annotations, BlockId, Inefficiencies};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why nothing was written. Each names the file as the user knows it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AnnotateError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot write {}: {source}; it is as it was", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}; it is as it was", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("cannot write {}: another program is writing to it; it is as it was", path.display())]
    Busy { path: PathBuf },
    #[error("{} was changed while it was read; nothing was written, try again when it is complete", path.display())]
    Changed { path: PathBuf },
    #[error("cannot write {}: line {line} is longer than any row can be; it is as it was", path.display())]
    LongRow { path: PathBuf, line: u64 },
    #[error(
        "cannot write into {}: its rows have no allocation_id by which blocks could be told apart; it is as it was",
        path.display()
    )]
    NoNumbers { path: PathBuf },
}

impl AnnotateError {
    fn write(path: &Path) -> impl FnOnce(io::Error) -> AnnotateError + '_ {
        move |source| AnnotateError::Write { path: path.to_owned(), source }
    }

    fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> AnnotateError + '_ {
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                AnnotateError::Busy { path: path.to_owned() }
            }
            _ => AnnotateError::Database { path: path.to_owned(), source },
        }
    }

    fn of_file(error: ExportError) -> AnnotateError {
        match error {
            ExportError::Busy { path } => AnnotateError::Busy { path },
            ExportError::Write { path, source } | ExportError::Directory { path, source } => {
                AnnotateError::Write { path, source }
            }
            other => AnnotateError::Write { path: PathBuf::new(), source: io::Error::other(other) },
        }
    }
}

/// What was found of the blocks of a file.
#[derive(Clone, Debug, Default)]
pub struct BlockFindings {
    /// By process; `None` where all rows are taken to be of one.
    of_processes: Vec<(Option<u32>, Annotations)>,
}

impl BlockFindings {
    pub fn add(&mut self, process: Option<u32>, annotations: Annotations) {
        self.of_processes.push((process, annotations));
    }

    pub fn is_empty(&self) -> bool {
        self.of_processes.iter().all(|(_, annotations)| annotations.is_empty())
    }

    fn of(&self, process: Option<u64>, block: u64) -> Inefficiencies {
        let is_its = |of: &Option<u32>| of.is_none_or(|of| process == Some(u64::from(of)));
        let known = self.of_processes.iter().find(|(of, _)| is_its(of));
        known.map_or(Inefficiencies::NONE, |(_, annotations)| annotations.get(BlockId(block)))
    }
}

/// A file at one moment: whether it is still the same can be told later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileAsRead {
    path: PathBuf,
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileAsRead {
    /// Fails if the file cannot be written.
    pub fn begin(path: &Path) -> Result<FileAsRead, AnnotateError> {
        let path = fs::canonicalize(path).map_err(ReadError::io(path))?;
        // A file that is replaced need not be writable itself, but whoever made it read-only did not mean it to be changed.
        OpenOptions::new().append(true).open(&path).map_err(AnnotateError::write(&path))?;
        FileAsRead::of(path)
    }

    fn of(path: PathBuf) -> Result<FileAsRead, AnnotateError> {
        let file = fs::metadata(&path).map_err(AnnotateError::write(&path))?;
        Ok(FileAsRead {
            device: file.dev(),
            inode: file.ino(),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            path,
        })
    }

    fn check(&self) -> Result<(), AnnotateError> {
        match FileAsRead::of(self.path.clone())? == *self {
            true => Ok(()),
            false => Err(AnnotateError::Changed { path: self.path.clone() }),
        }
    }
}

/// Writes what was found into the file, which must be as it was when [`FileAsRead`] was made; says how many rows changed.
pub fn annotate(file: &FileAsRead, findings: &BlockFindings) -> Result<u64, AnnotateError> {
    file.check()?;
    if findings.is_empty() {
        return Ok(0);
    }
    let annotated =
        if is_database(&file.path)? { sqlite::annotate(file, findings) } else { csv::annotate(file, findings) }?;
    match annotated {
        Annotated { numbered: 0, .. } => Err(AnnotateError::NoNumbers { path: file.path.clone() }),
        Annotated { changed, .. } => Ok(changed),
    }
}

/// Rows of allocations.
#[derive(Clone, Copy, Default, Debug)]
struct Annotated {
    /// Those that say their block's number.
    numbered: u64,
    changed: u64,
}

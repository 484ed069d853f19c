//! The csv files of Python calls: one for each thread.
use super::CsvWriter;
use crate::destination::{DUMP_MODE, PartialFile};
use crate::error::ExportError;
use crate::rows::{CALL_COLUMNS, CallRow};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Calls come thread by thread: one file is written at a time.
pub(super) struct CallFiles {
    directory: PathBuf,
    /// In the names of files.
    time: String,
    current: Option<(u32, CsvWriter<File>)>,
    /// By thread; the kernel may give a number again.
    files: BTreeMap<u32, PartialFile>,
}

impl CallFiles {
    pub(super) fn new(directory: &Path, time: &str) -> CallFiles {
        CallFiles { directory: directory.to_owned(), time: time.to_owned(), current: None, files: BTreeMap::new() }
    }

    #[inline]
    pub(super) fn write(&mut self, row: &CallRow<'_>) -> Result<(), ExportError> {
        if !matches!(&self.current, Some((thread, _)) if *thread == row.thread) {
            self.turn_to(row.thread)?;
        }
        match &mut self.current {
            Some((_, writer)) => writer.write_call(row).map_err(ExportError::write(&self.directory)),
            None => Ok(()),
        }
    }

    #[cold]
    fn turn_to(&mut self, thread: u32) -> Result<(), ExportError> {
        self.complete()?;
        let clone = |partial: &PartialFile| partial.file().try_clone().map_err(ExportError::write(partial.target()));
        let writer = match self.files.get(&thread) {
            Some(partial) => CsvWriter::going_on(clone(partial)?),
            None => {
                let path = self.directory.join(format!("python_trace_{thread}_{}.csv", self.time));
                let partial = create(&path)?;
                let writer = CsvWriter::new(clone(&partial)?, &CALL_COLUMNS);
                self.files.insert(thread, partial);
                writer
            }
        };
        self.current = Some((thread, writer));
        Ok(())
    }

    /// Writes what waits.
    fn complete(&mut self) -> Result<(), ExportError> {
        let Some((thread, writer)) = self.current.take() else { return Ok(()) };
        let target = self.files.get(&thread).map_or(self.directory.as_path(), PartialFile::target);
        writer.finish().map_err(ExportError::write(target))
    }

    pub(super) fn finish(mut self) -> Result<Vec<PartialFile>, ExportError> {
        self.complete()?;
        Ok(self.files.into_values().collect())
    }
}

/// A program may have had more threads than this process may have files open at first.
fn create(path: &Path) -> Result<PartialFile, ExportError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const LIMIT_REACHED: i32 = rustix::io::Errno::MFILE.raw_os_error();
    match PartialFile::create(path, DUMP_MODE) {
        Err(ExportError::Write { source, .. }) if source.raw_os_error() == Some(LIMIT_REACHED) => {
            let maximum = getrlimit(Resource::Nofile).maximum;
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
            PartialFile::create(path, DUMP_MODE)
        }
        made => made,
    }
}

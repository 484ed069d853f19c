//! The csv files of one device.
use super::CsvWriter;
use super::calls::CallFiles;
use super::write::{push_call_row, push_frame_row, push_row};
use crate::destination::{DUMP_MODE, PartialFile};
use crate::error::ExportError;
use crate::format::{DumpWriter, FileNames};
use crate::problem::Problem;
use crate::rows::{COLUMNS, CallRow, FrameRow, Row, STACK_COLUMNS};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

struct CsvFiles {
    /// From the first row on: there may be calls alone.
    rows: Option<OneFile>,
    rows_path: PathBuf,
    calls: CallFiles,
    /// From the first frame on.
    stacks: Option<OneFile>,
    stacks_path: PathBuf,
}

struct OneFile {
    writer: CsvWriter<File>,
    partial: PartialFile,
}

pub(crate) fn open(names: &FileNames) -> Result<Box<dyn DumpWriter>, ExportError> {
    let calls = CallFiles::new(names.dump.parent().unwrap_or(Path::new("")), &names.time);
    let (rows_path, stacks_path) = (names.dump.clone(), names.stacks.clone());
    Ok(Box::new(CsvFiles { rows: None, rows_path, calls, stacks: None, stacks_path }))
}

impl OneFile {
    fn create(path: &Path, columns: &[&str]) -> Result<OneFile, ExportError> {
        let partial = PartialFile::create(path, DUMP_MODE)?;
        let file = partial.file().try_clone().map_err(ExportError::write(path))?;
        Ok(OneFile { writer: CsvWriter::new(file, columns), partial })
    }

    fn finish(self) -> Result<PartialFile, ExportError> {
        let OneFile { writer, partial } = self;
        writer.finish().map_err(ExportError::write(partial.target()))?;
        Ok(partial)
    }
}

impl DumpWriter for CsvFiles {
    fn row(&mut self, row: &Row<'_>) -> Result<(), ExportError> {
        let file = match &mut self.rows {
            Some(file) => file,
            none => none.insert(OneFile::create(&self.rows_path, &COLUMNS)?),
        };
        file.writer.write(row).map_err(ExportError::write(file.partial.target()))
    }

    fn call(&mut self, row: &CallRow<'_>) -> Result<(), ExportError> {
        self.calls.write(row)
    }

    fn frame(&mut self, row: &FrameRow<'_>) -> Result<(), ExportError> {
        let file = match &mut self.stacks {
            Some(file) => file,
            none => none.insert(OneFile::create(&self.stacks_path, &STACK_COLUMNS)?),
        };
        file.writer.write_frame(row).map_err(ExportError::write(file.partial.target()))
    }

    fn finish(self: Box<Self>, _alive: &[u64], _: &mut Vec<Problem>) -> Result<Vec<PartialFile>, ExportError> {
        let mut files = Vec::new();
        if let Some(rows) = self.rows {
            files.push(rows.finish()?);
        }
        match self.stacks {
            Some(stacks) => files.push(stacks.finish()?),
            // One of an earlier export would say nothing about these rows.
            None => remove(&self.stacks_path)?,
        }
        files.extend(self.calls.finish()?);
        Ok(files)
    }
}

fn remove(path: &Path) -> Result<(), ExportError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ExportError::write(path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn row_bytes(row: &Row<'_>) -> u64 {
    measured(|out| push_row(out, row))
}

pub(crate) fn frame_bytes(row: &FrameRow<'_>) -> u64 {
    measured(|out| push_frame_row(out, row))
}

pub(crate) fn call_bytes(row: &CallRow<'_>) -> u64 {
    measured(|out| push_call_row(out, row))
}

fn measured(push: impl FnOnce(&mut Vec<u8>)) -> u64 {
    thread_local! {
        static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    TEXT.with_borrow_mut(|text| {
        text.clear();
        push(text);
        text.len() as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brand::Brand;

    #[test]
    fn a_full_disk_is_told_with_the_name_of_the_file_and_leaves_none() {
        let root = tempfile::tempdir().unwrap();
        let names = FileNames {
            dump: root.path().join("memscope_dump_1.csv"),
            stacks: root.path().join("memscope_stacks_1.csv"),
            brand: Brand::MsMemScope,
            time: String::from("1"),
        };
        let mut rows = OneFile::create(&names.dump, &COLUMNS).unwrap();
        // The device that takes no byte.
        rows.writer = CsvWriter::new(File::options().write(true).open("/dev/full").unwrap(), &COLUMNS);
        let files = Box::new(CsvFiles {
            rows: Some(rows),
            rows_path: names.dump,
            calls: CallFiles::new(root.path(), "1"),
            stacks: None,
            stacks_path: names.stacks,
        });
        let error = files.finish(&[], &mut Vec::new()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("memscope_dump_1.csv") && error.contains("No space left"), "{error}");
        assert!(!error.contains("partial") && error.contains("export -o DIR"), "{error}");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

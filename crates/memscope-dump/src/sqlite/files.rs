//! The database of one device.
use super::write::{DbWriter, Written, push_json};
use crate::brand::Brand;
use crate::destination::{DUMP_MODE, PartialFile};
use crate::error::ExportError;
use crate::format::{DumpWriter, FileNames};
use crate::problem::{Files, Problem};
use crate::room::VIEWER_FILE_LIMIT;
use crate::rows::{CallRow, Event, FrameCell, FrameRow, NOT_APPLICABLE, Row, StackCells};
use std::cell::RefCell;
use std::path::Path;

struct DbFile {
    // Before the partial file, so that a database is closed before its file is removed.
    writer: DbWriter,
    partial: PartialFile,
    brand: Brand,
}

pub(crate) fn open(names: &FileNames) -> Result<Box<dyn DumpWriter>, ExportError> {
    let partial = PartialFile::create(&names.dump, DUMP_MODE)?;
    let writer = DbWriter::create(partial.temporary(), names.brand).map_err(ExportError::database(&names.dump))?;
    Ok(Box::new(DbFile { writer, partial, brand: names.brand }))
}

impl DumpWriter for DbFile {
    fn row(&mut self, row: &Row<'_>) -> Result<(), ExportError> {
        self.writer.write(row).map_err(ExportError::database(self.partial.target()))
    }

    fn frame(&mut self, row: &FrameRow<'_>) -> Result<(), ExportError> {
        self.writer.write_frame(row).map_err(ExportError::database(self.partial.target()))
    }

    fn call(&mut self, row: &CallRow<'_>) -> Result<(), ExportError> {
        self.writer.write_call(row).map_err(ExportError::database(self.partial.target()))
    }

    /// A database whose rows all have one timestamp is refused by MindStudio Insight. Times of rows increase strictly,
    /// so that is the case of a single row.
    fn wants_second_row(&self) -> bool {
        self.writer.paired_rows() == 1
    }

    fn finish(self: Box<Self>, alive: &[u64], problems: &mut Vec<Problem>) -> Result<Vec<PartialFile>, ExportError> {
        let DbFile { writer, partial, brand } = *self;
        let target = partial.target();
        let written = writer.finish(alive).map_err(ExportError::database(target))?;
        let size = partial.file().metadata().map_err(ExportError::write(target))?.len();
        note_for_viewers(target, brand, &written, size, problems);
        Ok(vec![partial])
    }
}

/// What a viewer will not show of a database, and why.
fn note_for_viewers(path: &Path, brand: Brand, written: &Written, size: u64, problems: &mut Vec<Problem>) {
    let Written { device_rows, unpaired } = written;
    let files = Files::only(path);
    if unpaired.total() > 0 {
        problems.push(Problem::Unpaired { files: files.clone(), table: brand.unpaired_table(), counts: *unpaired });
    }
    if *device_rows == 0 {
        problems.push(Problem::NothingToShow { files: files.clone() });
    }
    if size > VIEWER_FILE_LIMIT {
        problems.push(Problem::TooLarge { files });
    }
}

/// Of a cell in a page: its place, its length, its number and the header of its columns.
const CELL: u64 = 2 + 2 + 5;

/// A row of the table of what is alive.
const ALIVE: u64 = CELL + 3 + 4;

pub(crate) fn row_bytes(row: &Row<'_>) -> u64 {
    thread_local! {
        static JSON: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let attributes = JSON.with_borrow_mut(|json| {
        json.clear();
        push_json(json, row);
        json.len() as u64
    });
    let length = |text: &str| text.len() as u64;
    let stacks = match row.stack {
        StackCells::Inline { python, c } => length(python) + length(c) + 4,
        StackCells::Table { python, c } => reference_bytes(python) + reference_bytes(c),
    };
    let texts =
        length(row.event.text()) + length(row.event_type.database_text()) + length(row.name.unwrap_or(NOT_APPLICABLE));
    // What is alive has a row more, which is taken back where it ends.
    let (more, less) = match row.event {
        Event::Malloc => (ALIVE, 0),
        Event::Free => (0, ALIVE),
        _ => (0, 0),
    };
    // Header of twelve columns, of which a long one or two need a second byte; time, process, thread; device; address.
    with_page_share(CELL + 15 + 8 + 3 + 3 + 3 + 18 + texts + attributes + stacks + more - less)
}

pub(crate) fn frame_bytes(row: &FrameRow<'_>) -> u64 {
    let frame = match row.frame {
        FrameCell::Text(text) => text.len() as u64 + 1,
        FrameCell::SameAs(row) => reference_bytes(row),
    };
    with_page_share(CELL + 4 + 4 + frame)
}

pub(crate) fn call_bytes(row: &CallRow<'_>) -> u64 {
    let times = [row.start, row.end].map(|time| if time.is_some() { 19 } else { 3 });
    with_page_share(CELL + 6 + (row.prefix().len() + row.function.len()) as u64 + times.iter().sum::<u64>() + 3 + 3)
}

fn reference_bytes(row: u32) -> u64 {
    if row == 0 { 0 } else { u64::from(row.ilog10()) + 2 }
}

/// Pages are not filled to the last byte, and some hold none but the numbers of others.
fn with_page_share(bytes: u64) -> u64 {
    bytes + bytes / 50
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Attribute, DeviceId, EventType, Value, key};
    use memscope_model::{Pool, TimestampNs};

    #[test]
    fn a_full_disk_is_told_with_the_name_of_the_file_and_leaves_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("memscope_dump_1.db");
        let partial = PartialFile::create(&path, DUMP_MODE).unwrap();
        let writer = DbWriter::create(partial.temporary(), Brand::MsMemScope).unwrap();
        writer.allow_pages(4);
        let mut file = Box::new(DbFile { writer, partial, brand: Brand::MsMemScope });
        for id in 0..1000 {
            let attributes = [
                Attribute { key: key::ALLOCATION_ID, value: Value::Integer(id) },
                Attribute { key: key::SIZE, value: Value::Integer(64) },
            ];
            let row = Row {
                id,
                event: Event::Malloc,
                event_type: EventType::of(Pool::Host),
                name: None,
                time: TimestampNs(100 + id),
                process: 7,
                thread: 8,
                device: DeviceId::Cpu,
                pointer: Some(id),
                attributes: &attributes,
                stack: StackCells::NONE,
            };
            file.row(&row).unwrap();
        }
        let error = file.finish(&[], &mut Vec::new()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("memscope_dump_1.db") && error.contains("full"), "{error}");
        assert!(!error.contains("partial") && error.contains("export -o DIR"), "{error}");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

//! Recordings made to order, exported, and read back.
use memscope_dump::{
    Brand, DumpEvents, ExportError, ExportOptions, Exported, Format, Room, StackForm, UsageLookup, export_process,
};
use memscope_model::{Annotations, BlockEvent, Process, State, TraceEvent};
use memscope_symbols::Symbolizer;
use memscope_testkit::SpoolBuilder;
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) type Cells = Vec<String>;

/// A process directory with a recording in it.
pub(crate) struct Recording {
    pub(crate) _root: TempDir,
    pub(crate) directory: PathBuf,
    pub(crate) usage: Option<Box<UsageLookup<'static>>>,
    /// Rows have their stacks in them unless a test is about the table.
    pub(crate) stacks: Option<StackForm>,
    pub(crate) annotations: Option<Annotations>,
}

impl Recording {
    pub(crate) fn new(build: impl FnOnce(&mut SpoolBuilder)) -> Recording {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("msmemscope_31_20251203091122_ascend");
        let mut spool = SpoolBuilder::new();
        spool.process(31, 1);
        build(&mut spool);
        spool.write(&directory).unwrap();
        let stacks = Some(StackForm::Inline);
        Recording { _root: root, directory, usage: None, stacks, annotations: None }
    }

    pub(crate) fn try_export(
        &self,
        format: Format,
        brand: Brand,
        dump_events: DumpEvents,
    ) -> Result<(Exported, Vec<BlockEvent>), ExportError> {
        let mut process = Process::open(&self.directory).unwrap();
        let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
        let options = ExportOptions {
            brand,
            stacks: self.stacks,
            dump_events,
            usage: self.usage.as_deref(),
            annotations: self.annotations.as_ref(),
            ..ExportOptions::quiet(format, &room, &mut symbolizer)
        };
        let mut events = Vec::new();
        let mut keep = |event: &TraceEvent<'_>, _: &State<'_>| {
            if let TraceEvent::Memory(event) = event {
                events.push(**event);
            }
            ControlFlow::Continue(())
        };
        let exported = export_process(&mut process, &self.directory, options, &mut [&mut keep])?;
        Ok((exported, events))
    }

    pub(crate) fn export(&self, format: Format) -> (Exported, Vec<BlockEvent>) {
        self.try_export(format, Brand::MsMemScope, DumpEvents::ALL).unwrap()
    }

    pub(crate) fn dump(&self, name: &str) -> PathBuf {
        self.device_dump("cpu", name)
    }

    pub(crate) fn device_dump(&self, device: &str, name: &str) -> PathBuf {
        self.directory.join(format!("device_{device}")).join("dump").join(name)
    }
}

/// The rows of a csv file, header first.
pub(crate) fn csv_rows(path: &Path) -> Vec<Cells> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(path).unwrap();
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// The rows of a table in the order they were inserted; integers as text, attributes and host memory in the csv's words.
pub(crate) fn db_rows(path: &Path, table: &str) -> Vec<Cells> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY rowid")).unwrap();
    let rows = statement.query_map((), |row| {
        (0..12)
            .map(|column| {
                Ok(match row.get_ref(column)? {
                    rusqlite::types::ValueRef::Integer(value) => value.to_string(),
                    other => other.as_str()?.to_owned(),
                })
            })
            .collect::<rusqlite::Result<Cells>>()
    });
    let mut rows: Vec<Cells> = rows.unwrap().map(Result::unwrap).collect();
    for row in &mut rows {
        row[9] = csv_attributes(&row[9]);
        assert_ne!(row[2], "HOST", "the viewer does not know this pool");
        if row[2] == "HOST_PINNED" {
            row[2] = "HOST".to_owned();
        }
    }
    rows
}

/// `{"a":"1","b":"2"}` as `{a:1,b:2}`; values hold no quotes, which is all this needs.
fn csv_attributes(json: &str) -> String {
    if json == "{}" { String::new() } else { json.replace('"', "") }
}

/// A value of the attributes in the csv's notation.
pub(crate) fn attribute<'a>(cell: &'a str, key: &str) -> Option<&'a str> {
    let inside = cell.strip_prefix('{')?.strip_suffix('}')?;
    inside.split(',').filter_map(|pair| pair.split_once(':')).find(|(name, _)| *name == key).map(|(_, value)| value)
}

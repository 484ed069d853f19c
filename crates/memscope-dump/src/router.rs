//! Rows to the file of their device.
use crate::csv::CsvWriter;
use crate::destination::{Brand, DUMP_MODE, Format, PartialFile, create_directories, dump_path};
use crate::error::ExportError;
use crate::export::{SampledUsage, UsageLookup};
use crate::rows::{Attribute, DeviceId, EventType, Row, Value, key};
use crate::sqlite::{DbWriter, Written};
use memscope_model::Device;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What MindStudio Insight takes at most.
const VIEWER_FILE_LIMIT: u64 = 20 << 30;

/// The files of one process, each opened at the first row of its device.
pub(crate) struct Router<'p> {
    process_directory: &'p Path,
    brand: Brand,
    format: Format,
    time: String,
    files: BTreeMap<DeviceId, DumpFile>,
    /// Rows of no device in particular so far: a file opened later begins with them. They are few.
    undirected: Vec<OwnedRow>,
    usage: Option<&'p UsageLookup<'p>>,
}

struct DumpFile {
    // Before the partial file, so that a database is closed before its file is removed.
    sink: Sink,
    partial: PartialFile,
}

enum Sink {
    Csv(CsvWriter<File>),
    Db(DbWriter),
}

impl<'p> Router<'p> {
    pub(crate) fn new(
        process_directory: &'p Path,
        brand: Brand,
        format: Format,
        time: String,
        usage: Option<&'p UsageLookup<'p>>,
    ) -> Router<'p> {
        Router { process_directory, brand, format, time, files: BTreeMap::new(), undirected: Vec::new(), usage }
    }

    /// Whether the rows are for MindStudio Insight.
    pub(crate) fn is_database(&self) -> bool {
        self.format == Format::Db
    }

    pub(crate) fn write(&mut self, row: &Row<'_>) -> Result<(), ExportError> {
        if row.device == DeviceId::Unknown {
            self.undirected.push(OwnedRow::of(row));
            let usage = self.usage;
            return self.files.iter_mut().try_for_each(|(device, file)| file.write_undirected(*device, row, usage));
        }
        if let Some(file) = self.files.get_mut(&row.device) {
            return file.write(row);
        }
        let path = dump_path(self.process_directory, row.device, self.brand, &self.time, self.format);
        let mut file = DumpFile::create(&path, self.brand, self.format)?;
        for earlier in &self.undirected {
            earlier.with(|earlier| file.write_undirected(row.device, earlier, self.usage))?;
        }
        file.write(row)?;
        self.files.insert(row.device, file);
        Ok(())
    }

    /// Completes all files and gives them their names. `start` is the row that says when recording began.
    pub(crate) fn finish(self, start: &Row<'_>, problems: &mut Vec<String>) -> Result<Vec<PathBuf>, ExportError> {
        if self.files.is_empty() && !self.undirected.is_empty() {
            problems.push(format!("{} events belong to no device and were not written", self.undirected.len()));
        }
        // No file gets its name before all are complete.
        let mut complete = Vec::new();
        for (device, mut file) in self.files {
            file.make_viewable(device, start, self.usage)?;
            complete.push(file.complete(self.brand, problems)?);
        }
        complete.into_iter().map(PartialFile::commit).collect()
    }
}

impl DumpFile {
    fn create(path: &Path, brand: Brand, format: Format) -> Result<DumpFile, ExportError> {
        if let Some(directory) = path.parent() {
            create_directories(directory)?;
        }
        let partial = PartialFile::create(path, DUMP_MODE)?;
        let sink = match format {
            Format::Csv => Sink::Csv(CsvWriter::new(partial.file().try_clone().map_err(ExportError::write(path))?)),
            Format::Db => Sink::Db(DbWriter::create(partial.temporary(), brand).map_err(ExportError::database(path))?),
        };
        Ok(DumpFile { sink, partial })
    }

    fn write(&mut self, row: &Row<'_>) -> Result<(), ExportError> {
        match &mut self.sink {
            Sink::Csv(writer) => writer.write(row).map_err(ExportError::write(self.partial.target())),
            Sink::Db(writer) => writer.write(row).map_err(ExportError::database(self.partial.target())),
        }
    }

    /// A database whose rows all have one timestamp is refused by MindStudio Insight. Times of rows increase strictly,
    /// so that is the case of a single row; the moment recording began is a second one.
    fn make_viewable(
        &mut self,
        device: DeviceId,
        start: &Row<'_>,
        usage: Option<&UsageLookup<'_>>,
    ) -> Result<(), ExportError> {
        match &self.sink {
            Sink::Db(writer) if writer.paired_rows() == 1 => self.write_undirected(device, start, usage),
            _ => Ok(()),
        }
    }

    /// A row of no device, in the file of `device`: where tracing begins, each file says how much of its device is free.
    fn write_undirected(
        &mut self,
        device: DeviceId,
        row: &Row<'_>,
        usage: Option<&UsageLookup<'_>>,
    ) -> Result<(), ExportError> {
        let sampled = match (row.event_type, device, usage) {
            (EventType::START_TRACE, DeviceId::Npu(number), Some(lookup)) => {
                u16::try_from(number).map(|number| lookup(Device::Npu(number), row.timestamp_ns)).unwrap_or_default()
            }
            _ => SampledUsage::default(),
        };
        let Some((free, total)) = sampled.free_and_total() else { return self.write(row) };
        let attributes = [
            Attribute { key: key::FREE, value: Value::Integer(free) },
            Attribute { key: key::TOTAL, value: Value::Integer(total) },
        ];
        self.write(&Row { attributes: &attributes, ..*row })
    }

    fn complete(self, brand: Brand, problems: &mut Vec<String>) -> Result<PartialFile, ExportError> {
        let DumpFile { sink, partial } = self;
        let target = partial.target();
        match sink {
            Sink::Csv(writer) => writer.finish().map_err(ExportError::write(target))?,
            Sink::Db(writer) => {
                let written = writer.finish().map_err(ExportError::database(target))?;
                let size = partial.file().metadata().map_err(ExportError::write(target))?.len();
                note_for_viewers(target, brand, &written, size, problems);
            }
        }
        Ok(partial)
    }
}

/// What a viewer will not show of a database, and why.
fn note_for_viewers(path: &Path, brand: Brand, written: &Written, size: u64, problems: &mut Vec<String>) {
    let Written { device_rows, unpaired } = written;
    if unpaired.total() > 0 {
        problems.push(format!(
            "{}: {} rows are in table {} because MindStudio Insight cannot pair them: {unpaired}",
            path.display(),
            unpaired.total(),
            brand.unpaired_table(),
        ));
    }
    if *device_rows == 0 {
        problems.push(format!("{}: MindStudio Insight will refuse it, it has no block to show", path.display()));
    }
    if size > VIEWER_FILE_LIMIT {
        problems.push(format!("{}: MindStudio Insight refuses files above 20 GiB", path.display()));
    }
}

/// A row that is kept.
struct OwnedRow {
    /// Without attributes and texts, which are below.
    row: Row<'static>,
    name: Option<String>,
    attributes: Vec<(&'static str, OwnedValue)>,
    python_stack: String,
    c_stack: String,
}

enum OwnedValue {
    Integer(u64),
    Address(u64),
    Text(String),
}

impl OwnedValue {
    fn lend(&self) -> Value<'_> {
        match self {
            OwnedValue::Integer(value) => Value::Integer(*value),
            OwnedValue::Address(value) => Value::Address(*value),
            OwnedValue::Text(text) => Value::Text(text),
        }
    }
}

impl OwnedRow {
    fn of(row: &Row<'_>) -> OwnedRow {
        let own = |value| match value {
            Value::Integer(value) => OwnedValue::Integer(value),
            Value::Address(value) => OwnedValue::Address(value),
            Value::Text(text) => OwnedValue::Text(text.to_owned()),
        };
        OwnedRow {
            row: Row {
                id: row.id,
                event: row.event,
                event_type: row.event_type,
                name: None,
                timestamp_ns: row.timestamp_ns,
                process: row.process,
                thread: row.thread,
                device: row.device,
                pointer: row.pointer,
                attributes: &[],
                python_stack: "",
                c_stack: "",
            },
            name: row.name.map(str::to_owned),
            attributes: row.attributes.iter().map(|attribute| (attribute.key, own(attribute.value))).collect(),
            python_stack: row.python_stack.to_owned(),
            c_stack: row.c_stack.to_owned(),
        }
    }

    fn with<T>(&self, use_row: impl FnOnce(&Row<'_>) -> T) -> T {
        let attributes: Vec<Attribute<'_>> =
            self.attributes.iter().map(|(key, value)| Attribute { key, value: value.lend() }).collect();
        use_row(&Row {
            name: self.name.as_deref(),
            attributes: &attributes,
            python_stack: &self.python_stack,
            c_stack: &self.c_stack,
            ..self.row
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Event;
    use memscope_model::Pool;
    use std::fs;

    const ATTRIBUTES: [Attribute<'static>; 2] = [
        Attribute { key: key::ALLOCATION_ID, value: Value::Integer(1) },
        Attribute { key: key::SIZE, value: Value::Integer(64) },
    ];

    fn malloc(device: DeviceId) -> Row<'static> {
        Row {
            id: 0,
            event: Event::Malloc,
            event_type: EventType::of(Pool::Host),
            name: None,
            timestamp_ns: 100,
            process: 7,
            thread: 8,
            device,
            pointer: Some(0x10),
            attributes: &ATTRIBUTES,
            python_stack: "",
            c_stack: "",
        }
    }

    fn start() -> Row<'static> {
        let attributes: &[Attribute<'_>] = &[
            Attribute { key: "free", value: Value::Integer(3) },
            Attribute { key: "owner", value: Value::Text("a\"b") },
        ];
        Row {
            event: Event::System,
            event_type: EventType::START_TRACE,
            name: Some("x,y"),
            timestamp_ns: 50,
            pointer: None,
            attributes,
            c_stack: "main",
            ..malloc(DeviceId::Unknown)
        }
    }

    #[test]
    fn each_device_has_its_file_and_a_row_of_no_device_is_in_all_at_its_time() {
        let root = tempfile::tempdir().unwrap();
        let mut router = Router::new(root.path(), Brand::MsMemScope, Format::Csv, "1".to_owned(), None);
        router.write(&start()).unwrap();
        for device in [DeviceId::Npu(3), DeviceId::Cpu] {
            router.write(&malloc(device)).unwrap();
        }
        router.write(&start()).unwrap();
        let mut problems = Vec::new();
        let files = router.finish(&start(), &mut problems).unwrap();
        let expected = ["device_cpu/dump/memscope_dump_1.csv", "device_3/dump/memscope_dump_1.csv"];
        assert_eq!(files, expected.map(|name| root.path().join(name)));
        for (file, device) in files.iter().zip(["cpu", "3"]) {
            let text = fs::read_to_string(file).unwrap();
            let lines: Vec<&str> = text.lines().skip(1).collect();
            let own =
                format!("0,MALLOC,HOST,N/A,100,7,8,{device},0x0000000000000010,\"{{allocation_id:1,size:64}}\",,");
            let shared = "0,SYSTEM,START_TRACE,\"x,y\",50,7,8,N/A,N/A,\"{free:3,owner:a\"\"b}\",,\"main\"";
            assert_eq!(lines, [shared, own.as_str(), shared]);
        }
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn rows_of_no_device_without_a_file_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let mut router = Router::new(root.path(), Brand::MsMemScope, Format::Db, "1".to_owned(), None);
        router.write(&start()).unwrap();
        let mut problems = Vec::new();
        assert!(router.finish(&start(), &mut problems).unwrap().is_empty());
        assert_eq!(problems.len(), 1);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_abandoned_export_leaves_no_file_of_any_device() {
        for format in [Format::Csv, Format::Db] {
            let root = tempfile::tempdir().unwrap();
            let mut router = Router::new(root.path(), Brand::MsLeaks, format, "1".to_owned(), None);
            router.write(&malloc(DeviceId::Cpu)).unwrap();
            router.write(&malloc(DeviceId::Npu(0))).unwrap();
            drop(router);
            for device in ["device_cpu", "device_0"] {
                assert_eq!(fs::read_dir(root.path().join(device).join("dump")).unwrap().count(), 0);
            }
        }
    }

    fn assert_refused_for_room(file: DumpFile, directory: &Path, name: &str, reason: &str) {
        let error = file.complete(Brand::MsMemScope, &mut Vec::new()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("partial") && error.contains(reason), "{error}");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
    }

    #[test]
    fn a_full_disk_is_told_with_the_name_of_the_file_and_leaves_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("memscope_dump_1.csv");
        let mut file = DumpFile::create(&path, Brand::MsMemScope, Format::Csv).unwrap();
        // The device that takes no byte.
        file.sink = Sink::Csv(CsvWriter::new(File::options().write(true).open("/dev/full").unwrap()));
        assert_refused_for_room(file, root.path(), "memscope_dump_1.csv", "No space left");

        let path = root.path().join("memscope_dump_1.db");
        let mut file = DumpFile::create(&path, Brand::MsMemScope, Format::Db).unwrap();
        if let Sink::Db(writer) = &file.sink {
            writer.allow_pages(4);
        }
        for id in 0..1000 {
            let attributes = [Attribute { key: key::ALLOCATION_ID, value: Value::Integer(id) }, ATTRIBUTES[1]];
            let row = Row { pointer: Some(id), attributes: &attributes, ..malloc(DeviceId::Cpu) };
            file.write(&row).unwrap();
        }
        assert_refused_for_room(file, root.path(), "memscope_dump_1.db", "full");
    }
}

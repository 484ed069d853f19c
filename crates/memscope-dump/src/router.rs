//! Rows to the file of their device.
use crate::brand::Brand;
use crate::destination::{PartialFile, create_directories, file_names};
use crate::error::ExportError;
use crate::export::{SampledUsage, UsageLookup};
use crate::format::{DumpWriter, FileNames, Format, FormatFiles, StackForm};
use crate::problem::Problem;
use crate::room::FileEstimate;
use crate::rows::{Attribute, CallRow, DeviceId, EventType, FrameRow, Row, StackCells, Value, key};
use crate::stack_table::StackTable;
use crate::stack_text::StackTexts;
use memscope_model::{Device, DeviceRoom, StackId, Stacks};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which files, and where.
#[derive(Clone, Copy)]
pub(crate) struct DumpLayout<'p> {
    pub(crate) process_directory: &'p Path,
    /// In the names of files.
    pub(crate) time: &'p str,
    pub(crate) brand: Brand,
    pub(crate) format: Format,
    /// `None`: of the host in a table, of devices in the rows.
    pub(crate) stacks: Option<StackForm>,
}

impl DumpLayout<'_> {
    fn names(&self, device: DeviceId) -> FileNames {
        file_names(self.process_directory, device, self.brand, self.time, self.format)
    }

    fn stack_form(&self, device: DeviceId) -> StackForm {
        self.stacks.unwrap_or(match device {
            DeviceId::Cpu => StackForm::Table,
            DeviceId::Npu(_) | DeviceId::Unknown => StackForm::Inline,
        })
    }
}

/// The files of one process, each opened at the first row of its device.
pub(crate) struct Router<'p> {
    layout: DumpLayout<'p>,
    making: Making,
    files: BTreeMap<DeviceId, DumpFile>,
    /// Rows of no device in particular so far: a file opened later begins with them. They are few.
    undirected: Vec<OwnedRow>,
    /// Where calls of Python functions go, from the first on.
    device_of_calls: Option<DeviceId>,
    usage: Option<&'p UsageLookup<'p>>,
}

/// What becomes of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Making {
    Files,
    Estimates,
}

/// What is known about the stacks of rows.
pub(crate) struct StackSource<'a, 's> {
    pub(crate) stacks: &'a Stacks,
    pub(crate) texts: &'a mut StackTexts<'s>,
}

struct DumpFile {
    target: Target,
    /// `None`: rows have their stacks in them.
    table: Option<StackTable>,
}

enum Target {
    Writer(Box<dyn DumpWriter>),
    Estimate { of: &'static FormatFiles, bytes: u64 },
}

impl<'p> Router<'p> {
    pub(crate) fn new(layout: DumpLayout<'p>, making: Making, usage: Option<&'p UsageLookup<'p>>) -> Router<'p> {
        Router { layout, making, files: BTreeMap::new(), undirected: Vec::new(), device_of_calls: None, usage }
    }

    /// Whether the rows are for MindStudio Insight.
    pub(crate) fn is_for_viewer(&self) -> bool {
        self.layout.format.is_for_viewer()
    }

    /// The row comes without its stack cells.
    pub(crate) fn write(
        &mut self,
        row: &Row<'_>,
        stack: StackId,
        source: &mut StackSource<'_, '_>,
    ) -> Result<(), ExportError> {
        if row.device == DeviceId::Unknown {
            self.undirected.push(OwnedRow::of(row, stack));
            for (device, file) in &mut self.files {
                file.write_undirected(*device, row, stack, source, self.usage)?;
            }
            return Ok(());
        }
        if let Some(file) = self.files.get_mut(&row.device) {
            return file.write(row, stack, source);
        }
        let Some(mut file) = DumpFile::create(&self.layout, self.making, row.device)? else { return Ok(()) };
        for earlier in &self.undirected {
            earlier.with(|earlier, stack| file.write_undirected(row.device, earlier, stack, source, self.usage))?;
        }
        file.write(row, stack, source)?;
        self.files.insert(row.device, file);
        Ok(())
    }

    /// A call is of no device: viewers want it beside the rows of one, which is that of the lowest number, or the host. To be
    /// called when all rows are written.
    pub(crate) fn write_call(
        &mut self,
        row: &CallRow<'_>,
        source: &mut StackSource<'_, '_>,
    ) -> Result<(), ExportError> {
        let device = match self.device_of_calls {
            Some(device) => device,
            None => {
                let npu = self.files.keys().find(|device| matches!(device, DeviceId::Npu(_)));
                let device = *self.device_of_calls.insert(npu.copied().unwrap_or(DeviceId::Cpu));
                if !self.files.contains_key(&device)
                    && let Some(mut file) = DumpFile::create(&self.layout, self.making, device)?
                {
                    for earlier in &self.undirected {
                        let write =
                            |row: &Row<'_>, stack| file.write_undirected(device, row, stack, source, self.usage);
                        earlier.with(write)?;
                    }
                    self.files.insert(device, file);
                }
                device
            }
        };
        match self.files.get_mut(&device) {
            Some(file) => file.target.call(row),
            None => Ok(()),
        }
    }

    /// Completes all files and gives them their names. `start` is the row that says when recording began, `alive` the
    /// numbers of the blocks that were never freed.
    pub(crate) fn finish(
        self,
        start: &Row<'_>,
        alive: &[u64],
        source: &mut StackSource<'_, '_>,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<PathBuf>, ExportError> {
        if self.files.is_empty() && !self.undirected.is_empty() {
            problems.push(Problem::NoDevice { events: self.undirected.len() as u64 });
        }
        // No file gets its name before all are complete.
        let mut complete = Vec::new();
        for (device, mut file) in self.files {
            if matches!(&file.target, Target::Writer(writer) if writer.wants_second_row()) {
                file.write_undirected(device, start, StackId::NONE, source, self.usage)?;
            }
            if let Target::Writer(writer) = file.target {
                complete.extend(writer.finish(alive, problems)?);
            }
        }
        complete.into_iter().map(PartialFile::commit).collect()
    }

    /// Whether rows of some file have their stacks in them.
    pub(crate) fn has_inline_stacks(&self) -> bool {
        self.files.values().any(|file| file.table.is_none())
    }

    /// What the files would take.
    pub(crate) fn estimates(&self) -> Vec<FileEstimate> {
        let files = self.files.iter().filter_map(|(device, file)| match &file.target {
            Target::Estimate { bytes, .. } => {
                Some(FileEstimate { dump: self.layout.names(*device).dump, bytes: *bytes })
            }
            Target::Writer(_) => None,
        });
        files.collect()
    }
}

impl DumpFile {
    /// `None` if the format has no files.
    fn create(layout: &DumpLayout<'_>, making: Making, device: DeviceId) -> Result<Option<DumpFile>, ExportError> {
        let Some(of) = layout.format.files() else { return Ok(None) };
        let target = match making {
            Making::Estimates => Target::Estimate { of, bytes: 0 },
            Making::Files => {
                let names = layout.names(device);
                if let Some(directory) = names.dump.parent() {
                    create_directories(directory)?;
                }
                Target::Writer((of.open)(&names)?)
            }
        };
        let table = (layout.stack_form(device) == StackForm::Table).then(StackTable::default);
        Ok(Some(DumpFile { target, table }))
    }

    fn write(&mut self, row: &Row<'_>, stack: StackId, source: &mut StackSource<'_, '_>) -> Result<(), ExportError> {
        let DumpFile { target, table } = self;
        let StackSource { stacks, texts } = source;
        let stack = match table {
            _ if stack == StackId::NONE => StackCells::NONE,
            Some(table) => table.cells(stack, stacks, texts, &mut |row| target.frame(row))?,
            None => {
                let (python, c) = texts.cells(stack, stacks);
                return target.row(&Row { stack: StackCells::Inline { python, c }, ..*row });
            }
        };
        target.row(&Row { stack, ..*row })
    }

    /// A row of no device, in the file of `device`: where tracing begins, each file says how much of its device is free.
    fn write_undirected(
        &mut self,
        device: DeviceId,
        row: &Row<'_>,
        stack: StackId,
        source: &mut StackSource<'_, '_>,
        usage: Option<&UsageLookup<'_>>,
    ) -> Result<(), ExportError> {
        let sampled = match (row.event_type, device, usage) {
            (EventType::START_TRACE, DeviceId::Npu(number), Some(lookup)) => {
                u16::try_from(number).map(|number| lookup(Device::Npu(number), row.time)).unwrap_or_default()
            }
            _ => SampledUsage::default(),
        };
        let Some(DeviceRoom { free, total }) = sampled.room() else { return self.write(row, stack, source) };
        let attributes = [
            Attribute { key: key::FREE, value: Value::Integer(free) },
            Attribute { key: key::TOTAL, value: Value::Integer(total) },
        ];
        self.write(&Row { attributes: &attributes, ..*row }, stack, source)
    }
}

impl Target {
    fn row(&mut self, row: &Row<'_>) -> Result<(), ExportError> {
        match self {
            Target::Writer(writer) => writer.row(row)?,
            Target::Estimate { of, bytes } => *bytes += (of.row_bytes)(row),
        }
        Ok(())
    }

    #[inline]
    fn call(&mut self, row: &CallRow<'_>) -> Result<(), ExportError> {
        match self {
            Target::Writer(writer) => writer.call(row)?,
            Target::Estimate { of, bytes } => *bytes += (of.call_bytes)(row),
        }
        Ok(())
    }

    fn frame(&mut self, row: &FrameRow<'_>) -> Result<(), ExportError> {
        match self {
            Target::Writer(writer) => writer.frame(row)?,
            Target::Estimate { of, bytes } => *bytes += (of.frame_bytes)(row),
        }
        Ok(())
    }
}

/// A row that is kept.
struct OwnedRow {
    /// Without attributes and texts, which are below.
    row: Row<'static>,
    name: Option<String>,
    attributes: Vec<(&'static str, OwnedValue)>,
    stack: StackId,
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
    fn of(row: &Row<'_>, stack: StackId) -> OwnedRow {
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
                time: row.time,
                process: row.process,
                thread: row.thread,
                device: row.device,
                pointer: row.pointer,
                attributes: &[],
                stack: StackCells::NONE,
            },
            name: row.name.map(str::to_owned),
            attributes: row.attributes.iter().map(|attribute| (attribute.key, own(attribute.value))).collect(),
            stack,
        }
    }

    fn with<T>(&self, use_row: impl FnOnce(&Row<'_>, StackId) -> T) -> T {
        let attributes: Vec<Attribute<'_>> =
            self.attributes.iter().map(|(key, value)| Attribute { key, value: value.lend() }).collect();
        use_row(&Row { name: self.name.as_deref(), attributes: &attributes, ..self.row }, self.stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Event;
    use memscope_model::{Pool, TimestampNs};
    use memscope_symbols::Symbolizer;
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
            time: TimestampNs(100),
            process: 7,
            thread: 8,
            device,
            pointer: Some(0x10),
            attributes: &ATTRIBUTES,
            stack: StackCells::NONE,
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
            time: TimestampNs(50),
            pointer: None,
            attributes,
            ..malloc(DeviceId::Unknown)
        }
    }

    fn layout(root: &Path, format: Format, stacks: Option<StackForm>) -> DumpLayout<'_> {
        DumpLayout { process_directory: root, time: "1", brand: Brand::MsMemScope, format, stacks }
    }

    /// Stacks `f < main` of C, and `train` of Python.
    fn two_stacks() -> (Stacks, StackId, StackId) {
        let mut stacks = Stacks::default();
        let native = stacks.intern_texts(["f", "main"].into_iter(), [].into_iter());
        let both = stacks.intern_texts(["g", "main"].into_iter(), ["train, \"it\""].into_iter());
        (stacks, native, both)
    }

    #[test]
    fn each_device_has_its_file_and_a_row_of_no_device_is_in_all_at_its_time() {
        let root = tempfile::tempdir().unwrap();
        let (stacks, native, _) = two_stacks();
        let mut symbolizer = Symbolizer::new();
        let source = &mut StackSource { stacks: &stacks, texts: &mut StackTexts::new(&mut symbolizer) };
        let mut router = Router::new(layout(root.path(), Format::Csv, None), Making::Files, None);
        router.write(&start(), native, source).unwrap();
        for device in [DeviceId::Npu(3), DeviceId::Cpu] {
            router.write(&malloc(device), StackId::NONE, source).unwrap();
        }
        router.write(&start(), native, source).unwrap();
        let mut problems = Vec::new();
        let files = router.finish(&start(), &[], source, &mut problems).unwrap();
        let expected = [
            "device_cpu/dump/memscope_dump_1.csv",
            "device_cpu/dump/memscope_stacks_1.csv",
            "device_3/dump/memscope_dump_1.csv",
        ];
        assert_eq!(files, expected.map(|name| root.path().join(name)));
        for (file, device, stack) in [(&files[0], "cpu", "#2"), (&files[2], "3", "\"f\nmain\"")] {
            let text = fs::read_to_string(file).unwrap();
            let rows = text.split_once('\n').unwrap().1;
            let own =
                format!("0,MALLOC,HOST,N/A,100,7,8,{device},0x0000000000000010,\"{{allocation_id:1,size:64}}\",,\n");
            let shared = format!("0,SYSTEM,START_TRACE,\"x,y\",50,7,8,N/A,N/A,\"{{free:3,owner:a\"\"b}}\",,{stack}\n");
            assert_eq!(rows, format!("{shared}{own}{shared}"));
        }
        assert_eq!(fs::read_to_string(&files[1]).unwrap(), "ID,Caller,Frame\n1,,\"main\"\n2,1,\"f\"\n");
        assert_eq!(problems, Vec::<Problem>::new());
    }

    #[test]
    fn the_table_has_each_frame_below_its_caller_once_and_each_text_once() {
        let root = tempfile::tempdir().unwrap();
        let (mut stacks, native, both) = two_stacks();
        let recursive = stacks.intern_texts(["f", "f", "main"].into_iter(), [].into_iter());
        let mut symbolizer = Symbolizer::new();
        let source = &mut StackSource { stacks: &stacks, texts: &mut StackTexts::new(&mut symbolizer) };
        let mut router = Router::new(layout(root.path(), Format::Csv, None), Making::Files, None);
        let row = malloc(DeviceId::Cpu);
        for stack in [both, native, recursive, both] {
            router.write(&row, stack, source).unwrap();
        }
        let files = router.finish(&start(), &[], source, &mut Vec::new()).unwrap();
        let cells: Vec<String> = fs::read_to_string(&files[0])
            .unwrap()
            .lines()
            .skip(1)
            .map(|line| line.rsplit_once("\",").unwrap().1.to_owned())
            .collect();
        assert_eq!(cells, ["#1,#3", ",#4", ",#5", "#1,#3"]);
        let table = "ID,Caller,Frame\n1,,\"train, \"\"it\"\"\"\n2,,\"main\"\n3,2,\"g\"\n4,2,\"f\"\n5,4,#4\n";
        assert_eq!(fs::read_to_string(&files[1]).unwrap(), table);
    }

    #[test]
    fn rows_of_no_device_without_a_file_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let (stacks, _, _) = two_stacks();
        let mut symbolizer = Symbolizer::new();
        let source = &mut StackSource { stacks: &stacks, texts: &mut StackTexts::new(&mut symbolizer) };
        let mut router = Router::new(layout(root.path(), Format::Db, None), Making::Files, None);
        router.write(&start(), StackId::NONE, source).unwrap();
        let mut problems = Vec::new();
        assert!(router.finish(&start(), &[], source, &mut problems).unwrap().is_empty());
        assert_eq!(problems.len(), 1);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_abandoned_export_leaves_no_file_of_any_device() {
        for format in [Format::Csv, Format::Db] {
            let root = tempfile::tempdir().unwrap();
            let (stacks, native, _) = two_stacks();
            let mut symbolizer = Symbolizer::new();
            let source = &mut StackSource { stacks: &stacks, texts: &mut StackTexts::new(&mut symbolizer) };
            let mut router = Router::new(layout(root.path(), format, None), Making::Files, None);
            router.write(&malloc(DeviceId::Cpu), native, source).unwrap();
            router.write(&malloc(DeviceId::Npu(0)), native, source).unwrap();
            drop(router);
            for device in ["device_cpu", "device_0"] {
                assert_eq!(fs::read_dir(root.path().join(device).join("dump")).unwrap().count(), 0);
            }
        }
    }
}

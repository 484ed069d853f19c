//! The dump files of one process as a trace.
use super::RowFile;
use super::error::ReadError;
use super::note::{KeptTexts, accessed_block, note_of};
use super::record::{Record, What};
use super::row::{FileFacts, Refused, RowReader};
use super::runs::{Cursor, RunLimits, Runs, Sorted};
use super::sources::open_rows;
use crate::rows::{Event, EventType};
use memscope_model::{
    Access, AccessedBlock, BlockId, Circumstances, Damage, DevAddr, Device, Ledger, ModelError, Name, NoteKind,
    Outcome, RowPlace, Stacks, Status, TimestampNs, TraceInfo, TraceSink, TraceSource,
};
use std::borrow::Cow;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How many bad rows of a file are reported one by one.
const TOLD_ROWS: u64 = 100;
/// Few enough for whoever waits between two steps, many enough not to notice the steps.
const EVENTS_A_STEP: usize = 1 << 12;
/// How much of the work reading is; the rest is making events of what was read.
const SHARE_OF_READING: f64 = 0.8;

/// The dump files of one process, one for each device, merged by time: a [`TraceSource`].
///
/// The rows are read once, in the first steps, which give no events; what stays in memory or in a temporary file is a
/// record of 72 bytes a row. When the recording began is not in the files: it is taken to be the time of the first row.
pub struct FileSource {
    files: Vec<PathBuf>,
    pid: u32,
    /// Of the first row, once it is known.
    start: TimestampNs,
    stage: Stage,
    /// Empty while [`FileSource::stage`] has them.
    stacks: Stacks,
    last: Option<Box<Outcome>>,
}

enum Stage {
    /// A step failed, and nothing more will come.
    Failed,
    Reading(Box<Reading>),
    Read(Box<Contents>),
    Delivering(Box<Delivery>, Box<Contents>),
}

/// The files while they are read.
struct Reading {
    rows: RowReader,
    waiting: Vec<PathBuf>,
    file: Option<(Box<dyn RowFile + Send>, FileFacts)>,
    opened: u16,
    total: usize,
    runs: Runs,
    texts: Vec<u8>,
    /// Counts the rows.
    sequence: u64,
    findings: Findings,
}

/// What could not be read.
#[derive(Default)]
struct Findings {
    damage: Vec<Damage>,
    /// Bad rows of the file at hand.
    bad_rows: u64,
    unknown_rows: u64,
    first_error: Option<ReadError>,
}

/// What was read of all files.
struct Contents {
    sorted: Sorted,
    damage: Vec<Damage>,
    unknown_rows: u64,
    missing_stacks: u64,
    ranges_end_by_text: bool,
    owners: memscope_model::Owners,
}

/// Records becoming events.
struct Delivery {
    ledger: Ledger,
    cursor: Cursor,
    ranges: Ranges,
    /// The newest row of no device: such rows are in the file of every device.
    undirected: Option<Record>,
    text: Vec<u8>,
    dimensions: Vec<i64>,
}

impl FileSource {
    /// `process` is the one whose rows are taken, where the files hold those of several; `pid` is what the trace says.
    pub(crate) fn new(files: Vec<PathBuf>, pid: u32, process: Option<u32>) -> FileSource {
        let limits = RunLimits::default();
        let stage = Stage::Reading(Box::new(Reading::new(&files, process, limits)));
        FileSource { files, pid, start: TimestampNs::default(), stage, stacks: Stacks::default(), last: None }
    }

    /// The files it is read from.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl TraceSource for FileSource {
    fn info(&self) -> TraceInfo {
        TraceInfo { pid: self.pid, start: self.start, ..TraceInfo::default() }
    }

    fn step(&mut self, sinks: &mut [&mut dyn TraceSink]) -> Result<Status, ModelError> {
        let first_file = self.files.first().cloned().unwrap_or_default();
        match mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Failed => Ok(Status::Over),
            Stage::Reading(mut reading) => {
                if reading.step()? {
                    self.stage = Stage::Reading(reading);
                } else {
                    let (contents, stacks) = reading.finish(&first_file)?;
                    let order = |source| ReadError::Order { path: first_file, source };
                    self.start = contents.sorted.first_time().map_err(order)?;
                    self.stacks = stacks;
                    self.stage = Stage::Read(Box::new(contents));
                }
                Ok(Status::More)
            }
            Stage::Read(contents) => {
                let order = |source| ReadError::Order { path: first_file, source };
                let delivery = Delivery::new(&contents, mem::take(&mut self.stacks)).map_err(order)?;
                self.stage = Stage::Delivering(Box::new(delivery), contents);
                self.step(sinks)
            }
            Stage::Delivering(mut delivery, contents) => {
                let status = delivery.step(&contents, sinks);
                let status = status.map_err(|source| ReadError::Order { path: first_file, source })?;
                self.stage = Stage::Delivering(delivery, contents);
                if status == Status::Over {
                    let outcome = self.outcome();
                    self.rewind();
                    self.last = Some(Box::new(outcome));
                }
                Ok(status)
            }
        }
    }

    fn outcome(&mut self) -> Outcome {
        if let Some(last) = self.last.take() {
            return *last;
        }
        match &self.stage {
            Stage::Delivering(delivery, contents) => {
                let mut outcome = delivery.ledger.outcome();
                outcome.damage = contents.damage.clone();
                outcome.unknown_records = contents.unknown_rows;
                outcome.events_without_stack = contents.missing_stacks;
                outcome
            }
            _ => Outcome::default(),
        }
    }

    fn stacks(&self) -> &Stacks {
        match &self.stage {
            Stage::Delivering(delivery, _) => &delivery.ledger.stacks,
            Stage::Reading(reading) => &reading.rows.stacks,
            _ => &self.stacks,
        }
    }

    fn progress(&self) -> f64 {
        match &self.stage {
            Stage::Failed => 0.0,
            Stage::Reading(reading) => reading.progress() * SHARE_OF_READING,
            Stage::Read(_) => SHARE_OF_READING,
            Stage::Delivering(delivery, contents) => {
                let done = delivery.cursor.count() as f64 / contents.sorted.len().max(1) as f64;
                SHARE_OF_READING + (1.0 - SHARE_OF_READING) * done
            }
        }
    }

    fn rewind(&mut self) {
        self.last = None;
        self.stage = match mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Delivering(delivery, contents) => {
                self.stacks = delivery.ledger.stacks;
                Stage::Read(contents)
            }
            // What was read stays read.
            other => other,
        };
    }
}

impl Reading {
    fn new(files: &[PathBuf], process: Option<u32>, limits: RunLimits) -> Reading {
        Reading {
            rows: RowReader::new(process),
            waiting: files.iter().rev().cloned().collect(),
            file: None,
            opened: 0,
            total: files.len(),
            runs: Runs::new(limits),
            texts: Vec::new(),
            sequence: 0,
            findings: Findings::default(),
        }
    }

    /// Some thousand rows; `false` if there are no more.
    fn step(&mut self) -> Result<bool, ReadError> {
        if self.file.is_none() {
            let Some(path) = self.waiting.pop() else { return Ok(false) };
            self.open(&path);
            return Ok(true);
        }
        let Some((file, facts)) = &mut self.file else { return Ok(true) };
        let Reading { rows, runs, texts, findings, sequence, .. } = self;
        let path = file.path().to_owned();
        let mut failure = None;
        let more = file.read_some(&mut |place, row| {
            let record = row.map_err(Refused::Malformed).and_then(|cells| rows.read(cells, facts, *sequence, texts));
            *sequence += 1;
            match record {
                Ok(record) => failure = runs.push(record, texts).err().or(failure.take()),
                Err(Refused::Unknown) => findings.unknown_rows += 1,
                Err(Refused::OtherProcess) => {}
                Err(Refused::Malformed(why)) => findings.add_row(&path, place, why),
            }
        });
        if let Some(source) = failure {
            return Err(ReadError::Order { path, source });
        }
        match more {
            Ok(true) => {}
            Ok(false) => self.close(&path),
            Err(error) => {
                self.findings.add_file(path.clone(), error);
                self.close(&path);
            }
        }
        Ok(true)
    }

    fn open(&mut self, path: &Path) {
        let mut file = match open_rows(path) {
            Ok(file) => file,
            Err(error) => return self.findings.add_file(path.to_owned(), error),
        };
        let mut facts =
            FileFacts { number: self.opened, quoted_texts: file.has_quoted_texts(), ..FileFacts::default() };
        self.opened = self.opened.saturating_add(1);
        let frames = &mut facts.frames;
        let stacks = file.read_stacks(&mut |_, row| row.map_or((), |cells| frames.read(cells)));
        if let Err(error) = stacks {
            self.findings.damage.push(Damage::File { file: path.to_owned(), why: error.to_string() });
        }
        self.file = Some((file, facts));
    }

    fn close(&mut self, path: &Path) {
        self.file = None;
        let bad_rows = mem::take(&mut self.findings.bad_rows);
        if bad_rows > TOLD_ROWS {
            self.findings.damage.push(Damage::MoreRows { file: path.to_owned(), number: bad_rows - TOLD_ROWS });
        }
    }

    fn progress(&self) -> f64 {
        let (behind, within) = match &self.file {
            Some((file, _)) => (self.total - self.waiting.len() - 1, file.progress()),
            None => (self.total - self.waiting.len(), 0.0),
        };
        (behind as f64 + within) / self.total.max(1) as f64
    }

    fn finish(self, path: &Path) -> Result<(Contents, Stacks), ReadError> {
        let Reading { rows, runs, findings, .. } = self;
        if let Some(error) = findings.first_error.filter(|_| runs.is_empty()) {
            return Err(error);
        }
        let sorted = runs.finish().map_err(|source| ReadError::Order { path: path.to_owned(), source })?;
        let contents = Contents {
            sorted,
            damage: findings.damage,
            unknown_rows: findings.unknown_rows,
            missing_stacks: rows.missing_stacks,
            ranges_end_by_text: rows.ranges_end_by_text,
            owners: rows.owners,
        };
        Ok((contents, rows.stacks))
    }
}

impl Findings {
    fn add_row(&mut self, file: &Path, row: RowPlace, why: Cow<'static, str>) {
        self.bad_rows += 1;
        if self.bad_rows <= TOLD_ROWS {
            self.damage.push(Damage::Row { file: file.to_owned(), row, why: why.into_owned() });
        }
    }

    fn add_file(&mut self, file: PathBuf, error: ReadError) {
        self.damage.push(Damage::File { file, why: error.to_string() });
        self.first_error.get_or_insert(error);
    }
}

impl Delivery {
    fn new(contents: &Contents, stacks: Stacks) -> io::Result<Delivery> {
        let mut ledger = Ledger::new();
        ledger.stacks = stacks;
        ledger.owners = contents.owners.clone();
        Ok(Delivery {
            ledger,
            cursor: contents.sorted.cursor()?,
            ranges: Ranges { end_by_text: contents.ranges_end_by_text, ..Ranges::default() },
            undirected: None,
            text: Vec::new(),
            dimensions: Vec::new(),
        })
    }

    fn step(&mut self, contents: &Contents, sinks: &mut [&mut dyn TraceSink]) -> io::Result<Status> {
        for _ in 0..EVENTS_A_STEP {
            let Some(record) = contents.sorted.next(&mut self.cursor, &mut self.text)? else { return Ok(Status::Over) };
            if self.deliver(&record, sinks).is_break() {
                self.ledger.interrupt();
                return Ok(Status::Over);
            }
        }
        Ok(Status::More)
    }

    fn deliver(&mut self, record: &Record, sinks: &mut [&mut dyn TraceSink]) -> ControlFlow<()> {
        let now = Circumstances { time: record.time, thread: record.thread, stack: record.stack };
        match record.what {
            What::Malloc { block, reserved } => {
                if let Some(bytes) = reserved {
                    self.ledger.reserve(block.device, block.pool, bytes);
                }
                self.ledger.malloc(now, block, sinks)
            }
            What::Free { block, reserved } => {
                if let Some(bytes) = reserved {
                    self.ledger.reserve(block.device, block.pool, bytes);
                }
                self.ledger.free(now, block, sinks)
            }
            What::Note { event, event_type, pointer, .. } => {
                if record.device == Device::Unknown && self.is_told(record) {
                    return ControlFlow::Continue(());
                }
                self.note(now, record, (event, event_type), pointer, sinks)
            }
        }
    }

    /// Whether a row of no device was delivered from the file of another device.
    fn is_told(&mut self, record: &Record) -> bool {
        let kind = |record: &Record| match record.what {
            What::Note { event_type, .. } => Some(event_type),
            _ => None,
        };
        let told = self.undirected.as_ref().is_some_and(|told| {
            (told.order(), kind(told)) == (record.order(), kind(record)) && told.file != record.file
        });
        if !told {
            self.undirected = Some(*record);
        }
        told
    }

    fn note(
        &mut self,
        now: Circumstances,
        record: &Record,
        (event, event_type): (Event, EventType),
        pointer: Option<u64>,
        sinks: &mut [&mut dyn TraceSink],
    ) -> ControlFlow<()> {
        let Delivery { ledger, ranges, text, dimensions, .. } = self;
        let Some(texts) = KeptTexts::of(text) else { return ControlFlow::Continue(()) };
        // It was read before, so this is only to be safe.
        let Ok(kind) = note_of(event, event_type, pointer, &texts, dimensions) else {
            return ControlFlow::Continue(());
        };
        let mut named = |name: Option<Name<'_>>| name.map(|name| ledger.names.intern(name.text));
        let with = |name, id: Option<_>| match (name, id) {
            (Some(Name { text, .. }), Some(id)) => Some(Name { id, text }),
            _ => None,
        };
        let opened;
        let kind = match kind {
            NoteKind::RangeStart { text, .. } => NoteKind::RangeStart { id: ranges.start(now.thread, text), text },
            NoteKind::RangeEnd { id, text } => {
                let (id, known) = ranges.end(now.thread, id, text);
                opened = known;
                NoteKind::RangeEnd { id, text: opened.as_deref().or(text) }
            }
            NoteKind::Kernel { phase, name, stream, task } => {
                let id = named(name);
                NoteKind::Kernel { phase, name: with(name, id), stream, task }
            }
            NoteKind::AtbOperator { phase, mut operator } => {
                let id = named(operator.name);
                operator.name = with(operator.name, id);
                NoteKind::AtbOperator { phase, operator }
            }
            NoteKind::AtenOperator { phase, name, stream } => {
                let id = named(name);
                NoteKind::AtenOperator { phase, name: with(name, id), stream }
            }
            NoteKind::AtbKernel { phase, name, path } => {
                let id = named(name);
                NoteKind::AtbKernel { phase, name: with(name, id), path }
            }
            NoteKind::Access(access) => {
                let id = named(access.name);
                let block = block_of(ledger, &access, accessed_block(&texts), record.device, pointer);
                NoteKind::Access(Access { name: with(access.name, id), block, ..access })
            }
            other => other,
        };
        ledger.note(now, record.device, kind, sinks)
    }
}

/// The block that a row says, or else the one that is around the address.
fn block_of(
    ledger: &Ledger,
    access: &Access<'_>,
    id: Option<u64>,
    device: Device,
    pointer: Option<u64>,
) -> Option<AccessedBlock> {
    let Some(id) = id.map(BlockId) else { return ledger.state().around(device, access.address) };
    Some(match ledger.block(id) {
        Some(block) => AccessedBlock { block: id, address: DevAddr(block.address), device: block.device },
        None => AccessedBlock { block: id, address: pointer.map_or(access.address, DevAddr), device },
    })
}

/// Ranges that are open. Files do not say the number of a range where it starts: as the existing tool gives them, they
/// are counted from 1.
#[derive(Default)]
struct Ranges {
    started: u64,
    end_by_text: bool,
    /// Few at a time.
    open: Vec<OpenRange>,
    strays: u64,
}

struct OpenRange {
    id: u64,
    thread: u32,
    text: String,
}

impl Ranges {
    /// Ranges that nobody ends are forgotten at last.
    const MOST_OPEN: usize = 1024;

    fn start(&mut self, thread: u32, text: &str) -> u64 {
        self.started += 1;
        if self.open.len() == Ranges::MOST_OPEN {
            self.open.remove(0);
        }
        self.open.push(OpenRange { id: self.started, thread, text: text.to_owned() });
        self.started
    }

    /// The number of the range that ends, and its text if it is known. A text stands for the newest range that has it,
    /// of the same thread if there is one: ranges are nested more often than not.
    fn end(&mut self, thread: u32, id: u64, text: Option<&str>) -> (u64, Option<String>) {
        let found = match text {
            None if self.end_by_text => None,
            None => self.open.iter().rposition(|range| range.id == id),
            Some(text) => {
                let of_thread = self.open.iter().rposition(|range| range.text == text && range.thread == thread);
                of_thread.or_else(|| self.open.iter().rposition(|range| range.text == text))
            }
        };
        match found {
            Some(at) => {
                let range = self.open.remove(at);
                (range.id, Some(range.text))
            }
            // Of no range that is counted here.
            None => {
                self.strays += 1;
                (u64::MAX - self.strays, None)
            }
        }
    }
}

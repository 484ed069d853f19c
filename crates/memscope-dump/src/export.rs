//! One recorded process to its files, in one pass over its events.
use crate::brand::Brand;
use crate::config_json::RunConfig;
use crate::destination::{CONFIG_MODE, PartialFile, create_directories, file_time};
use crate::error::ExportError;
use crate::event_rows::{write_memory, write_note};
use crate::format::{Format, StackForm};
use crate::problem::Problem;
use crate::room::{self, Claim, Room};
use crate::router::{DumpLayout, Making, Router, StackSource};
use crate::rows::{CallRow, DeviceId, Event, EventType, Row, StackCells};
use crate::stack_text::StackTexts;
use crate::watch_dump::WatchDump;
use memscope_model::record_settings::{event, level};
use memscope_model::{
    Action, Annotations, BlockEvent, Device, DeviceRoom, Inefficiencies, NoteEvent, NoteKind, Outcome, Pool, Process,
    PythonCall, Selection, State, TimestampNs, TraceEvent, TraceSink, TraceSource,
};
use memscope_symbols::Symbolizer;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub const CONFIG_FILE: &str = "config.json";

/// Which events become rows, of those that can be chosen; the bits of the recorder's `dump` setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpEvents(u8);

impl DumpEvents {
    pub const NONE: DumpEvents = DumpEvents(0);
    pub const ALLOC: DumpEvents = DumpEvents(event::ALLOC);
    pub const FREE: DumpEvents = DumpEvents(event::FREE);
    /// Launches, and executions of kernels.
    pub const LAUNCH: DumpEvents = DumpEvents(event::LAUNCH);
    pub const ACCESS: DumpEvents = DumpEvents(event::ACCESS);
    pub const ALL: DumpEvents = DumpEvents(u8::MAX);

    pub const fn from_bits(bits: u8) -> DumpEvents {
        DumpEvents(bits)
    }

    pub const fn contains(self, other: DumpEvents) -> bool {
        self.0 & other.0 == other.0
    }

    fn wants(self, event: &BlockEvent) -> bool {
        let kind = match event.action {
            Action::Malloc => DumpEvents::ALLOC,
            Action::Free => DumpEvents::FREE,
        };
        event.selection != Selection::NotChosen && self.contains(kind)
    }

    /// Launches may have been recorded for an analysis, or to name accesses.
    fn wants_note(self, note: &NoteEvent<'_>, levels: Levels) -> bool {
        let of_kind = match note.kind {
            NoteKind::AtbOperator { .. } | NoteKind::AtenOperator { .. } => {
                levels.operators && self.contains(DumpEvents::LAUNCH)
            }
            NoteKind::AtbKernel { .. } | NoteKind::Kernel { .. } => levels.kernels && self.contains(DumpEvents::LAUNCH),
            NoteKind::Access(_) => self.contains(DumpEvents::ACCESS),
            // Has its place among the functions, in the trace of Python.
            NoteKind::Function { .. } => false,
            // They have files of their own.
            NoteKind::WatchBegin(_)
            | NoteKind::WatchMoment(_)
            | NoteKind::WatchLook(_)
            | NoteKind::WatchEnd { .. }
            | NoteKind::WatchProblem { .. } => false,
            _ => true,
        };
        note.chosen && of_kind
    }
}

/// Whose launches become rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Levels {
    operators: bool,
    kernels: bool,
}

impl Levels {
    /// From the bits of the recorder's `level` setting; all, where it says nothing.
    fn of(process: &Process) -> Levels {
        let bits = process.settings().level.unwrap_or(u8::MAX);
        Levels { operators: bits & level::OPERATOR != 0, kernels: bits & level::KERNEL != 0 }
    }
}

/// Memory usage of a device and of the process on it, as sampled from outside; `None` where no sample says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampledUsage {
    pub process_used: Option<u64>,
    pub device_used: Option<u64>,
    pub device_total: Option<u64>,
}

impl SampledUsage {
    /// Of the device.
    pub(crate) fn room(self) -> Option<DeviceRoom> {
        let total = self.device_total?;
        Some(DeviceRoom { free: total.saturating_sub(self.device_used?), total })
    }
}

/// What was sampled of a device at a time in nanoseconds since the epoch; of the host, what the process used there.
pub type UsageLookup<'a> = dyn Fn(Device, TimestampNs) -> SampledUsage + 'a;

/// How to export.
pub struct ExportOptions<'a> {
    pub format: Format,
    pub brand: Brand,
    /// Where rows have their stacks; `None`: of the host in a table, of devices in the rows.
    pub stacks: Option<StackForm>,
    pub dump_events: DumpEvents,
    /// Shared by exports that write at the same time.
    pub room: &'a Room,
    /// Called with what the user should know before a file is begun.
    pub notice: &'a mut dyn FnMut(String),
    /// Called now and then with the fraction done.
    pub progress: &'a mut dyn FnMut(f64),
    /// Set from elsewhere, ends the export with [`ExportError::Cancelled`]; no file is left or replaced.
    pub cancel: Option<&'a AtomicBool>,
    /// The caller's, so that it can name stacks afterwards without reading the symbols again.
    pub symbolizer: &'a mut Symbolizer,
    /// Asked for each row of device or pinned memory, for snapshots, and where tracing begins.
    pub usage: Option<&'a UsageLookup<'a>>,
    /// What an earlier pass found out about blocks.
    pub annotations: Option<&'a Annotations>,
}

impl<'a> ExportOptions<'a> {
    /// All there is, as the tool writes it unless told otherwise, and nobody listens.
    pub fn quiet(format: Format, room: &'a Room, symbolizer: &'a mut Symbolizer) -> ExportOptions<'a> {
        ExportOptions {
            format,
            brand: Brand::MsMemScope,
            stacks: None,
            dump_events: DumpEvents::ALL,
            room,
            // A closure that holds nothing is no memory: nothing is leaked.
            notice: Box::leak(Box::new(|_| {})),
            progress: Box::leak(Box::new(|_| {})),
            cancel: None,
            symbolizer,
            usage: None,
            annotations: None,
        }
    }
}

/// What was written.
#[derive(Debug)]
pub struct Exported {
    pub files: Vec<PathBuf>,
    /// What could not be: a full disk takes the files, never the outcome.
    pub failures: Vec<ExportError>,
    /// Events that became rows.
    pub rows: u64,
    pub outcome: Outcome,
    /// What the user should know: names that are missing, rows a viewer will not show.
    pub problems: Vec<Problem>,
}

/// Writes `device_<id>/dump/…` of each device with events, and `config.json`, into `directory`, replacing what an
/// earlier export wrote there. The events of the same pass go to `others`, too, all of them whatever becomes of the
/// files. Fails only if the recording cannot be read or the export is cancelled.
pub fn export_process(
    process: &mut Process,
    directory: &Path,
    options: ExportOptions<'_>,
    others: &mut [&mut dyn TraceSink],
) -> Result<Exported, ExportError> {
    let ExportOptions { format, brand, stacks, dump_events, room, notice, progress, cancel, symbolizer, .. } = options;
    let (usage, annotations) = (options.usage, options.annotations);
    let start = process.info().start;
    let utc_offset = process.settings().utc_offset;
    let time = file_time(directory, start, utc_offset);
    let layout = DumpLayout { process_directory: directory, time: &time, brand, format, stacks };
    let mut dump = Dump::new(process, &layout, symbolizer, dump_events, usage, cancel);
    dump.annotations = annotations;
    let claim = match claim_room(process, &layout, &mut dump, room, notice) {
        Ok(claim) => {
            dump.begin(Ok(Router::new(layout, Making::Files, usage)));
            claim
        }
        Err(refusal @ ExportError::NoRoom { .. }) => {
            dump.begin(Err(refusal));
            None
        }
        Err(error) => return Err(error),
    };
    let mut sinks: Vec<&mut dyn TraceSink> = Vec::with_capacity(others.len() + 2);
    sinks.extend(others.iter_mut().map(|sink| &mut **sink as &mut dyn TraceSink));
    let mut watch_dump = WatchDump::new(directory, &time, process.watched_contents(), Levels::of(process).operators);
    if format != Format::NoFiles {
        sinks.push(&mut dump);
        sinks.push(&mut watch_dump);
    }
    let outcome = process.run(&mut sinks, progress)?;
    if cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
        return Err(ExportError::Cancelled);
    }

    write_calls(process, &mut dump)?;
    if dump.is_cancelled() {
        return Err(ExportError::Cancelled);
    }
    let Dump { router, mut texts, rows, pid, next_id, .. } = dump;
    let mut problems = texts.problems().iter().cloned().map(Problem::Missing).collect::<Vec<_>>();
    let start = start_row(next_id, start, outcome.first_time, pid);
    let mut alive: Vec<u64> = outcome.live_blocks().map(|block| block.id.0).collect();
    alive.sort_unstable();
    let source = &mut StackSource { stacks: process.stacks(), texts: &mut texts };
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    match router.and_then(|router| router.finish(&start, &alive, source, &mut problems)) {
        Ok(written) => files = written,
        Err(failure) => failures.push(failure),
    }
    drop(claim);
    watch_dump.finish(&mut files, &mut failures);
    match write_config(process, directory) {
        Ok(written) => files.push(written),
        Err(failure) => failures.push(failure),
    }
    Ok(Exported { files, failures, rows, outcome, problems })
}

/// Refuses files that do not fit. Rows are counted, which is a pass of its own, only if the size of the recording does not
/// tell that there is room.
fn claim_room<'r>(
    process: &mut Process,
    layout: &DumpLayout<'_>,
    dump: &mut Dump<'_>,
    room: &'r Room,
    notice: &mut dyn FnMut(String),
) -> Result<Option<Claim<'r>>, ExportError> {
    if layout.format == Format::NoFiles {
        return Ok(None);
    }
    let directory = layout.process_directory;
    let most = room::most_bytes(process, layout.stacks);
    let surely_viewable = !layout.format.is_for_viewer() || most <= room::VIEWER_FILE_LIMIT;
    if surely_viewable && let Some(claim) = room.try_claim(directory, most) {
        return Ok(Some(claim));
    }
    process.run(&mut [&mut *dump], &mut |_| {})?;
    if dump.is_cancelled() {
        return Err(ExportError::Cancelled);
    }
    write_calls(process, dump)?;
    let Ok(router) = &dump.router else { return Ok(None) };
    let estimates = router.estimates();
    let stacks_recorded = process.settings().has_stacks();
    let claim = room.claim(directory, &estimates, stacks_recorded && router.has_inline_stacks())?;
    room::beyond_viewer(layout.format, &estimates).for_each(notice);
    Ok(Some(claim))
}

/// Calls of Python functions, after all rows.
fn write_calls(process: &Process, dump: &mut Dump<'_>) -> Result<(), ExportError> {
    let Ok(router) = &mut dump.router else { return Ok(()) };
    if !process.has_python_calls() {
        return Ok(());
    }
    let (mut failure, mut seen) = (None, 0u64);
    let source = &mut StackSource { stacks: process.stacks(), texts: &mut dump.texts };
    let (cancel, pid) = (dump.cancel, dump.pid);
    process.python_calls().each(&mut |call| {
        // A look at the flag is only worth it now and then.
        if seen.is_multiple_of(4096) && cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return ControlFlow::Break(());
        }
        seen += 1;
        let PythonCall { function, start, end, thread } = *call;
        match router.write_call(&CallRow { function, start, end, thread, process: pid }, source) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(failure) = failure {
        dump.router = Err(failure);
    }
    Ok(())
}

/// The sink that writes rows.
struct Dump<'a> {
    /// Or why there is none any more. What it had written is gone then, so that a full disk has room for others.
    router: Result<Router<'a>, ExportError>,
    texts: StackTexts<'a>,
    pid: u32,
    dump_events: DumpEvents,
    levels: Levels,
    usage: Option<&'a UsageLookup<'a>>,
    annotations: Option<&'a Annotations>,
    cancel: Option<&'a AtomicBool>,
    clock: RowClock,
    rows: u64,
    seen: u64,
    /// Larger than those of all rows.
    next_id: u64,
}

impl<'a> Dump<'a> {
    /// Ready to estimate the files.
    fn new(
        process: &Process,
        layout: &DumpLayout<'a>,
        symbolizer: &'a mut Symbolizer,
        dump_events: DumpEvents,
        usage: Option<&'a UsageLookup<'a>>,
        cancel: Option<&'a AtomicBool>,
    ) -> Dump<'a> {
        Dump {
            router: Ok(Router::new(*layout, Making::Estimates, usage)),
            texts: StackTexts::new(symbolizer),
            pid: process.info().pid,
            dump_events,
            levels: Levels::of(process),
            usage,
            annotations: None,
            cancel,
            clock: RowClock::default(),
            rows: 0,
            seen: 0,
            next_id: 0,
        }
    }

    /// Another pass, to other files.
    fn begin(&mut self, router: Result<Router<'a>, ExportError>) {
        self.router = router;
        (self.clock, self.rows, self.seen, self.next_id) = (RowClock::default(), 0, 0, 0);
    }

    fn write(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> Result<(), ExportError> {
        let Dump { router, texts, clock, usage, annotations, pid, .. } = self;
        let Ok(router) = router else { return Ok(()) };
        match event {
            TraceEvent::Memory(event) | TraceEvent::Alive(event) if self.dump_events.wants(event) => {
                self.rows += 1;
                self.next_id = event.at.event + 1;
                let sampled = sampled_usage(event, *usage);
                let found = match (event.action, annotations) {
                    (Action::Malloc, Some(annotations)) => annotations.get(event.block.id),
                    _ => Inefficiencies::NONE,
                };
                write_memory(router, event, (sampled, found), state, texts, clock.next(event.at.time), *pid)
            }
            TraceEvent::Note(note) if self.dump_events.wants_note(note, self.levels) => {
                self.rows += 1;
                self.next_id = note.at.event + 1;
                write_note(router, note, *usage, state.stacks, texts, clock.next(note.at.time), *pid)
            }
            _ => Ok(()),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

impl TraceSink for Dump<'_> {
    /// Others go on if the files cannot: only whoever cancels the export ends the pass.
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        // A look at the flag is only worth it now and then.
        if self.seen.is_multiple_of(4096) && self.is_cancelled() {
            return ControlFlow::Break(());
        }
        self.seen += 1;
        if let Err(failure) = self.write(event, state) {
            self.router = Err(failure);
        }
        ControlFlow::Continue(())
    }
}

fn sampled_usage(event: &BlockEvent, lookup: Option<&UsageLookup<'_>>) -> SampledUsage {
    match (event.block.pool, lookup) {
        // Of the heap nobody would look at it, and it has most of the rows.
        (Pool::Host, _) | (_, None) => SampledUsage::default(),
        (_, Some(lookup)) => lookup(event.block.device, event.at.time),
    }
}

/// Times of rows increase strictly: viewers sort by time alone, and a free must not change places with the next
/// allocation of its address. Recorded times have no more than a nanosecond of room to lose by that.
#[derive(Default)]
struct RowClock {
    last: TimestampNs,
}

impl RowClock {
    fn next(&mut self, time: TimestampNs) -> TimestampNs {
        // SQLite's largest integer is the end of all times; only made-up recordings come near it.
        const LATEST: TimestampNs = TimestampNs(i64::MAX as u64 - 1);
        self.last = time.max(self.last.later_by(1)).min(LATEST);
        self.last
    }
}

/// The moment recording began.
fn start_row(id: u64, start: TimestampNs, first: TimestampNs, process: u32) -> Row<'static> {
    Row {
        id,
        event: Event::System,
        event_type: EventType::START_TRACE,
        name: None,
        // The first event cannot be older than the start; where the clock says so, one nanosecond is between them.
        time: start.min(first.earlier_by(1)).max(TimestampNs(1)),
        process,
        thread: process,
        device: DeviceId::Unknown,
        pointer: None,
        attributes: &[],
        stack: StackCells::NONE,
    }
}

fn write_config(process: &Process, directory: &Path) -> Result<PathBuf, ExportError> {
    create_directories(directory)?;
    let path = directory.join(CONFIG_FILE);
    let settings = process.settings();
    let content = RunConfig::new(settings).to_json().map_err(ExportError::write(&path))?;
    let partial = PartialFile::create(&path, CONFIG_MODE)?;
    partial.file().write_all(&content).map_err(ExportError::write(&path))?;
    partial.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rows_increase_strictly_and_move_no_more_than_they_must() {
        let mut clock = RowClock::default();
        let times: Vec<u64> =
            [0, 0, 7, 7, 7, 8, 20, 9].into_iter().map(|time| clock.next(TimestampNs(time)).0).collect();
        assert_eq!(times, [1, 2, 7, 8, 9, 10, 20, 21]);
        assert_eq!(clock.next(TimestampNs(u64::MAX)).0, i64::MAX as u64 - 1);
        assert_eq!(clock.next(TimestampNs(u64::MAX)).0, i64::MAX as u64 - 1);
    }

    /// Estimates and real sizes of the files of a recording with stacks, as blocks of which half are freed.
    fn estimate_and_size(format: Format, stacks: StackForm, blocks: u32) -> (u64, u64) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("msmemscope_31_20251203091122_ascend");
        let mut spool = memscope_testkit::SpoolBuilder::new();
        spool.config("c=20;py=20;cpu=1;npu=0;dir=/tmp");
        let lane = spool.lane(1_234_567);
        spool.code(lane, 0, "/home/user/project/train.py", "Trainer.training_step", 10).python_node(lane, 1, 0, 0, 0);
        for node in 2..500 {
            spool.unknown_node(lane, node, if node % 20 == 2 { 0 } else { node - 1 }, 0x7f00_0000 + u64::from(node));
            spool.both(lane, 500 + node, node, 1);
        }
        for number in 0..blocks {
            let (ticks, address) = (u64::from(number) * 300, 0x5500_0000_0000 + u64::from(number) * 4096);
            spool.alloc(lane, ticks, address, u64::from(number) * 7 + 1, 502 + number % 498);
            if number % 2 == 0 {
                spool.free(lane, ticks + 150, address, 0);
            }
        }
        spool.write(&directory).unwrap();
        let mut process = Process::open(&directory).unwrap();
        let layout = DumpLayout {
            process_directory: &directory,
            time: "20251203091122",
            brand: Brand::MsMemScope,
            format,
            stacks: Some(stacks),
        };
        let mut symbolizer = Symbolizer::new();
        let mut dump = Dump::new(&process, &layout, &mut symbolizer, DumpEvents::ALL, None, None);
        process.run(&mut [&mut dump], &mut |_| {}).unwrap();
        let estimates = dump.router.as_ref().unwrap().estimates();
        assert_eq!(estimates.len(), 1);
        let room = Room::default();
        let options = ExportOptions {
            stacks: Some(stacks),
            notice: &mut |text| panic!("{text}"),
            ..ExportOptions::quiet(format, &room, &mut symbolizer)
        };
        let exported = export_process(&mut process, &directory, options, &mut []).unwrap();
        let dumps = exported.files.iter().filter(|file| !file.ends_with(CONFIG_FILE));
        (estimates[0].bytes, dumps.map(|file| std::fs::metadata(file).unwrap().len()).sum())
    }

    #[test]
    fn a_file_is_estimated_a_little_larger_than_it_becomes() {
        for format in [Format::Csv, Format::Db] {
            for stacks in StackForm::ALL {
                let (estimate, size) = estimate_and_size(format, stacks, 4000);
                // Headers and the last page are not in it.
                assert!(estimate + 40_000 >= size, "{format:?} {stacks:?}: {estimate} of {size}");
                assert!(estimate <= size + size / 8, "{format:?} {stacks:?}: {estimate} of {size}");
            }
        }
    }

    #[test]
    fn the_start_is_before_the_first_event_whatever_the_clocks_say() {
        let time = |start, first| start_row(1, TimestampNs(start), TimestampNs(first), 5).time.0;
        assert_eq!((time(100, 200), time(200, 200), time(300, 200), time(0, 1)), (100, 199, 199, 1));
    }
}

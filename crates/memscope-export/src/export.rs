//! One recorded process to its files, in one pass over its events.
use crate::config_json::RunConfig;
use crate::destination::{Brand, CONFIG_MODE, Format, PartialFile, create_directories, file_time};
use crate::error::ExportError;
use crate::router::Router;
use crate::rows::{Attribute, DeviceId, Event, EventType, Row, Value, key};
use crate::stack_text::StackTexts;
use memscope_model::{Action, Device, MemoryEvent, Origin, Outcome, Process, Stacks};
use memscope_symbols::Symbolizer;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub const CONFIG_FILE: &str = "config.json";

/// Which events become rows; the bits of the recorder's `dump` setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpEvents(u8);

impl DumpEvents {
    pub const NONE: DumpEvents = DumpEvents(0);
    pub const ALLOC: DumpEvents = DumpEvents(1);
    pub const FREE: DumpEvents = DumpEvents(2);
    pub const ALL: DumpEvents = DumpEvents(u8::MAX);

    pub const fn from_bits(bits: u8) -> DumpEvents {
        DumpEvents(bits)
    }

    pub const fn contains(self, other: DumpEvents) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How to export.
pub struct ExportOptions<'a> {
    pub format: Format,
    pub brand: Brand,
    pub dump_events: DumpEvents,
    /// Called now and then with the fraction done.
    pub progress: &'a mut dyn FnMut(f64),
    /// Set from elsewhere, ends the export with [`ExportError::Cancelled`]; no file is left or replaced.
    pub cancel: Option<&'a AtomicBool>,
    /// The caller's, so that it can name stacks afterwards without reading the symbols again.
    pub symbolizer: &'a mut Symbolizer,
}

/// What was written.
#[derive(Debug)]
pub struct Exported {
    pub files: Vec<PathBuf>,
    /// Events that became rows.
    pub rows: u64,
    pub outcome: Outcome,
    /// What the user should know: names that are missing, rows a viewer will not show.
    pub problems: Vec<String>,
}

/// Writes `device_<id>/dump/…` of each device with events, and `config.json`, into `directory`, replacing what an
/// earlier export wrote. `observer` is given every event, dumped or not.
pub fn export_process(
    process: &mut Process,
    directory: &Path,
    options: ExportOptions<'_>,
    observer: &mut dyn FnMut(&MemoryEvent),
) -> Result<Exported, ExportError> {
    let ExportOptions { format, brand, dump_events, progress, cancel, symbolizer } = options;
    let (pid, start_ns) = (process.info().pid, process.info().start_realtime_ns);
    let utc_offset = process.config("utc").and_then(|seconds| seconds.parse().ok());
    let cancelled = || cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));

    let mut router = Router::new(directory, brand, format, file_time(directory, start_ns, utc_offset));
    let mut texts = StackTexts::new(symbolizer);
    let mut clock = RowClock::default();
    let mut rows = 0u64;
    let mut failure = None;
    let outcome = process.replay(
        &mut |event, stacks| {
            observer(event);
            // A look at the flag is only worth it now and then.
            if event.id.is_multiple_of(4096) && cancelled() {
                failure = Some(ExportError::Cancelled);
                return ControlFlow::Break(());
            }
            let wanted = match event.action {
                Action::Malloc => DumpEvents::ALLOC,
                Action::Free => DumpEvents::FREE,
            };
            if !dump_events.contains(wanted) {
                return ControlFlow::Continue(());
            }
            rows += 1;
            match write_event(&mut router, event, stacks, &mut texts, clock.next(event.time_ns), pid) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        },
        progress,
    )?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if cancelled() {
        return Err(ExportError::Cancelled);
    }

    let mut problems = texts.problems().to_vec();
    let start = start_row(outcome.events, start_ns, outcome.first_time_ns, pid);
    let mut files = router.finish(&start, &mut problems)?;
    files.push(write_config(process, directory)?);
    Ok(Exported { files, rows, outcome, problems })
}

/// Times of rows increase strictly: viewers sort by time alone, and a free must not change places with the next
/// allocation of its address. Recorded times have no more than a nanosecond of room to lose by that.
#[derive(Default)]
struct RowClock {
    last_ns: u64,
}

impl RowClock {
    fn next(&mut self, time_ns: u64) -> u64 {
        // SQLite's largest integer is the end of all times; only made-up recordings come near it.
        const LATEST: u64 = i64::MAX as u64 - 1;
        self.last_ns = time_ns.max(self.last_ns + 1).min(LATEST);
        self.last_ns
    }
}

fn write_event(
    router: &mut Router<'_>,
    event: &MemoryEvent,
    stacks: &Stacks,
    texts: &mut StackTexts<'_>,
    timestamp_ns: u64,
    process: u32,
) -> Result<(), ExportError> {
    const MOST_ATTRIBUTES: usize = 6;
    const NOTHING: Attribute<'static> = Attribute { key: "", value: Value::Integer(0) };
    let mut attributes = [NOTHING; MOST_ATTRIBUTES];
    attributes[0] = Attribute { key: key::ALLOCATION_ID, value: Value::Integer(event.block.0) };
    attributes[1] = Attribute { key: key::ADDRESS, value: Value::Address(event.address) };
    attributes[2] = Attribute { key: key::SIZE, value: Value::Integer(event.size) };
    attributes[3] = Attribute { key: key::TOTAL, value: Value::Integer(event.total) };
    let mut count = 4;
    if event.synthetic {
        attributes[count] = Attribute { key: key::SHADOW, value: Value::Text("true") };
        count += 1;
    }
    if event.origin == Origin::Mapping && event.action == Action::Malloc {
        attributes[count] = Attribute { key: key::ALLOC_TYPE, value: Value::Text("mmap") };
        count += 1;
    }
    let (python_stack, c_stack) = texts.cells(event.stack, stacks);
    router.write(&Row {
        id: event.id,
        event: match event.action {
            Action::Malloc => Event::Malloc,
            Action::Free => Event::Free,
        },
        event_type: EventType::of(event.pool),
        name: None,
        timestamp_ns,
        process,
        thread: event.thread,
        device: device_id(event.device),
        pointer: Some(event.address),
        attributes: &attributes[..count],
        python_stack,
        c_stack,
    })
}

fn device_id(device: Device) -> DeviceId {
    match device {
        Device::Cpu => DeviceId::Cpu,
        Device::Npu(number) => DeviceId::Npu(u32::from(number)),
        Device::Unknown => DeviceId::Unknown,
    }
}

/// The moment recording began.
fn start_row(id: u64, start_ns: u64, first_ns: u64, process: u32) -> Row<'static> {
    Row {
        id,
        event: Event::System,
        event_type: EventType::START_TRACE,
        name: None,
        // The first event cannot be older than the start; where the clock says so, one nanosecond is between them.
        timestamp_ns: start_ns.min(first_ns.saturating_sub(1)).max(1),
        process,
        thread: process,
        device: DeviceId::Unknown,
        pointer: None,
        attributes: &[],
        python_stack: "",
        c_stack: "",
    }
}

fn write_config(process: &Process, directory: &Path) -> Result<PathBuf, ExportError> {
    create_directories(directory)?;
    let path = directory.join(CONFIG_FILE);
    let setting = |key: &str| process.config(key);
    let content = RunConfig::new(&setting).to_json().map_err(ExportError::write(&path))?;
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
        let times: Vec<u64> = [0, 0, 7, 7, 7, 8, 20, 9].into_iter().map(|time| clock.next(time)).collect();
        assert_eq!(times, [1, 2, 7, 8, 9, 10, 20, 21]);
        assert_eq!(clock.next(u64::MAX), i64::MAX as u64 - 1);
        assert_eq!(clock.next(u64::MAX), i64::MAX as u64 - 1);
    }

    #[test]
    fn the_start_is_before_the_first_event_whatever_the_clocks_say() {
        let time = |start, first| start_row(1, start, first, 5).timestamp_ns;
        assert_eq!((time(100, 200), time(200, 200), time(300, 200), time(0, 1)), (100, 199, 199, 1));
    }
}

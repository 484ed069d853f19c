//! The lane of a device's task log, in the order of the device's time.
//!
//! A line is read from the driver some time after what it reports. Nothing else is in its lane, so the lane can be read
//! ahead of the others and its lines take their turn at the time the device gave them.
use crate::TimestampNs;
use crate::device_clock::DeviceClock;
use memscope_format::decode::{EventKind, LaneCursor, Spool, SpoolError, Timeline};
use memscope_format::record::{PhysicalDevice, TaskLogLine};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Whether a lane that has this event is one of a task log.
pub(crate) fn is_of_task_log(kind: EventKind) -> bool {
    matches!(kind, EventKind::DeviceClock { .. } | EventKind::Execution { .. })
}

/// A line with its place in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TimedLine {
    /// The host's ticks at the device's time.
    pub(crate) ticks: u64,
    /// Lines of one moment stay as they were written.
    pub(crate) number: u64,
    pub(crate) device: PhysicalDevice,
    /// Who read it.
    pub(crate) thread: u32,
    /// Whether `stream` says anything.
    pub(crate) streams: bool,
    pub(crate) stream: u16,
    pub(crate) task: u32,
    pub(crate) unit: u8,
    pub(crate) end: bool,
    /// Put back to wait for its launch, until now.
    pub(crate) waited: bool,
}

/// A task log being read.
pub(crate) struct TaskLogReader {
    cursor: LaneCursor,
    clocks: FxHashMap<PhysicalDevice, DeviceClock>,
    without_streams: FxHashSet<PhysicalDevice>,
    lines: BinaryHeap<Reverse<TimedLine>>,
    /// The latest time of a line read so far.
    newest: TimestampNs,
    /// The time of the line returned last.
    ticks: u64,
    numbers: u64,
    ended: bool,
    reported_bytes: u64,
    /// Lines whose device has no clock; they have the time they were read.
    pub(crate) undated: u64,
    /// Events that have no business here.
    pub(crate) foreign: u64,
}

/// The log is written in the order of time but for what is going on at once: an end is reported with its beginning, or
/// units report one after the other. A line waits for all that may come before it.
const DISORDER_NS: u64 = 1_000_000_000;
/// However much is going on.
const MOST_LINES: usize = 1 << 18;
/// A line cannot be from the future; the clocks may differ by so much.
const AHEAD_NS: u64 = 1_000_000_000;

impl TaskLogReader {
    /// The log in lane `number`. Its clock readings are all read at once: a line lies between two of them.
    pub(crate) fn open(spool: &Spool, number: u32, timeline: &Timeline) -> Result<TaskLogReader, SpoolError> {
        let mut clocks: FxHashMap<PhysicalDevice, DeviceClock> = FxHashMap::default();
        let mut without_streams = FxHashSet::default();
        let mut cursor = LaneCursor::new(number);
        while let Some(event) = cursor.next_event(spool, &mut |_| {})? {
            match event.kind {
                EventKind::DeviceClock { device, frequency_khz, counter, .. } => {
                    clocks.entry(device).or_default().see(counter, timeline.time(event.ticks), frequency_khz);
                }
                EventKind::Execution { device, streams: false, .. } => {
                    without_streams.insert(device);
                }
                _ => {}
            }
        }
        Ok(TaskLogReader {
            cursor: LaneCursor::new(number),
            clocks,
            without_streams,
            lines: BinaryHeap::new(),
            newest: TimestampNs::default(),
            ticks: 0,
            numbers: 0,
            ended: false,
            reported_bytes: 0,
            undated: 0,
            foreign: 0,
        })
    }

    pub(crate) fn devices_without_streams(&self) -> impl Iterator<Item = PhysicalDevice> {
        self.without_streams.iter().copied()
    }

    /// When the next line has its turn; `None` after the last.
    pub(crate) fn next_ticks(&mut self, spool: &Spool, timeline: &Timeline) -> Result<Option<u64>, SpoolError> {
        loop {
            let Some(Reverse(first)) = self.lines.peek() else {
                if self.ended || !self.read(spool, timeline)? {
                    return Ok(None);
                }
                continue;
            };
            let ticks = first.ticks.max(self.ticks);
            let waits = self.lines.len() < MOST_LINES && timeline.time(ticks).later_by(DISORDER_NS) > self.newest;
            if self.ended || !waits || !self.read(spool, timeline)? {
                return Ok(Some(ticks));
            }
        }
    }

    /// Takes the line that has its turn.
    pub(crate) fn take(&mut self) -> Option<TimedLine> {
        let Reverse(mut line) = self.lines.pop()?;
        line.ticks = line.ticks.max(self.ticks);
        self.ticks = line.ticks;
        Some(line)
    }

    /// Lets a line have another turn.
    pub(crate) fn put_back(&mut self, line: TimedLine, ticks: u64) {
        self.lines.push(Reverse(TimedLine { ticks, waited: true, ..line }));
    }

    /// Takes in one more line; `false` at the end.
    fn read(&mut self, spool: &Spool, timeline: &Timeline) -> Result<bool, SpoolError> {
        while let Some(event) = self.cursor.next_event(spool, &mut |_| {})? {
            let EventKind::Execution { device, streams, line } = event.kind else {
                self.foreign += u64::from(!is_of_task_log(event.kind));
                continue;
            };
            let TaskLogLine { stream, task, unit, end, counter } = line;
            let read_at = timeline.time(event.ticks);
            let time = match self.clocks.get(&device).and_then(|clock| clock.time(counter)) {
                Some(time) => time.min(read_at.later_by(AHEAD_NS)),
                None => {
                    self.undated += 1;
                    read_at
                }
            };
            self.newest = self.newest.max(time);
            self.numbers += 1;
            self.lines.push(Reverse(TimedLine {
                ticks: timeline.ticks(time),
                number: self.numbers,
                device,
                thread: event.thread,
                streams,
                stream,
                task,
                unit,
                end,
                waited: false,
            }));
            return Ok(true);
        }
        self.ended = true;
        Ok(false)
    }

    /// How many bytes of the spool were read since the last call.
    pub(crate) fn take_bytes(&mut self) -> u64 {
        let consumed = self.cursor.consumed();
        consumed - std::mem::replace(&mut self.reported_bytes, consumed)
    }

    pub(crate) fn cursor(&self) -> &LaneCursor {
        &self.cursor
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{PhysicalDevice, TimedLine};

    /// The beginning of a task on device 0.
    pub(crate) fn line(stream: u16, task: u32, unit: u8) -> TimedLine {
        TimedLine {
            ticks: 1,
            number: 1,
            device: PhysicalDevice(0),
            thread: 1,
            streams: true,
            stream,
            task,
            unit,
            end: false,
            waited: false,
        }
    }
}

//! Spools made to order, through the encoder the recorder uses, and programs [`compiled`] once. For tests only.
//!
//! ```no_run
//! use memscope_testkit::SpoolBuilder;
//! let mut spool = SpoolBuilder::new();
//! spool.config("c=20;py=10;dir=/tmp");
//! let lane = spool.lane(4711);
//! spool.module(lane, 0, 0x1000_0000, b"/usr/bin/program", b"\x01\x02");
//! spool.c_node(lane, 1, 0, 0, 0x42);
//! spool.alloc(lane, 10, 0x5000, 64, 1);
//! spool.free(lane, 20, 0x5000, 0);
//! spool.write(std::path::Path::new("/tmp/process")).unwrap();
//! ```
#![allow(unsafe_code)]
pub mod compiled;
mod memory;
mod operators;
mod program;
mod rounds;
mod stacks;

pub use memscope_format::encode::Extended;
use memscope_format::encode::{self, Deltas, NodeDeltas};
use memscope_format::layout::{self, ProcessHeader, WindowHeader};
pub use memscope_format::layout::{StopReason, seal};
pub use memscope_format::record::{
    AccessMode, HOST_DEVICE, Phase, Protection, Space, SystemKind, TaskLogLine, TensorOwner, TimestampNs,
    UNKNOWN_DEVICE,
};
pub use memscope_format::record::{
    DevAddr, FrameRecord, HostAddr, HostCall, LabelLevel, LogicalDevice, PhysicalDevice, SpaceAddr, SpaceDevice,
    StackRef,
};
pub use memscope_format::watch;
pub use rounds::{cases, rounds};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A tick is a nanosecond, and tick 0 is this wall clock time: an event at tick `t` has the time `EPOCH.later_by(t)`.
pub const EPOCH: TimestampNs = TimestampNs(1_700_000_000_000_000_000);
const START_MONOTONIC_NS: u64 = 1_000_000_000;

/// A lane of the spool being built: one thread's stream of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneNumber(pub u32);

/// A spool in the making.
#[derive(Clone, Debug)]
pub struct SpoolBuilder {
    header: Vec<u8>,
    lanes: Vec<LaneBuilder>,
    /// The bytes of `events.spool`.
    appended: Vec<u8>,
    small_windows: bool,
}

#[derive(Clone, Debug)]
struct LaneBuilder {
    thread: u32,
    /// The thread when the generation at hand began.
    first_thread: u32,
    generation: u32,
    base_ticks: Option<u64>,
    payload: Vec<u8>,
    last: Deltas,
    last_node: Box<NodeDeltas>,
    /// What the tests' numbers of Python nodes and of pairs stand for; any other is a C node.
    stacks: HashMap<u32, StackRef>,
    last_path: Vec<u8>,
    events: u64,
    earlier_events: u64,
    lost: u64,
}

impl Default for SpoolBuilder {
    fn default() -> Self {
        SpoolBuilder::new()
    }
}

impl SpoolBuilder {
    pub fn new() -> SpoolBuilder {
        let mut builder = SpoolBuilder {
            header: vec![0; layout::PROCESS_HEADER_SIZE],
            lanes: Vec::new(),
            appended: Vec::new(),
            small_windows: false,
        };
        builder.header[..8].copy_from_slice(&layout::PROCESS_MAGIC);
        builder.header_u32(offset_of!(ProcessHeader, version), layout::VERSION);
        builder.header_u32(offset_of!(ProcessHeader, header_size), layout::PROCESS_HEADER_SIZE as u32);
        builder.header_u32(offset_of!(ProcessHeader, window_size), layout::WINDOW_SIZE as u32);
        builder.header_u32(offset_of!(ProcessHeader, clock_kind), layout::ClockKind::Monotonic as u32);
        builder.header_u64(offset_of!(ProcessHeader, start_monotonic_ns), START_MONOTONIC_NS);
        builder.header_u32(offset_of!(ProcessHeader, state), layout::STATE_ENDED);
        builder.started_at(EPOCH.0);
        builder.process(4711, 1);
        builder
    }

    pub fn process(&mut self, pid: u32, run_id: u64) -> &mut Self {
        self.header_u32(offset_of!(ProcessHeader, pid), pid);
        self.header_u64(offset_of!(ProcessHeader, run_id), run_id);
        self
    }

    /// Moves the whole recording: tick 0 is `realtime_ns`.
    pub fn started_at(&mut self, realtime_ns: u64) -> &mut Self {
        self.header_u64(offset_of!(ProcessHeader, start_realtime_ns), realtime_ns);
        self
    }

    pub fn config(&mut self, text: &str) -> &mut Self {
        let at = offset_of!(ProcessHeader, config);
        self.header[at..at + text.len()].copy_from_slice(text.as_bytes());
        self.header_u32(offset_of!(ProcessHeader, config_length), text.len() as u32);
        self
    }

    pub fn command(&mut self, executable: &str, command: &str) -> &mut Self {
        for (at, length_at, text) in [
            (offset_of!(ProcessHeader, executable), offset_of!(ProcessHeader, executable_length), executable),
            (offset_of!(ProcessHeader, command), offset_of!(ProcessHeader, command_length), command),
        ] {
            self.header[at..at + text.len()].copy_from_slice(text.as_bytes());
            self.header_u32(length_at, text.len() as u32);
        }
        self
    }

    pub fn stopped(&mut self, reason: StopReason, errno: u32) -> &mut Self {
        self.header_u32(offset_of!(ProcessHeader, stop_reason), reason as u32);
        self.header_u32(offset_of!(ProcessHeader, stop_errno), errno);
        self
    }

    /// Windows are as small as what they hold at the end allows, for files that are kept.
    pub fn small_windows(&mut self) -> &mut Self {
        self.small_windows = true;
        self
    }

    /// A new lane, owned by `thread`.
    pub fn lane(&mut self, thread: u32) -> LaneNumber {
        self.lanes.push(LaneBuilder {
            thread,
            first_thread: thread,
            generation: 1,
            base_ticks: None,
            payload: Vec::new(),
            last: Deltas::at(0),
            last_node: Box::default(),
            stacks: HashMap::new(),
            last_path: Vec::new(),
            events: 0,
            earlier_events: 0,
            lost: 0,
        });
        LaneNumber(self.lanes.len() as u32 - 1)
    }

    /// From here on the lane belongs to another thread.
    pub fn thread(&mut self, lane: LaneNumber, thread: u32) -> &mut Self {
        self.lane_mut(lane).thread = thread;
        self.definition(lane, &Extended::Thread { thread })
    }

    /// Counts events the lane could not record.
    pub fn lose(&mut self, lane: LaneNumber, events: u64) -> &mut Self {
        self.lane_mut(lane).lost += events;
        self
    }

    /// Counts events of threads that got no window.
    pub fn lose_without_window(&mut self, events: u64) -> &mut Self {
        self.header_u64(offset_of!(ProcessHeader, lost_without_window), events);
        self
    }

    fn note(&mut self, bits: u32) -> &mut Self {
        let offset = offset_of!(ProcessHeader, notes);
        let known: [u8; 4] = std::array::from_fn(|index| self.header[offset + index]);
        self.header_u32(offset, u32::from_le_bytes(known) | bits);
        self
    }

    /// Any record that is an event.
    pub fn record(&mut self, lane: LaneNumber, ticks: u64, record: &Extended<'_>) -> &mut Self {
        self.extended(lane, ticks, true, record)
    }

    /// Bytes that the encoder does not write, or no longer.
    pub fn raw(&mut self, lane: LaneNumber, bytes: &[u8]) -> &mut Self {
        let ticks = self.lane_mut(lane).last.ticks;
        self.make_room(lane, ticks, bytes.len());
        self.lane_mut(lane).payload.extend_from_slice(bytes);
        self
    }

    /// The lane's window goes to `events.spool`, as if it were full. Does nothing to an empty window.
    pub fn end_generation(&mut self, lane: LaneNumber) -> &mut Self {
        let builder = &mut self.lanes[lane.0 as usize];
        if builder.payload.is_empty() {
            return self;
        }
        let mut header = builder.header(lane, builder.window_size(self.small_windows));
        let checksum = layout::checksum(header.first_chunk().expect("a header has 64 bytes"), &builder.payload);
        let at = offset_of!(WindowHeader, checksum);
        header[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
        self.appended.extend_from_slice(&header);
        self.appended.extend_from_slice(&builder.payload);
        builder.payload.clear();
        builder.generation += 1;
        builder.base_ticks = None;
        builder.earlier_events = builder.events;
        builder.first_thread = builder.thread;
        self
    }

    /// Where the spool blocks written so far end in `events.spool`.
    pub fn appended_bytes(&self) -> usize {
        self.appended.len()
    }

    /// Writes `directory/spool/windows.spool` and, if a spool block was ended, `directory/spool/events.spool`.
    pub fn write(&mut self, directory: &Path) -> io::Result<()> {
        let directory = directory.join(layout::SPOOL_DIRECTORY);
        fs::create_dir_all(&directory)?;
        let sizes: Vec<u32> = self.lanes.iter().map(|lane| lane.window_size(self.small_windows)).collect();
        let bytes: usize = sizes.iter().map(|size| layout::window_bytes(*size)).sum();
        self.header_u32(offset_of!(ProcessHeader, window_pages), (bytes / layout::WINDOW_PAGE) as u32);
        self.header_u64(offset_of!(ProcessHeader, appended), self.appended.len() as u64);
        let windows = File::create(directory.join(layout::WINDOWS_FILE))?;
        windows.set_len((layout::PROCESS_HEADER_SIZE + bytes) as u64)?;
        windows.write_all_at(&self.header, 0)?;
        let mut offset = layout::PROCESS_HEADER_SIZE as u64;
        for ((number, lane), size) in (0u32..).zip(&self.lanes).zip(sizes) {
            windows.write_all_at(&lane.header(LaneNumber(number), size), offset)?;
            windows.write_all_at(&lane.payload, offset + layout::WINDOW_HEADER_SIZE as u64)?;
            offset += layout::window_bytes(size) as u64;
        }
        if !self.appended.is_empty() {
            fs::write(directory.join(layout::EVENTS_FILE), &self.appended)?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        encode: impl FnOnce(*mut u8, &mut Deltas) -> *mut u8,
    ) -> &mut Self {
        self.make_room(lane, ticks, encode::MAX_EVENT);
        let builder = self.lane_mut(lane);
        let mut bytes = [0u8; encode::MAX_EVENT];
        let end = encode(bytes.as_mut_ptr(), &mut builder.last);
        let length = end as usize - bytes.as_ptr() as usize;
        builder.payload.extend_from_slice(&bytes[..length]);
        builder.events += 1;
        self
    }

    /// A definition happens at the time of the record before it.
    fn definition(&mut self, lane: LaneNumber, record: &Extended<'_>) -> &mut Self {
        let ticks = self.lane_mut(lane).last.ticks;
        self.extended(lane, ticks, false, record)
    }

    fn extended(&mut self, lane: LaneNumber, ticks: u64, event: bool, record: &Extended<'_>) -> &mut Self {
        self.make_room(lane, ticks, record.room());
        let builder = self.lane_mut(lane);
        let mut bytes = vec![0u8; record.room()];
        let start = bytes.as_mut_ptr();
        // SAFETY: `bytes` has the room the record asks for and was made just now, so nothing else refers to it.
        let end = unsafe { encode::extended(start, &mut builder.last, ticks, record) };
        let length = end as usize - start as usize;
        builder.payload.extend_from_slice(&bytes[..length]);
        builder.events += u64::from(event);
        self
    }

    fn make_room(&mut self, lane: LaneNumber, ticks: u64, most: usize) {
        if self.lane_mut(lane).payload.len() + most > layout::WINDOW_PAYLOAD {
            self.end_generation(lane);
        }
        let builder = self.lane_mut(lane);
        if builder.base_ticks.is_none() {
            let base = ticks.max(builder.last.ticks);
            builder.base_ticks = Some(base);
            builder.last = Deltas::at(base);
            builder.last_node.forget();
            builder.last_path.clear();
        }
    }

    fn lane_mut(&mut self, lane: LaneNumber) -> &mut LaneBuilder {
        &mut self.lanes[lane.0 as usize]
    }

    fn header_u32(&mut self, at: usize, value: u32) {
        self.header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn header_u64(&mut self, at: usize, value: u64) {
        self.header[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

impl LaneBuilder {
    fn window_size(&self, small: bool) -> u32 {
        let holds = |size: &u32| layout::window_bytes(*size) >= layout::WINDOW_HEADER_SIZE + self.payload.len();
        (0..layout::LARGEST_WINDOW).find(|size| small && holds(size)).unwrap_or(layout::LARGEST_WINDOW)
    }

    fn header(&self, lane: LaneNumber, size: u32) -> [u8; layout::WINDOW_HEADER_SIZE] {
        let mut header = [0; layout::WINDOW_HEADER_SIZE];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        let base = self.base_ticks.unwrap_or(self.last.ticks);
        let progress = u64::from(self.generation) << 32 | self.payload.len() as u64;
        put(offset_of!(WindowHeader, magic), &layout::WINDOW_MAGIC.to_le_bytes());
        put(offset_of!(WindowHeader, size), &size.to_le_bytes());
        put(offset_of!(WindowHeader, progress), &progress.to_le_bytes());
        put(offset_of!(WindowHeader, lane), &lane.0.to_le_bytes());
        put(offset_of!(WindowHeader, thread), &self.first_thread.to_le_bytes());
        put(offset_of!(WindowHeader, base_ticks), &base.to_le_bytes());
        put(offset_of!(WindowHeader, base_monotonic_ns), &(START_MONOTONIC_NS + base).to_le_bytes());
        put(offset_of!(WindowHeader, lost), &self.lost.to_le_bytes());
        put(offset_of!(WindowHeader, earlier_events), &self.earlier_events.to_le_bytes());
        header
    }
}

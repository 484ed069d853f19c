//! Where things stand in the two files of a spool.
//!
//! ```text
//! windows.spool   | process header, 4 KiB | windows of 4 to 256 KiB, in any order  mapped shared, rewritten in place
//! events.spool    | spool block | spool block | …                                 appended, one `write` each
//! spool block = the window header (64 bytes) and the committed payload of a full window
//! ```
use core::sync::atomic::{AtomicU32, AtomicU64};

pub const VERSION: u32 = 3;
pub const WINDOWS_FILE: &str = "windows.spool";
pub const EVENTS_FILE: &str = "events.spool";
/// The folder of a process directory that holds the two files.
pub const SPOOL_DIRECTORY: &str = "spool";

pub const PROCESS_MAGIC: [u8; 8] = *b"msmspool";
pub const PROCESS_HEADER_SIZE: usize = 4096;

/// What windows are measured in; the smallest is one page.
pub const WINDOW_PAGE: usize = 4096;
/// The largest window: small enough to stay in a core's L2 cache, large enough that the append disappears in the noise.
pub const WINDOW_SIZE: usize = WINDOW_PAGE << LARGEST_WINDOW;
/// Windows have 1, 2, 4, … pages: each size by its logarithm, up to this one.
pub const LARGEST_WINDOW: u32 = 6;
pub const WINDOW_HEADER_SIZE: usize = 64;
pub const WINDOW_PAYLOAD: usize = WINDOW_SIZE - WINDOW_HEADER_SIZE;

/// Bytes of a window of `size`.
pub const fn window_bytes(size: u32) -> usize {
    WINDOW_PAGE << if size < LARGEST_WINDOW { size } else { LARGEST_WINDOW }
}
pub const WINDOW_MAGIC: u32 = u32::from_le_bytes(*b"msmw");

/// What the ticks of a spool are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ClockKind {
    /// x86 time stamp counter, or AArch64 virtual counter, shifted right by `clock_shift`.
    Counter = 0,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    Monotonic = 1,
}

/// Why recording ended before the process did. Values of `ProcessHeader::stop_reason`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum StopReason {
    None = 0,
    /// An append failed; `stop_errno` says why.
    WriteFailed = 1,
    /// The size cap the user set was reached.
    SizeCap = 2,
    /// The program installed a seccomp filter that forbids what recording needs.
    Sandbox = 3,
    /// It has one of which nobody knows what it forbids: it was installed unseen.
    UnknownFilter = 4,
}

/// Values of `ProcessHeader::state`.
pub const STATE_RUNNING: u32 = 1;
/// The library's destructor ran: the process went through a regular exit.
pub const STATE_ENDED: u32 = 2;

/// Bits of `ProcessHeader::notes`.
pub mod notes {
    /// Python stacks were asked for and the interpreter's version is not one whose frames we can read.
    pub const PYTHON_UNKNOWN: u32 = 1;
    /// The interpreter was found and its frames are read.
    pub const PYTHON_READ: u32 = 2;
    /// Kernels were asked for and another profiler holds the callbacks that tell their names and numbers.
    pub const PROFILING_TAKEN: u32 = 4;
    /// Kernels were asked for and a device's task log could not be had.
    pub const TASK_LOG_REFUSED: u32 = 8;
    /// The windows are on another file system than the rest of the recording, which may fail under a mapping.
    pub const WINDOWS_ELSEWHERE: u32 = 0x80;
    /// The program installed a seccomp filter under which threads and children that begin later cannot be recorded.
    pub const SANDBOXED: u32 = 0x100;
    /// Tracing was on when the recording began: a process forked in a span.
    pub const TRACING: u32 = 0x200;
    /// Blocks were labelled after they were allocated: who wants to know all labels of a block has to read on.
    pub const BLOCK_LABELS: u32 = 0x400;
    /// Operators were asked for and torch is not as any version we know: of its operators only names are recorded.
    pub const TORCH_UNKNOWN: u32 = 0x800;
    /// Calls of Python functions were traced, or pieces of code that the program named.
    pub const CALLS_TRACED: u32 = 0x1000;
}

pub const CONFIG_CAPACITY: usize = 1536;
pub const PATH_CAPACITY: usize = 1024;

/// The first page of `windows.spool`. All integers little-endian; both architectures we record on are.
#[repr(C)]
pub struct ProcessHeader {
    pub magic: [u8; 8],
    pub version: u32,
    pub header_size: u32,
    pub window_size: u32,
    pub clock_kind: u32,
    pub clock_shift: u32,
    pub pid: u32,
    pub parent_pid: u32,
    /// `PY_VERSION_HEX >> 16`, 0 without Python. Set when Python is found, which may be late.
    pub python_version: AtomicU32,
    pub run_id: u64,
    /// One moment on three clocks. Later calibrations pair ticks with the monotonic clock only, so that a step of the
    /// wall clock during the run does not bend the time line.
    pub start_ticks: u64,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    /// Changed while recording.
    pub state: AtomicU32,
    pub stop_reason: AtomicU32,
    pub stop_errno: AtomicU32,
    /// How many pages behind this one windows were made of; the file may end before the last of them.
    pub window_pages: AtomicU32,
    /// Events that no window could count, because the thread got none.
    pub lost_without_window: AtomicU64,
    /// Bytes appended to `events.spool`.
    pub appended: AtomicU64,
    /// Later calibrations, two slots used in turn: slot `calibrations % 2` holds the newest complete one.
    pub calibrations: AtomicU64,
    pub calibration_slots: [CalibrationSlot; 2],
    pub notes: AtomicU32,
    pub config_length: u32,
    pub executable_length: u32,
    pub command_length: u32,
    pub config: [u8; CONFIG_CAPACITY],
    pub executable: [u8; PATH_CAPACITY],
    pub command: [u8; PATH_CAPACITY],
    /// Blocks that went into a file the program had just put under our descriptor, and how many could not be taken back.
    pub strays: AtomicU32,
    pub strays_left: AtomicU32,
    /// How many seccomp filters the process had from before its program, [`FILTERS_UNCOUNTED`] if that could not be read, and
    /// how many it has installed in ways that the recorder sees.
    pub filters_inherited: AtomicU32,
    pub filters_known: AtomicU32,
    /// Set by the keeper: more than these two together were counted. The recorder makes no system call from then on.
    pub filters_counted: AtomicU32,
}

/// In place of a number of filters.
pub const FILTERS_UNCOUNTED: u32 = u32::MAX;

/// The same moment in ticks and on the monotonic clock.
#[repr(C)]
pub struct CalibrationSlot {
    pub ticks: AtomicU64,
    pub monotonic_ns: AtomicU64,
}

const _: () = assert!(size_of::<ProcessHeader>() <= PROCESS_HEADER_SIZE);

/// The first 64 bytes of a window, and of the spool block a full window becomes.
#[repr(C)]
pub struct WindowHeader {
    /// 0 while the window changes from one lane to another.
    pub magic: u32,
    /// How large the window is: see [`window_bytes`]. A spool block keeps it, though it ends with its payload.
    pub size: u32,
    /// `generation << 32 | committed`: one release store publishes a record; a new generation begins empty.
    pub progress: AtomicU64,
    /// A lane is the stream of the generations that carry its number.
    pub lane: u32,
    /// The thread that owned the lane when this generation began.
    pub thread: u32,
    /// A calibration: the same moment in ticks and on the monotonic clock. Ticks of the records count from it.
    pub base_ticks: u64,
    pub base_monotonic_ns: u64,
    /// Events the lane could not record since the process began.
    pub lost: AtomicU64,
    /// Events the lane recorded in earlier generations; tells how many a damaged spool block held.
    pub earlier_events: u64,
    /// XXH3 of the payload in a spool block, with the header's own first 56 bytes as seed. In a window: the writer's own.
    pub checksum: u64,
}

const _: () = assert!(size_of::<WindowHeader>() == WINDOW_HEADER_SIZE);

/// The checksum of a spool block: covers the payload and, as the seed, the header fields before it.
pub fn checksum(header: &[u8; 56], payload: &[u8]) -> u64 {
    let seed = xxhash_rust::xxh3::xxh3_64(header);
    xxhash_rust::xxh3::xxh3_64_with_seed(payload, seed)
}

/// Puts the checksum into the header of a spool block.
pub fn seal(header: &mut [u8; WINDOW_HEADER_SIZE], payload: &[u8]) {
    let (fields, place) = header.split_at_mut(core::mem::offset_of!(WindowHeader, checksum));
    if let (Some(fields), Some(place)) = (fields.first_chunk(), place.first_chunk_mut()) {
        *place = checksum(fields, payload).to_le_bytes();
    }
}

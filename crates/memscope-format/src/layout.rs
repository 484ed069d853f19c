//! Where things stand in the two files of a spool.
//!
//! ```text
//! windows.spool   | process header, 4 KiB | window 0, 256 KiB | window 1 | …      mapped shared, rewritten in place
//! events.spool    | block | block | …                                             appended, one `write` a block
//! block = the window header (64 bytes) and the committed payload of a full window
//! ```
use core::sync::atomic::{AtomicU32, AtomicU64};

pub const VERSION: u32 = 2;
pub const WINDOWS_FILE: &str = "windows.spool";
pub const EVENTS_FILE: &str = "events.spool";
/// The folder of a process directory that holds the two files.
pub const SPOOL_DIRECTORY: &str = "spool";

pub const PROCESS_MAGIC: [u8; 8] = *b"msmspool";
pub const PROCESS_HEADER_SIZE: usize = 4096;

/// Small enough to stay in a core's L2 cache, large enough that the append disappears in the noise.
pub const WINDOW_SIZE: usize = 256 * 1024;
pub const WINDOW_HEADER_SIZE: usize = 64;
pub const WINDOW_PAYLOAD: usize = WINDOW_SIZE - WINDOW_HEADER_SIZE;
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
    pub python_version: u32,
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
    /// How many windows were handed out; the file may end with one that never was.
    pub windows: AtomicU32,
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
}

/// The same moment in ticks and on the monotonic clock.
#[repr(C)]
pub struct CalibrationSlot {
    pub ticks: AtomicU64,
    pub monotonic_ns: AtomicU64,
}

const _: () = assert!(size_of::<ProcessHeader>() <= PROCESS_HEADER_SIZE);

/// The first 64 bytes of a window, and of the block a full window becomes.
#[repr(C)]
pub struct WindowHeader {
    pub magic: u32,
    pub flags: u32,
    /// `generation << 32 | committed`: one release store publishes a record; a new generation begins empty.
    pub progress: AtomicU64,
    /// The window's number within the process. A lane is the stream of blocks of one window.
    pub lane: u32,
    /// The thread that owned the lane when this generation began.
    pub thread: u32,
    /// A calibration: the same moment in ticks and on the monotonic clock. Ticks of the records count from it.
    pub base_ticks: u64,
    pub base_monotonic_ns: u64,
    /// Events the lane could not record since the process began.
    pub lost: AtomicU64,
    /// Events the lane recorded in earlier generations; tells how many a damaged block held.
    pub earlier_events: u64,
    /// XXH3 of the payload in a block, with the header's own first 56 bytes as seed; 0 in a live window.
    pub checksum: u64,
}

const _: () = assert!(size_of::<WindowHeader>() == WINDOW_HEADER_SIZE);

/// The checksum of a block: covers the payload and, as the seed, the header fields before it.
pub fn checksum(header: &[u8; 56], payload: &[u8]) -> u64 {
    let seed = xxhash_rust::xxh3::xxh3_64(header);
    xxhash_rust::xxh3::xxh3_64_with_seed(payload, seed)
}

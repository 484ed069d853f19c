//! The C table through which other code in the process talks to the recorder: `const Api *msmemscope_api(void)`. What
//! programs may use of it is in `include/msmemscope.h`.
//!
//! Both sides are compiled with it, so that they agree without linking each other.
//! Append only; a consumer checks `size` before it uses a member.

/// What the recording library offers.
#[repr(C)]
pub struct Api {
    /// Bytes of this table in the library that provides it.
    pub size: u32,
    /// Raised when a member changes its meaning.
    pub version: u32,
    /// Where the thread's two guard words are, relative to the thread pointer: the stack pointer of the hook at work, and
    /// the word at it.
    pub guard_offset: isize,
    /// What a call does that finds the guard taken: 0 pass unrecorded, 1 take it, 2 take the second.
    pub nested: unsafe extern "C" fn(stack: usize, frame: usize) -> u32,
    /// Ticks of the thread's lane, for `host_moved` and its like. This and what is told of host memory is called with the guard held.
    pub now: unsafe extern "C" fn() -> u64,
    pub host_alloc: unsafe extern "C" fn(address: usize, size: usize, stack: usize, frame: usize),
    pub host_free: unsafe extern "C" fn(address: usize),
    /// `new` 0: the block was freed and nothing took its place.
    pub host_moved: unsafe extern "C" fn(old: usize, new: usize, size: usize, began: u64, stack: usize, frame: usize),
    /// `protection` as in `mmap`, with [`NO_RESERVE`] where the flags say so.
    pub host_map: unsafe extern "C" fn(address: usize, size: usize, protection: u8, stack: usize, frame: usize),
    /// After the call, like `host_moved`.
    pub host_unmap: unsafe extern "C" fn(address: usize, size: usize, began: u64),
    pub host_remapped: unsafe extern "C" fn(
        old: usize,
        old_size: usize,
        new: usize,
        new_size: usize,
        began: u64,
        stack: usize,
        frame: usize,
    ),
    /// Tracing from here on, up to here, and the end of a step.
    pub start: extern "C" fn(),
    pub stop: extern "C" fn(),
    pub step: extern "C" fn(),
    /// The memory in use on a device is to be told under a name; a negative number is the device of the calling thread.
    pub snapshot: unsafe extern "C" fn(name: *const core::ffi::c_char, device: i32),
    pub host_protect: unsafe extern "C" fn(address: usize, size: usize, protection: u8, stack: usize, frame: usize),
    /// How much further than the guard the thread's second guard is.
    pub second_guard: usize,
    /// Host memory was asked for by one of [`host_call`] and not to be had.
    pub host_refused: unsafe extern "C" fn(call: u8, size: usize, flag: u8, stack: usize, frame: usize),
    /// Begins to record with these settings, as the environment variable has them, in a process that was not told by it.
    /// Answers [`BEGUN`], [`ALREADY_BEGUN`] or [`REFUSED`].
    pub begin: unsafe extern "C" fn(settings: *const u8, length: usize) -> u32,
    /// The process ends regularly; what comes later is recorded all the same.
    pub end: extern "C" fn(),
    /// A moment and a range, named by the program; texts are bytes with their length.
    pub mark: unsafe extern "C" fn(text: *const u8, length: usize),
    pub range_start: unsafe extern "C" fn(text: *const u8, length: usize) -> u64,
    pub range_end: extern "C" fn(id: u64),
    /// What the calling thread allocates has this label from here on, and up to here; the block around an address has it. Levels
    /// are those of [`label_level`]; of others nothing is recorded.
    pub label_start: unsafe extern "C" fn(level: u8, text: *const u8, length: usize),
    pub label_end: unsafe extern "C" fn(level: u8, text: *const u8, length: usize),
    pub label_block: unsafe extern "C" fn(address: usize, level: u8, text: *const u8, length: usize),
    /// A piece of code that is to be seen among the functions.
    pub function_start: unsafe extern "C" fn(text: *const u8, length: usize),
    pub function_end: unsafe extern "C" fn(text: *const u8, length: usize),
    /// As `snapshot`, with the numbers of the program's framework.
    pub told_snapshot: unsafe extern "C" fn(name: *const u8, length: usize, device: i32, memory: *const ToldMemory),
    /// Begins to trace the calls of Python functions; with [`calls::IF_ASKED_FOR`] only if the settings have it. The calling thread
    /// holds the interpreter's lock, here and below. Answers one of [`calls`], where something runs besides with
    /// [`calls::OTHERS_KEPT`].
    pub calls_begin: unsafe extern "C" fn(when: u32) -> u32,
    /// Ends that. Answers [`calls::ENDED`] or [`calls::NOT_BEGUN`], where somebody else took its place with
    /// [`calls::TAKEN_OVER`].
    pub calls_end: unsafe extern "C" fn() -> u32,
    /// Watches a block under a name, and answers the number of the watch, or [`WATCH_NOT_RECORDING`], [`WATCH_NO_MEMORY`],
    /// [`WATCH_TOO_MANY`] or [`WATCH_CAPTURED`].
    pub watch: unsafe extern "C" fn(block: *const WatchedBlock, name: *const u8, length: usize) -> i64,
    /// How many blocks of exactly this place were watched, and are not any more.
    pub unwatch: extern "C" fn(address: u64, size: u64) -> u32,
}

/// What a framework says of a device's memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ToldMemory {
    pub reserved: u64,
    pub max_reserved: u64,
    pub allocated: u64,
    pub max_allocated: u64,
    pub free: u64,
    pub total: u64,
}

/// Where a label stands in the text of an owner.
pub mod label_level {
    pub const FRAMEWORK: u8 = 0;
    pub const COMPONENT: u8 = 1;
    pub const PROCESS: u8 = 2;
    pub const DETAIL_1: u8 = 3;
    pub const DETAIL_2: u8 = 4;
    /// The user's own, of which any number may be open.
    pub const USER: u8 = 5;
    /// In no text: the phase of a training that the thread is in.
    pub const PHASE: u8 = 6;
}

/// Tracing calls: when it is wanted, and what came of it.
pub mod calls {
    pub const ALWAYS: u32 = 0;
    pub const IF_ASKED_FOR: u32 = 1;

    pub const BEGUN: u32 = 0;
    pub const ALREADY_BEGUN: u32 = 1;
    /// It was not asked for.
    pub const NOT_WANTED: u32 = 2;
    /// The interpreter is of a version, or a build, that is not known.
    pub const UNKNOWN_PYTHON: u32 = 3;
    /// Other tools have all places that the interpreter has for them.
    pub const NO_PLACE: u32 = 4;
    /// The interpreter refused.
    pub const REFUSED: u32 = 5;
    pub const ENDED: u32 = 6;
    pub const NOT_BEGUN: u32 = 7;
    /// Added: some threads have a profiler of their own, which was left to them.
    pub const OTHERS_KEPT: u32 = 0x100;
    /// Added: another profiler was put in the place of the trace meanwhile.
    pub const TAKEN_OVER: u32 = 0x200;
}

/// A block to be watched.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedBlock {
    /// As the program numbers it, or [`WATCHED_HOST`] or [`WATCHED_ANYWHERE`].
    pub device: i32,
    pub address: u64,
    pub size: u64,
    /// Where the memory that it is part of begins; 0 if that is not known.
    pub storage: u64,
    /// How often it is looked at; negative for no limit.
    pub looks: i64,
}

pub const WATCHED_HOST: i32 = -1;
/// On the thread's device, or else on the host.
pub const WATCHED_ANYWHERE: i32 = -2;

pub const WATCH_NOT_RECORDING: i64 = -1;
/// Nothing can be read there.
pub const WATCH_NO_MEMORY: i64 = -2;
pub const WATCH_TOO_MANY: i64 = -3;
/// A graph is being captured, and memory of a device cannot be read.
pub const WATCH_CAPTURED: i64 = -4;

/// Who was refused host memory, as in the recording.
pub mod host_call {
    pub const MALLOC: u8 = 0;
    pub const CALLOC: u8 = 1;
    pub const REALLOC: u8 = 2;
    pub const REALLOCARRAY: u8 = 3;
    pub const POSIX_MEMALIGN: u8 = 4;
    pub const ALIGNED_ALLOC: u8 = 5;
    pub const MEMALIGN: u8 = 6;
    pub const VALLOC: u8 = 7;
    pub const PVALLOC: u8 = 8;
    pub const MMAP: u8 = 9;
    pub const MREMAP: u8 = 10;
}

/// The name of a range of mstx that is not recorded, but has a number all the same: whoever asks for it learns whether his copy of mstx
/// leads to the recorder.
pub const MSTX_PROBE: &str = "msmemscope: who is there";

pub const API_VERSION: u32 = 3;

pub const BEGUN: u32 = 0;
/// With settings that were known before; they stand.
pub const ALREADY_BEGUN: u32 = 1;
/// The settings cannot be read, or the kernel is too old.
pub const REFUSED: u32 = 2;

/// What came of attaching the recording libraries to a running program: `const Attachment *msmemscope_attachment(void)`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Whether what is loaded from now on finds the recording libraries first.
    pub is_in_scope: u32,
    /// Whether a library that was loaded to show it did find them.
    pub is_proven: u32,
    /// References of what was loaded that lead to the recording libraries now, and those that could not be changed.
    pub replaced: u32,
    pub refused: u32,
    /// Whether host memory is left alone because the program itself defines the allocator.
    pub has_own_allocator: u32,
}

impl Attachment {
    pub const NOTHING: Attachment =
        Attachment { is_in_scope: 0, is_proven: 0, replaced: 0, refused: 0, has_own_allocator: 0 };
}

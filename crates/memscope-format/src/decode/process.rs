//! The process header, read.
use super::{u32_at, u64_at};
use crate::layout::{self, ClockKind, ProcessHeader, StopReason};
use crate::record::TimestampNs;
use crate::settings::RecordSettings;
use std::ffi::OsStr;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// How the recorded process stands, as far as the spool can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessState {
    /// Still running, or ended without passing through a regular exit (killed, `_exit`, exec).
    NotEnded,
    Ended,
}

/// What the process header says.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    pub pid: u32,
    pub parent_pid: u32,
    pub run_id: u64,
    pub clock: ClockKind,
    pub start_ticks: u64,
    pub start_monotonic_ns: u64,
    pub start: TimestampNs,
    pub state: ProcessState,
    pub stop_reason: StopReason,
    pub stop_errno: u32,
    /// Pages that windows were made of.
    pub window_pages: u32,
    pub lost_without_window: u64,
    pub appended: u64,
    /// Newest calibration: ticks and monotonic nanoseconds.
    pub calibration: Option<(u64, u64)>,
    /// `PY_VERSION_HEX >> 16` of the interpreter in the process, 0 if there is none.
    pub python_version: u16,
    pub notes: u32,
    /// Blocks that went into a file of the program, and how many of them are still there.
    pub strays: u32,
    pub strays_left: u32,
    /// The seccomp filters that the keeper counted, if more than the recorder knew of.
    pub filters_counted: u32,
    /// The recorder's settings as the command gave them.
    pub config: String,
    /// Not always text.
    pub executable: PathBuf,
    /// The command line, arguments separated by single spaces.
    pub command: String,
}

impl ProcessInfo {
    pub fn settings(&self) -> RecordSettings<'_> {
        RecordSettings::parse(self.config.as_bytes())
    }

    /// Python stacks were asked for, and the interpreter is of a version whose frames the recorder cannot read.
    pub fn python_unknown(&self) -> bool {
        self.notes & layout::notes::PYTHON_UNKNOWN != 0
    }

    /// Kernels were asked for, and another profiler holds the callbacks that tell their names and numbers.
    pub fn profiling_taken(&self) -> bool {
        self.notes & layout::notes::PROFILING_TAKEN != 0
    }

    /// Threads and forked children that began under a seccomp filter of the program may be missing.
    pub fn sandboxed(&self) -> bool {
        self.notes & layout::notes::SANDBOXED != 0 || self.filters_counted != 0
    }

    /// Tracing was on when the recording began, whatever the settings say.
    pub fn began_tracing(&self) -> bool {
        self.notes & layout::notes::TRACING != 0
    }

    /// The windows are, or were, on another file system than the rest of the recording.
    pub fn windows_elsewhere(&self) -> bool {
        self.notes & layout::notes::WINDOWS_ELSEWHERE != 0
    }

    /// Blocks were labelled after they were allocated.
    pub fn labels_blocks(&self) -> bool {
        self.notes & layout::notes::BLOCK_LABELS != 0
    }

    /// Parses the header page; the error says what is wrong with it.
    pub(super) fn parse(page: &[u8]) -> Result<ProcessInfo, HeaderError> {
        let u32_of = |offset: usize| u32_at(page, offset).ok_or(HeaderError::Truncated);
        let u64_of = |offset: usize| u64_at(page, offset).ok_or(HeaderError::Truncated);
        if page.get(..8) != Some(layout::PROCESS_MAGIC.as_slice()) {
            return Err(HeaderError::Magic);
        }
        let version = u32_of(offset_of!(ProcessHeader, version))?;
        if version != layout::VERSION {
            return Err(HeaderError::Version(version));
        }
        if u32_of(offset_of!(ProcessHeader, header_size))? as usize != layout::PROCESS_HEADER_SIZE
            || u32_of(offset_of!(ProcessHeader, window_size))? as usize != layout::WINDOW_SIZE
        {
            return Err(HeaderError::Sizes);
        }
        let bytes = |offset: usize, length: u32, capacity: usize| {
            page.get(offset..offset + (length as usize).min(capacity)).unwrap_or_default()
        };
        let text = |offset, length, capacity| String::from_utf8_lossy(bytes(offset, length, capacity)).into_owned();
        let calibrations = u64_of(offset_of!(ProcessHeader, calibrations))?;
        let slot = offset_of!(ProcessHeader, calibration_slots) + (calibrations % 2) as usize * 16;
        let calibration = match calibrations {
            0 => None,
            _ => Some((u64_of(slot)?, u64_of(slot + 8)?)),
        };
        Ok(ProcessInfo {
            pid: u32_of(offset_of!(ProcessHeader, pid))?,
            parent_pid: u32_of(offset_of!(ProcessHeader, parent_pid))?,
            run_id: u64_of(offset_of!(ProcessHeader, run_id))?,
            clock: match u32_of(offset_of!(ProcessHeader, clock_kind))? {
                0 => ClockKind::Counter,
                _ => ClockKind::Monotonic,
            },
            start_ticks: u64_of(offset_of!(ProcessHeader, start_ticks))?,
            start_monotonic_ns: u64_of(offset_of!(ProcessHeader, start_monotonic_ns))?,
            start: TimestampNs(u64_of(offset_of!(ProcessHeader, start_realtime_ns))?),
            state: match u32_of(offset_of!(ProcessHeader, state))? {
                layout::STATE_ENDED => ProcessState::Ended,
                _ => ProcessState::NotEnded,
            },
            stop_reason: match u32_of(offset_of!(ProcessHeader, stop_reason))? {
                0 => StopReason::None,
                2 => StopReason::SizeCap,
                3 => StopReason::Sandbox,
                4 => StopReason::UnknownFilter,
                _ => StopReason::WriteFailed,
            },
            stop_errno: u32_of(offset_of!(ProcessHeader, stop_errno))?,
            window_pages: u32_of(offset_of!(ProcessHeader, window_pages))?,
            lost_without_window: u64_of(offset_of!(ProcessHeader, lost_without_window))?,
            appended: u64_of(offset_of!(ProcessHeader, appended))?,
            calibration,
            python_version: u32_of(offset_of!(ProcessHeader, python_version))? as u16,
            notes: u32_of(offset_of!(ProcessHeader, notes))?,
            strays: u32_of(offset_of!(ProcessHeader, strays))?,
            strays_left: u32_of(offset_of!(ProcessHeader, strays_left))?,
            filters_counted: u32_of(offset_of!(ProcessHeader, filters_counted))?,
            config: text(
                offset_of!(ProcessHeader, config),
                u32_of(offset_of!(ProcessHeader, config_length))?,
                layout::CONFIG_CAPACITY,
            ),
            executable: PathBuf::from(OsStr::from_bytes(bytes(
                offset_of!(ProcessHeader, executable),
                u32_of(offset_of!(ProcessHeader, executable_length))?,
                layout::PATH_CAPACITY,
            ))),
            command: text(
                offset_of!(ProcessHeader, command),
                u32_of(offset_of!(ProcessHeader, command_length))?,
                layout::PATH_CAPACITY,
            ),
        })
    }
}

pub(super) enum HeaderError {
    Truncated,
    Magic,
    Version(u32),
    Sizes,
}

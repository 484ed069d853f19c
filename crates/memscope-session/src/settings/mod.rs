//! What is meant: typed settings, with the manual's rules applied.
pub mod allowed;
pub mod values;

use std::ffi::OsString;
use std::num::NonZeroU16;
use std::path::PathBuf;

use crate::brand::Brand;
use memscope_format::settings::{RecordSettings, analysis, event, level};
use values::Watch;

pub use memscope_dump::format::{FORMAT_CHOICES, FORMAT_HELP, FORMAT_WORDS};
pub use memscope_dump::{Format, StackForm};

/// One recorded run of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Empty: all. In the order given, without duplicates.
    pub steps: Vec<u32>,
    pub devices: Devices,
    pub level: LevelSet,
    /// The user's own choice: what is written. See [`Settings::collected`].
    pub dump: EventSet,
    /// `--events=…,traceback`: Python trace, which is no memory event.
    pub traceback: bool,
    pub call_stacks: CallStacks,
    pub collect_mode: CollectMode,
    pub analysis: Analysis,
    pub data_format: Format,
    /// Where files have their stacks; `None`: of the host in a table, of devices in the rows.
    pub stacks: Option<StackForm>,
    pub watch: Option<Watch>,
    /// Bytes of watched blocks that are kept.
    pub watch_max_bytes: Option<u64>,
    /// Absolute.
    pub output_dir: PathBuf,
    pub log_level: LogLevel,
    /// Bytes the recording may take on disk.
    pub max_size: Option<u64>,
    pub brand: Brand,
}

impl Settings {
    /// What has to be recorded so that the user's events can be paired and the analyses have what they need. The dump
    /// set stays as the user wrote it.
    pub fn collected(&self) -> EventSet {
        let pair = EventSet::ALLOC | EventSet::FREE;
        let mut events = self.dump;
        if events.intersects(pair | EventSet::ACCESS) {
            events |= pair;
        }
        let Analysis { leaks, decompose, inefficient, oom } = self.analysis;
        if leaks || oom.is_some() {
            events |= pair;
        }
        if decompose {
            events |= pair | EventSet::ACCESS;
        }
        if inefficient {
            events |= pair | EventSet::ACCESS | EventSet::LAUNCH;
        }
        // Who the neighbours of a watched block are, and what kernels are called.
        if self.watch.is_some() {
            events |= pair | EventSet::LAUNCH;
        }
        events
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Devices {
    pub npu: NpuSelection,
    pub cpu: bool,
}

impl Default for Devices {
    fn default() -> Self {
        Self { npu: NpuSelection::All, cpu: false }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NpuSelection {
    None,
    All,
    /// Bit `n` stands for `npu:n`. `npu:0` to `npu:31` one by one is the same as all.
    Set(u32),
}

impl NpuSelection {
    pub const fn mask(self) -> u32 {
        match self {
            Self::None => 0,
            Self::All => u32::MAX,
            Self::Set(mask) => mask,
        }
    }

    pub const fn of_mask(mask: u32) -> Self {
        match mask {
            0 => Self::None,
            u32::MAX => Self::All,
            mask => Self::Set(mask),
        }
    }
}

/// Bits as recordings have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelSet(u8);

impl LevelSet {
    pub const NONE: Self = Self(0);
    pub const OP: Self = Self(level::OPERATOR);
    pub const KERNEL: Self = Self(level::KERNEL);

    pub const fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl std::ops::BitOrAssign for LevelSet {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Bits as recordings have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSet(u8);

impl EventSet {
    pub const NONE: Self = Self(0);
    pub const ALLOC: Self = Self(event::ALLOC);
    pub const FREE: Self = Self(event::FREE);
    pub const LAUNCH: Self = Self(event::LAUNCH);
    pub const ACCESS: Self = Self(event::ACCESS);

    pub const fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u8 {
        self.0
    }

    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for EventSet {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for EventSet {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Frames to keep; `None`: no stacks of this kind. A depth of 0 on the command line means the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallStacks {
    pub c: Option<NonZeroU16>,
    pub python: Option<NonZeroU16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CollectMode {
    #[default]
    Immediate,
    Deferred,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Analysis {
    pub leaks: bool,
    pub decompose: bool,
    pub inefficient: bool,
    /// How many of the largest holders to list.
    pub oom: Option<NonZeroU16>,
}

impl Analysis {
    pub const NONE: Self = Self { leaks: false, decompose: false, inefficient: false, oom: None };
    pub const DEFAULT: Self = Self { leaks: true, ..Self::NONE };

    /// What a run was asked for.
    pub fn of_recording(settings: &RecordSettings<'_>) -> Self {
        let Some(bits) = settings.analysis else { return Self::DEFAULT };
        let holders = settings.oom_holders.and_then(NonZeroU16::new);
        Self {
            leaks: bits & analysis::LEAKS != 0,
            decompose: bits & analysis::DECOMPOSE != 0,
            inefficient: bits & analysis::INEFFICIENT != 0,
            oom: holders.filter(|_| bits & analysis::OUT_OF_MEMORY != 0),
        }
    }

    /// As recordings have them.
    pub fn bits(self) -> u8 {
        [
            (self.leaks, analysis::LEAKS),
            (self.decompose, analysis::DECOMPOSE),
            (self.inefficient, analysis::INEFFICIENT),
            (self.oom.is_some(), analysis::OUT_OF_MEMORY),
        ]
        .into_iter()
        .fold(0, |bits, (is_asked_for, bit)| if is_asked_for { bits | bit } else { bits })
    }
}

/// Ordered from talkative to silent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LogLevel {
    Debug,
    Info,
    #[default]
    Warn,
    Error,
}

impl LogLevel {
    /// As recordings have them.
    pub fn of_number(number: u8) -> Option<Self> {
        [Self::Debug, Self::Info, Self::Warn, Self::Error].into_iter().find(|level| *level as u8 == number)
    }
}

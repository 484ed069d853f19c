//! What a trace cannot tell, as facts: the words for them are whoever's who shows them.
use memscope_format::decode::Damage as SpoolDamage;
pub use memscope_format::layout::StopReason;
use std::path::PathBuf;

/// A place that could not be read; everything else was.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Damage {
    /// Of a spool.
    Spool(SpoolDamage),
    /// A row of a file that makes no sense.
    Row { file: PathBuf, row: RowPlace, why: String },
    /// More such rows of the file than are reported one by one.
    MoreRows { file: PathBuf, number: u64 },
    /// A file of several that cannot be read at all, or not to its end.
    File { file: PathBuf, why: String },
}

/// How users find a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowPlace {
    /// The line it begins in, from 1.
    Line(u64),
    /// SQLite's number.
    RowId(i64),
}

/// Something the recording says and that cannot be used, or something it should say and does not.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The value of ASCEND_RT_VISIBLE_DEVICES is no list of numbers.
    VisibleDevices { value: String },
    /// Kernel launches for which the runtime reported no task.
    LaunchesWithoutTask { number: u64, launches: u64 },
    /// Kernel launches whose name was never defined.
    LaunchesWithoutName { number: u64, launches: u64 },
    /// Executions of which no launch was recorded.
    StrayExecutions { number: u64 },
    /// Beginnings and ends of kernels that are dated by when they were read.
    UndatedExecutions { number: u64 },
}

/// Why recording ended before the process did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    pub reason: StopReason,
    /// Of a failed write.
    pub errno: i32,
}

/// Why no event was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NothingChosen {
    /// Steps were chosen, and there are none.
    NoSteps { chosen: Vec<u64> },
    /// None of the chosen steps came while tracing.
    OtherSteps { chosen: Vec<u64> },
    /// Tracing was left to the program, which never began it.
    NeverStarted,
}

//! The facts of a trace in words.
use memscope_model::{Damage, NothingChosen, Problem, RowPlace, STEP_TEXT, StopReason, Stopped};
use std::io;

pub(crate) fn damage(damage: &Damage) -> String {
    match damage {
        Damage::Spool(damage) => damage.to_string(),
        Damage::Row { file, row: RowPlace::Line(line), why } => format!("{}, line {line}: {why}", file.display()),
        Damage::Row { file, row: RowPlace::RowId(row), why } => format!("{}, row {row}: {why}", file.display()),
        Damage::MoreRows { file, number } => format!("{}: {number} more rows that make no sense", file.display()),
        // The words name the file.
        Damage::File { why, .. } => why.clone(),
        _ => format!("{damage:?}"),
    }
}

pub(super) fn problem(problem: &Problem) -> String {
    match problem {
        Problem::VisibleDevices { value } => format!(
            "ASCEND_RT_VISIBLE_DEVICES={value:?} is not a list of device numbers such as 0,1: devices of pools are told by \
             the numbers the program uses"
        ),
        Problem::LaunchesWithoutTask { number, launches } => format!(
            "{number} of {launches} kernel launches have no name, stream and task: the runtime reported no task for them \
             (another profiler may have taken its callbacks)"
        ),
        Problem::LaunchesWithoutName { number, launches } => format!(
            "{number} of {launches} kernel launches have no name: it was never told what their number stands for"
        ),
        Problem::StrayExecutions { number } => {
            format!("executions on a device of which no launch was recorded: {number}")
        }
        Problem::UndatedExecutions { number } => format!(
            "{number} beginnings and ends of kernels have the time at which they were read: the device's clock is not known"
        ),
        _ => format!("{problem:?}"),
    }
}

pub(super) fn stopped(stopped: Stopped) -> String {
    match stopped.reason {
        StopReason::WriteFailed => {
            format!("the recording could not be written: {}", io::Error::from_raw_os_error(stopped.errno))
        }
        StopReason::SizeCap => "the size limit of the recording was reached".to_owned(),
        StopReason::Sandbox => {
            "a seccomp filter of the program, or PR_SET_TSC, forbids what recording needs".to_owned()
        }
        StopReason::UnknownFilter => {
            "the program installed a seccomp filter by a system call of its own: what it forbids \
                                      cannot be known, so recording ended, and not the program"
                .to_owned()
        }
        StopReason::None => "the recording says so".to_owned(),
    }
}

/// `attached`: the program itself has begun its recording, without the command.
pub(super) fn nothing_chosen(why: &NothingChosen, attached: bool) -> String {
    let list = |chosen: &[u64]| {
        let numbers: Vec<String> = chosen.iter().map(u64::to_string).collect();
        numbers.join(",")
    };
    match why {
        NothingChosen::NoSteps { chosen } => format!(
            "no step was seen, and --steps={} shows nothing else: a step is an mstx range \"{STEP_TEXT}\", or ends with a \
             call of step()",
            list(chosen)
        ),
        NothingChosen::OtherSteps { chosen } => {
            format!("none of the steps of --steps={} came while tracing", list(chosen))
        }
        NothingChosen::NeverStarted if attached => "nothing was traced: the program never called start()".to_owned(),
        NothingChosen::NeverStarted => {
            "nothing was traced: --collect-mode=deferred leaves it to the program, and it never called start()"
                .to_owned()
        }
    }
}

//! What one recorded process came to, ready to be printed.
use super::analyses::Analyses;
use super::holders::{Holders, Largest, Rank, Roll};
use super::own_allocator;
use crate::analyze::{Conclusion, Ended};
use crate::views::merged::Naming;
use crate::views::names::Names;
use crate::{program_end, windows_home};
use memscope_analysis::{Held, PointInTime, PoolTally, UsageTally};
use memscope_model::{
    Device, ModelError, Outcome, Pool, PoolUsage, Process, ProcessInfo, ProcessState, Stacks, TimestampNs, TraceInfo,
    TraceSource, header_notes,
};
use memscope_symbols::Symbolizer;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// How many call sites a list names; of a process with many pools, how many of each.
const SITES: usize = 10;
const SITES_OF_MANY_POOLS: usize = 3;
const MANY_POOLS: usize = 3;

#[derive(Debug)]
pub struct ProcessReport {
    pub directory: PathBuf,
    pub run_id: u64,
    pub pid: u32,
    /// When the recording began, since the epoch.
    pub start: TimestampNs,
    pub executable: PathBuf,
    pub command: String,
    pub life: Life,
    /// How the process ended, if that was told: of the one that the command started.
    pub end: Option<ExitStatus>,
    /// It ran already when its recording began.
    pub attached: bool,
    pub stacks_recorded: bool,
    pub notes: Vec<String>,
    /// Parts of it went unrecorded, uncounted.
    pub unseen: bool,
    pub outcome: Outcome,
    /// The most the process had in memory, as far as it was sampled.
    pub resident_bytes: Option<u64>,
    pub pools: Vec<PoolReport>,
    /// Of what the pools' holders are called.
    pub names: Names,
    /// Of the analyses that the run was asked for.
    pub conclusions: Vec<Conclusion>,
    pub files: Vec<PathBuf>,
    /// Which files could not be written, and why.
    pub unwritten: Vec<String>,
}

/// One pool of one device.
#[derive(Debug)]
pub struct PoolReport {
    pub device: Device,
    pub pool: Pool,
    pub peak_bytes: u64,
    /// Since the recording began.
    pub peak_after_ns: u64,
    pub live_bytes: u64,
    pub live_blocks: u64,
    /// What the pool had reserved at last and at most.
    pub reserved: Option<(u64, u64)>,
    pub at_peak: Holders,
    /// At the end.
    pub alive: Holders,
    /// When main returned, where that is known and is not the end.
    pub main_returned: Option<Holders>,
}

impl PoolReport {
    /// `cpu HOST`, `npu 0 PTA`.
    pub fn label(&self) -> String {
        format!("{} {}", device_label(self.device), self.pool.name())
    }
}

pub(crate) fn device_label(device: Device) -> String {
    match device {
        Device::Npu(number) => format!("npu {number}"),
        Device::Cpu => "cpu".to_owned(),
        Device::Unknown => "unknown device".to_owned(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    Exited,
    Running,
    /// Killed, `_exit`, or replaced by `exec`: the recorder is not told which.
    Cut,
    /// Dump files do not say.
    NotTold,
}

impl Life {
    fn of(info: &ProcessInfo) -> Life {
        match info.state {
            ProcessState::Ended => Life::Exited,
            ProcessState::NotEnded if runs(info) => Life::Running,
            ProcessState::NotEnded => Life::Cut,
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Life::Exited => "exited",
            Life::Running => "still running",
            Life::Cut => "ended without exit (killed, _exit or exec)",
            Life::NotTold => "read from its dump files",
        }
    }
}

/// Whether the process number still stands for the recorded program.
fn runs(info: &ProcessInfo) -> bool {
    std::fs::read_link(format!("/proc/{}/exe", info.pid)).is_ok_and(|exe| exe == info.executable)
}

impl ProcessReport {
    /// What the last recorded event stands for.
    pub fn last_moment(&self) -> &'static str {
        if self.outcome.is_cut_short() { "when recording stopped" } else { "at the end" }
    }

    /// Replays the recording in `directory` for nothing but this.
    pub fn read(
        directory: &Path,
        symbolizer: &mut Symbolizer,
        largest: &Largest,
        progress: &mut dyn FnMut(f64),
    ) -> Result<ProcessReport, ModelError> {
        let mut process = Process::open(directory)?;
        let mut analyses = Analyses::of_recording(&process);
        let outcome = process.run(&mut analyses.sinks(), progress)?;
        Ok(ProcessReport::new(&process, directory, outcome, analyses, symbolizer, largest))
    }

    pub fn new(
        process: &Process,
        directory: &Path,
        mut outcome: Outcome,
        analyses: Analyses,
        symbolizer: &mut Symbolizer,
        largest: &Largest,
    ) -> ProcessReport {
        let info = process.info();
        let settings = process.settings();
        let stacks_recorded = settings.has_stacks();
        let stacks = stacks_recorded.then(|| process.stacks());
        let contents = Contents::new(&analyses.usage, &outcome, info.start, stacks, symbolizer, largest);
        let trace_info = TraceSource::info(process);
        let ended = Ended::new(&trace_info, &outcome, directory);
        let conclusions = analyses.asked_for.finish(&ended, &mut Naming::new(process.stacks(), symbolizer));
        let mut notes = notes_of(info, directory, settings.has_python_stacks());
        if settings.cpu == Some(true) {
            notes.extend(own_allocator::note(&info.executable, &outcome));
        }
        outcome.forget_live_blocks();
        ProcessReport {
            directory: directory.to_owned(),
            run_id: info.run_id,
            pid: info.pid,
            start: info.start,
            executable: info.executable.clone(),
            command: if info.command.is_empty() { info.executable.display().to_string() } else { info.command.clone() },
            life: Life::of(info),
            end: None,
            attached: settings.attached == Some(true),
            stacks_recorded,
            notes,
            unseen: info.sandboxed(),
            outcome,
            resident_bytes: None,
            pools: contents.pools,
            names: contents.names,
            conclusions,
            files: Vec::new(),
            unwritten: Vec::new(),
        }
    }

    /// Of a process that was read from dump files at `path`.
    pub fn of_dump(
        trace: &dyn TraceSource,
        path: &Path,
        mut outcome: Outcome,
        analyses: Analyses,
        symbolizer: &mut Symbolizer,
        largest: &Largest,
    ) -> ProcessReport {
        let info = trace.info();
        let TraceInfo { pid, start, .. } = info;
        let stacks_recorded = !trace.stacks().is_empty();
        let stacks = stacks_recorded.then(|| trace.stacks());
        let contents = Contents::new(&analyses.usage, &outcome, start, stacks, symbolizer, largest);
        let ended = Ended::new(&info, &outcome, path);
        let conclusions = analyses.asked_for.finish(&ended, &mut Naming::new(trace.stacks(), symbolizer));
        outcome.forget_live_blocks();
        ProcessReport {
            directory: path.to_owned(),
            run_id: 0,
            pid,
            start,
            executable: path.to_owned(),
            command: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            life: Life::NotTold,
            end: None,
            attached: false,
            stacks_recorded,
            notes: Vec::new(),
            unseen: false,
            outcome,
            resident_bytes: None,
            pools: contents.pools,
            names: contents.names,
            conclusions,
            files: Vec::new(),
            unwritten: Vec::new(),
        }
    }

    /// How it ended, or that it did not.
    pub fn end_in_words(&self) -> String {
        self.end.map_or_else(|| self.life.describe().to_owned(), program_end::describe)
    }

    pub fn peak_bytes(&self) -> u64 {
        self.pools.iter().map(|pool| pool.peak_bytes).max().unwrap_or(0)
    }
}

/// The pools.
struct Contents {
    pools: Vec<PoolReport>,
    names: Names,
}

impl Contents {
    /// `stacks` is `None` if none were recorded.
    fn new(
        usage: &UsageTally,
        outcome: &Outcome,
        start: TimestampNs,
        stacks: Option<&Stacks>,
        symbolizer: &mut Symbolizer,
        largest: &Largest,
    ) -> Contents {
        let peak_bytes = usage.pools().map(|tally| tally.peak_bytes).max().unwrap_or(0);
        let in_detail = largest.takes_lead(Rank { refused: outcome.refusals > 0, peak_bytes });
        let shown = if usage.pools().len() > MANY_POOLS { SITES_OF_MANY_POOLS } else { SITES };
        let mut roll = stacks.map(|stacks| Roll::new(stacks, symbolizer, in_detail, shown));
        let mut pools: Vec<PoolReport> = usage
            .pools()
            .map(|tally| {
                let booked =
                    outcome.pools.iter().find(|usage| usage.device == tally.device && usage.pool == tally.pool);
                pool_report(tally, booked, start, usage, roll.as_mut())
            })
            .collect();
        pools.sort_by_key(|pool| (pool.device, pool.pool));
        Contents { pools, names: roll.map(Roll::into_names).unwrap_or_default() }
    }
}

/// Without a `roll` everything is one nameless site, and no list says as much.
fn pool_report(
    tally: &PoolTally,
    booked: Option<&PoolUsage>,
    start: TimestampNs,
    usage: &UsageTally,
    roll: Option<&mut Roll<'_>>,
) -> PoolReport {
    let at_peak = Held { bytes: tally.peak_bytes, blocks: tally.peak_blocks };
    let alive = Held { bytes: tally.live_bytes, blocks: tally.live_blocks };
    let mut report = PoolReport {
        device: tally.device,
        pool: tally.pool,
        peak_bytes: tally.peak_bytes,
        peak_after_ns: tally.peak_time.since(start),
        live_bytes: tally.live_bytes,
        live_blocks: tally.live_blocks,
        reserved: booked.and_then(|usage| usage.reserved_bytes.zip(usage.peak_reserved_bytes)),
        at_peak: Holders::default(),
        alive: Holders::default(),
        main_returned: None,
    };
    if let Some(roll) = roll {
        report.at_peak = roll.call(at_peak, &tally.top_at_peak(usize::MAX));
        let main_returned = usage.holdings(tally.device, tally.pool, PointInTime::MainReturned);
        match main_returned.filter(|holdings| holdings.total != alive) {
            Some(holdings) => report.main_returned = Some(roll.call(holdings.total, &holdings.stacks)),
            None => report.alive = roll.call(alive, &tally.top_alive(usize::MAX)),
        }
    }
    report
}

/// What the recording could not see, by the bits of the process header.
const NOTES: [(u32, &str); 4] = [
    (
        header_notes::PROFILING_TAKEN,
        "another profiler holds the profiling callbacks: kernel launches have no names, stream or task ids and no device \
         times",
    ),
    (
        header_notes::TASK_LOG_REFUSED,
        "the driver's task log could not be started (another profiler may have it): kernels of that device have no \
         device times",
    ),
    (
        header_notes::TORCH_UNKNOWN,
        "this version of torch is not one whose operators can be read in full (2.3 to 2.15 are): of its operators only \
         names are recorded, no accesses",
    ),
    (
        header_notes::SANDBOXED,
        "the program installed a seccomp filter that forbids system calls of the recorder: threads and forked children \
         that began under it are not recorded",
    ),
];

fn notes_of(info: &ProcessInfo, directory: &Path, python_wanted: bool) -> Vec<String> {
    let (major, minor) = (info.python_version >> 8, info.python_version & 0xff);
    // The one that names a version.
    let python = (python_wanted && info.python_unknown()).then(|| {
        format!(
            "Python {major}.{minor} is not one whose frames this version can read (3.9 to 3.14 are): no Python stacks"
        )
    });
    let sandboxed = if info.sandboxed() { header_notes::SANDBOXED } else { 0 };
    let told =
        NOTES.iter().filter(|(bit, _)| (info.notes | sandboxed) & bit != 0).map(|(_, sentence)| (*sentence).to_owned());
    let elsewhere = info.windows_elsewhere().then(|| match windows_home::place_of_windows(directory) {
        Some(place) => format!(
            "the output is on a file system that mappings cannot rely on: the newest part of the recording (its windows) \
             is at {}",
            place.display()
        ),
        None => "the output is on a file system that mappings cannot rely on: the windows were on a local one while the \
                 process ran"
            .to_owned(),
    });
    let strays = (info.strays > 0).then(|| {
        let left = match info.strays_left {
            0 => "taken back".to_owned(),
            left => format!("{left} of them are still there"),
        };
        format!(
            "{} of the recording went into a file that the program had just opened under our descriptor: {left}",
            super::quantity::counted(u64::from(info.strays), "block", "blocks")
        )
    });
    python.into_iter().chain(told).chain(elsewhere).chain(strays).collect()
}

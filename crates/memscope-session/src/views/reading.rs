//! From a recording on disk and a question to named stacks.
use super::merged::Naming;
use super::names::Names;
use super::profile::Profile;
use crate::report::quantity::{bytes, counted};
use crate::workers;
use memscope_analysis::{PointInTime, PoolTally, UsageTally};
use memscope_dump::{Source, Sources, sources};
use memscope_model::{
    Device, ModelError, Pool, STEP_TEXT, Stacks, Status, TimestampNs, TraceInfo, TraceSource, survey_processes,
};
pub use memscope_symbols::Symbolizer;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which memory of a recording is asked about. What is not said is where most memory was in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Question {
    pub pid: Option<u32>,
    pub device: Option<Device>,
    pub pool: Option<Pool>,
    pub at: At,
}

/// A moment, as users name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum At {
    #[default]
    Peak,
    End,
    /// When main returned.
    Main,
    /// Nanoseconds since the recording began.
    After(u64),
    /// When a step ended.
    Step(u32),
    /// No moment: all that was ever allocated, freed or not.
    Total,
}

impl At {
    pub(crate) fn point(self, start: TimestampNs) -> PointInTime {
        match self {
            At::Peak => PointInTime::Peak,
            At::End | At::Total => PointInTime::End,
            At::Main => PointInTime::MainReturned,
            At::After(ns) => PointInTime::Time(start.later_by(ns)),
            At::Step(number) => PointInTime::StepEnd(number),
        }
    }

    pub fn describe(self) -> String {
        match self {
            At::Peak => "at the peak".to_owned(),
            At::End => "at the end".to_owned(),
            At::Main => "when main returned".to_owned(),
            At::After(ns) => format!("at {:.3} s", ns as f64 / 1e9),
            At::Step(number) => format!("at the end of step {number}"),
            At::Total => "allocated in all".to_owned(),
        }
    }
}

/// Why a question has no answer. Each is a mistake in what was asked, and says what can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    #[error("there is no recording in {}", crate::usage_error::quoted(.0))]
    Nothing(PathBuf),
    #[error("no recording in {} is of process {pid}; recorded: {recorded}", crate::usage_error::quoted(.directory))]
    NoSuchProcess { directory: PathBuf, pid: u32, recorded: String },
    #[error("{whose} has no event of {asked}; it has: {known}")]
    NoSuchPool { whose: String, asked: String, known: String },
    #[error("{whose} has no event of memory")]
    NoMemory { whose: String },
    #[error("{whose} never came to step {asked}: {known}")]
    NoSuchStep { whose: String, asked: u32, known: String },
    #[error(
        "when main returned is not known of {whose}: it shows in Python call stacks, of a program that came to its end \
         (--call-stack=python)"
    )]
    MainUnknown { whose: String },
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What a pool of a process held at a moment.
#[derive(Debug)]
pub struct View {
    pub info: TraceInfo,
    pub device: Device,
    pub pool: Pool,
    pub at: At,
    /// When that was, since the recording began.
    pub after_ns: u64,
    pub profile: Profile,
    pub names: Names,
    /// No stack of this memory was recorded.
    pub stackless: bool,
}

impl View {
    /// `process 31 python3 train.py, cpu HOST at the peak (after 2.200 s): 1.0 GiB in 12 blocks`
    pub fn title(&self) -> String {
        let when = match self.at {
            At::After(_) | At::Total => self.at.describe(),
            at => format!("{} (after {:.3} s)", at.describe(), self.after_ns as f64 / 1e9),
        };
        let total = self.profile.total;
        format!(
            "{}, {} {when}: {} in {}",
            whose(&self.info),
            pool_label(self.device, self.pool),
            bytes(total.bytes),
            counted(total.blocks, "block", "blocks")
        )
    }
}

fn whose(info: &TraceInfo) -> String {
    format!("process {} {}", info.pid, crate::report::summary::shortened(&info.command))
}

pub fn pool_label(device: Device, pool: Pool) -> String {
    format!("{} {}", crate::report::process::device_label(device), pool.name())
}

/// Reads what is recorded in `directory` as far as the question needs it. `progress` is told how much of all is done.
pub fn read(
    directory: &Path,
    question: &Question,
    symbolizer: &mut Symbolizer,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<View, ReadingError> {
    let Sources { found, unreadable } = sources(directory)?;
    if let (true, Some((_, error))) = (found.is_empty(), unreadable.into_iter().next()) {
        return Err(error.into());
    }
    let found = match question.pid {
        None => found,
        Some(pid) => of_process(directory, found, pid)?,
    };
    let best = largest(found, question, progress)?;
    let (source, passage, _) = best.ok_or_else(|| ReadingError::Nothing(directory.to_owned()))?;
    if let (At::Step(asked), false) = (question.at, passage.has_moment) {
        return Err(ReadingError::NoSuchStep {
            whose: whose(&source.info()),
            asked,
            known: known_steps(passage.steps),
        });
    }
    view(&source.info(), source.stacks(), &passage.usage, question, symbolizer)
}

/// How many steps there are, and what would make some.
pub(crate) fn known_steps(steps: u32) -> String {
    match steps {
        0 => format!("it has no steps, which are mstx ranges \"{STEP_TEXT}\" or end with a call of step()"),
        count => format!("it has {}", counted(u64::from(count), "step", "steps")),
    }
}

/// A trace that was passed over, and its place among the others.
type Passed = (Box<dyn TraceSource + Send>, Passage, usize);

/// The process that is shown: that with the highest peak which has what is asked about; of two alike the first. Of the others
/// nothing is kept.
fn largest(
    found: Vec<Source>,
    question: &Question,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Option<Passed>, ModelError> {
    let number = found.len() as f64;
    let done = Mutex::new((0.0, progress));
    let best: Mutex<Option<Passed>> = Mutex::new(None);
    let found: Vec<Mutex<Option<Source>>> = found.into_iter().map(|source| Mutex::new(Some(source))).collect();
    let read = |place: usize, source: &Mutex<Option<Source>>| {
        let Some(Source { trace: mut source, .. }) = locked(source).take() else { return Ok(()) };
        let mut before = 0.0;
        let passage = follow(&mut *source, question, &mut |fraction| {
            let (sum, report) = &mut *locked(&done);
            *sum += (fraction - before) / number;
            before = fraction;
            report(*sum);
        })?;
        let rank = |passage: &Passage, place: usize| (passage.has_moment, passage.peak_bytes, Reverse(place));
        let mut best = locked(&best);
        if best.as_ref().is_none_or(|(_, other, at)| rank(&passage, place) > rank(other, *at)) {
            *best = Some((source, passage, place));
        }
        Ok(())
    };
    workers::each(&found, |_| 0, read).into_iter().collect::<Result<(), ModelError>>()?;
    Ok(best.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there is a recording at a path, readable or not, or a dump file. Directories of dump files are not looked for: that
/// takes a search, and whoever asks may have a whole disk before him.
pub fn holds_recording(path: &Path) -> bool {
    if path.is_file() {
        return sources(path).is_ok_and(|sources| !sources.found.is_empty());
    }
    survey_processes(path, None).is_ok_and(|found| !found.processes.is_empty() || !found.unreadable.is_empty())
}

fn of_process(root: &Path, found: Vec<Source>, pid: u32) -> Result<Vec<Source>, ReadingError> {
    const TOLD: usize = 20;
    let mut pids: Vec<String> = found.iter().map(|source| source.trace.info().pid.to_string()).collect();
    let chosen: Vec<Source> = found.into_iter().filter(|source| source.trace.info().pid == pid).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    if pids.len() > TOLD {
        let more = pids.len() - TOLD;
        pids.truncate(TOLD);
        pids.push(format!("and {more} more"));
    }
    Err(ReadingError::NoSuchProcess { directory: root.to_owned(), pid, recorded: pids.join(", ") })
}

/// What one pass over a trace came to.
struct Passage {
    usage: UsageTally,
    steps: u32,
    /// The moment asked about came.
    has_moment: bool,
    /// Of the pool asked about.
    peak_bytes: u64,
}

fn follow(
    source: &mut dyn TraceSource,
    question: &Question,
    progress: &mut dyn FnMut(f64),
) -> Result<Passage, ModelError> {
    // Dump files say when they begin once their first row is known.
    if matches!(question.at, At::After(_)) {
        while source.info().start == TimestampNs::default() && source.step(&mut [])? == Status::More {}
    }
    let mut usage = UsageTally::at(&[question.at.point(source.info().start)]);
    let steps = source.run(&mut [&mut usage], progress)?.steps.count();
    let has_moment = match question.at {
        At::Step(asked) => asked <= steps,
        At::Main => usage.has(PointInTime::MainReturned),
        At::Peak | At::End | At::After(_) | At::Total => true,
    };
    let peak_bytes = choose(&usage, question).map_or(0, |tally| tally.peak_bytes);
    Ok(Passage { usage, steps, has_moment, peak_bytes })
}

/// The pool with the highest peak of those asked about.
fn choose<'u>(usage: &'u UsageTally, question: &Question) -> Option<&'u PoolTally> {
    usage
        .pools()
        .filter(|tally| question.device.is_none_or(|device| device == tally.device))
        .filter(|tally| question.pool.is_none_or(|pool| pool == tally.pool))
        .max_by_key(|tally| tally.peak_bytes)
}

/// Answers the question from a pass over a trace that watched its moment and, if that is a step, came to it.
pub fn view(
    info: &TraceInfo,
    stacks: &Stacks,
    usage: &UsageTally,
    question: &Question,
    symbolizer: &mut Symbolizer,
) -> Result<View, ReadingError> {
    let Some(tally) = choose(usage, question) else {
        let known: Vec<String> = usage.pools().map(|tally| pool_label(tally.device, tally.pool)).collect();
        if known.is_empty() {
            return Err(ReadingError::NoMemory { whose: whose(info) });
        }
        let asked: Vec<String> = question
            .device
            .map(crate::report::process::device_label)
            .into_iter()
            .chain(question.pool.map(|pool| pool.name().to_owned()))
            .collect();
        return Err(ReadingError::NoSuchPool { whose: whose(info), asked: asked.join(" "), known: known.join(", ") });
    };
    let (device, pool) = (tally.device, tally.pool);
    let found = match question.at {
        At::Total => usage.allocated(device, pool),
        at => usage.holdings(device, pool, at.point(info.start)),
    };
    let holdings = match (found, question.at) {
        (Some(holdings), _) => holdings,
        // A step that no event came after, nor in.
        (None, At::Step(_)) => usage.holdings(device, pool, PointInTime::End).unwrap_or_default(),
        (None, _) => return Err(ReadingError::MainUnknown { whose: whose(info) }),
    };
    let mut naming = Naming::new(stacks, symbolizer);
    let profile = Profile::new(holdings.total, &holdings.stacks, &mut naming);
    let names = naming.names;
    let stackless = profile.stacks.iter().all(|stack| stack.frames.is_empty()) && !profile.stacks.is_empty();
    Ok(View {
        info: info.clone(),
        device,
        pool,
        at: question.at,
        after_ns: holdings.time.since(info.start),
        profile,
        names,
        stackless,
    })
}

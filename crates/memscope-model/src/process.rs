//! One recorded process.
use crate::labels::LateOwners;
use crate::refusals::Refusals;
use crate::replay::Replay;
use crate::trace::{Fan, Status, TraceInfo, TraceSink, TraceSource};
use crate::watch::{self, Contents};
use crate::{BlockEvent, ModelError, Outcome, ProcessInfo, ProcessState, PythonCalls, Stacks, State, TraceEvent};
use memscope_format::decode::Spool;
use memscope_format::layout;
use memscope_format::settings::RecordSettings;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A process directory, opened: a [`TraceSource`].
pub struct Process {
    spool: Arc<Spool>,
    spool_directory: PathBuf,
    /// The only time between `start` and `stop` that counts.
    span: Option<NonZeroU32>,
    /// While a pass is under way it has them.
    stacks: Stacks,
    /// Whose blocks are by labels that came later; `None` until a pass has looked for them.
    late: Option<Arc<LateOwners>>,
    /// The pass under way looks for them first.
    is_first: bool,
    pass: Pass,
}

/// Where the reading is.
enum Pass {
    Before,
    /// Labels of blocks are looked for, before anything is handed out.
    Labels(Box<Replay>),
    UnderWay(Box<Replay>),
    After(Box<Outcome>),
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("info", self.spool.process()).finish_non_exhaustive()
    }
}

impl Process {
    /// Opens a process directory (the one that holds `spool/`) or a spool directory itself.
    pub fn open(directory: &Path) -> Result<Process, ModelError> {
        let Some(spool_directory) = spool_directory(directory) else {
            return Err(ModelError::NoRecording { path: directory.to_owned() });
        };
        let spool = Arc::new(Spool::open(&spool_directory)?);
        let stacks = no_stacks(&spool.process().settings());
        let late = (!spool.process().labels_blocks()).then(Arc::default);
        Ok(Process { spool, spool_directory, span: None, stacks, late, is_first: false, pass: Pass::Before })
    }

    /// From the next pass on, only what happens from the `start` of this number, from 1, to the next `stop` is chosen, and
    /// steps are counted from there. The books are kept of everything.
    pub fn choose_span(&mut self, number: NonZeroU32) {
        self.span = Some(number);
    }

    /// The bytes of watched blocks; `None` if none were kept.
    pub fn watched_contents(&self) -> Option<Contents> {
        watch::contents(&self.spool_directory)
    }

    pub fn info(&self) -> &ProcessInfo {
        self.spool.process()
    }

    /// What the recorder was told.
    pub fn settings(&self) -> RecordSettings<'_> {
        self.spool.process().settings()
    }

    /// Whether calls of Python functions were traced.
    pub fn has_python_calls(&self) -> bool {
        self.info().notes & layout::notes::CALLS_TRACED != 0
    }

    /// They, if there are any: a pass of its own, thread by thread.
    pub fn python_calls(&self) -> PythonCalls {
        PythonCalls::new(&self.spool)
    }

    /// How many blocks the lists at refusals can name, which no record of its own tells.
    pub fn most_listed_blocks(&self) -> u64 {
        Refusals::new(&self.settings()).most_listed(self.recorded_bytes())
    }

    /// How much was recorded, known without reading it: bytes of records.
    pub fn recorded_bytes(&self) -> u64 {
        self.spool.recorded_bytes()
    }

    /// The stacks seen so far; ids of an earlier pass stay valid.
    pub fn stacks(&self) -> &Stacks {
        match &self.pass {
            Pass::UnderWay(replay) | Pass::Labels(replay) => &replay.stacks,
            _ => &self.stacks,
        }
    }

    /// All events in time order to one sink: see [`TraceSource::run`].
    pub fn trace(&mut self, sink: &mut dyn TraceSink, progress: &mut dyn FnMut(f64)) -> Result<Outcome, ModelError> {
        self.run(&mut [sink], progress)
    }

    /// As [`Process::trace`], only the events that are about memory.
    pub fn replay(
        &mut self,
        visit: &mut dyn FnMut(&BlockEvent, &Stacks) -> ControlFlow<()>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Outcome, ModelError> {
        let mut memory_only = |event: &TraceEvent<'_>, state: &State<'_>| match event {
            TraceEvent::Memory(event) => visit(event, state.stacks),
            _ => ControlFlow::Continue(()),
        };
        self.trace(&mut memory_only, progress)
    }
}

impl Process {
    /// How much of the first pass over a recording with labels of blocks is the search for them.
    const FOR_LABELS: f64 = 0.5;

    /// The pass that is due: first, where there are labels of blocks, the one that looks for them.
    fn begin(&mut self) -> Result<(), ModelError> {
        let settings = self.spool.process().settings();
        let stacks = std::mem::replace(&mut self.stacks, no_stacks(&settings));
        let replay = Box::new(Replay::new(&self.spool, &settings, self.span, stacks, self.late.as_ref())?);
        self.is_first = self.late.is_none();
        self.pass = if self.is_first { Pass::Labels(replay) } else { Pass::UnderWay(replay) };
        Ok(())
    }

    fn look_for_labels(&mut self) -> Result<Status, ModelError> {
        let Pass::Labels(replay) = &mut self.pass else { return Ok(Status::More) };
        let mut nobody = |_: &TraceEvent<'_>, _: &State<'_>| ControlFlow::Continue(());
        if replay.step(&mut nobody)? == Status::Over {
            self.late = Some(Arc::new(replay.late_owners()));
            self.rewind();
            self.begin()?;
            self.is_first = true;
        }
        Ok(Status::More)
    }
}

impl TraceSource for Process {
    fn info(&self) -> TraceInfo {
        let info = self.spool.process();
        TraceInfo {
            pid: info.pid,
            command: info.command.clone(),
            start: info.start,
            run_id: info.run_id,
            exited: Some(info.state == ProcessState::Ended),
            watch: info.settings().watch.filter(|watch| !watch.is_empty()).map(|watch| watch.to_string()),
        }
    }

    fn step(&mut self, sinks: &mut [&mut dyn TraceSink]) -> Result<Status, ModelError> {
        if matches!(self.pass, Pass::Before | Pass::After(_)) {
            self.begin()?;
        }
        let replay = match &mut self.pass {
            Pass::Labels(_) => return self.look_for_labels(),
            Pass::UnderWay(replay) => replay,
            Pass::Before | Pass::After(_) => return Ok(Status::Over),
        };
        let status = replay.step(&mut Fan(sinks));
        if !matches!(status, Ok(Status::More)) {
            let outcome = replay.outcome();
            self.rewind();
            self.pass = Pass::After(Box::new(outcome));
        }
        status
    }

    fn outcome(&mut self) -> Outcome {
        match &mut self.pass {
            Pass::Before | Pass::Labels(_) => Outcome::default(),
            Pass::UnderWay(replay) => replay.outcome(),
            Pass::After(outcome) => std::mem::take(outcome),
        }
    }

    fn stacks(&self) -> &Stacks {
        Process::stacks(self)
    }

    fn progress(&self) -> f64 {
        match &self.pass {
            Pass::Before => 0.0,
            Pass::Labels(replay) => replay.progress() * Self::FOR_LABELS,
            Pass::UnderWay(replay) if self.is_first => Self::FOR_LABELS + replay.progress() * (1.0 - Self::FOR_LABELS),
            Pass::UnderWay(replay) => replay.progress(),
            Pass::After(_) => 1.0,
        }
    }

    fn rewind(&mut self) {
        if let Pass::UnderWay(replay) | Pass::Labels(replay) = std::mem::replace(&mut self.pass, Pass::Before) {
            self.stacks = replay.stacks;
        }
    }
}

/// The spool directory in or at `directory`.
pub(crate) fn spool_directory(directory: &Path) -> Option<PathBuf> {
    [directory.join(layout::SPOOL_DIRECTORY), directory.to_owned()].into_iter().find(|candidate| {
        let windows = candidate.join(layout::WINDOWS_FILE);
        // A link to where they are not is told as such.
        windows.is_file() || windows.is_symlink()
    })
}

/// With as many frames as were asked for; all, where nothing usable is said.
fn no_stacks(settings: &RecordSettings<'_>) -> Stacks {
    let depth = |depth: Option<u32>| depth.map_or(usize::MAX, |depth| depth as usize);
    Stacks::new(depth(settings.c_depth), depth(settings.python_depth))
}

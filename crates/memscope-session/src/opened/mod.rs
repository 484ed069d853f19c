//! A recording, or dump files, opened to be read piece by piece: its processes, an overview of each ([`Overview`]), and events
//! and blocks as columns ([`EventReader`], [`BlockReader`]). Each reading is a pass of its own; what stays in memory are live
//! blocks, stacks, and the piece at hand.
mod choice;
mod columns;
mod overview;
mod readers;
pub mod words;

pub use choice::{Choice, ChosenSteps};
pub use columns::{BlockColumns, EventColumns, Texts, step_numbers};
/// What whoever reads has to know of the model.
pub use memscope_model::{ModelError as ReadFailure, Status as ReadStatus, StepId, StepSource};
pub use overview::{Overview, PoolOverview, StepOverview};
pub use readers::{BlockReader, EventReader, StackNames};

use crate::analyze::AnalyzeError;
use crate::pass::{Progress, pass};
use crate::place::Place;
use memscope_dump::{Source, Sources};
use memscope_model::{ModelError, Process, TimestampNs, TraceInfo, find_processes};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What was found at a place.
pub struct OpenedRun {
    pub place: Place,
    /// In order of start time.
    pub processes: Vec<OpenedProcess>,
    /// Why others cannot be read.
    pub unreadable: Vec<ModelError>,
}

/// One process of it.
pub struct OpenedProcess {
    place: Place,
    pub info: TraceInfo,
    overview: OnceLock<Overview>,
}

impl OpenedRun {
    /// Fails if there is nothing that can be read.
    pub fn open(place: Place) -> Result<OpenedRun, AnalyzeError> {
        // A link that leads nowhere is there, and the reader says so.
        if place.path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(AnalyzeError::Missing(place.path));
        }
        let Sources { found, unreadable } = place.sources()?;
        let mut unreadable: Vec<ModelError> = unreadable.into_iter().map(|(_, error)| error).collect();
        if found.is_empty() {
            return Err(match unreadable.pop() {
                Some(error) => error.into(),
                None => AnalyzeError::Nothing(place.path),
            });
        }
        let opened = |Source { path, trace }: Source| {
            let info = trace.info();
            // Dump files may hold several processes, and may not say of which they are.
            let place = Place { path, pid: (info.pid != 0).then_some(info.pid), span: place.span };
            OpenedProcess { place, info, overview: OnceLock::new() }
        };
        Ok(OpenedRun { processes: found.into_iter().map(opened).collect(), place, unreadable })
    }
}

impl OpenedProcess {
    /// Where it was read from.
    pub fn path(&self) -> &PathBuf {
        &self.place.path
    }

    /// What can be said of it as a whole: a pass, the first time.
    pub fn overview(&self, progress: &mut Progress<'_>) -> Result<&Overview, ModelError> {
        if let Some(known) = self.overview.get() {
            return Ok(known);
        }
        let mut source = self.source()?;
        let mut tally = overview::Tally::default();
        let outcome = pass(&mut *source.trace, &mut [&mut tally], progress)?;
        let overview = tally.finish(&outcome, source.trace.info().start);
        Ok(self.overview.get_or_init(|| overview))
    }

    pub fn known_overview(&self) -> Option<&Overview> {
        self.overview.get()
    }

    pub fn events(&self, choice: Choice) -> Result<EventReader, ModelError> {
        Ok(EventReader::new(self.source()?.trace, self.narrowed(choice)))
    }

    pub fn blocks(&self, choice: Choice) -> Result<BlockReader, ModelError> {
        Ok(BlockReader::new(self.source()?.trace, self.narrowed(choice)))
    }

    /// What happened in a span is asked for by whoever chose one.
    fn narrowed(&self, choice: Choice) -> Choice {
        Choice { only_new: choice.only_new || self.place.span.is_some(), ..choice }
    }

    fn source(&self) -> Result<Source, ModelError> {
        let gone = || ModelError::NoRecording { path: self.place.path.clone() };
        self.place.sources()?.found.into_iter().next().ok_or_else(gone)
    }
}

/// The time that lies so many seconds after a recording began.
pub fn time_after(start: TimestampNs, seconds: f64) -> u64 {
    start.0.saturating_add((seconds.max(0.0) * 1e9) as u64)
}

/// The directory of a process of a run, in an output directory; of several of one number the newest.
pub fn directory_of(output_dir: &Path, run: u64, pid: u32) -> Option<PathBuf> {
    let found = find_processes(output_dir, Some(run)).ok()?;
    let is_of = |directory: &PathBuf| Process::open(directory).is_ok_and(|process| process.info().pid == pid);
    found.into_iter().rev().find(is_of)
}

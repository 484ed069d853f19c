//! From recordings and dump files on disk to reports.
use super::{Analysts, Conclusion, Detail, Ended, Kind, Wishes};
use crate::pass::{Progress, going_on, pass};
use crate::place::Place;
use crate::usage_error::quoted;
use crate::views::merged::Naming;
use crate::views::reading::At;
use crate::workers;
use memscope_dump::{Source, Sources};
use memscope_model::{ModelError, Status, TimestampNs, TraceInfo};
use memscope_symbols::{Symbolizer, Symbols};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Why nothing can be analyzed.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    #[error("{} does not exist", quoted(.0))]
    Missing(PathBuf),
    #[error(
        "there is neither a recording nor a csv or db file in {}; a run leaves one there with --output=DIR",
        quoted(.0)
    )]
    Nothing(PathBuf),
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What came of all traces.
#[derive(Debug, Default)]
pub struct Analyzed {
    pub processes: Vec<AnalyzedProcess>,
    /// Recordings and files that cannot be read.
    pub unreadable: Vec<ModelError>,
}

/// What came of one.
#[derive(Debug)]
pub struct AnalyzedProcess {
    pub info: TraceInfo,
    /// Where it was read from.
    pub path: PathBuf,
    pub conclusions: Vec<Conclusion>,
}

/// Reads everything at `paths` in one pass each. `progress` is told how much of all is done.
pub fn analyze(
    paths: &[PathBuf],
    kinds: &[Kind],
    wishes: &Wishes,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Analyzed, AnalyzeError> {
    let places: Vec<Place> = paths.iter().cloned().map(Place::from).collect();
    analyze_places(&places, kinds, wishes, &mut going_on(progress))
}

/// As [`analyze`], for whoever knows better which part of it is meant, or may break off.
pub fn analyze_places(
    places: &[Place],
    kinds: &[Kind],
    wishes: &Wishes,
    progress: &mut Progress<'_>,
) -> Result<Analyzed, AnalyzeError> {
    let mut analyzed = Analyzed::default();
    let mut found = Vec::new();
    for place in places {
        let before = (found.len(), analyzed.unreadable.len());
        let Sources { found: more, unreadable } = place.sources()?;
        found.extend(more);
        analyzed.unreadable.extend(unreadable.into_iter().map(|(_, error)| error));
        if before == (found.len(), analyzed.unreadable.len()) {
            return Err(AnalyzeError::Nothing(place.path.clone()));
        }
    }
    let number = found.len() as f64;
    let done = Mutex::new((0.0, progress));
    let symbols = Symbols::default();
    // Taken by whoever works on it.
    let found: Vec<Mutex<Option<Source>>> = found.into_iter().map(|source| Mutex::new(Some(source))).collect();
    let read = |_: usize, source: &Mutex<Option<Source>>| {
        let source = source.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut before = 0.0;
        Some(one(source, kinds, wishes, &symbols, &mut |fraction| {
            let (sum, report) = &mut *done.lock().unwrap_or_else(PoisonError::into_inner);
            *sum += (fraction - before) / number;
            before = fraction;
            report(*sum)
        }))
    };
    for result in workers::each(&found, |_| 0, read).into_iter().flatten() {
        match result {
            Ok(process) => analyzed.processes.push(process),
            Err(ModelError::Interrupted) => return Err(ModelError::Interrupted.into()),
            Err(error) => analyzed.unreadable.push(error),
        }
    }
    Ok(analyzed)
}

fn one(
    source: Source,
    kinds: &[Kind],
    wishes: &Wishes,
    symbols: &Symbols,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<AnalyzedProcess, ModelError> {
    let Source { path, mut trace } = source;
    // Dump files say when they begin once their first row is known.
    if matches!(wishes.at, At::After(_)) {
        while trace.info().start == TimestampNs::default() && trace.step(&mut [])? == Status::More {}
    }
    let wishes = Wishes { recording_start: trace.info().start, detail: Detail::Full, ..wishes.clone() };
    let mut analysts = Analysts::new(kinds, &wishes);
    let outcome = pass(&mut *trace, &mut analysts.sinks().collect::<Vec<_>>(), progress)?;
    let mut symbolizer = Symbolizer::sharing(symbols);
    let mut naming = Naming::new(trace.stacks(), &mut symbolizer);
    let mut info = trace.info();
    if info.command.is_empty() {
        info.command = name_of(&path);
    }
    let conclusions = analysts.finish(&Ended::new(&info, &outcome, &path), &mut naming);
    Ok(AnalyzedProcess { info, path, conclusions })
}

/// Dump files do not say which program they are of.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

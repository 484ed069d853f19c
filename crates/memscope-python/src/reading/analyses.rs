//! Analyses and comparisons: each ends in the document for programs and the text for people.
use std::num::NonZeroU16;
use std::path::PathBuf;

use memscope_session::analyze::inefficient::check_inefficient_until;
use memscope_session::analyze::leaks::Marks;
use memscope_session::analyze::{ANALYSIS_WORDS, Analyzed, Kind, Wishes, analyze_places, lines, value};
use memscope_session::compare::{CompareWishes, Side, compare_until};
use memscope_session::line::Line;
use memscope_session::settings::values::{self, Refused};
use memscope_session::settings::{LevelSet, allowed};
use memscope_session::usage_error::quoted;
use memscope_session::views::layout::Layout;
use memscope_session::views::reading::At;
use memscope_session::views::spelling;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::recording::Recording;
use super::waiting::interruptible;
use crate::failure;

/// Document, text, text for the terminal if it goes to one, and what the user should know besides.
type Told = (String, String, String, Vec<String>);

/// What is wanted of an analysis beyond its name.
#[pyclass(frozen, module = "msmemscope._native")]
pub(crate) struct AnalysisWishes(Wishes);

#[pymethods]
impl AnalysisWishes {
    #[new]
    #[pyo3(signature = (*, mstx_info=None, start_index=0, at=None, listed=None, mem_size=0, inefficient_type=None, idle_threshold=None))]
    fn new(
        mstx_info: Option<String>,
        start_index: usize,
        at: Option<&str>,
        listed: Option<NonZeroU16>,
        mem_size: u64,
        inefficient_type: Option<&str>,
        idle_threshold: Option<u64>,
    ) -> PyResult<AnalysisWishes> {
        let mut wishes = Wishes { oom_listed: listed, ..Wishes::default() };
        wishes.marks = mstx_info.map(|text| Marks { text, start: start_index });
        if let Some(at) = at {
            const ALLOWED: &str = "peak, end, main, step:N, seconds since the recording began";
            wishes.at = spelling::at(at).ok().filter(|at| *at != At::Total).ok_or_else(|| wrong("at", at, ALLOWED))?;
        }
        wishes.inefficient.least_bytes = mem_size;
        if let Some(types) = inefficient_type {
            const ALLOWED: &str = "early_allocation, late_deallocation, temporary_idleness";
            let refused = |refused: Refused| wrong("inefficient_type", &refused.item, ALLOWED);
            wishes.inefficient.kinds = values::inefficient_types(types).map_err(refused)?;
        }
        if let Some(threshold) = idle_threshold {
            wishes.inefficient.idle_threshold = threshold;
        }
        Ok(AnalysisWishes(wishes))
    }
}

fn wrong(key: &str, value: &str, allowed: &str) -> PyErr {
    PyValueError::new_err(format!("bad value {} for {key}; allowed: {allowed}", quoted(value)))
}

fn told(analyzed: &Analyzed, kind: Kind, path: PathBuf, terminal: bool) -> PyResult<Told> {
    let notes: Vec<String> = analyzed.unreadable.iter().map(ToString::to_string).collect();
    if let Some(why) = analyzed.wanting(kind, &[path]) {
        return Err(failure(why));
    }
    if analyzed.processes.is_empty() {
        return Err(failure(notes.join("; ")));
    }
    let plain = Line::text(&lines(analyzed, &Layout::default()));
    let shown = if terminal { Line::text(&lines(analyzed, &Layout::stdout())) } else { plain.clone() };
    Ok((value(analyzed).to_string(), plain, shown, notes))
}

/// The analyses there are.
#[pyfunction]
pub(crate) fn analyses() -> Vec<&'static str> {
    ANALYSIS_WORDS.to_vec()
}

/// Of everything that is open; `kind` is one of [`analyses`].
#[pyfunction]
pub(crate) fn analyze(
    py: Python<'_>,
    recording: &Recording,
    kind: &str,
    wishes: &AnalysisWishes,
    terminal: bool,
) -> PyResult<Told> {
    let kind = Kind::from_word(kind).ok_or_else(|| wrong("analyzer", kind, &ANALYSIS_WORDS.join(", ")))?;
    let place = recording.place();
    let analyzed =
        interruptible(py, |progress| analyze_places(std::slice::from_ref(place), &[kind], &wishes.0, progress))?;
    told(&analyzed.map_err(failure)?, kind, place.path.clone(), terminal)
}

/// Finds memory that is held for nothing in one csv or db file, and writes into it what was found; gives the number of rows
/// that say more than they did, too.
#[pyfunction]
pub(crate) fn check_inefficient(
    py: Python<'_>,
    path: PathBuf,
    wishes: &AnalysisWishes,
    terminal: bool,
) -> PyResult<(Told, u64)> {
    let checked = interruptible(py, |progress| check_inefficient_until(&path, &wishes.0, progress))?;
    let checked = checked.map_err(failure)?;
    let analyzed = Analyzed { processes: checked.processes, unreadable: Vec::new() };
    Ok((told(&analyzed, Kind::Inefficient, path, terminal)?, checked.changed_rows))
}

/// Two recordings, or two steps. Without a level whatever was recorded.
#[pyfunction]
#[pyo3(signature = (base, compared, steps, level))]
pub(crate) fn compare(
    py: Python<'_>,
    base: &Recording,
    compared: &Recording,
    steps: (Option<u32>, Option<u32>),
    level: Option<&str>,
) -> PyResult<(String, String, Vec<String>)> {
    let level: Option<LevelSet> = match level {
        None => None,
        Some(word) => Some(values::level(word).map_err(|refused| wrong("level", &refused.item, allowed::LEVEL))?),
    };
    let side = |of: &Recording, step| Side { place: of.place().clone(), step };
    let wishes = CompareWishes { base: side(base, steps.0), compared: side(compared, steps.1), level };
    let comparison = interruptible(py, |progress| compare_until(&wishes, progress))?.map_err(failure)?;
    let lines = Line::text(&comparison.lines(&Layout::default()));
    let notes = comparison.notes.iter().cloned().chain(comparison.remarks()).collect();
    Ok((comparison.value(None).to_string(), lines, notes))
}

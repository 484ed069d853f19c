//! The trace of calls of Python functions: begun and ended here, recorded by the library.
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use memscope_hook::{Api, calls};
use pyo3::prelude::*;

use crate::{MemScopeError, recording, settings::Settings, side_keeper, table};

/// Whether a span has begun the trace, and ends it.
static OF_SPAN: AtomicBool = AtomicBool::new(false);

/// Begins a trace, and the recording if there is none yet. Gives what the user has to know.
#[pyfunction]
pub(crate) fn calls_begin(py: Python<'_>, settings: &Settings, package: PathBuf) -> PyResult<Vec<String>> {
    let mut notes = Vec::new();
    // As for a span.
    let begun = py.detach(|| recording::begin(&settings.settings, &package, &mut notes));
    let api = begun.map_err(MemScopeError::new_err)?;
    let answer = begin(py, api, calls::ALWAYS);
    if answer == calls::ALREADY_BEGUN {
        notes.push(String::from("Python calls are traced already; start() has no effect"));
    }
    notes.extend(words(answer).map(String::from));
    Ok(notes)
}

/// Ends it; its files are written in the background.
#[pyfunction]
pub(crate) fn calls_end(py: Python<'_>) -> Vec<String> {
    let answer = table::find().map_or(calls::NOT_BEGUN, |api| end(py, api));
    if answer == calls::NOT_BEGUN {
        return vec![String::from("Python calls are not traced; stop() has no effect")];
    }
    OF_SPAN.store(false, Relaxed);
    side_keeper::export();
    words(answer).map(String::from).into_iter().collect()
}

/// With a span, if it was asked for.
pub(crate) fn begin_with_span(py: Python<'_>, api: &Api) -> Option<String> {
    let answer = begin(py, api, calls::IF_ASKED_FOR);
    if answer & !calls::OTHERS_KEPT == calls::BEGUN {
        OF_SPAN.store(true, Relaxed);
    }
    words(answer).map(String::from)
}

pub(crate) fn end_with_span(py: Python<'_>, api: &Api) {
    if OF_SPAN.swap(false, Relaxed) {
        end(py, api);
    }
}

fn begin(_: Python<'_>, api: &Api, when: u32) -> u32 {
    // SAFETY: the token says that this thread holds the interpreter's lock.
    unsafe { (api.calls_begin)(when) }
}

fn end(_: Python<'_>, api: &Api) -> u32 {
    // SAFETY: as above.
    unsafe { (api.calls_end)() }
}

/// What the user has to know of an answer.
fn words(answer: u32) -> Option<&'static str> {
    match answer {
        calls::UNKNOWN_PYTHON => {
            Some("Python calls are not traced: this version or build of the interpreter is not known (3.9 to 3.14 are)")
        }
        calls::NO_PLACE => Some(
            "Python calls are not traced: other tools (debugger, coverage, profiler) have all numbers that sys.monitoring has \
             for tools",
        ),
        calls::REFUSED => Some("Python calls are not traced: the interpreter refuses"),
        _ if answer & calls::OTHERS_KEPT != 0 => Some(
            "another profiler is at work (sys.setprofile or threading.setprofile), and stays: Python calls of its threads are \
             not traced",
        ),
        _ if answer & calls::TAKEN_OVER != 0 => Some(
            "another profiler took the place of the trace of Python calls meanwhile: from then on calls are missing in it",
        ),
        _ => None,
    }
}

//! `msmemscope._native`: what the Python package cannot do in Python.
//!
//! * [`settings`]: the words of `config()`, by the command line's own grammar.
//! * [`labels`]: what the program calls its memory and its code.
//! * [`libraries`]: brings the recording libraries into the running process.
//! * [`table`]: talks to the recorder through its C table, which is found by `dlsym` and never linked.
//! * [`side_keeper`]: the process beside this one that exports and reports, and the wait for it at the end.
//! * [`text`]: texts of Python, without a copy.
//! * [`calls`]: the trace of calls of Python functions.
//! * [`recording`]: all of it in the right order.
//! * [`own`]: where the recording of this process is.
//! * [`reading`]: recordings and dump files, read and analyzed.
//!
//! Nothing here is the user's: `python/msmemscope` is.

mod calls;
mod labels;
mod libraries;
mod own;
mod reading;
mod recording;
mod settings;
mod side_keeper;
mod table;
mod text;
mod watcher;

use memscope_session::line::Escaped;
use pyo3::pymodule;

pyo3::create_exception!(
    msmemscope,
    MemScopeError,
    pyo3::exceptions::PyException,
    "Something that msmemscope was asked to do cannot be done; the message says what, and what would help."
);

/// What cannot be done, in the command's words: they may quote anything, and a traceback is shown as it is.
fn failure(error: impl std::fmt::Display) -> pyo3::PyErr {
    MemScopeError::new_err(Escaped(error).to_string())
}

#[pymodule]
mod _native {
    use memscope_session::opened::words;
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("MSTX_PROBE", memscope_hook::MSTX_PROBE)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("EVENTS", PyTuple::new(module.py(), words::EVENTS.map(|event| event.text()))?)?;
        module.add("POOLS", PyTuple::new(module.py(), words::POOLS.map(|pool| pool.name()))?)?;
        module.add("TYPES", PyTuple::new(module.py(), words::type_words().collect::<Vec<_>>())?)
    }

    #[pymodule_export]
    use super::MemScopeError;
    #[pymodule_export]
    use super::calls::{calls_begin, calls_end};
    #[pymodule_export]
    use super::labels::{function_end, function_start, label_block, label_end, label_start, snapshot};
    #[pymodule_export]
    use super::own::{own_directory, spans};
    #[pymodule_export]
    use super::reading::analyses::{AnalysisWishes, analyses, analyze, check_inefficient, compare};
    #[pymodule_export]
    use super::reading::blocks::{Block, BlockBatch, BlockBatches, BlocksOfBatch};
    #[pymodule_export]
    use super::reading::events::{Event, EventBatch, EventBatches, EventsOfBatch};
    #[pymodule_export]
    use super::reading::recording::Recording;
    #[pymodule_export]
    use super::reading::waiting::provoke_panic;
    #[pymodule_export]
    use super::recording::{announce, is_recording, mark, prepare, range_end, range_start, start, step, stop, wait};
    #[pymodule_export]
    use super::settings::Settings;
    #[pymodule_export]
    use super::side_keeper::hurry;
    #[pymodule_export]
    use super::text::shown;
    #[pymodule_export]
    use super::watcher::{unwatch, watch};
}

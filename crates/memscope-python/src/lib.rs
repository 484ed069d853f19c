//! `msmemscope._native`: what the Python package cannot do in Python.
//!
//! * [`settings`]: the words of `config()`, by the command line's own grammar.
//! * [`libraries`]: brings the recording libraries into the running process.
//! * [`table`]: talks to the recorder through its C table, which is found by `dlsym` and never linked.
//! * [`side_keeper`]: the process beside this one that exports and reports, and the wait for it at the end.
//! * [`recording`]: all of it in the right order.
//!
//! Nothing here is the user's: `python/msmemscope` is.

mod libraries;
mod recording;
mod settings;
mod side_keeper;
mod table;
mod watcher;

use pyo3::pymodule;

pyo3::create_exception!(
    msmemscope,
    MemScopeError,
    pyo3::exceptions::PyException,
    "Something that msmemscope was asked to do cannot be done; the message says what, and what would help."
);

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use super::MemScopeError;
    #[pymodule_export]
    use super::recording::{mark, range_end, range_start, start, step, stop, wait};
    #[pymodule_export]
    use super::settings::Settings;
    #[pymodule_export]
    use super::watcher::{unwatch, watch};
}

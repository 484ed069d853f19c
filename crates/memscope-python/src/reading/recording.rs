//! What is at a path, opened.
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use memscope_session::opened::{OpenedRun, Overview, StepSource};
use memscope_session::place::Place;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::blocks::BlockBatches;
use super::choice::{Filter, FilterWords};
use super::events::EventBatches;
use super::waiting::interruptible;
use crate::failure;

/// What all objects that came of an opening share.
pub(crate) struct Opened {
    pub(super) run: OpenedRun,
}

/// A recording or dump files.
#[pyclass(frozen, module = "msmemscope._native")]
pub(crate) struct Recording {
    pub(super) opened: Arc<Opened>,
}

impl Recording {
    pub(super) fn place(&self) -> &Place {
        &self.opened.run.place
    }
}

/// What makes steps of a process, which may be known only when all of it was read.
pub(super) fn step_source(py: Python<'_>, opened: &Opened, place: usize) -> PyResult<Option<StepSource>> {
    Ok(overview(py, opened, place)?.step_source)
}

fn overview<'o>(py: Python<'_>, opened: &'o Opened, place: usize) -> PyResult<&'o Overview> {
    let process = &opened.run.processes[place];
    match process.known_overview() {
        Some(known) => Ok(known),
        None => interruptible(py, |progress| process.overview(progress))?.map_err(failure),
    }
}

#[pymethods]
impl Recording {
    /// `pid`: only that process; `span`: of one process, only from its `start()` of this number to the next `stop()`.
    #[new]
    #[pyo3(signature = (path, pid=None, span=None))]
    fn new(py: Python<'_>, path: PathBuf, pid: Option<u32>, span: Option<NonZeroU32>) -> PyResult<Recording> {
        let place = Place { path, pid, span };
        let run = py.detach(|| OpenedRun::open(place)).map_err(failure)?;
        Ok(Recording { opened: Arc::new(Opened { run }) })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.place().path.clone()
    }

    #[getter]
    fn span(&self) -> Option<u32> {
        self.place().span.map(NonZeroU32::get)
    }

    /// Why a part of it cannot be read.
    #[getter]
    fn unreadable(&self) -> Vec<String> {
        self.opened.run.unreadable.iter().map(ToString::to_string).collect()
    }

    /// Number, command, directory or file, whether it ended by itself.
    fn processes(&self) -> Vec<(u32, String, PathBuf, Option<bool>)> {
        let told = |process: &memscope_session::opened::OpenedProcess| {
            let info = &process.info;
            (info.pid, info.command.clone(), process.path().clone(), info.exited)
        };
        self.opened.run.processes.iter().map(told).collect()
    }

    /// What can be said of the process at this place as a whole.
    fn overview<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyDict>> {
        if place >= self.opened.run.processes.len() {
            return Err(PyValueError::new_err("there is no such process"));
        }
        let overview = overview(py, &self.opened, place)?;
        let dict = PyDict::new(py);
        dict.set_item("start_ns", overview.start.0)?;
        dict.set_item("first_ns", overview.first_time.0)?;
        dict.set_item("last_ns", overview.last_time.0)?;
        dict.set_item("events", overview.events)?;
        dict.set_item("damage", &overview.damage)?;
        let steps = overview.steps.iter().map(|step| (step.number, step.begin.0, step.end.map(|end| end.0)));
        dict.set_item("steps", steps.collect::<Vec<_>>())?;
        let pools = overview.pools.iter().map(|pool| {
            let dict = PyDict::new(py);
            dict.set_item("device", pool.device.to_string())?;
            dict.set_item("pool", pool.pool.name())?;
            dict.set_item("allocations", pool.allocations)?;
            dict.set_item("frees", pool.frees)?;
            dict.set_item("allocated_bytes", pool.allocated_bytes)?;
            dict.set_item("peak_bytes", pool.peak_bytes)?;
            dict.set_item("peak_ns", pool.peak_time.0)?;
            dict.set_item("live_bytes", pool.live_bytes)?;
            Ok(dict)
        });
        dict.set_item("pools", pools.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    /// Batches of `size` events or a few more.
    fn events(&self, filter: FilterWords, size: usize) -> PyResult<EventBatches> {
        Ok(EventBatches::new(Arc::clone(&self.opened), Filter::read(filter)?, size.max(1)))
    }

    fn blocks(&self, filter: FilterWords, size: usize) -> PyResult<BlockBatches> {
        Ok(BlockBatches::new(Arc::clone(&self.opened), Filter::read(filter)?, size.max(1)))
    }
}

//! Blocks, in batches of columns and one by one.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memscope_session::opened::{BlockColumns, BlockReader, StepId};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::batches::{Batches, Origin, batch_classes, place_of};
use super::choice::Filter;
use super::events::{device_word, pool_word};
use super::recording::Opened;
use super::views::ColumnView;

batch_classes! {
    "blocks": BlockBatches of BlockReader, BlocksOfBatch of Block;
    /// Some blocks of one process, in the order in which they were freed, at last those that were not. Columns are read-only
    /// memoryviews of numbers, which numpy takes without a copy.
    BlockBatch of BlockColumns;
    /// Numbers of the blocks within their process: `allocation_id` in the files.
    id;
    /// Numbers of NPUs; -1 is the host.
    device;
    /// Codes: places in `POOLS`.
    pool;
    address;
    /// Bytes.
    size;
    /// When they were allocated, in nanoseconds since the epoch.
    made;
    /// When they were freed, in nanoseconds since the epoch; 0 if they were not.
    freed;
    /// The threads that allocated them.
    thread;
    /// Numbers of the steps they were allocated in; 0 outside of all.
    made_step = |batch, py| batch.origin.steps(py, &batch.columns, &batch.columns.made_step)?;
    /// Numbers of the steps they were freed in; 0 outside of all, and if they were not.
    freed_step = |batch, py| batch.freed_steps(py)?;
    /// Numbers of the call stacks of the allocations, for `frames()`; 0 where none was recorded.
    stack;
    /// Numbers of owners, for `text()`; 0 is none.
    owner;
}

impl BlockBatch {
    fn freed_steps(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let mut steps = self.origin.steps(py, &self.columns, &self.columns.freed_step)?;
        let never = self.columns.freed.iter().map(|freed| *freed == 0);
        steps.iter_mut().zip(never).filter(|(_, never)| *never).for_each(|(step, _)| *step = 0);
        Ok(steps)
    }
}

/// A piece of memory from its allocation to its free.
#[pyclass(frozen, module = "msmemscope")]
pub(crate) struct Block {
    batch: Py<BlockBatch>,
    place: usize,
}

impl Block {
    fn columns(&self) -> &BlockColumns {
        &self.batch.get().columns
    }

    fn step_of(&self, py: Python<'_>, step: StepId) -> PyResult<Option<u32>> {
        self.batch.get().origin.step(py, self.columns(), step)
    }
}

#[pymethods]
impl Block {
    /// Its number within the process: `allocation_id` in the files.
    #[getter]
    fn id(&self) -> u64 {
        self.columns().id[self.place]
    }

    #[getter]
    fn pid(&self) -> u32 {
        self.batch.get().origin.pid()
    }

    /// `cpu`, or the number of an NPU as text.
    #[getter]
    fn device(&self) -> Option<String> {
        device_word(self.columns().device[self.place])
    }

    #[getter]
    fn pool(&self) -> Option<&'static str> {
        pool_word(self.columns().pool[self.place])
    }

    #[getter]
    fn address(&self) -> u64 {
        self.columns().address[self.place]
    }

    /// Bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.columns().size[self.place]
    }

    /// When it was allocated, in nanoseconds since the epoch.
    #[getter]
    fn made(&self) -> u64 {
        self.columns().made[self.place]
    }

    /// When it was freed; `None` if it was not.
    #[getter]
    fn freed(&self) -> Option<u64> {
        Some(self.columns().freed[self.place]).filter(|freed| *freed != 0)
    }

    /// That allocated it.
    #[getter]
    fn thread(&self) -> u32 {
        self.columns().thread[self.place]
    }

    /// In which it was allocated; `None` outside of all.
    #[getter]
    fn made_step(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        self.step_of(py, self.columns().made_step[self.place])
    }

    /// In which it was freed; `None` outside of all, and if it was not.
    #[getter]
    fn freed_step(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        match self.freed() {
            Some(_) => self.step_of(py, self.columns().freed_step[self.place]),
            None => Ok(None),
        }
    }

    /// Whose it is: levels joined by `@`.
    #[getter]
    fn owner(&self) -> Option<&str> {
        self.columns().texts.get(self.columns().owner[self.place])
    }

    /// The call stack of its allocation, innermost frame first; empty if none was recorded.
    #[getter]
    fn stack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.batch.get().origin.frames(py, self.columns().stack[self.place]))
    }

    /// All of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("id", self.id())?;
        dict.set_item("pid", self.pid())?;
        dict.set_item("device", self.device())?;
        dict.set_item("pool", self.pool())?;
        dict.set_item("address", self.address())?;
        dict.set_item("size", self.size())?;
        dict.set_item("made", self.made())?;
        dict.set_item("freed", self.freed())?;
        dict.set_item("thread", self.thread())?;
        dict.set_item("made_step", self.made_step(py)?)?;
        dict.set_item("freed_step", self.freed_step(py)?)?;
        dict.set_item("owner", self.owner())?;
        dict.set_item("stack", self.stack(py)?)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let end = if self.freed().is_some() { "freed" } else { "alive" };
        let device = self.device().unwrap_or_default();
        let pool = self.pool().unwrap_or_default();
        format!("<Block {}: {} bytes of {device} {pool} at {:#x}, {end}>", self.id(), self.size(), self.address())
    }
}

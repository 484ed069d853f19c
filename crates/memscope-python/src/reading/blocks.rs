//! Blocks, in batches of columns and one by one.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memscope_session::opened::{BlockColumns, BlockReader, StepId, step_numbers};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::batches::{Batches, Origin, place_of};
use super::choice::Filter;
use super::events::{device_word, pool_word};
use super::recording::{Opened, step_source};
use super::views::ColumnView;

/// The blocks of a run, a batch at a time.
#[pyclass(frozen, module = "msmemscope._native")]
pub(crate) struct BlockBatches(Batches<BlockReader>);

impl BlockBatches {
    pub(super) fn new(opened: Arc<Opened>, filter: Filter, size: usize) -> BlockBatches {
        BlockBatches(Batches::new(opened, filter, size))
    }
}

#[pymethods]
impl BlockBatches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<BlockBatch>> {
        let next = self.0.next(py)?;
        Ok(next.map(|(columns, origin)| BlockBatch { columns, views: Views::default(), origin }))
    }
}

/// Some blocks of one process, in the order in which they were freed, at last those that were not. Columns are read-only
/// memoryviews of numbers, which numpy takes without a copy.
#[pyclass(frozen, module = "msmemscope")]
pub(crate) struct BlockBatch {
    columns: BlockColumns,
    views: Views,
    origin: Origin<BlockReader>,
}

#[derive(Default)]
struct Views {
    id: ColumnView,
    device: ColumnView,
    pool: ColumnView,
    address: ColumnView,
    size: ColumnView,
    made: ColumnView,
    freed: ColumnView,
    thread: ColumnView,
    made_step: ColumnView,
    freed_step: ColumnView,
    stack: ColumnView,
    owner: ColumnView,
}

impl BlockBatch {
    fn steps(&self, py: Python<'_>, steps: &[StepId]) -> PyResult<Vec<u32>> {
        let source = match self.columns.step_source {
            Some(source) => Some(source),
            None => step_source(py, &self.origin.opened, self.origin.place)?,
        };
        Ok(step_numbers(steps, source))
    }
}

#[pymethods]
impl BlockBatch {
    fn __len__(&self) -> usize {
        self.columns.len()
    }

    fn __repr__(&self) -> String {
        format!("<BlockBatch of {} blocks of process {}>", self.columns.len(), self.origin.pid())
    }

    fn __iter__(slf: Py<Self>) -> BlocksOfBatch {
        BlocksOfBatch { batch: slf, next: AtomicUsize::new(0) }
    }

    fn __getitem__(slf: Bound<'_, Self>, index: isize) -> PyResult<Block> {
        let place = place_of(index, slf.get().columns.len())?;
        Ok(Block { batch: slf.unbind(), place })
    }

    /// The process whose blocks these are.
    #[getter]
    fn pid(&self) -> u32 {
        self.origin.pid()
    }

    /// Numbers of the blocks within their process: `allocation_id` in the files.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.id.get(py, &self.columns.id)
    }

    /// Numbers of NPUs; -1 is the host.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.device.get(py, &self.columns.device)
    }

    /// Codes: places in `POOLS`.
    #[getter]
    fn pool(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.pool.get(py, &self.columns.pool)
    }

    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.address.get(py, &self.columns.address)
    }

    /// Bytes.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.size.get(py, &self.columns.size)
    }

    /// When they were allocated, in nanoseconds since the epoch.
    #[getter]
    fn made(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.made.get(py, &self.columns.made)
    }

    /// When they were freed, in nanoseconds since the epoch; 0 if they were not.
    #[getter]
    fn freed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.freed.get(py, &self.columns.freed)
    }

    /// The threads that allocated them.
    #[getter]
    fn thread(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.thread.get(py, &self.columns.thread)
    }

    /// Numbers of the steps they were allocated in; 0 outside of all.
    #[getter]
    fn made_step(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let steps = self.steps(py, &self.columns.made_step)?;
        self.views.made_step.get(py, &steps)
    }

    /// Numbers of the steps they were freed in; 0 outside of all, and if they were not.
    #[getter]
    fn freed_step(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut steps = self.steps(py, &self.columns.freed_step)?;
        let never = self.columns.freed.iter().map(|freed| *freed == 0);
        steps.iter_mut().zip(never).filter(|(_, never)| *never).for_each(|(step, _)| *step = 0);
        self.views.freed_step.get(py, &steps)
    }

    /// Numbers of the call stacks of the allocations, for `frames()`; 0 where none was recorded.
    #[getter]
    fn stack(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.stack.get(py, &self.columns.stack)
    }

    /// Numbers of owners, for `text()`; 0 is none.
    #[getter]
    fn owner(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.owner.get(py, &self.columns.owner)
    }

    /// What a number of `owner` stands for, in this batch.
    fn text(&self, number: u32) -> Option<&str> {
        self.columns.texts.get(number)
    }

    /// The frames of a number of `stack`, innermost first, in every batch of the process.
    fn frames<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.origin.frames(py, number))
    }
}

/// One block after the other of a batch.
#[pyclass(frozen, module = "msmemscope._native")]
pub(crate) struct BlocksOfBatch {
    batch: Py<BlockBatch>,
    next: AtomicUsize,
}

#[pymethods]
impl BlocksOfBatch {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<Block> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        (place < self.batch.get().columns.len()).then(|| Block { batch: self.batch.clone_ref(py), place })
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
        let numbers = self.batch.get().steps(py, &[step])?;
        Ok(numbers.first().copied().filter(|number| *number != 0))
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

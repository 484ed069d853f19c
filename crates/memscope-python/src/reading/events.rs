//! Events, in batches of columns and one by one.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memscope_session::opened::words::{self, EVENTS, POOLS};
use memscope_session::opened::{EventColumns, EventReader, step_numbers};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::batches::{Batches, Origin, place_of};
use super::choice::Filter;
use super::recording::{Opened, step_source};
use super::views::ColumnView;

/// The events of a run, a batch at a time.
#[pyclass(frozen, module = "msmemscope._native")]
pub(crate) struct EventBatches(Batches<EventReader>);

impl EventBatches {
    pub(super) fn new(opened: Arc<Opened>, filter: Filter, size: usize) -> EventBatches {
        EventBatches(Batches::new(opened, filter, size))
    }
}

#[pymethods]
impl EventBatches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<EventBatch>> {
        let next = self.0.next(py)?;
        Ok(next.map(|(columns, origin)| EventBatch { columns, views: Views::default(), origin }))
    }
}

/// Some events of one process, in their order. Columns are read-only memoryviews of numbers, which numpy takes without a copy.
#[pyclass(frozen, module = "msmemscope")]
pub(crate) struct EventBatch {
    columns: EventColumns,
    views: Views,
    origin: Origin<EventReader>,
}

#[derive(Default)]
struct Views {
    id: ColumnView,
    time: ColumnView,
    thread: ColumnView,
    event: ColumnView,
    event_type: ColumnView,
    device: ColumnView,
    pool: ColumnView,
    step: ColumnView,
    block: ColumnView,
    address: ColumnView,
    size: ColumnView,
    used: ColumnView,
    stack: ColumnView,
    name: ColumnView,
    owner: ColumnView,
}

impl EventBatch {
    fn step_of(&self, py: Python<'_>, place: usize) -> PyResult<Option<u32>> {
        let source = match self.columns.step_source {
            Some(source) => Some(source),
            None => step_source(py, &self.origin.opened, self.origin.place)?,
        };
        Ok(source.and_then(|source| source.number(self.columns.step[place])))
    }
}

#[pymethods]
impl EventBatch {
    fn __len__(&self) -> usize {
        self.columns.len()
    }

    fn __repr__(&self) -> String {
        format!("<EventBatch of {} events of process {}>", self.columns.len(), self.origin.pid())
    }

    fn __iter__(slf: Py<Self>) -> EventsOfBatch {
        EventsOfBatch { batch: slf, next: AtomicUsize::new(0) }
    }

    fn __getitem__(slf: Bound<'_, Self>, index: isize) -> PyResult<Event> {
        let place = place_of(index, slf.get().columns.len())?;
        Ok(Event { batch: slf.unbind(), place })
    }

    /// The process whose events these are.
    #[getter]
    fn pid(&self) -> u32 {
        self.origin.pid()
    }

    /// Numbers of the events within their process.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.id.get(py, &self.columns.id)
    }

    /// Nanoseconds since the epoch.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.time.get(py, &self.columns.time)
    }

    #[getter]
    fn thread(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.thread.get(py, &self.columns.thread)
    }

    /// Codes: places in `EVENTS`.
    #[getter]
    fn event(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.event.get(py, &self.columns.event)
    }

    /// Codes: places in `TYPES`.
    #[getter]
    fn r#type(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.event_type.get(py, &self.columns.event_type)
    }

    /// Numbers of NPUs; -1 is the host, -2 no device.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.device.get(py, &self.columns.device)
    }

    /// Codes: places in `POOLS`; 255 where an event is of no pool.
    #[getter]
    fn pool(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.pool.get(py, &self.columns.pool)
    }

    /// Numbers of steps, from 1; 0 outside of all.
    #[getter]
    fn step(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let source = match self.columns.step_source {
            Some(source) => Some(source),
            None => step_source(py, &self.origin.opened, self.origin.place)?,
        };
        self.views.step.get(py, &step_numbers(&self.columns.step, source))
    }

    /// Numbers of the blocks that begin, end or are accessed; 0 if an event is about none.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.block.get(py, &self.columns.block)
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

    /// Live bytes of the pool after the event.
    #[getter]
    fn used(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.used.get(py, &self.columns.used)
    }

    /// Numbers of call stacks, for `frames()`; 0 where none was recorded.
    #[getter]
    fn stack(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.stack.get(py, &self.columns.stack)
    }

    /// Numbers of names, for `text()`; 0 is none.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.name.get(py, &self.columns.name)
    }

    /// Numbers of owners, for `text()`; 0 is none.
    #[getter]
    fn owner(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.views.owner.get(py, &self.columns.owner)
    }

    /// What a number of `name` or `owner` stands for, in this batch.
    fn text(&self, number: u32) -> Option<&str> {
        self.columns.texts.get(number)
    }

    /// The frames of a number of `stack`, innermost first, in every batch of the process.
    fn frames<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.origin.frames(py, number))
    }
}

/// One event after the other of a batch.
#[pyclass(frozen, module = "msmemscope._native")]
pub(crate) struct EventsOfBatch {
    batch: Py<EventBatch>,
    next: AtomicUsize,
}

#[pymethods]
impl EventsOfBatch {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<Event> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        (place < self.batch.get().columns.len()).then(|| Event { batch: self.batch.clone_ref(py), place })
    }
}

/// Something that happened: a row of the files.
#[pyclass(frozen, module = "msmemscope")]
pub(crate) struct Event {
    batch: Py<EventBatch>,
    place: usize,
}

impl Event {
    fn columns(&self) -> &EventColumns {
        &self.batch.get().columns
    }
}

#[pymethods]
impl Event {
    /// Its number within the process.
    #[getter]
    fn id(&self) -> u64 {
        self.columns().id[self.place]
    }

    #[getter]
    fn pid(&self) -> u32 {
        self.batch.get().origin.pid()
    }

    #[getter]
    fn thread(&self) -> u32 {
        self.columns().thread[self.place]
    }

    /// Nanoseconds since the epoch.
    #[getter]
    fn time(&self) -> u64 {
        self.columns().time[self.place]
    }

    /// `MALLOC`, `FREE`, `ACCESS`, `OP_LAUNCH`, …: as in the files.
    #[getter]
    fn event(&self) -> Option<&'static str> {
        EVENTS.get(usize::from(self.columns().event[self.place])).map(|event| event.text())
    }

    /// `HOST`, `HAL`, `PTA`, `ATEN_START`, `Mark`, …: as in the files.
    #[getter]
    fn r#type(&self) -> Option<&'static str> {
        words::type_words().nth(usize::from(self.columns().event_type[self.place]))
    }

    /// `cpu`, or the number of an NPU as text; `None` if it is of no device.
    #[getter]
    fn device(&self) -> Option<String> {
        device_word(self.columns().device[self.place])
    }

    #[getter]
    fn pool(&self) -> Option<&'static str> {
        pool_word(self.columns().pool[self.place])
    }

    /// From 1; `None` outside of all steps.
    #[getter]
    fn step(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        self.batch.get().step_of(py, self.place)
    }

    /// The number of the block that begins, ends or is accessed.
    #[getter]
    fn block(&self) -> Option<u64> {
        Some(self.columns().block[self.place]).filter(|block| *block != 0)
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

    /// Live bytes of the pool after the event.
    #[getter]
    fn used(&self) -> u64 {
        self.columns().used[self.place]
    }

    /// Of an operator, a kernel, a mark, a range or a snapshot.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.columns().texts.get(self.columns().name[self.place])
    }

    /// Whose the block is: levels joined by `@`.
    #[getter]
    fn owner(&self) -> Option<&str> {
        self.columns().texts.get(self.columns().owner[self.place])
    }

    /// The call stack, innermost frame first; empty if none was recorded.
    #[getter]
    fn stack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.batch.get().origin.frames(py, self.columns().stack[self.place]))
    }

    /// All of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("id", self.id())?;
        dict.set_item("pid", self.pid())?;
        dict.set_item("thread", self.thread())?;
        dict.set_item("time", self.time())?;
        dict.set_item("event", self.event())?;
        dict.set_item("type", self.r#type())?;
        dict.set_item("device", self.device())?;
        dict.set_item("pool", self.pool())?;
        dict.set_item("step", self.step(py)?)?;
        dict.set_item("block", self.block())?;
        dict.set_item("address", self.address())?;
        dict.set_item("size", self.size())?;
        dict.set_item("used", self.used())?;
        dict.set_item("name", self.name())?;
        dict.set_item("owner", self.owner())?;
        dict.set_item("stack", self.stack(py)?)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let words = [self.event(), self.r#type(), self.name()].map(|word| word.unwrap_or_default());
        let of_block = match self.block() {
            Some(block) => format!(", block {block} of {} bytes at {:#x}", self.size(), self.address()),
            None => String::new(),
        };
        format!("<Event {}: {}{of_block}>", self.id(), words.join(" ").trim_end())
    }
}

pub(super) fn device_word(code: i32) -> Option<String> {
    (code != -2).then(|| words::device_of_code(code).to_string())
}

pub(super) fn pool_word(code: u8) -> Option<&'static str> {
    POOLS.get(usize::from(code)).map(|pool| pool.name())
}

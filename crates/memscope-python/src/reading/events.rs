//! Events, in batches of columns and one by one.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memscope_session::line::escaped;
use memscope_session::opened::words::{self, EVENTS, POOLS};
use memscope_session::opened::{EventColumns, EventReader};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::batches::{Batches, Origin, batch_classes, place_of};
use super::choice::Filter;
use super::recording::Opened;
use super::views::ColumnView;

batch_classes! {
    "events": EventBatches of EventReader, EventsOfBatch of Event;
    /// Some events of one process, in their order. Columns are read-only memoryviews of numbers, which numpy takes without a copy.
    EventBatch of EventColumns;
    /// Numbers of the events within their process.
    id;
    /// Nanoseconds since the epoch.
    time;
    thread;
    /// Codes: places in `EVENTS`.
    event;
    /// Codes: places in `TYPES`.
    r#type = |batch, py| batch.columns.event_type;
    /// Numbers of NPUs; -1 is the host, -2 no device.
    device;
    /// Codes: places in `POOLS`; 255 where an event is of no pool.
    pool;
    /// Numbers of steps, from 1; 0 outside of all.
    step = |batch, py| batch.origin.steps(py, &batch.columns, &batch.columns.step)?;
    /// Numbers of the blocks that begin, end or are accessed; 0 if an event is about none.
    block;
    address;
    /// Bytes.
    size;
    /// Live bytes of the pool after the event.
    used;
    /// Numbers of call stacks, for `frames()`; 0 where none was recorded.
    stack;
    /// Numbers of names, for `text()`; 0 is none.
    name;
    /// Numbers of owners, for `text()`; 0 is none.
    owner;
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
        self.batch.get().origin.step(py, self.columns(), self.columns().step[self.place])
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
        format!("<Event {}: {}{of_block}>", self.id(), escaped(words.join(" ").trim_end()))
    }
}

pub(super) fn device_word(code: i32) -> Option<String> {
    (code != -2).then(|| words::device_of_code(code).to_string())
}

pub(super) fn pool_word(code: u8) -> Option<&'static str> {
    POOLS.get(usize::from(code)).map(|pool| pool.name())
}

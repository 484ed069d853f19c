//! What events and blocks have in common: read a batch at a time, of one process after the other.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memscope_session::opened::{
    BlockColumns, BlockReader, Choice, EventColumns, EventReader, OpenedProcess, ReadFailure, ReadStatus, StackNames,
    StepId, StepSource, step_numbers,
};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use super::choice::Filter;
use super::recording::{Opened, step_source};
use super::waiting::{Lookout, interruptible};
use crate::failure;

/// A reader of the session's.
pub(super) trait Reads: Sized {
    type Columns: Default;
    fn of(process: &OpenedProcess, choice: Choice) -> Result<Self, ReadFailure>;
    fn step(&mut self, columns: &mut Self::Columns) -> Result<ReadStatus, ReadFailure>;
    fn frames(&self, stack: u32, names: &mut StackNames) -> Vec<String>;
    fn length(columns: &Self::Columns) -> usize;
    /// What makes steps, if that was known when the last of them happened.
    fn step_source(columns: &Self::Columns) -> Option<StepSource>;
}

impl Reads for EventReader {
    type Columns = EventColumns;

    fn of(process: &OpenedProcess, choice: Choice) -> Result<EventReader, ReadFailure> {
        process.events(choice)
    }

    fn step(&mut self, columns: &mut EventColumns) -> Result<ReadStatus, ReadFailure> {
        EventReader::step(self, columns)
    }

    fn frames(&self, stack: u32, names: &mut StackNames) -> Vec<String> {
        self.stack(stack, names)
    }

    fn length(columns: &EventColumns) -> usize {
        columns.len()
    }

    fn step_source(columns: &EventColumns) -> Option<StepSource> {
        columns.step_source
    }
}

impl Reads for BlockReader {
    type Columns = BlockColumns;

    fn of(process: &OpenedProcess, choice: Choice) -> Result<BlockReader, ReadFailure> {
        process.blocks(choice)
    }

    fn step(&mut self, columns: &mut BlockColumns) -> Result<ReadStatus, ReadFailure> {
        BlockReader::step(self, columns)
    }

    fn frames(&self, stack: u32, names: &mut StackNames) -> Vec<String> {
        self.stack(stack, names)
    }

    fn length(columns: &BlockColumns) -> usize {
        columns.len()
    }

    fn step_source(columns: &BlockColumns) -> Option<StepSource> {
        columns.step_source
    }
}

/// A reader and the names of its stacks.
struct Reading<R> {
    reader: R,
    names: StackNames,
}

/// Where a batch comes from.
pub(super) struct Origin<R> {
    pub(super) opened: Arc<Opened>,
    /// Of the process.
    pub(super) place: usize,
    reading: Arc<Mutex<Reading<R>>>,
}

impl<R: Reads + Send> Origin<R> {
    pub(super) fn pid(&self) -> u32 {
        self.opened.run.processes[self.place].info.pid
    }

    /// The frames of a stack, innermost first.
    pub(super) fn frames(&self, py: Python<'_>, stack: u32) -> Vec<String> {
        if stack == 0 {
            return Vec::new();
        }
        py.detach(|| {
            let Reading { reader, names } = &mut *locked(&self.reading);
            reader.frames(stack, names)
        })
    }

    /// The numbers of steps of its batch, 0 outside of all.
    pub(super) fn steps(&self, py: Python<'_>, columns: &R::Columns, steps: &[StepId]) -> PyResult<Vec<u32>> {
        let source = match R::step_source(columns) {
            Some(source) => Some(source),
            None => step_source(py, &self.opened, self.place)?,
        };
        Ok(step_numbers(steps, source))
    }

    /// As [`Origin::steps`] of one; `None` outside of all.
    pub(super) fn step(&self, py: Python<'_>, columns: &R::Columns, step: StepId) -> PyResult<Option<u32>> {
        let numbers = self.steps(py, columns, &[step])?;
        Ok(numbers.first().copied().filter(|number| *number != 0))
    }
}

/// The batches of a run.
pub(super) struct Batches<R> {
    opened: Arc<Opened>,
    filter: Filter,
    size: usize,
    turn: Mutex<Turn<R>>,
}

/// Whose turn it is.
struct Turn<R> {
    process: usize,
    reading: Option<Arc<Mutex<Reading<R>>>>,
}

impl<R: Reads + Send> Batches<R> {
    pub(super) fn new(opened: Arc<Opened>, filter: Filter, size: usize) -> Batches<R> {
        Batches { opened, filter, size, turn: Mutex::new(Turn { process: 0, reading: None }) }
    }

    /// The next batch that is not empty. Other threads run meanwhile.
    pub(super) fn next(&self, py: Python<'_>) -> PyResult<Option<(R::Columns, Origin<R>)>>
    where
        R::Columns: Send,
    {
        py.detach(|| self.read())
    }

    fn read(&self) -> PyResult<Option<(R::Columns, Origin<R>)>> {
        let mut turn = locked(&self.turn);
        let mut lookout = Lookout::new();
        loop {
            let Some(process) = self.opened.run.processes.get(turn.process) else { return Ok(None) };
            let reading = match &turn.reading {
                Some(reading) => Arc::clone(reading),
                None => {
                    let choice = Python::attach(|py| interruptible(py, |progress| self.filter.of(process, progress)))?;
                    let reader = choice.and_then(|choice| R::of(process, choice)).map_err(failure)?;
                    let reading = Arc::new(Mutex::new(Reading { reader, names: StackNames::default() }));
                    Arc::clone(turn.reading.insert(reading))
                }
            };
            let mut columns = R::Columns::default();
            let mut status = ReadStatus::More;
            while R::length(&columns) < self.size && status == ReadStatus::More {
                status = locked(&reading).reader.step(&mut columns).map_err(failure)?;
                lookout.look()?;
            }
            let origin = Origin { opened: Arc::clone(&self.opened), place: turn.process, reading };
            if status == ReadStatus::Over {
                *turn = Turn { process: turn.process + 1, reading: None };
            }
            if R::length(&columns) > 0 {
                return Ok(Some((columns, origin)));
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place from the beginning, or from the end.
pub(super) fn place_of(index: isize, length: usize) -> PyResult<usize> {
    let place = if index < 0 { length.checked_sub(index.unsigned_abs()) } else { Some(index.unsigned_abs()) };
    let wrong = || PyIndexError::new_err(format!("there is no place {index} among {length}"));
    place.filter(|place| *place < length).ok_or_else(wrong)
}

/// The classes by which Python reads events, or blocks: batches one after the other, a batch with its columns, and what iterates over
/// it. A column is that of the reader's columns of the same name, unless it says what it is made of.
macro_rules! batch_classes {
    (
        $things:literal: $Batches:ident of $Reader:ident, $Things:ident of $Thing:ident;
        $(#[$about:meta])* $Batch:ident of $Columns:ident;
        $($(#[$about_column:meta])* $column:ident $(= |$batch:ident, $py:ident| $values:expr)?;)*
    ) => {
        /// They, a batch at a time.
        #[pyclass(frozen, module = "msmemscope._native")]
        pub(crate) struct $Batches(Batches<$Reader>);

        impl $Batches {
            pub(super) fn new(opened: Arc<Opened>, filter: Filter, size: usize) -> $Batches {
                $Batches(Batches::new(opened, filter, size))
            }
        }

        #[pymethods]
        impl $Batches {
            fn __iter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __next__(&self, py: Python<'_>) -> PyResult<Option<$Batch>> {
                let next = self.0.next(py)?;
                Ok(next.map(|(columns, origin)| $Batch { columns, views: Views::default(), origin }))
            }
        }

        #[derive(Default)]
        struct Views {
            $($column: ColumnView,)*
        }

        $(#[$about])*
        #[pyclass(frozen, module = "msmemscope")]
        pub(crate) struct $Batch {
            columns: $Columns,
            views: Views,
            origin: Origin<$Reader>,
        }

        #[pymethods]
        impl $Batch {
            fn __len__(&self) -> usize {
                self.columns.len()
            }

            fn __repr__(&self) -> String {
                let name = stringify!($Batch);
                format!("<{name} of {} {} of process {}>", self.columns.len(), $things, self.origin.pid())
            }

            fn __iter__(slf: Py<Self>) -> $Things {
                $Things { batch: slf, next: AtomicUsize::new(0) }
            }

            fn __getitem__(slf: Bound<'_, Self>, index: isize) -> PyResult<$Thing> {
                let place = place_of(index, slf.get().columns.len())?;
                Ok($Thing { batch: slf.unbind(), place })
            }

            /// The process whose they are.
            #[getter]
            fn pid(&self) -> u32 {
                self.origin.pid()
            }

            $(
                $(#[$about_column])*
                #[getter]
                fn $column(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                    batch_classes!(@view self, py, $column $(, |$batch, $py| $values)?)
                }
            )*

            /// What a number of a column of texts stands for, in this batch.
            fn text(&self, number: u32) -> Option<&str> {
                self.columns.texts.get(number)
            }

            /// The frames of a number of `stack`, innermost first, in every batch of the process.
            fn frames<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Bound<'py, PyTuple>> {
                PyTuple::new(py, self.origin.frames(py, number))
            }
        }

        /// One after the other of a batch.
        #[pyclass(frozen, module = "msmemscope._native")]
        pub(crate) struct $Things {
            batch: Py<$Batch>,
            next: AtomicUsize,
        }

        #[pymethods]
        impl $Things {
            fn __iter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __next__(&self, py: Python<'_>) -> Option<$Thing> {
                let place = self.next.fetch_add(1, Ordering::Relaxed);
                (place < self.batch.get().columns.len()).then(|| $Thing { batch: self.batch.clone_ref(py), place })
            }
        }
    };
    (@view $self:ident, $python:ident, $column:ident) => {
        $self.views.$column.get($python, &$self.columns.$column)
    };
    (@view $self:ident, $python:ident, $column:ident, |$batch:ident, $py:ident| $values:expr) => {{
        let ($batch, $py) = ($self, $python);
        $batch.views.$column.get($py, &$values)
    }};
}
pub(super) use batch_classes;

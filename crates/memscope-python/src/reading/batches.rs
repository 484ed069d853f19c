//! What events and blocks have in common: read a batch at a time, of one process after the other.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memscope_session::opened::{
    BlockColumns, BlockReader, Choice, EventColumns, EventReader, OpenedProcess, ReadFailure, ReadStatus, StackNames,
};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use super::choice::Filter;
use super::recording::{Opened, failed};
use super::waiting::{Lookout, interruptible};

/// A reader of the session's.
pub(super) trait Reads: Sized {
    type Columns: Default;
    fn of(process: &OpenedProcess, choice: Choice) -> Result<Self, ReadFailure>;
    fn step(&mut self, columns: &mut Self::Columns) -> Result<ReadStatus, ReadFailure>;
    fn frames(&self, stack: u32, names: &mut StackNames) -> Vec<String>;
    fn length(columns: &Self::Columns) -> usize;
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
                    let reader = choice.and_then(|choice| R::of(process, choice)).map_err(failed)?;
                    let reading = Arc::new(Mutex::new(Reading { reader, names: StackNames::default() }));
                    Arc::clone(turn.reading.insert(reading))
                }
            };
            let mut columns = R::Columns::default();
            let mut status = ReadStatus::More;
            while R::length(&columns) < self.size && status == ReadStatus::More {
                status = locked(&reading).reader.step(&mut columns).map_err(failed)?;
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

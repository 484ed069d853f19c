//! The trace: one stream of events, whatever it is read from, for as many consumers as there are.
use crate::{
    BlockId, Device, ModelError, NoteEvent, Origin, Outcome, OwnerId, Pool, StackId, Stacks, State, StepId, TimestampNs,
};
use std::ops::ControlFlow;

/// The circumstances of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Counts the events of all kinds and devices from 0, in the order of the stream.
    pub event: u64,
    /// Never less than in the event before.
    pub time: TimestampNs,
    pub thread: u32,
    /// The stack of the call.
    pub stack: StackId,
    pub step: StepId,
}

/// A piece of memory from its allocation to its free: what everything speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    pub id: BlockId,
    pub device: Device,
    pub pool: Pool,
    pub origin: Origin,
    /// As whoever handed it out numbers its memory: it says nothing without pool and origin. A plain number, because it
    /// is one column of every file, for heap blocks, device memory, driver handles and registered host memory alike.
    pub address: u64,
    /// 0 in a block whose allocation was never seen.
    pub size: u64,
    /// The allocation.
    pub made: Moment,
    pub owner: OwnerId,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    Malloc,
    Free,
}

/// How an event stands to what the user chose to see: steps, and the time between `start` and `stop`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Selection {
    Chosen,
    /// Not chosen, but the end of a block that was announced: without it, the block would seem to live on.
    Closing,
    NotChosen,
}

/// A block begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockEvent {
    pub action: Action,
    pub block: Block,
    /// Of this event; in an allocation the same as [`Block::made`], unless that is synthetic.
    pub at: Moment,
    /// Live bytes of the block's device and pool after the event.
    pub used: u64,
    /// What the pool has reserved, if it ever said so.
    pub reserved: Option<u64>,
    /// False in the free of a block whose allocation was never seen; such a block has a number of its own.
    pub matched: bool,
    /// No call of its own in the program, only what keeps the books right: the end of a block whose memory was handed
    /// out again without a recorded free, or was mapped over, and the beginning of what a partial unmapping left.
    pub synthetic: bool,
    pub selection: Selection,
}

/// Something that happened, in the order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'e> {
    Memory(&'e BlockEvent),
    /// Announced again: a block that was alive already when tracing started and was not announced before. For files that
    /// begin there; whoever sums up [`TraceEvent::Memory`] knows of it already.
    Alive(&'e BlockEvent),
    Note(&'e NoteEvent<'e>),
}

/// A consumer of a trace. Several can share one pass.
pub trait TraceSink {
    /// `state` is that right after the event. Breaking off ends the pass for all.
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&TraceEvent<'_>, &State<'_>) -> ControlFlow<()>> TraceSink for F {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        self(event, state)
    }
}

/// Several sinks as one.
pub(crate) struct Fan<'f, 's>(pub(crate) &'f mut [&'s mut dyn TraceSink]);

impl TraceSink for Fan<'_, '_> {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        self.0.iter_mut().try_for_each(|sink| sink.event(event, state))
    }
}

/// Whether a trace goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// There may be more events.
    More,
    /// The trace is over, or a sink broke off.
    Over,
}

/// What a trace is of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceInfo {
    pub pid: u32,
    /// The program's name; empty where the source does not say.
    pub command: String,
    /// When the recording began; 0 where the source does not say.
    pub start: TimestampNs,
    /// Which run it was part of; 0 where the source does not say.
    pub run_id: u64,
    /// Whether the recording was ended by the process itself; `None` where the source does not say.
    pub exited: Option<bool>,
    /// What the recorder was asked to watch, in the option's notation.
    pub watch: Option<String>,
}

/// Something a trace can be read from: a spool, or files made from one. It is stepped by whoever reads it, and waits
/// between two steps as long as that takes: a whole run, an iteration from Python, several processes merged by time and a
/// run that goes on are the same to it.
pub trait TraceSource {
    fn info(&self) -> TraceInfo;

    /// Goes on for a few thousand events at most, and gives them to the sinks. After [`Status::Over`] it begins anew.
    fn step(&mut self, sinks: &mut [&mut dyn TraceSink]) -> Result<Status, ModelError>;

    /// What all events so far come to. After the last step it is returned, once.
    fn outcome(&mut self) -> Outcome;

    /// The stacks seen so far; ids of an earlier pass stay valid.
    fn stacks(&self) -> &Stacks;

    /// How much of the trace is done, from 0 to 1.
    fn progress(&self) -> f64;

    /// The whole trace from its beginning, or until a sink breaks off. `report` is given the fraction done now and then,
    /// at last 1.
    fn run(&mut self, sinks: &mut [&mut dyn TraceSink], report: &mut dyn FnMut(f64)) -> Result<Outcome, ModelError> {
        self.rewind();
        while self.step(sinks)? == Status::More {
            report(self.progress());
        }
        let outcome = self.outcome();
        if !outcome.interrupted {
            report(1.0);
        }
        Ok(outcome)
    }

    /// The next step is the first again.
    fn rewind(&mut self);
}

//! What was going on when memory ran out.
//!
//! A refusal is one call that got nothing. An *out of memory* ([`Oom`]) is what the program met with, and may be several
//! refusals: a caching allocator that is refused gives back what it caches and asks again; an allocator above the driver, or
//! above `mmap`, hands on what it was told. They belong together if one thread asks again for the same before it is given
//! anything; the last of them is what the program sees.
mod series;
mod situation;

pub use series::HistoryPoint;
pub use situation::{Holder, Holders, PoolSituation, Situation};

use memscope_model::{
    Action, BlockEvent, Device, HostCall, NodeId, NoteKind, Outcome, Pool, RefusedCall, StackId, State, StepId,
    TimestampNs, TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use series::Series;
use std::ops::ControlFlow;

/// How many are told from the first on. Of the others the newest is.
const FIRST_TOLD: usize = 20;
/// How many live blocks are looked at in all: a program that is refused a million times has the first looks, and the rest
/// is counted.
const MOST_LOOKS: u64 = 200_000_000;

/// Watches a trace for memory that is refused. What it keeps is bounded by the pools, the threads that were refused, and
/// `listed`.
#[derive(Debug)]
pub struct OomWatch {
    /// How many blocks a list has.
    listed: usize,
    pools: Vec<PoolHistory>,
    /// Index of the pool of the newest event.
    newest_pool: usize,
    refusals: u64,
    count: u64,
    first: Vec<Oom>,
    last: Option<Oom>,
    waiting: FxHashMap<(u32, Device), Waiting>,
    looks_left: u64,
}

#[derive(Debug)]
struct PoolHistory {
    device: Device,
    pool: Pool,
    series: Series,
}

/// A thread that was refused memory of a device.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Its number among all, from 0.
    oom: u64,
    request: Request,
    /// The Python part of the request's stack.
    python: NodeId,
    /// It was given something since.
    is_answered: bool,
}

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub device: Device,
    pub call: RefusedCall,
    pub size: u64,
    pub flag: u64,
    pub time: TimestampNs,
    pub thread: u32,
    pub stack: StackId,
    pub step: StepId,
}

/// One out of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Oom {
    /// The last of its refusals.
    pub request: Request,
    /// How many refusals it is.
    pub tries: u32,
    /// When the first of them was.
    pub first_time: TimestampNs,
    /// `None` if it was one too many to look at all live blocks again.
    pub situation: Option<Situation>,
    pub fate: Fate,
}

/// What became of a thread that was refused memory of a device, as far as that memory goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It asked for nothing any more.
    AskedNoMore,
    /// The next it asked for was refused as well, which is another out of memory.
    RefusedAgain,
    /// It was given something, but never as much at once.
    GivenLess,
    /// It was given as much as it had asked for.
    Given(TimestampNs),
}

/// All of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OomReport {
    pub refusals: u64,
    pub count: u64,
    /// In the order of time.
    pub first: Vec<Oom>,
    /// The last one, if it is not among the first.
    pub last: Option<Oom>,
}

impl OomReport {
    /// Those that are told, in the order of time.
    pub fn told(&self) -> impl Iterator<Item = &Oom> {
        self.first.iter().chain(&self.last)
    }
}

impl OomWatch {
    /// Lists have `listed` blocks.
    pub fn new(listed: usize) -> OomWatch {
        OomWatch {
            listed,
            pools: Vec::new(),
            newest_pool: 0,
            refusals: 0,
            count: 0,
            first: Vec::new(),
            last: None,
            waiting: FxHashMap::default(),
            looks_left: MOST_LOOKS,
        }
    }

    /// What the memory of a device is made of at the end of the trace.
    pub fn at_end(&self, device: Device, outcome: &Outcome) -> Situation {
        let mut for_each_live = |visit: &mut dyn FnMut(&memscope_model::Block)| outcome.live_blocks().for_each(visit);
        let series = |pool| self.series(device, pool);
        situation::gather(device, outcome.last_time, &outcome.pools, &mut for_each_live, &series, self.listed)
    }

    pub fn finish(self) -> OomReport {
        let OomWatch { refusals, count, first, last, .. } = self;
        OomReport { refusals, count, first, last }
    }

    fn series(&self, device: Device, pool: Pool) -> Option<Series> {
        let known = self.pools.iter().find(|known| (known.device, known.pool) == (device, pool));
        known.map(|known| known.series.clone())
    }

    #[inline]
    fn see(&mut self, event: &BlockEvent) {
        let (device, pool) = (event.block.device, event.block.pool);
        let is_of = |known: &PoolHistory| (known.device, known.pool) == (device, pool);
        if !self.pools.get(self.newest_pool).is_some_and(is_of) {
            self.newest_pool = self.pools.iter().position(is_of).unwrap_or_else(|| {
                self.pools.push(PoolHistory { device, pool, series: Series::new(event.at.time) });
                self.pools.len() - 1
            });
        }
        self.pools[self.newest_pool].series.see(event.at.time, event.used);
        if event.action == Action::Malloc && !self.waiting.is_empty() && !event.synthetic {
            self.answer(event);
        }
    }

    /// The thread is given a block.
    fn answer(&mut self, event: &BlockEvent) {
        let who = (event.at.thread, event.block.device);
        let Some(waiting) = self.waiting.get(&who).copied() else { return };
        let is_granted = event.block.size >= waiting.request.size;
        if !self.is_answer(waiting.request, event.block.pool, is_granted) {
            return;
        }
        if let Some(oom) = self.told_mut(waiting.oom) {
            oom.fate = if is_granted { Fate::Given(event.at.time) } else { Fate::GivenLess };
        }
        if is_granted {
            self.waiting.remove(&who);
        } else if let Some(waiting) = self.waiting.get_mut(&who) {
            waiting.is_answered = true;
        }
    }

    /// Whether a block of that pool is an answer to the request. An allocator above the driver may be given pieces by it and
    /// give them back: the program has something only when the allocator hands it out, or the driver what it had refused.
    fn is_answer(&self, request: Request, pool: Pool, is_granted: bool) -> bool {
        let has_allocator = || self.pools.iter().any(|known| known.device == request.device && known.pool != Pool::Hal);
        match (request.call, pool) {
            (RefusedCall::Host(_), pool) => pool == Pool::Host,
            (RefusedCall::MemAlloc, Pool::Hal) => is_granted || !has_allocator(),
            // Handles all have one size, and many of them are one request.
            (_, Pool::Hal) => !has_allocator(),
            (_, pool) => pool != Pool::Host,
        }
    }

    fn refuse(&mut self, request: Request, state: &State<'_>) {
        self.refusals += 1;
        let python = state.stacks.python_node(request.stack);
        let who = (request.thread, request.device);
        let before = self.waiting.get(&who).filter(|before| before.is_same(request, python)).copied();
        let situation = self.look(request, state);
        let told = Oom { request, tries: 1, first_time: request.time, situation, fate: Fate::AskedNoMore };
        let oom = match before {
            Some(before) => {
                if let Some(place) = self.told_mut(before.oom) {
                    *place = Oom {
                        tries: place.tries.saturating_add(1),
                        first_time: place.first_time,
                        // The newest that could be had.
                        situation: told.situation.or(place.situation.take()),
                        ..told
                    };
                }
                before.oom
            }
            None => {
                let unanswered = self.waiting.get(&who).filter(|before| !before.is_answered).map(|before| before.oom);
                if let Some(place) = unanswered.and_then(|oom| self.told_mut(oom)) {
                    place.fate = Fate::RefusedAgain;
                }
                match self.first.len() < FIRST_TOLD {
                    true => self.first.push(told),
                    false => self.last = Some(told),
                }
                self.count += 1;
                self.count - 1
            }
        };
        self.waiting.insert(who, Waiting { oom, request, python, is_answered: false });
    }

    /// The one of that number, unless it is no longer told.
    fn told_mut(&mut self, oom: u64) -> Option<&mut Oom> {
        let is_last = oom + 1 == self.count;
        self.first.get_mut(oom as usize).or(self.last.as_mut().filter(|_| is_last))
    }

    fn look(&mut self, request: Request, state: &State<'_>) -> Option<Situation> {
        let pools = state.pools();
        let live: u64 = pools.iter().map(|usage| usage.live_blocks).sum();
        self.looks_left = self.looks_left.checked_sub(live.max(1))?;
        let series = |pool| self.series(request.device, pool);
        let mut for_each_live = |visit: &mut dyn FnMut(&memscope_model::Block)| state.for_each_live(visit);
        Some(situation::gather(request.device, request.time, &pools, &mut for_each_live, &series, self.listed))
    }
}

impl Waiting {
    /// Whether the next refusal of the thread is of the same out of memory.
    fn is_same(&self, next: Request, python: NodeId) -> bool {
        if self.is_answered || self.python != python {
            return false;
        }
        match (self.request.call, next.call) {
            // An allocator tells what it was told, and that is its last word: what comes then is asked for anew.
            (RefusedCall::MemAlloc | RefusedCall::MemCreate, RefusedCall::Pool(_)) => true,
            (RefusedCall::Pool(_), _) | (RefusedCall::Host(_), RefusedCall::Pool(_)) => false,
            // Python's allocator is refused an arena and turns to `malloc`.
            (RefusedCall::Host(HostCall::Mmap), RefusedCall::Host(call)) if call != HostCall::Mmap => {
                python != NodeId::NONE
            }
            (RefusedCall::Host(_), RefusedCall::Host(_)) => {
                self.request.size == next.size && self.request.stack == next.stack
            }
            (_, _) => self.request.size == next.size,
        }
    }
}

impl TraceSink for OomWatch {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => self.see(event),
            TraceEvent::Note(note) => {
                if let NoteKind::OutOfMemory { call, size, flag } = note.kind {
                    let request = Request {
                        device: note.device,
                        call,
                        size,
                        flag,
                        time: note.at.time,
                        thread: note.at.thread,
                        stack: note.at.stack,
                        step: note.at.step,
                    };
                    self.refuse(request, state);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

//! The sink.
use super::imports::Imports;
use super::operators::Operators;
use super::report::{Builder, LeakReport, SourceKey};
use super::row::{LiveRow, Scale};
use super::run::{Moments, Turn, Work};
use crate::point_in_time::{PointInTime, Watch};
use memscope_model::{
    Action, Block, BlockEvent, BlockId, Device, Moment, NameId, Outcome, Pool, Selection, State, Steps, TimestampNs,
    TraceEvent, TraceSink,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::ControlFlow;

/// Watches a trace for leaks.
#[derive(Clone, Debug)]
pub struct LeakSearch {
    sources: Vec<SourceTally>,
    ids: FxHashMap<SourceKey, usize>,
    /// The source of the newest event: often that of the next, too.
    newest: Option<(SourceKey, usize)>,
    peaks: Vec<((Device, Pool), u64)>,
    moments: Moments,
    /// Beside the moments, as long as there are no steps.
    work: Work,
    imports: Imports,
    operators: Operators,
    /// Blocks of the heap that storages of tensors lie in.
    carrying: FxHashSet<BlockId>,
    chosen: ChosenTime,
    main: Watch,
    /// When main returned, as far as is known yet.
    main_returned: Option<MainReturned>,
}

/// What one source holds.
#[derive(Clone, Debug)]
pub(super) struct SourceTally {
    pub(super) key: SourceKey,
    live: u64,
    /// By moments, and by parts of the work.
    pub(super) track: Track,
    pub(super) work: Track,
}

/// What was alive along an axis.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// The row knows so many moments.
    told: u32,
    pub(super) row: LiveRow,
}

/// What must be known of the time after main returned.
#[derive(Clone, Debug)]
struct MainReturned {
    /// Which coming of the moment it is.
    coming: u64,
    /// The first event after it.
    event: u64,
    time: TimestampNs,
    /// How many parts of the work were over.
    work: u32,
    /// Blocks that were alive then and have been freed since.
    freed: Vec<(Block, Option<NameId>)>,
}

impl Default for LeakSearch {
    fn default() -> LeakSearch {
        LeakSearch {
            sources: Vec::new(),
            ids: FxHashMap::default(),
            newest: None,
            peaks: Vec::new(),
            moments: Moments::default(),
            work: Work::default(),
            imports: Imports::default(),
            operators: Operators::default(),
            carrying: FxHashSet::default(),
            chosen: ChosenTime::default(),
            main: Watch::new(PointInTime::MainReturned),
            main_returned: None,
        }
    }
}

impl TraceSink for LeakSearch {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => {
                let is_import = self.is_import(event, state);
                self.pass(&event.at, state.steps, is_import);
                let is_work = event.action == Action::Malloc && is_import != Some(true) && !self.moments.has_steps();
                if let Some(passed) = is_work.then(|| self.work.see()).flatten() {
                    self.work_on(passed);
                }
                self.chosen.see(event);
                // Without Python stacks it does not show.
                if state.stacks.python_depth() > 0 {
                    self.watch_main(event, state);
                }
                self.feed(event, state);
            }
            TraceEvent::Note(note) => {
                self.pass(&note.at, state.steps, None);
                self.operators.see(note);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl LeakSearch {
    pub fn new() -> LeakSearch {
        LeakSearch::default()
    }

    /// The trace is over.
    pub fn finish(mut self, outcome: &Outcome) -> LeakReport {
        // A step that the last event ended.
        self.pass(&Moment { event: u64::MAX, time: outcome.last_time, ..Moment::default() }, &outcome.steps, None);
        for source in &mut self.sources {
            source.catch_up(&self.moments, &self.work);
        }
        let LeakSearch { sources, ids, peaks, moments, work, operators, carrying, chosen, main_returned, .. } = self;
        let end = main_returned.as_ref().map(|main| main.time);
        let work_until = main_returned.as_ref().map_or(work.passed, |main| main.work);
        let work_places = work.scale.places(work_until, work.passed);
        let mut builder = Builder::new(sources, ids, peaks, moments, work_places, chosen, end);
        let last = main_returned.as_ref().map_or(u64::MAX, |main| main.event);
        let live = outcome.live_blocks().filter(|block| block.made.event < last && !carrying.contains(&block.id));
        for block in live {
            builder.survived(block, operators.of(block.id));
        }
        for (block, operator) in main_returned.iter().flat_map(|main| &main.freed) {
            builder.survived(block, *operator);
        }
        builder.report()
    }

    /// Whether modules are being imported, if the event tells: frees of the host have no stack.
    #[inline]
    fn is_import(&mut self, event: &BlockEvent, state: &State<'_>) -> Option<bool> {
        let tells = event.action == Action::Malloc && state.stacks.python_depth() > 0 && !self.moments.has_steps();
        tells.then(|| self.imports.contain(event.at.stack, state.stacks))
    }

    /// Moments that are over before this one.
    #[inline]
    fn pass(&mut self, at: &Moment, steps: &Steps, is_import: Option<bool>) {
        while let Some(turn) = self.moments.see(at.event, at.time, steps, is_import) {
            self.turn(turn);
        }
    }

    #[cold]
    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Anew => {
                self.work = Work::default();
                for source in &mut self.sources {
                    (source.track, source.work) = (Track::default(), Track::default());
                }
            }
            Turn::Passed(moments) => {
                while self.moments.scale.is_full(moments) {
                    // Rows are told of the moments before by the old scale.
                    for source in &mut self.sources {
                        source.catch_up(&self.moments, &self.work);
                        source.track.row.join();
                    }
                    self.moments.scale.widen();
                }
                self.moments.passed = moments;
            }
        }
    }

    /// So many parts of the work are over.
    fn work_on(&mut self, passed: u32) {
        while self.work.scale.is_full(passed) {
            for source in &mut self.sources {
                source.catch_up(&self.moments, &self.work);
                source.work.row.join();
            }
            self.work.scale.widen();
        }
        self.work.passed = passed;
    }

    fn watch_main(&mut self, event: &BlockEvent, state: &State<'_>) {
        self.main.see(event, state);
        let coming = self.main.is_over();
        if self.main_returned.as_ref().map(|main| main.coming) != coming {
            self.main_returned = coming.map(|coming| MainReturned {
                coming,
                event: event.at.event,
                time: event.at.time,
                work: self.work.passed,
                freed: Vec::new(),
            });
        }
    }

    fn feed(&mut self, event: &BlockEvent, state: &State<'_>) {
        let block = &event.block;
        match event.action {
            Action::Malloc => {
                if let Some(beneath) = state.beneath(block) {
                    self.carry(&beneath);
                }
                self.operators.made(block.id, block.device, event.at.thread);
                self.note_peak(block.device, block.pool, event.used);
                let source = self.changing(SourceKey::of(block));
                source.live = source.live.saturating_add(block.size);
            }
            // The storage in it has told of its end.
            Action::Free if self.carrying.remove(&block.id) => {}
            Action::Free if event.matched => {
                let operator = self.operators.freed(block.id);
                if let Some(main) = self.main_returned.as_mut().filter(|main| block.made.event < main.event) {
                    main.freed.push((*block, operator));
                }
                let source = self.changing(SourceKey::of(block));
                source.live = source.live.saturating_sub(block.size);
            }
            Action::Free => {}
        }
    }

    /// A storage of a tensor lies in this block of the heap: from now on the storage is what may leak.
    fn carry(&mut self, block: &Block) {
        if self.carrying.insert(block.id) {
            self.operators.freed(block.id);
            let source = self.changing(SourceKey::of(block));
            source.live = source.live.saturating_sub(block.size);
        }
    }

    #[inline]
    fn note_peak(&mut self, device: Device, pool: Pool, used: u64) {
        match self.peaks.iter_mut().find(|(of, _)| *of == (device, pool)) {
            Some((_, peak)) => *peak = used.max(*peak),
            None => self.peaks.push(((device, pool), used)),
        }
    }

    /// A source that is about to change.
    #[inline]
    fn changing(&mut self, key: SourceKey) -> &mut SourceTally {
        let index = match self.newest {
            Some((newest, index)) if newest == key => index,
            _ => {
                let sources = &mut self.sources;
                let index = *self.ids.entry(key).or_insert_with(|| {
                    sources.push(SourceTally { key, live: 0, track: Track::default(), work: Track::default() });
                    sources.len() - 1
                });
                self.newest = Some((key, index));
                index
            }
        };
        let source = &mut self.sources[index];
        source.catch_up(&self.moments, &self.work);
        source
    }
}

impl SourceTally {
    /// Nothing changed since the row was told last.
    #[inline]
    fn catch_up(&mut self, moments: &Moments, work: &Work) {
        self.track.hold(moments.passed, self.live, moments.scale);
        self.work.hold(work.passed, self.live, work.scale);
    }
}

impl Track {
    #[inline]
    fn hold(&mut self, passed: u32, live: u64, scale: Scale) {
        if self.told < passed {
            self.row.hold(self.told, passed, live, scale);
            self.told = passed;
        }
    }
}

/// The time the user chose to see, from event to event.
#[derive(Clone, Debug, Default)]
pub(super) struct ChosenTime {
    /// First event, and the first that is not of it any more.
    spans: Vec<(u64, u64)>,
}

impl ChosenTime {
    #[inline]
    fn see(&mut self, event: &BlockEvent) {
        let is_chosen = event.selection == Selection::Chosen;
        let is_open = self.spans.last().is_some_and(|(_, end)| *end == u64::MAX);
        match (is_chosen, is_open) {
            (true, false) => self.spans.push((event.at.event, u64::MAX)),
            (false, true) => self.spans.iter_mut().next_back().into_iter().for_each(|span| span.1 = event.at.event),
            _ => {}
        }
    }

    pub(super) fn contains(&self, event: u64) -> bool {
        let after = self.spans.partition_point(|(first, _)| *first <= event);
        after.checked_sub(1).is_some_and(|at| event < self.spans[at].1)
    }
}

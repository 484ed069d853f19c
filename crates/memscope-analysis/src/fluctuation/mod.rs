//! How the use of each pool goes up and down: within steps, over time, at its peak, and against what the pool reserves.
//!
//! What is in use between two events counts as much as at them: a step that begins with 10 bytes has held 10 bytes, and one
//! without events holds what the step before left.
mod level;
mod report;

pub use report::{Basis, Bin, FluctuationReport, Gap, Gaps, Peak, PoolFluctuation, Reserve, StepUse};

use crate::holders::Holders;
use crate::step_watch::StepWatch;
use crate::time_bins::TimeBins;
use level::PoolLevel;
use memscope_model::{
    Action, BlockEvent, Device, Moment, Outcome, Pool, State, Steps, TimestampNs, TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

/// Follows the pools of a trace. Its memory is in proportion to stacks, owners and steps.
#[derive(Clone, Debug, Default)]
pub struct Fluctuation {
    pools: Vec<PoolLevel>,
    /// Where each is: a made-up file may name thousands of devices.
    places: FxHashMap<(Device, Pool), usize>,
    /// Index of the pool of the newest event.
    last_pool: usize,
    holders: Holders,
    steps: StepWatch,
    bins: TimeBins,
    /// After the newest event.
    chosen: bool,
    last_time: TimestampNs,
    without_holders: bool,
}

impl Fluctuation {
    pub fn new() -> Fluctuation {
        Fluctuation::default()
    }

    /// For whoever has no use for who held memory at the peak.
    pub fn without_holders() -> Fluctuation {
        Fluctuation { without_holders: true, ..Fluctuation::default() }
    }

    /// What all events came to.
    pub fn finish(mut self, outcome: &Outcome) -> FluctuationReport {
        if self.chosen {
            self.last();
        }
        if self.steps.has_news(&outcome.steps) {
            self.step_on(&outcome.steps);
        }
        let steps = &outcome.steps;
        let is_settled = |used: &StepUse| used.number > 1;
        let has_steps = self.pools.iter().any(|level| level.ended.iter().any(is_settled));
        let basis = if has_steps { Basis::Steps } else { Basis::Time };
        let mut pools: Vec<PoolFluctuation> = std::mem::take(&mut self.pools)
            .into_iter()
            .map(|mut level| {
                level.ended.sort_unstable_by_key(|used| used.number);
                let gaps = match basis {
                    Basis::Steps => Gaps::of(level.ended.iter().filter(|used| is_settled(used)).map(StepUse::gap)),
                    Basis::Time => Gaps::of(gaps_in_time(&level.bins)),
                };
                let (peak, worst) = (level.peak(steps, &self.holders), level.worst(steps));
                let PoolLevel { device, pool, ended, bins, .. } = level;
                PoolFluctuation { device, pool, gaps, steps: ended, bins, peak, worst }
            })
            .collect();
        pools.sort_unstable_by_key(|pool| (pool.device, pool.pool));
        FluctuationReport {
            basis,
            steps: steps.count(),
            bins_from: self.bins.origin().unwrap_or_default(),
            bin_ns: self.bins.width_ns(),
            pools,
        }
    }

    /// Steps or the choice have changed since the event before; what is held has lasted until now.
    #[cold]
    fn go_on(&mut self, at: &Moment, state: &State<'_>) {
        if self.chosen {
            self.last_until(at.time);
        }
        if state.chosen && !self.chosen {
            self.make_room(at.time);
            self.pools.iter_mut().for_each(|level| level.begin_chosen(at.time, at.step));
        }
        if self.steps.has_news(state.steps) {
            // What began and ended since then had what is held now, if it was chosen at all.
            self.chosen &= state.chosen;
            self.step_on(state.steps);
        }
        self.chosen = state.chosen;
    }

    fn step_on(&mut self, steps: &Steps) {
        let change = self.steps.update(steps);
        let running = self.steps.running();
        let (now, chosen, bins) = (self.last_time, self.chosen, &self.bins);
        for level in &mut self.pools {
            if change.was_no_step {
                level.forget_runs();
            }
            change.ended.iter().for_each(|number| level.end_step(*number));
            for number in change.began.clone() {
                level.begin_step(number);
                if running.binary_search(&number).is_err() {
                    if chosen {
                        level.lasted(now, bins);
                    }
                    level.end_step(number);
                }
            }
        }
    }

    fn last(&mut self) {
        self.last_until(self.last_time);
    }

    fn last_until(&mut self, time: TimestampNs) {
        self.make_room(time);
        let bins = &self.bins;
        self.pools.iter_mut().for_each(|level| level.lasted(time, bins));
    }

    #[inline]
    fn make_room(&mut self, time: TimestampNs) {
        for _ in 0..self.bins.make_room(time) {
            self.pools.iter_mut().for_each(PoolLevel::widen);
        }
    }

    #[inline]
    fn block(&mut self, event: &BlockEvent, state: &State<'_>) {
        if event.action == Action::Free && !event.matched {
            return;
        }
        if self.chosen {
            self.make_room(event.at.time);
        }
        let index = self.index(event);
        let level = &mut self.pools[index];
        if self.chosen && !level.is_between(event) {
            level.lasted(event.at.time, &self.bins);
        }
        if !self.without_holders {
            level.hand_over(event, self.holders.number(event.block.owner, event.block.origin, state.owners));
        }
        level.change(event);
    }

    #[inline]
    fn index(&mut self, event: &BlockEvent) -> usize {
        let key = (event.block.device, event.block.pool);
        let is_of = |level: &PoolLevel| (level.device, level.pool) == key;
        if !self.pools.get(self.last_pool).is_some_and(is_of) {
            self.last_pool = match self.places.get(&key) {
                Some(index) => *index,
                None => self.add(key.0, key.1, event.at.time),
            };
        }
        self.last_pool
    }

    fn add(&mut self, device: Device, pool: Pool, now: TimestampNs) -> usize {
        self.places.insert((device, pool), self.pools.len());
        self.pools.push(PoolLevel::new(device, pool, now, self.steps.running()));
        self.pools.len() - 1
    }
}

impl TraceSink for Fluctuation {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        let at = match event {
            TraceEvent::Memory(event) | TraceEvent::Alive(event) => &event.at,
            TraceEvent::Note(note) => &note.at,
            _ => return ControlFlow::Continue(()),
        };
        if self.steps.has_news(state.steps) || self.chosen != state.chosen {
            self.go_on(at, state);
        }
        if let TraceEvent::Memory(event) = event {
            self.block(event, state);
        }
        self.last_time = at.time;
        ControlFlow::Continue(())
    }
}

/// Programs take their memory in the first piece and give it back in the last.
fn gaps_in_time(bins: &[Option<Bin>]) -> impl Iterator<Item = Gap> + '_ {
    let before_last = bins.len().saturating_sub(1);
    let since_first = (1..).zip(&bins[..before_last]).skip_while(|(_, bin)| bin.is_none());
    since_first.skip(1).filter_map(|(number, bin)| {
        let Bin { least, most, .. } = (*bin)?;
        Some(Gap { number, least, most })
    })
}

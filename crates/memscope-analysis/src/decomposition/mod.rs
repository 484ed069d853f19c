//! What the memory of each device is made of, by owner: at its peak, at a moment asked for, and at the end of each step.
//!
//! The driver's memory contains what pools reserved of it, and the host's the storages of tensors: pools are told side by side, never
//! summed up with it.
mod pool;
mod tree;

pub use tree::{OwnerLevel, OwnerNode};

use crate::held::Held;
use crate::holders::{Holders, OwnerShare};
use crate::point_in_time::{Found, PointInTime, Watch};
use crate::step_watch::StepWatch;
use memscope_model::{
    Action, BlockEvent, Device, Moment, Outcome, Pool, State, StepId, Steps, TimestampNs, TraceEvent, TraceSink,
};
use pool::{ASKED, DEVICE_PEAK, PoolOwners, Taken};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

/// Follows the owners of a trace. Its memory is in proportion to owners and, for each step, those that changed in it.
#[derive(Clone, Debug, Default)]
pub struct Decomposition {
    pools: Vec<PoolOwners>,
    /// Where each pool and each device is: a made-up file may name thousands of devices.
    places: FxHashMap<(Device, Pool), usize>,
    device_places: FxHashMap<Device, usize>,
    /// Index of the pool of the newest event.
    last_pool: usize,
    devices: Vec<DeviceLevel>,
    holders: Holders,
    watch: Option<Watch>,
    steps: StepWatch,
    /// The steps whose end is kept.
    step_ends: Vec<(u32, TimestampNs)>,
    /// After the newest event.
    chosen: bool,
    /// Nothing was traced at the last event: what was allocated since is left out.
    untraced: bool,
    last_time: TimestampNs,
}

/// How much of a device is in use.
#[derive(Clone, Copy, Debug)]
struct DeviceLevel {
    device: Device,
    level: Level,
    since: TimestampNs,
    step: StepId,
    peak: Level,
    peaks: u64,
    peak_time: TimestampNs,
    peak_step: StepId,
}

/// Ordered as memory runs out: by what the driver or the host handed out, and of two moments alike in that, by what pools handed out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Level {
    driver: u64,
    pools: u64,
}

impl DeviceLevel {
    /// It is like this until now.
    #[inline]
    fn lasted(&mut self) {
        if self.level > self.peak {
            self.peak = self.level;
            self.peaks += 1;
            (self.peak_time, self.peak_step) = (self.since, self.step);
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecompositionReport {
    pub devices: Vec<DeviceDecomposition>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceDecomposition {
    pub device: Device,
    /// `None` if the device never held a byte in the chosen time.
    pub peak: Option<DeviceMoment>,
    /// At the moment asked for; `None` if none was, or it never came.
    pub asked: Option<DeviceMoment>,
    /// In the order in which they ended.
    pub steps: Vec<StepDecomposition>,
}

/// A device at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceMoment {
    pub time: TimestampNs,
    pub step: Option<u32>,
    /// Those that held a block or reserved memory.
    pub pools: Vec<PoolDecomposition>,
}

impl DeviceMoment {
    /// What the driver handed out; `None` if it was not recorded.
    pub fn driver_bytes(&self) -> Option<u64> {
        self.pools.iter().find(|pool| pool.pool == Pool::Hal).map(|pool| pool.used.bytes)
    }

    /// What pools took of it: what they say they reserved, or, where they do not say, what they handed out.
    pub fn pool_bytes(&self) -> u64 {
        let framework = self.pools.iter().filter(|pool| is_framework(pool.pool));
        framework.map(|pool| pool.reserved.unwrap_or(pool.used.bytes)).sum()
    }
}

/// When a step ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepDecomposition {
    pub number: u32,
    pub time: TimestampNs,
    pub pools: Vec<PoolDecomposition>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolDecomposition {
    pub pool: Pool,
    pub used: Held,
    /// As the pool said at last, if it ever did.
    pub reserved: Option<u64>,
    /// Most bytes first; they sum up to what is used.
    pub owners: Vec<OwnerShare>,
}

/// A framework's pool hands out what it took from the driver.
fn is_framework(pool: Pool) -> bool {
    !matches!(pool, Pool::Host | Pool::Pinned | Pool::Hal)
}

impl Decomposition {
    /// Of the peaks and step ends, and of the moment asked for.
    pub fn at(asked: Option<PointInTime>) -> Decomposition {
        let asked = asked.filter(|point| *point != PointInTime::Peak);
        Decomposition { watch: asked.map(Watch::new), ..Decomposition::default() }
    }

    /// What all events came to.
    pub fn finish(mut self, outcome: &Outcome) -> DecompositionReport {
        if self.chosen {
            self.devices.iter_mut().for_each(DeviceLevel::lasted);
        }
        if self.steps.has_news(&outcome.steps) {
            self.step_on(&outcome.steps);
        }
        let mut pools: Vec<Vec<&PoolOwners>> = vec![Vec::new(); self.devices.len()];
        self.pools.iter().for_each(|pool| pools[pool.of].push(pool));
        let both = self.devices.iter().zip(&pools);
        let mut devices: Vec<DeviceDecomposition> =
            both.map(|(level, pools)| self.device_report(level, pools, &outcome.steps)).collect();
        devices.sort_unstable_by_key(|device| device.device);
        DecompositionReport { devices }
    }

    fn device_report(&self, level: &DeviceLevel, pools: &[&PoolOwners], steps: &Steps) -> DeviceDecomposition {
        let DeviceLevel { device, peaks, peak_time, peak_step, .. } = *level;
        let moment = |time, step, decomposed: &dyn Fn(&PoolOwners) -> PoolDecomposition| {
            let all = pools.iter().map(|pool| decomposed(pool));
            let mut pools: Vec<_> = all.filter(|pool| pool.used.blocks > 0 || pool.reserved > Some(0)).collect();
            pools.sort_unstable_by_key(|pool| pool.pool);
            DeviceMoment { time, step, pools }
        };
        let peak = (peaks > 0)
            .then(|| moment(peak_time, steps.number(peak_step), &|pool| pool.at(DEVICE_PEAK, peaks, &self.holders)));
        let asked = self.watch.as_ref().and_then(|watch| {
            let step = match watch.point {
                PointInTime::StepEnd(number) => Some(number),
                _ => None,
            };
            // A step that no event came after, nor in, ends with the trace.
            let is_last_step = step.is_some_and(|number| number <= steps.count());
            Some(match watch.found().or(is_last_step.then_some(Found::AtTheEnd))? {
                Found::AtTheEnd => moment(self.last_time, step, &|pool| pool.now(&self.holders)),
                Found::Saved => moment(watch.time, step, &|pool| pool.at(ASKED, watch.taken, &self.holders)),
            })
        });
        let ends = self.step_ends.iter().map(|(number, time)| (*number, *time, Vec::new()));
        let mut ends: Vec<(u32, TimestampNs, Vec<PoolDecomposition>)> = ends.collect();
        for pool in pools {
            for (end, decomposed) in pool.at_step_ends(&self.holders) {
                ends[end as usize].2.push(decomposed);
            }
        }
        let step = |(number, time, mut pools): (u32, TimestampNs, Vec<PoolDecomposition>)| {
            pools.sort_unstable_by_key(|pool| pool.pool);
            StepDecomposition { number, time, pools }
        };
        DeviceDecomposition { device, peak, asked, steps: ends.into_iter().map(step).collect() }
    }

    /// Steps or the choice have changed since the event before.
    #[cold]
    fn go_on(&mut self, at: &Moment, state: &State<'_>) {
        if self.chosen {
            self.devices.iter_mut().for_each(DeviceLevel::lasted);
        }
        if state.chosen && !self.chosen {
            for device in &mut self.devices {
                (device.since, device.step) = (at.time, at.step);
            }
        }
        if self.steps.has_news(state.steps) {
            self.step_on(state.steps);
        }
        self.chosen = state.chosen;
    }

    fn step_on(&mut self, steps: &Steps) {
        let change = self.steps.update(steps);
        let running = self.steps.running();
        let passed = change.began.filter(|number| running.binary_search(number).is_err());
        for number in change.ended.into_iter().chain(passed).filter(|_| self.chosen) {
            self.step_ends.push((number, self.last_time));
            self.pools.iter_mut().for_each(PoolOwners::end_step);
        }
    }

    #[inline]
    fn taken(&self, of: usize) -> Taken {
        [self.devices[of].peaks, self.watch.as_ref().map_or(0, |watch| watch.taken)]
    }

    #[inline]
    fn block(&mut self, event: &BlockEvent, state: &State<'_>) {
        if event.action == Action::Free && !event.matched {
            return;
        }
        let block = &event.block;
        let index = self.index(block.device, block.pool);
        let holder = self.holders.number(block.owner, block.origin, state.owners);
        let of = self.pools[index].of;
        let device = &mut self.devices[of];
        if self.chosen {
            device.lasted();
        }
        (device.since, device.step) = (event.at.time, event.at.step);
        let sum = if is_framework(block.pool) { &mut device.level.pools } else { &mut device.level.driver };
        match event.action {
            Action::Malloc => *sum += block.size,
            Action::Free => *sum = sum.saturating_sub(block.size),
        }
        let taken = self.taken(of);
        let pool = &mut self.pools[index];
        pool.change(event.action, block.size, holder, &taken);
        pool.reserve(event.reserved.or(pool.reserved), &taken);
    }

    #[inline]
    fn index(&mut self, device: Device, pool: Pool) -> usize {
        let is_of = |known: &PoolOwners| (known.device, known.pool) == (device, pool);
        if !self.pools.get(self.last_pool).is_some_and(is_of) {
            self.last_pool = match self.places.get(&(device, pool)) {
                Some(index) => *index,
                None => self.add(device, pool),
            };
        }
        self.last_pool
    }

    fn add(&mut self, device: Device, pool: Pool) -> usize {
        let next = self.devices.len();
        let of = *self.device_places.entry(device).or_insert(next);
        if of == next {
            self.devices.push(DeviceLevel {
                device,
                level: Level::default(),
                since: self.last_time,
                step: StepId::default(),
                peak: Level::default(),
                peaks: 0,
                peak_time: TimestampNs::default(),
                peak_step: StepId::default(),
            });
        }
        self.places.insert((device, pool), self.pools.len());
        self.pools.push(PoolOwners::new(device, pool, of, self.step_ends.len() as u32));
        self.pools.len() - 1
    }
}

impl TraceSink for Decomposition {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        let at = match event {
            TraceEvent::Memory(event) | TraceEvent::Alive(event) => &event.at,
            TraceEvent::Note(note) => &note.at,
            _ => return ControlFlow::Continue(()),
        };
        if self.steps.has_news(state.steps) || self.chosen != state.chosen {
            self.go_on(at, state);
        }
        match (event, &mut self.watch) {
            (TraceEvent::Memory(event), Some(watch)) => watch.see(event, state),
            (TraceEvent::Note(note), Some(watch)) => watch.see_moment(&note.at, state),
            _ => {}
        }
        match event {
            TraceEvent::Memory(event) => {
                self.untraced = state.untraced_after.is_some();
                if !state.is_untraced(event.block.id) {
                    self.block(event, state);
                }
            }
            TraceEvent::Alive(event) if self.untraced => self.block(event, state),
            _ => {}
        }
        self.last_time = at.time;
        ControlFlow::Continue(())
    }
}

//! What a search for leaks comes to.
use super::row::LiveRow;
use super::run::{Made, Moments};
use super::search::{ChosenTime, SourceTally};
use super::verdict::{Course, FEWEST_MOMENTS, Growth, Verdict, growth, least_growth};
use memscope_model::{Block, Device, NameId, OwnerId, Pool, StackId, TimestampNs};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Who makes memory, as far as a trace tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SourceKey {
    device: Device,
    pool: Pool,
    stack: StackId,
    owner: OwnerId,
}

impl SourceKey {
    #[inline]
    pub(super) fn of(block: &Block) -> SourceKey {
        SourceKey { device: block.device, pool: block.pool, stack: block.made.stack, owner: block.owner }
    }
}

/// The leaks of a process, by source.
#[derive(Clone, Debug)]
pub struct LeakReport {
    pub parts: RunParts,
    /// When main returned, if the end is that; else it is the end of the trace.
    pub main_returned: Option<TimestampNs>,
    /// Those with a block that outlived its step and was not freed by the end, most bytes first; before all others those that
    /// made one later than in the first step (without steps, in the second half of the time): only they can be growing.
    pub sources: Vec<LeakSource>,
    /// Those that grew from step to step and freed all of it after the last one.
    pub freed_late: Vec<LeakSource>,
    peaks: Vec<((Device, Pool), u64)>,
    /// Of rows by moments, and of those by parts of the work: none if there are steps.
    places: usize,
    work_places: usize,
}

/// What the places of a row are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunParts {
    Steps {
        /// How many began, and how many of them ended.
        begun: u32,
        ended: u32,
        /// Steps of a place.
        per_place: u32,
    },
    Time {
        start: TimestampNs,
        /// Nanoseconds of a place.
        per_place: u64,
    },
}

impl RunParts {
    /// Steps of a place; 1 where there are none.
    pub fn steps_of_place(self) -> u32 {
        match self {
            RunParts::Steps { per_place, .. } => per_place,
            RunParts::Time { .. } => 1,
        }
    }
}

/// A source and what it left.
#[derive(Clone, Debug)]
pub struct LeakSource {
    pub device: Device,
    pub pool: Pool,
    pub stack: StackId,
    pub owner: OwnerId,
    pub bytes: u64,
    pub blocks: u64,
    /// The first and the last step in which survivors were made, from 1; without steps the first and last part of the time.
    pub first: u32,
    pub last: u32,
    /// Bytes of survivors by place, in order.
    survivors: Vec<(u32, u64)>,
    /// Bytes alive at the end that were made before the first step, or when the user did not want to see it.
    older: u64,
    row: LiveRow,
    work_row: LiveRow,
    /// Bytes by operator.
    operators: Vec<(NameId, u64)>,
    /// The largest, and others, at most twice [`LeakSource::BLOCKS`].
    largest: Vec<LeakedBlock>,
}

/// A block that was not freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeakedBlock {
    pub size: u64,
    pub address: u64,
    /// As in [`LeakSource::first`].
    pub step: u32,
    pub operator: Option<NameId>,
}

impl LeakSource {
    /// How many blocks are told one by one.
    pub const BLOCKS: usize = 16;
}

/// Sources that are one thing to the user, and the verdict on them.
#[derive(Clone, PartialEq, Debug)]
pub struct SourcesTogether {
    pub verdict: Verdict,
    pub growth: Option<Growth>,
    pub bytes: u64,
    pub blocks: u64,
    pub first: u32,
    pub last: u32,
    /// Bytes of survivors by the place they were made in.
    pub survivors: Vec<u64>,
    /// Bytes alive at the end of each place; of places that are several steps, the least.
    pub live: Vec<u64>,
    /// That most bytes were made for.
    pub operator: Option<NameId>,
    /// The largest, largest first.
    pub largest: Vec<LeakedBlock>,
}

impl LeakReport {
    /// Whether there are too few moments to say what grows.
    pub fn is_too_short(&self) -> bool {
        self.places < FEWEST_MOMENTS
    }

    /// The most that was in use of a pool.
    pub fn peak(&self, device: Device, pool: Pool) -> u64 {
        self.peaks.iter().find(|(of, _)| *of == (device, pool)).map_or(0, |(_, peak)| *peak)
    }

    /// The pools that had an event, in the order of their first.
    pub fn pools(&self) -> impl Iterator<Item = (Device, Pool)> + '_ {
        self.peaks.iter().map(|(of, _)| *of)
    }

    /// The verdict on sources, of one pool of one device, that are one thing to the user.
    pub fn together(&self, sources: &[&LeakSource]) -> SourcesTogether {
        let (mut survivors, mut live, mut worked) =
            (vec![0; self.places], vec![0; self.places], vec![0; self.work_places]);
        let mut operators: FxHashMap<NameId, u64> = FxHashMap::default();
        let mut largest: Vec<LeakedBlock> = Vec::new();
        for source in sources {
            source.row.add_to(&mut live);
            source.work_row.add_to(&mut worked);
            for (place, bytes) in &source.survivors {
                // Time goes on after the last whole part of it.
                let place = (*place as usize).min(self.places.saturating_sub(1));
                if let Some(sum) = survivors.get_mut(place) {
                    *sum += bytes;
                }
            }
            for (name, bytes) in &source.operators {
                *operators.entry(*name).or_default() += bytes;
            }
            largest.extend(&source.largest);
        }
        largest.sort_unstable_by_key(|block| (Reverse(block.size), block.step, block.address));
        largest.truncate(LeakSource::BLOCKS);
        let peak = sources.first().map_or(0, |source| self.peak(source.device, source.pool));
        let older = sources.iter().map(|source| source.older).sum();
        let course = Course { live: &live, worked: &worked, survivors: &survivors, older, least: least_growth(peak) };
        let (verdict, growth) = course.judge();
        let with_blocks = || sources.iter().filter(|source| source.blocks > 0);
        SourcesTogether {
            verdict,
            growth,
            bytes: sources.iter().map(|source| source.bytes).sum(),
            blocks: sources.iter().map(|source| source.blocks).sum(),
            first: with_blocks().map(|source| source.first).min().unwrap_or(0),
            last: with_blocks().map(|source| source.last).max().unwrap_or(0),
            survivors,
            live,
            operator: operators.into_iter().max_by_key(|(name, bytes)| (*bytes, Reverse(*name))).map(|(name, _)| name),
            largest,
        }
    }

    /// The growth of sources that freed it late.
    pub fn growth_of_freed(&self, sources: &[&LeakSource]) -> Option<Growth> {
        let mut live = vec![0; self.places];
        sources.iter().for_each(|source| source.row.add_to(&mut live));
        let peak = sources.first().map_or(0, |source| self.peak(source.device, source.pool));
        growth(&live, least_growth(peak))
    }
}

/// Gathers the blocks that are left.
pub(super) struct Builder {
    sources: Vec<LeakSource>,
    ids: FxHashMap<SourceKey, usize>,
    peaks: Vec<((Device, Pool), u64)>,
    moments: Moments,
    work_places: usize,
    chosen: ChosenTime,
    end: Option<TimestampNs>,
}

impl Builder {
    pub(super) fn new(
        sources: Vec<SourceTally>,
        ids: FxHashMap<SourceKey, usize>,
        peaks: Vec<((Device, Pool), u64)>,
        moments: Moments,
        work_places: usize,
        chosen: ChosenTime,
        end: Option<TimestampNs>,
    ) -> Builder {
        let sources = sources.into_iter().map(LeakSource::new).collect();
        Builder { sources, ids, peaks, moments, work_places, chosen, end }
    }

    pub(super) fn survived(&mut self, block: &Block, operator: Option<NameId>) {
        let Some(source) = self.ids.get(&SourceKey::of(block)).and_then(|id| self.sources.get_mut(*id)) else { return };
        let made = match self.chosen.contains(block.made.event) {
            true => self.moments.of(block.made.event, block.made.time),
            false => Made::Before,
        };
        match made {
            Made::Before => source.older = source.older.saturating_add(block.size),
            Made::In { moment } => source.keep(block, moment, self.moments.scale.place(moment), operator),
            Made::TooLate => {}
        }
    }

    pub(super) fn report(self) -> LeakReport {
        let places = self.moments.places(self.end);
        let has_steps = self.moments.has_steps();
        let parts = if has_steps {
            let (begun, ended) = (self.moments.steps() as u32, self.moments.passed);
            RunParts::Steps { begun, ended, per_place: self.moments.scale.width() }
        } else {
            let (start, per_place) = self.moments.time();
            RunParts::Time { start, per_place }
        };
        let mut report = LeakReport {
            parts,
            main_returned: self.end,
            sources: Vec::new(),
            freed_late: Vec::new(),
            peaks: self.peaks,
            places,
            work_places: if has_steps { 0 } else { self.work_places },
        };
        for mut source in self.sources {
            source.survivors.sort_unstable();
            source.survivors.dedup_by(|next, sum| {
                let is_same = next.0 == sum.0;
                if is_same {
                    sum.1 += next.1;
                }
                is_same
            });
            if source.blocks > 0 {
                report.sources.push(source);
            } else if has_steps && source.row.changes() > 2 && report.growth_of_freed(&[&source]).is_some() {
                report.freed_late.push(source);
            }
        }
        let start = if has_steps { 1 } else { self.moments.passed / 2 };
        report.sources.sort_by_key(|source| {
            let LeakSource { device, pool, stack, owner, .. } = *source;
            (source.last <= start, Reverse(source.bytes), device, pool, stack, owner)
        });
        report
    }
}

impl LeakSource {
    fn new(tally: SourceTally) -> LeakSource {
        let SourceKey { device, pool, stack, owner } = tally.key;
        LeakSource {
            device,
            pool,
            stack,
            owner,
            bytes: 0,
            blocks: 0,
            first: u32::MAX,
            last: 0,
            survivors: Vec::new(),
            older: 0,
            row: tally.track.row,
            work_row: tally.work.row,
            operators: Vec::new(),
            largest: Vec::new(),
        }
    }

    fn keep(&mut self, block: &Block, moment: u32, place: u32, operator: Option<NameId>) {
        self.bytes = self.bytes.saturating_add(block.size);
        self.blocks += 1;
        let step = moment + 1;
        self.first = self.first.min(step);
        self.last = self.last.max(step);
        match self.survivors.last_mut() {
            Some((newest, bytes)) if *newest == place => *bytes += block.size,
            _ => self.survivors.push((place, block.size)),
        }
        if let Some(name) = operator {
            match self.operators.iter_mut().find(|(other, _)| *other == name) {
                Some((_, bytes)) => *bytes += block.size,
                None => self.operators.push((name, block.size)),
            }
        }
        self.largest.push(LeakedBlock { size: block.size, address: block.address, step, operator });
        if self.largest.len() >= 2 * LeakSource::BLOCKS {
            self.largest.sort_unstable_by_key(|block| (Reverse(block.size), block.step, block.address));
            self.largest.truncate(LeakSource::BLOCKS);
        }
    }
}

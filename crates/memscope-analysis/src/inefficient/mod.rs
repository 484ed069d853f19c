//! Memory that is held for nothing: allocated too early, freed too late, or idle in between.
//!
//! A block is
//! * *allocated early* if, between the operator that allocates it and the one that accesses it first, another operator frees
//!   another block of the same pool: the allocation could have waited, and taken that memory;
//! * *freed late* if, between the operator that accesses it last and the one that frees it, another operator allocates another
//!   block of the same pool: that could have had its memory;
//! * *temporarily idle* if more operators than a threshold lie between two accesses that follow each other.
//!
//! Operators count by device and stream, in the order in which they begin, whichever thread runs them; see [`units`] for what an event
//! belongs to. Streams run side by side, and allocators hand freed memory out again on the stream it was allocated for: what happens to
//! memory of another stream is no room for a block, and neither are operators of another stream time that passes for it. What is
//! on no stream that is known may be on any. A block that two streams use may be in use whenever either says so: nothing is said of it
//! from then on, and its memory is no room for others. What a trace does not tell is not guessed: a block that is never accessed, or never freed, or that was there
//! before the trace, is nothing of this. Of host memory only tensors count: else every object of the interpreter would be
//! one.
mod report;
#[cfg(test)]
mod tests;
mod units;

use self::units::{Framework, Operator, OperatorCounts, RecentByStream, Unit, UnitId, Units};
use memscope_model::{
    Access, Action, Annotations, Block, BlockEvent, BlockId, Device, Inefficiencies, Name, NameId, NoteEvent, NoteKind,
    OwnerId, Phase, Pool, Selection, StackId, State, StreamHandle, TimestampNs, TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

pub use report::{Inefficiency, InefficiencyReport, InefficiencySettings, InefficientPool, WorstBlock};

/// Watches a trace for memory that is held for nothing. Its memory is in proportion to live blocks and call sites.
#[derive(Clone, Debug, Default)]
pub struct InefficiencyTally {
    settings: InefficiencySettings,
    units: Units,
    operators: FxHashMap<Device, OperatorCounts>,
    pools: Vec<PoolWatch>,
    pool_places: FxHashMap<(Device, Pool), usize>,
    live: FxHashMap<BlockId, LiveBlock>,
    places: FxHashMap<(Place, u8), Waste>,
    accesses: u64,
    annotations: Option<Annotations>,
}

/// What the blocks of a finding have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place {
    pool: usize,
    stack: StackId,
    owner: OwnerId,
    operator: Option<NameId>,
}

#[derive(Clone, Debug)]
struct PoolWatch {
    device: Device,
    pool: Pool,
    mallocs: RecentByStream,
    frees: RecentByStream,
    peak_bytes: u64,
    peak_time: TimestampNs,
    /// The event that made the peak.
    peak_event: u64,
    /// Counts the new peaks.
    peaks: u64,
    at_peak: AtPeak,
}

/// What was held for nothing at the newest peak. Whether it was is known only later, when the block is used or freed; whatever
/// was over before a peak came cannot have been held at it, so a new peak begins from nothing.
#[derive(Clone, Copy, Debug, Default)]
struct AtPeak {
    bytes: u64,
    /// The peak that `bytes` are of.
    peak: u64,
}

impl AtPeak {
    fn add(&mut self, peak: u64, bytes: u64) {
        if self.peak != peak {
            *self = AtPeak { bytes: 0, peak };
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn of(self, peak: u64) -> u64 {
        if self.peak == peak { self.bytes } else { 0 }
    }
}

/// A block whose allocation was seen.
#[derive(Clone, Copy, Debug)]
struct LiveBlock {
    id: BlockId,
    address: u64,
    size: u64,
    place: Place,
    malloc: Mark,
    last_access: Option<Mark>,
    found: Inefficiencies,
    /// The one it was allocated for, or else the first that used it.
    stream: Option<StreamHandle>,
    /// Another one uses it too.
    is_shared: bool,
}

impl LiveBlock {
    fn used_on(&mut self, stream: Option<StreamHandle>) {
        match (self.stream, stream) {
            (Some(own), Some(other)) => self.is_shared |= own != other,
            (own, other) => self.stream = own.or(other),
        }
    }
}

/// A moment by the count of operators.
#[derive(Clone, Copy, Debug)]
struct Mark {
    event: u64,
    unit: UnitId,
    name: Option<NameId>,
    /// Units from this one on began later.
    next_unit: UnitId,
    on_device: Begun,
    /// Of the block's stream, if it was known then.
    on_stream: Option<(StreamHandle, Begun)>,
}

/// Operators begun so far.
#[derive(Clone, Copy, Debug)]
struct Begun {
    operators: u64,
    /// The unit is one of them.
    has_unit: bool,
}

impl Mark {
    /// How many operators began after this moment and before the unit of the other, which is later.
    fn operators_until(&self, later: &Mark) -> u64 {
        if self.unit == later.unit {
            return 0;
        }
        let (before, after) = match (self.on_stream, later.on_stream) {
            (Some((stream, before)), Some((same, after))) if stream == same => (before, after),
            _ => (self.on_device, later.on_device),
        };
        let is_itself = after.has_unit && later.unit >= self.next_unit;
        (after.operators - before.operators).saturating_sub(u64::from(is_itself))
    }
}

/// What one kind of inefficiency cost at one place.
#[derive(Clone, Debug)]
struct Waste {
    blocks: u64,
    times: u64,
    bytes: u64,
    byte_operators: u64,
    at_peak: AtPeak,
    worst: WorstBlock,
}

impl InefficiencyTally {
    pub fn new(settings: InefficiencySettings) -> InefficiencyTally {
        InefficiencyTally { settings, ..InefficiencyTally::default() }
    }

    /// As [`InefficiencyTally::new`], and remembers each block that something was found of: its memory grows with those.
    pub fn annotating(settings: InefficiencySettings) -> InefficiencyTally {
        InefficiencyTally { annotations: Some(Annotations::default()), ..InefficiencyTally::new(settings) }
    }

    /// What was found of each block, if that was asked for.
    pub fn take_annotations(&mut self) -> Annotations {
        self.annotations.take().unwrap_or_default()
    }

    pub fn report(&self) -> InefficiencyReport {
        let mut findings: Vec<Inefficiency> = self
            .places
            .iter()
            .map(|((place, kind), waste)| {
                let PoolWatch { device, pool, peaks, .. } = self.pools[place.pool];
                Inefficiency {
                    kind: Inefficiencies::KINDS[usize::from(*kind)],
                    device,
                    pool,
                    stack: place.stack,
                    owner: place.owner,
                    operator: place.operator,
                    blocks: waste.blocks,
                    times: waste.times,
                    bytes: waste.bytes,
                    byte_operators: waste.byte_operators,
                    bytes_at_peak: waste.at_peak.of(peaks),
                    worst: waste.worst,
                }
            })
            .collect();
        findings.sort_unstable_by_key(|found| {
            let weight = (Reverse(found.byte_operators), Reverse(found.bytes_at_peak), Reverse(found.bytes));
            (weight, found.worst.block, found.kind)
        });
        let pools = self.pools.iter().map(|watch| InefficientPool {
            device: watch.device,
            pool: watch.pool,
            peak_bytes: watch.peak_bytes,
            peak_time: watch.peak_time,
            bytes_at_peak: watch.at_peak.of(watch.peaks),
        });
        let operators = self.operators.values().map(|counts| counts.all).sum();
        InefficiencyReport { findings, pools: pools.collect(), operators, accesses: self.accesses }
    }

    fn memory(&mut self, event: &BlockEvent) {
        // Tensors of the host count as those of a device do; the heap beneath them does not: no operator accesses that.
        let is_heap = event.block.device == Device::Cpu && event.block.pool != Pool::PtaCaching;
        if is_heap || !event.matched {
            return;
        }
        let unit = self.units.of(event.at.thread);
        let pool = self.pool(event.block.device, event.block.pool);
        match event.action {
            Action::Malloc => self.malloc(event, unit, pool),
            Action::Free => self.free(event, unit, pool),
        }
    }

    fn malloc(&mut self, event: &BlockEvent, unit: Unit, pool: usize) {
        let watch = &mut self.pools[pool];
        watch.mallocs.see(unit.id, event.at.event, unit.stream);
        if event.used > watch.peak_bytes && event.selection == Selection::Chosen {
            watch.peak_bytes = event.used;
            watch.peak_time = event.at.time;
            watch.peak_event = event.at.event;
            watch.peaks += 1;
        }
        let Block { id, device, owner, made, address, size, .. } = event.block;
        let stream = unit.stream;
        let malloc = self.mark(event.at.event, unit, device, stream);
        let place = Place { pool, stack: made.stack, owner, operator: malloc.name };
        let (last_access, found, is_shared) = (None, Inefficiencies::NONE, false);
        let block = LiveBlock { id, address, size, place, malloc, last_access, found, stream, is_shared };
        self.live.insert(id, block);
    }

    fn free(&mut self, event: &BlockEvent, unit: Unit, pool: usize) {
        let block = self.live.remove(&event.block.id);
        // What no call freed could not have been freed earlier, either.
        if event.synthetic {
            return;
        }
        if let Some(block) = block.filter(|block| self.is_judged(block))
            && let Some(last_access) = block.last_access
        {
            let free = self.mark(event.at.event, unit, event.block.device, block.stream);
            let others = &self.pools[pool].mallocs;
            let is_late = free.unit != last_access.unit
                && others.after(last_access.event, [last_access.unit, free.unit], block.stream);
            if is_late && event.selection == Selection::Chosen {
                self.find(Inefficiencies::LATE_DEALLOCATION, &block, last_access, free);
            }
        }
        if !block.is_some_and(|block| block.is_shared) {
            let stream = block.and_then(|block| block.stream).or(unit.stream);
            self.pools[pool].frees.see(unit.id, event.at.event, stream);
        }
    }

    /// Whether something can be said of the block.
    fn is_judged(&self, block: &LiveBlock) -> bool {
        block.size >= self.settings.least_bytes && !block.is_shared
    }

    fn access(&mut self, note: &NoteEvent<'_>, access: &Access<'_>) {
        let Some(accessed) = access.block else { return };
        self.accesses += 1;
        let Some(mut block) = self.live.get(&accessed.block).copied() else { return };
        let unit = self.units.of(note.at.thread);
        block.used_on(unit.stream);
        let now = self.mark(note.at.event, unit, accessed.device, block.stream);
        let before = block.last_access.replace(now);
        let (kind, from) = match before {
            _ if !self.is_judged(&block) => (None, now),
            None => {
                let others = &self.pools[block.place.pool].frees;
                let is_early = now.unit != block.malloc.unit
                    && others.after(block.malloc.event, [block.malloc.unit, now.unit], block.stream);
                (is_early.then_some(Inefficiencies::EARLY_ALLOCATION), block.malloc)
            }
            Some(before) => {
                let is_idle = before.operators_until(&now) > self.settings.idle_threshold;
                (is_idle.then_some(Inefficiencies::TEMPORARY_IDLENESS), before)
            }
        };
        if let Some(kind) = kind
            && note.chosen
        {
            self.find(kind, &block, from, now);
            block.found |= kind;
        }
        self.live.insert(accessed.block, block);
    }

    /// A block was held for nothing between two moments.
    fn find(&mut self, kind: Inefficiencies, block: &LiveBlock, from: Mark, to: Mark) {
        if !self.settings.kinds.contains(kind) {
            return;
        }
        if let Some(annotations) = &mut self.annotations {
            annotations.add_inefficiencies(block.id, kind);
        }
        let operators = from.operators_until(&to);
        let byte_operators = block.size.saturating_mul(operators);
        let worst = WorstBlock {
            block: block.id,
            address: block.address,
            size: block.size,
            operators,
            from: from.name,
            to: to.name,
        };
        let number = Inefficiencies::KINDS.iter().position(|known| *known == kind).unwrap_or(0) as u8;
        let waste = match self.places.entry((block.place, number)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (blocks, times, bytes, at_peak) = (0, 0, 0, AtPeak::default());
                new.insert(Waste { blocks, times, bytes, byte_operators: 0, at_peak, worst })
            }
        };
        waste.blocks += u64::from(!block.found.contains(kind));
        waste.times += 1;
        waste.bytes = waste.bytes.saturating_add(block.size);
        waste.byte_operators = waste.byte_operators.saturating_add(byte_operators);
        if byte_operators > waste.worst.size.saturating_mul(waste.worst.operators) {
            waste.worst = worst;
        }
        let pool = &mut self.pools[block.place.pool];
        if pool.peaks > 0 && (from.event..to.event).contains(&pool.peak_event) {
            waste.at_peak.add(pool.peaks, block.size);
            pool.at_peak.add(pool.peaks, block.size);
        }
    }

    fn operator(
        &mut self,
        note: &NoteEvent<'_>,
        phase: Phase,
        framework: Framework,
        (name, stream): (Option<Name<'_>>, Option<StreamHandle>),
        path: Option<&str>,
    ) {
        let operator = Operator { device: note.device, name: name.map(|name| name.id), stream };
        if self.units.operator(note.at.thread, phase, framework, operator, path) {
            self.operators.entry(note.device).or_default().add(stream);
        }
    }

    /// The moment of an event, for a block on this device and stream.
    fn mark(&self, event: u64, unit: Unit, device: Device, stream: Option<StreamHandle>) -> Mark {
        // What is on no device that anybody knows may be on this one.
        let devices = [Some(device), (device != Device::Unknown).then_some(Device::Unknown)];
        let counts = || devices.iter().flatten().filter_map(|device| self.operators.get(device));
        let operator = unit.operator.filter(|operator| [device, Device::Unknown].contains(&operator.device));
        let may_be_on = |stream| operator.is_some_and(|operator| operator.stream.is_none_or(|own| own == stream));
        Mark {
            event,
            unit: unit.id,
            name: unit.operator.and_then(|operator| operator.name),
            next_unit: self.units.next(),
            on_device: Begun { operators: counts().map(|counts| counts.all).sum(), has_unit: operator.is_some() },
            on_stream: stream.map(|stream| {
                let operators = counts().map(|counts| counts.on(stream)).sum();
                (stream, Begun { operators, has_unit: may_be_on(stream) })
            }),
        }
    }

    fn pool(&mut self, device: Device, pool: Pool) -> usize {
        let InefficiencyTally { pools, pool_places, .. } = self;
        *pool_places.entry((device, pool)).or_insert_with(|| {
            pools.push(PoolWatch {
                device,
                pool,
                mallocs: RecentByStream::default(),
                frees: RecentByStream::default(),
                peak_bytes: 0,
                peak_time: TimestampNs::default(),
                peak_event: 0,
                peaks: 0,
                at_peak: AtPeak::default(),
            });
            pools.len() - 1
        })
    }
}

impl TraceSink for InefficiencyTally {
    fn event(&mut self, event: &TraceEvent<'_>, _: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => self.memory(event),
            TraceEvent::Note(note) => match note.kind {
                NoteKind::AtenOperator { phase, name, stream } => {
                    self.operator(note, phase, Framework::Aten, (name, stream), None);
                }
                NoteKind::AtbOperator { phase, operator } => {
                    self.operator(note, phase, Framework::Atb, (operator.name, operator.stream), operator.path);
                }
                NoteKind::Access(access) => self.access(note, &access),
                _ => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

//! Who holds the memory: at the peak, at the end, and at any other moment asked for.
use crate::held::{Held, Saved};
use crate::point_in_time::{Found, PointInTime, Watch};
use memscope_model::{
    Action, BlockEvent, BlockId, Device, Pool, Selection, StackId, State, TimestampNs, TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::ControlFlow;

/// Accumulates the use of memory by device, pool and allocating stack. Its memory is in proportion to the stacks, however
/// many moments it is asked about and however long the trace is.
#[derive(Clone, Debug, Default)]
pub struct UsageTally {
    pools: Vec<PoolTally>,
    /// Other moments than the peaks and the end.
    watches: Vec<Watch>,
    /// The block a thread allocated in its newest event, if that was an allocation.
    newest: FxHashMap<u32, BlockId>,
    /// Nothing was traced at the last event: what was allocated since is left out.
    untraced: bool,
}

/// The use of one pool of one device.
#[derive(Clone, Debug)]
pub struct PoolTally {
    pub device: Device,
    pub pool: Pool,
    pub live_bytes: u64,
    pub live_blocks: u64,
    pub peak_bytes: u64,
    /// Blocks alive at the peak.
    pub peak_blocks: u64,
    /// When the peak was first reached; 0 if no byte was ever allocated.
    pub peak_time: TimestampNs,
    last_time: TimestampNs,
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub temporary_allocations: u64,
    /// Counts the new peaks.
    peaks: u64,
    /// By number of the allocating stack.
    stacks: Vec<StackTally>,
    /// What the whole pool held at each watched moment.
    saved: Vec<Saved>,
    /// What stacks held at them: one entry for each moment, stack by stack.
    saved_of_stacks: Vec<Saved>,
}

/// One stack's share.
#[derive(Clone, Copy, Default, Debug)]
struct StackTally {
    live: Held,
    at_peak: Saved,
    allocations: u64,
    allocated_bytes: u64,
    temporary_allocations: u64,
}

/// What blocks allocated by one stack hold, at the moment the report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackUsage {
    pub stack: StackId,
    pub bytes: u64,
    pub blocks: u64,
    /// Over the whole run: allocations by this stack and their bytes.
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Over the whole run: allocations freed by the very next event of the same thread.
    pub temporary_allocations: u64,
}

/// What a pool held at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    pub time: TimestampNs,
    pub total: Held,
    /// Stacks that held a block, most bytes first.
    pub stacks: Vec<StackUsage>,
}

impl UsageTally {
    /// Of the peaks and the end.
    pub fn new() -> UsageTally {
        UsageTally::default()
    }

    /// Of the peaks, the end, and these moments.
    pub fn at(points: &[PointInTime]) -> UsageTally {
        let mut watches: Vec<Watch> = Vec::new();
        for point in points.iter().filter(|point| !matches!(point, PointInTime::Peak | PointInTime::End)) {
            if watches.iter().all(|watch| watch.point != *point) {
                watches.push(Watch::new(*point));
            }
        }
        UsageTally { watches, ..UsageTally::default() }
    }

    /// Takes in the next event of the trace. Other moments than peak and end come only to those that are also shown the
    /// state, as a [`TraceSink`] is.
    pub fn feed(&mut self, event: &BlockEvent) {
        let temporary = !event.synthetic && self.is_temporary(event);
        let index = self.index(event.block.device, event.block.pool);
        let UsageTally { pools, watches, .. } = self;
        let tally = &mut pools[index];
        match event.action {
            Action::Malloc => tally.malloc(event, watches),
            Action::Free if event.matched => tally.free(event, temporary, watches),
            Action::Free => {}
        }
    }

    /// The pools that had an event, in the order of their first.
    pub fn pools(&self) -> impl ExactSizeIterator<Item = &PoolTally> {
        self.pools.iter()
    }

    pub fn pool(&self, device: Device, pool: Pool) -> Option<&PoolTally> {
        self.pools.iter().find(|tally| tally.device == device && tally.pool == pool)
    }

    /// What the pool held at that moment, one of those asked for; `None` if the moment never came, or the pool had no
    /// event.
    pub fn holdings(&self, device: Device, pool: Pool, point: PointInTime) -> Option<Holdings> {
        let tally = self.pool(device, pool)?;
        let live = Held { bytes: tally.live_bytes, blocks: tally.live_blocks };
        let all = usize::MAX;
        if point == PointInTime::Peak {
            let total = Held { bytes: tally.peak_bytes, blocks: tally.peak_blocks };
            return Some(Holdings { time: tally.peak_time, total, stacks: tally.top_at_peak(all) });
        }
        if point == PointInTime::End {
            return Some(Holdings { time: tally.last_time, total: live, stacks: tally.top_alive(all) });
        }
        let (index, watch) = self.watches.iter().enumerate().find(|(_, watch)| watch.point == point)?;
        Some(match watch.found()? {
            Found::AtTheEnd => Holdings { time: watch.time, total: live, stacks: tally.top_alive(all) },
            Found::Saved => {
                let saved = tally.saved.get(index).copied().unwrap_or_default();
                let stacks = tally.top(all, |stack, of_stack| {
                    let place = stack * self.watches.len() + index;
                    let saved = tally.saved_of_stacks.get(place).copied().unwrap_or_default();
                    saved.of(watch.taken, of_stack.live)
                });
                Holdings { time: watch.time, total: saved.of(watch.taken, live), stacks }
            }
        })
    }

    /// What was allocated in all, whether it was freed or not.
    pub fn allocated(&self, device: Device, pool: Pool) -> Option<Holdings> {
        let tally = self.pool(device, pool)?;
        let total = Held { bytes: tally.allocated_bytes, blocks: tally.allocations };
        let stacks = tally.top(usize::MAX, |_, stack| Held { bytes: stack.allocated_bytes, blocks: stack.allocations });
        Some(Holdings { time: tally.last_time, total, stacks })
    }

    /// Whether that moment, one of those asked for, came.
    pub fn has(&self, point: PointInTime) -> bool {
        matches!(point, PointInTime::Peak | PointInTime::End)
            || self.watches.iter().any(|watch| watch.point == point && watch.found().is_some())
    }

    /// Who held host memory when most of it was in use: at most `count` stacks, most bytes first.
    pub fn top_at_peak(&self, count: usize) -> Vec<StackUsage> {
        self.pool(Device::Cpu, Pool::Host).map(|tally| tally.top_at_peak(count)).unwrap_or_default()
    }

    /// Who holds host memory now: at most `count` stacks, most bytes first.
    pub fn top_alive(&self, count: usize) -> Vec<StackUsage> {
        self.pool(Device::Cpu, Pool::Host).map(|tally| tally.top_alive(count)).unwrap_or_default()
    }

    /// Whether the event frees what its thread allocated in the event before; remembers the event for the next.
    fn is_temporary(&mut self, event: &BlockEvent) -> bool {
        match event.action {
            Action::Malloc => {
                self.newest.insert(event.at.thread, event.block.id);
                false
            }
            Action::Free => self.newest.remove(&event.at.thread) == Some(event.block.id),
        }
    }

    fn index(&mut self, device: Device, pool: Pool) -> usize {
        let known = self.pools.iter().position(|tally| tally.device == device && tally.pool == pool);
        known.unwrap_or_else(|| {
            self.pools.push(PoolTally::new(device, pool, self.watches.len()));
            self.pools.len() - 1
        })
    }
}

impl TraceSink for UsageTally {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => {
                for watch in &mut self.watches {
                    watch.see(event, state);
                }
                self.untraced = state.untraced_after.is_some();
                if !state.is_untraced(event.block.id) {
                    self.feed(event);
                }
            }
            TraceEvent::Alive(event) if self.untraced => self.feed(event),
            TraceEvent::Note(note) => {
                for watch in &mut self.watches {
                    watch.see_moment(&note.at, state);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl PoolTally {
    fn new(device: Device, pool: Pool, watches: usize) -> PoolTally {
        PoolTally {
            device,
            pool,
            live_bytes: 0,
            live_blocks: 0,
            peak_bytes: 0,
            peak_blocks: 0,
            peak_time: TimestampNs::default(),
            last_time: TimestampNs::default(),
            allocations: 0,
            allocated_bytes: 0,
            temporary_allocations: 0,
            peaks: 0,
            stacks: Vec::new(),
            saved: vec![Saved::default(); watches],
            saved_of_stacks: Vec::new(),
        }
    }

    /// The stacks that held most at the peak, at most `count`.
    pub fn top_at_peak(&self, count: usize) -> Vec<StackUsage> {
        self.top(count, |_, tally| tally.at_peak.of(self.peaks, tally.live))
    }

    /// The stacks that hold most now, at most `count`.
    pub fn top_alive(&self, count: usize) -> Vec<StackUsage> {
        self.top(count, |_, tally| tally.live)
    }

    fn malloc(&mut self, event: &BlockEvent, watches: &[Watch]) {
        self.last_time = event.at.time;
        let tally = self.changing(event.block.made.stack, watches);
        tally.live.bytes += event.block.size;
        tally.live.blocks += 1;
        // What is left of a mapping after a partial unmapping was allocated long ago.
        if !event.synthetic {
            tally.allocations += 1;
            tally.allocated_bytes = tally.allocated_bytes.saturating_add(event.block.size);
            self.allocations += 1;
            self.allocated_bytes = self.allocated_bytes.saturating_add(event.block.size);
        }
        self.live_bytes += event.block.size;
        self.live_blocks += 1;
        // Blocks are followed all the time; what is shown is the time the user chose.
        if self.live_bytes > self.peak_bytes && event.selection == Selection::Chosen {
            self.peak_bytes = self.live_bytes;
            self.peak_blocks = self.live_blocks;
            self.peak_time = event.at.time;
            self.peaks += 1;
        }
    }

    fn free(&mut self, event: &BlockEvent, temporary: bool, watches: &[Watch]) {
        self.last_time = event.at.time;
        // Saturating: a caller that left out allocations gets figures that are too small, not ones that wrapped.
        let tally = self.changing(event.block.made.stack, watches);
        tally.live.bytes = tally.live.bytes.saturating_sub(event.block.size);
        tally.live.blocks = tally.live.blocks.saturating_sub(1);
        tally.temporary_allocations += u64::from(temporary);
        self.live_bytes = self.live_bytes.saturating_sub(event.block.size);
        self.live_blocks = self.live_blocks.saturating_sub(1);
        self.temporary_allocations += u64::from(temporary);
    }

    /// The stack's share, about to change.
    #[inline]
    fn changing(&mut self, stack: StackId, watches: &[Watch]) -> &mut StackTally {
        let index = stack.0 as usize;
        if index >= self.stacks.len() {
            self.stacks.resize(index + 1, StackTally::default());
            self.saved_of_stacks.resize((index + 1) * watches.len(), Saved::default());
        }
        let tally = &mut self.stacks[index];
        tally.at_peak.before_change(self.peaks, tally.live);
        if !watches.is_empty() {
            let whole = Held { bytes: self.live_bytes, blocks: self.live_blocks };
            let saved = &mut self.saved_of_stacks[index * watches.len()..][..watches.len()];
            for ((saved, saved_of_whole), watch) in saved.iter_mut().zip(&mut self.saved).zip(watches) {
                saved.before_change(watch.taken, tally.live);
                saved_of_whole.before_change(watch.taken, whole);
            }
        }
        tally
    }

    fn top(&self, count: usize, held: impl Fn(usize, &StackTally) -> Held) -> Vec<StackUsage> {
        let mut stacks: Vec<StackUsage> = self
            .stacks
            .iter()
            .enumerate()
            .map(|(stack, tally)| (stack as u32, tally, held(stack, tally)))
            .filter(|(_, _, held)| held.blocks > 0)
            .map(|(stack, tally, held)| StackUsage {
                stack: StackId(stack),
                bytes: held.bytes,
                blocks: held.blocks,
                allocations: tally.allocations,
                allocated_bytes: tally.allocated_bytes,
                temporary_allocations: tally.temporary_allocations,
            })
            .collect();
        stacks.sort_unstable_by_key(|usage| (Reverse(usage.bytes), Reverse(usage.blocks), usage.stack));
        stacks.truncate(count);
        stacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memscope_model::{Block, Moment, Origin, OwnerId};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A replay's events from steps: allocate (size, stack) or free one of the live blocks, by a thread.
    fn events(steps: &[(u32, bool, u64, u32)]) -> Vec<BlockEvent> {
        let mut live: Vec<BlockEvent> = Vec::new();
        let (mut total, mut blocks) = (0, 0);
        (0u64..)
            .zip(steps)
            .map(|(id, &(thread, free, number, stack))| {
                let freed = if free && !live.is_empty() {
                    // Mostly one of the newest, so that some are temporary.
                    let back = (number as usize % 3).min(live.len() - 1);
                    Some(live.remove(live.len() - 1 - back))
                } else {
                    None
                };
                let at = Moment {
                    event: id,
                    time: TimestampNs(1000 + id / 2),
                    thread,
                    stack: StackId(stack),
                    ..Moment::default()
                };
                let mut event = BlockEvent {
                    action: Action::Malloc,
                    block: Block {
                        id: BlockId(0),
                        device: Device::Cpu,
                        pool: Pool::Host,
                        origin: Origin::Heap,
                        address: 0x1000 + id * 16,
                        size: number,
                        made: at,
                        owner: OwnerId::NONE,
                    },
                    at,
                    used: 0,
                    reserved: None,
                    matched: true,
                    synthetic: false,
                    selection: Selection::Chosen,
                };
                match freed {
                    Some(malloc) => {
                        total -= malloc.block.size;
                        event = BlockEvent { at: Moment { stack: StackId::NONE, ..at }, ..malloc };
                        event.action = Action::Free;
                    }
                    None => {
                        blocks += 1;
                        total += number;
                        event.block.id = BlockId(blocks);
                        live.push(event);
                    }
                }
                event.used = total;
                event
            })
            .collect()
    }

    /// Bytes and blocks by stack after the first `count` events.
    fn held_after(events: &[BlockEvent], count: usize) -> BTreeMap<StackId, (u64, u64)> {
        let mut held: BTreeMap<StackId, (u64, u64)> = BTreeMap::new();
        for event in &events[..count] {
            let (bytes, blocks) = held.entry(event.block.made.stack).or_default();
            match event.action {
                Action::Malloc => (*bytes, *blocks) = (*bytes + event.block.size, *blocks + 1),
                Action::Free => (*bytes, *blocks) = (*bytes - event.block.size, *blocks - 1),
            }
        }
        held.retain(|_, (_, blocks)| *blocks > 0);
        held
    }

    fn by_stack(usage: &[StackUsage]) -> BTreeMap<StackId, (u64, u64)> {
        usage.iter().map(|usage| (usage.stack, (usage.bytes, usage.blocks))).collect()
    }

    #[test]
    fn the_peak_is_of_the_chosen_time() {
        let mut events = events(&[(1, false, 50, 1), (1, false, 30, 2), (1, true, 0, 0), (1, false, 10, 3)]);
        for event in &mut events[..3] {
            event.selection = Selection::NotChosen;
        }
        let mut usage = UsageTally::new();
        events.iter().for_each(|event| usage.feed(event));
        let tally = usage.pool(Device::Cpu, Pool::Host).unwrap();
        assert_eq!((tally.peak_bytes, tally.peak_time, tally.live_bytes), (60, events[3].at.time, 60));
    }

    proptest! {
        #[test]
        fn agrees_with_a_snapshot_at_every_peak(
            steps in proptest::collection::vec((0u32..3, any::<bool>(), 0u64..50, 0u32..6), 0..300),
        ) {
            let events = events(&steps);
            let mut usage = UsageTally::new();
            let (mut peak, mut peak_after, mut peak_time) = (0, 0, TimestampNs::default());
            for (index, event) in events.iter().enumerate() {
                usage.feed(event);
                if event.used > peak {
                    (peak, peak_after, peak_time) = (event.used, index + 1, event.at.time);
                }
            }
            let Some(tally) = usage.pool(Device::Cpu, Pool::Host) else {
                prop_assert!(events.is_empty());
                return Ok(());
            };
            prop_assert_eq!((tally.peak_bytes, tally.peak_time), (peak, peak_time));
            // Without any byte there is no peak: nothing is held at it.
            let at_peak = held_after(&events, peak_after);
            if peak > 0 {
                prop_assert_eq!(by_stack(&usage.top_at_peak(usize::MAX)), at_peak.clone());
                prop_assert_eq!(tally.peak_blocks, at_peak.values().map(|held| held.1).sum::<u64>());
            } else {
                prop_assert_eq!(usage.top_at_peak(usize::MAX), []);
            }
            let alive = held_after(&events, events.len());
            let top = usage.top_alive(usize::MAX);
            prop_assert!(top.is_sorted_by_key(|usage| Reverse(usage.bytes)));
            prop_assert_eq!(by_stack(&top), alive);
            prop_assert_eq!(usage.top_alive(2), &top[..top.len().min(2)]);
            prop_assert_eq!(tally.live_bytes, events.last().map_or(0, |event| event.used));

            let mallocs: Vec<_> = events.iter().filter(|event| event.action == Action::Malloc).collect();
            prop_assert_eq!(tally.allocations, mallocs.len() as u64);
            prop_assert_eq!(tally.allocated_bytes, mallocs.iter().map(|event| event.block.size).sum::<u64>());
            let allocated = usage.allocated(Device::Cpu, Pool::Host).unwrap();
            prop_assert_eq!(allocated.total, Held { bytes: tally.allocated_bytes, blocks: tally.allocations });
            prop_assert_eq!(allocated.stacks.iter().map(|stack| stack.bytes).sum::<u64>(), tally.allocated_bytes);
            let temporary = events.iter().enumerate().filter(|(index, event)| {
                let before = events[..*index].iter().rev().find(|other| other.at.thread == event.at.thread);
                event.action == Action::Free
                    && before.is_some_and(|other| other.action == Action::Malloc && other.block.id == event.block.id)
            });
            prop_assert_eq!(tally.temporary_allocations, temporary.count() as u64);
        }
    }

    #[test]
    fn what_a_partial_unmapping_left_is_held_but_was_not_allocated_again() {
        let whole = events(&[(1, false, 100, 7)])[0];
        let free = BlockEvent { action: Action::Free, used: 0, ..whole };
        let block = Block { id: BlockId(2), size: 60, ..whole.block };
        let rest = BlockEvent { block, used: 60, synthetic: true, ..whole };
        let mut usage = UsageTally::new();
        for event in [whole, free, rest] {
            usage.feed(&event);
        }
        let top = usage.top_alive(10);
        assert_eq!((top.len(), top[0].bytes, top[0].blocks), (1, 60, 1));
        assert_eq!((top[0].allocations, top[0].allocated_bytes), (1, 100));
        assert_eq!(usage.top_at_peak(1)[0].bytes, 100);
    }

    #[test]
    fn a_free_that_is_not_matched_changes_nothing() {
        let malloc = events(&[(1, false, 100, 7)])[0];
        let block = Block { id: BlockId(9), size: 0, ..malloc.block };
        let stray = BlockEvent { action: Action::Free, block, matched: false, ..malloc };
        let mut usage = UsageTally::new();
        usage.feed(&malloc);
        let before = usage.top_alive(1);
        usage.feed(&stray);
        assert_eq!(usage.top_alive(1), before);
    }
}

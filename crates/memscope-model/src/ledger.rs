//! Books for traces that are not read from a spool: whoever reads a file says what happened, in the order of time, and the
//! ledger keeps account and gives the events to the sinks.
use crate::outcome::{PoolUsage, lowest_pool};
use crate::refusals::KEPT_REFUSALS;
use crate::state;
use crate::trace::Fan;
use crate::{
    AccessedBlock, Action, Block, BlockEvent, BlockId, Damage, DevAddr, Device, HostAddr, KernelPhase, Moment, Names,
    NoteEvent, NoteKind, Origin, OutOfMemory, Outcome, OwnerId, Owners, Pool, RefusedCall, Selection, StackId, Stacks,
    State, Steps, TimestampNs, TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The circumstances of what happened, as a file tells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Circumstances {
    pub time: TimestampNs,
    pub thread: u32,
    pub stack: StackId,
}

/// A block that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewBlock {
    /// Its number, where the file has one.
    pub id: Option<BlockId>,
    pub device: Device,
    pub pool: Pool,
    pub origin: Origin,
    pub address: u64,
    pub size: u64,
    pub owner: OwnerId,
    /// Not a call of the program: see [`BlockEvent::synthetic`].
    pub synthetic: bool,
}

/// A block that ends: by its number, or else by where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldBlock {
    pub id: Option<BlockId>,
    pub device: Device,
    pub pool: Pool,
    pub address: u64,
    pub synthetic: bool,
}

/// Where a block is. Handles of the driver are no addresses, and have a numbering of their own.
type BlockKey = (Device, Pool, Numbering, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Numbering {
    Addresses,
    Handles,
}

fn key_of(device: Device, pool: Pool, origin: Origin, address: u64) -> BlockKey {
    let numbering = match origin {
        Origin::DriverHandle(_) => Numbering::Handles,
        _ => Numbering::Addresses,
    };
    (device, pool, numbering, address)
}

/// The account of one process.
#[derive(Debug, Default)]
pub struct Ledger {
    pub stacks: Stacks,
    pub names: Names,
    pub owners: Owners,
    /// What could not be read.
    pub damage: Vec<Damage>,
    steps: Steps,
    /// Before `start` or after `stop`: of what happens then, files tell only frees.
    stopped: bool,
    books: LedgerBooks,
    ids: u64,
    blocks: u64,
    of_heap: Share,
    of_mappings: Share,
    outcome: Outcome,
}

/// What one kind of block holds of the host's memory.
#[derive(Clone, Copy, Default, Debug)]
struct Share {
    allocations: u64,
    bytes: u64,
    peak_bytes: u64,
}

#[derive(Debug, Default)]
struct LedgerBooks {
    live: FxHashMap<BlockId, Block>,
    /// Blocks of devices, in order, so that the block around an address is near it.
    on_devices: BTreeMap<BlockKey, BlockId>,
    /// Blocks of the host that came without a number.
    on_host: FxHashMap<BlockKey, BlockId>,
    /// Blocks of the heap by address, from the first storage of a tensor in it on: without one nobody asks.
    heap: Option<FxHashMap<u64, BlockId>>,
    pools: Vec<PoolUsage>,
    /// Where each is: a made-up file may name thousands of devices.
    pool_places: FxHashMap<(Device, Pool), usize>,
    last_pool: usize,
}

impl LedgerBooks {
    fn pool(&mut self, device: Device, pool: Pool) -> &mut PoolUsage {
        let LedgerBooks { pools, pool_places, last_pool, .. } = self;
        let is_last = pools.get(*last_pool).is_some_and(|usage| (usage.device, usage.pool) == (device, pool));
        if !is_last {
            *last_pool = *pool_places.entry((device, pool)).or_insert_with(|| {
                pools.push(PoolUsage::new(device, pool));
                pools.len() - 1
            });
        }
        &mut pools[*last_pool]
    }

    fn insert(&mut self, block: Block, numbered: bool) {
        let key = key_of(block.device, block.pool, block.origin, block.address);
        if is_of_host(block.pool) {
            if !numbered {
                self.on_host.insert(key, block.id);
            }
            if let Some(heap) = self.heap.as_mut().filter(|_| block.origin == Origin::Heap) {
                heap.insert(block.address, block.id);
            }
        } else {
            self.on_devices.insert(key, block.id);
            if block.device == Device::Cpu && self.heap.is_none() {
                let of_heap = self.live.values().filter(|block| block.origin == Origin::Heap);
                self.heap = Some(of_heap.map(|block| (block.address, block.id)).collect());
            }
        }
        self.live.insert(block.id, block);
    }

    fn remove(&mut self, id: BlockId) -> Option<Block> {
        let block = self.live.remove(&id)?;
        let key = key_of(block.device, block.pool, block.origin, block.address);
        if is_of_host(block.pool) {
            if !self.on_host.is_empty() && self.on_host.get(&key) == Some(&id) {
                self.on_host.remove(&key);
            }
            if let Some(heap) = self.heap.as_mut().filter(|heap| heap.get(&block.address) == Some(&id)) {
                heap.remove(&block.address);
            }
        } else if self.on_devices.get(&key) == Some(&id) {
            self.on_devices.remove(&key);
        }
        Some(block)
    }

    /// The block at an address, of those that came without a number where it is the host's.
    fn at(&self, key: BlockKey) -> Option<BlockId> {
        let found = if is_of_host(key.1) { self.on_host.get(&key) } else { self.on_devices.get(&key) };
        found.copied()
    }
}

fn is_of_host(pool: Pool) -> bool {
    matches!(pool, Pool::Host | Pool::Pinned)
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// A block begins. One that is still there under the same number ends first; so does one at the same address if the
    /// new one has no number. Numbered blocks end by their number alone.
    pub fn malloc(&mut self, now: Circumstances, new: NewBlock, sinks: &mut [&mut dyn TraceSink]) -> ControlFlow<()> {
        let NewBlock { device, pool, origin, address, size, owner, synthetic, .. } = new;
        if !self.books.pool(device, pool).fits(size) {
            self.outcome.implausible_events += 1;
            return ControlFlow::Continue(());
        }
        let old = match new.id {
            Some(id) => self.books.remove(id),
            None => self.books.at(key_of(device, pool, origin, address)).and_then(|id| self.books.remove(id)),
        };
        if let Some(old) = old {
            self.outcome.replaced_blocks += 1;
            self.emit_free(Circumstances { stack: StackId::NONE, ..now }, old, true, true, sinks)?;
        }
        self.blocks = new.id.map_or(self.blocks + 1, |id| self.blocks.max(id.0));
        let at = self.moment(now);
        let id = new.id.unwrap_or(BlockId(self.blocks));
        let block = Block { id, device, pool, origin, address, size, made: at, owner };
        self.books.insert(block, new.id.is_some());
        self.books.pool(device, pool).add(size, at.time);
        if let Some(share) = self.share(&block) {
            share.allocations += 1;
            share.bytes += size;
            share.peak_bytes = share.peak_bytes.max(share.bytes);
        }
        self.outcome.mallocs += 1;
        self.emit(Action::Malloc, block, at, true, synthetic, sinks)
    }

    /// A block ends. One that is not known gives a free that is not matched.
    pub fn free(&mut self, now: Circumstances, old: OldBlock, sinks: &mut [&mut dyn TraceSink]) -> ControlFlow<()> {
        let OldBlock { id, device, pool, address, synthetic } = old;
        // The end of a block does not say whether it is known by a handle.
        let by_place = || {
            let numberings = [Numbering::Addresses, Numbering::Handles];
            numberings.into_iter().find_map(|numbering| self.books.at((device, pool, numbering, address)))
        };
        let known = id.or_else(by_place);
        match known.and_then(|id| self.books.remove(id)) {
            Some(block) => self.emit_free(now, block, true, synthetic, sinks),
            None => {
                self.outcome.unmatched_frees += 1;
                self.blocks = id.map_or(self.blocks + 1, |id| self.blocks.max(id.0));
                let id = id.unwrap_or(BlockId(self.blocks));
                let origin = if pool == Pool::Host { Origin::Heap } else { Origin::Region };
                let made = Moment::default();
                let block = Block { id, device, pool, origin, address, size: 0, made, owner: OwnerId::NONE };
                self.emit_free(now, block, false, synthetic, sinks)
            }
        }
    }

    /// A live block, by its number.
    pub fn block(&self, id: BlockId) -> Option<&Block> {
        self.books.live.get(&id)
    }

    fn share(&mut self, block: &Block) -> Option<&mut Share> {
        match block.origin {
            Origin::Heap => Some(&mut self.of_heap),
            Origin::Mapping => Some(&mut self.of_mappings),
            _ => None,
        }
    }

    /// What a pool has reserved from now on.
    pub fn reserve(&mut self, device: Device, pool: Pool, bytes: u64) {
        let usage = self.books.pool(device, pool);
        usage.reserved_bytes = Some(bytes);
        usage.peak_reserved_bytes = usage.peak_reserved_bytes.max(Some(bytes));
    }

    /// Something that is not about a block.
    pub fn note(
        &mut self,
        now: Circumstances,
        device: Device,
        kind: NoteKind<'_>,
        sinks: &mut [&mut dyn TraceSink],
    ) -> ControlFlow<()> {
        match kind {
            NoteKind::RangeStart { id, text } => self.steps.range_start(id, text),
            // Neither is within what it bounds.
            NoteKind::StartTrace | NoteKind::StopTrace => self.stopped = true,
            NoteKind::OutOfMemory { call, size, .. } => self.refuse(now, device, call, size),
            NoteKind::Kernel { phase, name, task, .. } => {
                let counts = &mut self.outcome.kernels;
                match phase {
                    KernelPhase::Launch => {
                        counts.launches += 1;
                        counts.launches_without_task += u64::from(task.is_none());
                        counts.launches_without_name += u64::from(task.is_some() && name.is_none());
                    }
                    KernelPhase::ExecuteStart => {}
                    KernelPhase::ExecuteEnd => counts.executions += 1,
                }
            }
            _ => {}
        }
        let note = NoteEvent { at: self.moment(now), device, kind, chosen: true };
        self.outcome.notes += 1;
        self.see(now.time);
        let flow = Fan(sinks).event(&TraceEvent::Note(&note), &self.state());
        match kind {
            NoteKind::RangeEnd { id, .. } => self.steps.range_end(id),
            NoteKind::Step(_) => self.steps.mark(),
            NoteKind::StartTrace => self.stopped = false,
            _ => {}
        }
        flow
    }

    fn refuse(&mut self, now: Circumstances, device: Device, call: RefusedCall, size: u64) {
        self.outcome.refusals += 1;
        if self.outcome.out_of_memory.len() < KEPT_REFUSALS {
            let lowest = state::Books::pool(&self.books, device, lowest_pool(device));
            self.outcome.out_of_memory.push(OutOfMemory {
                time: now.time,
                thread: now.thread,
                device,
                call,
                size,
                stack: now.stack,
                used_bytes: lowest.map_or(0, |usage| usage.live_bytes),
            });
        }
    }

    /// A sink broke off.
    pub fn interrupt(&mut self) {
        self.outcome.interrupted = true;
    }

    /// What all events so far come to.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        outcome.heap_allocations = self.of_heap.allocations;
        outcome.peak_heap_bytes = self.of_heap.peak_bytes;
        outcome.peak_mapped_bytes = self.of_mappings.peak_bytes;
        outcome.pools = state::Books::pools(&self.books);
        outcome.live = self.state().live_blocks();
        outcome.steps = self.steps.clone();
        outcome.names = self.names.clone();
        outcome.owners = self.owners.clone();
        outcome.damage = self.damage.clone();
        outcome
    }

    pub fn state(&self) -> State<'_> {
        State {
            stacks: &self.stacks,
            names: &self.names,
            owners: &self.owners,
            steps: &self.steps,
            chosen: !self.stopped,
            untraced_after: None,
            books: &self.books,
        }
    }

    fn moment(&mut self, now: Circumstances) -> Moment {
        let Circumstances { time, thread, stack } = now;
        self.ids += 1;
        Moment { event: self.ids - 1, time, thread, stack, step: self.steps.current() }
    }

    fn emit_free(
        &mut self,
        now: Circumstances,
        block: Block,
        matched: bool,
        synthetic: bool,
        sinks: &mut [&mut dyn TraceSink],
    ) -> ControlFlow<()> {
        let usage = self.books.pool(block.device, block.pool);
        if matched {
            usage.remove(block.size);
            if let Some(share) = self.share(&block) {
                share.bytes -= block.size;
            }
        }
        self.outcome.frees += 1;
        let at = self.moment(now);
        self.emit(Action::Free, block, at, matched, synthetic, sinks)
    }

    fn emit(
        &mut self,
        action: Action,
        block: Block,
        at: Moment,
        matched: bool,
        synthetic: bool,
        sinks: &mut [&mut dyn TraceSink],
    ) -> ControlFlow<()> {
        let PoolUsage { live_bytes: used, reserved_bytes: reserved, .. } = *self.books.pool(block.device, block.pool);
        self.outcome.events += 1;
        self.outcome.chosen_events += 1;
        self.see(at.time);
        let event = BlockEvent { action, block, at, used, reserved, matched, synthetic, selection: Selection::Chosen };
        Fan(sinks).event(&TraceEvent::Memory(&event), &self.state())
    }

    fn see(&mut self, time: TimestampNs) {
        if self.outcome.events + self.outcome.notes == 1 {
            self.outcome.first_time = time;
        }
        self.outcome.last_time = time;
    }
}

impl state::Books for LedgerBooks {
    fn for_each_live(&self, visit: &mut dyn FnMut(&Block)) {
        self.live.values().for_each(visit);
    }

    fn pools(&self) -> Vec<PoolUsage> {
        let mut pools = self.pools.clone();
        pools.sort_unstable_by_key(|usage| (usage.device, usage.pool));
        pools
    }

    fn pool(&self, device: Device, pool: Pool) -> Option<PoolUsage> {
        self.pool_places.get(&(device, pool)).map(|place| self.pools[*place])
    }

    fn around(&self, device: Device, address: DevAddr) -> Option<AccessedBlock> {
        const ADDRESSED: [Pool; 5] = [Pool::Hal, Pool::PtaCaching, Pool::PtaWorkspace, Pool::Atb, Pool::MindSpore];
        let devices: Vec<Device> = match device {
            Device::Unknown => self.pools.iter().map(|usage| usage.device).collect(),
            device => vec![device],
        };
        let places = devices.iter().flat_map(|device| ADDRESSED.map(|pool| (*device, pool)));
        let near = |(device, pool): (Device, Pool)| {
            let first = (device, pool, Numbering::Addresses, 0);
            let before = self.on_devices.range(first..=(device, pool, Numbering::Addresses, address.0)).rev().take(16);
            let blocks = before.filter_map(|(_, id)| self.live.get(id));
            blocks.filter(|block| address.0 - block.address < block.size).min_by_key(|block| block.size)
        };
        let block = places.filter_map(near).min_by_key(|block| block.size)?;
        Some(AccessedBlock { block: block.id, address: DevAddr(block.address), device: block.device })
    }

    fn of_heap_at(&self, address: HostAddr) -> Option<Block> {
        let id = self.heap.as_ref()?.get(&address.0)?;
        self.live.get(id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(id: Option<u64>, address: u64, size: u64) -> NewBlock {
        NewBlock {
            id: id.map(BlockId),
            device: Device::Npu(1),
            pool: Pool::PtaCaching,
            origin: Origin::Region,
            address,
            size,
            owner: OwnerId::NONE,
            synthetic: false,
        }
    }

    fn end(id: Option<u64>, address: u64) -> OldBlock {
        let NewBlock { device, pool, .. } = block(None, 0, 0);
        OldBlock { id: id.map(BlockId), device, pool, address, synthetic: false }
    }

    fn at(time: u64) -> Circumstances {
        Circumstances { time: TimestampNs(time), thread: 7, stack: StackId::NONE }
    }

    #[test]
    fn blocks_are_paired_by_number_or_else_by_place() {
        let mut ledger = Ledger::new();
        let mut told = Vec::new();
        let mut keep = |event: &TraceEvent<'_>, _: &State<'_>| {
            if let TraceEvent::Memory(event) = event {
                told.push((event.action, event.block.id.0, event.used, event.matched));
            }
            ControlFlow::Continue(())
        };
        let sinks: &mut [&mut dyn TraceSink] = &mut [&mut keep];
        assert!(ledger.malloc(at(1), block(Some(5), 0x100, 10), sinks).is_continue());
        assert!(ledger.malloc(at(2), block(None, 0x200, 20), sinks).is_continue());
        assert!(ledger.free(at(3), end(Some(5), 0), sinks).is_continue());
        assert!(ledger.free(at(4), end(None, 0x200), sinks).is_continue());
        assert!(ledger.free(at(5), end(None, 0x200), sinks).is_continue());
        let (malloc, free) = (Action::Malloc, Action::Free);
        assert_eq!(
            told,
            [
                (malloc, 5, 10, true),
                (malloc, 6, 30, true),
                (free, 5, 20, true),
                (free, 6, 0, true),
                (free, 7, 0, false),
            ]
        );
        let outcome = ledger.outcome();
        assert_eq!((outcome.mallocs, outcome.frees, outcome.unmatched_frees), (2, 3, 1));
        assert_eq!((outcome.pools[0].peak_bytes, outcome.pools[0].peak_time), (30, TimestampNs(2)));
        assert_eq!((outcome.first_time, outcome.last_time), (TimestampNs(1), TimestampNs(5)));
    }

    #[test]
    fn a_block_at_the_place_of_another_ends_it_unless_numbers_tell_them_apart() {
        let mut ledger = Ledger::new();
        assert!(ledger.malloc(at(1), block(None, 0x100, 10), &mut []).is_continue());
        assert!(ledger.malloc(at(2), block(None, 0x100, 20), &mut []).is_continue());
        assert!(ledger.malloc(at(3), block(Some(2), 0x100, 30), &mut []).is_continue());
        let outcome = ledger.outcome();
        assert_eq!((outcome.replaced_blocks, outcome.pools[0].live_bytes), (2, 30));
        assert!(ledger.malloc(at(4), block(Some(3), 0x100, 5), &mut []).is_continue());
        assert!(ledger.free(at(5), end(Some(3), 0x100), &mut []).is_continue());
        let outcome = ledger.outcome();
        assert_eq!((outcome.replaced_blocks, outcome.pools[0].live_bytes), (2, 30));
        assert!(ledger.malloc(at(6), block(Some(2), 0x100, 30), &mut []).is_continue());
        let around = ledger.state().around(Device::Unknown, DevAddr(0x110)).expect("inside");
        assert_eq!((around.block, around.address), (BlockId(2), DevAddr(0x100)));
        assert_eq!(ledger.state().around(Device::Npu(1), DevAddr(0x11e)), None);
    }

    #[test]
    fn a_step_has_the_blocks_between_its_marks() {
        let mut ledger = Ledger::new();
        assert!(ledger.malloc(at(1), block(None, 0x100, 10), &mut []).is_continue());
        assert!(ledger.note(at(2), Device::Npu(1), NoteKind::Step(1), &mut []).is_continue());
        assert!(ledger.malloc(at(3), block(None, 0x200, 10), &mut []).is_continue());
        let outcome = ledger.outcome();
        let steps: Vec<_> = outcome.live_blocks().map(|block| outcome.steps.number(block.made.step)).collect();
        assert_eq!(steps, [Some(1), Some(2)]);
    }

    #[test]
    fn the_chosen_time_is_between_start_and_stop() {
        let mut ledger = Ledger::new();
        let mut told = Vec::new();
        let mut keep = |_: &TraceEvent<'_>, state: &State<'_>| {
            told.push(state.chosen);
            ControlFlow::Continue(())
        };
        let sinks: &mut [&mut dyn TraceSink] = &mut [&mut keep];
        assert!(ledger.malloc(at(1), block(None, 0x100, 10), sinks).is_continue());
        for (time, kind) in [(2, NoteKind::StopTrace), (3, NoteKind::AclInit), (4, NoteKind::StartTrace)] {
            assert!(ledger.note(at(time), Device::Npu(1), kind, sinks).is_continue());
        }
        assert!(ledger.free(at(5), end(None, 0x100), sinks).is_continue());
        assert_eq!(told, [true, false, false, false, true]);
    }
}

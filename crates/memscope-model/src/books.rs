//! Which blocks are alive, and what that sums up to.
use crate::{Action, BlockId, Device, LiveBlock, MemoryEvent, Origin, Pool, PoolUsage, StackId};
use memscope_format::decode::EventKind;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The circumstances of a recorded event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) time_ns: u64,
    pub(crate) thread: u32,
    pub(crate) stack: StackId,
}

/// A block that is alive, found by its address.
#[derive(Clone, Copy, Debug)]
struct Live {
    block: BlockId,
    size: u64,
    time_ns: u64,
    thread: u32,
    stack: StackId,
}

/// Turns recorded events into memory events. Each change of the books is followed by its one event, so that a visitor
/// that breaks off leaves books that agree with what it was given.
#[derive(Debug)]
pub(crate) struct Books {
    /// Heap blocks by address.
    heap: FxHashMap<u64, Live>,
    /// Mappings by start; they never overlap.
    mappings: BTreeMap<u64, Live>,
    host: PoolUsage,
    blocks: u64,
    pub(crate) mallocs: u64,
    pub(crate) frees: u64,
    pub(crate) unmatched_frees: u64,
    pub(crate) replaced_blocks: u64,
    pub(crate) unknown_unmaps: u64,
    pub(crate) implausible_events: u64,
}

/// More is alive than any consumer's signed integer can hold: no such program was ever recorded.
const MOST_BYTES: u64 = i64::MAX as u64;

/// The kernel unmaps whole pages. Pages may be larger than this, but never smaller.
const SMALLEST_PAGE: u64 = 4096;

impl Books {
    pub(crate) fn new() -> Books {
        Books {
            heap: FxHashMap::default(),
            mappings: BTreeMap::new(),
            host: PoolUsage {
                device: Device::Cpu,
                pool: Pool::Host,
                live_bytes: 0,
                live_blocks: 0,
                peak_bytes: 0,
                peak_time_ns: 0,
                allocated_bytes: 0,
                freed_bytes: 0,
            },
            blocks: 0,
            mallocs: 0,
            frees: 0,
            unmatched_frees: 0,
            replaced_blocks: 0,
            unknown_unmaps: 0,
            implausible_events: 0,
        }
    }

    /// Books one recorded event and gives the memory events it means to `emit`.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        now: Moment,
        kind: EventKind,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match kind {
            EventKind::HostAlloc { address, size } => self.alloc(now, address, size, emit),
            EventKind::HostFree { address } => self.free(now, address, emit),
            EventKind::HostMap { address, size } => self.map(now, address, size, emit),
            EventKind::HostUnmap { address, size } => match page_range(address, size) {
                Some((start, end)) => {
                    if self.unmap(now, start, end, false, emit)? == 0 {
                        self.unknown_unmaps += 1;
                    }
                    ControlFlow::Continue(())
                }
                None => self.implausible(),
            },
            EventKind::HostRemap { old, old_size, new, new_size } => {
                self.remap(now, (old, old_size), (new, new_size), emit)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.mallocs + self.frees
    }

    /// The pools that had an event.
    pub(crate) fn pools(&self) -> Vec<PoolUsage> {
        if self.events() == 0 { Vec::new() } else { vec![self.host] }
    }

    /// All blocks that are alive, in the order in which they appeared.
    pub(crate) fn into_live(self) -> Vec<LiveBlock> {
        let block = |origin: Origin, address: u64, live: Live| LiveBlock {
            block: live.block,
            device: Device::Cpu,
            pool: Pool::Host,
            origin,
            address,
            size: live.size,
            time_ns: live.time_ns,
            thread: live.thread,
            stack: live.stack,
        };
        let heap = self.heap.into_iter().map(|(address, live)| block(Origin::Heap, address, live));
        let mappings = self.mappings.into_iter().map(|(address, live)| block(Origin::Mapping, address, live));
        let mut blocks: Vec<LiveBlock> = heap.chain(mappings).collect();
        blocks.sort_unstable_by_key(|block| block.block);
        blocks
    }

    fn alloc(
        &mut self,
        now: Moment,
        address: u64,
        size: u64,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.fits(size) {
            return self.implausible();
        }
        let live = self.begin(now, size);
        if let Some(old) = self.heap.insert(address, live) {
            self.replaced_blocks += 1;
            // Nobody saw the call that freed it.
            let unseen = Moment { stack: StackId::NONE, ..now };
            if self.emit_free(unseen, Origin::Heap, address, old, true, emit).is_break() {
                self.heap.remove(&address);
                return ControlFlow::Break(());
            }
        }
        self.emit_malloc(now, Origin::Heap, address, live, false, emit)
    }

    fn free(
        &mut self,
        now: Moment,
        address: u64,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.heap.remove(&address) {
            Some(live) => self.emit_free(now, Origin::Heap, address, live, false, emit),
            None => self.emit_unmatched(now, address, emit),
        }
    }

    fn map(
        &mut self,
        now: Moment,
        address: u64,
        size: u64,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size).filter(|_| self.fits(size)) else {
            return self.implausible();
        };
        self.unmap(now, start, end, true, emit)?;
        let live = self.begin(now, size);
        self.mappings.insert(address, live);
        self.emit_malloc(now, Origin::Mapping, address, live, false, emit)
    }

    /// A mapping moved. One that is not in the books is a file's and stays out of them.
    fn remap(
        &mut self,
        now: Moment,
        (old, old_size): (u64, u64),
        (new, new_size): (u64, u64),
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(old, old_size) else { return self.implausible() };
        if self.unmap(now, start, end, false, emit)? == 0 {
            self.unknown_unmaps += 1;
            return ControlFlow::Continue(());
        }
        self.map(now, new, new_size, emit)
    }

    /// Ends every mapping that reaches into `start..end`; what lies outside becomes new blocks. Returns how many ended.
    fn unmap(
        &mut self,
        now: Moment,
        start: u64,
        end: u64,
        synthetic: bool,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<(), usize> {
        let mut ended = 0;
        // Pieces lie outside the range, so that each round finds a mapping not yet looked at.
        while let Some((address, live)) = self.mapping_in(start, end) {
            self.mappings.remove(&address);
            ended += 1;
            self.emit_free(now, Origin::Mapping, address, live, synthetic, emit)?;
            // `map` accepted the mapping, so its end is an address.
            let mapping_end = address + live.size;
            for (piece_start, piece_end) in [(address, start), (end, mapping_end)] {
                if piece_start < piece_end {
                    self.blocks += 1;
                    let piece = Live { block: BlockId(self.blocks), size: piece_end - piece_start, ..live };
                    self.mappings.insert(piece_start, piece);
                    let origin = Moment { time_ns: now.time_ns, thread: live.thread, stack: live.stack };
                    self.emit_malloc(origin, Origin::Mapping, piece_start, piece, true, emit)?;
                }
            }
        }
        ControlFlow::Continue(ended)
    }

    /// A mapping that reaches into `start..end`.
    fn mapping_in(&self, start: u64, end: u64) -> Option<(u64, Live)> {
        let (address, live) = self.mappings.range(..end).next_back()?;
        (address + live.size > start).then_some((*address, *live))
    }

    fn begin(&mut self, now: Moment, size: u64) -> Live {
        self.blocks += 1;
        Live { block: BlockId(self.blocks), size, time_ns: now.time_ns, thread: now.thread, stack: now.stack }
    }

    fn fits(&self, size: u64) -> bool {
        self.host.live_bytes.checked_add(size).is_some_and(|total| total <= MOST_BYTES)
    }

    fn implausible(&mut self) -> ControlFlow<()> {
        self.implausible_events += 1;
        ControlFlow::Continue(())
    }

    fn emit_malloc(
        &mut self,
        now: Moment,
        origin: Origin,
        address: u64,
        live: Live,
        synthetic: bool,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let event = MemoryEvent {
            id: self.events(),
            time_ns: now.time_ns,
            thread: now.thread,
            device: Device::Cpu,
            pool: Pool::Host,
            action: Action::Malloc,
            origin,
            address,
            size: live.size,
            block: live.block,
            stack: live.stack,
            allocation_stack: live.stack,
            total: self.host.live_bytes + live.size,
            matched: true,
            synthetic,
        };
        self.mallocs += 1;
        let host = &mut self.host;
        host.live_bytes = event.total;
        host.live_blocks += 1;
        host.allocated_bytes = host.allocated_bytes.wrapping_add(live.size);
        if host.live_bytes > host.peak_bytes {
            host.peak_bytes = host.live_bytes;
            host.peak_time_ns = now.time_ns;
        }
        emit(&event)
    }

    fn emit_free(
        &mut self,
        now: Moment,
        origin: Origin,
        address: u64,
        live: Live,
        synthetic: bool,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let event = MemoryEvent {
            id: self.events(),
            time_ns: now.time_ns,
            thread: now.thread,
            device: Device::Cpu,
            pool: Pool::Host,
            action: Action::Free,
            origin,
            address,
            size: live.size,
            block: live.block,
            stack: now.stack,
            allocation_stack: live.stack,
            total: self.host.live_bytes - live.size,
            matched: true,
            synthetic,
        };
        self.frees += 1;
        let host = &mut self.host;
        host.live_bytes = event.total;
        host.live_blocks -= 1;
        host.freed_bytes = host.freed_bytes.wrapping_add(live.size);
        emit(&event)
    }

    fn emit_unmatched(
        &mut self,
        now: Moment,
        address: u64,
        emit: &mut impl FnMut(&MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.blocks += 1;
        let event = MemoryEvent {
            id: self.events(),
            time_ns: now.time_ns,
            thread: now.thread,
            device: Device::Cpu,
            pool: Pool::Host,
            action: Action::Free,
            origin: Origin::Heap,
            address,
            size: 0,
            block: BlockId(self.blocks),
            stack: now.stack,
            allocation_stack: StackId::NONE,
            total: self.host.live_bytes,
            matched: false,
            synthetic: false,
        };
        self.frees += 1;
        self.unmatched_frees += 1;
        emit(&event)
    }
}

/// The addresses a mapping call touches; `None` if no call can.
fn page_range(address: u64, size: u64) -> Option<(u64, u64)> {
    let end = address.checked_add(size)?.checked_next_multiple_of(SMALLEST_PAGE)?;
    (size > 0).then_some((address, end))
}

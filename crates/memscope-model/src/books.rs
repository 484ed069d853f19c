//! Which blocks are alive, and what that sums up to.
use crate::address_ranges::AddressRanges;
use crate::device_books::DeviceBooks;
use crate::{Action, BlockId, Device, LiveBlock, MemoryEvent, Origin, Pool, PoolUsage, Selection, StackId};
use memscope_format::decode::EventKind;
use memscope_format::record::Protection;
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
    /// The newest free of an address, for some addresses.
    last_frees: [LastFree; LAST_FREES],
    /// Usable mappings by start; they never overlap.
    mappings: BTreeMap<u64, Live>,
    /// Anonymous mappings without access: address space, not memory. Has nothing in common with `mappings`.
    pub(crate) reserved: AddressRanges,
    host: PoolUsage,
    host_events: bool,
    /// Its two parts.
    pub(crate) of_heap: Share,
    pub(crate) of_mappings: Share,
    pub(crate) devices: DeviceBooks,
    pub(crate) counts: Counts,
}

/// Numbers that run through the books of all pools.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    /// Events of all kinds so far: the id of the next.
    pub(crate) ids: u64,
    /// Blocks so far: the number of the newest.
    pub(crate) blocks: u64,
    pub(crate) mallocs: u64,
    pub(crate) frees: u64,
    pub(crate) unmatched_frees: u64,
    pub(crate) replaced_blocks: u64,
    pub(crate) unknown_unmaps: u64,
    pub(crate) implausible_events: u64,
}

impl Counts {
    #[inline]
    pub(crate) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids - 1
    }

    #[inline]
    pub(crate) fn next_block(&mut self) -> BlockId {
        self.blocks += 1;
        BlockId(self.blocks)
    }

    pub(crate) fn implausible(&mut self) -> ControlFlow<()> {
        self.implausible_events += 1;
        ControlFlow::Continue(())
    }
}

/// What one kind of block holds of the host's memory.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Share {
    pub(crate) allocations: u64,
    bytes: u64,
    pub(crate) peak_bytes: u64,
}

/// Frees remembered, each at a place given by its address.
const LAST_FREES: usize = 1024;

#[derive(Clone, Copy, Default, Debug)]
struct LastFree {
    address: u64,
    time_ns: u64,
    thread: u32,
}

fn freed_place(address: u64) -> usize {
    (address >> 4) as usize % LAST_FREES
}

/// The kernel unmaps whole pages. Pages may be larger than this, but never smaller.
const SMALLEST_PAGE: u64 = 4096;

impl Books {
    pub(crate) fn new() -> Books {
        Books {
            heap: FxHashMap::default(),
            last_frees: [LastFree::default(); LAST_FREES],
            mappings: BTreeMap::new(),
            reserved: AddressRanges::default(),
            host: PoolUsage::new(Device::Cpu, Pool::Host),
            host_events: false,
            of_heap: Share::default(),
            of_mappings: Share::default(),
            devices: DeviceBooks::default(),
            counts: Counts::default(),
        }
    }

    /// Books one recorded event of host memory and gives the memory events it means to `emit`.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        now: Moment,
        kind: EventKind,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match kind {
            EventKind::HostAlloc { address, size } => self.alloc(now, address, size, emit),
            EventKind::HostFree { address } => self.free(now, address, emit),
            EventKind::HostMap { address, size, protection } if protection.is_usable() => {
                self.map(now, address, size, emit)
            }
            EventKind::HostMap { address, size, .. } => self.reserve(now, address, size, emit),
            EventKind::HostProtect { address, size, protection } => self.protect(now, address, size, protection, emit),
            EventKind::HostUnmap { address, size } => match page_range(address, size) {
                Some((start, end)) => {
                    if self.unmap(now, start, end, false, emit)? == 0 {
                        self.counts.unknown_unmaps += 1;
                    }
                    ControlFlow::Continue(())
                }
                None => self.counts.implausible(),
            },
            EventKind::HostRemap { old, old_size, new, new_size } => {
                self.remap(now, (old, old_size), (new, new_size), emit)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Whether the event cannot be what happened next: an allocation of a live address, or a free of one that is not.
    /// Gives the address, and whether the free is what is missing.
    #[inline]
    pub(crate) fn contradiction(&self, kind: EventKind) -> Option<(u64, bool)> {
        match kind {
            EventKind::HostAlloc { address, .. } => self.heap.contains_key(&address).then_some((address, true)),
            EventKind::HostFree { address } => (!self.heap.contains_key(&address)).then_some((address, false)),
            _ => None,
        }
    }

    /// Whether another thread freed this address since `since_ns`, as far as that is remembered.
    pub(crate) fn was_freed_by_another(&self, address: u64, thread: u32, since_ns: u64) -> bool {
        let last = &self.last_frees[freed_place(address)];
        last.address == address && last.thread != thread && last.time_ns >= since_ns
    }

    /// The pools that had an event, by device and pool.
    pub(crate) fn pools(&self) -> Vec<PoolUsage> {
        let mut pools = self.devices.pools().to_vec();
        if self.host_events {
            pools.push(self.host);
        }
        pools.sort_unstable_by_key(|usage| (usage.device, usage.pool));
        pools
    }

    /// The blocks that are alive and newer than `told`, in the order in which they appeared.
    pub(crate) fn live_after(&self, told: BlockId) -> Vec<LiveBlock> {
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
        let heap = self.heap.iter().map(|(address, live)| block(Origin::Heap, *address, *live));
        let mappings = self.mappings.iter().map(|(address, live)| block(Origin::Mapping, *address, *live));
        let host = heap.chain(mappings);
        let mut blocks: Vec<LiveBlock> = host.chain(self.devices.live()).filter(|block| block.block > told).collect();
        blocks.sort_unstable_by_key(|block| block.block);
        blocks
    }

    /// A live block as if it were allocated now.
    pub(crate) fn told_again(&mut self, time_ns: u64, alive: &LiveBlock) -> MemoryEvent {
        let usage = match alive.pool {
            Pool::Host => Some(&self.host),
            pool => self.devices.pool(alive.device, pool),
        };
        let (used, reserved) = usage.map_or((0, None), |usage| (usage.live_bytes, usage.reserved_bytes));
        MemoryEvent {
            id: self.counts.next_id(),
            time_ns,
            thread: alive.thread,
            device: alive.device,
            pool: alive.pool,
            action: Action::Malloc,
            origin: alive.origin,
            address: alive.address,
            size: alive.size,
            block: alive.block,
            stack: alive.stack,
            allocation_stack: alive.stack,
            used,
            reserved,
            matched: true,
            synthetic: true,
            selection: Selection::Chosen,
        }
    }

    fn alloc(
        &mut self,
        now: Moment,
        address: u64,
        size: u64,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.host.fits(size) {
            return self.counts.implausible();
        }
        let live = self.begin(now, size);
        if let Some(old) = self.heap.insert(address, live) {
            self.counts.replaced_blocks += 1;
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
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.heap.remove(&address) {
            Some(live) => {
                self.last_frees[freed_place(address)] = LastFree { address, time_ns: now.time_ns, thread: now.thread };
                self.emit_free(now, Origin::Heap, address, live, false, emit)
            }
            None => self.emit_unmatched(now, address, emit),
        }
    }

    fn map(
        &mut self,
        now: Moment,
        address: u64,
        size: u64,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size).filter(|_| self.host.fits(size)) else {
            return self.counts.implausible();
        };
        self.unmap(now, start, end, true, emit)?;
        let live = self.begin(now, size);
        self.mappings.insert(address, live);
        self.emit_malloc(now, Origin::Mapping, address, live, false, emit)
    }

    /// Address space was mapped without access.
    fn reserve(
        &mut self,
        now: Moment,
        address: u64,
        size: u64,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size) else { return self.counts.implausible() };
        self.unmap(now, start, end, true, emit)?;
        self.reserved.insert(start, end);
        ControlFlow::Continue(())
    }

    /// Access was given or taken. Only what changes between usable and reserved is of interest, and only of memory in the
    /// books: the rest are files.
    fn protect(
        &mut self,
        now: Moment,
        address: u64,
        size: u64,
        protection: Protection,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size) else { return self.counts.implausible() };
        if protection.is_usable() {
            for (start, end) in self.reserved.remove(start, end) {
                if !self.host.fits(end - start) {
                    return self.counts.implausible();
                }
                let live = self.begin(now, end - start);
                self.mappings.insert(start, live);
                self.emit_malloc(now, Origin::Mapping, start, live, false, emit)?;
            }
            return ControlFlow::Continue(());
        }
        let usable = self.mappings.range(..end).rev().take_while(|(address, live)| *address + live.size > start);
        let taken: Vec<(u64, u64)> =
            usable.map(|(address, live)| (start.max(*address), end.min(address + live.size))).collect();
        self.end_mappings(now, start, end, false, emit)?;
        for (start, end) in taken {
            self.reserved.insert(start, end);
        }
        ControlFlow::Continue(())
    }

    /// A mapping moved. One that is not in the books is a file's and stays out of them.
    fn remap(
        &mut self,
        now: Moment,
        (old, old_size): (u64, u64),
        (new, new_size): (u64, u64),
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(old, old_size) else { return self.counts.implausible() };
        // The kernel moves what has one protection.
        let was_reserved = self.reserved.contains(start);
        if self.unmap(now, start, end, false, emit)? == 0 {
            self.counts.unknown_unmaps += 1;
            return ControlFlow::Continue(());
        }
        match was_reserved {
            true => self.reserve(now, new, new_size, emit),
            false => self.map(now, new, new_size, emit),
        }
    }

    /// Ends whatever reaches into `start..end`. Returns how many mappings and reserved ranges it touched.
    fn unmap(
        &mut self,
        now: Moment,
        start: u64,
        end: u64,
        synthetic: bool,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<(), usize> {
        let reserved = self.reserved.remove(start, end).len();
        self.end_mappings(now, start, end, synthetic, emit).map_continue(|ended| ended + reserved)
    }

    /// Ends every usable mapping that reaches into `start..end`; what lies outside becomes new blocks. Returns how many
    /// ended.
    fn end_mappings(
        &mut self,
        now: Moment,
        start: u64,
        end: u64,
        synthetic: bool,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
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
                    let piece = Live { block: self.counts.next_block(), size: piece_end - piece_start, ..live };
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
        Live { block: self.counts.next_block(), size, time_ns: now.time_ns, thread: now.thread, stack: now.stack }
    }

    #[inline(always)]
    fn share(&mut self, origin: Origin) -> &mut Share {
        if origin == Origin::Heap { &mut self.of_heap } else { &mut self.of_mappings }
    }

    #[inline(always)]
    fn emit_malloc(
        &mut self,
        now: Moment,
        origin: Origin,
        address: u64,
        live: Live,
        synthetic: bool,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.host.add(live.size, now.time_ns);
        let share = self.share(origin);
        share.allocations += 1;
        share.bytes += live.size;
        share.peak_bytes = share.peak_bytes.max(share.bytes);
        self.host_events = true;
        self.counts.mallocs += 1;
        emit(&mut MemoryEvent {
            id: self.counts.next_id(),
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
            used: self.host.live_bytes,
            reserved: None,
            matched: true,
            synthetic,
            selection: Selection::Chosen,
        })
    }

    #[inline(always)]
    fn emit_free(
        &mut self,
        now: Moment,
        origin: Origin,
        address: u64,
        live: Live,
        synthetic: bool,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.host.remove(live.size);
        self.share(origin).bytes -= live.size;
        self.counts.frees += 1;
        emit(&mut MemoryEvent {
            id: self.counts.next_id(),
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
            used: self.host.live_bytes,
            reserved: None,
            matched: true,
            synthetic,
            selection: Selection::Chosen,
        })
    }

    fn emit_unmatched(
        &mut self,
        now: Moment,
        address: u64,
        emit: &mut impl FnMut(&mut MemoryEvent) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.host_events = true;
        self.counts.frees += 1;
        self.counts.unmatched_frees += 1;
        emit(&mut MemoryEvent {
            id: self.counts.next_id(),
            time_ns: now.time_ns,
            thread: now.thread,
            device: Device::Cpu,
            pool: Pool::Host,
            action: Action::Free,
            origin: Origin::Heap,
            address,
            size: 0,
            block: self.counts.next_block(),
            stack: now.stack,
            allocation_stack: StackId::NONE,
            used: self.host.live_bytes,
            reserved: None,
            matched: false,
            synthetic: false,
            selection: Selection::Chosen,
        })
    }
}

/// The addresses a mapping call touches; `None` if no call can.
fn page_range(address: u64, size: u64) -> Option<(u64, u64)> {
    let end = address.checked_add(size)?.checked_next_multiple_of(SMALLEST_PAGE)?;
    (size > 0).then_some((address, end))
}

//! Which blocks of host memory are alive.
use crate::address_ranges::AddressRanges;
use crate::books::Counts;
use crate::last_frees::LastFrees;
use crate::{
    Action, Block, BlockEvent, BlockId, Device, Moment, Origin, OwnerId, Pool, PoolUsage, Selection, StackId,
    TimestampNs,
};
use memscope_format::decode::EventKind;
use memscope_format::record::{HostAddr, Protection};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A block that is alive, found by its address.
#[derive(Clone, Copy, Debug)]
struct LiveHostBlock {
    block: BlockId,
    size: u64,
    made: Moment,
    owner: OwnerId,
}

impl LiveHostBlock {
    #[inline(always)]
    fn block(&self, origin: Origin, address: HostAddr) -> Block {
        Block {
            id: self.block,
            device: Device::Cpu,
            pool: Pool::Host,
            origin,
            address: address.0,
            size: self.size,
            made: self.made,
            owner: self.owner,
        }
    }
}

/// The books of host memory. As in [`crate::books::Books`], each change is followed by its one event.
#[derive(Debug)]
pub(crate) struct HostBooks {
    /// Heap blocks by address.
    heap: FxHashMap<HostAddr, LiveHostBlock>,
    /// The newest free of an address, for some addresses.
    last_frees: LastFrees,
    /// Heap blocks in order; only once a block was looked for by an address in the middle of it.
    order: Option<BTreeSet<HostAddr>>,
    /// Whose the blocks are that begin now.
    pub(crate) owner: OwnerId,
    /// Usable mappings by start; they never overlap.
    mappings: BTreeMap<HostAddr, LiveHostBlock>,
    /// Anonymous mappings without access: address space, not memory. Has nothing in common with `mappings`.
    pub(crate) reserved: AddressRanges,
    usage: PoolUsage,
    /// There was an event.
    is_used: bool,
    /// Its two parts.
    pub(crate) of_heap: Share,
    pub(crate) of_mappings: Share,
}

/// What one kind of block holds of the host's memory.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Share {
    pub(crate) allocations: u64,
    bytes: u64,
    pub(crate) peak_bytes: u64,
}

/// The kernel unmaps whole pages. Pages may be larger than this, but never smaller.
const SMALLEST_PAGE: u64 = 4096;

/// Who is given the events.
pub(crate) trait Emit: FnMut(&mut BlockEvent, &HostBooks) -> ControlFlow<()> {}

impl<F: FnMut(&mut BlockEvent, &HostBooks) -> ControlFlow<()>> Emit for F {}

impl Default for HostBooks {
    fn default() -> HostBooks {
        HostBooks {
            heap: FxHashMap::default(),
            last_frees: LastFrees::default(),
            order: None,
            owner: OwnerId::NONE,
            mappings: BTreeMap::new(),
            reserved: AddressRanges::default(),
            usage: PoolUsage::new(Device::Cpu, Pool::Host),
            is_used: false,
            of_heap: Share::default(),
            of_mappings: Share::default(),
        }
    }
}

impl HostBooks {
    /// Books one recorded event of host memory and gives the memory events it means to `emit`.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        now: Moment,
        kind: EventKind,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        match kind {
            EventKind::HostAlloc { address, size } => self.alloc(now, address, size, counts, emit),
            EventKind::HostFree { address } => self.free(now, address, counts, emit),
            EventKind::HostMap { address, size, protection } if protection.is_usable() => {
                self.map(now, address, size, counts, emit)
            }
            EventKind::HostMap { address, size, .. } => self.reserve(now, address, size, counts, emit),
            EventKind::HostProtect { address, size, protection } => {
                self.protect(now, address, size, protection, counts, emit)
            }
            EventKind::HostUnmap { address, size } => match page_range(address, size) {
                Some((start, end)) => {
                    if self.unmap(now, start, end, false, counts, emit)? == 0 {
                        counts.unknown_unmaps += 1;
                    }
                    ControlFlow::Continue(())
                }
                None => counts.implausible(),
            },
            EventKind::HostRemap { old, old_size, new, new_size } => {
                self.remap(now, (old, old_size), (new, new_size), counts, emit)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    #[inline]
    pub(crate) fn has_heap_block_at(&self, address: u64) -> bool {
        self.heap.contains_key(&HostAddr(address))
    }

    /// Whether another thread freed this address since `since`, as far as that is remembered.
    pub(crate) fn was_freed_by_another(&self, address: u64, thread: u32, since: TimestampNs) -> bool {
        self.last_frees.has(address, thread, since)
    }

    /// The block of the heap that begins there.
    pub(crate) fn of_heap_at(&self, address: HostAddr) -> Option<Block> {
        self.heap.get(&address).map(|live| live.block(Origin::Heap, address))
    }

    /// A new block, whose allocation is the next event.
    #[inline(always)]
    fn begin(&self, now: Moment, size: u64, counts: &mut Counts) -> LiveHostBlock {
        let (block, owner) = counts.next_block(self.owner);
        LiveHostBlock { block, size, made: Moment { event: counts.ids, ..now }, owner }
    }

    /// The block around an address: of the heap, or else a mapping, which may be what the heap is made of.
    pub(crate) fn block_around(&mut self, address: HostAddr) -> Option<Block> {
        if let Some(live) = self.heap.get(&address) {
            return Some(live.block(Origin::Heap, address));
        }
        let HostBooks { heap, order, mappings, .. } = self;
        let order = order.get_or_insert_with(|| heap.keys().copied().collect());
        let holds = |start: HostAddr, size: u64| address - start < size;
        let before = order.range(..=address).next_back().and_then(|start| Some((*start, heap.get(start)?)));
        let of_heap = before.filter(|(start, live)| holds(*start, live.size));
        if let Some((start, live)) = of_heap {
            return Some(live.block(Origin::Heap, start));
        }
        let (start, live) = mappings.range(..=address).next_back().filter(|(start, live)| holds(**start, live.size))?;
        Some(live.block(Origin::Mapping, *start))
    }

    /// The use of host memory, if there was an event.
    pub(crate) fn usage(&self) -> Option<PoolUsage> {
        self.is_used.then_some(self.usage)
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = Block> + '_ {
        let heap = self.heap.iter().map(|(address, live)| live.block(Origin::Heap, *address));
        heap.chain(self.mappings.iter().map(|(address, live)| live.block(Origin::Mapping, *address)))
    }

    fn alloc(
        &mut self,
        now: Moment,
        address: HostAddr,
        size: u64,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        if !self.usage.fits(size) {
            return counts.implausible();
        }
        let mut live = self.begin(now, size, counts);
        if let Some(order) = &mut self.order {
            order.insert(address);
        }
        if let Some(old) = self.heap.insert(address, live) {
            counts.replaced_blocks += 1;
            self.heap.remove(&address);
            // Nobody saw the call that freed it.
            let unseen = Moment { stack: StackId::NONE, ..now };
            self.emit_free(unseen, old.block(Origin::Heap, address), true, counts, emit)?;
            live.made.event = counts.ids;
            self.heap.insert(address, live);
        }
        self.emit_malloc(now, live.block(Origin::Heap, address), false, counts, emit)
    }

    fn free(&mut self, now: Moment, address: HostAddr, counts: &mut Counts, emit: &mut impl Emit) -> ControlFlow<()> {
        if let Some(order) = &mut self.order {
            order.remove(&address);
        }
        match self.heap.remove(&address) {
            Some(live) => {
                self.last_frees.remember(address.0, &now);
                self.emit_free(now, live.block(Origin::Heap, address), false, counts, emit)
            }
            None => self.emit_unmatched(now, address, counts, emit),
        }
    }

    fn map(
        &mut self,
        now: Moment,
        address: HostAddr,
        size: u64,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size).filter(|_| self.usage.fits(size)) else {
            return counts.implausible();
        };
        self.unmap(now, start, end, true, counts, emit)?;
        let live = self.begin(now, size, counts);
        self.mappings.insert(address, live);
        self.emit_malloc(now, live.block(Origin::Mapping, address), false, counts, emit)
    }

    /// Address space was mapped without access.
    fn reserve(
        &mut self,
        now: Moment,
        address: HostAddr,
        size: u64,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size) else { return counts.implausible() };
        self.unmap(now, start, end, true, counts, emit)?;
        self.reserved.insert(start, end);
        ControlFlow::Continue(())
    }

    /// Access was given or taken. Only what changes between usable and reserved is of interest, and only of memory in the
    /// books: the rest are files.
    fn protect(
        &mut self,
        now: Moment,
        address: HostAddr,
        size: u64,
        protection: Protection,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(address, size) else { return counts.implausible() };
        if protection.is_usable() {
            for (start, end) in self.reserved.remove(start, end) {
                if !self.usage.fits(end - start) {
                    return counts.implausible();
                }
                let live = self.begin(now, end - start, counts);
                self.mappings.insert(start, live);
                self.emit_malloc(now, live.block(Origin::Mapping, start), false, counts, emit)?;
            }
            return ControlFlow::Continue(());
        }
        let usable = self.mappings.range(..end).rev().take_while(|(address, live)| **address + live.size > start);
        let taken: Vec<(HostAddr, HostAddr)> =
            usable.map(|(address, live)| (start.max(*address), end.min(*address + live.size))).collect();
        self.end_mappings(now, start, end, false, counts, emit)?;
        for (start, end) in taken {
            self.reserved.insert(start, end);
        }
        ControlFlow::Continue(())
    }

    /// A mapping moved. One that is not in the books is a file's and stays out of them.
    fn remap(
        &mut self,
        now: Moment,
        (old, old_size): (HostAddr, u64),
        (new, new_size): (HostAddr, u64),
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let Some((start, end)) = page_range(old, old_size) else { return counts.implausible() };
        // The kernel moves what has one protection.
        let was_reserved = self.reserved.contains(start);
        if self.unmap(now, start, end, false, counts, emit)? == 0 {
            counts.unknown_unmaps += 1;
            return ControlFlow::Continue(());
        }
        match was_reserved {
            true => self.reserve(now, new, new_size, counts, emit),
            false => self.map(now, new, new_size, counts, emit),
        }
    }

    /// Ends whatever reaches into `start..end`. Returns how many mappings and reserved ranges it touched.
    fn unmap(
        &mut self,
        now: Moment,
        start: HostAddr,
        end: HostAddr,
        synthetic: bool,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<(), usize> {
        let reserved = self.reserved.remove(start, end).len();
        self.end_mappings(now, start, end, synthetic, counts, emit).map_continue(|ended| ended + reserved)
    }

    /// Ends every usable mapping that reaches into `start..end`; what lies outside becomes new blocks. Returns how many
    /// ended.
    fn end_mappings(
        &mut self,
        now: Moment,
        start: HostAddr,
        end: HostAddr,
        synthetic: bool,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<(), usize> {
        let mut ended = 0;
        // Pieces lie outside the range, so that each round finds a mapping not yet looked at.
        while let Some((address, live)) = self.mapping_in(start, end) {
            self.mappings.remove(&address);
            ended += 1;
            self.emit_free(now, live.block(Origin::Mapping, address), synthetic, counts, emit)?;
            // `map` accepted the mapping, so its end is an address.
            let mapping_end = address + live.size;
            for (piece_start, piece_end) in [(address, start), (end, mapping_end)] {
                if piece_start < piece_end {
                    let (block, owner) = counts.next_block(live.owner);
                    let piece = LiveHostBlock { block, size: piece_end - piece_start, owner, ..live };
                    self.mappings.insert(piece_start, piece);
                    let at = Moment { thread: live.made.thread, stack: live.made.stack, ..now };
                    self.emit_malloc(at, piece.block(Origin::Mapping, piece_start), true, counts, emit)?;
                }
            }
        }
        ControlFlow::Continue(ended)
    }

    /// A mapping that reaches into `start..end`.
    fn mapping_in(&self, start: HostAddr, end: HostAddr) -> Option<(HostAddr, LiveHostBlock)> {
        let (address, live) = self.mappings.range(..end).next_back()?;
        (*address + live.size > start).then_some((*address, *live))
    }

    #[inline(always)]
    fn share(&mut self, origin: Origin) -> &mut Share {
        if origin == Origin::Heap { &mut self.of_heap } else { &mut self.of_mappings }
    }

    #[inline(always)]
    fn emit_malloc(
        &mut self,
        now: Moment,
        block: Block,
        synthetic: bool,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        self.usage.add(block.size, now.time);
        let share = self.share(block.origin);
        share.allocations += 1;
        share.bytes += block.size;
        share.peak_bytes = share.peak_bytes.max(share.bytes);
        self.is_used = true;
        counts.mallocs += 1;
        let mut event = BlockEvent {
            action: Action::Malloc,
            block,
            at: counts.next(now),
            used: self.usage.live_bytes,
            reserved: None,
            matched: true,
            synthetic,
            selection: Selection::Chosen,
        };
        emit(&mut event, self)
    }

    #[inline(always)]
    fn emit_free(
        &mut self,
        now: Moment,
        block: Block,
        synthetic: bool,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        self.usage.remove(block.size);
        self.share(block.origin).bytes -= block.size;
        counts.frees += 1;
        let mut event = BlockEvent {
            action: Action::Free,
            block,
            at: counts.next(now),
            used: self.usage.live_bytes,
            reserved: None,
            matched: true,
            synthetic,
            selection: Selection::Chosen,
        };
        emit(&mut event, self)
    }

    fn emit_unmatched(
        &mut self,
        now: Moment,
        address: HostAddr,
        counts: &mut Counts,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        self.is_used = true;
        counts.frees += 1;
        counts.unmatched_frees += 1;
        let (block, owner) = counts.next_block(OwnerId::NONE);
        let unseen = LiveHostBlock { block, size: 0, made: Moment::default(), owner };
        let mut event = BlockEvent {
            action: Action::Free,
            block: unseen.block(Origin::Heap, address),
            at: counts.next(now),
            used: self.usage.live_bytes,
            reserved: None,
            matched: false,
            synthetic: false,
            selection: Selection::Chosen,
        };
        emit(&mut event, self)
    }
}

/// The addresses a mapping call touches; `None` if no call can.
fn page_range(address: HostAddr, size: u64) -> Option<(HostAddr, HostAddr)> {
    let end = address.0.checked_add(size)?.checked_next_multiple_of(SMALLEST_PAGE)?;
    (size > 0).then_some((address, HostAddr(end)))
}

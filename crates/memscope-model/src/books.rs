//! Which blocks are alive, and what that sums up to.
use crate::device_books::DeviceBooks;
use crate::host_books::HostBooks;
use crate::labels::LateOwners;
use crate::state;
use crate::{
    AccessedBlock, Action, Block, BlockEvent, BlockId, DevAddr, Device, HostAddr, Moment, OwnerId, Pool, PoolUsage,
    Selection, TimestampNs,
};
use memscope_format::decode::EventKind;
use memscope_format::record::Space;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The books of all pools. They turn recorded events into events of blocks; each change of them is followed by its one
/// event, so that a sink that breaks off leaves books that agree with what it was given.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) host: HostBooks,
    pub(crate) devices: DeviceBooks,
    pub(crate) counts: Counts,
}

/// Whose books an address is in that threads hand to each other without a lock that orders their events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shared {
    Heap,
    Storages,
}

/// A recorded event about such an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handover {
    pub(crate) of: Shared,
    pub(crate) address: u64,
    pub(crate) is_free: bool,
}

impl Handover {
    #[inline]
    pub(crate) fn of(kind: EventKind) -> Option<Handover> {
        let (of, address, is_free) = match kind {
            EventKind::HostAlloc { address, .. } => (Shared::Heap, address.0, false),
            EventKind::HostFree { address } => (Shared::Heap, address.0, true),
            EventKind::DeviceAlloc { space: Space::TensorStorage, address, .. } => (Shared::Storages, address.0, false),
            EventKind::DeviceFree { space: Space::TensorStorage, address } => (Shared::Storages, address.0, true),
            _ => return None,
        };
        Some(Handover { of, address, is_free })
    }
}

/// Numbers that run through the books of all pools.
#[derive(Clone, Default, Debug)]
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
    /// Whose blocks are by labels that come later.
    pub(crate) late: Arc<LateOwners>,
}

impl Counts {
    /// The moment of the next event.
    #[inline]
    pub(crate) fn next(&mut self, now: Moment) -> Moment {
        self.ids += 1;
        Moment { event: self.ids - 1, ..now }
    }

    #[inline]
    pub(crate) fn next_block(&mut self, owner: OwnerId) -> (BlockId, OwnerId) {
        self.blocks += 1;
        let block = BlockId(self.blocks);
        (block, self.late.of(block, owner))
    }

    pub(crate) fn implausible(&mut self) -> ControlFlow<()> {
        self.implausible_events += 1;
        ControlFlow::Continue(())
    }
}

impl Books {
    /// As sinks see them.
    pub(crate) fn view(&self) -> BooksView<'_> {
        BooksView { host: &self.host, devices: &self.devices }
    }

    /// The blocks around an address that a label of it is meant for: the smallest of a device, and what it may lie on in the heap.
    pub(crate) fn labelled_at(&mut self, address: DevAddr) -> impl Iterator<Item = Block> {
        let of_device = self.devices.block_around(Device::Unknown, address);
        of_device.into_iter().chain(self.host.block_around(HostAddr(address.0)))
    }

    /// Whether the event cannot be what happened next: an allocation of a live address, or a free of one that is not.
    #[inline]
    pub(crate) fn contradicted_by(&self, kind: EventKind) -> Option<Handover> {
        let event = Handover::of(kind)?;
        let is_live = match event.of {
            Shared::Heap => self.host.has_heap_block_at(event.address),
            Shared::Storages => self.devices.has_storage_at(event.address),
        };
        (is_live != event.is_free).then_some(event)
    }

    /// Whether another thread freed this address since `since`, as far as that is remembered.
    pub(crate) fn was_freed_by_another(&self, event: Handover, thread: u32, since: TimestampNs) -> bool {
        match event.of {
            Shared::Heap => self.host.was_freed_by_another(event.address, thread, since),
            Shared::Storages => self.devices.was_freed_by_another(event.address, thread, since),
        }
    }

    /// The blocks that are alive and newer than `announced`, in the order in which they appeared.
    pub(crate) fn live_after(&self, announced: BlockId) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut keep = |block: &Block| {
            if block.id > announced {
                blocks.push(*block);
            }
        };
        state::Books::for_each_live(&self.view(), &mut keep);
        blocks.sort_unstable_by_key(|block| block.id);
        blocks
    }

    /// A live block as if it were allocated now.
    pub(crate) fn announced_again(&mut self, now: Moment, block: Block) -> BlockEvent {
        let usage = state::Books::pool(&self.view(), block.device, block.pool);
        let (used, reserved) = usage.map_or((0, None), |usage| (usage.live_bytes, usage.reserved_bytes));
        let Moment { thread, stack, .. } = block.made;
        BlockEvent {
            action: Action::Malloc,
            block,
            at: self.counts.next(Moment { thread, stack, ..now }),
            used,
            reserved,
            matched: true,
            synthetic: true,
            selection: Selection::Chosen,
        }
    }
}

/// The books of all pools while one of them emits an event.
#[derive(Clone, Copy)]
pub(crate) struct BooksView<'b> {
    pub(crate) host: &'b HostBooks,
    pub(crate) devices: &'b DeviceBooks,
}

impl state::Books for BooksView<'_> {
    fn for_each_live(&self, visit: &mut dyn FnMut(&Block)) {
        self.host.live().for_each(|block| visit(&block));
        self.devices.live().for_each(|block| visit(&block));
    }

    fn pools(&self) -> Vec<PoolUsage> {
        let mut pools: Vec<PoolUsage> = self.devices.pools().iter().copied().chain(self.host.usage()).collect();
        pools.sort_unstable_by_key(|usage| (usage.device, usage.pool));
        pools
    }

    fn pool(&self, device: Device, pool: Pool) -> Option<PoolUsage> {
        match pool {
            Pool::Host => self.host.usage(),
            pool => self.devices.pool(device, pool).copied(),
        }
    }

    fn around(&self, device: Device, address: DevAddr) -> Option<AccessedBlock> {
        self.devices.around(device, address)
    }

    fn of_heap_at(&self, address: HostAddr) -> Option<Block> {
        self.host.of_heap_at(address)
    }
}

//! Which blocks of device memory are alive, by who handed them out.
use crate::books::Counts;
use crate::last_frees::LastFrees;
use crate::outcome::MOST_BYTES;
use crate::{
    AccessedBlock, Action, Block, BlockEvent, BlockId, Device, Moment, Origin, OwnerId, Pool, PoolUsage, Selection,
    SnapshotMemory, StackId, TimestampNs,
};
use memscope_format::record::{DevAddr, Space, SpaceAddr};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The books of the driver and the frameworks' pools. As in [`crate::books::Books`], each change is followed by its
/// one event.
#[derive(Debug, Default)]
pub(crate) struct DeviceBooks {
    /// In order, so that the block around an address is near it.
    live: BTreeMap<(Space, SpaceAddr), LiveDeviceBlock>,
    /// What pools that tell each of their heaps hold, by where it begins.
    heaps: BTreeMap<(Space, DevAddr), PoolHeap>,
    /// Few, and found by [`LiveDeviceBlock::pool`] where it matters.
    pools: Vec<PoolUsage>,
    /// Of storages: other pools have a lock of their own.
    last_frees: LastFrees,
}

#[derive(Clone, Copy, Debug)]
struct LiveDeviceBlock {
    block: BlockId,
    size: u64,
    made: Moment,
    origin: Origin,
    owner: OwnerId,
    /// Index of its pool.
    pool: usize,
}

#[derive(Clone, Copy, Debug)]
struct PoolHeap {
    size: u64,
    /// Index of its pool.
    pool: usize,
}

/// A recorded allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) space: Space,
    pub(crate) device: Device,
    pub(crate) address: SpaceAddr,
    pub(crate) size: u64,
    pub(crate) attributes: u32,
    pub(crate) owner: OwnerId,
}

/// Events of devices are thousands of times rarer than those of the heap: no code of theirs in the heap's loop.
pub(crate) type Emit<'e> = &'e mut dyn FnMut(&mut BlockEvent, &DeviceBooks) -> ControlFlow<()>;

impl DeviceBooks {
    pub(crate) fn alloc(
        &mut self,
        now: Moment,
        allocation: Allocation,
        counts: &mut Counts,
        emit: Emit<'_>,
    ) -> ControlFlow<()> {
        let Allocation { space, device, address, size, attributes, owner } = allocation;
        let pool = self.pool_index(device, Pool::of(space, device));
        if !self.pools[pool].fits(size) {
            return counts.implausible();
        }
        if let Some(old) = self.live.remove(&(space, address)) {
            // The workspace is registered again at each use; elsewhere a free was missed.
            counts.replaced_blocks += u64::from(space != Space::PtaWorkspace);
            let unseen = Moment { stack: StackId::NONE, ..now };
            self.emit_free(unseen, address, old, true, counts, emit)?;
        }
        let size = match space {
            Space::PtaWorkspace => workspace_share(size, self.pools[pool].live_bytes),
            _ => size,
        };
        let (block, owner) = counts.next_block(owner);
        let live = LiveDeviceBlock {
            block,
            size,
            made: Moment { event: counts.ids, ..now },
            origin: Origin::of(space, attributes),
            owner,
            pool,
        };
        self.live.insert((space, address), live);
        self.pools[pool].add(size, now.time);
        counts.mallocs += 1;
        let mut event = BlockEvent {
            action: Action::Malloc,
            block: self.block(address, &live),
            at: counts.next(now),
            used: self.pools[live.pool].live_bytes,
            reserved: self.pools[live.pool].reserved_bytes,
            matched: true,
            synthetic: false,
            selection: Selection::Chosen,
        };
        emit(&mut event, self)
    }

    pub(crate) fn free(
        &mut self,
        now: Moment,
        space: Space,
        address: SpaceAddr,
        counts: &mut Counts,
        emit: Emit<'_>,
    ) -> ControlFlow<()> {
        match self.live.remove(&(space, address)) {
            Some(live) => {
                if space == Space::TensorStorage {
                    self.last_frees.remember(address.0, &now);
                }
                self.emit_free(now, address, live, false, counts, emit)
            }
            // Host memory may have been registered without being pinned, which is not recorded.
            None if space == Space::Registered => ControlFlow::Continue(()),
            // The free does not say its device, and a row of no device would be in every file: it is only counted.
            None => {
                counts.unmatched_frees += 1;
                ControlFlow::Continue(())
            }
        }
    }

    pub(crate) fn has_storage_at(&self, address: u64) -> bool {
        self.live.contains_key(&(Space::TensorStorage, SpaceAddr(address)))
    }

    /// Whether another thread freed the storage at this address since `since`, as far as that is remembered.
    pub(crate) fn was_freed_by_another(&self, address: u64, thread: u32, since: TimestampNs) -> bool {
        self.last_frees.has(address, thread, since)
    }

    /// What is in use of a device: see [`SnapshotMemory`].
    pub(crate) fn snapshot(&self, device: Device) -> SnapshotMemory {
        let found = [Pool::PtaCaching, Pool::MindSpore, Pool::Hal].into_iter().find_map(|pool| self.pool(device, pool));
        found.map_or_else(SnapshotMemory::default, SnapshotMemory::of)
    }

    /// What a pool has reserved from now on.
    pub(crate) fn reserve(&mut self, space: Space, device: Device, total: u64, counts: &mut Counts) {
        if total > MOST_BYTES {
            counts.implausible_events += 1;
            return;
        }
        let pool = self.pool_index(device, Pool::of(space, device));
        self.change_reserved(pool, |_| total);
    }

    /// A pool took a heap. One at the same place is gone without a word: the memory is counted once.
    pub(crate) fn heap(&mut self, space: Space, device: Device, address: DevAddr, size: u64, counts: &mut Counts) {
        let pool = self.pool_index(device, Pool::of(space, device));
        if let Some(old) = self.heaps.remove(&(space, address)) {
            self.change_reserved(old.pool, |reserved| reserved.saturating_sub(old.size));
        }
        let reserved = self.pools[pool].reserved_bytes.unwrap_or(0);
        if reserved.checked_add(size).is_none_or(|total| total > MOST_BYTES) {
            counts.implausible_events += 1;
            return;
        }
        self.heaps.insert((space, address), PoolHeap { size, pool });
        self.change_reserved(pool, |reserved| reserved + size);
    }

    /// A pool gave a heap up, and with it the regions that are still in it.
    pub(crate) fn heap_end(
        &mut self,
        now: Moment,
        space: Space,
        address: DevAddr,
        counts: &mut Counts,
        emit: Emit<'_>,
    ) -> ControlFlow<()> {
        let Some(heap) = self.heaps.remove(&(space, address)) else { return ControlFlow::Continue(()) };
        self.change_reserved(heap.pool, |reserved| reserved.saturating_sub(heap.size));
        let (start, end) = (SpaceAddr(address.0), SpaceAddr(address.0.saturating_add(heap.size)));
        while let Some((&(_, region), &live)) = self.live.range((space, start)..(space, end)).next() {
            self.live.remove(&(space, region));
            self.emit_free(now, region, live, false, counts, emit)?;
        }
        ControlFlow::Continue(())
    }

    /// The smallest live block of `device` (any, if that is unknown) around `address`. Handles are not addresses.
    pub(crate) fn around(&self, device: Device, address: DevAddr) -> Option<AccessedBlock> {
        let (start, live) = self.live_around(device, address)?;
        Some(AccessedBlock { block: live.block, address: DevAddr(start.0), device: self.pools[live.pool].device })
    }

    /// The same block with all that is known of it.
    pub(crate) fn block_around(&self, device: Device, address: DevAddr) -> Option<Block> {
        let (start, live) = self.live_around(device, address)?;
        Some(self.block(start, live))
    }

    fn live_around(&self, device: Device, address: DevAddr) -> Option<(SpaceAddr, &LiveDeviceBlock)> {
        /// Blocks of a pool do not overlap; of those that do all the same, this many are looked at.
        const NEAR: usize = 16;
        const ADDRESSED: [Space; 6] =
            [Space::Driver, Space::PtaCaching, Space::PtaWorkspace, Space::Atb, Space::MindSpore, Space::TensorStorage];
        let holds = |start: SpaceAddr, live: &LiveDeviceBlock| {
            let on = self.pools[live.pool].device;
            address.0 - start.0 < live.size && (device == Device::Unknown || on == device)
        };
        let around = |space| {
            let before = self.live.range((space, SpaceAddr(0))..=(space, SpaceAddr(address.0))).rev().take(NEAR);
            before.filter(|((_, start), live)| holds(*start, live)).min_by_key(|(_, live)| live.size)
        };
        let ((_, start), live) = ADDRESSED.into_iter().filter_map(around).min_by_key(|(_, live)| live.size)?;
        Some((*start, live))
    }

    fn change_reserved(&mut self, pool: usize, change: impl FnOnce(u64) -> u64) {
        let usage = &mut self.pools[pool];
        let reserved = change(usage.reserved_bytes.unwrap_or(0));
        usage.reserved_bytes = Some(reserved);
        usage.peak_reserved_bytes = usage.peak_reserved_bytes.max(Some(reserved));
    }

    /// The pools that had an event, in the order of their first.
    pub(crate) fn pools(&self) -> &[PoolUsage] {
        &self.pools
    }

    pub(crate) fn pool(&self, device: Device, pool: Pool) -> Option<&PoolUsage> {
        self.pools.iter().find(|usage| usage.device == device && usage.pool == pool)
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = Block> + '_ {
        self.live.iter().map(|((_, address), live)| self.block(*address, live))
    }

    fn block(&self, address: SpaceAddr, live: &LiveDeviceBlock) -> Block {
        let PoolUsage { device, pool, .. } = self.pools[live.pool];
        Block {
            id: live.block,
            device,
            pool,
            origin: live.origin,
            address: address.0,
            size: live.size,
            made: live.made,
            owner: live.owner,
        }
    }

    fn pool_index(&mut self, device: Device, pool: Pool) -> usize {
        let known = self.pools.iter().position(|usage| usage.device == device && usage.pool == pool);
        known.unwrap_or_else(|| {
            self.pools.push(PoolUsage::new(device, pool));
            self.pools.len() - 1
        })
    }

    fn emit_free(
        &mut self,
        now: Moment,
        address: SpaceAddr,
        live: LiveDeviceBlock,
        synthetic: bool,
        counts: &mut Counts,
        emit: Emit<'_>,
    ) -> ControlFlow<()> {
        self.pools[live.pool].remove(live.size);
        counts.frees += 1;
        let mut event = BlockEvent {
            action: Action::Free,
            block: self.block(address, &live),
            at: counts.next(now),
            used: self.pools[live.pool].live_bytes,
            reserved: self.pools[live.pool].reserved_bytes,
            matched: true,
            synthetic,
            selection: Selection::Chosen,
        };
        emit(&mut event, self)
    }
}

/// torch_npu gives as the size of a workspace region what all workspaces together have allocated. What is not held by
/// the others is its own; where the others seem to hold more than all, the figure is taken for its own.
fn workspace_share(all: u64, others: u64) -> u64 {
    if all > others { all - others } else { all }
}

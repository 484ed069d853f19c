//! What is known at a moment of a trace.
use crate::{AccessedBlock, Block, BlockId, DevAddr, Device, HostAddr, Names, Owners, Pool, PoolUsage, Stacks, Steps};
use std::cmp::Reverse;

/// Everything a sink may ask besides the event itself.
#[derive(Clone, Copy)]
pub struct State<'s> {
    pub stacks: &'s Stacks,
    pub names: &'s Names,
    pub owners: &'s Owners,
    pub steps: &'s Steps,
    /// Now is within what the user chose to see: between `start` and `stop`, and in one of the steps chosen.
    pub chosen: bool,
    /// While nothing is traced, before `start` or after `stop`: blocks newer than this are of no interest to the user, unless
    /// they are alive when tracing begins, and so announced by [`crate::TraceEvent::Alive`].
    pub untraced_after: Option<BlockId>,
    pub(crate) books: &'s dyn Books,
}

/// Who knows which blocks are alive.
pub(crate) trait Books {
    fn for_each_live(&self, visit: &mut dyn FnMut(&Block));
    fn pools(&self) -> Vec<PoolUsage>;
    fn pool(&self, device: Device, pool: Pool) -> Option<PoolUsage>;
    fn around(&self, device: Device, address: DevAddr) -> Option<AccessedBlock>;
    fn of_heap_at(&self, address: HostAddr) -> Option<Block>;
}

impl State<'_> {
    /// Whether the user has not chosen to see this block, so far.
    #[inline]
    pub fn is_untraced(&self, block: BlockId) -> bool {
        self.untraced_after.is_some_and(|announced| block > announced)
    }

    /// Gives each live block to `visit`, in no order.
    pub fn for_each_live(&self, visit: &mut dyn FnMut(&Block)) {
        self.books.for_each_live(visit);
    }

    /// The live blocks, in the order in which they appeared.
    pub fn live_blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        self.books.for_each_live(&mut |block| blocks.push(*block));
        blocks.sort_unstable_by_key(|block| block.id);
        blocks
    }

    /// The `count` largest live blocks of a pool, largest first; of two of a size the older.
    pub fn largest(&self, device: Device, pool: Pool, count: usize) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        self.books.for_each_live(&mut |block| {
            if block.device == device && block.pool == pool {
                blocks.push(*block);
                if blocks.len() >= 2 * count + 64 {
                    keep_largest(&mut blocks, count);
                }
            }
        });
        keep_largest(&mut blocks, count);
        blocks
    }

    /// The pools that had an event, by device and pool.
    pub fn pools(&self) -> Vec<PoolUsage> {
        self.books.pools()
    }

    pub fn pool(&self, device: Device, pool: Pool) -> Option<PoolUsage> {
        self.books.pool(device, pool)
    }

    /// The smallest live block of `device` (any, if that is unknown) around `address`.
    pub fn around(&self, device: Device, address: DevAddr) -> Option<AccessedBlock> {
        self.books.around(device, address)
    }

    /// The live block of the heap that a storage of the host lies in: the same memory, which must not be counted twice. A torch with
    /// an allocator of its own has none.
    pub fn beneath(&self, block: &Block) -> Option<Block> {
        if block.device != Device::Cpu || block.pool != Pool::PtaCaching {
            return None;
        }
        self.books.of_heap_at(HostAddr(block.address))
    }
}

fn keep_largest(blocks: &mut Vec<Block>, count: usize) {
    blocks.sort_unstable_by_key(|block| (Reverse(block.size), block.id));
    blocks.truncate(count);
}

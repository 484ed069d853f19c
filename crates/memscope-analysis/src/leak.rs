//! Blocks that were never freed, by the place that allocated them.
use memscope_model::{Device, LiveBlock, Pool, StackId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What one call stack left behind in one pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leak {
    pub device: Device,
    pub pool: Pool,
    pub stack: StackId,
    pub bytes: u64,
    pub blocks: u64,
    pub largest_block: u64,
    /// When the oldest and the newest of the blocks were allocated.
    pub oldest_ns: u64,
    pub newest_ns: u64,
}

/// The live blocks grouped by device, pool and stack: most bytes first, then most blocks.
pub fn leaks<'b>(live: impl IntoIterator<Item = &'b LiveBlock>) -> Vec<Leak> {
    let mut groups: FxHashMap<(Device, Pool, StackId), Leak> = FxHashMap::default();
    for block in live {
        let LiveBlock { device, pool, stack, size, time_ns, .. } = *block;
        let leak = groups.entry((device, pool, stack)).or_insert(Leak {
            device,
            pool,
            stack,
            bytes: 0,
            blocks: 0,
            largest_block: 0,
            oldest_ns: time_ns,
            newest_ns: time_ns,
        });
        leak.bytes = leak.bytes.saturating_add(size);
        leak.blocks += 1;
        leak.largest_block = leak.largest_block.max(size);
        leak.oldest_ns = leak.oldest_ns.min(time_ns);
        leak.newest_ns = leak.newest_ns.max(time_ns);
    }
    let mut leaks: Vec<Leak> = groups.into_values().collect();
    leaks.sort_unstable_by_key(|leak| (Reverse(leak.bytes), Reverse(leak.blocks), leak.device, leak.pool, leak.stack));
    leaks
}

#[cfg(test)]
mod tests {
    use super::*;
    use memscope_model::{BlockId, Origin};

    #[test]
    fn groups_by_stack_and_puts_the_largest_first() {
        let block = |number: u64, size: u64, stack: u32| LiveBlock {
            block: BlockId(number),
            device: Device::Cpu,
            pool: Pool::Host,
            origin: Origin::Heap,
            address: number << 12,
            size,
            time_ns: 100 + number,
            thread: 1,
            stack: StackId(stack),
        };
        let live = [block(1, 10, 1), block(2, 7, 2), block(3, 20, 2), block(4, 10, 3), block(5, 0, 3)];
        let found = leaks(&live);
        let summary: Vec<_> = found.iter().map(|leak| (leak.stack.0, leak.bytes, leak.blocks)).collect();
        assert_eq!(summary, [(2, 27, 2), (3, 10, 2), (1, 10, 1)]);
        assert_eq!((found[0].largest_block, found[0].oldest_ns, found[0].newest_ns), (20, 102, 103));
    }
}

//! What a device's memory was made of at one moment.
use super::series::{HistoryPoint, Series};
use memscope_model::{Block, Device, OwnerId, Pool, PoolUsage, StackId, TimestampNs};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::hash::Hash;

/// How many stacks are kept of a pool, most bytes first; what the others hold is a sum.
const STACKS: usize = 400;

/// The memory of one device at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Situation {
    /// Of that device, in their order.
    pub pools: Vec<PoolSituation>,
}

/// One of its pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSituation {
    pub usage: PoolUsage,
    /// The largest live blocks, largest first; of two of a size the older.
    pub largest: Vec<Block>,
    /// The newest, newest first.
    pub newest: Vec<Block>,
    /// Who held it, most bytes first.
    pub by_stack: Holders<StackId>,
    pub by_owner: Holders<OwnerId>,
    /// Who held the part that was allocated since [`PoolSituation::lately`].
    pub new_by_stack: Holders<StackId>,
    /// When the last tenth of the time since the pool's first event began.
    pub lately: TimestampNs,
    pub history: Vec<HistoryPoint>,
}

impl PoolSituation {
    /// What the pool has reserved and handed out to nobody; `None` of a pool that does not tell.
    pub fn idle_bytes(&self) -> Option<u64> {
        self.usage.reserved_bytes.map(|reserved| reserved.saturating_sub(self.usage.live_bytes))
    }
}

/// Live blocks by something they have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holders<K> {
    pub first: Vec<Holder<K>>,
    /// Of those that are not among the first.
    pub other_bytes: u64,
    pub other_blocks: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder<K> {
    pub key: K,
    pub bytes: u64,
    pub blocks: u64,
}

impl<K> Holders<K> {
    pub fn bytes(&self) -> u64 {
        self.first.iter().map(|holder| holder.bytes).sum::<u64>() + self.other_bytes
    }

    pub fn blocks(&self) -> u64 {
        self.first.iter().map(|holder| holder.blocks).sum::<u64>() + self.other_blocks
    }
}

/// Sums by key.
struct Sums<K>(FxHashMap<K, (u64, u64)>);

impl<K: Copy + Eq + Hash + Ord> Sums<K> {
    fn new() -> Sums<K> {
        Sums(FxHashMap::default())
    }

    fn add(&mut self, key: K, bytes: u64) {
        let (sum, blocks) = self.0.entry(key).or_default();
        *sum += bytes;
        *blocks += 1;
    }

    fn ranked(self) -> Holders<K> {
        let mut all: Vec<Holder<K>> =
            self.0.into_iter().map(|(key, (bytes, blocks))| Holder { key, bytes, blocks }).collect();
        all.sort_unstable_by_key(|holder| (Reverse(holder.bytes), Reverse(holder.blocks), holder.key));
        let others = all.split_off(all.len().min(STACKS));
        Holders {
            first: all,
            other_bytes: others.iter().map(|holder| holder.bytes).sum(),
            other_blocks: others.iter().map(|holder| holder.blocks).sum(),
        }
    }
}

/// A pool while its blocks pass by.
struct Gathering {
    usage: PoolUsage,
    lately: TimestampNs,
    history: Vec<HistoryPoint>,
    largest: Vec<Block>,
    newest: Vec<Block>,
    by_stack: Sums<StackId>,
    by_owner: Sums<OwnerId>,
    new_by_stack: Sums<StackId>,
}

impl Gathering {
    fn new(usage: PoolUsage, series: Option<&Series>, now: TimestampNs) -> Gathering {
        let start = series.map_or(now, Series::start);
        Gathering {
            usage,
            lately: now.earlier_by(now.since(start) / 10),
            history: series.map(|series| series.points(now)).unwrap_or_default(),
            largest: Vec::new(),
            newest: Vec::new(),
            by_stack: Sums::new(),
            by_owner: Sums::new(),
            new_by_stack: Sums::new(),
        }
    }

    fn add(&mut self, block: &Block, listed: usize) {
        self.by_stack.add(block.made.stack, block.size);
        self.by_owner.add(block.owner, block.size);
        if block.made.time >= self.lately {
            self.new_by_stack.add(block.made.stack, block.size);
        }
        keep(&mut self.largest, block, listed, by_size);
        keep(&mut self.newest, block, listed, by_age);
    }

    fn finish(mut self, listed: usize) -> PoolSituation {
        cut(&mut self.largest, listed, by_size);
        cut(&mut self.newest, listed, by_age);
        PoolSituation {
            usage: self.usage,
            largest: self.largest,
            newest: self.newest,
            by_stack: self.by_stack.ranked(),
            by_owner: self.by_owner.ranked(),
            new_by_stack: self.new_by_stack.ranked(),
            lately: self.lately,
            history: self.history,
        }
    }
}

/// What comes first has the least.
type Rank = fn(&Block) -> (u64, u64);

/// Of two of a size the older comes first.
fn by_size(block: &Block) -> (u64, u64) {
    (u64::MAX - block.size, block.id.0)
}

fn by_age(block: &Block) -> (u64, u64) {
    (u64::MAX - block.id.0, 0)
}

/// Adds a block to a list, of which only the first stay.
fn keep(list: &mut Vec<Block>, block: &Block, listed: usize, rank: Rank) {
    list.push(*block);
    if list.len() >= 2 * listed + 64 {
        cut(list, listed, rank);
    }
}

fn cut(list: &mut Vec<Block>, listed: usize, rank: Rank) {
    list.sort_unstable_by_key(rank);
    list.truncate(listed);
}

/// Hands each live block to the function it is given.
type LiveBlocks<'l> = dyn FnMut(&mut dyn FnMut(&Block)) + 'l;

/// What the blocks of `device`, which `for_each_live` gives among others, come to.
pub(super) fn gather(
    device: Device,
    now: TimestampNs,
    pools: &[PoolUsage],
    for_each_live: &mut LiveBlocks<'_>,
    series: &dyn Fn(Pool) -> Option<Series>,
    listed: usize,
) -> Situation {
    let of_device = pools.iter().filter(|usage| usage.device == device);
    let mut gathered: Vec<Gathering> =
        of_device.map(|usage| Gathering::new(*usage, series(usage.pool).as_ref(), now)).collect();
    for_each_live(&mut |block| {
        if block.device == device
            && let Some(gathering) = gathered.iter_mut().find(|gathering| gathering.usage.pool == block.pool)
        {
            gathering.add(block, listed);
        }
    });
    Situation { pools: gathered.into_iter().map(|gathering| gathering.finish(listed)).collect() }
}

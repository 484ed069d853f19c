//! Memory that was refused: what is told at such a moment besides the refusal itself.
use crate::books::Books;
use crate::outcome::lowest_pool;
use crate::{
    Block, BlockId, Device, Moment, NoteKind, Origin, OutOfMemory, Pool, RefusalList, RefusedCall, SnapshotMemory,
    State, state,
};
use memscope_format::settings::{RecordSettings, analysis};
use std::cmp::Reverse;

/// The name of the snapshot at a refusal.
pub(crate) const SNAPSHOT_AT_REFUSAL: &str = "OOM_Snapshot";
/// The name of the one that follows, when the thread gets memory there again, or at the end.
pub(crate) const SNAPSHOT_AFTER_REFUSAL: &str = "OOM_Snapshot_After";

/// A program may ask again and again; the first refusals tell the story.
pub(crate) const KEPT_REFUSALS: usize = 1000;

/// What a pass remembers of refusals.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) count: u64,
    pub(crate) kept: Vec<OutOfMemory>,
    /// How many blocks a list has; `None` if none was asked for.
    listed: Option<usize>,
    /// How many more refusals get lists: to look at all live blocks takes time.
    lists_left: u32,
    /// Of which device and state of the books the last lists are: again the same is no news.
    last_lists: Option<(Device, u64)>,
    /// Who has not been given memory since.
    unanswered: Vec<Unanswered>,
}

/// A thread that waits for memory of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unanswered {
    thread: u32,
    device: Device,
    /// Storages of tensors are waited for, and no other memory of the host: to say that there is none, torch allocates a lot of that.
    is_for_storages: bool,
}

impl Refusals {
    pub(crate) fn new(settings: &RecordSettings<'_>) -> Refusals {
        const LISTS: u32 = 100;
        let wanted = settings.analysis.unwrap_or(0) & analysis::OUT_OF_MEMORY != 0;
        let listed = wanted.then(|| usize::from(settings.oom_holders.unwrap_or(0))).filter(|count| *count > 0);
        Refusals { listed, lists_left: LISTS, ..Refusals::default() }
    }

    /// How many notes all lists of a recording of so many bytes can come to.
    pub(crate) fn most_listed(&self, recorded_bytes: u64) -> u64 {
        /// No refusal is recorded in fewer bytes.
        const LEAST_REFUSAL_BYTES: u64 = 8;
        let lists = u64::from(self.lists_left).min(recorded_bytes / LEAST_REFUSAL_BYTES);
        self.listed.map_or(0, |count| lists * 2 * count as u64)
    }

    pub(crate) fn add(&mut self, refusal: OutOfMemory) {
        self.count += 1;
        if self.kept.len() < KEPT_REFUSALS {
            self.kept.push(refusal);
        }
        let pool = match refusal.call {
            RefusedCall::Pool(pool) => pool,
            _ => lowest_pool(refusal.device),
        };
        let who = Unanswered::new(refusal.thread, refusal.device, pool);
        if !self.unanswered.contains(&who) {
            self.unanswered.push(who);
        }
    }

    /// Whether anybody waits for memory that was refused.
    #[inline]
    pub(crate) fn is_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Whether the thread was refused memory of the device and is given some now.
    pub(crate) fn answer(&mut self, thread: u32, device: Device, pool: Pool) -> bool {
        let given = Unanswered::new(thread, device, pool);
        let place = self.unanswered.iter().position(|who| *who == given);
        place.map(|place| self.unanswered.swap_remove(place)).is_some()
    }

    /// At the end: those who were given nothing any more.
    pub(crate) fn take_unanswered(&mut self) -> Vec<(u32, Device)> {
        std::mem::take(&mut self.unanswered).into_iter().map(|who| (who.thread, who.device)).collect()
    }

    /// The newest and the largest blocks of the device, if they are asked for: newest and largest first. Of memory that is a storage of
    /// a tensor, the storage.
    pub(crate) fn lists(&mut self, device: Device, books: &Books) -> Vec<(RefusalList, Block)> {
        let state = (device, books.counts.mallocs + books.counts.frees);
        let Some(count) = self.listed.filter(|_| self.lists_left > 0 && self.last_lists != Some(state)) else {
            return Vec::new();
        };
        self.lists_left -= 1;
        self.last_lists = Some(state);
        let (mut newest, mut largest) = (Vec::new(), Vec::new());
        state::Books::for_each_live(&books.view(), &mut |block| {
            let carries_storage = block.origin == Origin::Heap && books.devices.has_storage_at(block.address);
            if block.device == device && !carries_storage {
                for (blocks, rank) in [(&mut newest, by_age as Rank), (&mut largest, by_size as Rank)] {
                    blocks.push(*block);
                    if blocks.len() >= 2 * count + 64 {
                        keep_first(blocks, count, rank);
                    }
                }
            }
        });
        keep_first(&mut newest, count, by_age);
        keep_first(&mut largest, count, by_size);
        let tagged = |list| move |block| (list, block);
        let newest = newest.into_iter().map(tagged(RefusalList::Newest));
        newest.chain(largest.into_iter().map(tagged(RefusalList::Largest))).collect()
    }
}

impl Unanswered {
    fn new(thread: u32, device: Device, pool: Pool) -> Unanswered {
        Unanswered { thread, device, is_for_storages: device == Device::Cpu && pool == Pool::PtaCaching }
    }
}

type Rank = fn(&Block) -> (Reverse<u64>, BlockId);

fn by_age(block: &Block) -> (Reverse<u64>, BlockId) {
    (Reverse(block.id.0), block.id)
}

fn by_size(block: &Block) -> (Reverse<u64>, BlockId) {
    (Reverse(block.size), block.id)
}

fn keep_first(blocks: &mut Vec<Block>, count: usize, rank: Rank) {
    blocks.sort_unstable_by_key(rank);
    blocks.truncate(count);
}

/// A block of a list as a note, at the moment of the refusal, but with the stack and thread that allocated it.
pub(crate) fn listed(now: Moment, list: RefusalList, block: &Block, state: &State<'_>) -> (Moment, NoteKind<'static>) {
    let Moment { thread, stack, time, step, .. } = block.made;
    let kind = NoteKind::LiveAtRefusal {
        list,
        pool: block.pool,
        address: block.address,
        size: block.size,
        made: time,
        step: state.steps.number(step),
    };
    (Moment { thread, stack, ..now }, kind)
}

/// What is in use of a device: see [`SnapshotMemory`].
pub(crate) fn snapshot(device: Device, books: &Books) -> SnapshotMemory {
    match device {
        Device::Cpu => books.host.usage().map_or_else(SnapshotMemory::default, |usage| SnapshotMemory::of(&usage)),
        device => books.devices.snapshot(device),
    }
}

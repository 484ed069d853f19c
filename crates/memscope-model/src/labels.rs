//! What the program calls its memory: labels of threads and of blocks, and the owners they make.
//!
//! An owner's words are its pool, the label of each level, the user's labels from the outermost to the innermost, and the one
//! that was given to the block itself. A block has from its beginning the labels it is given until its end: they are found in a
//! pass before the one that hands out events, as [`LateOwners`].
use crate::phases::{Phase, Phases, Purpose};
use crate::{Block, BlockId, NameId, Names, OwnerId, Owners, Pool};
use memscope_format::record::LabelLevel;
use rustc_hash::FxHashMap;

/// Levels of which each has one label at a time.
const LEVELS: usize = LabelLevel::User as usize;
/// Labels of one owner, and bytes of its words: whoever opens windows and never closes them has no use for more.
const MOST_NESTED: u32 = 1000;
const LONGEST_OWNER: usize = 4096;
/// Bytes of all owners that labels make; recordings may be anybody's.
const MOST_OWNER_BYTES: usize = 256 << 20;
/// What stands in place of the pool's name in words of host memory, which has no owner of its own.
const HOST: &str = "HOST";

/// A combination of labels, by its number. 0 is none at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LabelSetId(u32);

/// The user's labels that were open, by the number of the innermost. 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct NestId(u32);

#[derive(Clone, Copy, Debug, Default)]
struct Nest {
    outer: NestId,
    label: Option<NameId>,
    depth: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct LabelSet {
    levels: [Option<NameId>; LEVELS],
    nest: NestId,
    /// The user's label of the block itself.
    own: Option<NameId>,
}

/// The owners of blocks that were labelled after their allocation, and the words they are numbered in.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateOwners {
    pub(crate) words: Owners,
    of_blocks: FxHashMap<BlockId, OwnerId>,
}

impl LateOwners {
    /// The owner of a block that would have been `owner`'s.
    #[inline]
    pub(crate) fn of(&self, block: BlockId, owner: OwnerId) -> OwnerId {
        if self.of_blocks.is_empty() {
            return owner;
        }
        self.of_blocks.get(&block).copied().unwrap_or(owner)
    }
}

/// All labels of a recording so far.
#[derive(Debug)]
pub(crate) struct Labels {
    /// Those of the thread at work.
    current: LabelSetId,
    /// Those of the thread it works for, which memory of pools has if it has none of its own.
    of_waiting: LabelSetId,
    /// Those of threads that wait for a backward pass.
    waiting: FxHashMap<u32, LabelSetId>,
    phases: Phases,
    texts: Names,
    sets: Vec<LabelSet>,
    set_ids: FxHashMap<LabelSet, LabelSetId>,
    nests: Vec<Nest>,
    nest_ids: FxHashMap<(NestId, NameId), NestId>,
    owners: FxHashMap<(OwnerId, LabelSetId), OwnerId>,
    owner_bytes: usize,
    collected: Option<Collected>,
}

/// In the pass that looks for labels of blocks.
#[derive(Debug, Default)]
struct Collected {
    /// Of live blocks that have any.
    sets: FxHashMap<BlockId, LabelSetId>,
    owners: FxHashMap<BlockId, OwnerId>,
}

impl Labels {
    /// `collects`: labels of blocks are looked for.
    pub(crate) fn new(collects: bool) -> Labels {
        Labels {
            current: LabelSetId::default(),
            of_waiting: LabelSetId::default(),
            waiting: FxHashMap::default(),
            phases: Phases::default(),
            texts: Names::default(),
            sets: vec![LabelSet::default()],
            set_ids: FxHashMap::from_iter([(LabelSet::default(), LabelSetId::default())]),
            nests: vec![Nest::default()],
            nest_ids: FxHashMap::default(),
            owners: FxHashMap::default(),
            owner_bytes: 0,
            collected: collects.then(Collected::default),
        }
    }

    /// A label's number; `None` of one that says nothing.
    pub(crate) fn intern(&mut self, text: &str) -> Option<NameId> {
        if text.is_empty() {
            return None;
        }
        if !text.contains(char::is_control) {
            return Some(self.texts.intern(text));
        }
        // A line's end in a label is no line's end in a file.
        let escaped = |character: char| match character.is_control() {
            true => character.escape_default().to_string(),
            false => character.to_string(),
        };
        Some(self.texts.intern(&text.chars().map(escaped).collect::<String>()))
    }

    /// A thread is at work, in which these labels are open.
    #[inline]
    pub(crate) fn turn_to(&mut self, thread: u32, open: LabelSetId) {
        self.current = open;
        self.of_waiting = match self.waiting.is_empty() {
            true => open,
            false => self.of_waiting(thread, open),
        };
    }

    fn of_waiting(&self, thread: u32, open: LabelSetId) -> LabelSetId {
        let waiting = self.phases.waits_for(thread).filter(|_| open == LabelSetId::default());
        waiting.and_then(|waiting| self.waiting.get(&waiting).copied()).unwrap_or(open)
    }

    /// The labels that memory of the thread at work has; memory that belongs to nobody, such as the heap's, only its own.
    fn of_owner(&self, owner: OwnerId) -> LabelSetId {
        if owner == OwnerId::NONE { self.current } else { self.of_waiting }
    }

    /// Whose a block of the thread at work is, which without labels were `owner`'s.
    #[inline]
    pub(crate) fn owner_now(&mut self, owner: OwnerId, words: &mut Owners) -> OwnerId {
        let set = self.of_owner(owner);
        if set == LabelSetId::default() {
            return owner;
        }
        self.owner(owner, set, words)
    }

    /// The thread begins a phase of a training, with these labels open; what is no phase we know says nothing.
    pub(crate) fn phase_start(&mut self, thread: u32, label: NameId, open: LabelSetId) {
        let Some(phase) = self.phase(label) else { return };
        self.phases.start(thread, phase);
        if phase == Phase::Backward {
            self.waiting.insert(thread, open);
        }
    }

    pub(crate) fn phase_end(&mut self, thread: u32, label: NameId) {
        let Some(phase) = self.phase(label) else { return };
        self.phases.end(thread, phase);
        if phase == Phase::Backward && !self.phases.is_waiting(thread) {
            self.waiting.remove(&thread);
        }
    }

    fn phase(&self, label: NameId) -> Option<Phase> {
        self.texts.get(label).and_then(|label| Phase::from_label(label.text))
    }

    fn owner(&mut self, base: OwnerId, set: LabelSetId, words: &mut Owners) -> OwnerId {
        if let Some(known) = self.owners.get(&(base, set)) {
            return *known;
        }
        let text = self.text(words.name(base).unwrap_or(HOST), set);
        let owner = match words.find(&text) {
            Some(known) => known,
            None if self.owner_bytes + text.len() > MOST_OWNER_BYTES => return base,
            None => {
                self.owner_bytes += text.len();
                words.intern(&text)
            }
        };
        self.owners.insert((base, set), owner);
        owner
    }

    /// The words of an owner, as many as there may be.
    fn text(&self, base: &str, set: LabelSetId) -> String {
        let Some(LabelSet { levels, nest, own }) = self.sets.get(set.0 as usize) else { return base.to_owned() };
        let mut nested = Vec::new();
        let mut at = *nest;
        while let Some(Nest { outer, label: Some(label), .. }) = self.nests.get(at.0 as usize) {
            nested.push(*label);
            at = *outer;
        }
        let labels = levels.iter().flatten().chain(nested.iter().rev()).chain(own);
        let mut text = base.to_owned();
        for label in labels.filter_map(|label| self.texts.get(*label)) {
            if text.len() + 1 + label.text.len() > LONGEST_OWNER {
                break;
            }
            text.push('@');
            text.push_str(label.text);
        }
        text
    }

    fn intern_set(&mut self, set: LabelSet) -> LabelSetId {
        *self.set_ids.entry(set).or_insert_with(|| {
            self.sets.push(set);
            LabelSetId(self.sets.len() as u32 - 1)
        })
    }

    /// One label further in; beyond what an owner may have, the same.
    fn nest(&mut self, outer: NestId, label: NameId) -> NestId {
        let depth = self.nests.get(outer.0 as usize).map_or(0, |nest| nest.depth) + 1;
        if depth > MOST_NESTED {
            return outer;
        }
        *self.nest_ids.entry((outer, label)).or_insert_with(|| {
            self.nests.push(Nest { outer, label: Some(label), depth });
            NestId(self.nests.len() as u32 - 1)
        })
    }

    pub(crate) fn collects(&self) -> bool {
        self.collected.is_some()
    }

    /// A block was allocated by the thread at work.
    #[inline]
    pub(crate) fn allocated(&mut self, block: &Block) {
        let set = self.of_owner(OwnerId::of(block.pool, block.origin));
        let Some(collected) = &mut self.collected else { return };
        if set != LabelSetId::default() {
            collected.sets.insert(block.id, set);
        }
        if block.pool == Pool::PtaCaching {
            self.phases.allocated(block.id, block.made.thread);
        }
    }

    #[inline]
    pub(crate) fn freed(&mut self, block: &Block, words: &mut Owners) {
        if self.collected.is_none() {
            return;
        }
        if let Some(purpose) = self.phases.freed(block.id) {
            self.conclude(block, purpose, words);
        }
        if let Some(Collected { sets, .. }) = &mut self.collected
            && !sets.is_empty()
        {
            sets.remove(&block.id);
        }
    }

    /// An operator reads a block; blocks of pools alone are looked at.
    pub(crate) fn read(&mut self, block: BlockId, thread: u32) {
        if self.collects() {
            self.phases.read(block, thread);
        }
    }

    /// Blocks that will not be freed any more, and whose purpose shows all the same.
    pub(crate) fn conclude_alive(&mut self, block_of: impl Fn(BlockId) -> Option<Block>, words: &mut Owners) {
        for block in self.phases.alive().into_iter().filter_map(block_of) {
            self.conclude(&block, Purpose::Activation, words);
        }
    }

    /// What nobody has said of a block shows by its life. A process that is called the same says it already.
    fn conclude(&mut self, block: &Block, purpose: Purpose, words: &mut Owners) {
        let Some(label) = self.intern(purpose.label()) else { return };
        let Some(Collected { sets, .. }) = &self.collected else { return };
        let set = sets.get(&block.id).and_then(|set| self.sets.get(set.0 as usize)).copied().unwrap_or_default();
        let said = [LabelLevel::Process, LabelLevel::Detail1].map(|level| set.levels[level as usize]);
        if said[1].is_none() && said[0] != Some(label) {
            self.label(block, LabelLevel::Detail1, label, words);
        }
    }

    /// A live block is labelled.
    pub(crate) fn label(&mut self, block: &Block, level: LabelLevel, label: NameId, words: &mut Owners) {
        let Some(Collected { sets, .. }) = &self.collected else { return };
        let old = sets.get(&block.id).copied().unwrap_or_default();
        let mut set = self.sets.get(old.0 as usize).copied().unwrap_or_default();
        match set.levels.get_mut(level as usize) {
            Some(place) => *place = Some(label),
            None => set.own = Some(label),
        }
        let set = self.intern_set(set);
        let owner = self.owner(OwnerId::of(block.pool, block.origin), set, words);
        if let Some(Collected { sets, owners }) = &mut self.collected {
            sets.insert(block.id, set);
            owners.insert(block.id, owner);
        }
    }

    /// What was found, with the words it is in.
    pub(crate) fn take_late(&mut self, words: Owners) -> LateOwners {
        LateOwners { words, of_blocks: self.collected.take().unwrap_or_default().owners }
    }
}

/// The labels that are open in a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    thread: u32,
    /// Of each level, with how often it was opened again while it was the innermost.
    levels: [Vec<(NameId, u32)>; LEVELS],
    /// With what it makes together with those further out.
    user: Vec<(NameId, NestId)>,
    set: LabelSetId,
}

impl Windows {
    /// What a block of this thread is labelled with. What an earlier thread of the lane left open is not its own.
    #[inline]
    pub(crate) fn of(&mut self, thread: u32) -> LabelSetId {
        if self.set != LabelSetId::default() && self.thread != thread {
            *self = Windows::default();
        }
        self.set
    }

    pub(crate) fn start(&mut self, thread: u32, level: LabelLevel, label: NameId, labels: &mut Labels) {
        if self.thread != thread {
            *self = Windows { thread, ..Windows::default() };
        }
        match self.levels.get_mut(level as usize) {
            Some(open) => match open.last_mut() {
                Some((innermost, times)) if *innermost == label => *times += 1,
                _ => open.push((label, 1)),
            },
            None => {
                let outer = self.user.last().map(|(_, nest)| *nest).unwrap_or_default();
                let nest = labels.nest(outer, label);
                self.user.push((label, nest));
            }
        }
        self.settle(labels);
    }

    /// Ends the innermost of its name, if there is one.
    pub(crate) fn end(&mut self, thread: u32, level: LabelLevel, label: NameId, labels: &mut Labels) {
        if self.thread != thread {
            return;
        }
        match self.levels.get_mut(level as usize) {
            Some(open) => {
                let Some(place) = open.iter().rposition(|(known, _)| *known == label) else { return };
                open[place].1 -= 1;
                if open[place].1 == 0 {
                    open.remove(place);
                }
            }
            None => {
                let Some(place) = self.user.iter().rposition(|(known, _)| *known == label) else { return };
                self.user.remove(place);
                let mut outer = place.checked_sub(1).map(|before| self.user[before].1).unwrap_or_default();
                for (label, nest) in &mut self.user[place..] {
                    *nest = labels.nest(outer, *label);
                    outer = *nest;
                }
            }
        }
        self.settle(labels);
    }

    fn settle(&mut self, labels: &mut Labels) {
        let mut set =
            LabelSet { nest: self.user.last().map(|(_, nest)| *nest).unwrap_or_default(), ..LabelSet::default() };
        for (place, open) in set.levels.iter_mut().zip(&self.levels) {
            *place = open.last().map(|(label, _)| *label);
        }
        self.set = labels.intern_set(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Moment, Origin, Pool};
    use LabelLevel::{Component, Detail1, Detail2, Framework, Process, User};

    struct Thread {
        windows: Windows,
        labels: Labels,
        words: Owners,
    }

    impl Thread {
        fn new() -> Thread {
            Thread { windows: Windows::default(), labels: Labels::new(true), words: Owners::default() }
        }

        fn start(&mut self, level: LabelLevel, text: &str) -> &mut Thread {
            let label = self.labels.intern(text).expect("a label");
            self.windows.start(1, level, label, &mut self.labels);
            self
        }

        fn end(&mut self, level: LabelLevel, text: &str) -> &mut Thread {
            let label = self.labels.intern(text).expect("a label");
            self.windows.end(1, level, label, &mut self.labels);
            self
        }

        fn owner_of(&mut self, pool: Pool) -> String {
            let open = self.windows.of(1);
            self.labels.turn_to(1, open);
            let owner = self.labels.owner_now(OwnerId::of(pool, Origin::Region), &mut self.words);
            self.words.name(owner).unwrap_or("nobody").to_owned()
        }

        fn owner(&mut self) -> String {
            self.owner_of(Pool::PtaCaching)
        }
    }

    fn block(id: u64) -> Block {
        Block {
            id: BlockId(id),
            device: Device::Npu(0),
            pool: Pool::PtaCaching,
            origin: Origin::Region,
            address: 0x1000,
            size: 64,
            made: Moment::default(),
            owner: OwnerId::NONE,
        }
    }

    #[test]
    fn words_are_in_the_order_of_levels_whatever_the_order_of_labels() {
        let mut thread = Thread::new();
        assert_eq!((thread.owner(), thread.owner_of(Pool::Host)), ("PTA".to_owned(), "nobody".to_owned()));
        thread.start(User, "mine").start(Detail2, "d2").start(Detail1, "d1").start(Process, "serve");
        thread.start(Component, "vllm").start(Framework, "torch").start(User, "inner");
        assert_eq!(thread.owner(), "PTA@torch@vllm@serve@d1@d2@mine@inner");
        assert_eq!(thread.owner_of(Pool::Host), "HOST@torch@vllm@serve@d1@d2@mine@inner");
        thread.end(Process, "serve").end(User, "mine");
        assert_eq!(thread.owner(), "PTA@torch@vllm@d1@d2@inner");
    }

    #[test]
    fn a_level_has_its_innermost_label_and_the_same_again_counts_once() {
        let mut thread = Thread::new();
        thread.start(Process, "forward").start(Process, "forward").start(Process, "loss");
        assert_eq!(thread.owner(), "PTA@loss");
        thread.end(Process, "loss");
        assert_eq!(thread.owner(), "PTA@forward");
        thread.end(Process, "forward");
        assert_eq!(thread.owner(), "PTA@forward");
        thread.end(Process, "forward").end(Process, "forward");
        assert_eq!(thread.owner(), "PTA");
    }

    #[test]
    fn labels_of_users_nest_as_deep_as_they_are_given() {
        let mut thread = Thread::new();
        for _ in 0..100 {
            thread.start(User, "same");
        }
        assert_eq!(thread.owner().matches("@same").count(), 100);
        for _ in 0..99 {
            thread.end(User, "same");
        }
        assert_eq!(thread.owner(), "PTA@same");
        thread.start(User, "a").start(User, "b").start(User, "c").end(User, "a").end(User, "never begun");
        assert_eq!(thread.owner(), "PTA@same@b@c");
    }

    #[test]
    fn windows_that_are_never_closed_take_no_end_of_memory() {
        let mut thread = Thread::new();
        for _ in 0..20_000 {
            thread.start(User, "leaked");
            thread.owner();
        }
        assert!(thread.owner().len() <= LONGEST_OWNER);
        assert!(thread.labels.nests.len() <= MOST_NESTED as usize + 1);
        for _ in 0..20_000 {
            thread.end(User, "leaked");
        }
        assert_eq!(thread.owner(), "PTA");
    }

    #[test]
    fn what_a_thread_left_open_is_not_the_next_ones() {
        let mut thread = Thread::new();
        thread.start(User, "mine");
        assert_ne!(thread.windows.of(1), LabelSetId::default());
        assert_eq!(thread.windows.of(2), LabelSetId::default());
    }

    #[test]
    fn a_blocks_own_label_comes_last_and_a_new_one_of_its_level_replaces_it() {
        let mut thread = Thread::new();
        thread.start(User, "init").owner();
        let Thread { labels, words, .. } = &mut thread;
        labels.allocated(&block(1));
        let [weight, kept, cache] = ["weight", "kept", "cache"].map(|text| labels.intern(text).expect("a label"));
        labels.label(&block(1), Detail1, weight, words);
        labels.label(&block(1), User, kept, words);
        labels.label(&block(2), User, kept, words);
        labels.label(&block(1), User, cache, words);
        labels.freed(&block(2), words);
        labels.label(&block(3), User, cache, words);
        let late = labels.take_late(words.clone());
        let named = |id| late.words.name(late.of(BlockId(id), OwnerId::NONE)).map(str::to_owned);
        assert_eq!(named(1).as_deref(), Some("PTA@weight@init@cache"));
        assert_eq!((named(2).as_deref(), named(3).as_deref()), (Some("PTA@kept"), Some("PTA@cache")));
        assert_eq!(late.of(BlockId(4), OwnerId(5)), OwnerId(5));
    }

    #[test]
    fn what_would_end_a_line_is_escaped_and_no_text_is_no_label() {
        let mut thread = Thread::new();
        assert_eq!(thread.labels.intern(""), None);
        assert_eq!(thread.start(User, "a\nb\t\u{6743}").owner(), "PTA@a\\nb\\t\u{6743}");
    }
}

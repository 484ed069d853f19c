//! Stacks as a prefix tree: a node is a parent node and a frame, so a stack is the number of its innermost node.
//!
//! Numbers are dense from 1 in order of creation and never reused, so that a definition in the spool holds for ever, even
//! after [`Tree::forget`]. Most nodes have one child, and a stack's nodes were made one after the other: so the first
//! child of a node is kept in an array indexed by the node's number, and looking a stack up runs through neighbouring
//! memory (a hash table alone misses the cache at each frame; measured in torch, that was half the cost of a stack).
//! Further children are in an open-addressing table, doubled when three quarters full; those asked for lately are also in a
//! small one in front of it, because a program's start leaves a table of megabytes of which its loop then uses a
//! thousand entries, each in a cache line and a page of its own.
//!
//! Both are anonymous memory of the lane's own, and bounded: when one is full all nodes are forgotten, and those that
//! come again are defined again. The recorder forgets all before that, with what else refers to nodes, so that a reader can, too.
use core::ptr::NonNull;

/// The number of a node within its lane; 0 is "no stack".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    pub const NONE: NodeId = NodeId(0);
}

/// A frame as a table key: any 64 bits that tell frames apart, the two top bits being the kind of frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameKey(u64);

impl FrameKey {
    /// A native frame; user-space addresses leave the top bits free.
    pub fn c(return_address: usize) -> FrameKey {
        FrameKey(return_address as u64 & (u64::MAX >> 2))
    }

    pub fn python(code: u32, instruction: u32) -> FrameKey {
        FrameKey(1 << 62 | (u64::from(code) << 30) | u64::from(instruction & 0x3fff_ffff))
    }
}

/// The answer of [`Tree::intern`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interned {
    Known(NodeId),
    /// Just created: the caller must define it in the spool.
    New(NodeId),
    /// No memory for another node.
    Full,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    key: FrameKey,
    parent: NodeId,
    /// `NONE` marks an empty entry.
    id: NodeId,
}

impl Entry {
    const NONE: Entry = Entry { key: FrameKey(0), parent: NodeId::NONE, id: NodeId::NONE };

    #[inline]
    fn is_of(&self, parent: NodeId, key: FrameKey) -> bool {
        self.key == key && self.parent == parent && self.id != NodeId::NONE
    }
}

/// Nodes between two forgettings, and bytes of the array of first children, of which only touched pages exist. The start
/// of a large program (a million constructors, each from a place of its own) goes through more nodes than that, most of
/// them once; what is in use afterwards is a fraction.
const MOST_NODES: usize = 1 << 18;
const FIRST_CHILDREN_BYTES: usize = MOST_NODES * size_of::<Entry>();

/// Entries of the table of further children, at first (a page) and at most (4 MiB).
const FIRST_CAPACITY: usize = 256;
const LAST_CAPACITY: usize = 1 << 18;

/// Further children in front of the large table.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 11;
/// So many of them as long as there are few, so that a short thread touches few pages.
const FIRST_RECENT: usize = 64;

/// Zeroed memory is an empty tree.
pub struct Tree {
    /// By number of the parent less `forgotten`; nodes without parent are children of 0.
    first_children: Option<NonNull<Entry>>,
    further: Option<NonNull<Entry>>,
    /// Number of entries of `further` less one; the number is a power of two.
    mask: usize,
    used: usize,
    last_id: u32,
    /// The last number given before the tree was last forgotten.
    forgotten: u32,
    /// Which of the places below are in use besides the first ones.
    further_recent: usize,
    /// By hash; the newest of those that share a place.
    recent: [Entry; RECENT],
}

impl Tree {
    /// So many nodes it holds, whatever they are, before it forgets them.
    pub const HELD: u32 = (MOST_NODES / 4 * 3) as u32;

    /// An empty tree; takes memory with the first node.
    pub const fn new() -> Tree {
        Tree {
            first_children: None,
            further: None,
            mask: 0,
            used: 0,
            last_id: 0,
            forgotten: 0,
            further_recent: 0,
            recent: [Entry::NONE; RECENT],
        }
    }

    /// Finds or creates the child of `parent` for `key`.
    #[inline]
    pub fn intern(&mut self, parent: NodeId, key: FrameKey) -> Interned {
        if let Some(first_children) = self.first_children
            && let Some(index) = self.index_of(parent)
        {
            // SAFETY: `index_of` gives indices below MOST_NODES, which is what the array was mapped for; only this lane's
            // thread uses it.
            let entry = unsafe { &*first_children.as_ptr().add(index) };
            if entry.key == key && entry.id != NodeId::NONE {
                return Interned::Known(entry.id);
            }
        }
        let hash = hash(parent, key);
        match self.recent.get(self.recent_place(hash)) {
            Some(entry) if entry.is_of(parent, key) => Interned::Known(entry.id),
            _ => self.intern_further(parent, key, hash),
        }
    }

    /// The place of a node's first child; `None` for a parent from before the last forgetting.
    #[inline]
    fn index_of(&self, parent: NodeId) -> Option<usize> {
        let index = match parent {
            NodeId::NONE => 0,
            NodeId(number) => number.checked_sub(self.forgotten).filter(|index| *index != 0)? as usize,
        };
        (index < MOST_NODES).then_some(index)
    }

    /// The top bits: the large table goes by the low ones.
    #[inline]
    fn recent_place(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - RECENT_BITS)) as usize & self.recent_mask()
    }

    #[inline]
    fn recent_mask(&self) -> usize {
        self.further_recent | (FIRST_RECENT - 1)
    }

    #[inline(never)]
    fn intern_further(&mut self, parent: NodeId, key: FrameKey, hash: u64) -> Interned {
        if (self.last_id - self.forgotten) as usize + 1 >= MOST_NODES {
            self.forget();
        }
        if self.first_children.is_none() {
            let Ok(memory) = memscope_sys::map_own(FIRST_CHILDREN_BYTES) else { return Interned::Full };
            self.first_children = Some(memory.cast());
        }
        if let Some(first_children) = self.first_children
            && let Some(index) = self.index_of(parent)
        {
            // SAFETY: as in `intern`.
            let entry = unsafe { &mut *first_children.as_ptr().add(index) };
            if entry.id == NodeId::NONE {
                self.last_id += 1;
                *entry = Entry { key, parent, id: NodeId(self.last_id) };
                return Interned::New(entry.id);
            }
        }
        if self.used * 4 >= self.mask * 3 && !self.grow() {
            return Interned::Full;
        }
        let Some(entries) = self.further else { return Interned::Full };
        let mut at = hash as usize & self.mask;
        let (found, is_new) = loop {
            // SAFETY: `at` is masked to the table, which `grow` mapped whole; only this lane's thread uses it.
            let entry = unsafe { &mut *entries.as_ptr().add(at) };
            if entry.id == NodeId::NONE {
                self.last_id += 1;
                self.used += 1;
                *entry = Entry { key, parent, id: NodeId(self.last_id) };
                break (*entry, true);
            }
            if entry.is_of(parent, key) {
                break (*entry, false);
            }
            at = (at + 1) & self.mask;
        };
        if self.used == FIRST_RECENT {
            self.further_recent = RECENT - 1;
        }
        let place = self.recent_place(hash);
        if let Some(place) = self.recent.get_mut(place) {
            *place = found;
        }
        if is_new { Interned::New(found.id) } else { Interned::Known(found.id) }
    }

    /// Forgets all nodes but not which numbers were given: after a library was unloaded, the same address may mean
    /// another function.
    #[cold]
    pub fn forget(&mut self) {
        if let Some(first_children) = self.first_children.take() {
            // SAFETY: mapped by `intern_further` with this length; nothing refers to it any more.
            unsafe { memscope_sys::unmap_own(first_children.cast(), FIRST_CHILDREN_BYTES) };
        }
        if let Some(entries) = self.further {
            // SAFETY: the table is `mask + 1` entries long, and zero bytes are empty entries.
            unsafe { entries.as_ptr().write_bytes(0, self.mask + 1) };
        }
        // Others were never written.
        let used = self.recent_mask() + 1;
        for entry in self.recent.iter_mut().take(used) {
            *entry = Entry::NONE;
        }
        self.used = 0;
        self.forgotten = self.last_id;
    }

    #[cold]
    fn grow(&mut self) -> bool {
        let capacity = if self.further.is_none() { FIRST_CAPACITY } else { (self.mask + 1) * 2 };
        if capacity > LAST_CAPACITY {
            // The parent of the node at hand is forgotten too; its number still holds.
            self.forget();
            return true;
        }
        let Ok(memory) = memscope_sys::map_own(capacity * size_of::<Entry>()) else {
            // Probing needs one empty entry to end at; up to that the old table still serves.
            return self.further.is_some() && self.used < self.mask;
        };
        let entries = memory.cast::<Entry>();
        let mask = capacity - 1;
        if let Some(old) = self.further {
            for i in 0..=self.mask {
                // SAFETY: both tables are mapped whole and indices stay below their capacities.
                unsafe {
                    let entry = *old.as_ptr().add(i);
                    if entry.id != NodeId::NONE {
                        let mut at = hash(entry.parent, entry.key) as usize & mask;
                        while (*entries.as_ptr().add(at)).id != NodeId::NONE {
                            at = (at + 1) & mask;
                        }
                        *entries.as_ptr().add(at) = entry;
                    }
                }
            }
            // SAFETY: the old table was mapped by an earlier `grow` and nothing refers to it any more.
            unsafe { memscope_sys::unmap_own(old.cast(), (self.mask + 1) * size_of::<Entry>()) };
        }
        self.further = Some(entries);
        self.mask = mask;
        true
    }
}

impl Default for Tree {
    fn default() -> Self {
        Tree::new()
    }
}

#[inline]
fn hash(parent: NodeId, key: FrameKey) -> u64 {
    let mixed = (key.0 ^ (u64::from(parent.0) << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_child_same_number_and_numbers_survive_growth() {
        let mut tree = Box::new(Tree::new());
        let mut ids = std::vec::Vec::new();
        for i in 0..10_000usize {
            let parent = NodeId((i / 7) as u32);
            match tree.intern(parent, FrameKey::c(0x7f00_0000_0000 + i * 5)) {
                Interned::New(id) => ids.push((parent, i, id)),
                other => panic!("{other:?}"),
            }
        }
        for (n, (parent, i, id)) in ids.into_iter().enumerate() {
            assert_eq!(id.0 as usize, n + 1);
            assert_eq!(tree.intern(parent, FrameKey::c(0x7f00_0000_0000 + i * 5)), Interned::Known(id));
        }
    }

    #[test]
    fn kinds_and_parents_are_told_apart() {
        let mut tree = Box::new(Tree::new());
        let keys = [FrameKey::c(77), FrameKey::python(0, 77), FrameKey::python(77, 0)];
        for parent in [NodeId::NONE, NodeId(1)] {
            for key in keys {
                assert!(matches!(tree.intern(parent, key), Interned::New(_)));
            }
        }
    }

    #[test]
    fn a_full_tree_begins_anew_and_goes_on_counting() {
        // A bush, all further children of one parent, and a chain, all first children.
        for chain in [false, true] {
            let mut tree = Box::new(Tree::new());
            let nodes = 3 * MOST_NODES;
            for number in 1..=nodes {
                let parent = if chain { NodeId(number as u32 - 1) } else { NodeId::NONE };
                assert_eq!(tree.intern(parent, FrameKey::c(number)), Interned::New(NodeId(number as u32)));
            }
            assert!(tree.mask < LAST_CAPACITY);
            let parent = if chain { NodeId(nodes as u32 - 1) } else { NodeId::NONE };
            assert_eq!(tree.intern(parent, FrameKey::c(nodes)), Interned::Known(NodeId(nodes as u32)));
            assert_eq!(tree.intern(NodeId::NONE, FrameKey::c(1)), Interned::New(NodeId(nodes as u32 + 1)));
        }
    }

    #[test]
    fn so_many_nodes_are_held_whatever_they_are() {
        for chain in [false, true] {
            let mut tree = Box::new(Tree::new());
            let parent = |number: u32| if chain { NodeId(number - 1) } else { NodeId::NONE };
            for number in 1..=Tree::HELD {
                assert_eq!(tree.intern(parent(number), FrameKey::c(number as usize)), Interned::New(NodeId(number)));
            }
            assert_eq!(tree.intern(parent(1), FrameKey::c(1)), Interned::Known(NodeId(1)));
        }
    }

    #[test]
    fn forgotten_nodes_get_new_numbers() {
        let mut tree = Box::new(Tree::new());
        assert_eq!(tree.intern(NodeId::NONE, FrameKey::c(1)), Interned::New(NodeId(1)));
        tree.forget();
        assert_eq!(tree.intern(NodeId::NONE, FrameKey::c(1)), Interned::New(NodeId(2)));
    }
}

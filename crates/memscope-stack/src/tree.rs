//! Stacks as a prefix tree: a node is a parent node and a frame, so a stack is the number of its innermost node.
//!
//! Numbers are dense from 1 in order of creation and never reused, so that a definition in the spool holds for ever, even
//! after [`Tree::forget`]. Most nodes have one child, and a stack's nodes were made one after the other: so the first
//! child of a node is kept in an array indexed by the node's number, and looking a stack up runs through neighbouring
//! memory (a hash table alone misses the cache at each frame; measured in torch, that was half the cost of a stack).
//! Further children are in a hash table; those asked for lately are also in a small one in front of it, because a program's
//! start leaves a table of megabytes of which its loop then uses a thousand entries, each in a cache line and a page of its
//! own.
//!
//! Both are anonymous memory of the lane's own, and bounded: when there are many nodes the tree is no longer
//! [usable](Tree::is_usable_in). All nodes are to be forgotten then, and those that come again are defined again.
use crate::tables::{Entry, Keyed, Lookup, Sets, Table, hash};
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

/// A node, found by its parent and frame.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Child {
    key: FrameKey,
    parent: NodeId,
    /// `NONE` marks an empty entry.
    id: NodeId,
}

// SAFETY: integers, and no child has the number 0.
unsafe impl Entry for Child {}

impl Keyed for Child {
    fn is_none(&self) -> bool {
        self.id == NodeId::NONE
    }

    fn hash(&self) -> u64 {
        hash_of(self.parent, self.key)
    }
}

impl Child {
    #[inline]
    fn is_of(&self, parent: NodeId, key: FrameKey) -> bool {
        self.key == key && self.parent == parent && !self.is_none()
    }
}

/// Nodes between two forgettings, and bytes of the array of first children, of which only touched pages exist. The start of a large
/// program (a million constructors, each from a place of its own) goes through more nodes than that, most of them once; what
/// is in use afterwards is a fraction.
const MOST_NODES: usize = 1 << 18;
const FIRST_CHILDREN_BYTES: usize = MOST_NODES * size_of::<Child>();
/// More than a C stack and a Python stack can have together.
const ROOM_FOR_A_CAPTURE: usize = 8192;

/// Zeroed memory is an empty tree of epoch 0.
#[repr(C)]
pub struct Tree {
    /// The unload epoch that the nodes are of; [`NO_EPOCH`] if it is full. First, next to what an event looks at anyway.
    usable_in: u32,
    last_id: u32,
    /// The last number given before the tree was last forgotten.
    forgotten: u32,
    /// By number of the parent less `forgotten`; nodes without parent are children of 0.
    first_children: Option<NonNull<Child>>,
    /// A page at first, 4 MiB at most.
    further: Table<Child, 256, { 1 << 18 }>,
    /// Further children in front of the table.
    recent: Sets<Child, 2048, 1, 64>,
}

/// No epoch has this number.
pub const NO_EPOCH: u32 = u32::MAX;

impl Tree {
    /// An empty tree; takes memory with the first node.
    pub const fn new() -> Tree {
        Tree {
            first_children: None,
            further: Table::new(),
            last_id: 0,
            forgotten: 0,
            usable_in: 0,
            recent: Sets::new(),
        }
    }

    /// Whether its nodes may be referred to in that unload epoch, and there is room for those of another capture. If not, it
    /// is to be forgotten, and so is every node that is kept elsewhere (`CStack::forget_nodes`, `PythonStack::forget_nodes`).
    /// Without that it goes on, but may define again what it has.
    #[inline]
    pub fn is_usable_in(&self, epoch: u32) -> bool {
        self.usable_in == epoch
    }

    /// Finds or creates the child of `parent` for `key`.
    #[inline]
    pub fn intern(&mut self, parent: NodeId, key: FrameKey) -> Interned {
        if let Some(first_children) = self.first_children
            && let Some(index) = self.index_of(parent)
        {
            // SAFETY: `index_of` gives indices below MOST_NODES, which is what the array was mapped for; only this lane's
            // thread uses it.
            let child = unsafe { &*first_children.as_ptr().add(index) };
            if child.key == key && !child.is_none() {
                return Interned::Known(child.id);
            }
        }
        let hash = hash_of(parent, key);
        match self.recent.get(hash) {
            Some([child]) if child.is_of(parent, key) => Interned::Known(child.id),
            _ => self.intern_further(parent, key, hash),
        }
    }

    /// The index of a node's first child; `None` for a parent from before the last forgetting.
    #[inline]
    fn index_of(&self, parent: NodeId) -> Option<usize> {
        let index = match parent {
            NodeId::NONE => 0,
            NodeId(number) => number.checked_sub(self.forgotten).filter(|index| *index != 0)? as usize,
        };
        (index < MOST_NODES).then_some(index)
    }

    #[inline(never)]
    fn intern_further(&mut self, parent: NodeId, key: FrameKey, hash: u64) -> Interned {
        let new = Child { key, parent, id: NodeId(self.last_id + 1) };
        if self.first_children.is_none() {
            let Ok(memory) = memscope_sys::map_own(FIRST_CHILDREN_BYTES) else { return Interned::Full };
            self.first_children = Some(memory.cast());
            // While there is memory: the stack that matters most may be that of the call that finds none.
            self.further.prepare();
        }
        if let Some(first_children) = self.first_children
            && let Some(index) = self.index_of(parent)
        {
            // SAFETY: as in `intern`.
            let child = unsafe { &mut *first_children.as_ptr().add(index) };
            if child.is_none() {
                *child = new;
                return self.created(new.id);
            }
        }
        let child = match self.further.entry(hash, |child| child.is_of(parent, key)) {
            Some(Lookup::Found(child)) => *child,
            Some(Lookup::New(child)) => {
                *child = new;
                new
            }
            None => return Interned::Full,
        };
        self.recent.insert(hash, child);
        if child.id == new.id { self.created(new.id) } else { Interned::Known(child.id) }
    }

    fn created(&mut self, id: NodeId) -> Interned {
        self.last_id = id.0;
        if (id.0 - self.forgotten) as usize > MOST_NODES - ROOM_FOR_A_CAPTURE {
            self.usable_in = NO_EPOCH;
        }
        Interned::New(id)
    }

    /// Forgets all nodes but not which numbers were given, and is usable in `epoch`: after a library was unloaded, the same
    /// address may mean another function.
    #[cold]
    pub fn forget(&mut self, epoch: u32) {
        if let Some(first_children) = self.first_children.take() {
            // SAFETY: mapped by `intern_further` with this length; nothing refers to it any more.
            unsafe { memscope_sys::unmap_own(first_children.cast(), FIRST_CHILDREN_BYTES) };
        }
        self.further.forget();
        self.recent.forget();
        self.forgotten = self.last_id;
        self.usable_in = epoch;
    }
}

impl Default for Tree {
    fn default() -> Self {
        Tree::new()
    }
}

#[inline]
fn hash_of(parent: NodeId, key: FrameKey) -> u64 {
    hash(key.0 ^ (u64::from(parent.0) << 20))
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
    fn a_tree_that_is_nearly_full_says_so_and_goes_on_counting_once_forgotten() {
        // A bush, all further children of one parent, and a chain, all first children.
        for is_chain in [false, true] {
            let mut tree = Box::new(Tree::new());
            let (mut parent, mut nodes, mut forgotten) = (NodeId::NONE, 0, 0);
            for number in 1..=3 * MOST_NODES {
                if !tree.is_usable_in(0) {
                    assert_eq!(nodes, MOST_NODES - ROOM_FOR_A_CAPTURE + 1);
                    tree.forget(0);
                    (parent, nodes, forgotten) = (NodeId::NONE, 0, forgotten + 1);
                }
                let id = NodeId(number as u32);
                assert_eq!(tree.intern(parent, FrameKey::c(number)), Interned::New(id));
                assert_eq!(tree.intern(parent, FrameKey::c(number)), Interned::Known(id));
                parent = if is_chain { id } else { NodeId::NONE };
                nodes += 1;
            }
            assert!(forgotten >= 3);
        }
    }

    #[test]
    fn a_full_tree_that_nobody_forgets_goes_on_counting() {
        for is_chain in [false, true] {
            let mut tree = Box::new(Tree::new());
            for number in 1..=3 * MOST_NODES {
                let parent = if is_chain { NodeId(number as u32 - 1) } else { NodeId::NONE };
                assert_eq!(tree.intern(parent, FrameKey::c(number)), Interned::New(NodeId(number as u32)));
            }
        }
    }

    #[test]
    fn forgotten_nodes_get_new_numbers_in_the_epoch_at_hand() {
        let mut tree = Box::new(Tree::new());
        assert_eq!(tree.intern(NodeId::NONE, FrameKey::c(1)), Interned::New(NodeId(1)));
        assert!(tree.is_usable_in(0) && !tree.is_usable_in(7));
        tree.forget(7);
        assert!(tree.is_usable_in(7) && !tree.is_usable_in(0));
        assert_eq!(tree.intern(NodeId::NONE, FrameKey::c(1)), Interned::New(NodeId(2)));
    }
}

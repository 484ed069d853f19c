//! The call tree of a profile: every stack is a way from the root.
use super::names::{FrameId, Names};
use super::profile::{Profile, add};
use memscope_analysis::Held;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

#[derive(Clone, Debug)]
pub struct CallTree {
    /// The root is the first; a node comes before what it calls.
    nodes: Vec<TreeNode>,
}

#[derive(Clone, Debug)]
pub struct TreeNode {
    /// `None` in the root, and in what is known of no stack.
    pub frame: Option<FrameId>,
    pub own: Held,
    pub inclusive: Held,
    /// Most bytes first.
    pub children: Vec<usize>,
}

impl TreeNode {
    fn new(frame: Option<FrameId>) -> TreeNode {
        TreeNode { frame, own: Held::default(), inclusive: Held::default(), children: Vec::new() }
    }
}

impl CallTree {
    /// Native functions are one node whatever the line; of Python functions each line that calls is one.
    pub fn new(profile: &Profile, names: &mut Names) -> CallTree {
        let mut nodes = vec![TreeNode::new(None)];
        let mut known: FxHashMap<(usize, Option<FrameId>), usize> = FxHashMap::default();
        for stack in &profile.stacks {
            add(&mut nodes[0].inclusive, stack.held);
            let mut at = 0;
            // What has no stack is a node of its own, so that the root's sum is that of its children.
            let nowhere = stack.frames.is_empty().then_some(None);
            for frame in stack.frames.iter().map(|frame| Some(*frame)).chain(nowhere) {
                let frame = frame.map(|frame| names.without_native_place(frame));
                at = *known.entry((at, frame)).or_insert_with(|| {
                    nodes.push(TreeNode::new(frame));
                    let new = nodes.len() - 1;
                    nodes[at].children.push(new);
                    new
                });
                add(&mut nodes[at].inclusive, stack.held);
            }
            add(&mut nodes[at].own, stack.held);
        }
        for at in 0..nodes.len() {
            let mut children = std::mem::take(&mut nodes[at].children);
            children.sort_by_key(|child| (Reverse(nodes[*child].inclusive.bytes), *child));
            nodes[at].children = children;
        }
        CallTree { nodes }
    }

    pub fn root(&self) -> &TreeNode {
        &self.nodes[0]
    }

    pub fn node(&self, index: usize) -> &TreeNode {
        &self.nodes[index]
    }

    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &TreeNode> {
        self.nodes.iter()
    }

    /// What a frame is called; the root and the unknown have names too.
    pub fn label(&self, index: usize, names: &Names) -> String {
        match self.nodes[index].frame {
            Some(frame) => names.text(frame),
            None if index == 0 => "all".to_owned(),
            None => NO_STACK.to_owned(),
        }
    }
}

/// What stands for a stack that was not recorded.
pub const NO_STACK: &str = "(no call stack)";

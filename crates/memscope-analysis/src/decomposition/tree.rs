//! Owners as a tree.
use crate::held::Held;
use crate::holders::{Holder, Making, OwnerShare};
use std::cmp::Reverse;

/// A level of an owner's words, or what stands in their place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OwnerLevel {
    Word(String),
    /// Memory without an owner,
    Unlabelled,
    /// by what made it.
    Made(Making),
    /// What belongs to the owner above as a whole, while other parts of it have a further label.
    NoFurther,
}

/// An owner and what is below it; its children sum up to it, if it has any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerNode {
    pub level: OwnerLevel,
    pub held: Held,
    /// Most bytes first.
    pub children: Vec<OwnerNode>,
}

/// Words may be anybody's: what is deeper stays one level.
const MOST_LEVELS: usize = 16;

impl OwnerNode {
    /// The owners of a pool, most bytes first.
    pub fn tree(shares: &[OwnerShare]) -> Vec<OwnerNode> {
        let mut roots = Vec::new();
        for OwnerShare { holder, held } in shares {
            let path: Vec<OwnerLevel> = match holder {
                Holder::Owner(words) => {
                    words.splitn(MOST_LEVELS, '@').map(|word| OwnerLevel::Word(word.to_owned())).collect()
                }
                Holder::Unlabelled(making) => vec![OwnerLevel::Unlabelled, OwnerLevel::Made(*making)],
            };
            let mut among = &mut roots;
            for level in path {
                let node = descend(among, level);
                node.held.bytes += held.bytes;
                node.held.blocks += held.blocks;
                among = &mut node.children;
            }
        }
        roots.iter_mut().for_each(OwnerNode::complete);
        sort(&mut roots);
        roots
    }

    /// Makes the children sum up, and orders them.
    fn complete(&mut self) {
        self.children.iter_mut().for_each(OwnerNode::complete);
        let below = self.children.iter().fold(Held::default(), |sum, child| Held {
            bytes: sum.bytes + child.held.bytes,
            blocks: sum.blocks + child.held.blocks,
        });
        if !self.children.is_empty() && below != self.held {
            let held = Held { bytes: self.held.bytes - below.bytes, blocks: self.held.blocks - below.blocks };
            self.children.push(OwnerNode { level: OwnerLevel::NoFurther, held, children: Vec::new() });
        }
        sort(&mut self.children);
    }
}

fn descend(among: &mut Vec<OwnerNode>, level: OwnerLevel) -> &mut OwnerNode {
    let known = among.iter().position(|node| node.level == level);
    let index = known.unwrap_or_else(|| {
        among.push(OwnerNode { level, held: Held::default(), children: Vec::new() });
        among.len() - 1
    });
    &mut among[index]
}

fn sort(nodes: &mut [OwnerNode]) {
    nodes.sort_unstable_by(|a, b| (Reverse(a.held.bytes), &a.level).cmp(&(Reverse(b.held.bytes), &b.level)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(words: &str, bytes: u64) -> OwnerShare {
        OwnerShare { holder: Holder::Owner(words.to_owned()), held: Held { bytes, blocks: 1 } }
    }

    fn lines(nodes: &[OwnerNode], depth: usize, lines: &mut Vec<String>) {
        for node in nodes {
            let level = match &node.level {
                OwnerLevel::Word(word) => word.clone(),
                other => format!("{other:?}"),
            };
            lines.push(format!("{}{level} {} {}", " ".repeat(depth), node.held.bytes, node.held.blocks));
            self::lines(&node.children, depth + 1, lines);
        }
    }

    fn text(shares: &[OwnerShare]) -> Vec<String> {
        let mut found = Vec::new();
        lines(&OwnerNode::tree(shares), 0, &mut found);
        found
    }

    #[test]
    fn levels_sum_up_and_what_has_no_further_label_is_shown() {
        let shares = [share("PTA@weight@ops", 5), share("PTA", 100), share("PTA@weight", 7), share("PTA@gradient", 30)];
        assert_eq!(
            text(&shares),
            ["PTA 142 4", " NoFurther 100 1", " gradient 30 1", " weight 12 2", "  NoFurther 7 1", "  ops 5 1"]
        );
    }

    #[test]
    fn memory_without_an_owner_is_told_by_what_made_it() {
        let unlabelled =
            |making, bytes| OwnerShare { holder: Holder::Unlabelled(making), held: Held { bytes, blocks: 1 } };
        let shares = [unlabelled(Making::Mapping, 9), unlabelled(Making::Heap, 1)];
        assert_eq!(text(&shares), ["Unlabelled 10 2", " Made(Mapping) 9 1", " Made(Heap) 1 1"]);
    }

    #[test]
    fn words_of_any_depth_make_a_tree_of_some() {
        let words = "a@".repeat(100_000);
        let mut nodes = &OwnerNode::tree(&[share(&words, 3)])[..];
        let mut depth = 0;
        while let [node] = nodes {
            assert_eq!(node.held.bytes, 3);
            (nodes, depth) = (&node.children, depth + 1);
        }
        assert_eq!(depth, MOST_LEVELS);
    }
}

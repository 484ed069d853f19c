//! What grew and what shrank between two recordings, two processes, or two moments of one.
use super::flamegraph::{Flame, FlameFrame, LEAST_DRAWN, Tone, short};
use super::layout::{Emphasis, Layout, joined_within};
use super::names::Names;
use super::profile::{Site, add};
use super::reading::View;
use super::tree::{CallTree, NO_STACK};
use crate::report::quantity::{bytes, counted};
use memscope_analysis::Held;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

#[derive(Clone, Debug, Default)]
pub struct Difference {
    pub base: Held,
    pub compared: Held,
    /// The largest difference in bytes first.
    pub sites: Vec<SiteDifference>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteDifference {
    pub base: Held,
    pub compared: Held,
    /// As in [`Site::frames`], of the recording that is compared where it has them.
    pub frames: Vec<String>,
    pub via: Option<String>,
    pub foreign: bool,
}

impl SiteDifference {
    pub fn bytes(&self) -> i128 {
        i128::from(self.compared.bytes) - i128::from(self.base.bytes)
    }

    pub fn blocks(&self) -> i128 {
        i128::from(self.compared.blocks) - i128::from(self.base.blocks)
    }
}

impl Difference {
    /// Sites are the same if their lines are. What is left over on both sides is compared by functions: between two runs a
    /// line moves when a comment is written above it.
    pub fn of(base: &View, compared: &View) -> Difference {
        let mut sites: Vec<SiteDifference> = Vec::new();
        let mut by_lines: FxHashMap<Vec<String>, usize> = FxHashMap::default();
        let of_base = base.profile.sites(&base.names);
        for site in &of_base {
            let difference = spelled(site, &base.names);
            by_lines.insert(difference.frames.clone(), sites.len());
            sites.push(SiteDifference { base: site.held, ..difference });
        }
        let mut by_functions: FxHashMap<Vec<String>, usize> = FxHashMap::default();
        let mut fresh = Vec::new();
        for site in compared.profile.sites(&compared.names) {
            let difference = spelled(&site, &compared.names);
            match by_lines.get(&difference.frames) {
                Some(place) => {
                    sites[*place] = SiteDifference { base: sites[*place].base, compared: site.held, ..difference }
                }
                None => fresh
                    .push((functions(&site, &compared.names), SiteDifference { compared: site.held, ..difference })),
            }
        }
        for (place, site) in of_base.iter().enumerate() {
            if sites[place].compared.blocks == 0 {
                by_functions.entry(functions(site, &base.names)).or_insert(place);
            }
        }
        for (functions, difference) in fresh {
            match by_functions.remove(&functions) {
                Some(place) => sites[place] = SiteDifference { base: sites[place].base, ..difference },
                None => sites.push(difference),
            }
        }
        sites.sort_by_key(|site| (Reverse(site.bytes().unsigned_abs()), Reverse(site.compared.bytes)));
        Difference { base: base.profile.total, compared: compared.profile.total, sites }
    }

    /// Rows of the sites that differ, at most `count`.
    pub fn rows(&self, count: usize, layout: &Layout) -> Vec<String> {
        let differing = || self.sites.iter().filter(|site| site.bytes() != 0);
        let mut rows: Vec<String> = differing()
            .take(count)
            .map(|site| {
                let numbers = format!(
                    "{:>12} {:>13}  {:>10} → {:<10}  ",
                    signed_bytes(site.bytes()),
                    format!("{:+} {}", site.blocks(), if site.blocks().abs() == 1 { "block" } else { "blocks" }),
                    bytes(site.base.bytes),
                    bytes(site.compared.bytes)
                );
                let room = layout.left(console::measure_text_width(&numbers));
                let place = match (site.frames.is_empty(), &site.via) {
                    (true, _) => NO_STACK.to_owned(),
                    (false, Some(via)) if room.is_none() => {
                        format!("{} [{via}]", joined_within(&site.frames, " < ", room))
                    }
                    (false, _) => joined_within(&site.frames, " < ", room),
                };
                let emphasis = if site.bytes() > 0 { Emphasis::Grown } else { Emphasis::Shrunk };
                format!("{}{place}", layout.emphasised(&numbers, emphasis))
            })
            .collect();
        let (number, rest) =
            differing().skip(count).fold((0, 0), |(number, sum), site| (number + 1, sum + site.bytes()));
        if number > 0 {
            rows.push(format!(
                "{:>12}  {}",
                signed_bytes(rest),
                counted(number, "smaller difference", "smaller differences")
            ));
        }
        rows
    }
}

fn spelled(site: &Site, names: &Names) -> SiteDifference {
    SiteDifference {
        base: Held::default(),
        compared: Held::default(),
        frames: site.frames.iter().map(|frame| names.text(*frame)).collect(),
        via: site.via.map(|via| names.text(via)),
        foreign: site.foreign,
    }
}

fn functions(site: &Site, names: &Names) -> Vec<String> {
    site.frames.iter().map(|frame| names.function_of(*frame).label()).collect()
}

pub fn signed_bytes(difference: i128) -> String {
    let size = bytes(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
    match difference {
        0 => size,
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

/// A call tree of two.
struct Node {
    label: String,
    name: String,
    base: Held,
    compared: Held,
    own_base: Held,
    own_compared: Held,
    /// Room for the larger of the two at each node, so that what is gone has its place too.
    width: u64,
    children: Vec<usize>,
}

/// Both trees in one picture: what grew, what shrank, and by how much.
pub fn flame(base: &mut View, compared: &mut View) -> Flame {
    let mut nodes = vec![Node::new("all".to_owned(), "all".to_owned())];
    let mut known: FxHashMap<(usize, String), usize> = FxHashMap::default();
    let (title, former) = (compared.title(), base.title());
    for (view, is_base) in [(&mut *base, true), (&mut *compared, false)] {
        let tree = CallTree::new(&view.profile, &mut view.names);
        let mut waiting = vec![(0, 0)];
        while let Some((at, place)) = waiting.pop() {
            let node = tree.node(at);
            let sums = &mut nodes[place];
            let (inclusive, own) = if is_base {
                (&mut sums.base, &mut sums.own_base)
            } else {
                (&mut sums.compared, &mut sums.own_compared)
            };
            add(inclusive, node.inclusive);
            add(own, node.own);
            for child in &node.children {
                let name = tree.label(*child, &view.names);
                let frame = tree.node(*child).frame;
                let next = *known.entry((place, name)).or_insert_with_key(|(_, name)| {
                    let label = frame.map_or(NO_STACK.to_owned(), |frame| short(frame, &view.names));
                    nodes.push(Node::new(name.clone(), label));
                    let new = nodes.len() - 1;
                    nodes[place].children.push(new);
                    new
                });
                waiting.push((*child, next));
            }
        }
    }
    // Children come after their parents.
    for at in (0..nodes.len()).rev() {
        let of_children: u64 = nodes[at].children.iter().map(|child| nodes[*child].width).sum();
        nodes[at].width = nodes[at].own_base.bytes.max(nodes[at].own_compared.bytes) + of_children;
        let mut children = std::mem::take(&mut nodes[at].children);
        children.sort_by_key(|child| (Reverse(nodes[*child].width), *child));
        nodes[at].children = children;
    }
    let total = nodes[0].width;
    let mut frames = Vec::new();
    let mut waiting = vec![(0, 0, 0)];
    while let Some((at, depth, start)) = waiting.pop() {
        let node = &nodes[at];
        let (tone, tint) = node.tone();
        let (label, detail) = (node.label.clone(), node.detail());
        frames.push(FlameFrame { depth, start, width: node.width, label, detail, tone, tint });
        let mut next = start;
        let mut drawn = Vec::new();
        for child in &node.children {
            let width = nodes[*child].width;
            if width > 0 && width as f64 >= total as f64 * LEAST_DRAWN {
                drawn.push((*child, depth + 1, next));
            }
            next += width;
        }
        waiting.extend(drawn.into_iter().rev());
    }
    Flame { title, subtitle: format!("against {former} · width: the larger of the two"), frames }
}

impl Node {
    fn new(name: String, label: String) -> Node {
        let none = Held::default();
        Node {
            label,
            name,
            base: none,
            compared: none,
            own_base: none,
            own_compared: none,
            width: 0,
            children: Vec::new(),
        }
    }

    fn difference(&self) -> i128 {
        i128::from(self.compared.bytes) - i128::from(self.base.bytes)
    }

    /// Deeper the more of it is new, or gone.
    fn tone(&self) -> (Tone, u8) {
        let larger = self.base.bytes.max(self.compared.bytes).max(1);
        let part = self.difference().unsigned_abs() as f64 / larger as f64;
        let tint = match part {
            part if part > 0.5 => 2,
            part if part > 0.1 => 1,
            _ => 0,
        };
        match self.difference() {
            _ if part < 0.005 => (Tone::Same, 0),
            1.. => (Tone::Grown, tint),
            _ => (Tone::Shrunk, tint),
        }
    }

    fn detail(&self) -> String {
        format!(
            "{}\n{}: {} → {}\n{:+} blocks",
            self.name,
            signed_bytes(self.difference()),
            bytes(self.base.bytes),
            bytes(self.compared.bytes),
            i128::from(self.compared.blocks) - i128::from(self.base.blocks)
        )
    }
}

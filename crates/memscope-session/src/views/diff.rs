//! What grew and what shrank between two recordings, two processes, or two moments of one.
use super::flamegraph::{Flame, FlameFrame, LEAST_DRAWN, Tone, short};
use super::layout::{Emphasis, Layout, joined_within};
use super::names::{FrameId, Names};
use super::profile::{Site, add};
use super::reading::View;
use super::tree::{CallTree, NO_STACK};
use crate::line::{Line, escaped, line_of};
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

/// The call sites of what was held at a moment.
#[derive(Clone, Debug)]
pub struct NamedSites<'n> {
    pub total: Held,
    pub sites: Vec<Site>,
    /// What the frames of the sites are called.
    pub names: &'n Names,
}

impl<'v> NamedSites<'v> {
    fn of(view: &'v View) -> NamedSites<'v> {
        NamedSites { total: view.profile.total, sites: view.profile.sites(&view.names), names: &view.names }
    }
}

impl Difference {
    pub fn of(base: &View, compared: &View) -> Difference {
        Difference::between(NamedSites::of(base), NamedSites::of(compared))
    }

    /// Sites are the same if their frames are. What is left over on both sides is compared without folders, since the two may
    /// have run in two places, and then without lines, since a line moves when a comment is written above it.
    pub fn between(base: NamedSites<'_>, compared: NamedSites<'_>) -> Difference {
        let spellings: [fn(FrameId, &Names) -> String; 3] =
            [|frame, names| names.text(frame), without_folders, without_line];
        let mut left: Vec<(Site, bool)> = base.sites.into_iter().map(|site| (site, true)).collect();
        let mut fresh: Vec<Option<Site>> = compared.sites.into_iter().map(Some).collect();
        let mut sites: Vec<SiteDifference> = Vec::new();
        for spelling in spellings {
            let key = |site: &Site, names: &Names| -> Vec<String> {
                site.frames.iter().map(|frame| spelling(*frame, names)).collect()
            };
            // Of several that are spelled alike the first is the largest.
            let mut known: FxHashMap<Vec<String>, usize> = FxHashMap::default();
            for (place, (site, is_left)) in left.iter().enumerate() {
                if *is_left {
                    known.entry(key(site, base.names)).or_insert(place);
                }
            }
            for slot in &mut fresh {
                let Some(site) = slot else { continue };
                if let Some(place) = known.remove(&key(site, compared.names)) {
                    left[place].1 = false;
                    let base = left[place].0.held;
                    sites.push(SiteDifference { base, compared: site.held, ..spelled(site, compared.names) });
                    *slot = None;
                }
            }
        }
        let gone = left.iter().filter(|(_, is_left)| *is_left).map(|(site, _)| site);
        sites.extend(gone.map(|site| SiteDifference { base: site.held, ..spelled(site, base.names) }));
        let new = fresh.iter().flatten();
        sites.extend(new.map(|site| SiteDifference { compared: site.held, ..spelled(site, compared.names) }));
        sites.sort_by_key(|site| (Reverse(site.bytes().unsigned_abs()), Reverse(site.compared.bytes)));
        Difference { base: base.total, compared: compared.total, sites }
    }

    /// Rows of the sites that differ, at most `count`.
    pub fn rows(&self, count: usize, layout: &Layout) -> Vec<Line> {
        let differing = || self.sites.iter().filter(|site| site.bytes() != 0);
        let mut rows: Vec<Line> = differing()
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
                    (true, _) => joined_within(&[NO_STACK.to_owned()], "", room),
                    (false, Some(via)) if room.is_none() => {
                        format!("{} [{via}]", joined_within(&site.frames, " < ", room))
                    }
                    (false, _) => joined_within(&site.frames, " < ", room),
                };
                let emphasis = if site.bytes() > 0 { Emphasis::Grown } else { Emphasis::Shrunk };
                layout.emphasised(numbers, emphasis).then(place)
            })
            .collect();
        let (number, rest) =
            differing().skip(count).fold((0, 0), |(number, sum), site| (number + 1, sum + site.bytes()));
        if number > 0 {
            rows.push(line_of!(
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

/// Where a file is below what was installed, or its name.
fn tail(file: &str) -> &str {
    for folder in ["site-packages/", "dist-packages/"] {
        if let Some((_, tail)) = file.rsplit_once(folder) {
            return tail;
        }
    }
    file.rsplit('/').next().unwrap_or(file)
}

fn without_line(frame: FrameId, names: &Names) -> String {
    let function = names.function_of(frame);
    format!("{}\0{}", function.name, tail(&function.file))
}

fn without_folders(frame: FrameId, names: &Names) -> String {
    format!("{}\0{:?}", without_line(frame, names), names.frame(frame).position)
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
struct DiffNode {
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
    let mut nodes = vec![DiffNode::new("all".to_owned(), "all".to_owned())];
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
                let frame = tree.node(*child).frame;
                let key = frame.map_or(String::new(), |frame| without_folders(frame, &view.names));
                let next = *known.entry((place, key)).or_insert_with(|| {
                    let label = frame.map_or(NO_STACK.to_owned(), |frame| short(frame, &view.names));
                    nodes.push(DiffNode::new(tree.label(*child, &view.names), label));
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
        // Not by colour alone.
        let sign = match tone {
            Tone::Grown => "▲ ",
            Tone::Shrunk => "▼ ",
            _ => "",
        };
        let (label, detail) = (format!("{sign}{}", node.label), node.detail());
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

impl DiffNode {
    fn new(name: String, label: String) -> DiffNode {
        let none = Held::default();
        DiffNode {
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
            escaped(&self.name),
            signed_bytes(self.difference()),
            bytes(self.base.bytes),
            bytes(self.compared.bytes),
            i128::from(self.compared.blocks) - i128::from(self.base.blocks)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profile;
    use super::super::reading::At;
    use super::*;
    use memscope_model::{Device, Pool, TraceInfo};
    use proptest::prelude::*;

    fn view(stacks: &[(&[&str], u64, u64)]) -> View {
        let (profile, names) = profile(stacks);
        let info = TraceInfo { pid: 1, command: "prog".to_owned(), ..TraceInfo::default() };
        let (device, pool, at) = (Device::Cpu, Pool::Host, At::Peak);
        View { info, device, pool, at, after_ns: 0, profile, names, stackless: false }
    }

    fn told(base: &[(&[&str], u64, u64)], compared: &[(&[&str], u64, u64)]) -> Vec<(i128, String)> {
        let difference = Difference::of(&view(base), &view(compared));
        difference.sites.iter().map(|site| (site.bytes(), site.frames.first().cloned().unwrap_or_default())).collect()
    }

    #[test]
    fn a_site_is_recognised_where_its_folder_or_its_line_changed() {
        assert_eq!(
            told(&[(&["/a/t.py(5): f"], 10, 1)], &[(&["/a/t.py(5): f"], 30, 1)]),
            [(20, "/a/t.py(5): f".to_owned())]
        );
        assert_eq!(
            told(&[(&["/a/t.py(5): f"], 10, 1)], &[(&["/b/t.py(5): f"], 30, 1)]),
            [(20, "/b/t.py(5): f".to_owned())]
        );
        assert_eq!(
            told(&[(&["/a/t.py(5): f"], 30, 1)], &[(&["/a/t.py(7): f"], 10, 1)]),
            [(-20, "/a/t.py(7): f".to_owned())]
        );
    }

    #[test]
    fn what_is_gone_and_what_is_new_are_differences_too() {
        assert_eq!(
            told(&[(&["t.py(1): f"], 10, 1)], &[(&["t.py(2): g"], 30, 1)]),
            [(30, "t.py(2): g".to_owned()), (-10, "t.py(1): f".to_owned())]
        );
        assert_eq!(told(&[], &[]), []);
    }

    proptest! {
        #[test]
        fn differences_add_up(
            base in proptest::collection::vec((0usize..5, 0u64..100), 0..12),
            compared in proptest::collection::vec((0usize..5, 0u64..100), 0..12),
        ) {
            const FRAMES: [[&str; 2]; 5] =
                [["t.py(1): f", "t.py(2): g"], ["t.py(1): f", "t.py(3): g"], ["t.py(1): f", "u.py(2): g"], ["v.py(1): f", "m (a+0x1)"], ["x (a+0x1)", "y (a+0x2)"]];
            let stacks = |chosen: &[(usize, u64)]| -> Vec<(&'static [&'static str], u64, u64)> {
                chosen.iter().map(|(frames, bytes)| (&FRAMES[*frames][..], *bytes, 1)).collect()
            };
            let (mut base, mut compared) = (view(&stacks(&base)), view(&stacks(&compared)));
            let difference = Difference::of(&base, &compared);
            let whole = i128::from(compared.profile.total.bytes) - i128::from(base.profile.total.bytes);
            prop_assert_eq!(difference.sites.iter().map(SiteDifference::bytes).sum::<i128>(), whole);
            let picture = flame(&mut base, &mut compared);
            let root = &picture.frames[0];
            prop_assert!(root.width >= base.profile.total.bytes.max(compared.profile.total.bytes));
            prop_assert!(picture.frames.iter().all(|frame| frame.start + frame.width <= root.width));
        }
    }
}

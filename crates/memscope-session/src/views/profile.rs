//! What a pool held at a moment, by named stacks.
use super::merged::Naming;
use super::names::{FrameId, FunctionId, Language, Names};
use super::role::Role;
use memscope_analysis::{Held, StackUsage};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::rc::Rc;

/// Named stacks with what their blocks held.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub total: Held,
    pub stacks: Vec<ProfiledStack>,
}

#[derive(Clone, Debug)]
pub struct ProfiledStack {
    /// Outermost first; empty if none was recorded.
    pub frames: Rc<[FrameId]>,
    pub held: Held,
}

/// A function's share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionShare {
    pub function: FunctionId,
    /// What it allocated itself, or had a wrapper allocate for it.
    pub own: Held,
    /// With all that it called; a function that calls itself counts once.
    pub inclusive: Held,
}

/// Memory by the line a person would change: the innermost frame of their own, and who called it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    pub held: Held,
    /// The line and its callers, innermost first, at most [`Site::CALLERS`] + 1; empty if no stack was recorded.
    pub frames: Vec<FrameId>,
    /// What that line called to get most of it: the innermost Python code, or else the native function it called itself.
    pub via: Option<FrameId>,
    /// Anything but the user's own code.
    pub foreign: bool,
}

impl Profile {
    pub fn new(total: Held, usages: &[StackUsage], naming: &mut Naming<'_>) -> Profile {
        let named = |usage: &StackUsage| ProfiledStack {
            frames: naming.merged(usage.stack),
            held: Held { bytes: usage.bytes, blocks: usage.blocks },
        };
        Profile { total, stacks: usages.iter().map(named).collect() }
    }

    /// The functions of its stacks, in no order that means anything.
    pub fn functions(&self, names: &Names) -> Vec<FunctionShare> {
        let (own, inclusive) = (Held::default(), Held::default());
        let mut shares: Vec<FunctionShare> =
            names.functions().map(|function| FunctionShare { function, own, inclusive }).collect();
        // The stack that a function was last counted for.
        let mut counted = vec![usize::MAX; shares.len()];
        for (number, stack) in self.stacks.iter().enumerate() {
            for frame in stack.frames.iter() {
                let place = names.frame(*frame).function.index();
                if counted[place] != number {
                    counted[place] = number;
                    add(&mut shares[place].inclusive, stack.held);
                }
            }
            if let Some(own) = attributed(&stack.frames, names) {
                add(&mut shares[names.frame(stack.frames[own]).function.index()].own, stack.held);
            }
        }
        shares.retain(|share| share.inclusive != Held::default());
        shares
    }

    /// The call sites, most bytes first.
    pub fn sites(&self, names: &Names) -> Vec<Site> {
        let mut sites: Vec<(Site, FxHashMap<Option<FrameId>, u64>)> = Vec::new();
        let mut known: FxHashMap<Vec<FrameId>, usize> = FxHashMap::default();
        for stack in &self.stacks {
            let (frames, via, foreign) = site_of(&stack.frames, names);
            let place = *known.entry(frames).or_insert_with_key(|frames| {
                let site = Site { held: Held::default(), frames: frames.clone(), via: None, foreign };
                sites.push((site, FxHashMap::default()));
                sites.len() - 1
            });
            let (site, ways) = &mut sites[place];
            add(&mut site.held, stack.held);
            *ways.entry(via).or_default() += stack.held.bytes;
        }
        let mut sites: Vec<Site> = sites
            .into_iter()
            .map(|(mut site, ways)| {
                site.via = most_used(ways);
                site
            })
            .collect();
        sites.sort_by_key(|site| (Reverse(site.held.bytes), Reverse(site.held.blocks)));
        sites
    }
}

/// The way to the memory by which most of its bytes came.
pub(crate) fn most_used(ways: FxHashMap<Option<FrameId>, u64>) -> Option<FrameId> {
    ways.into_iter().max_by_key(|(via, bytes)| (*bytes, Reverse(*via))).and_then(|(via, _)| via)
}

impl Site {
    /// How many callers of the line are told.
    pub const CALLERS: usize = 2;
}

pub(super) fn add(sum: &mut Held, held: Held) {
    sum.bytes += held.bytes;
    sum.blocks += held.blocks;
}

/// The place of the frame that a stack's bytes are its own: the innermost that is no wrapper, unless all are.
fn attributed(frames: &[FrameId], names: &Names) -> Option<usize> {
    let is_wrapper = |frame: &FrameId| names.function_of(*frame).role == Role::Wrapper;
    frames.iter().rposition(|frame| !is_wrapper(frame)).or(frames.len().checked_sub(1))
}

/// Text that a library executes (`dataclasses`, `.pth` files) is the library's; what `python -c` was given is the user's.
fn is_own(frames: &[FrameId], at: usize, names: &Names) -> bool {
    let function = names.function_of(frames[at]);
    let in_library = |frame: &FrameId| {
        let function = names.function_of(*frame);
        function.role == Role::Library && function.language == Language::Python
    };
    function.role == Role::Own && !(function.file == "<string>" && frames[..at].iter().any(in_library))
}

/// The frames of a site, what was called to get the memory, and whether none of it is the user's own.
pub(crate) fn site_of(frames: &[FrameId], names: &Names) -> (Vec<FrameId>, Option<FrameId>, bool) {
    let role = |frame: &FrameId| names.function_of(*frame).role;
    let Some(leaf) = attributed(frames, names) else { return (Vec::new(), None, true) };
    let own = (0..frames.len()).rev().find(|at| is_own(frames, *at, names));
    let at = own.unwrap_or(leaf);
    // Above a line of the user's only lines of the user's say more.
    let told = |frame: &&FrameId| own.is_none() || role(frame) == Role::Own;
    let site = frames[..=at].iter().rev().filter(told).take(1 + Site::CALLERS).copied().collect();
    let called = frames.get(at + 1..=leaf).unwrap_or_default();
    let python = called.iter().rev().find(|frame| names.function_of(**frame).language == Language::Python);
    (site, python.or(called.first()).copied(), own.is_none())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A profile of stacks of texts, outermost first: Python frames for names with a dot, others native.
    pub(in crate::views) fn profile(stacks: &[(&[&str], u64, u64)]) -> (Profile, Names) {
        let mut model = memscope_model::Stacks::default();
        let mut total = Held::default();
        let usages: Vec<StackUsage> = stacks
            .iter()
            .map(|(frames, bytes, blocks)| {
                add(&mut total, Held { bytes: *bytes, blocks: *blocks });
                let python = frames.iter().rev().copied().filter(|frame| frame.contains(".py"));
                let native = frames.iter().rev().copied().filter(|frame| !frame.contains(".py"));
                let stack = model.intern_texts(native, python);
                let (allocations, allocated_bytes, temporary_allocations) = (*blocks, *bytes, 0);
                StackUsage {
                    stack,
                    bytes: *bytes,
                    blocks: *blocks,
                    allocations,
                    allocated_bytes,
                    temporary_allocations,
                }
            })
            .collect();
        let mut symbolizer = memscope_symbols::Symbolizer::new();
        let mut naming = Naming::new(&model, &mut symbolizer);
        (Profile::new(total, &usages, &mut naming), naming.names)
    }

    #[test]
    fn text_that_a_library_executes_is_not_the_users() {
        const SITE: &str = "/usr/lib/python3.11/site.py(7): addpackage";
        let text = |frame: &[&str]| {
            let (profile, names) = profile(&[(frame, 1, 1)]);
            let site = profile.sites(&names).remove(0);
            (names.text(site.frames[0]), site.foreign)
        };
        assert_eq!(text(&["<string>(1): <module>.py"]), ("<string>(1): <module>.py".to_owned(), false));
        assert!(text(&[SITE, "<string>(1): <module>.py"]).1);
    }

    fn by_name(profile: &Profile, names: &Names) -> Vec<(String, u64, u64)> {
        let mut shares: Vec<(String, u64, u64)> = profile
            .functions(names)
            .iter()
            .map(|share| (names.function(share.function).name.clone(), share.own.bytes, share.inclusive.bytes))
            .collect();
        shares.sort();
        shares
    }

    #[test]
    fn a_function_that_calls_itself_counts_once_and_wrappers_own_nothing() {
        let (profile, names) = profile(&[
            (&["main (a+0x1)", "f (a+0x1)", "f (a+0x2)", "xmalloc (a+0x1)"], 10, 1),
            (&["main (a+0x1)"], 5, 1),
        ]);
        let of = |name: &str, own, inclusive| (name.to_owned(), own, inclusive);
        assert_eq!(by_name(&profile, &names), [of("f", 10, 10), of("main", 5, 15), of("xmalloc", 0, 10)]);
    }

    #[test]
    fn the_users_line_is_the_site_whatever_it_called() {
        const LIBRARY: &str = "/v/lib/python3.11/site-packages/torch/nn.py(7): Linear.forward";
        let (profile, names) = profile(&[
            (&["/me/t.py(9): <module>", "/me/t.py(5): step", LIBRARY, LIBRARY, "at::empty (libtorch.so+0x1)"], 30, 1),
            (&["/me/t.py(9): <module>", "/me/t.py(5): step", LIBRARY], 12, 2),
            (&["/me/t.py(9): <module>", "THPVariable_clone (libtorch.so+0x1)", "at::clone (libtorch.so+0x1)"], 20, 1),
        ]);
        let sites = profile.sites(&names);
        let told: Vec<(u64, Vec<String>, Option<String>)> = sites
            .iter()
            .map(|site| {
                let frames = site.frames.iter().map(|frame| names.text(*frame)).collect();
                (site.held.bytes, frames, site.via.map(|via| names.text(via)))
            })
            .collect();
        let step = vec!["/me/t.py(5): step".to_owned(), "/me/t.py(9): <module>".to_owned()];
        assert_eq!(told[0], (42, step, Some(LIBRARY.to_owned())));
        let clone = Some("THPVariable_clone (libtorch.so)".to_owned());
        assert_eq!(told[1], (20, vec!["/me/t.py(9): <module>".to_owned()], clone));
    }

    proptest! {
        #[test]
        fn own_bytes_add_up_to_the_total_and_nobody_includes_more(
            stacks in proptest::collection::vec((proptest::collection::vec(0usize..6, 1..8), 0u64..1000, 1u64..5), 0..40),
        ) {
            const FRAMES: [&str; 6] = ["main (a+0x1)", "f (a+0x1)", "g (a+0x2)", "xmalloc (a+0x3)", "a.py(1): p", "a.py(2): q"];
            let stacks: Vec<(Vec<&str>, u64, u64)> = stacks
                .into_iter()
                .map(|(frames, bytes, blocks)| (frames.into_iter().map(|frame| FRAMES[frame]).collect(), bytes, blocks))
                .collect();
            let borrowed: Vec<(&[&str], u64, u64)> =
                stacks.iter().map(|(frames, bytes, blocks)| (&frames[..], *bytes, *blocks)).collect();
            let (profile, names) = profile(&borrowed);
            let shares = profile.functions(&names);
            prop_assert_eq!(shares.iter().map(|share| share.own.bytes).sum::<u64>(), profile.total.bytes);
            prop_assert_eq!(shares.iter().map(|share| share.own.blocks).sum::<u64>(), profile.total.blocks);
            for share in &shares {
                prop_assert!(share.own.bytes <= share.inclusive.bytes && share.inclusive.bytes <= profile.total.bytes);
            }
            prop_assert_eq!(profile.sites(&names).iter().map(|site| site.held.bytes).sum::<u64>(), profile.total.bytes);
            let tree = crate::views::tree::CallTree::new(&profile, &mut names.clone());
            prop_assert_eq!(tree.root().inclusive, profile.total);
            let own = tree.nodes().map(|node| node.own.bytes).sum::<u64>();
            prop_assert_eq!(own, profile.total.bytes);
        }
    }
}

//! Rows of text: functions, call sites, and the call tree.
use super::layout::{Emphasis, Layout, joined_within};
use super::names::Names;
use super::profile::{FunctionShare, Profile, Site};
use super::role::Role;
use super::tree::{CallTree, NO_STACK};
use crate::line::{Line, escaped};
use crate::report::quantity::{bytes, counted};
use memscope_analysis::Held;
use std::cmp::Reverse;

/// A share this small of the whole does not come before others because it is the user's own.
const WORTH_TELLING: f64 = 0.01;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The user's own functions that matter, by inclusive bytes, then others by their own bytes.
    #[default]
    UsersFirst,
    Own,
    Inclusive,
}

pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The largest sites, the user's own before all others.
pub fn users_first(mut sites: Vec<Site>, total: Held, count: usize) -> Vec<Site> {
    let comes_first = |site: &Site| !site.foreign && share(site.held.bytes, total.bytes) >= WORTH_TELLING;
    sites.sort_by_key(|site| (!comes_first(site), Reverse(site.held.bytes), Reverse(site.held.blocks)));
    sites.truncate(count);
    sites
}

/// The functions in their order, at most `count`.
pub fn ranked(profile: &Profile, names: &Names, order: Order, count: usize) -> Vec<FunctionShare> {
    let mut shares = profile.functions(names);
    let role = |share: &FunctionShare| names.function(share.function).role;
    let users = |function: &FunctionShare| {
        role(function) == Role::Own && share(function.inclusive.bytes, profile.total.bytes) >= WORTH_TELLING
    };
    shares.sort_by_key(|share| {
        let (own, inclusive) = (Reverse(share.own.bytes), Reverse(share.inclusive.bytes));
        match order {
            Order::UsersFirst if users(share) => (false, inclusive, own, share.function),
            Order::UsersFirst => (true, own, inclusive, share.function),
            Order::Own => (false, own, inclusive, share.function),
            Order::Inclusive => (false, inclusive, own, share.function),
        }
    });
    shares.truncate(count);
    shares
}

/// A row for each function, below a row of headings.
pub fn function_rows(shares: &[FunctionShare], total: Held, names: &Names, layout: &Layout) -> Vec<Line> {
    let mut rows =
        vec![layout.emphasised(layout.fit("  inclusive            own           function"), Emphasis::Faint)];
    for part in shares {
        let function = names.function(part.function);
        let numbers = format!(
            "{:>11} {:>5.1}% {:>10} {:>5.1}%  ",
            bytes(part.inclusive.bytes),
            share(part.inclusive.bytes, total.bytes) * 100.0,
            bytes(part.own.bytes),
            share(part.own.bytes, total.bytes) * 100.0
        );
        let room = layout.left(numbers.len());
        let name = joined_within(&[function.label()], "", room);
        rows.push(Line::new(numbers).then(by_role(&name, function.role, layout)));
    }
    rows
}

/// A row for each site.
pub fn site_rows<'s>(
    sites: impl IntoIterator<Item = &'s Site>,
    total: Held,
    names: &Names,
    layout: &Layout,
) -> Vec<Line> {
    let row = |site: &Site| {
        let numbers = format!(
            "{:>12} {:>5.1}% {:>13}  ",
            bytes(site.held.bytes),
            share(site.held.bytes, total.bytes) * 100.0,
            counted(site.held.blocks, "block", "blocks")
        );
        let place = site_text(site, names, layout.left(numbers.len()));
        let role = if site.foreign { Role::Library } else { Role::Own };
        Line::new(numbers).then(by_role(&place, role, layout))
    };
    sites.into_iter().map(row).collect()
}

/// `line < caller < caller [what it called]`, as far as there is room.
pub fn site_text(site: &Site, names: &Names, room: Option<usize>) -> String {
    if site.frames.is_empty() {
        return joined_within(&[NO_STACK.to_owned()], "", room);
    }
    let frames: Vec<String> = site.frames.iter().map(|frame| names.text(*frame)).collect();
    let mut text = joined_within(&frames, " < ", room);
    if let Some(via) = site.via {
        let via = format!(" [{}]", escaped(&names.text(via)));
        let used = console::measure_text_width(&text) + console::measure_text_width(&via);
        if room.is_none_or(|room| used <= room) {
            text.push_str(&via);
        }
    }
    text
}

fn by_role(text: &str, role: Role, layout: &Layout) -> Line {
    match role {
        Role::Own => layout.emphasised(text, Emphasis::Own),
        Role::Library => text.into(),
        Role::Wrapper | Role::Import | Role::Interpreter | Role::Outset => layout.emphasised(text, Emphasis::Faint),
    }
}

/// The tree, without what holds less than `least` of the whole. Only where the ways part are rows moved to the right, since
/// stacks are deep and screens are not wide.
pub fn tree_rows(tree: &CallTree, names: &Names, least: f64, layout: &Layout) -> Vec<Line> {
    let mut rows = Vec::new();
    let total = tree.root().inclusive;
    let mut waiting = vec![(0, 0)];
    while let Some((at, depth)) = waiting.pop() {
        let node = tree.node(at);
        let of_whole = share(node.inclusive.bytes, total.bytes) * 100.0;
        let numbers = format!("{:>11} {of_whole:>5.1}%  {}", bytes(node.inclusive.bytes), "  ".repeat(depth));
        let label = joined_within(&[tree.label(at, names)], "", layout.left(numbers.len()));
        let role = node.frame.map_or(Role::Library, |frame| names.function_of(frame).role);
        let mut row = Line::new(&numbers).then(by_role(&label, role, layout));
        let children: Vec<usize> = node
            .children
            .iter()
            .copied()
            .filter(|child| share(tree.node(*child).inclusive.bytes, total.bytes) >= least)
            .collect();
        let keeps_some = share(node.own.bytes, total.bytes) >= least;
        if keeps_some && !children.is_empty() {
            let note = format!("  (own {})", bytes(node.own.bytes));
            let used = numbers.len() + console::measure_text_width(&label) + note.len();
            if layout.width.is_none_or(|width| used <= width) {
                row = row.then(note);
            }
        }
        rows.push(row);
        let parts = children.len() > 1 || keeps_some;
        waiting.extend(children.into_iter().rev().map(|child| (child, depth + usize::from(parts))));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profile;
    use super::*;

    #[test]
    fn the_users_own_come_first_if_they_matter() {
        const LIBRARY: &str = "/v/lib/python3.11/site-packages/torch/nn.py(7): forward";
        let (profile, names) = profile(&[
            (&[LIBRARY], 5000, 1),
            (&["/me/t.py(9): <module>", "/me/t.py(5): step"], 900, 1),
            (&["/me/t.py(9): <module>", "/me/t.py(6): tiny"], 1, 1),
        ]);
        let of_functions = |order| -> Vec<&str> {
            ranked(&profile, &names, order, 10)
                .iter()
                .map(|share| names.function(share.function).name.as_str())
                .collect()
        };
        assert_eq!(of_functions(Order::UsersFirst), ["<module>", "step", "forward", "tiny"]);
        assert_eq!(of_functions(Order::Own), ["forward", "step", "tiny", "<module>"]);
        assert_eq!(of_functions(Order::Inclusive), ["forward", "<module>", "step", "tiny"]);
        let sites = users_first(profile.sites(&names), profile.total, 10);
        assert_eq!(sites.iter().map(|site| site.held.bytes).collect::<Vec<_>>(), [900, 5000, 1]);
    }

    #[test]
    fn the_tree_moves_right_only_where_ways_part() {
        let (profile, mut names) = profile(&[
            (&["main (a+0x1)", "run (a+0x2)", "parse (a+0x3)"], 70, 1),
            (&["main (a+0x1)", "run (a+0x2)", "store (a+0x4)"], 29, 1),
            (&["main (a+0x1)", "run (a+0x2)", "tiny (a+0x4)"], 1, 1),
        ]);
        let tree = CallTree::new(&profile, &mut names);
        let rows = tree_rows(&tree, &names, 0.05, &Layout::default());
        assert_eq!(
            rows,
            [
                "      100 B 100.0%  all",
                "      100 B 100.0%  main (a)",
                "      100 B 100.0%  run (a)",
                "       70 B  70.0%    parse (a)",
                "       29 B  29.0%    store (a)",
            ]
        );
        let narrow = Layout { width: Some(24), colours: false };
        assert!(tree_rows(&tree, &names, 0.05, &narrow).iter().all(|row| row.chars().count() <= 24));
    }

    #[test]
    fn rows_fit_into_the_terminal_and_have_colours_only_there() {
        let (profile, names) =
            profile(&[(&["/me/deep/down/t.py(9): <module>", "/me/deep/down/t.py(5): step"], 900, 1)]);
        let shares = ranked(&profile, &names, Order::Own, 10);
        for width in [40, 60, 200] {
            let layout = Layout { width: Some(width), colours: true };
            let rows = function_rows(&shares, profile.total, &names, &layout);
            let sites = site_rows(&profile.sites(&names), profile.total, &names, &layout);
            for row in rows.iter().chain(&sites) {
                assert!(console::measure_text_width(row) <= width, "{row:?}");
            }
            assert!(sites[0].contains('\u{1b}'));
        }
        let plain = site_rows(&profile.sites(&names), profile.total, &names, &Layout::default());
        assert_eq!(
            plain,
            ["       900 B 100.0%       1 block  /me/deep/down/t.py(5): step < /me/deep/down/t.py(9): <module>"]
        );
    }
}

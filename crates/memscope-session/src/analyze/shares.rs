//! Who held memory, with names: rows that several analyses have.
use crate::line::Line;
use crate::report::quantity::{bytes, counted};
use crate::views::layout::{Emphasis, Layout, joined_within};
use crate::views::merged::Naming;
use crate::views::profile::Profile;
use crate::views::rows::{share, users_first};
use crate::views::tree::NO_STACK;
use memscope_analysis::{Held, Holder, Making, OwnerLevel, OwnerNode, OwnerShare, StackUsage};
use memscope_model::StackId;
use serde::Serialize;

pub(super) fn percent(part: u64, whole: u64) -> f64 {
    share(part, whole) * 100.0
}

pub(super) fn making_word(making: Making) -> &'static str {
    match making {
        Making::Heap => "heap",
        Making::Mapping => "mapping",
        Making::Driver => "driver",
        Making::DriverHandle => "driver handle",
        Making::Registered => "registered",
        Making::Region => "region",
    }
}

/// An owner's share.
#[derive(Debug, Serialize)]
pub(super) struct OwnerView {
    /// Levels joined by `@`; none of memory that belongs to nobody,
    owner: Option<String>,
    /// of which is told what made it.
    origin: Option<&'static str>,
    bytes: u64,
    blocks: u64,
    percent: f64,
}

impl OwnerView {
    pub(super) fn new(share: &OwnerShare, whole: u64) -> OwnerView {
        let Held { bytes, blocks } = share.held;
        let (owner, origin) = match &share.holder {
            Holder::Owner(words) => (Some(words.clone()), None),
            Holder::Unlabelled(making) => (None, Some(making_word(*making))),
        };
        OwnerView { owner, origin, bytes, blocks, percent: percent(bytes, whole) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn label(&self) -> String {
        match (&self.owner, self.origin) {
            (Some(owner), _) => owner.clone(),
            (None, origin) => format!("unlabelled: {}", origin.unwrap_or_default()),
        }
    }
}

/// How many owners and sites a row is given.
const ROWS: usize = 10;

pub(super) fn owner_rows(owners: &[OwnerView], layout: &Layout) -> Vec<Line> {
    let row = |owner: &OwnerView| {
        let held = Held { bytes: owner.bytes, blocks: owner.blocks };
        format!("{}{}", numbers(held, owner.percent), owner.label())
    };
    let mut rows: Vec<Line> = owners.iter().take(ROWS).map(|owner| layout.fit(&row(owner))).collect();
    rows.extend(more(owners.len()).map(Line::from));
    rows
}

/// `  1.0 MiB  12.5%      3 blocks  `
pub(super) fn numbers(held: Held, percent: f64) -> String {
    format!("{:>12} {percent:>5.1}% {:>13}  ", bytes(held.bytes), counted(held.blocks, "block", "blocks"))
}

fn more(all: usize) -> Option<String> {
    (all > ROWS).then(|| format!("{:>12} more, in --json", all - ROWS))
}

/// What blocks of one line of code held.
#[derive(Debug, Serialize)]
pub(super) struct SiteView {
    bytes: u64,
    blocks: u64,
    percent: f64,
    /// The line and its callers, innermost first; none, if no stack was recorded.
    pub(super) frames: Vec<String>,
    /// It is not the user's own code.
    foreign: bool,
}

impl SiteView {
    /// Of stacks with most bytes first.
    pub(super) fn largest(stacks: &[(StackId, Held)], total: Held, naming: &mut Naming<'_>) -> Vec<SiteView> {
        /// Names are expensive, and the small rest changes nothing.
        const NAMED: usize = 1000;
        let usage = |(stack, held): &(StackId, Held)| StackUsage {
            stack: *stack,
            bytes: held.bytes,
            blocks: held.blocks,
            allocations: held.blocks,
            allocated_bytes: held.bytes,
            temporary_allocations: 0,
        };
        let usages: Vec<StackUsage> = stacks.iter().take(NAMED).map(usage).collect();
        let profile = Profile::new(total, &usages, naming);
        let sites = users_first(profile.sites(&naming.names), total, usize::MAX);
        let view = |site: &crate::views::profile::Site| SiteView {
            bytes: site.held.bytes,
            blocks: site.held.blocks,
            percent: percent(site.held.bytes, total.bytes),
            frames: site.frames.iter().map(|frame| naming.names.text(*frame)).collect(),
            foreign: site.foreign,
        };
        sites.iter().map(view).collect()
    }
}

pub(super) fn site_rows(sites: &[SiteView], layout: &Layout) -> Vec<Line> {
    let row = |site: &SiteView| {
        let numbers = numbers(Held { bytes: site.bytes, blocks: site.blocks }, site.percent);
        let room = layout.left(numbers.len());
        let text = match site.frames.as_slice() {
            [] => joined_within(&[NO_STACK.to_owned()], "", room),
            frames => joined_within(frames, " < ", room),
        };
        let text = if site.foreign { text.into() } else { layout.emphasised(text, Emphasis::Own) };
        Line::new(numbers).then(text)
    };
    let mut rows: Vec<Line> = sites.iter().take(ROWS).map(row).collect();
    rows.extend(more(sites.len()).map(Line::from));
    rows
}

/// An owner and what is below it.
#[derive(Debug, Serialize)]
pub(super) struct OwnerTreeView {
    level: String,
    bytes: u64,
    blocks: u64,
    percent: f64,
    children: Vec<OwnerTreeView>,
}

impl OwnerTreeView {
    pub(super) fn new(node: &OwnerNode, whole: u64) -> OwnerTreeView {
        let level = match &node.level {
            OwnerLevel::Word(word) => word.clone(),
            OwnerLevel::Unlabelled => "unlabelled".to_owned(),
            OwnerLevel::Made(making) => making_word(*making).to_owned(),
            OwnerLevel::NoFurther => "(no further label)".to_owned(),
        };
        OwnerTreeView {
            level,
            bytes: node.held.bytes,
            blocks: node.held.blocks,
            percent: percent(node.held.bytes, whole),
            children: node.children.iter().map(|child| OwnerTreeView::new(child, whole)).collect(),
        }
    }

    pub(super) fn rows(&self, depth: usize, layout: &Layout, rows: &mut Vec<Line>) {
        let held = Held { bytes: self.bytes, blocks: self.blocks };
        let row = format!("{}{}{}", numbers(held, self.percent), "  ".repeat(depth), self.level);
        rows.push(layout.fit(&row));
        // A model has hundreds of modules, and one line of the rest is no further from the sum than all of theirs.
        let (told, rest) = self.children.split_at(self.children.len().min(ROWS));
        told.iter().for_each(|child| child.rows(depth + 1, layout, rows));
        if !rest.is_empty() {
            let sum = |of: fn(&OwnerTreeView) -> u64| rest.iter().map(of).sum();
            let held = Held { bytes: sum(|child| child.bytes), blocks: sum(|child| child.blocks) };
            let percent = rest.iter().map(|child| child.percent).sum();
            let row = format!("{}{}({} more, in --json)", numbers(held, percent), "  ".repeat(depth + 1), rest.len());
            rows.push(layout.fit(&row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_owners_the_largest_are_told_and_the_rest_in_one_line() {
        let leaf = |number: u64| OwnerTreeView {
            level: format!("layers.{number}"),
            bytes: 1000 - number,
            blocks: 1,
            percent: 1.0,
            children: Vec::new(),
        };
        let count = ROWS as u64 + 5;
        let root = OwnerTreeView {
            level: "weight".to_owned(),
            bytes: (0..count).map(|number| 1000 - number).sum(),
            blocks: count,
            percent: 100.0,
            children: (0..count).map(leaf).collect(),
        };
        let mut rows = Vec::new();
        root.rows(0, &Layout { width: None, colours: false }, &mut rows);
        assert_eq!(rows.len(), 1 + ROWS + 1);
        let last = rows.last().expect("a row");
        assert!(
            last.contains("5 blocks") && last.ends_with("(5 more, in --json)") && last.contains("5.0%"),
            "{last:?}"
        );
    }
}

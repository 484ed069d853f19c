//! Who held a process's memory, by names.
use crate::views::merged::Naming;
use crate::views::names::Names;
use crate::views::profile::{FunctionShare, Profile, Site};
use crate::views::rows::{Order, ranked, share, users_first};
use memscope_analysis::{Held, StackUsage};
use memscope_model::Stacks;
use memscope_symbols::Symbolizer;
use std::sync::{Mutex, PoisonError};

/// How many stacks are named of a process that is not told in detail: names are expensive, and the small rest changes nothing.
const FEW_STACKS: usize = 200;

/// Which of many processes is told in detail: one that is larger than all before it. The one that turns out to be the
/// largest is always among them.
#[derive(Debug, Default)]
pub struct Largest(Mutex<Rank>);

/// Whoever was refused memory is what the user looks for, small as it may be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Rank {
    pub refused: bool,
    pub peak_bytes: u64,
}

impl Largest {
    /// Whether none was larger so far.
    pub(super) fn takes_lead(&self, rank: Rank) -> bool {
        let mut most = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = rank >= *most;
        *most = rank.max(*most);
        leads
    }
}

/// What was held at a moment.
#[derive(Debug, Default)]
pub struct Holders {
    pub total: Held,
    /// The user's own lines first.
    pub sites: Vec<Site>,
    /// Of all stacks; none if only a few of them were named.
    pub functions: Vec<FunctionShare>,
}

/// Leaves out, after the first rows, what would be rounded to nothing; a block may have no bytes, and is no news at all then.
fn without_crumbs<T>(rows: &mut Vec<T>, total: Held, held: impl Fn(&T) -> Held) {
    const FIRST: usize = 3;
    const CRUMB: f64 = 0.001;
    let mut number = 0;
    rows.retain(|row| {
        number += 1;
        let bytes = held(row).bytes;
        bytes > 0 && (number <= FIRST || share(bytes, total.bytes) >= CRUMB)
    });
}

/// Names them, for one process.
pub(super) struct Roll<'a> {
    naming: Naming<'a>,
    in_detail: bool,
    shown: usize,
}

impl<'a> Roll<'a> {
    pub(super) fn new(stacks: &'a Stacks, symbolizer: &'a mut Symbolizer, in_detail: bool, shown: usize) -> Roll<'a> {
        Roll { naming: Naming::new(stacks, symbolizer), in_detail, shown }
    }

    /// `usages` with most bytes first.
    pub(super) fn call(&mut self, total: Held, usages: &[StackUsage]) -> Holders {
        let named = if self.in_detail { usages } else { &usages[..usages.len().min(FEW_STACKS)] };
        let profile = Profile::new(total, named, &mut self.naming);
        let names = &self.naming.names;
        let mut functions =
            if self.in_detail { ranked(&profile, names, Order::UsersFirst, self.shown) } else { Vec::new() };
        let mut sites = users_first(profile.sites(names), total, self.shown);
        without_crumbs(&mut functions, total, |function| function.inclusive);
        without_crumbs(&mut sites, total, |site| site.held);
        Holders { total, sites, functions }
    }

    /// Names of what was told.
    pub(super) fn into_names(self) -> Names {
        let mut names = self.naming.names;
        names.forget_trace();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_explain_nothing_are_left_out() {
        let held = |bytes| Held { bytes, blocks: 1 };
        let mut rows = vec![held(900_000), held(10), held(5), held(0), held(9_000), held(7)];
        without_crumbs(&mut rows, held(1_000_000), |row| *row);
        assert_eq!(rows, [held(900_000), held(10), held(5), held(9_000)]);
    }
}

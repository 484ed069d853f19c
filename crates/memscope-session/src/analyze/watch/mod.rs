//! Watched blocks: who changed them, and whether it was theirs to change.
mod lines;

use super::{Detail, Ended, Lacking, Report, Running, Wishes, as_json};
use crate::line::Line;
use crate::views::layout::Layout;
use crate::views::merged::Naming;
use memscope_analysis::watch::{
    Change, Doubt, Doubtful, Neighbour, Neighbours, OperatorCall, WatchReport, WatchTally, WatchedReport,
};
use memscope_model::watch::{self, Contents, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};
use memscope_model::{Moment, Names, StackId, TimestampNs, TraceSink};
use serde::Serialize;
use serde_json::Value;

pub(super) fn begin(wishes: &Wishes) -> Box<dyn Running> {
    Box::new(Watching { tally: WatchTally::new(), detail: wishes.detail })
}

struct Watching {
    tally: WatchTally,
    detail: Detail,
}

impl Running for Watching {
    fn sink(&mut self) -> &mut dyn TraceSink {
        &mut self.tally
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        let found = self.tally.finish();
        let is_asked_for = ended.watch.is_some();
        if found.watches.is_empty() && found.problems.is_empty() && !is_asked_for && self.detail == Detail::Full {
            return Err(Lacking(String::from(
                "nothing was watched; --watch=START,END or msmemscope.watcher.watch() watches blocks, and dump files do not tell of it",
            )));
        }
        let contents = watch::contents(ended.path);
        let mut names =
            Describing { naming, names: &ended.outcome.names, start: ended.info.start, contents: contents.as_ref() };
        Ok(Box::new(names.report(&found, ended.watch.clone())))
    }
}

/// Named, for people and programs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedWatches {
    /// Changes that nobody was to make.
    pub alarms: u64,
    /// What the command was asked to watch.
    pub asked_for: Option<String>,
    pub blocks: Vec<NamedBlock>,
    pub problems: Vec<NamedProblem>,
    /// Beginnings and ends of operators while something was watched.
    pub moments: u64,
    /// How often a block was not looked at because a graph was being captured.
    pub not_looked: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedBlock {
    pub name: String,
    /// `operator` or `program`.
    pub chosen_by: &'static str,
    /// `cpu`, or the number of an NPU.
    pub device: String,
    pub address: String,
    pub bytes: u64,
    pub output: u32,
    pub full_content: bool,
    pub blocking: bool,
    pub no_such_output: bool,
    pub after_ns: u64,
    pub ended: Option<&'static str>,
    pub ended_after_ns: Option<u64>,
    pub looks: u64,
    pub legal_changes: u64,
    pub alarms: u64,
    pub changes: Vec<NamedChange>,
    /// Changes that may be an owner's.
    pub doubtful_changes: u64,
    pub doubts: Vec<NamedDoubt>,
    /// Some change may have been seen later than it was made.
    pub late: bool,
}

/// Changes that may be an owner's, and the first of them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedDoubt {
    /// `purpose`: the operator does not say what it was given the block for; `late`: it had ended.
    pub doubt: &'static str,
    pub owner: NamedOperator,
    pub times: u64,
    pub change: NamedChange,
}

/// One that is an alarm, or may be.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedChange {
    pub after_ns: u64,
    /// Who was at work, innermost; several on several threads. Empty: nobody was.
    pub during: Vec<NamedOperator>,
    /// Whose the looks before and after it were.
    pub after: Option<NamedOperator>,
    pub before: Option<NamedOperator>,
    /// False: an operator from `since` on may have done it, whose kernels ran later.
    pub exact: bool,
    pub since: Option<NamedOperator>,
    pub operators_since: u64,
    /// First and last byte that differ, from the block's beginning; only where bytes are kept.
    pub first_byte: Option<u64>,
    pub last_byte: Option<u64>,
    pub differing_bytes: Option<u64>,
    pub checksum_before: String,
    pub checksum_after: String,
    pub neighbours: Vec<NamedNeighbour>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedOperator {
    pub name: String,
    /// `op` or `kernel`.
    pub level: &'static str,
    pub call: u64,
    pub thread: u32,
    /// Innermost first; empty if no stack was recorded.
    pub stack: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedNeighbour {
    /// `before` or `behind`.
    pub side: &'static str,
    pub distance: u64,
    pub address: String,
    pub bytes: u64,
    pub made_after_ns: u64,
    pub made_by: Vec<String>,
    pub freed_after_ns: Option<u64>,
    pub freed_by: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedProblem {
    pub problem: &'static str,
    pub value: u64,
    pub after_ns: u64,
}

const TOO_MANY_BLOCKS: &str = "too_many_blocks";
const BUDGET: &str = "budget";
const DISK_FULL: &str = "disk_full";
const NO_FILE: &str = "no_file";
const NO_OUTPUTS: &str = "no_outputs";
const CAPTURED: &str = "captured";
const LATE: &str = "late";
const PURPOSE: &str = "purpose";

impl Report for NamedWatches {
    fn findings(&self) -> u64 {
        self.alarms
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line> {
        lines::of(self, layout, detail)
    }
}

/// Gives numbers their names, and contents their difference.
struct Describing<'d, 'n> {
    naming: &'d mut Naming<'n>,
    names: &'d Names,
    start: TimestampNs,
    contents: Option<&'d Contents>,
}

impl Describing<'_, '_> {
    fn report(&mut self, found: &WatchReport, asked_for: Option<String>) -> NamedWatches {
        let blocks: Vec<NamedBlock> = found.watches.iter().map(|watched| self.block(watched)).collect();
        let problem = |(problem, value, at): &(WatchTrouble, u64, Moment)| NamedProblem {
            problem: match problem {
                WatchTrouble::TooManyBlocks => TOO_MANY_BLOCKS,
                WatchTrouble::Budget => BUDGET,
                WatchTrouble::DiskFull => DISK_FULL,
                WatchTrouble::NoFile => NO_FILE,
                WatchTrouble::NoOutputs => NO_OUTPUTS,
                // Counted by itself.
                WatchTrouble::Captured => CAPTURED,
            },
            value: *value,
            after_ns: self.after(*at),
        };
        NamedWatches {
            alarms: blocks.iter().map(|block| block.alarms).sum(),
            asked_for,
            problems: found.problems.iter().map(problem).collect(),
            blocks,
            moments: found.moments,
            not_looked: found.not_looked,
        }
    }

    fn block(&mut self, watched: &WatchedReport) -> NamedBlock {
        NamedBlock {
            name: watched.name.clone(),
            chosen_by: match watched.origin {
                WatchOrigin::StartOperator => "operator",
                WatchOrigin::Program => "program",
            },
            device: watched.place.device.to_string(),
            address: format!("{:#x}", watched.place.address.0),
            bytes: watched.place.size,
            output: watched.output,
            full_content: watched.full_content,
            blocking: watched.blocking,
            no_such_output: watched.no_such_output,
            after_ns: self.after(watched.began),
            ended: watched.ended.map(|(reason, _)| ending(reason)),
            ended_after_ns: watched.ended.map(|(_, at)| self.after(at)),
            looks: watched.looks,
            legal_changes: watched.legal,
            alarms: watched.alarms,
            changes: watched.changes.iter().map(|change| self.change(change)).collect(),
            doubtful_changes: watched.doubtful,
            doubts: watched.doubts.iter().map(|doubt| self.doubt(doubt)).collect(),
            late: watched.is_late,
        }
    }

    fn doubt(&mut self, doubtful: &Doubtful) -> NamedDoubt {
        let doubt = match doubtful.doubt {
            Doubt::Purpose => PURPOSE,
            Doubt::Late => LATE,
        };
        let (owner, change) = (self.operator(&doubtful.owner), self.change(&doubtful.change));
        NamedDoubt { doubt, owner, times: doubtful.times, change }
    }

    fn change(&mut self, change: &Change) -> NamedChange {
        let difference = self.contents.and_then(|contents| difference(contents, change.contents));
        NamedChange {
            after_ns: self.after(change.at),
            during: change.during.iter().map(|call| self.operator(call)).collect(),
            after: change.after.map(|call| self.operator(&call)),
            before: change.before.map(|call| self.operator(&call)),
            exact: change.exact,
            since: change.since.map(|call| self.operator(&call)),
            operators_since: change.operators_since,
            first_byte: difference.map(|difference| difference.first),
            last_byte: difference.map(|difference| difference.last),
            differing_bytes: difference.map(|difference| difference.count),
            checksum_before: format!("{:016x}", change.checksums.0),
            checksum_after: format!("{:016x}", change.checksums.1),
            neighbours: self.neighbours(&change.neighbours),
        }
    }

    fn operator(&mut self, call: &OperatorCall) -> NamedOperator {
        let name = call.name.and_then(|name| self.names.get(name)).map(|name| name.text.to_owned());
        let (level, nameless) = match call.source {
            WatchSource::AtbOperator | WatchSource::Aten => ("op", "an operator without a name"),
            WatchSource::AtbKernel | WatchSource::Kernel => ("kernel", "a kernel without a name"),
        };
        let name = name.unwrap_or_else(|| nameless.to_owned());
        NamedOperator { name, level, call: call.call, thread: call.thread, stack: self.stack(call.stack) }
    }

    fn neighbours(&mut self, found: &Neighbours) -> Vec<NamedNeighbour> {
        let all = [
            ("before", found.before),
            ("before", found.freed_before),
            ("behind", found.behind),
            ("behind", found.freed_behind),
        ];
        let named = all.into_iter().filter_map(|(side, neighbour)| Some((side, neighbour?)));
        named.map(|(side, neighbour)| self.neighbour(side, &neighbour)).collect()
    }

    fn neighbour(&mut self, side: &'static str, neighbour: &Neighbour) -> NamedNeighbour {
        NamedNeighbour {
            side,
            distance: neighbour.distance,
            address: format!("{:#x}", neighbour.address),
            bytes: neighbour.size,
            made_after_ns: self.after(neighbour.made),
            made_by: self.stack(neighbour.made.stack),
            freed_after_ns: neighbour.freed.map(|at| self.after(at)),
            freed_by: neighbour.freed.map(|at| self.stack(at.stack)).unwrap_or_default(),
        }
    }

    /// Innermost first.
    fn stack(&mut self, stack: StackId) -> Vec<String> {
        let frames = self.naming.merged(stack);
        frames.iter().rev().map(|frame| self.naming.names.text(*frame)).collect()
    }

    fn after(&self, at: Moment) -> u64 {
        at.time.since(self.start)
    }
}

fn ending(reason: WatchEnding) -> &'static str {
    match reason {
        WatchEnding::EndOperator => "end_operator",
        WatchEnding::Removed => "removed",
        WatchEnding::LooksUsedUp => "dump_nums",
        WatchEnding::Freed => "freed",
        WatchEnding::Resized => "resized",
        WatchEnding::Unreadable => "unreadable",
    }
}

/// Where two contents differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Difference {
    first: u64,
    last: u64,
    count: u64,
}

/// `None` if they are not both there, or are the same.
fn difference(contents: &Contents, (before, after): (u64, u64)) -> Option<Difference> {
    if contents.length(before)? != contents.length(after)? {
        return None;
    }
    let (mut found, mut offset): (Option<Difference>, u64) = (None, 0);
    // Both are cut into pieces at the same places.
    for index in 0.. {
        let (Some(one), Some(other)) = (contents.piece(before, index).ok()?, contents.piece(after, index).ok()?) else {
            break;
        };
        if one.len() != other.len() || one.is_empty() {
            return None;
        }
        for (at, _) in one.iter().zip(&other).enumerate().filter(|(_, (one, other))| one != other) {
            let at = offset + at as u64;
            let known = found.get_or_insert(Difference { first: at, last: at, count: 0 });
            known.last = at;
            known.count += 1;
        }
        offset += one.len() as u64;
    }
    found
}

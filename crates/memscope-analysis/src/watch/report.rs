//! What is known of one watched block, and what is told of it.
use super::{FreedNearby, Neighbours, Open, Suspect, Undecided, is_exact};
use memscope_model::watch::{
    GivenFor, WatchEnding, WatchId, WatchLook, WatchOrigin, WatchSource, WatchTrouble, WatchedBlock,
};
use memscope_model::{DevAddr, Device, Moment, NameId, StackId, State};
use std::collections::BTreeSet;

/// How many changes of a block are told one by one; the others are counted.
const TOLD: usize = 32;

/// What came of all watching.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WatchReport {
    /// In the order in which they were begun.
    pub watches: Vec<WatchedReport>,
    pub problems: Vec<(WatchTrouble, u64, Moment)>,
    /// Beginnings and ends of operators that were seen while something was watched.
    pub moments: u64,
}

/// What came of one watch.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchedReport {
    pub watch: WatchId,
    pub name: String,
    pub origin: WatchOrigin,
    pub place: Place,
    pub output: u32,
    pub full_content: bool,
    pub blocking: bool,
    pub no_such_output: bool,
    pub began: Moment,
    /// `None`: it was watched to the end of the recording.
    pub ended: Option<(WatchEnding, Moment)>,
    pub looks: u64,
    /// Changes by operators that were given the block.
    pub legal: u64,
    /// Changes by others.
    pub alarms: u64,
    /// The first of them.
    pub changes: Vec<Change>,
}

/// Where a watched block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub device: Device,
    pub address: DevAddr,
    pub size: u64,
}

/// A call of an operator or kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatorCall {
    pub source: WatchSource,
    pub number: u64,
    pub name: Option<NameId>,
    pub call: u64,
    pub thread: u32,
    pub stack: StackId,
}

/// A change that nobody at work owned up to.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When it was seen.
    pub at: Moment,
    /// The innermost operators at work in between; empty: it happened between operators.
    pub during: Vec<OperatorCall>,
    /// Of the look before and of the one that found it: whose they were.
    pub after: Option<OperatorCall>,
    pub before: Option<OperatorCall>,
    /// Whether an earlier operator can be excluded.
    pub exact: bool,
    /// Where it cannot: the first operator since the block was last as it should be, and how many there were since.
    pub since: Option<OperatorCall>,
    pub operators_since: u64,
    /// Before and after, as [`memscope_model::watch::Contents`] numbers them; 0: not kept.
    pub contents: (u64, u64),
    pub checksums: (u64, u64),
    pub neighbours: Neighbours,
}

/// A watch under way.
#[derive(Debug)]
pub(super) struct Watched {
    report: WatchedReport,
    pub(super) place: Place,
    pub(super) ended: Option<(WatchEnding, Moment)>,
    pub(super) looks: u64,
    pub(super) checksum: u64,
    pub(super) content: u64,
    /// Of the last look.
    pub(super) last_operator: Option<OperatorCall>,
    /// Who was at work at any time since the last look.
    suspects: Vec<Suspect>,
    undecided: Vec<Undecided>,
    since: Option<OperatorCall>,
    operators_since: u64,
    /// Operators that own the block and were not seen to change it: where kernels run later, that may still come.
    owing: BTreeSet<u64>,
    pub(super) freed_nearby: FreedNearby,
}

impl Watched {
    pub(super) fn new(block: &WatchedBlock<'_>, began: Moment, suspects: Vec<Suspect>) -> Watched {
        let place = Place { device: block.device, address: block.address, size: block.size };
        let report = WatchedReport {
            watch: block.watch,
            name: block.name.to_owned(),
            origin: block.origin,
            place,
            output: block.output,
            full_content: block.full_content,
            blocking: block.blocking,
            no_such_output: block.no_such_output,
            began,
            ended: None,
            looks: 0,
            legal: 0,
            alarms: 0,
            changes: Vec::new(),
        };
        Watched {
            report,
            place,
            ended: None,
            looks: 0,
            checksum: block.checksum,
            content: block.content,
            last_operator: None,
            suspects,
            undecided: Vec::new(),
            since: None,
            operators_since: 0,
            owing: BTreeSet::new(),
            freed_nearby: FreedNearby::default(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// An operator begins.
    pub(super) fn begins(&mut self, suspect: Suspect) {
        for other in &mut self.suspects {
            other.is_innermost &= other.call.thread != suspect.call.thread;
        }
        self.suspects.push(suspect);
        self.operators_since += 1;
        self.since.get_or_insert(suspect.call);
    }

    /// What an operator may do with the block.
    pub(super) fn give(&mut self, serial: u64, given: GivenFor) {
        /// More than torch_npu's queue has room for.
        const MOST_OWING: usize = 8192;
        if given >= GivenFor::Unknown {
            self.owing.insert(serial);
            if self.owing.len() > MOST_OWING {
                self.owing.pop_first();
            }
        }
        let in_changes = self.undecided.iter_mut().flat_map(|undecided| &mut undecided.suspects);
        for suspect in self.suspects.iter_mut().chain(in_changes).filter(|suspect| suspect.serial == serial) {
            suspect.given = suspect.given.max(given);
        }
    }

    /// The block holds something else than it did. `begins` is the operator about to begin, which has done nothing yet.
    pub(super) fn changed(
        &mut self,
        look: &WatchLook<'_>,
        at: Moment,
        begins: Option<u64>,
        of_look: Option<Open>,
        state: &State<'_>,
        device: Device,
    ) {
        let mut suspects: Vec<Suspect> =
            self.suspects.iter().filter(|suspect| Some(suspect.serial) != begins).copied().collect();
        if begins.is_some() {
            // The one around it is at work by itself.
            mark_innermost(&mut suspects, at.thread);
        }
        let is_settled = suspects.iter().any(|suspect| suspect.given >= GivenFor::Unknown);
        let sources = suspects.iter().map(|suspect| suspect.call.source).chain([look.moment.source]);
        let exact = sources.into_iter().all(|source| is_exact(source, device, self.report.blocking));
        let neighbours = match is_settled || self.report.changes.len() + self.undecided.len() >= TOLD {
            true => Neighbours::default(),
            false => Neighbours::of(self.place, &self.freed_nearby, state),
        };
        let change = Change {
            at,
            during: Vec::new(),
            after: self.last_operator,
            before: of_look.map(|open| open.call),
            exact,
            since: self.since,
            operators_since: self.operators_since,
            contents: (self.content, look.content),
            checksums: (self.checksum, look.checksum),
            neighbours,
        };
        self.since = None;
        self.operators_since = 0;
        self.undecided.push(Undecided { suspects, change });
    }

    /// After a look: `at_work` is who can have a part in the next change. Changes are judged once their suspects have ended.
    pub(super) fn settle_with(&mut self, at_work: &[Suspect]) {
        let known = std::mem::take(&mut self.suspects);
        self.suspects.extend(at_work.iter().map(|suspect| {
            let given = known.iter().find(|other| other.serial == suspect.serial).map(|other| other.given);
            Suspect { given: given.unwrap_or(suspect.given), ..*suspect }
        }));
        let is_at_work = |suspect: &Suspect| at_work.iter().any(|other| other.serial == suspect.serial);
        let (open, over): (Vec<Undecided>, Vec<Undecided>) = std::mem::take(&mut self.undecided)
            .into_iter()
            .partition(|undecided| !undecided.is_legal() && undecided.suspects.iter().any(is_at_work));
        self.undecided = open;
        over.into_iter().for_each(|undecided| self.judge(undecided));
    }

    fn judge(&mut self, undecided: Undecided) {
        if undecided.is_legal() {
            self.report.legal += 1;
            for suspect in undecided.suspects.iter().filter(|suspect| suspect.given >= GivenFor::Unknown) {
                self.owing.remove(&suspect.serial);
            }
            return;
        }
        if !undecided.change.exact && self.owing.pop_first().is_some() {
            self.report.legal += 1;
            return;
        }
        self.report.alarms += 1;
        if self.report.changes.len() < TOLD {
            let innermost = undecided.suspects.iter().filter(|suspect| suspect.is_innermost);
            let during = innermost.map(|suspect| suspect.call).collect();
            self.report.changes.push(Change { during, ..undecided.change });
        }
    }

    pub(super) fn finish(mut self) -> WatchedReport {
        for undecided in std::mem::take(&mut self.undecided) {
            self.judge(undecided);
        }
        WatchedReport { ended: self.ended, looks: self.looks, ..self.report }
    }
}

impl Undecided {
    fn is_legal(&self) -> bool {
        self.suspects.iter().any(|suspect| suspect.given >= GivenFor::Unknown)
    }
}

/// Of a thread, the operator that began last is innermost.
fn mark_innermost(suspects: &mut [Suspect], thread: u32) {
    let last = suspects.iter().filter(|suspect| suspect.call.thread == thread).map(|suspect| suspect.serial).max();
    for suspect in suspects.iter_mut().filter(|suspect| suspect.call.thread == thread) {
        suspect.is_innermost = Some(suspect.serial) == last;
    }
}

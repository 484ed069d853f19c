//! What is known of one watched block, and what is told of it.
use super::{FreedNearby, Neighbours, Open, Suspect, Undecided, is_exact};
use memscope_model::watch::{
    GivenFor, WatchEnding, WatchId, WatchLook, WatchOrigin, WatchSource, WatchTrouble, WatchedBlock,
};
use memscope_model::{DevAddr, Device, Moment, NameId, StackId, State};
use std::collections::BTreeMap;

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
    /// How often a block was not looked at because a graph was being captured.
    pub not_looked: u64,
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
    /// Changes by operators that may own the block.
    pub doubtful: u64,
    /// The first of each kind.
    pub doubts: Vec<Doubtful>,
    /// Some change may have been seen later than it was made.
    pub is_late: bool,
}

/// Why it is not certain that a change was an owner's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// The operator was given the block, and does not say whether to write into it.
    Purpose,
    /// The operator owns the block and had ended when the change was seen: its kernels may have run later.
    Late,
}

/// Changes that may be an owner's.
#[derive(Clone, PartialEq, Debug)]
pub struct Doubtful {
    pub doubt: Doubt,
    /// Who may own the block.
    pub owner: OperatorCall,
    /// How many there were of operators of that name, for the same reason.
    pub times: u64,
    /// The first of them.
    pub change: Change,
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
    /// The first operator whose kernels may not have run yet, and its number.
    since: Option<(OperatorCall, u64)>,
    /// The number of the last operator that began.
    last_begun: u64,
    /// Operators that own the block and were not seen to change it: where kernels run later, that may still come.
    owing: BTreeMap<u64, OperatorCall>,
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
            doubtful: 0,
            doubts: Vec::new(),
            is_late: false,
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
            last_begun: 0,
            owing: BTreeMap::new(),
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
        self.last_begun = suspect.serial;
        self.since.get_or_insert((suspect.call, suspect.serial));
    }

    /// What an operator may do with the block.
    pub(super) fn give(&mut self, serial: u64, call: OperatorCall, given: GivenFor) {
        /// More than torch_npu's queue has room for.
        const MOST_OWING: usize = 8192;
        if given == GivenFor::Writing && !is_exact(call.source, self.place.device, self.report.blocking) {
            self.owing.insert(serial, call);
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
        let is_settled = suspects.iter().any(|suspect| suspect.given == GivenFor::Writing);
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
            since: self.since.map(|(call, _)| call),
            operators_since: self.since.map_or(0, |(_, first)| {
                // The one that is about to begin has done nothing.
                (self.last_begun + 1).saturating_sub(first + u64::from(begins.is_some()))
            }),
            contents: (self.content, look.content),
            checksums: (self.checksum, look.checksum),
            neighbours,
        };
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
        let exact = undecided.change.exact;
        self.report.is_late |= !exact;
        let oldest = if exact { None } else { self.owing.pop_first() };
        if let Some(owner) = undecided.owner(GivenFor::Writing) {
            self.report.legal += 1;
            // Those before it have run; it may not have to its end.
            if self.since.is_none_or(|(_, first)| first < owner.serial) {
                self.since = Some((owner.call, owner.serial));
            }
            return;
        }
        let purpose = undecided.owner(GivenFor::Unknown).map(|owner| (Doubt::Purpose, owner.call));
        let doubt = purpose.or(oldest.map(|(_, owner)| (Doubt::Late, owner)));
        let innermost = undecided.suspects.iter().filter(|suspect| suspect.is_innermost);
        let change = Change { during: innermost.map(|suspect| suspect.call).collect(), ..undecided.change };
        match doubt {
            Some((doubt, owner)) => self.report.doubt(doubt, owner, change),
            None => self.report.alarm(change),
        }
    }

    pub(super) fn finish(mut self) -> WatchedReport {
        for undecided in std::mem::take(&mut self.undecided) {
            self.judge(undecided);
        }
        WatchedReport { ended: self.ended, looks: self.looks, ..self.report }
    }
}

impl WatchedReport {
    fn alarm(&mut self, change: Change) {
        self.alarms += 1;
        if self.changes.len() < TOLD {
            self.changes.push(change);
        }
    }

    fn doubt(&mut self, doubt: Doubt, owner: OperatorCall, change: Change) {
        self.doubtful += 1;
        let key = |doubt, owner: &OperatorCall| (doubt, owner.source, owner.name);
        let known = self.doubts.iter_mut().find(|told| key(told.doubt, &told.owner) == key(doubt, &owner));
        if let Some(told) = known {
            told.times += 1;
        } else if self.doubts.len() < TOLD {
            self.doubts.push(Doubtful { doubt, owner, times: 1, change });
        }
    }
}

impl Undecided {
    fn is_legal(&self) -> bool {
        self.owner(GivenFor::Writing).is_some()
    }

    /// The innermost operator that was given the block for that.
    fn owner(&self, given: GivenFor) -> Option<&Suspect> {
        self.suspects.iter().filter(|suspect| suspect.given == given).max_by_key(|suspect| suspect.serial)
    }
}

/// Of a thread, the operator that began last is innermost.
fn mark_innermost(suspects: &mut [Suspect], thread: u32) {
    let last = suspects.iter().filter(|suspect| suspect.call.thread == thread).map(|suspect| suspect.serial).max();
    for suspect in suspects.iter_mut().filter(|suspect| suspect.call.thread == thread) {
        suspect.is_innermost = Some(suspect.serial) == last;
    }
}

//! Who changed a watched block, and whether it was theirs to change.
//!
//! Every two looks at a block that found something else in it have a change between them. The operators that were at work in between, on
//! any thread, are its suspects. If one of them was given the block to write into, the change is legal; if one was given it for a purpose it
//! did not say, it is doubtful. Else the innermost of each thread is named, or, if nobody was at work, the operators before and after.
//!
//! Where kernels run later than they are launched, a change that is seen at one operator may be an earlier one's. Changes come in the order
//! of the operators that make them: each is set against the oldest owner that has not been seen to change the block. What is set against one that
//! is not at work any more is doubtful, not legal, for it may as well be a fault.
mod neighbours;
mod report;

use memscope_model::watch::{GivenFor, WatchId, WatchLook, WatchMoment, WatchSource, WatchTrouble};
use memscope_model::{Device, Moment, NoteEvent, NoteKind, Phase, State, TraceEvent, TraceSink};
use neighbours::FreedNearby;
pub use neighbours::{Neighbour, Neighbours};
use report::Watched;
pub use report::{Change, Doubt, Doubtful, OperatorCall, Place, WatchReport, WatchedReport};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A [`TraceSink`] that watches the watched.
#[derive(Debug, Default)]
pub struct WatchTally {
    watches: BTreeMap<WatchId, Watched>,
    /// Operators at work on each thread, outermost first.
    threads: FxHashMap<u32, Vec<Open>>,
    /// Operators are numbered as they begin.
    serial: u64,
    report: WatchReport,
}

/// An operator at work.
#[derive(Clone, Copy, Debug)]
struct Open {
    serial: u64,
    call: OperatorCall,
    /// Its end was told; the looks that follow are still its own.
    is_ending: bool,
}

/// An operator that was at work since the last look.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    serial: u64,
    call: OperatorCall,
    given: GivenFor,
    is_innermost: bool,
}

/// A change that may still turn out to be legal: some operators say what they put out only when they end.
#[derive(Debug)]
struct Undecided {
    suspects: Vec<Suspect>,
    change: Change,
}

impl TraceSink for WatchTally {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Note(note) => self.note(note, state),
            TraceEvent::Memory(event) if !self.watches.is_empty() => {
                for watched in self.watches.values_mut().filter(|watched| watched.is_open()) {
                    watched.freed_nearby.see(event, watched.place);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl WatchTally {
    pub fn new() -> WatchTally {
        WatchTally::default()
    }

    fn note(&mut self, note: &NoteEvent<'_>, state: &State<'_>) {
        match note.kind {
            NoteKind::WatchBegin(block) => {
                let open = self.at_work();
                self.watches.insert(block.watch, Watched::new(&block, note.at, open));
            }
            NoteKind::WatchMoment(moment) => self.moment(&moment, note.at),
            NoteKind::WatchLook(look) => self.look(&look, note, state),
            NoteKind::WatchEnd { watch, reason } => {
                if let Some(watched) = self.watches.get_mut(&watch) {
                    watched.ended = Some((reason, note.at));
                }
            }
            NoteKind::WatchProblem { problem: WatchTrouble::Captured, value } => self.report.not_looked += value,
            NoteKind::WatchProblem { problem, value } => self.report.problems.push((problem, value, note.at)),
            _ => {}
        }
    }

    fn moment(&mut self, moment: &WatchMoment<'_>, at: Moment) {
        self.report.moments += 1;
        let stack = self.threads.entry(at.thread).or_default();
        // Looks of an earlier end are over.
        stack.retain(|open| !open.is_ending);
        let is_it = |open: &Open| (open.call.source, open.call.number) == (moment.source, moment.operator);
        match moment.phase {
            Phase::Start => {
                self.serial += 1;
                let call = OperatorCall {
                    source: moment.source,
                    number: moment.operator,
                    name: moment.name.map(|name| name.id),
                    call: moment.call,
                    thread: at.thread,
                    stack: at.stack,
                };
                stack.push(Open { serial: self.serial, call, is_ending: false });
                let suspect = Suspect { serial: self.serial, call, given: GivenFor::Nothing, is_innermost: true };
                for watched in self.watches.values_mut().filter(|watched| watched.is_open()) {
                    watched.begins(suspect);
                }
            }
            Phase::End => {
                if let Some(place) = stack.iter().rposition(is_it) {
                    // Those inside it were left by an exception.
                    stack.truncate(place + 1);
                    if let Some(open) = stack.last_mut() {
                        open.is_ending = true;
                    }
                }
            }
        }
    }

    /// What is at work now, but for what is about to have ended.
    fn at_work(&self) -> Vec<Suspect> {
        let each = self.threads.values().flat_map(|stack| {
            let at_work: Vec<&Open> = stack.iter().filter(|open| !open.is_ending).collect();
            let innermost = at_work.last().map(|open| open.serial);
            at_work.into_iter().map(move |open| Suspect {
                serial: open.serial,
                call: open.call,
                given: GivenFor::Nothing,
                is_innermost: Some(open.serial) == innermost,
            })
        });
        each.collect()
    }

    fn look(&mut self, look: &WatchLook<'_>, note: &NoteEvent<'_>, state: &State<'_>) {
        let of_look = self.threads.get(&note.at.thread).and_then(|stack| stack.last()).copied();
        let of_look =
            of_look.filter(|open| (open.call.source, open.call.number) == (look.moment.source, look.moment.operator));
        let at_work = self.at_work();
        let Some(watched) = self.watches.get_mut(&look.watch).filter(|watched| watched.is_open()) else { return };
        watched.looks += 1;
        if let Some(open) = of_look {
            watched.give(open.serial, open.call, look.given);
        }
        if look.checksum != watched.checksum {
            let begins = of_look.filter(|_| look.moment.phase == Phase::Start).map(|open| open.serial);
            watched.changed(look, note.at, begins, of_look, state, note.device);
        }
        watched.checksum = look.checksum;
        watched.content = look.content;
        watched.last_operator = of_look.map(|open| open.call).or(watched.last_operator);
        watched.settle_with(&at_work);
    }

    /// What all of it came to.
    pub fn finish(mut self) -> WatchReport {
        for watched in self.watches.into_values() {
            self.report.watches.push(watched.finish());
        }
        self.report
    }
}

/// Whether what is named is certain to have been at work when the block changed: not where it only puts its kernels into a queue.
fn is_exact(source: WatchSource, device: Device, blocking: bool) -> bool {
    blocking || device == Device::Cpu || source != WatchSource::Aten
}

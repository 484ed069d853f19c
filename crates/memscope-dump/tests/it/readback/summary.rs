//! What a trace comes to, in words that are the same whatever it was read from.
use memscope_model::{
    Access, Action, AtbOperator, Device, Frame, NoteKind, Origin, Outcome, OwnerId, Pool, StackId, Stacks, State,
    TimestampNs, TraceEvent, TraceSink, TraceSource,
};
use memscope_symbols::{python_line, render_python};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A sink that keeps all it is given. Times are those of rows: see [`RowTimes`].
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) events: Vec<String>,
    pub(crate) peaks: BTreeMap<(Device, Pool), (u64, u64)>,
    /// Blocks that the books made, which say when they really began: a file cannot.
    synthetic: Vec<u64>,
    times: RowTimes,
    made: BTreeMap<u64, u64>,
}

/// Times of rows increase strictly, so rows may be later than their events; applied to times of rows it changes nothing.
#[derive(Default)]
struct RowTimes(u64);

impl RowTimes {
    fn next(&mut self, time: TimestampNs) -> u64 {
        self.0 = time.0.max(self.0 + 1);
        self.0
    }
}

impl TraceSink for Summary {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => {
                let at = event.at;
                let time = self.times.next(at.time);
                let block = event.block;
                match (event.action, event.synthetic) {
                    (Action::Malloc, true) => self.synthetic.push(block.id.0),
                    (Action::Malloc, false) => {
                        assert_eq!(block.made, at);
                        self.made.insert(block.id.0, at.event);
                    }
                    (Action::Free, _) if event.matched && !self.synthetic.contains(&block.id.0) => {
                        assert_eq!(self.made.remove(&block.id.0), Some(block.made.event), "{event:?}");
                    }
                    (Action::Free, _) => {}
                }
                let peak = self.peaks.entry((block.device, block.pool)).or_default();
                if event.used > peak.0 {
                    *peak = (event.used, time);
                }
                self.events.push(format!(
                    "{} {time} {:?} block {} {} {} {:?} at {:#x} size {} owner {:?} thread {} step {:?} stack {:?} used {} \
                     reserved {:?} matched {} synthetic {}{}",
                    at.event,
                    event.action,
                    block.id.0,
                    block.device,
                    block.pool.name(),
                    told_origin(block.pool, block.origin),
                    block.address,
                    block.size,
                    told_owner(state, block.owner),
                    at.thread,
                    at.step,
                    frames(state.stacks, at.stack),
                    event.used,
                    event.reserved,
                    event.matched,
                    event.synthetic,
                    state.beneath(&block).map_or(String::new(), |beneath| format!(" in {}", beneath.id.0)),
                ));
            }
            TraceEvent::Note(note) => {
                let time = self.times.next(note.at.time);
                self.events.push(format!(
                    "{} {time} {} thread {} step {:?} {} stack {:?}",
                    note.at.event,
                    note.device,
                    note.at.thread,
                    note.at.step,
                    told_kind(note.kind),
                    frames(state.stacks, note.at.stack),
                ));
            }
            other => panic!("{other:?}"),
        }
        ControlFlow::Continue(())
    }
}

fn told_owner<'s>(state: &State<'s>, owner: OwnerId) -> Option<&'s str> {
    state.owners.name(owner)
}

/// Files do not say how memory of the host was pinned, nor which of the modules that CANN does not name asked.
fn told_origin(pool: Pool, origin: Origin) -> Origin {
    let named = |mut traits: memscope_model::DriverTraits| {
        traits.module = traits.module.min(76);
        traits
    };
    match origin {
        _ if pool == Pool::Pinned => Origin::Registered,
        Origin::Driver(traits) => Origin::Driver(named(traits)),
        Origin::DriverHandle(traits) => Origin::DriverHandle(named(traits)),
        other => other,
    }
}

/// Files do not say the numbers of ranges.
fn told_kind(kind: NoteKind<'_>) -> String {
    match kind {
        NoteKind::RangeStart { text, .. } => format!("range {text:?}"),
        NoteKind::RangeEnd { text, .. } => format!("end of range {text:?}"),
        NoteKind::AtbOperator { phase, operator: AtbOperator { name, path, workspace, workspace_size, stream } } => {
            format!("operator {phase:?} {name:?} {path:?} {:#x} {workspace_size} {stream:?}", workspace.0)
        }
        NoteKind::Access(Access { name, .. }) => format!("{:?} by {name:?}", kind),
        other => format!("{other:?}"),
    }
}

/// As the cells of a row say it, Python first.
fn frames(stacks: &Stacks, stack: StackId) -> (Vec<String>, Vec<String>) {
    let text = |frame: Frame| match frame {
        Frame::Unknown { address } => format!("[{address:#x}]"),
        Frame::Python { code, instruction } => {
            let code = stacks.code(code);
            let line = python_line(code.python_version, code.first_line, &code.line_table, instruction);
            render_python(&code.file, line, &code.function)
        }
        Frame::Text(id) => stacks.text(id).to_owned(),
        other => panic!("{other:?}"),
    };
    (stacks.python_frames(stack).map(text).collect(), stacks.c_frames(stack).map(text).collect())
}

/// The whole trace.
pub(crate) fn summary(source: &mut dyn TraceSource) -> (Summary, Outcome) {
    let mut summary = Summary::default();
    let outcome = source.run(&mut [&mut summary], &mut |_| {}).unwrap();
    (summary, outcome)
}

/// The sums that files can tell, too.
pub(crate) fn sums(outcome: &Outcome, stacks: &Stacks) -> Vec<String> {
    let mut sums: Vec<String> = outcome
        .live_blocks()
        .map(|block| {
            format!("alive {} {} {} {:#x} {}", block.id.0, block.device, block.pool.name(), block.address, block.size)
        })
        .collect();
    // What a pool reserved without an event is in no row, and times of rows are compared with the events.
    let used = outcome.pools.iter().filter(|usage| usage.allocated_bytes > 0 || usage.live_blocks > 0);
    sums.extend(used.map(|usage| {
        format!(
            "{} {}: {} {} {} {} {}",
            usage.device,
            usage.pool.name(),
            usage.live_bytes,
            usage.live_blocks,
            usage.peak_bytes,
            usage.allocated_bytes,
            usage.freed_bytes
        )
    }));
    sums.extend(outcome.out_of_memory.iter().map(|refused| {
        let stack = frames(stacks, refused.stack);
        format!("refused {} {:?} {} {} {stack:?}", refused.device, refused.call, refused.size, refused.used_bytes)
    }));
    sums.push(format!("{} mallocs, {} frees, {} refusals", outcome.mallocs, outcome.frees, outcome.refusals));
    sums.push(format!(
        "{} events, {} notes, {:?} steps {}",
        outcome.events,
        outcome.notes,
        outcome.steps.source(),
        outcome.steps.count()
    ));
    sums.push(format!(
        "heap {} {} mapped {}",
        outcome.heap_allocations, outcome.peak_heap_bytes, outcome.peak_mapped_bytes
    ));
    sums.push(format!("{} launches, {} executions", outcome.kernels.launches, outcome.kernels.executions));
    sums
}

//! Watched blocks: which operator a look belongs to, and when a block is gone.
use super::kernels::may_look_past;
use super::{Pending, Replay};
use crate::lane::Lane;
use crate::trace::TraceSink;
use crate::watch::{WatchId, WatchLook, WatchMoment, WatchedBlock};
use crate::{BlockId, DevAddr, Device, Moment, NameId, Names, NoteEvent, NoteKind, TraceEvent};
use memscope_format::decode::{EventKind, SpoolError};
use memscope_format::record::Phase;
use memscope_format::watch::{WatchEnding, WatchSource, watch_flags};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

/// What looks are understood by.
#[derive(Default)]
pub(super) struct Watches {
    open: FxHashMap<u32, OpenWatch>,
    /// Operators at work.
    operators: FxHashMap<(WatchSource, u64), Called>,
    /// The newest moment of each thread.
    moments: FxHashMap<u32, LastMoment>,
    calls: FxHashMap<(WatchSource, Option<NameId>), u64>,
}

struct OpenWatch {
    device: Device,
    address: DevAddr,
    block: Option<BlockId>,
}

#[derive(Clone, Copy)]
struct Called {
    name: Option<NameId>,
    call: u64,
}

#[derive(Clone, Copy)]
struct LastMoment {
    source: WatchSource,
    phase: Phase,
    operator: u64,
    called: Called,
}

impl LastMoment {
    fn told<'n>(&self, names: &'n Names) -> WatchMoment<'n> {
        let LastMoment { source, phase, operator, called } = *self;
        let name = called.name.and_then(|name| names.get(name));
        WatchMoment { source, phase, operator, name, call: called.call }
    }
}

impl Replay {
    /// The hash of a kernel's name is told at its end; at its start it is looked for there.
    pub(super) fn kernel_of_moment(&mut self, pending: &mut Pending) -> Result<u64, SpoolError> {
        const MOST_EVENTS: usize = 4096;
        let EventKind::WatchMoment { source: WatchSource::Kernel, phase: Phase::Start, operator, .. } =
            pending.event.kind
        else {
            return Ok(0);
        };
        for index in 0..MOST_EVENTS {
            let Some(event) = pending.lane.peek(index, &self.spool, &mut self.stacks)? else { break };
            if let EventKind::WatchMoment { source, phase: Phase::End, operator: of, kernel } = event.kind
                && (source, of) == (WatchSource::Kernel, operator)
            {
                self.see_news(&mut pending.lane);
                return Ok(kernel);
            }
            if !may_look_past(event.kind) {
                break;
            }
        }
        Ok(0)
    }

    pub(super) fn enter_watch(
        &mut self,
        now: Moment,
        kind: EventKind,
        lane: &Lane,
        kernel_at_end: u64,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        // Lent to the event, while everything else may change.
        let mut names = std::mem::take(&mut self.names);
        let flow = self.enter_watch_with(now, kind, lane, kernel_at_end, &mut names, sink);
        self.names = names;
        flow
    }

    fn enter_watch_with(
        &mut self,
        now: Moment,
        kind: EventKind,
        lane: &Lane,
        kernel_at_end: u64,
        names: &mut Names,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        match kind {
            EventKind::WatchBegin { watch, origin, flags, device, address, size, output, checksum, content } => {
                let device = self.device_of_operator(device, now.thread);
                let block = self.block_of_storage(device, address);
                let open = OpenWatch { device, address, block: block.map(|block| block.block) };
                self.watches.open.insert(watch, open);
                let watched = WatchedBlock {
                    watch: WatchId(watch),
                    origin,
                    name: lane.text(),
                    device,
                    address,
                    size,
                    output,
                    checksum,
                    content,
                    full_content: flags & watch_flags::FULL_CONTENT != 0,
                    blocking: flags & watch_flags::BLOCKING != 0,
                    no_such_output: flags & watch_flags::NO_SUCH_OUTPUT != 0,
                    block,
                };
                self.tell_watch(now, device, NoteKind::WatchBegin(watched), names, sink)
            }
            EventKind::WatchMoment { source, phase, operator, kernel } => {
                let text = lane.text();
                let kernel = if kernel == 0 { kernel_at_end } else { kernel };
                let name = match (text, kernel) {
                    ("", 0) => None,
                    ("", hash) => self.kernels.name(hash),
                    (text, _) => Some(names.intern(text)),
                };
                let called = self.called(source, phase, operator, name);
                let moment = LastMoment { source, phase, operator, called };
                self.watches.moments.insert(now.thread, moment);
                let told = moment.told(names);
                self.tell_watch(now, Device::Unknown, NoteKind::WatchMoment(told), names, sink)
            }
            EventKind::WatchLook { watch, given, checksum, content } => {
                let Some(moment) = self.watches.moments.get(&now.thread).copied() else {
                    return ControlFlow::Continue(());
                };
                let Some(open) = self.watches.open.get(&watch) else { return ControlFlow::Continue(()) };
                let device = open.device;
                // The recorder does not know of every block where it begins: it may look at one that is gone.
                if open.block.is_some()
                    && self.block_of_storage(device, open.address).map(|block| block.block) != open.block
                {
                    self.watches.open.remove(&watch);
                    let ended = NoteKind::WatchEnd { watch: WatchId(watch), reason: WatchEnding::Freed };
                    return self.tell_watch(now, device, ended, names, sink);
                }
                let moment = moment.told(names);
                let look = WatchLook { watch: WatchId(watch), moment, given, checksum, content };
                self.tell_watch(now, device, NoteKind::WatchLook(look), names, sink)
            }
            EventKind::WatchEnd { watch, reason } => {
                let Some(open) = self.watches.open.remove(&watch) else { return ControlFlow::Continue(()) };
                let ended = NoteKind::WatchEnd { watch: WatchId(watch), reason };
                self.tell_watch(now, open.device, ended, names, sink)
            }
            EventKind::WatchProblem { problem, value } => {
                let kind = NoteKind::WatchProblem { problem, value };
                self.tell_watch(now, Device::Unknown, kind, names, sink)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// The end repeats neither name nor count.
    fn called(&mut self, source: WatchSource, phase: Phase, operator: u64, name: Option<NameId>) -> Called {
        /// Of operators that are left by exceptions.
        const MOST: usize = 1 << 16;
        let Watches { operators, calls, .. } = &mut self.watches;
        match phase {
            Phase::Start => {
                let count = calls.entry((source, name)).or_default();
                *count += 1;
                let called = Called { name, call: *count };
                if operators.len() >= MOST {
                    operators.clear();
                }
                operators.insert((source, operator), called);
                called
            }
            Phase::End => {
                let begun = operators.remove(&(source, operator));
                begun.unwrap_or(Called { name, call: 0 })
            }
        }
    }

    /// These have no rows, and are not counted among those that may.
    fn tell_watch(
        &mut self,
        now: Moment,
        device: Device,
        kind: NoteKind<'_>,
        names: &Names,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_open();
        let note = NoteEvent { at: Moment { event: self.books.counts.ids, ..now }, device, kind, chosen };
        let books = self.books.view();
        sink.event(&TraceEvent::Note(&note), &self.delivery.state(&books, &self.stacks, names))
    }
}

//! What the program says of itself: marks, steps, where tracing begins and ends.
use super::Replay;
use crate::trace::TraceSink;
use crate::{BlockId, Device, Moment, NoteKind, TraceEvent};
use memscope_format::record::{LogicalDevice, SystemKind};
use std::ops::ControlFlow;

impl Replay {
    pub(super) fn enter_system(
        &mut self,
        now: Moment,
        kind: SystemKind,
        value: u64,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_within_span();
        match kind {
            SystemKind::AclInit => self.note(now, Device::Unknown, NoteKind::AclInit, chosen, sink),
            SystemKind::AclFinalize => self.note(now, Device::Unknown, NoteKind::AclFinalize, chosen, sink),
            SystemKind::StartTrace => {
                self.note(now, Device::Unknown, NoteKind::StartTrace, chosen, sink)?;
                self.start_trace(now, sink)
            }
            SystemKind::StopTrace => {
                self.delivery.gate.stop(BlockId(self.books.counts.blocks), &self.delivery.steps);
                self.note(now, Device::Unknown, NoteKind::StopTrace, chosen, sink)
            }
            SystemKind::Step => {
                let flow = match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
                    Some(device) => self.note(now, device, NoteKind::Step(value), chosen, sink),
                    None => ControlFlow::Continue(()),
                };
                if chosen {
                    self.delivery.steps.mark();
                }
                self.delivery.gate.update(&self.delivery.steps);
                flow
            }
            SystemKind::SetDevice => {
                let number = u32::try_from(value).unwrap_or(u32::MAX);
                self.thread_devices.set(now.thread, self.device_numbers.seen_by_program(LogicalDevice(number)));
                ControlFlow::Continue(())
            }
        }
    }

    /// Tells of the blocks that are alive when tracing begins.
    fn start_trace(&mut self, now: Moment, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let Some(announced) = self.delivery.gate.start(&self.delivery.steps) else { return ControlFlow::Continue(()) };
        for block in self.books.live_after(announced) {
            if self.delivery.gate.devices.contains(block.device) {
                let event = self.books.announced_again(now, block);
                let books = self.books.view();
                let state = self.delivery.state(&books, &self.stacks, &self.names);
                sink.event(&TraceEvent::Alive(&event), &state)?;
            }
        }
        ControlFlow::Continue(())
    }

    pub(super) fn mark(&mut self, now: Moment, kind: NoteKind<'_>, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_open();
        match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
            Some(device) => self.note(now, device, kind, chosen, sink),
            None => ControlFlow::Continue(()),
        }
    }
}

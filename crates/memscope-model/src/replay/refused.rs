//! Memory that was refused, and snapshots.
use super::Replay;
use crate::outcome::lowest_pool;
use crate::refusals::{self, SNAPSHOT_AFTER_REFUSAL, SNAPSHOT_AT_REFUSAL};
use crate::{Device, Moment, NoteKind, OutOfMemory, Pool, RefusedCall, SnapshotMemory, StackId, TraceSink, state};
use memscope_format::record::LogicalDevice;
use std::ops::ControlFlow;

impl Replay {
    pub(super) fn refuse(
        &mut self,
        now: Moment,
        call: RefusedCall,
        device: Device,
        (size, flag): (u64, u64),
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        if !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        let lowest = state::Books::pool(&self.books.view(), device, lowest_pool(device));
        let Moment { time, thread, stack, .. } = now;
        let used_bytes = lowest.map_or(0, |usage| usage.live_bytes);
        self.refusals.add(OutOfMemory { time, thread, device, call, size, stack, used_bytes });
        self.snapshot(now, device, SNAPSHOT_AT_REFUSAL, sink)?;
        self.note(now, device, NoteKind::OutOfMemory { call, size, flag }, true, sink)?;
        for (list, block) in self.refusals.lists(device, &self.books) {
            let view = self.books.view();
            let (at, kind) =
                refusals::listed(now, list, &block, &self.delivery.state(&view, &self.stacks, &self.names));
            self.note(at, device, kind, true, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// The thread is given memory: if it was refused before, this is what became of it.
    pub(super) fn snapshot_after_refusal(
        &mut self,
        now: Moment,
        (device, pool): (Device, Pool),
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        if self.refusals.is_unanswered() && self.refusals.answer(now.thread, device, pool) {
            let unasked = Moment { stack: StackId::NONE, ..now };
            return self.snapshot(unasked, device, SNAPSHOT_AFTER_REFUSAL, sink);
        }
        ControlFlow::Continue(())
    }

    pub(super) fn snapshots_at_end(&mut self, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        for (thread, device) in self.refusals.take_unanswered() {
            let now = self.moment(self.delivery.last_time, thread, StackId::NONE);
            self.snapshot(now, device, SNAPSHOT_AFTER_REFUSAL, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// Asked for, so emitted whether tracing is on or not.
    pub(super) fn snapshot(
        &mut self,
        now: Moment,
        device: Device,
        name: &str,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let memory = refusals::snapshot(device, &self.books);
        self.told_snapshot(now, device, name, memory, sink)
    }

    /// One of each NPU whose memory was seen.
    pub(super) fn snapshot_of_all(&mut self, now: Moment, name: &str, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let mut devices: Vec<Device> =
            state::Books::pools(&self.books.view()).iter().map(|usage| usage.device).collect();
        devices.retain(|device| matches!(device, Device::Npu(_)));
        devices.dedup();
        devices.into_iter().try_for_each(|device| self.snapshot(now, device, name, sink))
    }

    /// The device of a snapshot, as the program numbers it.
    pub(super) fn snapshot_device(&self, device: LogicalDevice, thread: u32) -> Device {
        match device {
            LogicalDevice::UNKNOWN => self.thread_devices.of(thread),
            device => self.device_numbers.seen_by_program(device),
        }
    }

    /// The same with what the program says of its memory.
    pub(super) fn told_snapshot(
        &mut self,
        now: Moment,
        device: Device,
        name: &str,
        memory: SnapshotMemory,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        if !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        self.note(now, device, NoteKind::Snapshot { name, memory }, true, sink)
    }
}

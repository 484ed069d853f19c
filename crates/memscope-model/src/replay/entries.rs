//! A recorded event comes into the books, and what that makes of it to the sink.
use super::{Pending, Replay};
use crate::books::{Books, BooksView, Counts};
use crate::device_books::{Allocation, DeviceBooks, Emit};
use crate::host_books::HostBooks;
use crate::kernel_books::TaskId;
use crate::lane::Lane;
use crate::trace::TraceSink;
use crate::{
    BlockEvent, Device, DeviceRoom, Moment, NoteKind, Origin, OwnerId, Pool, RefusedCall, SnapshotMemory, refusals,
};
use memscope_format::decode::{EventKind, SpoolError};
use memscope_format::record::{LogicalDevice, Phase, Space};
use std::ops::ControlFlow;

impl Replay {
    #[inline]
    pub(super) fn enter_host(&mut self, now: Moment, kind: EventKind, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let Replay { books, delivery, stacks, names, .. } = self;
        let Books { host, devices, counts } = books;
        host.owner = delivery.labels.owner_now(OwnerId::NONE, &mut delivery.owners);
        host.enter(now, kind, counts, &mut |event: &mut BlockEvent, host: &HostBooks| {
            delivery.memory(event, BooksView { host, devices }, (stacks, names), &mut *sink)
        })
    }

    /// Changes the books of devices, and delivers the events that makes.
    pub(super) fn enter_device(
        &mut self,
        sink: &mut dyn TraceSink,
        change: impl FnOnce(&mut DeviceBooks, &mut Counts, Emit<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Replay { books, delivery, stacks, names, .. } = self;
        let Books { host, devices, counts } = books;
        change(devices, counts, &mut |event: &mut BlockEvent, devices: &DeviceBooks| {
            delivery.memory(event, BooksView { host, devices }, (stacks, names), &mut *sink)
        })
    }

    /// Books an event that is not about host memory and goes on to the lane's next; some have to wait for that.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_in_order(
        &mut self,
        now: Moment,
        kind: EventKind,
        pending: &mut Pending,
        sink: &mut dyn TraceSink,
    ) -> Result<ControlFlow<(), bool>, SpoolError> {
        if kind == EventKind::KernelLaunch {
            return Ok(match self.enter_launch(now, pending, sink)? {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        if is_of_watch(kind) {
            let kernel = self.kernel_of_moment(pending)?;
            return Ok(match self.enter_watch(now, kind, &pending.lane, kernel, sink) {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        if self.label(kind, now.thread, pending) {
            return Ok(ControlFlow::Continue(self.advance(pending)?));
        }
        if !waits_for_total(kind) {
            return Ok(match self.enter_rare(now, kind, &pending.lane, sink) {
                ControlFlow::Continue(()) => ControlFlow::Continue(self.advance(pending)?),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            });
        }
        // MindSpore tells what its pool has reserved just after the block that changed it.
        let more = self.advance(pending)?;
        if more && let EventKind::PoolTotal { space: Space::MindSpore, device, total } = pending.event.kind {
            let device = self.device_numbers.device(Space::MindSpore, device);
            self.books.devices.reserve(Space::MindSpore, device, total, &mut self.books.counts);
        }
        Ok(self.enter_rare(now, kind, &pending.lane, sink).map_continue(|()| more))
    }

    /// A block of a device or a pool begins or ends.
    pub(super) fn enter_block(&mut self, now: Moment, kind: EventKind, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        match kind {
            EventKind::DeviceAlloc { space, device, address, size, attributes } => {
                let device = self.device_numbers.device(space, device);
                self.snapshot_after_refusal(now, (device, Pool::of(space, device)), sink)?;
                let base = OwnerId::of(Pool::of(space, device), Origin::of(space, attributes));
                let owner = self.delivery.labels.owner_now(base, &mut self.delivery.owners);
                let allocation = Allocation { space, device, address, size, attributes, owner };
                self.enter_device(sink, |devices, counts, emit| devices.alloc(now, allocation, counts, emit))
            }
            EventKind::DeviceFree { space, address } => {
                self.enter_device(sink, |devices, counts, emit| devices.free(now, space, address, counts, emit))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Everything that is not about host memory.
    fn enter_rare(&mut self, now: Moment, kind: EventKind, lane: &Lane, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let Replay { books, device_numbers, .. } = self;
        match kind {
            EventKind::DeviceAlloc { .. } | EventKind::DeviceFree { .. } => self.enter_block(now, kind, sink),
            EventKind::PoolTotal { space, device, total } => {
                let device = device_numbers.device(space, device);
                books.devices.reserve(space, device, total, &mut books.counts);
                ControlFlow::Continue(())
            }
            EventKind::OutOfMemory { space, device, size, flag } => {
                let device = device_numbers.device(space, device);
                self.refuse(now, RefusedCall::of(space, device), device, (size, flag), sink)
            }
            EventKind::HostRefused { call, size, flag } => {
                self.refuse(now, RefusedCall::Host(call), Device::Cpu, (size, flag), sink)
            }
            EventKind::System { kind, value } => self.enter_system(now, kind, value, sink),
            EventKind::Snapshot { device, .. } => {
                if device == LogicalDevice::ALL {
                    return self.snapshot_of_all(now, lane.text(), sink);
                }
                let device = self.snapshot_device(device, now.thread);
                self.snapshot(now, device, lane.text(), sink)
            }
            EventKind::Mark { .. } => self.mark(now, NoteKind::Mark(lane.text()), sink),
            EventKind::RangeStart { id, .. } => {
                let text = lane.text();
                self.ranges.start(id, text);
                // A step's own start and end are within it.
                if self.delivery.gate.is_within_span() {
                    self.delivery.steps.range_start(id, text);
                }
                self.delivery.gate.update(&self.delivery.steps);
                let now = Moment { step: self.delivery.steps.current(), ..now };
                self.mark(now, NoteKind::RangeStart { id, text }, sink)
            }
            EventKind::RangeEnd { id } => {
                let text = self.ranges.end(id);
                let flow = self.mark(now, NoteKind::RangeEnd { id, text: text.as_deref() }, sink);
                self.delivery.steps.range_end(id);
                self.delivery.gate.update(&self.delivery.steps);
                flow
            }
            EventKind::HostAlloc { .. }
            | EventKind::HostFree { .. }
            | EventKind::HostMap { .. }
            | EventKind::HostProtect { .. }
            | EventKind::HostUnmap { .. }
            | EventKind::HostRemap { .. } => ControlFlow::Continue(()),
            EventKind::Task { device, stream, task, name } => {
                self.enter_task(now, TaskId::reported(device, stream, task), name, sink)
            }
            EventKind::StreamExpansion { status } => {
                self.kernels.set_expanded(status);
                ControlFlow::Continue(())
            }
            // Task logs have lanes of their own; launches were booked before.
            EventKind::DeviceClock { .. } | EventKind::Execution { .. } | EventKind::KernelLaunch => {
                self.books.counts.implausible()
            }
            EventKind::Heap { space, device, address, size } => {
                let device = device_numbers.device(space, device);
                books.devices.heap(space, device, address, size, &mut books.counts);
                ControlFlow::Continue(())
            }
            EventKind::HeapEnd { space, address } => {
                self.enter_device(sink, |devices, counts, emit| devices.heap_end(now, space, address, counts, emit))
            }
            EventKind::AtbOperatorStart { .. }
            | EventKind::AtbOperatorEnd { .. }
            | EventKind::AtbKernel { .. }
            | EventKind::Access { .. } => self.enter_atb(now, kind, lane, sink),
            EventKind::AtenOperatorStart { .. } | EventKind::AtenOperatorEnd { .. } | EventKind::AtenAccess { .. } => {
                self.enter_aten(now, kind, lane, sink)
            }
            EventKind::FunctionStart { name } => self.function(now, Phase::Start, lane.label_name(name), sink),
            EventKind::FunctionEnd { name } => self.function(now, Phase::End, lane.label_name(name), sink),
            EventKind::ToldSnapshot { device, reserved, max_reserved, allocated, max_allocated, free, total } => {
                let device = self.snapshot_device(device, now.thread);
                let of_device = Some(DeviceRoom { free: free.min(total), total });
                let mut memory = SnapshotMemory { reserved, max_reserved, allocated, max_allocated, of_device };
                if device == Device::Cpu {
                    let booked = refusals::snapshot(device, &self.books);
                    (memory.allocated, memory.max_allocated) = (booked.allocated, booked.max_allocated);
                }
                self.told_snapshot(now, device, lane.text(), memory, sink)
            }
            // Booked before, with the lane they belong to.
            EventKind::LabelStart { .. } | EventKind::LabelEnd { .. } | EventKind::LabelBlock { .. } => {
                ControlFlow::Continue(())
            }
            // The lane has left them out.
            EventKind::CallsBegin {}
            | EventKind::CallFound { .. }
            | EventKind::Call { .. }
            | EventKind::ModuleCall { .. }
            | EventKind::NativeCall { .. }
            | EventKind::CallEnd {} => ControlFlow::Continue(()),
            EventKind::WatchBegin { .. }
            | EventKind::WatchMoment { .. }
            | EventKind::WatchLook { .. }
            | EventKind::WatchEnd { .. }
            | EventKind::WatchProblem { .. } => self.enter_watch(now, kind, lane, 0, sink),
        }
    }
}

#[inline]
pub(super) fn is_of_host(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::HostAlloc { .. }
            | EventKind::HostFree { .. }
            | EventKind::HostMap { .. }
            | EventKind::HostProtect { .. }
            | EventKind::HostUnmap { .. }
            | EventKind::HostRemap { .. }
    )
}

fn is_of_watch(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::WatchBegin { .. }
            | EventKind::WatchMoment { .. }
            | EventKind::WatchLook { .. }
            | EventKind::WatchEnd { .. }
            | EventKind::WatchProblem { .. }
    )
}

/// The pool's total that belongs to the event comes after it.
fn waits_for_total(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::DeviceAlloc { space: Space::MindSpore, .. } | EventKind::DeviceFree { space: Space::MindSpore, .. }
    )
}

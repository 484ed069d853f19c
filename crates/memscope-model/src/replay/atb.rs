//! Operators and kernels of ATB.
use super::Replay;
use crate::lane::Lane;
use crate::operators::{OpenAtbOperator, kernel_name};
use crate::trace::TraceSink;
use crate::{Access, AtbOperator, Device, Moment, NameId, Names, NoteEvent, NoteKind, TensorOwner};
use memscope_format::decode::EventKind;
use memscope_format::record::{LogicalDevice, Phase};
use std::ops::ControlFlow;

impl Replay {
    /// Operators and kernels, and what they are given.
    pub(super) fn enter_atb(
        &mut self,
        now: Moment,
        kind: EventKind,
        lane: &Lane,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        // Lent to the event, while everything else may change.
        let mut names = std::mem::take(&mut self.names);
        let (path, name) = lane.atb_names();
        let of_kernel = path.and_then(kernel_name).map(|name| names.intern(name));
        let of_operator = name.map(|name| names.intern(name));
        let flow = self.enter_named(now, kind, lane, (of_operator, of_kernel), &names, sink);
        self.names = names;
        flow
    }

    fn enter_named(
        &mut self,
        now: Moment,
        kind: EventKind,
        lane: &Lane,
        (of_operator, of_kernel): (Option<NameId>, Option<NameId>),
        names: &Names,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let named = |id: Option<NameId>| id.and_then(|id| names.get(id));
        let (path, _) = lane.atb_names();
        match kind {
            EventKind::AtbOperatorStart { launch: number, device, workspace, workspace_size } => {
                let device = self.device_of_operator(device, now.thread);
                let stream = lane.stream();
                let operator = AtbOperator { name: named(of_operator), path, workspace, workspace_size, stream };
                self.operators.start(number, OpenAtbOperator::of(device, &operator));
                self.emit_if_asked_for(
                    now,
                    device,
                    NoteKind::AtbOperator { phase: Phase::Start, operator },
                    names,
                    sink,
                )
            }
            EventKind::AtbOperatorEnd { launch: number } => {
                // The start of one that nobody knows is in a part of the recording that is lost.
                let Some(open) = self.operators.end(number) else { return ControlFlow::Continue(()) };
                let kind = NoteKind::AtbOperator { phase: Phase::End, operator: open.lend(names) };
                self.emit_if_asked_for(now, open.device, kind, names, sink)
            }
            EventKind::AtbKernel { phase, device } => {
                let device = self.device_of_operator(device, now.thread);
                let kind = NoteKind::AtbKernel { phase, name: named(of_kernel), path };
                self.emit_if_asked_for(now, device, kind, names, sink)
            }
            EventKind::Access { mode, owner, device, address, size } => {
                let device = self.device_of_operator(device, now.thread);
                let block = self.books.devices.around(device, address);
                let tensor = lane.tensor();
                let owner = TensorOwner::from(owner);
                let access = Access {
                    mode,
                    owner,
                    name: named(of_operator.or(of_kernel.filter(|_| owner == TensorOwner::AtbKernel))),
                    address,
                    size,
                    block,
                    dtype: tensor.dtype,
                    format: tensor.format,
                    dimensions: tensor.dimensions(),
                };
                let device = block.map_or(device, |block| block.device);
                self.emit_if_asked_for(now, device, NoteKind::Access(access), names, sink)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Programs are asked for their device in their own numbers; where that gave nothing, it is that of the thread.
    pub(super) fn device_of_operator(&self, device: LogicalDevice, thread: u32) -> Device {
        match self.device_numbers.seen_by_program(device) {
            Device::Unknown => self.thread_devices.of(thread),
            device => device,
        }
    }

    pub(super) fn emit_if_asked_for(
        &mut self,
        now: Moment,
        device: Device,
        kind: NoteKind<'_>,
        names: &Names,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        if !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        let chosen = self.delivery.gate.is_open();
        let note = NoteEvent { at: self.books.counts.next(now), device, kind, chosen };
        self.delivery.note(&note, self.books.view(), (&self.stacks, names), sink)
    }
}

//! Operators of Aten, and the tensors they are given.
use super::Replay;
use crate::lane::Lane;
use crate::operators::OpenAtenOperator;
use crate::trace::TraceSink;
use crate::{Access, AccessMode, AccessedBlock, DevAddr, Device, Moment, NameId, Names, NoteKind, TensorOwner};
use memscope_format::decode::EventKind;
use memscope_format::record::{HostAddr, LogicalDevice, Phase};
use std::ops::ControlFlow;

impl Replay {
    pub(super) fn enter_aten(
        &mut self,
        now: Moment,
        kind: EventKind,
        lane: &Lane,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        // Lent to the event, while everything else may change.
        let mut names = std::mem::take(&mut self.names);
        let flow = self.enter_aten_with(now, kind, lane, &mut names, sink);
        self.names = names;
        flow
    }

    fn enter_aten_with(
        &mut self,
        now: Moment,
        kind: EventKind,
        lane: &Lane,
        names: &mut Names,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        // The definition may be in a part of the recording that is lost.
        let mut named = |number| -> Option<NameId> { lane.aten_name(number).map(|name| names.intern(name)) };
        match kind {
            EventKind::AtenOperatorStart { sequence, device, name } => {
                let name = named(name);
                let device = self.device_of_aten(device, now.thread);
                let stream = lane.stream().filter(|_| device != Device::Cpu);
                self.aten_operators.start(sequence, OpenAtenOperator { device, name, stream });
                let name = name.and_then(|name| names.get(name));
                let kind = NoteKind::AtenOperator { phase: Phase::Start, name, stream };
                self.emit_if_asked_for(now, device, kind, names, sink)
            }
            EventKind::AtenOperatorEnd { sequence } => {
                // The start of one that nobody knows is in a part of the recording that is lost.
                let Some(open) = self.aten_operators.end(sequence) else { return ControlFlow::Continue(()) };
                let name = open.name.and_then(|name| names.get(name));
                let kind = NoteKind::AtenOperator { phase: Phase::End, name, stream: open.stream };
                self.emit_if_asked_for(now, open.device, kind, names, sink)
            }
            EventKind::AtenAccess { mode, name, device, address, size, storage } => {
                let name = named(name);
                let device = self.device_of_operator(device, now.thread);
                // A view may begin where its storage ends.
                let block = self.block_of_storage(device, if storage == DevAddr(0) { address } else { storage });
                if mode == AccessMode::Read
                    && let Some(accessed) = &block
                {
                    self.delivery.labels.read(accessed.block, now.thread);
                }
                let tensor = lane.tensor();
                let access = Access {
                    mode,
                    owner: TensorOwner::Aten,
                    name: name.and_then(|name| names.get(name)),
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

    /// One that is given no tensor does not say where it works: where its thread uses no device, it is the host.
    fn device_of_aten(&self, device: LogicalDevice, thread: u32) -> Device {
        match self.device_of_operator(device, thread) {
            Device::Unknown if self.delivery.gate.devices.contains(Device::Cpu) => Device::Cpu,
            device => device,
        }
    }

    /// On the host a storage may be a block of the heap that torch did not allocate: only where one begins is known there.
    pub(super) fn block_of_storage(&self, device: Device, storage: DevAddr) -> Option<AccessedBlock> {
        let found = self.books.devices.around(device, storage);
        found.or_else(|| {
            let block = (device == Device::Cpu).then(|| self.books.host.of_heap_at(HostAddr(storage.0)))??;
            Some(AccessedBlock { block: block.id, address: storage, device })
        })
    }
}

//! Leaks between three marks A, B and C of the program: what is allocated from A to B must be freed by C.
use super::operators::Operators;
use memscope_model::{
    Action, Block, BlockEvent, BlockId, Device, Moment, NameId, NoteKind, State, TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

/// Watches a trace for what lies between marks.
///
/// Each device counts the marks of threads that use it, and those of threads that use none. Host memory goes by the marks of
/// the device that was the first to have one.
#[derive(Clone, Debug)]
pub struct LeaksBetweenMarks {
    text: String,
    /// The mark that is A, from 0.
    start: usize,
    marks: Vec<(Device, Moment)>,
    devices: FxHashMap<Device, OfDevice>,
    operators: Operators,
}

/// The memory of one device.
#[derive(Clone, Debug, Default)]
struct OfDevice {
    /// A, B and C, as far as they came.
    marks: Vec<Moment>,
    /// How many marks came.
    seen: usize,
    /// Allocated between A and B, and not freed yet.
    alive: FxHashMap<BlockId, (Block, Option<NameId>)>,
}

/// What marks of a device enclose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BetweenMarks {
    pub device: Device,
    /// How many marks of the text the device has.
    pub marks: usize,
    /// A, B and C; `None` if there are not so many.
    pub points: Option<[Moment; 3]>,
    /// Allocated between A and B and not freed by C, in the order of their allocation, with what they were made for.
    pub leaks: Vec<(Block, Option<NameId>)>,
}

impl LeaksBetweenMarks {
    /// Between the marks of this text with the numbers `start`, `start` + 1 and `start` + 2, from 0.
    pub fn new(text: &str, start: usize) -> LeaksBetweenMarks {
        LeaksBetweenMarks {
            text: text.to_owned(),
            start,
            marks: Vec::new(),
            devices: FxHashMap::default(),
            operators: Operators::default(),
        }
    }

    /// The devices that had an allocation, in their order.
    pub fn finish(mut self) -> Vec<BetweenMarks> {
        let mut found: Vec<BetweenMarks> = self
            .devices
            .drain()
            .map(|(device, of_device)| {
                let points = <[Moment; 3]>::try_from(of_device.marks).ok();
                let mut leaks: Vec<_> = of_device.alive.into_values().filter(|_| points.is_some()).collect();
                leaks.sort_unstable_by_key(|(block, _)| block.id);
                BetweenMarks { device, marks: of_device.seen, points, leaks }
            })
            .collect();
        found.sort_unstable_by_key(|found| found.device);
        found
    }

    fn mark(&mut self, device: Device, at: Moment) {
        self.marks.push((device, at));
        let first = self.marks[0].0;
        for (of, memory) in &mut self.devices {
            if counts_for(*of, device, first) {
                memory.see_mark(at, self.start);
            }
        }
    }

    fn block(&mut self, event: &BlockEvent, state: &State<'_>) {
        let block = &event.block;
        if !self.devices.contains_key(&block.device) {
            self.meet(block.device);
        }
        let Some(memory) = self.devices.get_mut(&block.device) else { return };
        match (event.action, memory.marks.len()) {
            // Between A and B.
            (Action::Malloc, 1) => {
                if let Some(beneath) = state.beneath(block) {
                    // The same memory: the storage of a tensor is what is told.
                    memory.alive.remove(&beneath.id);
                }
                let operator = self.operators.current(block.device, event.at.thread);
                memory.alive.insert(block.id, (*block, operator));
            }
            // Before C.
            (Action::Free, 1 | 2) => _ = memory.alive.remove(&block.id),
            _ => {}
        }
    }

    /// A device whose first event this is may have marks already.
    fn meet(&mut self, device: Device) {
        let mut memory = OfDevice::default();
        for (of_mark, at) in &self.marks {
            if counts_for(device, *of_mark, self.marks[0].0) {
                memory.see_mark(*at, self.start);
            }
        }
        self.devices.insert(device, memory);
    }
}

/// Whether memory of a device goes by a mark; `first` is the device of the first mark of all.
fn counts_for(memory: Device, mark: Device, first: Device) -> bool {
    match memory {
        Device::Npu(_) => mark == memory || matches!(mark, Device::Unknown | Device::Cpu),
        Device::Cpu | Device::Unknown => mark == first || matches!(mark, Device::Unknown | Device::Cpu),
    }
}

impl OfDevice {
    fn see_mark(&mut self, at: Moment, start: usize) {
        if self.seen >= start && self.marks.len() < 3 {
            self.marks.push(at);
        }
        self.seen += 1;
    }
}

impl TraceSink for LeaksBetweenMarks {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) => self.block(event, state),
            TraceEvent::Note(note) => {
                self.operators.see(note);
                match note.kind {
                    NoteKind::Mark(text) if text == self.text => self.mark(note.device, note.at),
                    _ => {}
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

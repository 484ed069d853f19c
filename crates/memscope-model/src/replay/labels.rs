//! Labels of threads and blocks, and functions that the program wants to see.
use super::{Pending, Replay};
use crate::trace::TraceSink;
use crate::{Block, Moment, NoteKind, Pool, state};
use memscope_format::decode::EventKind;
use memscope_format::record::{LabelLevel, Phase};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

impl Replay {
    /// Whether it was about a label, which is booked now. One whose text is in a lost part of the recording is left out, at
    /// its end as at its start.
    pub(super) fn label(&mut self, kind: EventKind, thread: u32, pending: &mut Pending) -> bool {
        let label = match kind {
            EventKind::LabelStart { label, .. }
            | EventKind::LabelEnd { label, .. }
            | EventKind::LabelBlock { label, .. } => label,
            _ => return false,
        };
        let labels = &mut self.delivery.labels;
        let Some(label) = pending.lane.label_name(label).and_then(|text| labels.intern(text)) else { return true };
        match kind {
            EventKind::LabelStart { level: LabelLevel::Phase, .. } => {
                labels.phase_start(thread, label, pending.windows.of(thread));
            }
            EventKind::LabelEnd { level: LabelLevel::Phase, .. } => labels.phase_end(thread, label),
            EventKind::LabelBlock { level: LabelLevel::Phase, .. } => {}
            EventKind::LabelStart { level, .. } => pending.windows.start(thread, level, label, labels),
            EventKind::LabelEnd { level, .. } => pending.windows.end(thread, level, label, labels),
            EventKind::LabelBlock { level, address, .. } if labels.collects() => {
                let words = &mut self.delivery.owners;
                self.books.labelled_at(address).for_each(|block| labels.label(&block, level, label, words));
            }
            // A pass before has found whose the block is.
            _ => {}
        }
        true
    }

    pub(super) fn function(
        &mut self,
        now: Moment,
        phase: Phase,
        name: Option<&str>,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let Some(device) = self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) else {
            return ControlFlow::Continue(());
        };
        let chosen = self.delivery.gate.is_open();
        // Lent to the event, while everything else may change.
        let mut names = std::mem::take(&mut self.names);
        let name = name.map(|name| names.intern(name)).and_then(|name| names.get(name));
        let flow = match name {
            Some(name) => {
                let note = crate::NoteEvent {
                    at: self.books.counts.next(now),
                    device,
                    kind: NoteKind::Function { phase, name },
                    chosen,
                };
                self.delivery.note(&note, self.books.view(), (&self.stacks, &names), sink)
            }
            None => ControlFlow::Continue(()),
        };
        self.names = names;
        flow
    }

    /// What a pass that was over has found of labels of blocks.
    pub(crate) fn late_owners(&mut self) -> crate::labels::LateOwners {
        let Replay { books, delivery, .. } = self;
        let mut alive = FxHashMap::default();
        state::Books::for_each_live(&books.view(), &mut |block: &Block| {
            if block.pool == Pool::PtaCaching {
                alive.insert(block.id, *block);
            }
        });
        delivery.labels.conclude_alive(|block| alive.get(&block).copied(), &mut delivery.owners);
        let words = self.delivery.owners.clone();
        self.delivery.labels.take_late(words)
    }
}

//! From the books to the sink.
use crate::books::BooksView;
use crate::labels::{Labels, LateOwners};
use crate::selection::Gate;
use crate::{
    Action, BlockEvent, Names, NoteEvent, Owners, Selection, Stacks, State, Steps, TimestampNs, TraceEvent, TraceSink,
    state,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Hands events to the sink: those of the devices asked for, with a word on whether their time was.
pub(super) struct Delivery {
    pub(super) gate: Gate,
    pub(super) steps: Steps,
    pub(super) owners: Owners,
    pub(super) labels: Labels,
    pub(super) events: u64,
    pub(super) chosen_events: u64,
    pub(super) notes: u64,
    /// Times of the first and the last event emitted.
    pub(super) first_time: TimestampNs,
    pub(super) last_time: TimestampNs,
}

impl Delivery {
    /// `late`: what a pass before has found of labels of blocks.
    pub(super) fn new(gate: Gate, late: Option<&Arc<LateOwners>>) -> Delivery {
        Delivery {
            gate,
            steps: Steps::default(),
            owners: late.map_or_else(Owners::default, |late| late.words.clone()),
            labels: Labels::new(late.is_none()),
            events: 0,
            chosen_events: 0,
            notes: 0,
            first_time: TimestampNs::default(),
            last_time: TimestampNs::default(),
        }
    }

    #[inline]
    pub(super) fn memory(
        &mut self,
        event: &mut BlockEvent,
        books: BooksView<'_>,
        (stacks, names): (&Stacks, &Names),
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        if !self.gate.devices.contains(event.block.device) {
            return ControlFlow::Continue(());
        }
        if self.labels.collects() {
            match event.action {
                Action::Malloc => self.labels.allocated(&event.block),
                Action::Free => self.labels.freed(&event.block, &mut self.owners),
            }
        }
        event.selection = self.gate.select(event);
        self.events += 1;
        self.chosen_events += u64::from(event.selection != Selection::NotChosen);
        self.see(event.at.time);
        sink.event(&TraceEvent::Memory(event), &self.state(&books, stacks, names))
    }

    pub(super) fn note(
        &mut self,
        note: &NoteEvent<'_>,
        books: BooksView<'_>,
        (stacks, names): (&Stacks, &Names),
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        self.notes += 1;
        self.see(note.at.time);
        sink.event(&TraceEvent::Note(note), &self.state(&books, stacks, names))
    }

    #[inline]
    pub(super) fn state<'s>(&'s self, books: &'s dyn state::Books, stacks: &'s Stacks, names: &'s Names) -> State<'s> {
        let (chosen, untraced_after) = (self.gate.is_open(), self.gate.untraced_after());
        State { stacks, names, owners: &self.owners, steps: &self.steps, chosen, untraced_after, books }
    }

    #[inline]
    fn see(&mut self, time: TimestampNs) {
        if self.events + self.notes == 1 {
            self.first_time = time;
        }
        self.last_time = time;
    }
}

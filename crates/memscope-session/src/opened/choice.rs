//! Which events of a trace are wanted.
use memscope_dump::rows::Event;
use memscope_model::{BlockEvent, Device, Moment, NoteEvent, Pool, Selection, StepId, StepSource, TimestampNs};
use std::ops::Range;

/// What is wanted; an empty list is no restriction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    pub devices: Vec<Device>,
    /// Of events that are of a pool; with pools, only those are wanted.
    pub pools: Vec<Pool>,
    pub events: Vec<Event>,
    pub steps: Option<ChosenSteps>,
    /// When they happened, or, of blocks, when they were made: nanoseconds since the epoch.
    pub time: Option<Range<u64>>,
    /// Not what was there when tracing began, which files tell as if it were allocated then.
    pub only_new: bool,
}

/// Steps by number, of a trace whose way of making steps is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenSteps {
    pub numbers: Vec<u32>,
    /// `None`: the trace has no steps, and so none of these.
    pub source: Option<StepSource>,
}

impl ChosenSteps {
    fn contain(&self, step: StepId) -> bool {
        self.source.and_then(|source| source.number(step)).is_some_and(|number| self.numbers.contains(&number))
    }
}

impl Choice {
    /// Those that files have: chosen by who recorded, and here.
    #[inline]
    pub(super) fn wants_memory(&self, event: &BlockEvent, kind: Event) -> bool {
        event.selection != Selection::NotChosen && self.wants_block(event, &event.at) && self.wants_kind(kind)
    }

    /// By what its block is, and one of its moments.
    #[inline]
    pub(super) fn wants_block(&self, event: &BlockEvent, at: &Moment) -> bool {
        (self.devices.is_empty() || self.devices.contains(&event.block.device))
            && (self.pools.is_empty() || self.pools.contains(&event.block.pool))
            && self.wants_moment(at)
    }

    pub(super) fn wants_note(&self, note: &NoteEvent<'_>, kind: Event) -> bool {
        // A mark that was set on no device is of all.
        let of_device = |device: &Device| *device == note.device || note.device == Device::Unknown;
        note.chosen
            && self.pools.is_empty()
            && (self.devices.is_empty() || self.devices.iter().any(of_device))
            && self.wants_kind(kind)
            && self.wants_moment(&note.at)
    }

    fn wants_kind(&self, kind: Event) -> bool {
        self.events.is_empty() || self.events.contains(&kind)
    }

    fn wants_moment(&self, at: &Moment) -> bool {
        let TimestampNs(time) = at.time;
        self.time.as_ref().is_none_or(|range| range.contains(&time))
            && self.steps.as_ref().is_none_or(|steps| steps.contain(at.step))
    }
}

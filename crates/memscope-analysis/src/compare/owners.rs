//! Who owned the memory of a pool at a moment.
use crate::held::Held;
use crate::point_in_time::PointInTime;
use crate::usage::UsageTally;
use memscope_model::{Device, OwnerId, Pool, StackId, State, TraceEvent, TraceSink};
use std::ops::ControlFlow;

/// Accumulates the use of memory by device, pool and owner: a [`TraceSink`].
///
/// It is a [`UsageTally`] in which the owner of a block takes the place of the stack that made it.
#[derive(Clone, Debug, Default)]
pub struct OwnerTally(UsageTally);

impl OwnerTally {
    /// Of the peaks, the end, and these moments.
    pub fn at(points: &[PointInTime]) -> OwnerTally {
        OwnerTally(UsageTally::at(points))
    }

    /// What owners held at that moment, one of those asked for, most bytes first; nothing if the moment never came.
    pub fn holdings(&self, device: Device, pool: Pool, point: PointInTime) -> Vec<(OwnerId, Held)> {
        let holdings = self.0.holdings(device, pool, point).unwrap_or_default();
        let share =
            |usage: &crate::StackUsage| (OwnerId(usage.stack.0), Held { bytes: usage.bytes, blocks: usage.blocks });
        holdings.stacks.iter().map(share).collect()
    }
}

impl TraceSink for OwnerTally {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        let TraceEvent::Memory(event) = event else { return self.0.event(event, state) };
        let mut owned = **event;
        owned.block.made.stack = StackId(owned.block.owner.0);
        self.0.event(&TraceEvent::Memory(&owned), state)
    }
}

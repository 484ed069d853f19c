//! Events of two threads that were dated in the wrong order: seen by what the books cannot take, and put right.
use super::entries::is_of_host;
use super::{Pending, Replay};
use crate::books::Handover;
use crate::trace::TraceSink;
use crate::{ModelError, TimestampNs};
use memscope_format::decode::{Event, SpoolError};
use std::ops::ControlFlow;

/// How far apart two events of one address may be dated in the wrong order.
const SOON_NS: u64 = 20_000;

impl Replay {
    /// Looks for the event whose absence makes `event` impossible, among those of other lanes that are a little later,
    /// and books it first.
    ///
    /// Two threads that hand an address over may be dated in the wrong order: the processor reads its counter early while
    /// it waits for the other's memory.
    #[cold]
    pub(super) fn settle(
        &mut self,
        event: Event,
        index: usize,
        sink: &mut dyn TraceSink,
    ) -> Result<ControlFlow<()>, ModelError> {
        let Some(contradiction) = self.books.contradicted_by(event.kind) else {
            return Ok(ControlFlow::Continue(()));
        };
        let missing = Handover { is_free: !contradiction.is_free, ..contradiction };
        let time = self.timeline.time(event.ticks);
        // A free that another thread's, dated too early, has anticipated: then this lane's own next allocation of the
        // address is the block it freed.
        let anticipated =
            !missing.is_free && self.books.was_freed_by_another(missing, event.thread, time.earlier_by(SOON_NS));
        for other in 0..self.lanes.len() {
            if other == index && !anticipated {
                continue;
            }
            let Some(mut pending) = self.lanes[other].take() else { continue };
            let Some(left) = self.searches.checked_sub(1) else {
                self.lanes[other] = Some(pending);
                break;
            };
            self.searches = left;
            let Some((found, was_next)) = self.take_missing(&mut pending, missing, time)? else {
                self.lanes[other] = Some(pending);
                continue;
            };
            // Threads that hand over all the time are no reason to give up.
            self.searches = self.searches.saturating_add(other as u32 + 1);
            let stack = pending.lane.stack(found.stack, &mut self.stacks).unwrap_or_else(|rest| rest);
            let now = self.moment(time, found.thread, stack);
            self.delivery.labels.turn_to(found.thread, pending.windows.of(found.thread));
            if was_next && !self.advance(&mut pending)? {
                self.finish(pending.lane.cursor());
            } else {
                self.lanes[other] = Some(pending);
            }
            self.recorded += 1;
            return Ok(match is_of_host(found.kind) {
                true => self.enter_host(now, found.kind, sink),
                false => self.enter_block(now, found.kind, sink),
            });
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first event of the lane about the address, if it is what is missing and comes soon after `time`, and whether it is the one
    /// at hand; one further ahead is taken out of the lane.
    fn take_missing(
        &mut self,
        pending: &mut Pending,
        missing: Handover,
        time: TimestampNs,
    ) -> Result<Option<(Event, bool)>, SpoolError> {
        const MOST_EVENTS: usize = 4096;
        let mut event = pending.event;
        for index in 0..MOST_EVENTS {
            let handover = Handover::of(event.kind);
            if !(is_of_host(event.kind) || handover.is_some())
                || self.timeline.time(event.ticks) > time.later_by(SOON_NS)
            {
                break;
            }
            if handover == Some(missing) {
                let ahead = index.checked_sub(1);
                if let Some(ahead) = ahead {
                    pending.lane.take(ahead);
                }
                return Ok(Some((event, ahead.is_none())));
            }
            // In the lane of the contradiction the first such event is the contradiction itself.
            let is_about_it = handover.is_some_and(|of| (of.of, of.address) == (missing.of, missing.address));
            if is_about_it && !(index == 0 && pending.settled) {
                break;
            }
            match pending.lane.peek(index, &self.spool, &mut self.stacks)? {
                Some(next) => event = next,
                None => break,
            }
        }
        Ok(None)
    }
}

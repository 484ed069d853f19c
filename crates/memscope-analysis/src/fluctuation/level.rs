//! How much of one pool is in use, as time goes by.
use super::{Bin, Peak, Reserve, StepUse};
use crate::held::{Held, Shares};
use crate::holders::Holders;
use crate::time_bins::TimeBins;
use memscope_model::{Action, BlockEvent, Device, Moment, Pool, StackId, StepId, Steps, TimestampNs};
use std::cmp::Reverse;

/// Files have a time of its own for each of the events of one moment.
const ONE_MOMENT_NS: u64 = 100;

/// A pool while the trace goes on. What it holds counts when it lasted: until the next event, the end of a step or of the
/// trace, and only in the time the user chose.
#[derive(Clone, Debug)]
pub(super) struct PoolLevel {
    pub(super) device: Device,
    pub(super) pool: Pool,
    used: Held,
    reserved: Option<u64>,
    /// Since when it is like this, and in which step that was.
    since: TimestampNs,
    step: StepId,
    last: Moment,
    /// The newest event ended a block whose place was taken by another.
    is_replacing: bool,
    runs: Vec<Run>,
    pub(super) ended: Vec<StepUse>,
    pub(super) bins: Vec<Option<Bin>>,
    worst: Option<(Reserve, StepId)>,
    peak: Option<(Reserve, StepId, u64)>,
    /// Counts the new peaks; the one moment of the shares.
    peaks: [u64; 1],
    by_stack: Shares<1>,
    by_holder: Shares<1>,
}

/// A step that goes on.
#[derive(Clone, Copy, Debug)]
struct Run {
    number: u32,
    /// `None` as long as nothing of the chosen time was in it.
    seen: Option<StepUse>,
}

impl PoolLevel {
    pub(super) fn new(device: Device, pool: Pool, now: TimestampNs, running: &[u32]) -> PoolLevel {
        PoolLevel {
            device,
            pool,
            used: Held::default(),
            reserved: None,
            since: now,
            step: StepId::default(),
            last: Moment::default(),
            is_replacing: false,
            runs: running.iter().map(|number| Run { number: *number, seen: None }).collect(),
            ended: Vec::new(),
            bins: Vec::new(),
            worst: None,
            peak: None,
            peaks: [0],
            by_stack: Shares::default(),
            by_holder: Shares::default(),
        }
    }

    /// Whether what is held before this event is no more than a moment between two halves of one change.
    #[inline]
    pub(super) fn is_between(&self, event: &BlockEvent) -> bool {
        // What a partial unmapping left, or, in files, what was there when tracing began.
        if event.synthetic && event.action == Action::Malloc {
            return true;
        }
        let Moment { event: number, time, thread, .. } = event.at;
        self.is_replacing
            && (number, thread) == (self.last.event + 1, self.last.thread)
            && time.since(self.last.time) <= ONE_MOMENT_NS
    }

    /// What is held has lasted until now, in chosen time.
    #[inline]
    pub(super) fn lasted(&mut self, now: TimestampNs, bins: &TimeBins) {
        let used = self.used.bytes;
        let state = Reserve { time: self.since, step: None, used, reserved: self.reserved };
        for run in &mut self.runs {
            match &mut run.seen {
                Some(seen) => seen.see(&state),
                None => run.seen = Some(StepUse::new(run.number, &state)),
            }
        }
        let (first, last) = (bins.place(self.since), bins.place(now));
        if last >= self.bins.len() {
            self.bins.resize(last + 1, None);
        }
        for bin in &mut self.bins[first.min(last)..=last] {
            match bin {
                Some(bin) => bin.see(&state),
                None => *bin = Some(Bin::new(&state)),
            }
        }
        if used > self.peak.map_or(0, |(peak, ..)| peak.used) {
            self.peak = Some((state, self.step, self.used.blocks));
            self.peaks[0] += 1;
        }
        if self.reserved.is_some() && self.worst.is_none_or(|(worst, _)| state.unused() > worst.unused()) {
            self.worst = Some((state, self.step));
        }
    }

    /// A block begins or ends.
    #[inline]
    pub(super) fn change(&mut self, event: &BlockEvent) {
        book(&mut self.used, event);
        self.reserved = event.reserved.or(self.reserved);
        self.since = event.at.time;
        self.step = event.at.step;
        self.last = event.at;
        self.is_replacing = event.synthetic && event.action == Action::Free;
    }

    /// The same for who made the block and who holds it.
    #[inline]
    pub(super) fn hand_over(&mut self, event: &BlockEvent, holder: usize) {
        book(self.by_stack.changing(event.block.made.stack.0 as usize, &self.peaks), event);
        book(self.by_holder.changing(holder, &self.peaks), event);
    }

    /// The time chosen begins: what was before does not count.
    pub(super) fn begin_chosen(&mut self, now: TimestampNs, step: StepId) {
        self.since = now;
        self.step = step;
    }

    pub(super) fn forget_runs(&mut self) {
        self.runs.clear();
    }

    pub(super) fn begin_step(&mut self, number: u32) {
        self.runs.push(Run { number, seen: None });
    }

    pub(super) fn end_step(&mut self, number: u32) {
        let Some(index) = self.runs.iter().position(|run| run.number == number) else { return };
        self.ended.extend(self.runs.swap_remove(index).seen);
    }

    /// Two pieces of time become one.
    pub(super) fn widen(&mut self) {
        let merged = |pair: &[Option<Bin>]| match *pair {
            [Some(first), Some(second)] => Some(first.with(&second)),
            [first, second] => first.or(second),
            _ => pair[0],
        };
        self.bins = self.bins.chunks(2).map(merged).collect();
    }

    pub(super) fn worst(&self, steps: &Steps) -> Option<Reserve> {
        self.worst.map(|(worst, step)| Reserve { step: steps.number(step), ..worst })
    }

    pub(super) fn peak(&self, steps: &Steps, holders: &Holders) -> Option<Peak> {
        let (at, step, blocks) = self.peak?;
        let mut stacks: Vec<(StackId, Held)> =
            self.by_stack.at(0, self.peaks[0]).map(|(stack, held)| (StackId(stack as u32), held)).collect();
        stacks.sort_unstable_by_key(|(stack, held)| (Reverse(held.bytes), Reverse(held.blocks), *stack));
        Some(Peak {
            at: Reserve { step: steps.number(step), ..at },
            blocks,
            owners: holders.named(self.by_holder.at(0, self.peaks[0])),
            stacks,
        })
    }
}

#[inline]
fn book(held: &mut Held, event: &BlockEvent) {
    match event.action {
        Action::Malloc => held.add(event.block.size),
        Action::Free => held.remove(event.block.size),
    }
}

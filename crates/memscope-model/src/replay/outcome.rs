//! What a pass comes to.
use super::Replay;
use super::kernels::{self, LogTotals};
use crate::facts::{Damage, NothingChosen, Stopped};
use crate::task_log::TaskLogReader;
use crate::{BlockId, Outcome, state};
use memscope_format::decode::Spool;
use memscope_format::layout::{StopReason, notes};

impl Replay {
    /// What all events so far come to.
    pub(crate) fn outcome(&self) -> Outcome {
        let Replay { books, delivery, spool, .. } = self;
        let (counts, devices) = (&books.counts, delivery.gate.devices);
        let mut outcome = Outcome {
            events: delivery.events,
            chosen_events: delivery.chosen_events,
            notes: delivery.notes,
            mallocs: counts.mallocs,
            frees: counts.frees,
            unmatched_frees: counts.unmatched_frees,
            replaced_blocks: counts.replaced_blocks,
            unknown_unmaps: counts.unknown_unmaps,
            implausible_events: counts.implausible_events,
            events_without_stack: self.events_without_stack,
            lost_events: spool.lost_events(),
            lost_without_window: spool.process().lost_without_window,
            unknown_records: self.unknown_records,
            nothing_chosen: None,
            problems: self.problems.clone(),
            out_of_memory: self.refusals.kept.clone(),
            refusals: self.refusals.count,
            kernels: self.kernels.counts,
            damage: self.damage.clone(),
            stopped: stopped(spool),
            interrupted: self.interrupted,
            first_time: delivery.first_time,
            last_time: delivery.last_time,
            heap_allocations: books.host.of_heap.allocations,
            peak_heap_bytes: books.host.of_heap.peak_bytes,
            peak_mapped_bytes: books.host.of_mappings.peak_bytes,
            reserved_space: 0,
            peak_reserved_space: 0,
            steps: delivery.steps.clone(),
            names: self.names.clone(),
            owners: delivery.owners.clone(),
            pools: state::Books::pools(&books.view()),
            live: books.live_after(BlockId(0)),
        };
        for cursor in self
            .lanes
            .iter()
            .flatten()
            .map(|pending| pending.lane.cursor())
            .chain(self.logs.iter().map(TaskLogReader::cursor))
        {
            outcome.damage.extend(cursor.damage().iter().cloned().map(Damage::Spool));
            outcome.unknown_records += cursor.unknown_records();
        }
        let mut log_totals = LogTotals::default();
        self.logs.iter().for_each(|log| log_totals.add(log));
        outcome.implausible_events += log_totals.foreign;
        outcome.problems.extend(kernels::problems(&self.kernels, &log_totals, spool.process().profiling_taken()));
        if delivery.events > 0 && !self.interrupted {
            // Where calls were asked for, it may have been for them alone.
            let only_calls = spool.process().notes & notes::CALLS_TRACED != 0;
            let never_open = delivery.gate.never_open();
            outcome.nothing_chosen = never_open.filter(|why| !only_calls || *why != NothingChosen::NeverStarted);
        }
        (outcome.reserved_space, outcome.peak_reserved_space) = books.host.reserved.bytes();
        outcome.pools.retain(|usage| devices.contains(usage.device));
        outcome.live.retain(|block| devices.contains(block.device));
        outcome
    }
}

fn stopped(spool: &Spool) -> Option<Stopped> {
    let process = spool.process();
    (process.stop_reason != StopReason::None)
        .then_some(Stopped { reason: process.stop_reason, errno: process.stop_errno as i32 })
}

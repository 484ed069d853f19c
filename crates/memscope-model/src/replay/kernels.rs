//! Launches and executions in the order of time.
use super::{Pending, Replay};
use crate::facts::Problem;
use crate::kernel_books::{ExecutionMatch, KernelBooks, Task, TaskId};
use crate::task_log::{TaskLogReader, TimedLine};
use crate::trace::TraceSink;
use crate::{Device, KernelPhase, ModelError, Moment, NoteEvent, NoteKind};
use memscope_format::decode::{Event, EventKind, SpoolError};
use std::ops::ControlFlow;

/// How far on in a lane something is looked for.
const MOST_EVENTS: usize = 4096;

/// The clocks of host and device agree so far: an execution dated before its launch waits that long for it.
const PATIENCE_NS: u64 = 2_000_000;

/// How a turn of a task log ended.
pub(super) enum LogTurn {
    /// Its next line has its turn then.
    Over(u64),
    Finished,
    Interrupted,
}

/// What a row says of a kernel.
#[derive(Clone, Copy)]
struct Kernel {
    device: Device,
    name: u64,
    id: Option<TaskId>,
    chosen: bool,
}

impl Replay {
    /// The task of the launch at hand and how many events further on it is: the thread's next named one, before its next
    /// launch. The runtime reports it within the launch.
    fn task_of_launch(&mut self, pending: &mut Pending) -> Result<Option<(usize, Event)>, SpoolError> {
        if self.spool.process().profiling_taken() {
            return Ok(None);
        }
        for index in 0..MOST_EVENTS {
            let Some(event) = pending.lane.peek(index, &self.spool, &mut self.stacks)? else { break };
            match event.kind {
                EventKind::Task { name: 1.., .. } if event.thread == pending.event.thread => {
                    return Ok(Some((index, event)));
                }
                EventKind::KernelLaunch => break,
                kind if !may_look_past(kind) => break,
                _ => {}
            }
        }
        Ok(None)
    }

    /// If the launch at hand has a name that is not known yet, until when it may be defined: another thread was the
    /// first to ask for its hash, after this launch had begun.
    #[cold]
    pub(super) fn missing_name(&mut self, pending: &mut Pending) -> Result<Option<u64>, SpoolError> {
        let task = self.task_of_launch(pending)?;
        self.see_news(&mut pending.lane);
        Ok(match task {
            Some((_, Event { ticks, kind: EventKind::Task { name, .. }, .. })) if self.kernels.begin_search(name) => {
                Some(ticks)
            }
            _ => None,
        })
    }

    /// Takes in the names that lanes define until then.
    pub(super) fn search_names(&mut self, until: u64) -> Result<(), SpoolError> {
        for number in 0..self.lanes.len() {
            let Some(mut pending) = self.lanes[number].take_if(|pending| may_look_past(pending.event.kind)) else {
                continue;
            };
            for index in 0..MOST_EVENTS {
                match pending.lane.peek(index, &self.spool, &mut self.stacks)? {
                    Some(event) if event.ticks <= until && may_look_past(event.kind) => {}
                    _ => break,
                }
            }
            self.see_news(&mut pending.lane);
            self.lanes[number] = Some(pending);
        }
        Ok(())
    }

    /// Books the launch at hand with the task the runtime made of it.
    pub(super) fn enter_launch(
        &mut self,
        now: Moment,
        pending: &mut Pending,
        sink: &mut dyn TraceSink,
    ) -> Result<ControlFlow<()>, SpoolError> {
        let found = self.task_of_launch(pending)?;
        self.see_news(&mut pending.lane);
        if let Some((index, Event { kind: EventKind::Task { device, stream, task, name }, .. })) = found {
            pending.lane.take(index);
            return Ok(self.enter_task(now, TaskId::reported(device, stream, task), name, sink));
        }
        let chosen = self.delivery.gate.is_open();
        Ok(match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
            Some(device) => {
                self.kernels.counts.launches += 1;
                self.kernels.counts.launches_without_task += 1;
                self.emit_kernel(now, KernelPhase::Launch, Kernel { device, name: 0, id: None, chosen }, sink)
            }
            None => ControlFlow::Continue(()),
        })
    }

    /// Books a task: that of a launch, or one that was launched by a function that is not hooked.
    pub(super) fn enter_task(
        &mut self,
        now: Moment,
        id: TaskId,
        name: u64,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_open();
        let seen = self.kernels.launch(id, name, now.thread, chosen);
        let device = self.device_numbers.of_machine(id.device);
        if name == 0 || !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        self.kernels.counts.launches += 1;
        self.kernels.counts.launches_without_name += u64::from(self.kernels.name(name).is_none());
        let kernel = Kernel { device, name, id: Some(id), chosen };
        self.emit_kernel(now, KernelPhase::Launch, kernel, sink)?;
        if let Some((_, ended)) = seen {
            self.emit_kernel(now, KernelPhase::ExecuteStart, kernel, sink)?;
            if ended {
                self.kernels.counts.executions += 1;
                self.emit_kernel(now, KernelPhase::ExecuteEnd, kernel, sink)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits the log's lines while they come before `limit`, the next event of any lane.
    pub(super) fn run_log(
        &mut self,
        log: &mut TaskLogReader,
        index: usize,
        limit: (u64, usize),
        sink: &mut dyn TraceSink,
    ) -> Result<LogTurn, ModelError> {
        while let Some(ticks) = log.next_ticks(&self.spool, &self.timeline)? {
            self.bytes += log.take_bytes();
            if (ticks, index) > limit {
                return Ok(LogTurn::Over(ticks));
            }
            if let Some(line) = log.take()
                && self.enter_line(line, log, sink).is_break()
            {
                return Ok(LogTurn::Interrupted);
            }
            self.recorded += 1;
        }
        Ok(LogTurn::Finished)
    }

    fn enter_line(&mut self, line: TimedLine, log: &mut TaskLogReader, sink: &mut dyn TraceSink) -> ControlFlow<()> {
        let patient = !self.spool.process().profiling_taken();
        let time = self.timeline.time(line.ticks);
        let phase = if line.end { KernelPhase::ExecuteEnd } else { KernelPhase::ExecuteStart };
        let device = self.device_numbers.of_machine(line.device);
        let asked_for = self.delivery.gate.devices.contains(device);
        let step = self.delivery.steps.current();
        let at = |thread| Moment { time, thread, step, ..Moment::default() };
        match self.kernels.execute(&line, patient) {
            ExecutionMatch::Settled => ControlFlow::Continue(()),
            ExecutionMatch::RetryLater => {
                log.put_back(line, self.timeline.ticks(time.later_by(PATIENCE_NS)));
                ControlFlow::Continue(())
            }
            // A copy, or something else that is no kernel.
            ExecutionMatch::Of(Task { name: 0, .. }) => ControlFlow::Continue(()),
            _ if !asked_for => ControlFlow::Continue(()),
            ExecutionMatch::Of(Task { id, name, thread, chosen, .. }) => {
                self.kernels.counts.executions += u64::from(line.end);
                let kernel = Kernel { device, name, id: Some(id), chosen };
                self.emit_kernel(at(thread), phase, kernel, sink)
            }
            ExecutionMatch::Stray { id, ended } => {
                let chosen = self.delivery.gate.is_open();
                let kernel = Kernel { device, name: 0, id: Some(id), chosen };
                self.kernels.counts.stray_executions += u64::from(!line.end);
                self.emit_kernel(at(line.thread), phase, kernel, sink)?;
                if ended {
                    self.emit_kernel(at(line.thread), KernelPhase::ExecuteEnd, kernel, sink)?;
                }
                ControlFlow::Continue(())
            }
        }
    }

    fn emit_kernel(
        &mut self,
        now: Moment,
        phase: KernelPhase,
        kernel: Kernel,
        sink: &mut dyn TraceSink,
    ) -> ControlFlow<()> {
        let Kernel { device, name, id, chosen } = kernel;
        let Replay { books, delivery, kernels, stacks, names, .. } = self;
        let kind = NoteKind::Kernel {
            phase,
            name: kernels.name(name).and_then(|name| names.get(name)),
            stream: id.and_then(TaskId::stream),
            task: id.map(|id| id.task),
        };
        let note = NoteEvent { at: books.counts.next(now), device, kind, chosen };
        delivery.note(&note, books.view(), (stacks, names), sink)
    }
}

/// Reading on would replace the text or tensor of such an event before it was emitted.
pub(super) fn may_look_past(kind: EventKind) -> bool {
    use memscope_format::watch::WatchSource::{AtbKernel, AtbOperator, Aten};
    !matches!(
        kind,
        EventKind::Mark { .. }
            | EventKind::RangeStart { .. }
            | EventKind::Snapshot { .. }
            | EventKind::ToldSnapshot { .. }
            | EventKind::AtbOperatorStart { .. }
            | EventKind::AtbKernel { .. }
            | EventKind::Access { .. }
            | EventKind::AtenAccess { .. }
            | EventKind::WatchBegin { .. }
            | EventKind::WatchMoment { source: AtbOperator | AtbKernel | Aten, .. }
    )
}

/// What of the kernels is missing.
pub(super) fn problems(kernels: &KernelBooks, logs: &LogTotals, profiling_taken: bool) -> Vec<Problem> {
    let counts = kernels.counts;
    let launches = counts.launches;
    let found = [
        (counts.launches_without_task > 0 && !profiling_taken)
            .then_some(Problem::LaunchesWithoutTask { number: counts.launches_without_task, launches }),
        (counts.launches_without_name > 0)
            .then_some(Problem::LaunchesWithoutName { number: counts.launches_without_name, launches }),
        (counts.stray_executions > 0).then_some(Problem::StrayExecutions { number: counts.stray_executions }),
        (logs.undated > 0).then_some(Problem::UndatedExecutions { number: logs.undated }),
    ];
    found.into_iter().flatten().collect()
}

/// What all task logs of a recording add up to.
#[derive(Default)]
pub(super) struct LogTotals {
    pub(super) undated: u64,
    pub(super) foreign: u64,
}

impl LogTotals {
    pub(super) fn add(&mut self, log: &TaskLogReader) {
        self.undated += log.undated;
        self.foreign += log.foreign;
    }
}

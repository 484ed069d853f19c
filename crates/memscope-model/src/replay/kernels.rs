//! Launches and executions in the order of time.
use super::{Pending, Progress, Replay, Visit};
use crate::books::Moment;
use crate::kernel_books::{Execution, KernelBooks, Task, TaskId};
use crate::task_log::{Line, TaskLog};
use crate::{Device, KernelPhase, ModelError, NoteEvent, NoteKind, TraceEvent};
use memscope_format::decode::{Event, EventKind, SpoolError};
use memscope_format::record::Space;
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

impl Replay<'_> {
    /// The task of the launch at hand and how many events further on it is: the thread's next named one, before its next
    /// launch. The runtime reports it within the launch.
    fn task_of_launch(&mut self, pending: &mut Pending) -> Result<Option<(usize, Event)>, SpoolError> {
        if self.spool.process().profiling_taken() {
            return Ok(None);
        }
        for index in 0..MOST_EVENTS {
            let Some(event) = pending.lane.peek(index, self.spool, self.stacks)? else { break };
            match event.kind {
                EventKind::Task { name: 1.., .. } if event.thread == pending.event.thread => {
                    return Ok(Some((index, event)));
                }
                EventKind::Launch => break,
                kind if !may_look_past(kind) => break,
                _ => {}
            }
        }
        Ok(None)
    }

    /// If the launch at hand has a name that is not known yet, until when it may be told: another thread was the first to
    /// ask for its hash, after this launch had begun.
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

    /// Takes in the names that lanes tell until then.
    pub(super) fn search_names(&mut self, lanes: &mut [Option<Pending>], until: u64) -> Result<(), SpoolError> {
        for pending in lanes.iter_mut().flatten().filter(|pending| may_look_past(pending.event.kind)) {
            for index in 0..MOST_EVENTS {
                match pending.lane.peek(index, self.spool, self.stacks)? {
                    Some(event) if event.ticks <= until && may_look_past(event.kind) => {}
                    _ => break,
                }
            }
            self.see_news(&mut pending.lane);
        }
        Ok(())
    }

    /// Books the launch at hand with the task the runtime made of it.
    pub(super) fn enter_launch(
        &mut self,
        now: Moment,
        pending: &mut Pending,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SpoolError> {
        let found = self.task_of_launch(pending)?;
        self.see_news(&mut pending.lane);
        if let Some((index, Event { kind: EventKind::Task { device, stream, task, name }, .. })) = found {
            pending.lane.take(index);
            return Ok(self.enter_task(now, TaskId::reported(device, stream, task), name, visit));
        }
        let chosen = self.delivery.gate.is_open();
        Ok(match self.delivery.gate.devices.of_mark(self.thread_devices.of(now.thread)) {
            Some(device) => {
                self.kernels.counts.launches += 1;
                self.kernels.counts.launches_without_task += 1;
                self.tell_kernel(now, KernelPhase::Launch, Kernel { device, name: 0, id: None, chosen }, visit)
            }
            None => ControlFlow::Continue(()),
        })
    }

    /// Books a task: that of a launch, or one that was launched by a function nobody stands in front of.
    pub(super) fn enter_task(&mut self, now: Moment, id: TaskId, name: u64, visit: Visit<'_>) -> ControlFlow<()> {
        let chosen = self.delivery.gate.is_open();
        let seen = self.kernels.launch(id, name, now.thread, chosen);
        let device = self.driver_device(id.device);
        if name == 0 || !self.delivery.gate.devices.contains(device) {
            return ControlFlow::Continue(());
        }
        self.kernels.counts.launches += 1;
        self.kernels.counts.launches_without_name += u64::from(self.kernels.name(name).is_none());
        let kernel = Kernel { device, name, id: Some(id), chosen };
        self.tell_kernel(now, KernelPhase::Launch, kernel, visit)?;
        if let Some((_, ended)) = seen {
            self.tell_kernel(now, KernelPhase::ExecuteStart, kernel, visit)?;
            if ended {
                self.kernels.counts.executions += 1;
                self.tell_kernel(now, KernelPhase::ExecuteEnd, kernel, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits the log's lines while they come before `limit`, the next event of any lane.
    pub(super) fn run_log(
        &mut self,
        log: &mut TaskLog,
        index: usize,
        limit: (u64, usize),
        visit: Visit<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<LogTurn, ModelError> {
        while let Some(ticks) = log.next_ticks(self.spool, &self.timeline)? {
            progress.done += log.take_bytes();
            if (ticks, index) > limit {
                return Ok(LogTurn::Over(ticks));
            }
            if let Some(line) = log.take()
                && self.enter_line(line, log, visit).is_break()
            {
                return Ok(LogTurn::Interrupted);
            }
            self.recorded += 1;
        }
        Ok(LogTurn::Finished)
    }

    fn enter_line(&mut self, line: Line, log: &mut TaskLog, visit: Visit<'_>) -> ControlFlow<()> {
        let patient = !self.spool.process().profiling_taken();
        let time_ns = self.timeline.epoch_ns(line.ticks);
        let phase = if line.end { KernelPhase::ExecuteEnd } else { KernelPhase::ExecuteStart };
        let device = self.driver_device(line.device);
        let asked_for = self.delivery.gate.devices.contains(device);
        let at = |thread| Moment { time_ns, thread, stack: crate::StackId::NONE };
        match self.kernels.execute(&line, patient) {
            Execution::Nothing => ControlFlow::Continue(()),
            Execution::Waits => {
                log.put_back(line, self.timeline.ticks(time_ns.saturating_add(PATIENCE_NS)));
                ControlFlow::Continue(())
            }
            // A copy, or something else that is no kernel.
            Execution::Of(Task { name: 0, .. }) => ControlFlow::Continue(()),
            _ if !asked_for => ControlFlow::Continue(()),
            Execution::Of(Task { id, name, thread, chosen, .. }) => {
                self.kernels.counts.executions += u64::from(line.end);
                let kernel = Kernel { device, name, id: Some(id), chosen };
                self.tell_kernel(at(thread), phase, kernel, visit)
            }
            Execution::Stray { id, ended } => {
                let chosen = self.delivery.gate.is_open();
                let kernel = Kernel { device, name: 0, id: Some(id), chosen };
                self.kernels.counts.stray_executions += u64::from(!line.end);
                self.tell_kernel(at(line.thread), phase, kernel, visit)?;
                if ended {
                    self.tell_kernel(at(line.thread), KernelPhase::ExecuteEnd, kernel, visit)?;
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// The driver numbers devices as the machine does.
    fn driver_device(&self, number: u32) -> Device {
        self.device_numbers.device(Space::Driver, number)
    }

    fn tell_kernel(&mut self, now: Moment, phase: KernelPhase, kernel: Kernel, visit: Visit<'_>) -> ControlFlow<()> {
        let Kernel { device, name, id, chosen } = kernel;
        let Replay { books, delivery, kernels, stacks, .. } = self;
        delivery.notes += 1;
        delivery.see(now.time_ns);
        let kind = NoteKind::Kernel {
            phase,
            name: kernels.name(name),
            stream: id.and_then(TaskId::stream),
            task: id.map(|id| id.task),
        };
        let note = NoteEvent {
            id: books.counts.next_id(),
            time_ns: now.time_ns,
            thread: now.thread,
            device,
            stack: now.stack,
            kind,
            chosen,
        };
        visit(TraceEvent::Note(&note), stacks)
    }
}

/// Reading on would replace the text of such an event before it was told.
fn may_look_past(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Mark { .. } | EventKind::RangeStart { .. })
}

/// What of the kernels is missing, one sentence each.
pub(super) fn problems(kernels: &KernelBooks, logs: &LogTotals, profiling_taken: bool) -> Vec<String> {
    let counts = kernels.counts;
    let mut problems = Vec::new();
    if counts.launches_without_task > 0 && !profiling_taken {
        problems.push(format!(
            "{} of {} kernel launches have no name, stream and task: the runtime reported no task for them (another \
             profiler may have taken its callbacks)",
            counts.launches_without_task, counts.launches
        ));
    }
    if counts.launches_without_name > 0 {
        problems.push(format!(
            "{} of {} kernel launches have no name: it was never told what their number stands for",
            counts.launches_without_name, counts.launches
        ));
    }
    if counts.stray_executions > 0 {
        problems.push(format!("executions on a device of which no launch was recorded: {}", counts.stray_executions));
    }
    if logs.undated > 0 {
        problems.push(format!(
            "{} beginnings and ends of kernels have the time at which they were read: the device's clock is not known",
            logs.undated
        ));
    }
    problems
}

/// What all task logs of a recording add up to.
#[derive(Default)]
pub(super) struct LogTotals {
    pub(super) undated: u64,
    pub(super) foreign: u64,
}

impl LogTotals {
    pub(super) fn add(&mut self, log: &TaskLog) {
        self.undated += log.undated;
        self.foreign += log.foreign;
    }
}

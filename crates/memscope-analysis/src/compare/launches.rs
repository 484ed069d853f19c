//! The operators and kernels of a process in their order, each with the change of memory that came with it.
//!
//! Counted is the memory of the frameworks' pools of the device; that of the driver where no framework told of a pool; on the host
//! its heap. Only what an operator's own thread allocated and freed counts: what other threads do meanwhile is by accident
//! there.
//!
//! * An operator: from its start to its end. Operators within it count for themselves, and in it again. If its start is not in
//!   the trace it is counted as a kernel is.
//! * A kernel: from the launch before it, by the same thread on the same device in the same step, to its own.
use memscope_model::{
    Action, BlockEvent, Device, KernelPhase, NameId, NoteEvent, NoteKind, Phase, Pool, Selection, State, StepId,
    TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LaunchKind {
    Operator,
    Kernel,
}

/// What is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    pub operators: bool,
    pub kernels: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    pub kind: LaunchKind,
    /// `None` if the trace does not say it.
    pub name: Option<NameId>,
    pub step: StepId,
    /// Not within another operator of the same thread. True of kernels.
    pub outermost: bool,
    /// Bytes allocated less bytes freed.
    pub change: i64,
}

/// The launches of one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launches {
    pub device: Device,
    /// In the order of their ends.
    pub launches: Vec<Launch>,
    /// Those of the device that had an event, counted or not.
    pub pools: Vec<Pool>,
    /// Bytes allocated less bytes freed in the pools that are counted, by step.
    changes: FxHashMap<StepId, i64>,
}

impl Launches {
    /// The change of the pools that are counted in these steps, whether an operator made it or not.
    pub fn change(&self, is_chosen: impl Fn(StepId) -> bool) -> i64 {
        let chosen = self.changes.iter().filter(|(step, _)| is_chosen(**step));
        chosen.fold(0, |sum, (_, change)| sum.saturating_add(*change))
    }
}

/// Collects the launches of a trace: a [`TraceSink`].
#[derive(Debug)]
pub struct LaunchTally {
    levels: Levels,
    /// Devices on which nothing was launched are kept, too.
    of_all_devices: bool,
    threads: FxHashMap<u32, Thread>,
    devices: Vec<DeviceTally>,
}

#[derive(Debug)]
struct DeviceTally {
    device: Device,
    launches: Vec<(Launch, Change)>,
    pools: Vec<Pool>,
    changes: FxHashMap<StepId, Change>,
}

/// Bytes allocated less bytes freed. Which of the two counts is known at the end.
#[derive(Clone, Copy, Default, Debug)]
struct Change {
    framework: i64,
    driver: i64,
}

#[derive(Debug, Default)]
struct Thread {
    /// By device, of which a thread uses few.
    accounts: Vec<(Device, Account)>,
    open: Vec<OpenOperator>,
    /// Launches at the start of the kernel of ATB that is under way.
    atb_kernel: Option<u64>,
    launches: u64,
}

/// What a thread did to the memory of a device.
#[derive(Clone, Copy, Default, Debug)]
struct Account {
    total: Change,
    /// The total where the newest kernel was launched, or the step began.
    at_kernel: Change,
    /// The same of the newest operator that ended.
    at_operator: Change,
    step: StepId,
}

#[derive(Clone, Copy, Debug)]
struct OpenOperator {
    name: Option<NameId>,
    device: Device,
    at_start: Change,
}

/// Operators are nested some ten deep; a file may have starts that nothing ever ends.
const MOST_OPEN: usize = 256;

impl Change {
    fn add(&mut self, event: &BlockEvent) {
        let sum = match event.block.pool {
            Pool::Hal => &mut self.driver,
            Pool::Pinned => return,
            _ => &mut self.framework,
        };
        *sum = match event.action {
            Action::Malloc => sum.saturating_add_unsigned(event.block.size),
            Action::Free => sum.saturating_sub_unsigned(event.block.size),
        };
    }

    fn since(self, earlier: Change) -> Change {
        Change {
            framework: self.framework.saturating_sub(earlier.framework),
            driver: self.driver.saturating_sub(earlier.driver),
        }
    }
}

impl Thread {
    /// Where the thread stands with a device in a step.
    fn account(&mut self, device: Device, step: StepId) -> &mut Account {
        let known = self.accounts.iter().position(|(other, _)| *other == device);
        let place = known.unwrap_or_else(|| {
            self.accounts.push((device, Account { step, ..Account::default() }));
            self.accounts.len() - 1
        });
        let account = &mut self.accounts[place].1;
        if account.step != step {
            (account.step, account.at_kernel, account.at_operator) = (step, account.total, account.total);
        }
        account
    }

    fn kernel(&mut self, device: Device, step: StepId) -> Change {
        let account = self.account(device, step);
        let change = account.total.since(account.at_kernel);
        account.at_kernel = account.total;
        change
    }

    fn operator_start(&mut self, name: Option<NameId>, device: Device, step: StepId) {
        if self.open.len() == MOST_OPEN {
            self.open.remove(0);
        }
        let at_start = self.account(device, step).total;
        self.open.push(OpenOperator { name, device, at_start });
    }

    /// The change of the operator that ends, and whether it was within another. What began within it and never ended is over.
    fn operator_end(&mut self, name: Option<NameId>, device: Device, step: StepId) -> (Change, bool) {
        let begun = self.open.iter().rposition(|open| (open.name, open.device) == (name, device));
        let at_start = begun.map(|place| self.open.drain(place..).next().map(|open| open.at_start));
        let account = self.account(device, step);
        let change = account.total.since(at_start.flatten().unwrap_or(account.at_operator));
        account.at_operator = account.total;
        (change, self.open.is_empty())
    }
}

impl LaunchTally {
    pub fn new(levels: Levels) -> LaunchTally {
        LaunchTally { levels, of_all_devices: false, threads: FxHashMap::default(), devices: Vec::new() }
    }

    /// Of devices on which nothing was launched, too, as long as they had memory.
    pub fn of_all_devices(levels: Levels) -> LaunchTally {
        LaunchTally { of_all_devices: true, ..LaunchTally::new(levels) }
    }

    /// By device. Devices on which nothing was launched are left out, unless all were asked for.
    pub fn finish(mut self) -> Vec<Launches> {
        self.name_the_only_device();
        let mut devices: Vec<Launches> = self
            .devices
            .into_iter()
            .filter(|tally| !tally.launches.is_empty() || self.of_all_devices && tally.device != Device::Unknown)
            .map(|tally| {
                let by_driver = tally.pools.iter().all(|pool| *pool == Pool::Hal);
                let counted = |change: Change| if by_driver { change.driver } else { change.framework };
                let mut pools = tally.pools;
                pools.sort_unstable();
                Launches {
                    device: tally.device,
                    launches: tally
                        .launches
                        .into_iter()
                        .map(|(launch, change)| Launch { change: counted(change), ..launch })
                        .collect(),
                    pools,
                    changes: tally.changes.into_iter().map(|(step, change)| (step, counted(change))).collect(),
                }
            })
            .collect();
        devices.sort_unstable_by_key(|launches| launches.device);
        devices
    }

    /// Where a process uses one device, launches that do not say theirs are on that one.
    fn name_the_only_device(&mut self) {
        let known: Vec<&DeviceTally> =
            self.devices.iter().filter(|tally| matches!(tally.device, Device::Npu(_))).collect();
        if let [only] = known[..]
            && only.launches.is_empty()
        {
            let device = only.device;
            self.devices.retain(|tally| tally.device != device);
            self.devices
                .iter_mut()
                .filter(|tally| tally.device == Device::Unknown)
                .for_each(|tally| tally.device = device);
        }
    }

    fn device(&mut self, device: Device) -> &mut DeviceTally {
        let known = self.devices.iter().position(|tally| tally.device == device);
        let place = known.unwrap_or_else(|| {
            let (launches, pools, changes) = (Vec::new(), Vec::new(), FxHashMap::default());
            self.devices.push(DeviceTally { device, launches, pools, changes });
            self.devices.len() - 1
        });
        &mut self.devices[place]
    }

    fn memory(&mut self, event: &BlockEvent, state: &State<'_>) {
        let (device, pool, at) = (event.block.device, event.block.pool, event.at);
        if pool == Pool::Pinned {
            return;
        }
        // A storage of a tensor is counted with the block of the heap that it lies in.
        let is_counted = state.beneath(&event.block).is_none();
        // A launch that nobody knows the device of may be of any.
        for device in [Some(device), (device != Device::Cpu).then_some(Device::Unknown)].into_iter().flatten() {
            if is_counted {
                self.threads.entry(at.thread).or_default().account(device, at.step).total.add(event);
                self.device(device).changes.entry(at.step).or_default().add(event);
            }
            let tally = self.device(device);
            if !tally.pools.contains(&pool) {
                tally.pools.push(pool);
            }
        }
    }

    fn launched(
        &mut self,
        note: &NoteEvent<'_>,
        kind: LaunchKind,
        name: Option<NameId>,
        (change, outermost): (Change, bool),
    ) {
        let launch = Launch { kind, name, step: note.at.step, outermost, change: 0 };
        self.device(note.device).launches.push((launch, change));
    }

    fn operator(&mut self, note: &NoteEvent<'_>, phase: Phase, name: Option<NameId>) {
        if !self.levels.operators {
            return;
        }
        let thread = self.threads.entry(note.at.thread).or_default();
        match phase {
            Phase::Start => thread.operator_start(name, note.device, note.at.step),
            Phase::End => {
                let ended = thread.operator_end(name, note.device, note.at.step);
                self.launched(note, LaunchKind::Operator, name, ended);
            }
        }
    }

    fn kernel(&mut self, note: &NoteEvent<'_>, name: Option<NameId>) {
        let thread = self.threads.entry(note.at.thread).or_default();
        thread.launches += 1;
        let change = thread.kernel(note.device, note.at.step);
        self.launched(note, LaunchKind::Kernel, name, (change, true));
    }

    /// ATB tells of its kernels besides; they count where the runtime did not tell of their launch.
    fn atb_kernel(&mut self, note: &NoteEvent<'_>, phase: Phase, name: Option<NameId>) {
        let thread = self.threads.entry(note.at.thread).or_default();
        match phase {
            Phase::Start => thread.atb_kernel = Some(thread.launches),
            Phase::End => {
                let begun = thread.atb_kernel.take();
                if begun.is_none_or(|launches| launches == thread.launches) {
                    self.kernel(note, name);
                }
            }
        }
    }
}

impl TraceSink for LaunchTally {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Memory(event) if event.selection != Selection::NotChosen => self.memory(event, state),
            // Where what came before tracing is not chosen, this is where its memory comes in, as in the files.
            TraceEvent::Alive(event) => self.memory(event, state),
            TraceEvent::Note(note) if note.chosen => match note.kind {
                NoteKind::AtbOperator { phase, operator } => {
                    self.operator(note, phase, operator.name.map(|name| name.id));
                }
                NoteKind::AtenOperator { phase, name, .. } => self.operator(note, phase, name.map(|name| name.id)),
                NoteKind::Kernel { phase: KernelPhase::Launch, name, .. } if self.levels.kernels => {
                    self.kernel(note, name.map(|name| name.id));
                }
                NoteKind::AtbKernel { phase, name, .. } if self.levels.kernels => {
                    self.atb_kernel(note, phase, name.map(|name| name.id));
                }
                _ => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

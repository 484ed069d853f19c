//! From recordings and dump files on disk to launches and who held the memory.
use super::report::Process;
use super::{CompareError, CompareWishes, Side};
use crate::pass::{Progress, pass};
use crate::place::Place;
use crate::report::quantity::counted;
use crate::views::names::Names;
use crate::views::profile::Site;
use crate::views::reading::{At, Question, View, view};
use crate::workers;
use memscope_analysis::{Held, Launch, LaunchTally, Levels, OwnerTally, PointInTime, UsageTally};
use memscope_dump::{Source, Sources};
use memscope_model::{Damage, Device, Pool, STEP_TEXT};
use memscope_symbols::{Symbolizer, Symbols};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was read of both sides. Processes that launched nothing are left out.
pub(super) struct Read {
    pub(super) base: Vec<ProcessSide>,
    pub(super) compared: Vec<ProcessSide>,
    pub(super) notes: Vec<String>,
}

/// A process, or one step of it.
pub(super) struct ProcessSide {
    pub(super) process: Process,
    pub(super) devices: Vec<DeviceSide>,
}

/// What it did on a device.
pub(super) struct DeviceSide {
    pub(super) device: Device,
    pub(super) launches: Vec<Launch>,
    /// Bytes allocated less bytes freed in all, by operators or not.
    pub(super) change: i64,
    pub(super) pools: Vec<(Pool, PoolSide)>,
}

/// What a pool held at its peak, or at the end of the step.
#[derive(Default)]
pub(super) struct PoolSide {
    pub(super) total: Held,
    pub(super) sites: Vec<Site>,
    /// Of the frames of the sites.
    pub(super) names: Names,
    stackless: bool,
    /// By their words; `None` is nobody's.
    pub(super) owners: Vec<(Option<String>, Held)>,
}

impl DeviceSide {
    pub(super) fn pool(&self, pool: Pool) -> Option<&PoolSide> {
        self.pools.iter().find(|(other, _)| *other == pool).map(|(_, side)| side)
    }
}

impl PoolSide {
    /// No stack says where its memory comes from.
    pub(super) fn is_stackless(&self) -> bool {
        self.stackless || self.sites.is_empty()
    }
}

/// One input, and what is wanted of it: for the base, for the compared, or both.
struct Input<'w> {
    place: &'w Place,
    wanted: Vec<(usize, Option<u32>)>,
}

/// What came of one process.
struct Traced {
    /// By number of the side.
    sides: Vec<(usize, ProcessSide)>,
    steps: u32,
    notes: Vec<String>,
}

pub(super) fn read(wishes: &CompareWishes, levels: Levels, progress: &mut Progress<'_>) -> Result<Read, CompareError> {
    let mut inputs: Vec<Input<'_>> = Vec::new();
    for (number, side) in [&wishes.base, &wishes.compared].into_iter().enumerate() {
        match inputs.iter_mut().find(|input| *input.place == side.place) {
            Some(input) => input.wanted.push((number, side.step)),
            None => inputs.push(Input { place: &side.place, wanted: vec![(number, side.step)] }),
        }
    }
    let mut notes = Vec::new();
    let mut found = Vec::new();
    for (number, input) in inputs.iter().enumerate() {
        let Sources { found: more, unreadable } = input.place.sources()?;
        let mut unreadable = unreadable.into_iter().map(|(_, error)| error);
        match (more.is_empty(), unreadable.next()) {
            (true, Some(error)) => return Err(error.into()),
            (true, None) => return Err(CompareError::Nothing(input.place.path.clone())),
            (false, first) => {
                notes.extend(first.into_iter().chain(unreadable).map(|error| format!("left out: {error}")))
            }
        }
        found.extend(more.into_iter().map(|source| Mutex::new(Some((number, source)))));
    }
    let share = 1.0 / found.len() as f64;
    let (done, symbols) = (Mutex::new((0.0, progress)), Symbols::default());
    let trace = |_: usize, source: &Mutex<Option<(usize, Source)>>| {
        let (input, source) = locked(source).take()?;
        let mut before = 0.0;
        Some(traced(source, &inputs[input].wanted, (levels, wishes.level.is_none()), &symbols, &mut |fraction| {
            let (sum, report) = &mut *locked(&done);
            *sum += (fraction - before) * share;
            before = fraction;
            report(*sum)
        }))
    };
    let mut sides: [Vec<ProcessSide>; 2] = [Vec::new(), Vec::new()];
    let mut steps = [0, 0];
    for traced in workers::each(&found, |_| 0, trace).into_iter().flatten() {
        let traced = traced?;
        notes.extend(traced.notes);
        for (side, process) in traced.sides {
            steps[side] = traced.steps.max(steps[side]);
            sides[side].push(process);
        }
    }
    for (number, side) in [&wishes.base, &wishes.compared].into_iter().enumerate() {
        check_step(side, steps[number])?;
        sides[number].retain(|process| !process.devices.is_empty());
        if sides[number].is_empty() {
            return Err(match wishes.level {
                Some(_) => lacking(side, levels, steps[number]),
                None => CompareError::NoEvents { path: side.place.path.clone() },
            });
        }
    }
    let [base, compared] = sides;
    Ok(Read { base, compared, notes })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_step(side: &Side, steps: u32) -> Result<(), CompareError> {
    let Some(asked) = side.step.filter(|asked| *asked > steps) else { return Ok(()) };
    let known = match steps {
        0 => format!("it has no steps, which are mstx ranges \"{STEP_TEXT}\" or end with a call of step()"),
        steps => format!("it has {}", counted(steps.into(), "step", "steps")),
    };
    Err(CompareError::NoSuchStep { path: side.place.path.clone(), asked, known })
}

fn lacking(side: &Side, levels: Levels, steps: u32) -> CompareError {
    let (what, level) = match (levels.operators, levels.kernels) {
        (true, true) => ("operator and no kernel", "op,kernel"),
        (true, false) => ("operator", "op"),
        _ => ("kernel", "kernel"),
    };
    let path = side.place.path.clone();
    match side.step {
        Some(step) => {
            let steps = counted(steps.into(), "step", "steps");
            CompareError::NoLaunchesInStep { what, step, steps, path }
        }
        None => CompareError::NoLaunches { what, level, path },
    }
}

fn traced(
    source: Source,
    wanted: &[(usize, Option<u32>)],
    (levels, of_all_devices): (Levels, bool),
    symbols: &Symbols,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Traced, CompareError> {
    let Source { path, mut trace } = source;
    let points: Vec<PointInTime> = wanted.iter().filter_map(|(_, step)| step.map(PointInTime::StepEnd)).collect();
    let (mut usage, mut owners) = (UsageTally::at(&points), OwnerTally::at(&points));
    let mut launches = if of_all_devices { LaunchTally::of_all_devices(levels) } else { LaunchTally::new(levels) };
    let outcome = pass(&mut *trace, &mut [&mut launches, &mut usage, &mut owners], progress)?;
    let mut damaged = 0;
    for damage in &outcome.damage {
        match damage {
            Damage::File { file, why } => {
                return Err(CompareError::Incomplete { file: file.clone(), why: why.clone() });
            }
            Damage::MoreRows { number, .. } => damaged += number,
            _ => damaged += 1,
        }
    }
    let mut notes = Vec::new();
    if damaged > 0 {
        let places = counted(damaged, "place", "places");
        notes.push(format!("{places} of {} could not be read; `info` names them", path.display()));
    }
    let info = trace.info();
    let names = Arc::new(outcome.names);
    let mut symbolizer = Symbolizer::sharing(symbols);
    let launches = launches.finish();
    let sides = wanted.iter().map(|(number, step)| {
        let is_chosen = |of| step.is_none_or(|step| outcome.steps.number(of) == Some(step));
        let at = step.map_or(At::Peak, At::Step);
        let point = step.map_or(PointInTime::Peak, PointInTime::StepEnd);
        let mut devices = Vec::new();
        for of_device in &launches {
            let chosen: Vec<Launch> =
                of_device.launches.iter().filter(|launch| is_chosen(launch.step)).copied().collect();
            if chosen.is_empty() && !of_all_devices {
                continue;
            }
            let device = of_device.device;
            let pools = of_device.pools.iter().filter_map(|pool| {
                let question = Question { pid: None, device: Some(device), pool: Some(*pool), at };
                let view = view(&info, trace.stacks(), &usage, &question, &mut symbolizer).ok()?;
                let owners = owners.holdings(device, *pool, point);
                let words = |owner| outcome.owners.name(owner).map(str::to_owned);
                let owners = owners.into_iter().map(|(owner, held)| (words(owner), held)).collect();
                let (total, sites) = (view.profile.total, view.profile.sites(&view.names));
                let View { names, stackless, .. } = view;
                Some((*pool, PoolSide { total, sites, names, stackless, owners }))
            });
            let pools = pools.collect();
            devices.push(DeviceSide { device, launches: chosen, change: of_device.change(is_chosen), pools });
        }
        let process = Process { path: path.clone(), info: info.clone(), step: *step, names: Arc::clone(&names) };
        (*number, ProcessSide { process, devices })
    });
    Ok(Traced { sides: sides.collect(), steps: outcome.steps.count(), notes })
}

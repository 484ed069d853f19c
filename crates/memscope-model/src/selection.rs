//! What the user chose to see: devices, the time between `start` and `stop`, steps.
use crate::settings::Settings;
use crate::{Action, BlockId, Device, MemoryEvent, Selection};
use memscope_format::decode::{Definition, EventKind, LaneCursor, Spool, SpoolError};
use memscope_format::record::SystemKind;
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// The text of a range that is a step.
pub(crate) const STEP_TEXT: &str = "step start";

/// Which devices were asked for; what a recording does not say was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceChoice {
    cpu: bool,
    npus: u32,
}

impl DeviceChoice {
    pub(crate) fn of(settings: &Settings) -> DeviceChoice {
        let mask = settings.get("npu").and_then(|mask| u32::from_str_radix(mask, 16).ok());
        DeviceChoice { cpu: settings.get("cpu") != Some("0"), npus: mask.unwrap_or(u32::MAX) }
    }

    #[inline]
    pub(crate) fn contains(self, device: Device) -> bool {
        match device {
            Device::Cpu => self.cpu,
            // A full mask means all, also those it has no bit for.
            Device::Npu(number) => {
                self.npus == u32::MAX || 1u32.checked_shl(u32::from(number)).is_some_and(|bit| self.npus & bit != 0)
            }
            Device::Unknown => true,
        }
    }

    /// The device of a mark. Where no NPU was asked for, marks still are of interest, as those of no device.
    pub(crate) fn of_mark(self, device: Device) -> Option<Device> {
        match device {
            Device::Npu(_) if self.npus == 0 => Some(Device::Unknown),
            device => self.contains(device).then_some(device),
        }
    }
}

/// What makes steps in this recording. The two ways exclude each other: whichever came first counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StepSource {
    /// Ranges of the text [`STEP_TEXT`].
    Ranges,
    /// Calls of `step()`; the n-th ends step n.
    Marks,
}

/// Chosen steps, and where in them the replay is.
#[derive(Debug)]
struct Steps {
    chosen: Vec<u64>,
    source: Option<StepSource>,
    /// Of marks: the current step. Of ranges: how many began.
    number: u64,
    /// Open step ranges.
    open: FxHashMap<u64, u64>,
}

impl Steps {
    fn inside(&self) -> bool {
        match self.source {
            Some(StepSource::Marks) => self.chosen.contains(&self.number),
            Some(StepSource::Ranges) => self.open.values().any(|number| self.chosen.contains(number)),
            None => false,
        }
    }
}

/// Says of each event whether it was chosen.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) devices: DeviceChoice,
    tracing: bool,
    /// `None` if all were asked for.
    steps: Option<Steps>,
    /// Tracing, and in a chosen step if steps were chosen.
    open: bool,
    /// Was it ever open?
    opened: bool,
    /// Blocks up to this one were told of, or were gone before tracing began.
    told: BlockId,
}

impl Gate {
    /// Looks through `spool` for what makes its steps, if steps were chosen.
    pub(crate) fn new(settings: &Settings, spool: &Spool) -> Result<Gate, SpoolError> {
        const DEFERRED: &str = "1";
        let chosen = settings.numbers("steps");
        let steps = match chosen.as_slice() {
            [] => None,
            _ => {
                let source = step_source(spool)?;
                let number = u64::from(source == Some(StepSource::Marks));
                Some(Steps { chosen, source, number, open: FxHashMap::default() })
            }
        };
        let mut gate = Gate {
            devices: DeviceChoice::of(settings),
            tracing: settings.get("mode") != Some(DEFERRED),
            steps,
            open: false,
            opened: false,
            told: BlockId(0),
        };
        gate.update();
        Ok(gate)
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    #[inline]
    pub(crate) fn select(&self, event: &MemoryEvent) -> Selection {
        if self.open { Selection::Chosen } else { self.select_outside(event) }
    }

    #[cold]
    fn select_outside(&self, event: &MemoryEvent) -> Selection {
        let closes = event.action == Action::Free && event.matched && event.block <= self.told;
        // Rows of chosen steps are rows of these steps only.
        if closes && self.steps.is_none() { Selection::Closing } else { Selection::NotChosen }
    }

    /// Tracing begins. Blocks that are alive and newer than the answer have to be told of now.
    pub(crate) fn start(&mut self) -> Option<BlockId> {
        if std::mem::replace(&mut self.tracing, true) {
            return None;
        }
        self.update();
        self.steps.is_none().then_some(self.told)
    }

    /// Tracing ends; `newest` is the newest block.
    pub(crate) fn stop(&mut self, newest: BlockId) {
        if std::mem::replace(&mut self.tracing, false) {
            self.told = newest;
        }
        self.update();
    }

    pub(crate) fn step_mark(&mut self) {
        if let Some(steps) = &mut self.steps
            && steps.source == Some(StepSource::Marks)
        {
            steps.number += 1;
        }
        self.update();
    }

    pub(crate) fn range_start(&mut self, id: u64, text: &str) {
        if text != STEP_TEXT {
            return;
        }
        if let Some(steps) = &mut self.steps
            && steps.source == Some(StepSource::Ranges)
        {
            steps.number += 1;
            steps.open.insert(id, steps.number);
        }
        self.update();
    }

    pub(crate) fn range_end(&mut self, id: u64) {
        if let Some(steps) = &mut self.steps {
            steps.open.remove(&id);
        }
        self.update();
    }

    /// Why nothing was chosen, if so.
    pub(crate) fn never_open(&self) -> Option<String> {
        if self.opened {
            return None;
        }
        let chosen = |steps: &Steps| {
            let numbers: Vec<String> = steps.chosen.iter().map(u64::to_string).collect();
            numbers.join(",")
        };
        Some(match &self.steps {
            Some(steps) if steps.source.is_none() => format!(
                "no step was seen, and --steps={} shows nothing else: a step is an mstx range \"{STEP_TEXT}\", or ends \
                 with a call of step()",
                chosen(steps)
            ),
            Some(steps) => format!("none of the steps of --steps={} came while tracing", chosen(steps)),
            None => "nothing was traced: --collect-mode=deferred leaves it to the program, and it never called start()"
                .to_owned(),
        })
    }

    fn update(&mut self) {
        self.open = self.tracing && self.steps.as_ref().is_none_or(Steps::inside);
        self.opened |= self.open;
    }
}

/// Whether the first step was a range or a call of `step()`. A pass of its own: events before the first call of
/// `step()` are of step 1, those before the first range of none.
fn step_source(spool: &Spool) -> Result<Option<StepSource>, SpoolError> {
    let mut first: Option<(u64, StepSource)> = None;
    for lane in spool.lanes() {
        let mut cursor = LaneCursor::new(lane);
        // The text of a range comes just before it.
        let is_step = Cell::new(false);
        let mut look = |definition: Definition<'_>| {
            if let Definition::Text { text, .. } = definition {
                is_step.set(text == STEP_TEXT.as_bytes());
            }
        };
        let mut found = None;
        while let Some(event) = cursor.next_event(spool, &mut look)? {
            match event.kind {
                EventKind::System { kind: SystemKind::Step, .. } => found = Some((event.ticks, StepSource::Marks)),
                EventKind::RangeStart { .. } if is_step.get() => found = Some((event.ticks, StepSource::Ranges)),
                _ => continue,
            }
            break;
        }
        if let Some((ticks, source)) = found
            && first.is_none_or(|(earliest, _)| ticks < earliest)
        {
            first = Some((ticks, source));
        }
    }
    Ok(first.map(|(_, source)| source))
}

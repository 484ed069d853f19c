//! What the user chose to see: devices, the time between `start` and `stop`, steps.
use crate::facts::NothingChosen;
use crate::steps::{STEP_TEXT, StepSource, Steps};
use crate::{Action, BlockEvent, BlockId, Device, Selection};
use memscope_format::decode::{Definition, EventKind, LaneCursor, Spool, SpoolError};
use memscope_format::record::SystemKind;
use memscope_format::settings::{Mask, RecordSettings};
use std::cell::Cell;
use std::num::NonZeroU32;

/// Which devices were asked for; what a recording does not say was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceChoice {
    cpu: bool,
    npus: u32,
}

impl DeviceChoice {
    pub(crate) fn of(settings: &RecordSettings<'_>) -> DeviceChoice {
        DeviceChoice { cpu: settings.cpu != Some(false), npus: settings.npus.unwrap_or(Mask::ALL).0 }
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

/// The steps the user chose.
#[derive(Debug)]
struct ChosenSteps {
    numbers: Vec<u64>,
    /// What makes steps in this recording: known beforehand, because events before the first call of `step()` are of
    /// step 1.
    source: Option<StepSource>,
}

impl ChosenSteps {
    fn contain(&self, steps: &Steps) -> bool {
        let is_chosen = |number: u32| self.numbers.contains(&u64::from(number));
        match self.source {
            Some(StepSource::Marks) => is_chosen(steps.marks() + 1),
            Some(StepSource::Ranges) => steps.open_ranges().any(is_chosen),
            None => false,
        }
    }
}

/// One of the times between `start` and `stop`.
#[derive(Clone, Copy, Debug)]
struct ChosenSpan {
    number: NonZeroU32,
    /// How many calls of `start` came.
    starts: u32,
}

/// Says of each event whether it was chosen.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) devices: DeviceChoice,
    tracing: bool,
    /// `None` if all were asked for.
    span: Option<ChosenSpan>,
    /// `None` if all were asked for.
    steps: Option<ChosenSteps>,
    /// Tracing, and in a chosen step if steps were chosen.
    open: bool,
    /// Was it ever open?
    opened: bool,
    /// Blocks up to this one were announced, or were gone before tracing began.
    announced: BlockId,
}

impl Gate {
    /// Looks through `spool` for what makes its steps, if steps were chosen. `span` is the number of the `start` that begins
    /// the only time that is chosen.
    pub(crate) fn new(
        settings: &RecordSettings<'_>,
        span: Option<NonZeroU32>,
        spool: &Spool,
    ) -> Result<Gate, SpoolError> {
        let chosen: Vec<u64> = settings.steps.iter().flat_map(|steps| steps.iter()).map(u64::from).collect();
        let steps = match chosen.as_slice() {
            [] => None,
            _ => Some(ChosenSteps { numbers: chosen, source: step_source(spool)? }),
        };
        let mut gate = Gate {
            devices: DeviceChoice::of(settings),
            tracing: span.is_none() && (settings.deferred != Some(true) || spool.process().began_tracing()),
            span: span.map(|number| ChosenSpan { number, starts: 0 }),
            steps,
            open: false,
            opened: false,
            announced: BlockId(0),
        };
        gate.update(&Steps::default());
        Ok(gate)
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether what is of no block, nor of any time, is of interest now: of one span alone, only what is within it.
    pub(crate) fn is_within_span(&self) -> bool {
        self.span.is_none() || self.tracing
    }

    /// While nothing is traced: the newest block that was announced.
    #[inline]
    pub(crate) fn untraced_after(&self) -> Option<BlockId> {
        (!self.tracing && self.steps.is_none()).then_some(self.announced)
    }

    #[inline]
    pub(crate) fn select(&self, event: &BlockEvent) -> Selection {
        if self.open { Selection::Chosen } else { self.select_outside(event) }
    }

    #[cold]
    fn select_outside(&self, event: &BlockEvent) -> Selection {
        let closes = event.action == Action::Free && event.matched && event.block.id <= self.announced;
        // Rows of chosen steps are rows of these steps only.
        if closes && self.steps.is_none() { Selection::Closing } else { Selection::NotChosen }
    }

    /// Tracing begins. Blocks that are alive and newer than the answer have to be announced now.
    pub(crate) fn start(&mut self, steps: &Steps) -> Option<BlockId> {
        if let Some(span) = &mut self.span {
            span.starts = span.starts.saturating_add(1);
            if span.starts != span.number.get() {
                return None;
            }
        }
        if std::mem::replace(&mut self.tracing, true) {
            return None;
        }
        self.update(steps);
        self.steps.is_none().then_some(self.announced)
    }

    /// Tracing ends; `newest` is the newest block.
    pub(crate) fn stop(&mut self, newest: BlockId, steps: &Steps) {
        if std::mem::replace(&mut self.tracing, false) {
            self.announced = newest;
        }
        self.update(steps);
    }

    /// Why nothing was chosen, if so.
    pub(crate) fn never_open(&self) -> Option<NothingChosen> {
        if self.opened {
            return None;
        }
        Some(match &self.steps {
            Some(steps) if steps.source.is_none() => NothingChosen::NoSteps { chosen: steps.numbers.clone() },
            Some(steps) => NothingChosen::OtherSteps { chosen: steps.numbers.clone() },
            None => NothingChosen::NeverStarted,
        })
    }

    /// Asks again, where the steps have changed.
    pub(crate) fn update(&mut self, steps: &Steps) {
        self.open = self.tracing && self.steps.as_ref().is_none_or(|chosen| chosen.contain(steps));
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

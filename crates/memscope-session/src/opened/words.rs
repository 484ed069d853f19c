//! The words of events and pools as numbers, for columns.
use memscope_dump::rows::{Event, EventType};
use memscope_model::{AccessMode, Device, KernelPhase, NoteKind, Phase, Pool, RefusalList};

/// The code of what has none.
pub const NO_CODE: u8 = u8::MAX;

/// Their places are the codes of the column `event`.
pub const EVENTS: [Event; 9] = [
    Event::Malloc,
    Event::Free,
    Event::Access,
    Event::OpLaunch,
    Event::KernelLaunch,
    Event::Mstx,
    Event::System,
    Event::Snapshot,
    Event::OomDetail,
];

/// Their places are the codes of the column `pool`.
pub const POOLS: [Pool; 7] =
    [Pool::Host, Pool::Pinned, Pool::Hal, Pool::PtaCaching, Pool::PtaWorkspace, Pool::Atb, Pool::MindSpore];

/// Those that are no pool's; their places, behind the pools', are codes of the column `type`.
const OTHER_TYPES: [EventType; 24] = [
    EventType::READ,
    EventType::WRITE,
    EventType::UNKNOWN,
    EventType::ATEN_START,
    EventType::ATEN_END,
    EventType::ATB_START,
    EventType::ATB_END,
    EventType::KERNEL_LAUNCH,
    EventType::KERNEL_START,
    EventType::KERNEL_END,
    EventType::KERNEL_EXECUTE_START,
    EventType::KERNEL_EXECUTE_END,
    EventType::MARK,
    EventType::RANGE_START,
    EventType::RANGE_END,
    EventType::STEP,
    EventType::START_TRACE,
    EventType::STOP_TRACE,
    EventType::ACL_INIT,
    EventType::ACL_FINI,
    EventType::SNAPSHOT,
    EventType::OOM_TRIGGER,
    EventType::OOM_RECENT_ALLOC,
    EventType::OOM_TOP_ALLOC,
];

/// The words of the column `type`, by code.
pub fn type_words() -> impl Iterator<Item = &'static str> {
    let of_pools = POOLS.into_iter().map(Pool::event_type);
    of_pools.chain(OTHER_TYPES.into_iter().map(EventType::text))
}

pub(super) fn event_code(event: Event) -> u8 {
    code(&EVENTS, event, 0)
}

pub(super) fn pool_code(pool: Pool) -> u8 {
    code(&POOLS, pool, 0)
}

pub(super) fn type_code(event_type: EventType) -> u8 {
    code(&OTHER_TYPES, event_type, POOLS.len())
}

fn code<T: PartialEq>(table: &[T], item: T, before: usize) -> u8 {
    table.iter().position(|known| *known == item).and_then(|place| u8::try_from(place + before).ok()).unwrap_or(NO_CODE)
}

/// The code of a device: its number, of the host -1, of none -2.
pub fn device_code(device: Device) -> i32 {
    match device {
        Device::Npu(number) => i32::from(number),
        Device::Cpu => -1,
        Device::Unknown => -2,
    }
}

/// The device of a code, as files spell it.
pub fn device_of_code(code: i32) -> Device {
    match code {
        -1 => Device::Cpu,
        number => u16::try_from(number).map_or(Device::Unknown, Device::Npu),
    }
}

/// What files call it; `None` of what has no row there.
pub(super) fn note_words(kind: &NoteKind<'_>) -> Option<(Event, EventType)> {
    let of_phase = |phase: Phase, start: EventType, end: EventType| match phase {
        Phase::Start => start,
        Phase::End => end,
    };
    Some(match kind {
        NoteKind::AclInit => (Event::System, EventType::ACL_INIT),
        NoteKind::AclFinalize => (Event::System, EventType::ACL_FINI),
        NoteKind::StartTrace => (Event::System, EventType::START_TRACE),
        NoteKind::StopTrace => (Event::System, EventType::STOP_TRACE),
        NoteKind::Step(_) => (Event::System, EventType::STEP),
        NoteKind::Mark(_) => (Event::Mstx, EventType::MARK),
        NoteKind::RangeStart { .. } => (Event::Mstx, EventType::RANGE_START),
        NoteKind::RangeEnd { .. } => (Event::Mstx, EventType::RANGE_END),
        NoteKind::OutOfMemory { .. } => (Event::OomDetail, EventType::OOM_TRIGGER),
        NoteKind::LiveAtRefusal { list: RefusalList::Newest, .. } => (Event::OomDetail, EventType::OOM_RECENT_ALLOC),
        NoteKind::LiveAtRefusal { list: RefusalList::Largest, .. } => (Event::OomDetail, EventType::OOM_TOP_ALLOC),
        NoteKind::Snapshot { .. } => (Event::Snapshot, EventType::SNAPSHOT),
        NoteKind::Kernel { phase, .. } => {
            let event_type = match phase {
                KernelPhase::Launch => EventType::KERNEL_LAUNCH,
                KernelPhase::ExecuteStart => EventType::KERNEL_EXECUTE_START,
                KernelPhase::ExecuteEnd => EventType::KERNEL_EXECUTE_END,
            };
            (Event::KernelLaunch, event_type)
        }
        NoteKind::AtbOperator { phase, .. } => {
            (Event::OpLaunch, of_phase(*phase, EventType::ATB_START, EventType::ATB_END))
        }
        NoteKind::AtenOperator { phase, .. } => {
            (Event::OpLaunch, of_phase(*phase, EventType::ATEN_START, EventType::ATEN_END))
        }
        NoteKind::AtbKernel { phase, .. } => {
            (Event::KernelLaunch, of_phase(*phase, EventType::KERNEL_START, EventType::KERNEL_END))
        }
        NoteKind::Access(access) => {
            let event_type = match access.mode {
                AccessMode::Read => EventType::READ,
                AccessMode::Write => EventType::WRITE,
                AccessMode::Unknown => EventType::UNKNOWN,
            };
            (Event::Access, event_type)
        }
        _ => return None,
    })
}

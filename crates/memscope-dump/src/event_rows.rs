//! Events of the model as rows.
use crate::error::ExportError;
use crate::router::{Router, StackSource};
use crate::rows::{
    Attribute, DeviceId, Event, EventType, LARGEST_NAME, NEWEST_NAME, NOT_APPLICABLE, RANGE_END_PREFIX, REFUSAL_NAME,
    Row, StackCells, Value, key, value,
};
use crate::stack_text::StackTexts;
use crate::tensor_words::TensorWords;
use crate::{SampledUsage, UsageLookup};
use memscope_model::{
    Access, AccessMode, Action, BlockEvent, Device, DeviceRoom, Inefficiencies, KernelPhase, NoteEvent, NoteKind,
    Origin, PageSize, Phase, Pool, RefusalList, Selection, SnapshotMemory, StackId, Stacks, State, StreamHandle,
    TimestampNs,
};

/// The attributes of one row, gathered without a heap.
struct Attributes<'a> {
    places: [Attribute<'a>; Attributes::MOST],
    count: usize,
}

impl<'a> Attributes<'a> {
    /// Driver memory has most: nine, sampled usage included. `shadow` and `inefficient_type` may join them.
    const MOST: usize = 11;

    fn new() -> Attributes<'a> {
        Attributes { places: [Attribute { key: "", value: Value::Integer(0) }; Self::MOST], count: 0 }
    }

    #[inline]
    fn push(&mut self, key: &'static str, value: Value<'a>) {
        self.places[self.count] = Attribute { key, value };
        self.count += 1;
    }

    fn all(&self) -> &[Attribute<'a>] {
        &self.places[..self.count]
    }
}

/// In the order the manual's readers know.
fn memory_attributes<'a>(
    event: &BlockEvent,
    sampled: SampledUsage,
    owner: Option<&'a str>,
    inefficient: Option<&'a str>,
) -> Attributes<'a> {
    let mut attributes = Attributes::new();
    attributes.push(key::ALLOCATION_ID, Value::Integer(event.block.id.0));
    attributes.push(key::ADDRESS, Value::Address(event.block.address));
    attributes.push(key::SIZE, Value::Integer(event.block.size));
    if event.block.pool == Pool::Host {
        attributes.push(key::TOTAL, Value::Integer(event.used));
    } else {
        if event.block.pool == Pool::Pinned {
            attributes.push(key::PINNED, Value::Text(value::TRUE));
        }
        attributes.push(key::USED, Value::Integer(event.used));
        if let Some(reserved) = event.reserved {
            attributes.push(key::TOTAL, Value::Integer(reserved));
        }
    }
    if event.synthetic || event.selection == Selection::Closing {
        attributes.push(key::SHADOW, Value::Text(value::TRUE));
    } else {
        let used = [(key::PROCESS_USED, sampled.process_used), (key::DEVICE_USED, sampled.device_used)];
        for (key, bytes) in used {
            if let Some(bytes) = bytes {
                attributes.push(key, Value::Integer(bytes));
            }
        }
    }
    if event.action == Action::Malloc {
        push_origin(&mut attributes, event, owner, inefficient);
    }
    attributes
}

/// What is said of a block once, where it begins.
fn push_origin<'a>(
    attributes: &mut Attributes<'a>,
    event: &BlockEvent,
    owner: Option<&'a str>,
    inefficient: Option<&'a str>,
) {
    for (key, text) in [(key::OWNER, owner), (key::INEFFICIENT, inefficient)] {
        if let Some(text) = text {
            attributes.push(key, Value::Text(text));
        }
    }
    match event.block.origin {
        Origin::Driver(traits) | Origin::DriverHandle(traits) if event.block.pool == Pool::Hal => {
            let page = match traits.page {
                PageSize::Normal => value::NORMAL_PAGES,
                PageSize::Huge => value::HUGE_PAGES,
                PageSize::Giant => value::GIANT_PAGES,
            };
            attributes.push(key::PAGE_TYPE, Value::Text(page));
            let created = matches!(event.block.origin, Origin::DriverHandle(_));
            let call = if created { value::CREATED_BY_DRIVER } else { value::ALLOCATED_BY_DRIVER };
            attributes.push(key::ALLOC_TYPE, Value::Text(call));
        }
        Origin::Mapping => attributes.push(key::ALLOC_TYPE, Value::Text(value::MAPPED)),
        _ => {}
    }
}

pub(crate) fn write_memory(
    router: &mut Router<'_>,
    event: &BlockEvent,
    (sampled, found): (SampledUsage, Inefficiencies),
    state: &State<'_>,
    texts: &mut StackTexts<'_>,
    time: TimestampNs,
    process: u32,
) -> Result<(), ExportError> {
    let owner = state.owners.name(event.block.owner);
    let inefficient = (!found.is_none()).then(|| found.to_string());
    let attributes = memory_attributes(event, sampled, owner, inefficient.as_deref());
    let row = Row {
        id: event.at.event,
        event: match event.action {
            Action::Malloc => Event::Malloc,
            Action::Free => Event::Free,
        },
        event_type: EventType::of(event.block.pool),
        name: None,
        time,
        process,
        thread: event.at.thread,
        device: device_id(event.block.device),
        pointer: Some(event.block.address),
        attributes: attributes.all(),
        stack: StackCells::NONE,
    };
    router.write(&row, event.at.stack, &mut StackSource { stacks: state.stacks, texts })
}

pub(crate) fn write_note(
    router: &mut Router<'_>,
    note: &NoteEvent<'_>,
    usage: Option<&UsageLookup<'_>>,
    stacks: &Stacks,
    texts: &mut StackTexts<'_>,
    time: TimestampNs,
    process: u32,
) -> Result<(), ExportError> {
    let mut attributes = Attributes::new();
    let number;
    let rates;
    let (event, event_type, name) = match note.kind {
        NoteKind::AclInit => (Event::System, EventType::ACL_INIT, None),
        NoteKind::AclFinalize => (Event::System, EventType::ACL_FINI, None),
        NoteKind::StartTrace => (Event::System, EventType::START_TRACE, None),
        NoteKind::StopTrace => (Event::System, EventType::STOP_TRACE, None),
        NoteKind::Step(step) => {
            number = step.to_string();
            (Event::System, EventType::STEP, Some(number.as_str()))
        }
        NoteKind::Mark(text) => (Event::Mstx, EventType::MARK, Some(text)),
        NoteKind::RangeStart { text, .. } => (Event::Mstx, EventType::RANGE_START, Some(text)),
        NoteKind::RangeEnd { text: Some(text), .. } => (Event::Mstx, EventType::RANGE_END, Some(text)),
        NoteKind::RangeEnd { id, text: None } => {
            number = format!("{RANGE_END_PREFIX}{id}");
            (Event::Mstx, EventType::RANGE_END, Some(number.as_str()))
        }
        NoteKind::OutOfMemory { call, size, flag } => {
            attributes.push(key::FUNCTION, Value::Text(call.name()));
            attributes.push(key::REQUESTED_SIZE, Value::Integer(size));
            attributes.push(key::FLAG, Value::Integer(flag));
            (Event::OomDetail, EventType::OOM_TRIGGER, Some(REFUSAL_NAME))
        }
        NoteKind::LiveAtRefusal { list, pool, address, size, made, step } => {
            attributes.push(key::POOL, Value::Text(pool.name()));
            attributes.push(key::POINTER, Value::Address(address));
            attributes.push(key::SIZE, Value::Integer(size));
            attributes.push(key::TIMESTAMP, Value::Integer(made.0));
            if let Some(step) = step {
                attributes.push(key::STEP, Value::Integer(u64::from(step)));
            }
            match list {
                RefusalList::Newest => (Event::OomDetail, EventType::OOM_RECENT_ALLOC, Some(NEWEST_NAME)),
                RefusalList::Largest => (Event::OomDetail, EventType::OOM_TOP_ALLOC, Some(LARGEST_NAME)),
            }
        }
        NoteKind::Snapshot { name, memory } => {
            let sampled = || usage.map(|lookup| lookup(note.device, note.at.time)).unwrap_or_default().room();
            let room = memory.of_device.or_else(sampled);
            rates = SnapshotRates::of(memory, room);
            push_snapshot(&mut attributes, memory, room, &rates);
            (Event::Snapshot, EventType::SNAPSHOT, Some(name))
        }
        NoteKind::Kernel { phase, name, stream, task } => {
            for (key, number) in [(key::STREAM, stream), (key::TASK, task)] {
                if let Some(number) = number {
                    attributes.push(key, Value::Integer(u64::from(number)));
                }
            }
            let event_type = match phase {
                KernelPhase::Launch => EventType::KERNEL_LAUNCH,
                KernelPhase::ExecuteStart => EventType::KERNEL_EXECUTE_START,
                KernelPhase::ExecuteEnd => EventType::KERNEL_EXECUTE_END,
            };
            (Event::KernelLaunch, event_type, name.map(|name| name.text))
        }
        NoteKind::AtbOperator { phase, operator } => {
            attributes.push(key::PATH, Value::Text(operator.path.unwrap_or(NOT_APPLICABLE)));
            attributes.push(key::WORKSPACE, Value::Address(operator.workspace.0));
            attributes.push(key::WORKSPACE_SIZE, Value::Integer(operator.workspace_size));
            push_stream(&mut attributes, operator.stream);
            let event_type = match phase {
                Phase::Start => EventType::ATB_START,
                Phase::End => EventType::ATB_END,
            };
            (Event::OpLaunch, event_type, operator.name.map(|name| name.text))
        }
        NoteKind::AtenOperator { phase, name, stream } => {
            push_stream(&mut attributes, stream);
            let event_type = match phase {
                Phase::Start => EventType::ATEN_START,
                Phase::End => EventType::ATEN_END,
            };
            (Event::OpLaunch, event_type, name.map(|name| name.text))
        }
        NoteKind::AtbKernel { phase, name, path } => {
            attributes.push(key::PATH, Value::Text(path.unwrap_or(NOT_APPLICABLE)));
            let event_type = match phase {
                Phase::Start => EventType::KERNEL_START,
                Phase::End => EventType::KERNEL_END,
            };
            (Event::KernelLaunch, event_type, name.map(|name| name.text))
        }
        NoteKind::Access(access) => {
            let source = &mut StackSource { stacks, texts };
            return write_access(router, note, &access, source, time, process);
        }
        _ => return Ok(()),
    };
    let row = Row {
        id: note.at.event,
        event,
        event_type,
        name,
        time,
        process,
        thread: note.at.thread,
        device: device_id(note.device),
        pointer: None,
        attributes: attributes.all(),
        stack: StackCells::NONE,
    };
    router.write(&row, note.at.stack, &mut StackSource { stacks, texts })
}

/// The stream of an operator, where it is known.
fn push_stream(attributes: &mut Attributes<'_>, stream: Option<StreamHandle>) {
    if let Some(StreamHandle(handle)) = stream {
        attributes.push(key::STREAM_HANDLE, Value::Address(handle));
    }
}

/// Percentages as texts, with six decimals.
struct SnapshotRates {
    /// How much of the device is in use, by whomever.
    device: Option<String>,
    /// How much of what the pool has reserved is handed out.
    reserved: String,
}

impl SnapshotRates {
    fn of(memory: SnapshotMemory, room: Option<DeviceRoom>) -> SnapshotRates {
        let percent = |part: u64, whole: u64| match whole {
            0 => format!("{:.6}", 0.0),
            _ => format!("{:.6}", part as f64 * 100.0 / whole as f64),
        };
        SnapshotRates {
            device: room.map(|DeviceRoom { free, total }| percent(total.saturating_sub(free), total)),
            reserved: percent(memory.allocated, memory.reserved),
        }
    }
}

/// What the driver did not tell is left out.
fn push_snapshot<'a>(
    attributes: &mut Attributes<'a>,
    memory: SnapshotMemory,
    room: Option<DeviceRoom>,
    rates: &'a SnapshotRates,
) {
    attributes.push(key::RESERVED, Value::Integer(memory.reserved));
    attributes.push(key::MAX_RESERVED, Value::Integer(memory.max_reserved));
    attributes.push(key::ALLOCATED, Value::Integer(memory.allocated));
    attributes.push(key::MAX_ALLOCATED, Value::Integer(memory.max_allocated));
    if let Some(DeviceRoom { free, total }) = room {
        attributes.push(key::TOTAL, Value::Integer(total));
        attributes.push(key::FREE, Value::Integer(free));
    }
    if let Some(device) = &rates.device {
        attributes.push(key::DEVICE_RATE, Value::Text(device));
    }
    attributes.push(key::RESERVED_RATE, Value::Text(&rates.reserved));
}

fn write_access(
    router: &mut Router<'_>,
    note: &NoteEvent<'_>,
    access: &Access<'_>,
    source: &mut StackSource<'_, '_>,
    time: TimestampNs,
    process: u32,
) -> Result<(), ExportError> {
    let words = TensorWords::of(access);
    let mut attributes = Attributes::new();
    if let Some(block) = access.block {
        attributes.push(key::ALLOCATION_ID, Value::Integer(block.block.0));
    }
    attributes.push(key::ADDRESS, Value::Address(access.address.0));
    attributes.push(key::SIZE, Value::Integer(access.size));
    attributes.push(key::TYPE, Value::Text(words.by));
    attributes.push(key::ELEMENT_TYPE, Value::Text(&words.element_type));
    if let Some(format) = &words.format {
        attributes.push(key::FORMAT, Value::Text(format));
    }
    attributes.push(key::SHAPE, Value::Text(&words.shape));
    // The viewer knows an access by its block's number and address together, so there it goes by the block's.
    let pointer = match access.block {
        Some(block) if router.is_for_viewer() => block.address.0,
        _ => access.address.0,
    };
    let row = Row {
        id: note.at.event,
        event: Event::Access,
        event_type: match access.mode {
            AccessMode::Unknown => EventType::UNKNOWN,
            AccessMode::Read => EventType::READ,
            AccessMode::Write => EventType::WRITE,
        },
        name: access.name.map(|name| name.text),
        time,
        process,
        thread: note.at.thread,
        device: device_id(note.device),
        pointer: Some(pointer),
        attributes: attributes.all(),
        stack: StackCells::NONE,
    };
    // The operator's start has the stack.
    router.write(&row, StackId::NONE, source)
}

pub(crate) fn device_id(device: Device) -> DeviceId {
    match device {
        Device::Cpu => DeviceId::Cpu,
        Device::Npu(number) => DeviceId::Npu(u32::from(number)),
        Device::Unknown => DeviceId::Unknown,
    }
}

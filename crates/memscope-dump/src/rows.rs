//! What a dump file says: the column names, the words in them, and one row before it has a format.
use crate::digits::{address, push_decimal};
use memscope_model::Pool;

/// The header of the csv and the columns of the table, in their order: viewers read the table by position.
pub const COLUMNS: [&str; 12] = [
    "ID",
    "Event",
    "Event Type",
    "Name",
    "Timestamp(ns)",
    "Process Id",
    "Thread Id",
    "Device Id",
    "Ptr",
    "Attr",
    "Call Stack(Python)",
    "Call Stack(C)",
];

/// The header of the csv of stacks and the columns of its table.
pub const STACK_COLUMNS: [&str; 3] = ["ID", "Caller", "Frame"];

/// Before a number, in a cell: what the row of that number in the table of stacks says.
pub const REFERENCE: u8 = b'#';

/// A cell that has nothing to say.
pub const NOT_APPLICABLE: &str = "N/A";

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    Malloc,
    Free,
    System,
    Mstx,
    OomDetail,
    Snapshot,
    OpLaunch,
    KernelLaunch,
    Access,
}

impl Event {
    pub const fn text(self) -> &'static str {
        match self {
            Event::Malloc => "MALLOC",
            Event::Free => "FREE",
            Event::System => "SYSTEM",
            Event::Mstx => "MSTX",
            Event::OomDetail => "OOM_DETAIL",
            Event::Snapshot => "SNAPSHOT",
            Event::OpLaunch => "OP_LAUNCH",
            Event::KernelLaunch => "KERNEL_LAUNCH",
            Event::Access => "ACCESS",
        }
    }
}

/// Of a memory event, the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventType(&'static str);

impl EventType {
    pub const ACL_INIT: EventType = EventType("ACL_INIT");
    pub const ACL_FINI: EventType = EventType("ACL_FINI");
    pub const START_TRACE: EventType = EventType("START_TRACE");
    pub const STOP_TRACE: EventType = EventType("STOP_TRACE");
    pub const STEP: EventType = EventType("STEP");
    pub const MARK: EventType = EventType("Mark");
    pub const RANGE_START: EventType = EventType("Range_start");
    pub const RANGE_END: EventType = EventType("Range_end");
    pub const OOM_TRIGGER: EventType = EventType("OOM_TRIGGER");
    pub const SNAPSHOT: EventType = EventType("SNAPSHOT");
    pub const KERNEL_LAUNCH: EventType = EventType("KERNEL_LAUNCH");
    pub const KERNEL_EXECUTE_START: EventType = EventType("KERNEL_EXECUTE_START");
    pub const KERNEL_EXECUTE_END: EventType = EventType("KERNEL_EXECUTE_END");
    pub const ATB_START: EventType = EventType("ATB_START");
    pub const ATB_END: EventType = EventType("ATB_END");
    pub const KERNEL_START: EventType = EventType("KERNEL_START");
    pub const KERNEL_END: EventType = EventType("KERNEL_END");
    pub const READ: EventType = EventType("READ");
    pub const WRITE: EventType = EventType("WRITE");
    pub const UNKNOWN: EventType = EventType("UNKNOWN");

    pub fn of(pool: Pool) -> EventType {
        EventType(pool.event_type())
    }

    pub const fn text(self) -> &'static str {
        self.0
    }

    /// The word in a database. The viewer knows one pool of host memory and answers a click on any other with an error,
    /// so all host memory goes by that name there.
    pub fn database_text(self) -> &'static str {
        match self.0 {
            "HOST" => "HOST_PINNED",
            other => other,
        }
    }
}

/// Whose memory a row is about; decides the file it goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceId {
    Cpu,
    Npu(u32),
    /// Of no device in particular: such a row belongs into the file of every device.
    Unknown,
}

impl DeviceId {
    pub fn push_text(self, out: &mut Vec<u8>) {
        match self {
            DeviceId::Cpu => out.extend_from_slice(b"cpu"),
            DeviceId::Npu(number) => push_decimal(out, u64::from(number)),
            DeviceId::Unknown => out.extend_from_slice(NOT_APPLICABLE.as_bytes()),
        }
    }

    pub fn text(self) -> String {
        match self {
            DeviceId::Cpu => "cpu".to_owned(),
            DeviceId::Npu(number) => number.to_string(),
            DeviceId::Unknown => NOT_APPLICABLE.to_owned(),
        }
    }
}

/// Keys of the `Attr` column.
pub mod key {
    pub const ALLOCATION_ID: &str = "allocation_id";
    pub const ADDRESS: &str = "addr";
    pub const SIZE: &str = "size";
    pub const PINNED: &str = "pinned";
    pub const USED: &str = "used";
    /// Of host memory the live bytes, of a pool what it has reserved.
    pub const TOTAL: &str = "total";
    pub const PROCESS_USED: &str = "process_used";
    pub const DEVICE_USED: &str = "device_used";
    pub const SHADOW: &str = "shadow";
    pub const OWNER: &str = "owner";
    pub const PAGE_TYPE: &str = "page_type";
    pub const ALLOC_TYPE: &str = "alloc_type";
    pub const FUNCTION: &str = "func";
    pub const REQUESTED_SIZE: &str = "req_size";
    pub const FLAG: &str = "flag";
    /// Of a device, where tracing begins and in a snapshot; there [`TOTAL`] is the device's too.
    pub const FREE: &str = "free";
    pub const RESERVED: &str = "reserved";
    pub const MAX_RESERVED: &str = "max_reserved";
    pub const ALLOCATED: &str = "allocated";
    pub const MAX_ALLOCATED: &str = "max_allocated";
    pub const DEVICE_RATE: &str = "device_rate";
    pub const RESERVED_RATE: &str = "reserved_rate";
    pub const STREAM: &str = "streamId";
    pub const TASK: &str = "taskId";
    pub const PATH: &str = "path";
    pub const WORKSPACE: &str = "workspace_ptr";
    pub const WORKSPACE_SIZE: &str = "workspace_size";
    /// Who accesses.
    pub const TYPE: &str = "type";
    pub const ELEMENT_TYPE: &str = "dtype";
    pub const FORMAT: &str = "format";
    pub const SHAPE: &str = "shape";
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Integer(u64),
    Address(u64),
    Text(&'a str),
}

impl Value<'_> {
    pub(crate) fn push_text(self, out: &mut Vec<u8>) {
        match self {
            Value::Integer(value) => push_decimal(out, value),
            Value::Address(value) => out.extend_from_slice(&address(value)),
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// One `key:value` of the `Attr` column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    pub key: &'static str,
    pub value: Value<'a>,
}

/// One row. Every text is as it is meant: quoting and escaping are the writers' business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    pub id: u64,
    pub event: Event,
    pub event_type: EventType,
    /// `None` is written as [`NOT_APPLICABLE`].
    pub name: Option<&'a str>,
    pub timestamp_ns: u64,
    pub process: u32,
    pub thread: u32,
    pub device: DeviceId,
    pub pointer: Option<u64>,
    pub attributes: &'a [Attribute<'a>],
    pub stack: StackCells<'a>,
}

/// The two cells of a row that say where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackCells<'a> {
    /// One frame a line, innermost first; empty if none was recorded.
    Inline { python: &'a str, c: &'a str },
    /// The innermost frame's row in the table of stacks; 0 if none was recorded.
    Table { python: u32, c: u32 },
}

impl StackCells<'static> {
    pub const NONE: StackCells<'static> = StackCells::Inline { python: "", c: "" };
}

/// A row of the table of stacks: a frame below its caller. Each is there once, its caller before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRow<'a> {
    /// From 1.
    pub id: u32,
    /// 0 of the outermost frame.
    pub caller: u32,
    pub frame: FrameCell<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameCell<'a> {
    Text(&'a str),
    /// The text is that of an earlier row.
    SameAs(u32),
}

impl Row<'_> {
    /// The `size` in the attributes.
    pub fn size(&self) -> Option<u64> {
        self.integer(key::SIZE)
    }

    /// The `allocation_id` in the attributes.
    pub fn allocation_id(&self) -> Option<u64> {
        self.integer(key::ALLOCATION_ID)
    }

    fn integer(&self, key: &str) -> Option<u64> {
        self.attributes.iter().find(|attribute| attribute.key == key).and_then(|attribute| match attribute.value {
            Value::Integer(value) => Some(value),
            _ => None,
        })
    }
}

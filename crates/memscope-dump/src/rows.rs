//! What a dump file says: the column names, the words in them, and one row before it has a format.
use crate::digits::{address, push_decimal};
use memscope_model::{Pool, TimestampNs};

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

/// The header of the csv of Python calls and the columns of their table.
pub const CALL_COLUMNS: [&str; 5] = ["FuncInfo", "StartTime(ns)", "EndTime(ns)", "Thread Id", "Process Id"];

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

    const ALL: [Event; 9] = [
        Event::Malloc,
        Event::Free,
        Event::KernelLaunch,
        Event::OpLaunch,
        Event::Access,
        Event::Mstx,
        Event::System,
        Event::Snapshot,
        Event::OomDetail,
    ];

    pub fn from_text(text: &str) -> Option<Event> {
        Event::ALL.into_iter().find(|event| is_word(text, event.text()))
    }

    /// Its place among all.
    pub(crate) fn number(self) -> u8 {
        Event::ALL.iter().position(|event| *event == self).unwrap_or(0) as u8
    }

    pub(crate) fn of_number(number: u8) -> Option<Event> {
        Event::ALL.get(usize::from(number)).copied()
    }
}

/// Whether `text` is `word`; the first files of the existing tool wrote some in small letters, and blanks in them.
fn is_word(text: &str, word: &str) -> bool {
    let plain = |byte: u8| if byte == b' ' { b'_' } else { byte.to_ascii_uppercase() };
    text == word || text.len() == word.len() && text.bytes().map(plain).eq(word.bytes().map(plain))
}

const HOST_IN_DATABASES: &str = "HOST_PINNED";

/// The name of an allocation that was refused, and of the blocks that were alive then.
pub const REFUSAL_NAME: &str = "OOM_Trigger";
pub const NEWEST_NAME: &str = "OOM_RecentAlloc";
pub const LARGEST_NAME: &str = "OOM_TopAlloc";

/// The name of a range's end where the text of its start is not known; the number of the range follows. The existing tool
/// writes all ends so.
pub const RANGE_END_PREFIX: &str = "Range end from id ";

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
    pub const OOM_RECENT_ALLOC: EventType = EventType("OOM_RECENT_ALLOC");
    pub const OOM_TOP_ALLOC: EventType = EventType("OOM_TOP_ALLOC");
    pub const SNAPSHOT: EventType = EventType("SNAPSHOT");
    pub const KERNEL_LAUNCH: EventType = EventType("KERNEL_LAUNCH");
    pub const KERNEL_EXECUTE_START: EventType = EventType("KERNEL_EXECUTE_START");
    pub const KERNEL_EXECUTE_END: EventType = EventType("KERNEL_EXECUTE_END");
    pub const ATB_START: EventType = EventType("ATB_START");
    pub const ATB_END: EventType = EventType("ATB_END");
    pub const ATEN_START: EventType = EventType("ATEN_START");
    pub const ATEN_END: EventType = EventType("ATEN_END");
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

    const NOT_OF_POOLS: [EventType; 24] = [
        EventType::KERNEL_LAUNCH,
        EventType::KERNEL_EXECUTE_START,
        EventType::KERNEL_EXECUTE_END,
        EventType::ATB_START,
        EventType::ATB_END,
        EventType::ATEN_START,
        EventType::ATEN_END,
        EventType::KERNEL_START,
        EventType::KERNEL_END,
        EventType::READ,
        EventType::WRITE,
        EventType::UNKNOWN,
        EventType::MARK,
        EventType::RANGE_START,
        EventType::RANGE_END,
        EventType::ACL_INIT,
        EventType::ACL_FINI,
        EventType::START_TRACE,
        EventType::STOP_TRACE,
        EventType::STEP,
        EventType::SNAPSHOT,
        EventType::OOM_TRIGGER,
        EventType::OOM_RECENT_ALLOC,
        EventType::OOM_TOP_ALLOC,
    ];

    /// Its place among those that are no pool's.
    pub(crate) fn number(self) -> u8 {
        EventType::NOT_OF_POOLS.iter().position(|known| *known == self).unwrap_or(0) as u8
    }

    pub(crate) fn of_number(number: u8) -> Option<EventType> {
        EventType::NOT_OF_POOLS.get(usize::from(number)).copied()
    }

    /// As a csv or a database spells it.
    pub fn from_text(text: &str) -> Option<EventType> {
        if let Some(pool) = Pool::from_event_type(text) {
            return Some(EventType::of(pool));
        }
        if is_word(text, HOST_IN_DATABASES) {
            return Some(EventType::of(Pool::Host));
        }
        let other = EventType::NOT_OF_POOLS.into_iter().find(|known| is_word(text, known.text()));
        other.or_else(|| Pool::from_event_type(&text.to_ascii_uppercase()).map(EventType::of))
    }

    /// The pool, if it is the type of allocations and frees; of pinned memory that of the host.
    pub fn pool(self) -> Option<Pool> {
        Pool::from_event_type(self.0)
    }

    /// The word in a database. The viewer knows one pool of host memory and answers a click on any other with an error,
    /// so all host memory goes by that name there.
    pub fn database_text(self) -> &'static str {
        match self.0 {
            "HOST" => HOST_IN_DATABASES,
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

    /// Old files say `host` for `cpu`; an empty cell says as little as [`NOT_APPLICABLE`].
    pub fn from_text(text: &str) -> Option<DeviceId> {
        match text {
            "cpu" | "host" => Some(DeviceId::Cpu),
            "" | NOT_APPLICABLE => Some(DeviceId::Unknown),
            number => number.parse().ok().map(DeviceId::Npu),
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
    /// Of a block that was alive when memory was refused.
    pub const POOL: &str = "pool";
    pub const POINTER: &str = "ptr";
    pub const TIMESTAMP: &str = "timestamp";
    pub const STEP: &str = "step";
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
    /// Of an operator, which the program tells by its handle; [`STREAM`] is a number of the runtime's.
    pub const STREAM_HANDLE: &str = "stream";
    pub const PATH: &str = "path";
    pub const WORKSPACE: &str = "workspace_ptr";
    pub const WORKSPACE_SIZE: &str = "workspace_size";
    /// Who accesses.
    pub const TYPE: &str = "type";
    pub const ELEMENT_TYPE: &str = "dtype";
    pub const FORMAT: &str = "format";
    pub const SHAPE: &str = "shape";
    /// Of the existing tool, where an analysis wrote into the file.
    pub const INEFFICIENT: &str = "inefficient_type";
    /// The manual's words for [`MAX_RESERVED`] and [`MAX_ALLOCATED`].
    pub const PEAK_RESERVED: &str = "peak_reserved";
    pub const PEAK_ALLOCATED: &str = "peak_allocated";

    /// Whether a text before a colon is a key that may follow a text with commas in it.
    pub fn is_known(text: &str) -> bool {
        matches!(
            text,
            ALLOCATION_ID
                | ADDRESS
                | SIZE
                | PINNED
                | USED
                | TOTAL
                | PROCESS_USED
                | DEVICE_USED
                | SHADOW
                | OWNER
                | PAGE_TYPE
                | ALLOC_TYPE
                | FUNCTION
                | REQUESTED_SIZE
                | FLAG
                | POINTER
                | FREE
                | RESERVED
                | MAX_RESERVED
                | ALLOCATED
                | MAX_ALLOCATED
                | DEVICE_RATE
                | RESERVED_RATE
                | STREAM
                | TASK
                | STREAM_HANDLE
                | PATH
                | WORKSPACE
                | WORKSPACE_SIZE
                | TYPE
                | ELEMENT_TYPE
                | FORMAT
                | SHAPE
                | INEFFICIENT
                | "MID"
        )
    }
}

/// Values of the `Attr` column that writer and reader must agree on.
pub mod value {
    pub const TRUE: &str = "true";
    pub const NORMAL_PAGES: &str = "normal";
    pub const HUGE_PAGES: &str = "huge";
    pub const GIANT_PAGES: &str = "giant";
    pub const ALLOCATED_BY_DRIVER: &str = "alloc";
    pub const CREATED_BY_DRIVER: &str = "create";
    pub const MAPPED: &str = "mmap";
    pub const BY_ATB: &str = "ATB";
    pub const BY_ATEN: &str = "PTA";
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
    pub time: TimestampNs,
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

/// A call of a Python function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRow<'a> {
    pub function: &'a str,
    pub start: Option<TimestampNs>,
    pub end: Option<TimestampNs>,
    pub thread: u32,
    pub process: u32,
}

impl CallRow<'_> {
    /// Before the function, where the call was already there at the start of the trace, or still there at its stop.
    pub fn prefix(&self) -> &'static str {
        match (self.start, self.end) {
            (None, _) => "start: ",
            (_, None) => "stop: ",
            _ => "",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_as_they_are_written_now_and_were_at_first() {
        for event in
            ["MALLOC", "FREE", "SYSTEM", "MSTX", "OOM_DETAIL", "SNAPSHOT", "OP_LAUNCH", "KERNEL_LAUNCH", "ACCESS"]
        {
            assert_eq!(Event::from_text(event).map(Event::text), Some(event));
        }
        assert_eq!(Event::from_text("Kernel launch"), Some(Event::KernelLaunch));
        assert_eq!((Event::from_text("CLEAN_UP"), EventType::from_text("PROC_EXIT")), (None, None));
        assert_eq!(EventType::from_text("acl init"), Some(EventType::ACL_INIT));
        let pools = [Pool::Host, Pool::Hal, Pool::PtaCaching, Pool::PtaWorkspace, Pool::Atb, Pool::MindSpore];
        for pool in pools {
            assert_eq!(EventType::from_text(EventType::of(pool).text()).and_then(EventType::pool), Some(pool));
            assert_eq!(EventType::from_text(EventType::of(pool).database_text()), Some(EventType::of(pool)));
        }
        assert_eq!(EventType::from_text("pta"), Some(EventType::of(Pool::PtaCaching)));
    }

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for device in [DeviceId::Cpu, DeviceId::Npu(0), DeviceId::Npu(u32::MAX), DeviceId::Unknown] {
            assert_eq!(DeviceId::from_text(&device.text()), Some(device));
        }
        assert_eq!((DeviceId::from_text("host"), DeviceId::from_text("x")), (Some(DeviceId::Cpu), None));
    }
}

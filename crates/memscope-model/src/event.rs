//! What happened to memory, and in which words.
use crate::watch::{WatchEnding, WatchId, WatchLook, WatchMoment, WatchTrouble, WatchedBlock};
use crate::{DevAddr, Moment, Name, PoolUsage, TimestampNs};
use memscope_format::record::{self, Space};
pub use memscope_format::record::{AccessMode, HostCall, Phase};
use std::fmt;

/// Where the memory is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Device {
    Cpu,
    /// The physical number.
    Npu(u16),
    Unknown,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Npu(number) => write!(f, "{number}"),
            Device::Unknown => f.write_str("N/A"),
        }
    }
}

/// Who hands the memory out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pool {
    /// The C library's heap and the mappings of the process.
    Host,
    /// Host memory the driver allocated or registered for the device.
    Pinned,
    /// The driver's memory of a device.
    Hal,
    /// torch_npu's caching allocator; on the host, torch's storages of tensors.
    PtaCaching,
    /// torch_npu's workspace allocator.
    PtaWorkspace,
    Atb,
    MindSpore,
}

impl Pool {
    /// The `Event Type` of the pool's allocations and frees.
    pub fn event_type(self) -> &'static str {
        match self {
            Pool::Host | Pool::Pinned => "HOST",
            Pool::Hal => "HAL",
            Pool::PtaCaching => "PTA",
            Pool::PtaWorkspace => "PTA_WORKSPACE",
            Pool::Atb => "ATB",
            Pool::MindSpore => "MINDSPORE",
        }
    }

    /// The pool of an `Event Type`. Pinned memory of the host goes by the host's; only attributes tell them apart.
    pub fn from_event_type(text: &str) -> Option<Pool> {
        const POOLS: [Pool; 6] =
            [Pool::Host, Pool::Hal, Pool::PtaCaching, Pool::PtaWorkspace, Pool::Atb, Pool::MindSpore];
        POOLS.into_iter().find(|pool| pool.event_type() == text)
    }

    /// A name no other pool has.
    pub fn name(self) -> &'static str {
        match self {
            Pool::Pinned => "HOST pinned",
            other => other.event_type(),
        }
    }

    /// The pool of a [`Pool::name`].
    pub fn from_name(name: &str) -> Option<Pool> {
        if name == Pool::Pinned.name() { Some(Pool::Pinned) } else { Pool::from_event_type(name) }
    }

    pub(crate) fn of(space: Space, device: Device) -> Pool {
        match (space, device) {
            (Space::Registered, _) | (Space::Driver | Space::DriverHandle, Device::Cpu) => Pool::Pinned,
            (Space::Driver | Space::DriverHandle, _) => Pool::Hal,
            (Space::PtaCaching | Space::TensorStorage, _) => Pool::PtaCaching,
            (Space::PtaWorkspace, _) => Pool::PtaWorkspace,
            (Space::Atb, _) => Pool::Atb,
            (Space::MindSpore, _) => Pool::MindSpore,
        }
    }
}

/// The number of a block within its process, from 1 in the order in which blocks appear: the `allocation_id`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u64);

/// Which kind of call made the block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// The malloc family.
    Heap,
    /// `mmap` and its kin.
    Mapping,
    /// `halMemAlloc`.
    Driver(DriverTraits),
    /// `halMemCreate`; the address is the handle.
    DriverHandle(DriverTraits),
    /// `aclrtHostRegisterV2`.
    Registered,
    /// A region of a framework's pool.
    Region,
}

impl Origin {
    pub(crate) fn of(space: Space, attributes: u32) -> Origin {
        match space {
            Space::Driver => Origin::Driver(DriverTraits::of(attributes)),
            Space::DriverHandle => Origin::DriverHandle(DriverTraits::of(attributes)),
            Space::Registered => Origin::Registered,
            Space::PtaCaching | Space::PtaWorkspace | Space::Atb | Space::MindSpore | Space::TensorStorage => {
                Origin::Region
            }
        }
    }
}

/// What the driver was told about an allocation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriverTraits {
    /// The number of the CANN module that asked.
    pub module: u8,
    pub page: PageSize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PageSize {
    Normal,
    /// 2 MiB.
    Huge,
    /// 1 GiB.
    Giant,
}

impl DriverTraits {
    fn of(attributes: u32) -> DriverTraits {
        let page = match attributes >> 8 & 3 {
            1 => PageSize::Huge,
            2 => PageSize::Giant,
            _ => PageSize::Normal,
        };
        DriverTraits { module: attributes as u8, page }
    }
}

/// Something that happened, but not to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoteEvent<'e> {
    pub at: Moment,
    /// Of marks, steps and launches without a task: the device the thread uses.
    pub device: Device,
    pub kind: NoteKind<'e>,
    /// Within what the user chose to see.
    pub chosen: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoteKind<'e> {
    AclInit,
    AclFinalize,
    StartTrace,
    StopTrace,
    /// The number of the step that ended.
    Step(u64),
    Mark(&'e str),
    RangeStart {
        id: u64,
        text: &'e str,
    },
    RangeEnd {
        id: u64,
        /// The text of its start; `None` if that was not seen.
        text: Option<&'e str>,
    },
    /// Memory was asked for and refused.
    OutOfMemory {
        call: RefusedCall,
        size: u64,
        flag: u64,
    },
    /// Where lists were asked for: a block that was alive when memory of its device was refused. Stack and thread are
    /// those that allocated it.
    LiveAtRefusal {
        list: RefusalList,
        pool: Pool,
        address: u64,
        size: u64,
        made: TimestampNs,
        /// The number of the step it was allocated in.
        step: Option<u32>,
    },
    /// What was in use at that moment: the program asked, or memory was refused.
    Snapshot {
        name: &'e str,
        memory: SnapshotMemory,
    },
    /// A kernel was launched, or a device began or ended it, by the device's own clock.
    Kernel {
        phase: KernelPhase,
        name: Option<Name<'e>>,
        stream: Option<u32>,
        task: Option<u32>,
    },
    /// An operator of ATB begins or ends.
    AtbOperator {
        phase: Phase,
        operator: AtbOperator<'e>,
    },
    /// A kernel of an operator of ATB is about to be launched, or was.
    AtbKernel {
        phase: Phase,
        name: Option<Name<'e>>,
        path: Option<&'e str>,
    },
    /// An operator of Aten begins or ends: a call of torch's dispatcher, on the thread of its moment. One may be inside another.
    AtenOperator {
        phase: Phase,
        name: Option<Name<'e>>,
        stream: Option<StreamHandle>,
    },
    Access(Access<'e>),
    /// A piece of code that the program wants to see among its functions begins or ends, on the thread of its moment.
    Function {
        phase: Phase,
        name: Name<'e>,
    },
    /// A block is watched from here on.
    WatchBegin(WatchedBlock<'e>),
    /// While something is watched: an operator or kernel begins or ends.
    WatchMoment(WatchMoment<'e>),
    /// What a watched block held then.
    WatchLook(WatchLook<'e>),
    WatchEnd {
        watch: WatchId,
        reason: WatchEnding,
    },
    /// Something is not watched as was asked for.
    WatchProblem {
        problem: WatchTrouble,
        value: u64,
    },
}

/// The books of a device at one moment, or what the program's framework said: those of its framework's pool, or, where no framework told of one, of the driver's
/// memory of this process. Of the host, those of its heap and mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SnapshotMemory {
    pub reserved: u64,
    pub max_reserved: u64,
    pub allocated: u64,
    pub max_allocated: u64,
    /// Of the whole device, if the program said so; else it is sampled.
    pub of_device: Option<DeviceRoom>,
}

/// What there is of a device's memory, by whomever it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceRoom {
    /// At most the total.
    pub free: u64,
    pub total: u64,
}

impl SnapshotMemory {
    pub(crate) fn of(usage: &PoolUsage) -> SnapshotMemory {
        SnapshotMemory {
            reserved: usage.reserved_bytes.unwrap_or(usage.live_bytes),
            max_reserved: usage.peak_reserved_bytes.unwrap_or(usage.peak_bytes),
            allocated: usage.live_bytes,
            max_allocated: usage.peak_bytes,
            of_device: None,
        }
    }
}

/// Which list of live blocks at a refusal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefusalList {
    /// Newest first.
    Newest,
    /// Largest first.
    Largest,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelPhase {
    Launch,
    ExecuteStart,
    ExecuteEnd,
}

/// The stream of a device that kernels are given to, by the handle that the program has of it. Other than the number a device knows it
/// by, it is known before anything is launched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamHandle(pub u64);

impl StreamHandle {
    /// 0 stands for none that is known.
    pub fn known(handle: u64) -> Option<StreamHandle> {
        (handle != 0).then_some(StreamHandle(handle))
    }
}

/// What an operator of ATB was given. `None` is what ATB did not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtbOperator<'e> {
    pub name: Option<Name<'e>>,
    /// Where ATB would save its tensors: says which part of the model, and in which execution.
    pub path: Option<&'e str>,
    pub workspace: DevAddr,
    /// Intermediate tensors included.
    pub workspace_size: u64,
    pub stream: Option<StreamHandle>,
}

/// Whose tensor is accessed; decides what its type and format codes are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TensorOwner {
    AtbOperator,
    AtbKernel,
    /// torch's, by an operator of Aten.
    Aten,
}

impl From<record::TensorOwner> for TensorOwner {
    fn from(owner: record::TensorOwner) -> TensorOwner {
        match owner {
            record::TensorOwner::AtbOperator => TensorOwner::AtbOperator,
            record::TensorOwner::AtbKernel => TensorOwner::AtbKernel,
        }
    }
}

/// Memory is given to an operator or kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access<'e> {
    pub mode: AccessMode,
    pub owner: TensorOwner,
    /// The operator or kernel.
    pub name: Option<Name<'e>>,
    pub address: DevAddr,
    pub size: u64,
    /// The smallest live block the address lies in.
    pub block: Option<AccessedBlock>,
    /// In the codes of `owner`, as is the format.
    pub dtype: i32,
    pub format: i32,
    pub dimensions: &'e [i64],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessedBlock {
    pub block: BlockId,
    /// Where it begins.
    pub address: DevAddr,
    pub device: Device,
}

/// The functions that can run out of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefusedCall {
    MemAlloc,
    MemCreate,
    /// Not the driver but a pool above it.
    Pool(Pool),
    /// The C library or the kernel.
    Host(HostCall),
}

impl RefusedCall {
    pub(crate) fn of(space: Space, device: Device) -> RefusedCall {
        match space {
            Space::Driver => RefusedCall::MemAlloc,
            Space::DriverHandle => RefusedCall::MemCreate,
            other => RefusedCall::Pool(Pool::of(other, device)),
        }
    }

    /// The call of a [`RefusedCall::name`].
    pub fn from_name(name: &str) -> Option<RefusedCall> {
        match name {
            "halMemAlloc" => Some(RefusedCall::MemAlloc),
            "halMemCreate" => Some(RefusedCall::MemCreate),
            name => match HostCall::ALL.into_iter().find(|call| call.name() == name) {
                Some(call) => Some(RefusedCall::Host(call)),
                None => Pool::from_name(name).map(RefusedCall::Pool),
            },
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RefusedCall::MemAlloc => "halMemAlloc",
            RefusedCall::MemCreate => "halMemCreate",
            RefusedCall::Pool(pool) => pool.name(),
            RefusedCall::Host(call) => call.name(),
        }
    }
}

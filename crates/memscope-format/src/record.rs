//! The vocabulary of the spool: what a record can say.
use crate::choices::choices;

/// The low two bits of a record's first byte.
pub mod kind {
    pub const EXTENDED: u8 = 0;
    pub const HOST_ALLOC: u8 = 1;
    pub const HOST_FREE: u8 = 2;
    pub const NODE: u8 = 3;
}

/// A moment by the wall clock, in nanoseconds since the epoch; 0 where there is none to tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct TimestampNs(pub u64);

impl TimestampNs {
    /// The nanoseconds from `earlier` to this moment, 0 if it came before.
    #[inline]
    pub fn since(self, earlier: TimestampNs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many nanoseconds later, or as late as can be told.
    #[inline]
    #[must_use]
    pub fn later_by(self, ns: u64) -> TimestampNs {
        TimestampNs(self.0.saturating_add(ns))
    }

    /// So many nanoseconds earlier, or the epoch.
    #[inline]
    #[must_use]
    pub fn earlier_by(self, ns: u64) -> TimestampNs {
        TimestampNs(self.0.saturating_sub(ns))
    }
}

/// What a program may do with mapped memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protection(pub u8);

impl Protection {
    /// As `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`.
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const EXECUTE: u8 = 4;
    /// The program asked for `MAP_NORESERVE`.
    pub const NO_RESERVE: u8 = 8;

    pub const READ_WRITE: Protection = Protection(Self::READ | Self::WRITE);
    pub const NONE: Protection = Protection(0);

    /// Address space without any access is reserved and holds nothing. `NO_RESERVE` decides nothing: allocators map their
    /// heaps with it.
    pub fn is_usable(self) -> bool {
        self.0 & (Self::READ | Self::WRITE | Self::EXECUTE) != 0
    }
}

choices! {
    /// The functions of host memory that can run out of it. The numbers are those of the C table, too.
    HostCall {
        Malloc = 0,
        Calloc = 1,
        Realloc = 2,
        Reallocarray = 3,
        PosixMemalign = 4,
        AlignedAlloc = 5,
        Memalign = 6,
        Valloc = 7,
        Pvalloc = 8,
        Mmap = 9,
        Mremap = 10,
    }
}

impl HostCall {
    /// As its header spells it.
    pub fn name(self) -> &'static str {
        match self {
            HostCall::Malloc => "malloc",
            HostCall::Calloc => "calloc",
            HostCall::Realloc => "realloc",
            HostCall::Reallocarray => "reallocarray",
            HostCall::PosixMemalign => "posix_memalign",
            HostCall::AlignedAlloc => "aligned_alloc",
            HostCall::Memalign => "memalign",
            HostCall::Valloc => "valloc",
            HostCall::Pvalloc => "pvalloc",
            HostCall::Mmap => "mmap",
            HostCall::Mremap => "mremap",
        }
    }
}

choices! {
    /// Who hands out device memory. Each has addresses of its own: the same number in two spaces is two blocks.
    Space {
        /// The driver, by address (`halMemAlloc`).
        Driver = 0,
        /// The driver, by handle of physical memory (`halMemCreate`).
        DriverHandle = 1,
        /// Host memory registered for the device (`aclrtHostRegisterV2`).
        Registered = 2,
        /// torch_npu's caching allocator.
        PtaCaching = 3,
        /// torch_npu's workspace allocator.
        PtaWorkspace = 4,
        /// ATB's context workspace.
        Atb = 5,
        /// MindSpore's pool.
        MindSpore = 6,
        /// Storages of tensors on the host, by torch (`c10::alloc_cpu`). They lie in host memory, which is recorded as well.
        TensorStorage = 7,
    }

    /// What a `SYSTEM` record is about.
    SystemKind {
        AclInit = 0,
        AclFinalize = 1,
        StartTrace = 2,
        StopTrace = 3,
        Step = 4,
        SetDevice = 5,
    }
}

/// In every numbering: the device of an allocation on the host side of the driver.
pub const HOST_DEVICE: u32 = 10_000;
/// In every numbering: the device nobody said.
pub const UNKNOWN_DEVICE: u32 = 9_999;
/// In a snapshot: each NPU whose memory was seen.
pub const ALL_DEVICES: u32 = 9_998;

/// An address in the program's own memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct HostAddr(pub u64);

/// An address in a device's memory: what the driver and pools hand out and kernels are given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct DevAddr(pub u64);

/// Where a block is, as those number it who hand it out: it says nothing without the [`Space`]. An address of the
/// device, but of physical memory its handle, and of registered memory the host's address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct SpaceAddr(pub u64);

/// So many bytes behind it.
impl core::ops::Add<u64> for HostAddr {
    type Output = HostAddr;

    #[inline(always)]
    fn add(self, bytes: u64) -> HostAddr {
        HostAddr(self.0 + bytes)
    }
}

/// The bytes between.
impl core::ops::Sub for HostAddr {
    type Output = u64;

    #[inline(always)]
    fn sub(self, start: HostAddr) -> u64 {
        self.0 - start.0
    }
}

macro_rules! addresses {
    ($($address:ident),*) => {
        $(impl From<u64> for $address {
            #[inline(always)]
            fn from(number: u64) -> $address {
                $address(number)
            }
        })*
    };
}
addresses!(HostAddr, DevAddr, SpaceAddr);

/// A device as the machine and its driver number it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct PhysicalDevice(pub u32);

/// A device as a program numbers those it sees: a place in `ASCEND_RT_VISIBLE_DEVICES`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct LogicalDevice(pub u32);

impl LogicalDevice {
    pub const UNKNOWN: LogicalDevice = LogicalDevice(UNKNOWN_DEVICE);
    pub const ALL: LogicalDevice = LogicalDevice(ALL_DEVICES);
    pub const HOST: LogicalDevice = LogicalDevice(HOST_DEVICE);
}

/// A device as those number it who hand out its memory: it says nothing without the [`Space`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct SpaceDevice(pub u32);

impl SpaceDevice {
    pub const HOST: SpaceDevice = SpaceDevice(HOST_DEVICE);

    /// The driver's numbers are the machine's, those of pools the program's.
    pub fn of(self, space: Space) -> DeviceNumber {
        match space {
            Space::Driver | Space::DriverHandle | Space::Registered | Space::TensorStorage => {
                DeviceNumber::Physical(PhysicalDevice(self.0))
            }
            Space::PtaCaching | Space::PtaWorkspace | Space::Atb | Space::MindSpore => {
                DeviceNumber::Logical(LogicalDevice(self.0))
            }
        }
    }
}

/// A device, by whichever number it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeviceNumber {
    Physical(PhysicalDevice),
    Logical(LogicalDevice),
}

macro_rules! from_numbers {
    ($($device:ident),*) => {
        $(impl TryFrom<u64> for $device {
            type Error = core::num::TryFromIntError;

            fn try_from(number: u64) -> Result<$device, Self::Error> {
                u32::try_from(number).map($device)
            }
        })*
    };
}
from_numbers!(PhysicalDevice, LogicalDevice, SpaceDevice);

choices! {
    /// Which side of a kernel's launch a record is about.
    Phase {
        Start = 0,
        End = 1,
    }

    /// What is done to memory, as far as it is known.
    AccessMode {
        Unknown = 0,
        Read = 1,
        Write = 2,
    }

    /// Whose tensor is accessed; decides what its type and format codes are called.
    TensorOwner {
        AtbOperator = 0,
        AtbKernel = 1,
    }

    /// Where a label stands in the text of an owner. On each level but the last, one label counts.
    LabelLevel {
        Framework = 0,
        Component = 1,
        Process = 2,
        Detail1 = 3,
        Detail2 = 4,
        /// The user's own, as deep as they are nested.
        User = 5,
        /// Not in the text: what the thread is about (`forward`, `backward`, `optimizer`), from which readers conclude what memory
        /// is for.
        Phase = 6,
    }
}

/// No tensor of ATB has more dimensions.
pub const MOST_DIMENSIONS: usize = 8;

/// Where a node hangs, in two bits of its first byte.
pub mod node_parent {
    pub const NONE: u8 = 0;
    /// Below the node whose number is one less.
    pub const PREVIOUS: u8 = 1;
    /// The difference of the numbers follows.
    pub const EARLIER: u8 = 2;
}

/// Kinds of a node's frame, in two bits of its first byte.
pub mod frame {
    pub const C: u8 = 0;
    pub const UNKNOWN: u8 = 1;
    pub const PYTHON: u8 = 2;
    /// A C frame that came below the one before it lately: see `followers`. The node hangs below the one numbered one less, and
    /// the bits of the parent say which of its followers it is.
    pub const FOLLOWER: u8 = 3;
}

/// A frame of a stack, in terms of the lane's earlier definitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FrameRecord {
    /// A return address as in the module's file.
    C { module: u32, offset: u64 },
    /// A return address outside all modules.
    Unknown { address: u64 },
    /// Byte offset of the running instruction.
    Python { code: u32, instruction: u32 },
}

/// Byte lengths of a field by its two-bit code.
pub const TIME_LENGTHS: [usize; 4] = [1, 2, 4, 8];
/// Code 3 is the address itself; the others are the zigzag difference to the last address, in units of 16 bytes.
pub const ADDRESS_LENGTHS: [usize; 4] = [2, 3, 4, 8];
pub const ADDRESS_ABSOLUTE: u8 = 3;
pub const SIZE_LENGTHS: [usize; 4] = [1, 2, 4, 8];

/// The call stack of an event: the innermost node of its C part and of its Python part, 0 for a part it has not.
///
/// Two numbers and not one for the combination: combinations are many, and to number them was a third of a stack's cost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StackRef {
    pub c: u32,
    pub python: u32,
}

impl StackRef {
    pub const NONE: StackRef = StackRef { c: 0, python: 0 };
}

/// How an event names its stack: a varint whose low two bits say what the Python part is, and whose rest is the zigzag
/// difference of the C part to the lane's last one.
pub mod stack_field {
    pub const NO_PYTHON: u64 = 0;
    /// The lane's last Python part again.
    pub const SAME_PYTHON: u64 = 1;
    /// The zigzag difference to the lane's last Python part follows.
    pub const OTHER_PYTHON: u64 = 2;
    /// Neither part; the rest is 0.
    pub const NO_STACK: u64 = 3;
}

/// How a free names its stack, in the bits of the size.
pub mod free_stack {
    pub const NONE: u8 = 0;
    /// A varint as in an allocation follows.
    pub const GIVEN: u8 = 1;
}

/// A line of a device's task log: a task began or ended. Numbers are as the device wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskLogLine {
    /// 0 where the device does not tell it.
    pub stream: u16,
    pub task: u32,
    /// Which kind of unit carried it out: the six bits of the type in the log.
    pub unit: u8,
    pub end: bool,
    /// The device's counter at that moment.
    pub counter: u64,
}

/// Most lines in one record.
pub const MOST_EXECUTIONS: usize = 512;

/// The first byte of a line in a record of executions.
pub mod execution {
    pub const END: u8 = 1;
    pub const UNIT_SHIFT: u32 = 1;
    pub const UNIT_MASK: u8 = 0x3f;
    /// Stream and task are those of the line before.
    pub const SAME_TASK: u8 = 0x80;
}

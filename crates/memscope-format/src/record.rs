//! The vocabulary of the spool: what a record can say.

/// The low two bits of a record's first byte.
pub mod kind {
    pub const EXTENDED: u8 = 0;
    pub const HOST_ALLOC: u8 = 1;
    pub const HOST_FREE: u8 = 2;
    pub const NODE: u8 = 3;
}

/// The second byte of an extended record. A reader skips a type it does not know by the record's length.
pub mod extended {
    pub const THREAD: u8 = 1;
    pub const MODULE: u8 = 2;
    pub const CODE: u8 = 3;
    pub const HOST_MAP: u8 = 5;
    pub const HOST_UNMAP: u8 = 6;
    pub const HOST_REMAP: u8 = 7;
    pub const DEVICE_ALLOC: u8 = 16;
    pub const DEVICE_FREE: u8 = 17;
    pub const POOL_TOTAL: u8 = 18;
    pub const OUT_OF_MEMORY: u8 = 19;
    pub const VISIBLE_DEVICES: u8 = 24;
    pub const SYSTEM: u8 = 32;
    pub const MARK: u8 = 33;
    pub const RANGE_START: u8 = 34;
    pub const RANGE_END: u8 = 35;
    pub const ATB_OPERATOR_START: u8 = 64;
    pub const ATB_OPERATOR_END: u8 = 65;
    pub const ATB_KERNEL: u8 = 66;
    pub const ACCESS: u8 = 67;
    pub const HEAP: u8 = 68;
    pub const HEAP_END: u8 = 69;
}

/// Who hands out device memory. Each has addresses of its own: the same number in two spaces is two blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Space {
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
}

impl Space {
    pub const ALL: [Space; 7] = [
        Space::Driver,
        Space::DriverHandle,
        Space::Registered,
        Space::PtaCaching,
        Space::PtaWorkspace,
        Space::Atb,
        Space::MindSpore,
    ];

    pub fn from_code(code: u8) -> Option<Space> {
        Space::ALL.get(code as usize).copied()
    }
}

/// What a `SYSTEM` record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SystemKind {
    AclInit = 0,
    AclFinalize = 1,
    StartTrace = 2,
    StopTrace = 3,
    Step = 4,
    SetDevice = 5,
}

impl SystemKind {
    pub fn from_code(code: u8) -> Option<SystemKind> {
        use SystemKind::{AclFinalize, AclInit, SetDevice, StartTrace, Step, StopTrace};
        [AclInit, AclFinalize, StartTrace, StopTrace, Step, SetDevice].get(code as usize).copied()
    }
}

/// The device of an allocation on the host side of the driver.
pub const HOST_DEVICE: u32 = 10_000;
/// The device nobody said.
pub const UNKNOWN_DEVICE: u32 = 9_999;

/// Which side of a kernel's launch a record is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Phase {
    Start = 0,
    End = 1,
}

impl Phase {
    pub fn from_code(code: u8) -> Option<Phase> {
        [Phase::Start, Phase::End].get(code as usize).copied()
    }
}

/// What is done to memory, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum AccessMode {
    Unknown = 0,
    Read = 1,
    Write = 2,
}

impl AccessMode {
    pub fn from_code(code: u8) -> Option<AccessMode> {
        [AccessMode::Unknown, AccessMode::Read, AccessMode::Write].get(code as usize).copied()
    }
}

/// Whose tensor is accessed; decides what its type and format codes are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TensorOwner {
    AtbOperator = 0,
    AtbKernel = 1,
}

impl TensorOwner {
    pub fn from_code(code: u8) -> Option<TensorOwner> {
        [TensorOwner::AtbOperator, TensorOwner::AtbKernel].get(code as usize).copied()
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
    pub const PAIR: u8 = 3;
}

/// Byte lengths of a field by its two-bit code.
pub const TIME_LENGTHS: [usize; 4] = [1, 2, 4, 8];
/// Code 3 is the address itself; the others are the zigzag difference to the last address, in units of 16 bytes.
pub const ADDRESS_LENGTHS: [usize; 4] = [2, 3, 4, 8];
pub const ADDRESS_ABSOLUTE: u8 = 3;
pub const SIZE_LENGTHS: [usize; 4] = [1, 2, 4, 8];

/// How an event names its stack. In an allocation: a varint after the size. In a free: the size code.
pub mod stack_reference {
    pub const NONE: u32 = 0;
    pub const SAME_AS_LAST: u32 = 1;
    /// Varint: node id plus one. Free: the varint `node id plus one` follows.
    pub const EXPLICIT: u32 = 2;
}

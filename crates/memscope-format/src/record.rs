//! The vocabulary of the spool: what a record can say.

/// The low two bits of a record's first byte.
pub mod kind {
    pub const EXTENDED: u8 = 0;
    pub const HOST_ALLOC: u8 = 1;
    pub const HOST_FREE: u8 = 2;
}

/// The second byte of an extended record. A reader skips a type it does not know by the record's length.
pub mod extended {
    pub const THREAD: u8 = 1;
    pub const MODULE: u8 = 2;
    pub const CODE: u8 = 3;
    pub const NODE: u8 = 4;
    pub const HOST_MAP: u8 = 5;
    pub const HOST_UNMAP: u8 = 6;
    pub const HOST_REMAP: u8 = 7;
}

/// Kinds of a node's frame, the byte after the parent in a `NODE` record.
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

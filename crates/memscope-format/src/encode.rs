//! Encoding into a window: straight stores, no allocation, no branch on the length of a field.
//!
//! ```text
//! event      | size:2 address:2 time:2 kind:2 | time | address | size (alloc) | stack (alloc; free if size code = 2) |
//! extended   |    0      0     time:2   0:2   | type | time | length:u16 | payload |
//! ```
//! The two-bit codes say how long a field is ([`crate::record`]). A field is stored as eight bytes and the cursor
//! advanced by its length, so every event needs [`MAX_EVENT`] bytes of room although it keeps five to nine.
use crate::record::{ADDRESS_ABSOLUTE, extended, frame, kind, stack_reference};

/// Room an event may need: 1 + 8 + 8 + 8 + 5 bytes and the overshoot of the last store.
pub const MAX_EVENT: usize = 40;
/// Longest payload of an extended record.
pub const MAX_PAYLOAD: usize = 60_000;
/// Type, time and length of an extended record, and the overshoot.
pub const EXTENDED_OVERHEAD: usize = 20;

/// What the next record is encoded against. A generation begins with `Deltas::at(base_ticks)`.
#[derive(Clone, Copy, Debug)]
pub struct Deltas {
    pub ticks: u64,
    pub address: u64,
    pub stack: u32,
}

impl Deltas {
    pub const fn at(base_ticks: u64) -> Deltas {
        Deltas { ticks: base_ticks, address: 0, stack: 0 }
    }
}

/// An allocation of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_alloc(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, size: u64, stack: u32) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let size_code = log_code(size);
    // SAFETY: 1 + 8 + 8 + 8 + 5 bytes at most, and a store reaches at most 7 further.
    unsafe {
        out.write(kind::HOST_ALLOC | time_code << 2 | address_code << 4 | size_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        at = store(at, size, 1 << size_code);
        varint(at, stack_field(last, stack))
    }
}

/// A free of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, stack: u32) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let stack_field = stack_field(last, stack);
    let stack_code = stack_field.min(stack_reference::EXPLICIT) as u8;
    // SAFETY: as in `host_alloc`.
    unsafe {
        out.write(kind::HOST_FREE | time_code << 2 | address_code << 4 | stack_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        if stack_field >= stack_reference::EXPLICIT { varint(at, stack_field) } else { at }
    }
}

/// An extended record of a payload that is already encoded.
///
/// # Safety
/// `out` must be valid for writes of `payload.len() + EXTENDED_OVERHEAD` bytes; the payload is at most
/// [`MAX_PAYLOAD`] long and does not overlap them.
pub unsafe fn extended(out: *mut u8, last: &mut Deltas, ticks: u64, record_type: u8, payload: &[u8]) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    // SAFETY: the caller keeps the room for overhead and payload.
    unsafe {
        out.write(kind::EXTENDED | time_code << 2);
        out.add(1).write(record_type);
        let at = store(out.add(2), time, 1 << time_code);
        let at = store(at, payload.len() as u64, 2);
        at.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        at.add(payload.len())
    }
}

/// Builds the payload of an extended record in a buffer on the stack. Fields that do not fit are cut, never written
/// past the end: a cut name is still a name.
pub struct Payload<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

impl<'b> Payload<'b> {
    pub fn new(buffer: &'b mut [u8]) -> Payload<'b> {
        Payload { buffer, length: 0 }
    }

    pub fn byte(mut self, value: u8) -> Self {
        self.push(&[value]);
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.push(&value.to_le_bytes());
        self
    }

    /// LEB128.
    pub fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.push(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.push(&[value as u8]);
        self
    }

    /// Length as a varint, then the bytes; cut to what `at_most` and the buffer allow.
    pub fn text(mut self, bytes: &[u8], at_most: usize) -> Self {
        const LONGEST_LENGTH: usize = 3;
        let room = self.buffer.len().saturating_sub(self.length + LONGEST_LENGTH);
        let kept = bytes.get(..bytes.len().min(at_most).min(room)).unwrap_or_default();
        self = self.varint(kept.len() as u64);
        self.push(kept);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.buffer.get_mut(self.length..self.length + bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }
}

/// Payloads of the definition and mapping records, each the mirror of its decoder in [`crate::decode`].
pub mod payload {
    use super::{Payload, extended, frame};

    /// Which extended record a payload belongs to, and its bytes.
    pub type Typed<'b> = (u8, Payload<'b>);

    pub fn thread(buffer: &mut [u8], thread: u32) -> Typed<'_> {
        (extended::THREAD, Payload::new(buffer).varint(u64::from(thread)))
    }

    pub fn module<'b>(
        buffer: &'b mut [u8],
        id: u32,
        start: u64,
        end: u64,
        bias: u64,
        build_id: &[u8],
        path: &[u8],
    ) -> Typed<'b> {
        let payload = Payload::new(buffer).varint(u64::from(id)).u64(start).u64(end).u64(bias);
        (extended::MODULE, payload.text(build_id, 64).text(path, 4096))
    }

    pub fn code<'b>(
        buffer: &'b mut [u8],
        id: u32,
        python_version: u16,
        first_line: u32,
        file: &[u8],
        function: &[u8],
        line_table: &[u8],
    ) -> Typed<'b> {
        let payload =
            Payload::new(buffer).varint(u64::from(id)).varint(u64::from(python_version)).varint(u64::from(first_line));
        (extended::CODE, payload.text(file, 4096).text(function, 4096).text(line_table, 48 * 1024))
    }

    /// A frame's two numbers: module and offset, unused and address, code and instruction, unused and Python node.
    pub fn node(buffer: &mut [u8], id: u32, parent: u32, frame_kind: u8, first: u32, second: u64) -> Typed<'_> {
        let payload = Payload::new(buffer).varint(u64::from(id)).varint(u64::from(parent)).byte(frame_kind);
        let payload = match frame_kind {
            frame::C | frame::PYTHON => payload.varint(u64::from(first)),
            _ => payload,
        };
        (extended::NODE, payload.varint(second))
    }

    pub fn host_map(buffer: &mut [u8], address: u64, size: u64, stack: u32) -> Typed<'_> {
        (extended::HOST_MAP, Payload::new(buffer).u64(address).varint(size).varint(u64::from(stack)))
    }

    pub fn host_unmap(buffer: &mut [u8], address: u64, size: u64, stack: u32) -> Typed<'_> {
        (extended::HOST_UNMAP, Payload::new(buffer).u64(address).varint(size).varint(u64::from(stack)))
    }
}

/// Time since the last record. Counters of two cores may differ by a tick or two: never backwards within a lane.
#[inline(always)]
fn advance(last: &mut Deltas, ticks: u64) -> u64 {
    let now = ticks.max(last.ticks);
    let time = now - last.ticks;
    last.ticks = now;
    time
}

/// 0, 1, 2, 3 for a value of one, two, four, eight bytes.
#[inline(always)]
fn log_code(value: u64) -> u8 {
    u8::from(value > 0xff) + u8::from(value > 0xffff) + u8::from(value > 0xffff_ffff)
}

#[inline(always)]
fn address_field(last: &mut Deltas, address: u64) -> (u8, u64) {
    let difference = (address >> 4).wrapping_sub(last.address >> 4) as i64;
    let zigzag = ((difference << 1) ^ (difference >> 63)) as u64;
    last.address = address;
    let code = u8::from(zigzag > 0xffff) + u8::from(zigzag > 0xff_ffff) + u8::from(zigzag > 0xffff_ffff);
    if address & 15 != 0 || code == ADDRESS_ABSOLUTE { (ADDRESS_ABSOLUTE, address) } else { (code, zigzag) }
}

#[inline(always)]
fn address_length(code: u8) -> usize {
    2 + code as usize + if code == ADDRESS_ABSOLUTE { 3 } else { 0 }
}

#[inline(always)]
fn stack_field(last: &mut Deltas, stack: u32) -> u32 {
    if stack == 0 {
        stack_reference::NONE
    } else if stack == last.stack {
        stack_reference::SAME_AS_LAST
    } else {
        last.stack = stack;
        stack + 1
    }
}

/// # Safety
/// `out` must be valid for writes of eight bytes, whatever `length` is kept.
#[inline(always)]
unsafe fn store(out: *mut u8, value: u64, length: usize) -> *mut u8 {
    // SAFETY: the caller has room for the whole word.
    unsafe {
        out.cast::<u64>().write_unaligned(value.to_le());
        out.add(length)
    }
}

/// # Safety
/// `out` must be valid for writes of five bytes.
#[inline(always)]
unsafe fn varint(mut out: *mut u8, mut value: u32) -> *mut u8 {
    // SAFETY: a 32-bit value takes at most five bytes of seven bits.
    unsafe {
        while value >= 0x80 {
            out.write(value as u8 | 0x80);
            out = out.add(1);
            value >>= 7;
        }
        out.write(value as u8);
        out.add(1)
    }
}

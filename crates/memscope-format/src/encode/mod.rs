//! Encoding into a window: straight stores, no allocation.
//!
//! ```text
//! event      | size:2 address:2 time:2 kind:2 | time | address | size (alloc) | stack (alloc; free if size code = 1) |
//! extended   |    0      0     time:2   0:2   | type | time | length:u16 | payload |
//! ```
//! The two-bit codes say how long a field is ([`crate::record`]). The usual event, soon after the last and near it, is one
//! word; in any other a field is stored as eight bytes and the cursor advanced by its length. So every event needs
//! [`MAX_EVENT`] bytes of room although it keeps four to nine.
mod extended;
pub(crate) mod fields;
mod nodes;
mod output;

use crate::record::{ADDRESS_ABSOLUTE, HostAddr, StackRef, free_stack, kind, stack_field};
pub use extended::{Extended, Path, extended, extended_in_place};
pub use nodes::{MAX_NODE, NodeDeltas, node};

/// A text by a number that no other has, for all practical purposes: so it is known again without being kept.
pub fn text_hash(text: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text)
}

/// Room an event may need: 1 + 8 + 8 + 8 bytes, the stack's 10, and the overshoot of the last store.
pub const MAX_EVENT: usize = 48;

/// What the next record is encoded against. A generation begins with `Deltas::at(base_ticks)`.
#[derive(Clone, Copy, Debug)]
pub struct Deltas {
    pub ticks: u64,
    pub address: HostAddr,
    pub device_address: u64,
    /// The last C part and the last Python part of a stack that were not 0.
    pub stack: StackRef,
}

impl Deltas {
    pub const fn at(base_ticks: u64) -> Deltas {
        Deltas { ticks: base_ticks, address: HostAddr(0), device_address: 0, stack: StackRef::NONE }
    }
}

/// An allocation of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_alloc(
    out: *mut u8,
    last: &mut Deltas,
    ticks: u64,
    address: HostAddr,
    size: u64,
    stack: StackRef,
) -> *mut u8 {
    let time = ticks.wrapping_sub(last.ticks);
    let zigzag = zigzag(last.address, address);
    if time | size > 0xff || !is_near(zigzag, address) {
        // SAFETY: passed on.
        return unsafe { any_host_alloc(out, last, ticks, address, size, stack) };
    }
    // The usual event is one word: kind, one byte of time, two or three of address, one of size.
    let wide = u64::from(zigzag > 0xffff);
    let head = u64::from(kind::HOST_ALLOC) | wide << 4;
    let word = head | time << 8 | zigzag << 16 | size << (32 + 8 * wide);
    last.ticks = ticks;
    last.address = address;
    // SAFETY: eight bytes of the word, at most ten of the stack.
    unsafe {
        out.cast::<u64>().write_unaligned(word.to_le());
        store_stack(out.add(5 + wide as usize), last, stack)
    }
}

/// A free of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: HostAddr, stack: StackRef) -> *mut u8 {
    let time = ticks.wrapping_sub(last.ticks);
    let zigzag = zigzag(last.address, address);
    if time > 0xff || stack != StackRef::NONE || !is_near(zigzag, address) {
        // SAFETY: passed on.
        return unsafe { any_host_free(out, last, ticks, address, stack) };
    }
    let wide = u64::from(zigzag > 0xffff);
    let word = u64::from(kind::HOST_FREE) | wide << 4 | time << 8 | zigzag << 16;
    last.ticks = ticks;
    last.address = address;
    // SAFETY: eight bytes of the word.
    unsafe {
        out.cast::<u64>().write_unaligned(word.to_le());
        out.add(4 + wide as usize)
    }
}

/// Every allocation, whatever its fields need. Out of the way of the usual one.
///
/// # Safety
/// As for [`host_alloc`].
#[inline(never)]
unsafe fn any_host_alloc(
    out: *mut u8,
    last: &mut Deltas,
    ticks: u64,
    address: HostAddr,
    size: u64,
    stack: StackRef,
) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let size_code = log_code(size);
    // SAFETY: 1 + 8 + 8 + 8 + 10 bytes at most, and a store reaches at most 7 further.
    unsafe {
        out.write(kind::HOST_ALLOC | time_code << 2 | address_code << 4 | size_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        at = store(at, size, 1 << size_code);
        store_stack(at, last, stack)
    }
}

/// Every free, whatever its fields need.
///
/// # Safety
/// As for [`host_free`].
#[inline(never)]
unsafe fn any_host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: HostAddr, stack: StackRef) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let stack_code = if stack == StackRef::NONE { free_stack::NONE } else { free_stack::GIVEN };
    // SAFETY: as in `any_host_alloc`.
    unsafe {
        out.write(kind::HOST_FREE | time_code << 2 | address_code << 4 | stack_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        if stack_code == free_stack::GIVEN { store_stack(at, last, stack) } else { at }
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

/// The difference of two addresses in units of 16 bytes, small for neighbours on either side.
#[inline(always)]
fn zigzag(last: HostAddr, address: HostAddr) -> u64 {
    to_zigzag((address.0 >> 4).wrapping_sub(last.0 >> 4))
}

/// A difference as an unsigned number that is small for small differences of either sign.
#[inline(always)]
fn to_zigzag(difference: u64) -> u64 {
    let difference = difference as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Whether the address fits the two or three bytes of the usual event.
#[inline(always)]
fn is_near(zigzag: u64, address: HostAddr) -> bool {
    zigzag <= 0xff_ffff && address.0 & 15 == 0
}

fn address_field(last: &mut Deltas, address: HostAddr) -> (u8, u64) {
    let zigzag = zigzag(last.address, address);
    last.address = address;
    let code = u8::from(zigzag > 0xffff) + u8::from(zigzag > 0xff_ffff) + u8::from(zigzag > 0xffff_ffff);
    if address.0 & 15 != 0 || code == ADDRESS_ABSOLUTE { (ADDRESS_ABSOLUTE, address.0) } else { (code, zigzag) }
}

#[inline(always)]
fn address_length(code: u8) -> usize {
    2 + code as usize + if code == ADDRESS_ABSOLUTE { 3 } else { 0 }
}

/// The stack's number, and the one that follows it if the Python part changed.
#[inline(always)]
fn stack_fields(last: &mut Deltas, stack: StackRef) -> (u64, Option<u64>) {
    if stack == StackRef::NONE {
        return (stack_field::NO_STACK, None);
    }
    let c = difference(last.stack.c, stack.c) << 2;
    last.stack.c = stack.c;
    if stack.python == 0 {
        return (c | stack_field::NO_PYTHON, None);
    }
    if stack.python == last.stack.python {
        return (c | stack_field::SAME_PYTHON, None);
    }
    let python = difference(last.stack.python, stack.python);
    last.stack.python = stack.python;
    (c | stack_field::OTHER_PYTHON, Some(python))
}

/// From one node's number to another's.
#[inline(always)]
fn difference(from: u32, to: u32) -> u64 {
    to_zigzag(u64::from(to).wrapping_sub(u64::from(from)))
}

/// # Safety
/// `out` must be valid for writes of ten bytes.
#[inline(always)]
unsafe fn store_stack(out: *mut u8, last: &mut Deltas, stack: StackRef) -> *mut u8 {
    let (field, python) = stack_fields(last, stack);
    // SAFETY: the first number has 35 bits at most, the second 33: five bytes of seven bits each.
    unsafe {
        let out = varint(out, field);
        match python {
            Some(python) => varint(out, python),
            None => out,
        }
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
unsafe fn varint(mut out: *mut u8, mut value: u64) -> *mut u8 {
    // SAFETY: the caller's value has at most 35 bits: five bytes of seven bits.
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

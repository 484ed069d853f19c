//! Reading what is watched, piece by piece, into memory that was mapped for it.
use super::table::Place;
use super::{Memory, Unread};
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use memscope_format::record::{DevAddr, LogicalDevice};
use memscope_format::watch::{Checksum, PieceHeader};
use memscope_sys::{self as sys, Errno};

/// Bytes of a piece. Small enough to be in the cache when the checksum comes to it.
pub(super) const PIECE: usize = 256 << 10;
/// In front of the piece is room for its header.
const MAPPED: usize = (PIECE + PieceHeader::SIZE).next_multiple_of(4096);

/// Buffers that nobody uses now. Zeroed memory is none.
pub(super) struct Buffers([AtomicPtr<u8>; 8]);

pub(super) struct Buffer<'b> {
    memory: NonNull<u8>,
    home: &'b Buffers,
}

impl<'b> Buffer<'b> {
    pub(super) fn take(home: &'b Buffers) -> Option<Buffer<'b>> {
        for place in &home.0 {
            if let Some(memory) = NonNull::new(place.swap(ptr::null_mut(), Acquire)) {
                return Some(Buffer { memory, home });
            }
        }
        Some(Buffer { memory: sys::map_own(MAPPED).ok()?, home })
    }

    /// The bytes of a piece.
    pub(super) fn piece(&mut self, length: usize) -> &mut [u8] {
        // SAFETY: the buffer is the caller's alone and long enough.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr().add(PieceHeader::SIZE), length.min(PIECE)) }
    }

    /// Its header, right in front of it.
    pub(super) fn header(&mut self) -> &mut [u8; PieceHeader::SIZE] {
        // SAFETY: as above; the two do not overlap.
        unsafe { &mut *self.memory.as_ptr().cast() }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        for place in &self.home.0 {
            if place.compare_exchange(ptr::null_mut(), self.memory.as_ptr(), AcqRel, Relaxed).is_ok() {
                return;
            }
        }
        // SAFETY: nobody else knows it.
        unsafe { sys::unmap_own(self.memory, MAPPED) };
    }
}

pub(super) enum Read {
    Whole(u64),
    Not(Unread),
}

/// The checksum of what a block holds; of a small one the buffer has the bytes then.
pub(super) fn checksum(place: &Place, memory: &impl Memory, buffer: &mut Buffer<'_>) -> Read {
    let mut checksum = Checksum::new();
    let visit = &mut |_: u64, piece: &mut Buffer<'_>, length| {
        checksum.update(piece.piece(length));
        Ok(())
    };
    match each_piece(place, memory, buffer, visit) {
        Ok(()) => Read::Whole(checksum.value()),
        Err(why) => Read::Not(why),
    }
}

/// What is done with a piece: where in the block it is, the buffer that has it, its length.
type Visit<'v> = &'v mut dyn FnMut(u64, &mut Buffer<'_>, usize) -> Result<(), Unread>;

/// Reads a block piece by piece.
pub(super) fn each_piece(
    place: &Place,
    memory: &impl Memory,
    buffer: &mut Buffer<'_>,
    visit: Visit<'_>,
) -> Result<(), Unread> {
    let (device, address, size) = (place.device(), place.address(), place.size());
    let mut at = 0;
    while at < size {
        let length = (size - at).min(PIECE as u64) as usize;
        let from = DevAddr(address.0.checked_add(at).ok_or(Unread::NoMemory)?);
        match device {
            LogicalDevice::HOST => read_host(from, buffer.piece(length))?,
            device => memory.read(device, from, buffer.piece(length))?,
        }
        visit(at, buffer, length)?;
        at += length as u64;
    }
    Ok(())
}

/// An address that nothing is mapped at is an answer of the kernel and not a fault.
fn read_host(address: DevAddr, into: &mut [u8]) -> Result<(), Unread> {
    // SAFETY: there is room for as many bytes.
    let read = match unsafe { sys::read_own_memory(address.0 as usize, into.as_mut_ptr(), into.len()) } {
        // Some sandboxes and containers forbid it.
        Err(Errno::EPERM | Errno::ENOSYS | Errno::SANDBOX) => read_through_file(address, into),
        answer => answer,
    };
    if read == Ok(into.len()) { Ok(()) } else { Err(Unread::NoMemory) }
}

#[cold]
fn read_through_file(address: DevAddr, into: &mut [u8]) -> Result<usize, Errno> {
    let file = sys::open(c"/proc/self/mem", sys::O_RDONLY)?;
    let read = sys::read_at(file, into, address.0);
    sys::close(file);
    read
}

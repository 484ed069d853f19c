//! Virtual memory: address ranges and physical memory are separate things, joined by a mapping.
//!
//! Physical memory of a device is one sparse memory file; a handle is a piece of it. (A file per handle would run into the
//! limit of open files: frameworks take it in pieces of 2 MiB.)

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};

use sim_boundary::{Handle, In, Out};

use crate::address_space::{DEVICE_SPAN, RESERVE_BASE, RESERVE_SPAN, Ranges};
use crate::memory::{ALLOCATION_FAULT, device, device_count};
use crate::status::{INVALID_VALUE, NO_DEVICE, NOT_SUPPORTED, OK, OUT_OF_MEMORY, Status};

const HUGE_PAGE: usize = 2 << 20;
const GIANT_PAGE: usize = 1 << 30;

/// Properties of physical memory, as the driver's interface lays them out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    side: u32,
    device: u32,
    module: u32,
    page: u32,
    memory: u32,
    reserved: u64,
}

/// A piece of a device's physical memory.
pub struct Piece {
    device: u32,
    offset: usize,
    length: usize,
}

struct Store {
    file: c_int,
    pieces: Ranges,
}

struct Mapping {
    length: usize,
    device: u32,
}

struct Virtual {
    reservations: Ranges,
    mappings: BTreeMap<usize, Mapping>,
}

static STORES: LazyLock<Vec<Mutex<Store>>> = LazyLock::new(|| {
    (0..device_count())
        .map(|_| Mutex::new(Store { file: sparse_file(), pieces: Ranges::new(0, DEVICE_SPAN) }))
        .collect()
});
static VIRTUAL: Mutex<Virtual> =
    Mutex::new(Virtual { reservations: Ranges::new(RESERVE_BASE, RESERVE_SPAN), mappings: BTreeMap::new() });

fn sparse_file() -> c_int {
    // SAFETY: the name is a NUL-terminated literal.
    let file = unsafe { libc::memfd_create(c"simulated HBM".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: a plain system call on a number; a bad descriptor only makes it fail, and then mapping fails too.
    unsafe { libc::ftruncate(file, DEVICE_SPAN as libc::off_t) };
    file
}

fn create(handle: Out<Handle<Piece>>, size: usize, properties: In<Properties>) -> Status {
    let Some(properties) = properties.get() else { return INVALID_VALUE };
    // On the host side this is shareable host memory, which nothing we run asks for.
    if properties.side != 1 || size == 0 {
        return if size == 0 { INVALID_VALUE } else { NOT_SUPPORTED };
    }
    let page = if properties.page == 2 { GIANT_PAGE } else { HUGE_PAGE };
    if !size.is_multiple_of(page) {
        return INVALID_VALUE;
    }
    let Some(mut device) = device(properties.device) else { return NO_DEVICE };
    if ALLOCATION_FAULT.strikes() || !device.take(size as u64) {
        return OUT_OF_MEMORY;
    }
    let offset = STORES.get(properties.device as usize).and_then(|store| store.lock().ok()?.pieces.take(size, page));
    match offset {
        Some(offset) if handle.set(Handle::new(Piece { device: properties.device, offset, length: size })) => OK,
        _ => {
            device.give_back(size as u64);
            OUT_OF_MEMORY
        }
    }
}

fn release(handle: Handle<Piece>) -> Status {
    let Some(piece) = handle.destroy() else { return INVALID_VALUE };
    if let Some(mut device) = device(piece.device) {
        device.give_back(piece.length as u64);
    }
    let Some(Ok(mut store)) = STORES.get(piece.device as usize).map(|store| store.lock()) else { return NO_DEVICE };
    store.pieces.release(piece.offset);
    // SAFETY: a plain system call on our own file; the next owner of the piece reads zeros.
    unsafe {
        libc::fallocate(
            store.file,
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            piece.offset as libc::off_t,
            piece.length as libc::off_t,
        )
    };
    OK
}

/// Replaces whatever is mapped in part of a reservation.
fn remap(address: usize, length: usize, protection: c_int, flags: c_int, file: c_int, offset: usize) -> bool {
    // SAFETY: callers have checked that the range lies in a reservation made by `halMemAddressReserve`, so only our own
    // mapping is replaced.
    let mapped = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            length,
            protection,
            flags | libc::MAP_NORESERVE,
            file,
            offset as libc::off_t,
        )
    };
    mapped as usize == address
}

const NOTHING_THERE: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Takes address space, at a place of the driver's choice.
#[unsafe(no_mangle)]
pub extern "C" fn halMemAddressReserve(
    address: Out<usize>,
    size: usize,
    alignment: usize,
    _wanted: usize,
    _flag: u64,
) -> Status {
    let Ok(mut space) = VIRTUAL.lock() else { return INVALID_VALUE };
    let alignment = alignment.next_power_of_two().max(HUGE_PAGE);
    let Some(start) = space.reservations.take(size.next_multiple_of(HUGE_PAGE), alignment) else {
        return OUT_OF_MEMORY;
    };
    let flags = NOTHING_THERE | libc::MAP_FIXED_NOREPLACE;
    if remap(start, size, libc::PROT_NONE, flags, -1, 0) && address.set(start) {
        OK
    } else {
        space.reservations.release(start);
        OUT_OF_MEMORY
    }
}

/// Gives address space back.
#[unsafe(no_mangle)]
pub extern "C" fn halMemAddressFree(address: usize) -> Status {
    let Ok(mut space) = VIRTUAL.lock() else { return INVALID_VALUE };
    let Some(length) = space.reservations.release(address) else { return INVALID_VALUE };
    space.mappings.retain(|start, _| !(address..address + length).contains(start));
    // SAFETY: the whole range was mapped by `halMemAddressReserve` and is no longer given out.
    unsafe { libc::munmap(address as *mut libc::c_void, length) };
    OK
}

/// Joins physical memory to reserved addresses.
#[unsafe(no_mangle)]
pub extern "C" fn halMemMap(address: usize, size: usize, offset: usize, handle: Handle<Piece>, _flag: u64) -> Status {
    let Some(piece) = handle.get() else { return INVALID_VALUE };
    let Ok(mut space) = VIRTUAL.lock() else { return INVALID_VALUE };
    let reserved =
        space.reservations.containing(address).is_some_and(|(start, length)| address + size <= start + length);
    if !reserved || offset + size > piece.length {
        return INVALID_VALUE;
    }
    let Some(Ok(store)) = STORES.get(piece.device as usize).map(|store| store.lock()) else { return NO_DEVICE };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    if !remap(address, size, protection, libc::MAP_SHARED | libc::MAP_FIXED, store.file, piece.offset + offset) {
        return OUT_OF_MEMORY;
    }
    space.mappings.insert(address, Mapping { length: size, device: piece.device });
    OK
}

/// Parts physical memory from its addresses; both stay.
#[unsafe(no_mangle)]
pub extern "C" fn halMemUnmap(address: usize) -> Status {
    let Ok(mut space) = VIRTUAL.lock() else { return INVALID_VALUE };
    let Some(mapping) = space.mappings.remove(&address) else { return INVALID_VALUE };
    let gone = remap(address, mapping.length, libc::PROT_NONE, NOTHING_THERE | libc::MAP_FIXED, -1, 0);
    if gone { OK } else { INVALID_VALUE }
}

/// See `simHalExamine`.
pub(crate) fn examine(address: usize, size: u64, owner: Out<i32>) -> i32 {
    let Ok(space) = VIRTUAL.lock() else { return 0 };
    if !space.reservations.spans(address) {
        return 0;
    }
    // A copy may cross from one mapping into the next.
    let end = address as u64 + size;
    let mut reached = address as u64;
    let first = space.mappings.range(..=address).next_back().map_or(address, |(&start, _)| start);
    for (&start, mapping) in space.mappings.range(first..) {
        if start as u64 > reached {
            break;
        }
        reached = reached.max((start + mapping.length) as u64);
        owner.set(mapping.device as i32);
        if reached >= end {
            return 1;
        }
    }
    2
}

/// Takes physical memory of a device.
#[unsafe(no_mangle)]
pub extern "C" fn halMemCreate(
    handle: Out<Handle<Piece>>,
    size: usize,
    properties: In<Properties>,
    _flag: u64,
) -> Status {
    create(handle, size, properties)
}

/// Gives physical memory back.
#[unsafe(no_mangle)]
pub extern "C" fn halMemRelease(handle: Handle<Piece>) -> Status {
    release(handle)
}

/// See `halMemAllocInner`.
#[cfg(feature = "inner")]
#[unsafe(no_mangle)]
pub extern "C" fn halMemCreateInner(
    handle: Out<Handle<Piece>>,
    size: usize,
    properties: In<Properties>,
    _flag: u64,
) -> Status {
    create(handle, size, properties)
}

/// See `halMemAllocInner`.
#[cfg(feature = "inner")]
#[unsafe(no_mangle)]
pub extern "C" fn halMemReleaseInner(handle: Handle<Piece>) -> Status {
    release(handle)
}

/// The smallest and the recommended unit of physical memory.
#[unsafe(no_mangle)]
pub extern "C" fn halMemGetAllocationGranularity(
    _properties: In<Properties>,
    _option: u32,
    unit: Out<usize>,
) -> Status {
    if unit.set(HUGE_PAGE) { OK } else { INVALID_VALUE }
}

/// Locks host memory for the device; host memory is device memory here, so only the range is checked.
#[unsafe(no_mangle)]
pub extern "C" fn halHostRegister(host: usize, size: u64, _flag: u32, _device: u32, seen: Out<usize>) -> Status {
    if host == 0 || size == 0 {
        return INVALID_VALUE;
    }
    seen.set(host);
    OK
}

/// Undoes [`halHostRegister`].
#[unsafe(no_mangle)]
pub extern "C" fn halHostUnregister(host: usize, _device: u32) -> Status {
    if host == 0 { INVALID_VALUE } else { OK }
}

//! Memory and copies.

use sim_boundary::{Fault, Handle, Out, settings};

use crate::context::current_device;
use crate::driver::{
    gettid, halHostRegister, halHostUnregister, halMemAlloc, halMemFree, simHalExamine, simHalMemoryInfo,
};
use crate::queue;
use crate::status::{DRIVER_ERROR, INVALID_PARAMETER, OK, Status, of_driver, written};
use crate::stream::Stream;
use crate::task;

const SIDE_DEVICE: u64 = 1 << 10;
const SIDE_HOST: u64 = 2 << 10;
const HBM: u64 = 1 << 14;
const HUGE_PAGES: u64 = 1 << 17;

/// Kinds of memory, as bits: where pages should be huge.
const HUGE_PAGES_FIRST: u32 = 0x400;
const HUGE_PAGES_ONLY: u32 = 0x800;
/// From this size on, "huge pages first" gets them.
const WORTH_HUGE_PAGES: u64 = 1 << 20;

static COPY_FAULT: Fault = Fault::new("MEMCPY");

fn flag_word(module: u16, device: u32, bits: u64) -> u64 {
    u64::from(module) << 56 | bits | u64::from(device)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMalloc(address: Out<usize>, size: u64, kind: u32, module: u16) -> Status {
    let device = match current_device() {
        Ok(device) => device,
        Err(status) => return status,
    };
    let huge = kind & HUGE_PAGES_ONLY != 0 || kind & HUGE_PAGES_FIRST != 0 && size > WORTH_HUGE_PAGES;
    let pages = if huge { HUGE_PAGES } else { 0 };
    of_driver(halMemAlloc(address.pointer(), size, flag_word(module, device, SIDE_DEVICE | HBM | pages)))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtFree(address: usize) -> Status {
    queue::wait_for_all();
    of_driver(halMemFree(address))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMallocHost(address: Out<usize>, size: u64, module: u16) -> Status {
    let device = current_device().unwrap_or(0);
    of_driver(halMemAlloc(address.pointer(), size, flag_word(module, device, SIDE_HOST)))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtFreeHost(address: usize) -> Status {
    queue::wait_for_all();
    of_driver(halMemFree(address))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtHostRegister(host: usize, size: u64, flag: u32, seen: Out<usize>) -> Status {
    of_driver(halHostRegister(host, size, flag, current_device().unwrap_or(0), seen.pointer()))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtHostUnregister(host: usize) -> Status {
    of_driver(halHostUnregister(host, current_device().unwrap_or(0)))
}

/// Free and total bytes of the thread's device.
#[unsafe(no_mangle)]
pub extern "C" fn rtMemGetInfoEx(_kind: u32, free: Out<usize>, total: Out<usize>) -> Status {
    let device = match current_device() {
        Ok(device) => device,
        Err(status) => return status,
    };
    let (mut used, mut capacity) = (0, 0);
    let result = simHalMemoryInfo(device, &mut used, &mut capacity);
    if result != 0 {
        return of_driver(result);
    }
    let taken = used + settings::HBM_OTHER_BYTES.get();
    written(free.set(capacity.saturating_sub(taken) as usize) && total.set(capacity as usize))
}

/// Whether `size` bytes at `address` are there, as far as addresses of ours are concerned.
fn accessible(address: usize, size: u64) -> bool {
    let mut owner = 0;
    address != 0 && simHalExamine(address, size, &mut owner) != 2
}

/// Whether there are `size` bytes of a device's, or pinned, memory.
fn of_device(address: usize, size: u64) -> bool {
    let mut owner = 0;
    simHalExamine(address, size, &mut owner) == 1
}

fn may_copy(to: usize, capacity: u64, from: usize, size: u64) -> Status {
    if size == 0 {
        return OK;
    }
    if size > capacity || !accessible(to, size) || !accessible(from, size) {
        return INVALID_PARAMETER;
    }
    if COPY_FAULT.strikes() {
        return DRIVER_ERROR;
    }
    OK
}

/// After [`may_copy`].
fn copy(to: usize, from: usize, size: u64) {
    if size != 0 {
        // SAFETY: addresses of the simulated memories were found to be live for `size` bytes, and memory is not freed before what
        // waits in streams is done; for any other address the program promises it. The two may overlap.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size as usize) };
    }
}

fn may_fill(address: usize, capacity: u64, size: u64) -> Status {
    if size > capacity || !accessible(address, size) { INVALID_PARAMETER } else { OK }
}

/// After [`may_fill`].
fn fill(address: usize, value: u8, size: u64) {
    // SAFETY: as for `copy`.
    unsafe { std::ptr::write_bytes(address as *mut u8, value, size as usize) };
}

/// What does not go through a stream waits for none; the program must have.
fn at_once(admitted: impl FnOnce() -> Status, work: impl FnOnce()) -> Status {
    let status = match queue::admit_synchronous(gettid() as u32) {
        OK => admitted(),
        forbidden => forbidden,
    };
    if status == OK {
        work();
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMemcpy(to: usize, capacity: u64, from: usize, size: u64, kind: u32) -> Status {
    const DEVICE_TO_HOST: u32 = 2;
    // As the driver, which knows its own addresses.
    if kind == DEVICE_TO_HOST && size != 0 && !of_device(from, size) {
        return INVALID_PARAMETER;
    }
    at_once(|| may_copy(to, capacity, from, size), || copy(to, from, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMemcpyAsync(
    to: usize,
    capacity: u64,
    from: usize,
    size: u64,
    _kind: u32,
    stream: Handle<Stream>,
) -> Status {
    task::run(stream, task::Kind::Copy, None, || may_copy(to, capacity, from, size), move || copy(to, from, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMemset(address: usize, capacity: u64, value: u32, size: u64) -> Status {
    at_once(|| may_fill(address, capacity, size), || fill(address, value as u8, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMemsetAsync(
    address: usize,
    capacity: u64,
    value: u32,
    size: u64,
    stream: Handle<Stream>,
) -> Status {
    task::run(
        stream,
        task::Kind::Copy,
        None,
        || may_fill(address, capacity, size),
        move || fill(address, value as u8, size),
    )
}

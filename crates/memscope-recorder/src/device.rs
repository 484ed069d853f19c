//! Events of devices, pools and tools: rarer than malloc, each an extended record.
use crate::config;
use crate::lane::{Entry, record};
use crate::process;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use memscope_format::encode::Extended;
pub use memscope_format::record::{HOST_DEVICE, Space, SystemKind, UNKNOWN_DEVICE};

/// Most devices of a machine whose totals are remembered.
const DEVICES: usize = 64;

/// What a process has told of its devices. In the process's memory, so that a forked child finds zeroes: its recording knows
/// nothing yet.
pub(crate) struct Devices {
    visible_are_noted: AtomicBool,
    /// One more than the last total of each pool on each device; 0 if it said nothing yet.
    totals: [[AtomicU64; DEVICES]; Space::ALL.len()],
}

impl Devices {
    fn total(space: Space, device: u32) -> Option<&'static AtomicU64> {
        process::current()?.devices.totals.get(space as usize)?.get(device as usize)
    }
}

/// A block of device memory, as its hook knows it.
#[derive(Clone, Copy)]
pub struct DeviceBlock {
    pub space: Space,
    pub device: u32,
    pub address: u64,
    pub size: u64,
    /// For driver memory: module in the low 8 bits, page type in the next two.
    pub attributes: u32,
}

/// Device memory was handed out.
///
/// # Safety
/// Called on the thread, and below the frame, that `entry` describes, with the guard held.
pub unsafe fn device_alloc(block: DeviceBlock, entry: Entry) {
    note_visible_devices();
    let DeviceBlock { space, device, address, size, attributes } = block;
    // SAFETY: passed on.
    unsafe {
        record(entry, 1, |lane, ticks, stack| {
            let record = Extended::DeviceAlloc { space, device, address, size, attributes, stack };
            lane.writer.extended_event(ticks, &record);
        });
    }
}

/// Device memory was given back by a call that began at `began` ([`crate::ticks_now`]).
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn device_free(space: Space, address: u64, began: u64, entry: Entry) {
    // SAFETY: passed on.
    unsafe {
        record(entry, 1, |lane, _, stack| {
            lane.writer.extended_event(began, &Extended::DeviceFree { space, address, stack });
        });
    }
}

/// A pool says what it has reserved; only a change is recorded.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn pool_total(space: Space, device: u32, total: u64) {
    // Pools report under a lock of their own, so two threads cannot pass each other here. Looked at before it is written:
    // a total seldom changes, and a store would take the cache line from the other threads.
    if Devices::total(space, device).is_some_and(|known| known.load(Relaxed) == total.wrapping_add(1)) {
        return;
    }
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| {
            lane.writer.extended_event(ticks, &Extended::PoolTotal { space, device, total });
            if let Some(known) = Devices::total(space, device) {
                known.store(total.wrapping_add(1), Relaxed);
            }
        });
    }
}

/// A pool that tells each of its heaps took one.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn heap(space: Space, device: u32, address: u64, size: u64) {
    note_visible_devices();
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| {
            lane.writer.extended_event(ticks, &Extended::Heap { space, device, address, size });
        });
    }
}

/// It gave the heap at `address` up.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn heap_end(space: Space, address: u64) {
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| {
            lane.writer.extended_event(ticks, &Extended::HeapEnd { space, address });
        });
    }
}

/// The driver had no memory left.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn out_of_memory(space: Space, device: u32, size: u64, flag: u64, entry: Entry) {
    // SAFETY: passed on.
    unsafe {
        record(entry, 1, |lane, ticks, stack| {
            let record = Extended::OutOfMemory { space, device, size, flag, stack };
            lane.writer.extended_event(ticks, &record);
        });
    }
}

/// Something happened to the process as a whole.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn system(kind: SystemKind, value: u64) {
    if kind == SystemKind::SetDevice {
        note_visible_devices();
    }
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| {
            lane.writer.extended_event(ticks, &Extended::System { kind, value });
        });
    }
}

/// The program marked a moment.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn mark(text: &[u8]) {
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| lane.writer.extended_event(ticks, &Extended::Mark { text }));
    }
}

/// The program began a range; `id` is the process's own count.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn range_start(id: u64, text: &[u8]) {
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| {
            lane.writer.extended_event(ticks, &Extended::RangeStart { id, text });
        });
    }
}

/// # Safety
/// As for [`device_alloc`].
pub unsafe fn range_end(id: u64) {
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| lane.writer.extended_event(ticks, &Extended::RangeEnd { id }));
    }
}

/// The program asks what the memory of a device is now; `None` means the device its thread uses.
///
/// # Safety
/// As for [`device_alloc`].
pub unsafe fn snapshot(device: Option<u32>, name: &[u8]) {
    note_visible_devices();
    let device = device.unwrap_or(UNKNOWN_DEVICE);
    // SAFETY: passed on.
    unsafe {
        record(Entry::NO_STACK, 1, |lane, ticks, _| {
            lane.writer.extended_event(ticks, &Extended::Snapshot { device, name });
        });
    }
}

/// Which devices the process was given, once, as the variable stands when it first uses a device: programs set it after
/// their start.
pub(crate) fn note_visible_devices() {
    let is_noted = || process::current().is_some_and(|process| process.devices.visible_are_noted.load(Relaxed));
    // Every event looks, so only the first may write.
    if is_noted() {
        return;
    }
    // SAFETY: the caller of the first event holds the guard.
    unsafe {
        record(Entry::NO_STACK, 0, |lane, ticks, _| {
            let Some(process) = process::current() else { return };
            if process.devices.visible_are_noted.swap(true, Relaxed) {
                return;
            }
            if let Some(text) = config::variable(b"ASCEND_RT_VISIBLE_DEVICES=") {
                lane.writer.definition(ticks, &Extended::VisibleDevices { text });
            }
        });
    }
}

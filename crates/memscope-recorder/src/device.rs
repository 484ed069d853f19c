//! Events of devices, pools and tools: rarer than malloc, each an extended record.
use crate::config;
use crate::lane::record;
use crate::process;
use crate::slot::Guard;
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
pub fn device_alloc(guard: &Guard<'_>, block: DeviceBlock) {
    note_visible_devices(guard);
    let DeviceBlock { space, device, address, size, attributes } = block;
    record(guard.entry(), 1, |lane, ticks, stack| {
        let record = Extended::DeviceAlloc { space, device, address, size, attributes, stack };
        lane.writer.extended_event(ticks, &record);
    });
}

/// Device memory was given back by a call that began at `began` ([`crate::ticks_now`]).
pub fn device_free(guard: &Guard<'_>, space: Space, address: u64, began: u64) {
    record(guard.entry(), 1, |lane, _, stack| {
        lane.writer.extended_event(began, &Extended::DeviceFree { space, address, stack });
    });
}

/// A pool says what it has reserved; only a change is recorded.
pub fn pool_total(guard: &Guard<'_>, space: Space, device: u32, total: u64) {
    // Pools report under a lock of their own, so two threads cannot pass each other here. Looked at before it is written:
    // a total seldom changes, and a store would take the cache line from the other threads.
    if Devices::total(space, device).is_some_and(|known| known.load(Relaxed) == total.wrapping_add(1)) {
        return;
    }
    record(guard.no_stack(), 1, |lane, ticks, _| {
        lane.writer.extended_event(ticks, &Extended::PoolTotal { space, device, total });
        if let Some(known) = Devices::total(space, device) {
            known.store(total.wrapping_add(1), Relaxed);
        }
    });
}

/// A pool that tells each of its heaps took one.
pub fn heap(guard: &Guard<'_>, space: Space, device: u32, address: u64, size: u64) {
    note_visible_devices(guard);
    record(guard.no_stack(), 1, |lane, ticks, _| {
        lane.writer.extended_event(ticks, &Extended::Heap { space, device, address, size });
    });
}

/// It gave the heap at `address` up.
pub fn heap_end(guard: &Guard<'_>, space: Space, address: u64) {
    record(guard.no_stack(), 1, |lane, ticks, _| {
        lane.writer.extended_event(ticks, &Extended::HeapEnd { space, address });
    });
}

/// The driver had no memory left.
pub fn out_of_memory(guard: &Guard<'_>, space: Space, device: u32, size: u64, flag: u64) {
    record(guard.entry(), 1, |lane, ticks, stack| {
        let record = Extended::OutOfMemory { space, device, size, flag, stack };
        lane.writer.extended_event(ticks, &record);
    });
}

/// Something happened to the process as a whole.
pub fn system(guard: &Guard<'_>, kind: SystemKind, value: u64) {
    if kind == SystemKind::SetDevice {
        note_visible_devices(guard);
    }
    record(guard.no_stack(), 1, |lane, ticks, _| {
        lane.writer.extended_event(ticks, &Extended::System { kind, value });
    });
}

/// The program marked a moment.
pub fn mark(guard: &Guard<'_>, text: &[u8]) {
    record(guard.no_stack(), 1, |lane, ticks, _| lane.writer.extended_event(ticks, &Extended::Mark { text }));
}

/// The program began a range; `id` is the process's own count.
pub fn range_start(guard: &Guard<'_>, id: u64, text: &[u8]) {
    record(guard.no_stack(), 1, |lane, ticks, _| {
        lane.writer.extended_event(ticks, &Extended::RangeStart { id, text });
    });
}

pub fn range_end(guard: &Guard<'_>, id: u64) {
    record(guard.no_stack(), 1, |lane, ticks, _| lane.writer.extended_event(ticks, &Extended::RangeEnd { id }));
}

/// The program asks what the memory of a device is now; `None` means the device its thread uses.
pub fn snapshot(guard: &Guard<'_>, device: Option<u32>, name: &[u8]) {
    note_visible_devices(guard);
    let device = device.unwrap_or(UNKNOWN_DEVICE);
    record(guard.no_stack(), 1, |lane, ticks, _| {
        lane.writer.extended_event(ticks, &Extended::Snapshot { device, name });
    });
}

/// Which devices the process was given, once, as the variable stands when it first uses a device: programs set it after
/// their start.
pub(crate) fn note_visible_devices(guard: &Guard<'_>) {
    let is_noted = || process::current().is_some_and(|process| process.devices.visible_are_noted.load(Relaxed));
    // Every event looks, so only the first may write.
    if is_noted() {
        return;
    }
    record(guard.no_stack(), 0, |lane, ticks, _| {
        let Some(process) = process::current() else { return };
        if process.devices.visible_are_noted.swap(true, Relaxed) {
            return;
        }
        if let Some(text) = config::variable(b"ASCEND_RT_VISIBLE_DEVICES=") {
            lane.writer.definition(ticks, &Extended::VisibleDevices(text));
        }
    });
}

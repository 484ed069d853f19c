//! Events of devices and pools, and what the process must remember to tell them. Those of which it need not are written by their hooks.
use crate::config;
use crate::lane::{event, event_with_stack, record};
use crate::process;
use crate::slot::Guard;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use memscope_format::encode::Extended;
pub use memscope_format::record::{DevAddr, LogicalDevice, PhysicalDevice, Space, SpaceAddr, SpaceDevice, SystemKind};

/// Most devices of a machine whose totals are remembered.
const DEVICES: usize = 64;

/// What a process has told of its devices. In the process's memory, so that a forked child finds zeroes: its recording knows
/// nothing yet.
pub(crate) struct Devices {
    visible_are_noted: AtomicBool,
    /// One more than the last total of each pool on each device; 0 if it said nothing yet.
    totals: [[AtomicU64; DEVICES]; Space::ALL.len()],
    /// The devices on which torch's pool has said something, a bit each.
    of_torch: AtomicU64,
}

impl Devices {
    fn total(space: Space, device: SpaceDevice) -> Option<&'static AtomicU64> {
        process::current()?.devices.totals.get(space as usize)?.get(device.0 as usize)
    }
}

/// A block of device memory, as its hook knows it.
#[derive(Clone, Copy)]
pub struct DeviceBlock {
    pub space: Space,
    pub device: SpaceDevice,
    pub address: SpaceAddr,
    pub size: u64,
    /// For driver memory: module in the low 8 bits, page type in the next two.
    pub attributes: u32,
}

/// Device memory was handed out.
pub fn device_alloc(guard: &Guard<'_>, block: DeviceBlock) {
    note_visible_devices(guard);
    let DeviceBlock { space, device, address, size, attributes } = block;
    event_with_stack(guard, |stack| Extended::DeviceAlloc { space, device, address, size, attributes, stack });
}

/// Device memory was given back by a call that began at `began` ([`crate::ticks_now`]).
pub fn device_free(guard: &Guard<'_>, space: Space, address: SpaceAddr, began: u64) {
    crate::watch::freed(guard, address.0);
    record(guard.entry(), 1, |lane, _, stack| {
        lane.writer.extended_event(began, &Extended::DeviceFree { space, address, stack });
    });
}

/// A pool says what it has reserved; only a change is recorded.
pub fn pool_total(guard: &Guard<'_>, space: Space, device: SpaceDevice, total: u64) {
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
    if let (Space::PtaCaching, 0..u64::BITS, Some(process)) = (space, device.0, process::current()) {
        process.devices.of_torch.fetch_or(1 << device.0, Relaxed);
    }
}

/// The devices on which torch's pool has memory, a bit each, as the program numbers them: those that torch is set up for in this very
/// process, and not in the one it was forked from.
#[inline(always)]
pub fn devices_of_torch() -> u64 {
    process::current().map_or(0, |process| process.devices.of_torch.load(Relaxed))
}

/// A pool that tells each of its heaps took one.
pub fn heap(guard: &Guard<'_>, space: Space, device: SpaceDevice, address: DevAddr, size: u64) {
    note_visible_devices(guard);
    event(guard, &Extended::Heap { space, device, address, size });
}

/// Something happened to the process as a whole.
pub fn system(guard: &Guard<'_>, kind: SystemKind, value: u64) {
    if kind == SystemKind::SetDevice {
        note_visible_devices(guard);
    }
    event(guard, &Extended::System { kind, value });
}

/// The program asks what the memory of a device is now; `None` means the device its thread uses.
pub fn snapshot(guard: &Guard<'_>, device: Option<LogicalDevice>, name: &[u8]) {
    note_visible_devices(guard);
    let device = device.unwrap_or(LogicalDevice::UNKNOWN);
    event(guard, &Extended::Snapshot { device, name });
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
            lane.writer.definition(ticks, &Extended::VisibleDevices { text });
        }
    });
}

//! `halMemAlloc` and `halMemFree`: device and pinned host memory, and how much of each device is taken.

use std::sync::LazyLock;
use std::sync::Mutex;

use sim_boundary::{Fault, Out, board, settings};

use crate::address_space::{DEVICE_BASE, DEVICE_SPAN, HOST_BASE, MOST_DEVICES, Ranges};
use crate::physical;
use crate::status::{INVALID_VALUE, NO_DEVICE, OK, OUT_OF_MEMORY, Status};

const PAGE: usize = 4 << 10;
const HUGE_PAGE: usize = 2 << 20;
const GIANT_PAGE: usize = 1 << 30;

pub(crate) static ALLOCATION_FAULT: Fault = Fault::new("ALLOC");

/// The flag word of `halMemAlloc`:
///
/// ```text
/// 63     56        31          17        13..10       9..0
/// | module | … | giant page | huge page | side … | device |
/// ```
#[derive(Clone, Copy)]
struct Flag(u64);

#[derive(PartialEq, Eq)]
enum Side {
    Shared,
    Device,
    Host,
    Dvpp,
}

impl Flag {
    fn device(self) -> u32 {
        (self.0 & 0x3ff) as u32
    }

    fn side(self) -> Option<Side> {
        match self.0 >> 10 & 0xf {
            0 => Some(Side::Shared),
            1 => Some(Side::Device),
            2 => Some(Side::Host),
            3 => Some(Side::Dvpp),
            _ => None,
        }
    }

    fn page(self) -> usize {
        if self.0 & 1 << 31 != 0 {
            GIANT_PAGE
        } else if self.0 & 1 << 17 != 0 {
            HUGE_PAGE
        } else {
            PAGE
        }
    }
}

/// Memory of one device.
pub(crate) struct Device {
    id: u32,
    blocks: Ranges,
    used: u64,
}

impl Device {
    /// Counts `size` bytes as taken, if they are there.
    pub(crate) fn take(&mut self, size: u64) -> bool {
        let wanted = self.used + settings::HBM_OTHER_BYTES.get() + size;
        let fits = wanted <= settings::HBM_BYTES.get();
        if fits {
            self.used += size;
            board::publish(self.id, self.used);
        }
        fits
    }

    pub(crate) fn give_back(&mut self, size: u64) {
        self.used = self.used.saturating_sub(size);
        board::publish(self.id, self.used);
    }
}

pub(crate) static DEVICES: LazyLock<Vec<Mutex<Device>>> = LazyLock::new(|| {
    (0..device_count())
        .map(|device| Mutex::new(Device { id: device, blocks: Ranges::new(device_base(device), DEVICE_SPAN), used: 0 }))
        .collect()
});
static HOST: Mutex<Ranges> = Mutex::new(Ranges::new(HOST_BASE, DEVICE_SPAN));

pub(crate) fn device_count() -> u32 {
    settings::DEVICE_COUNT.get().min(MOST_DEVICES) as u32
}

fn device_base(device: u32) -> usize {
    DEVICE_BASE + device as usize * DEVICE_SPAN
}

pub(crate) fn device(id: u32) -> Option<std::sync::MutexGuard<'static, Device>> {
    // A poisoned lock cannot be: a panic aborts the process.
    DEVICES.get(id as usize).and_then(|device| device.lock().ok())
}

fn allocate(address: Out<usize>, size: u64, flag: Flag) -> Status {
    let Some(side) = flag.side() else { return INVALID_VALUE };
    if size == 0 {
        return INVALID_VALUE;
    }
    let page = flag.page();
    let length = (size as usize).next_multiple_of(page);
    if side == Side::Host {
        let Ok(mut host) = HOST.lock() else { return OUT_OF_MEMORY };
        let Some(start) = host.take(length, PAGE) else { return OUT_OF_MEMORY };
        return if map(start, length) && address.set(start) { OK } else { OUT_OF_MEMORY };
    }
    let Some(mut device) = device(flag.device()) else { return NO_DEVICE };
    if ALLOCATION_FAULT.strikes() || !device.take(length as u64) {
        return OUT_OF_MEMORY;
    }
    let Some(start) = device.blocks.take(length, page) else {
        device.give_back(length as u64);
        return OUT_OF_MEMORY;
    };
    if !map(start, length) {
        device.blocks.release(start);
        device.give_back(length as u64);
        return OUT_OF_MEMORY;
    }
    if address.set(start) { OK } else { INVALID_VALUE }
}

fn free(address: usize) -> Status {
    if (HOST_BASE..HOST_BASE + DEVICE_SPAN).contains(&address) {
        let released = HOST.lock().ok().and_then(|mut host| host.release(address));
        return released.map_or(INVALID_VALUE, |length| unmap(address, length));
    }
    // The address says whose it is: threads that use different devices do not wait for each other.
    let owner = address.checked_sub(DEVICE_BASE).and_then(|offset| u32::try_from(offset / DEVICE_SPAN).ok());
    let Some(mut device) = owner.and_then(device) else { return INVALID_VALUE };
    let Some(length) = device.blocks.release(address) else { return INVALID_VALUE };
    device.give_back(length as u64);
    unmap(address, length)
}

/// Fresh zeroed pages at exactly `start`. Pages are only taken from the machine when touched, so that a simulated device may
/// be larger than the memory there is.
fn map(start: usize, length: usize) -> bool {
    if settings::MAP_MEMORY.get() == 0 {
        return true;
    }
    // SAFETY: the range was just taken from one of our own spans, and MAP_FIXED_NOREPLACE refuses to replace a mapping of
    // anybody else.
    let mapped = unsafe {
        libc::mmap(
            start as *mut libc::c_void,
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    mapped as usize == start
}

fn unmap(start: usize, length: usize) -> Status {
    if settings::MAP_MEMORY.get() == 0 {
        return OK;
    }
    // SAFETY: the range was given out by `map` and has been removed from the table of live blocks.
    let result = unsafe { libc::munmap(start as *mut libc::c_void, length) };
    if result == 0 { OK } else { INVALID_VALUE }
}

/// The interface most callers use.
#[unsafe(no_mangle)]
pub extern "C" fn halMemAlloc(address: Out<usize>, size: u64, flag: u64) -> Status {
    allocate(address, size, Flag(flag))
}

/// See [`halMemAlloc`].
#[unsafe(no_mangle)]
pub extern "C" fn halMemFree(address: usize) -> Status {
    free(address)
}

/// The same again under the name by which a tool that replaces `halMemAlloc` reaches the driver. Drivers differ in whether
/// they have it.
#[cfg(feature = "inner")]
#[unsafe(no_mangle)]
pub extern "C" fn halMemAllocInner(address: Out<usize>, size: u64, flag: u64) -> Status {
    allocate(address, size, Flag(flag))
}

/// See [`halMemAllocInner`].
#[cfg(feature = "inner")]
#[unsafe(no_mangle)]
pub extern "C" fn halMemFreeInner(address: usize) -> Status {
    free(address)
}

/// Private to the simulator: bytes taken on a device by this process, and its capacity.
#[unsafe(no_mangle)]
pub extern "C" fn simHalMemoryInfo(id: u32, used: Out<u64>, capacity: Out<u64>) -> Status {
    let Some(device) = device(id) else { return NO_DEVICE };
    used.set(device.used);
    capacity.set(settings::HBM_BYTES.get());
    OK
}

/// Private to the simulator: what lies at an address. 0 foreign (ordinary host memory), 1 a live block of ours that holds all
/// of `size` bytes, 2 one of our ranges but no live block there.
#[unsafe(no_mangle)]
pub extern "C" fn simHalExamine(address: usize, size: u64, owner: Out<i32>) -> i32 {
    let holds = |(start, length): (usize, usize)| address as u64 + size <= (start + length) as u64;
    for (id, device) in DEVICES.iter().enumerate() {
        let Ok(device) = device.lock() else { continue };
        if device.blocks.spans(address) {
            owner.set(id as i32);
            return if device.blocks.containing(address).is_some_and(holds) { 1 } else { 2 };
        }
    }
    if let Ok(host) = HOST.lock()
        && host.spans(address)
    {
        owner.set(-1);
        return if host.containing(address).is_some_and(holds) { 1 } else { 2 };
    }
    physical::examine(address, size, owner)
}

/// Number of devices.
#[unsafe(no_mangle)]
pub extern "C" fn drvGetDevNum(count: Out<u32>) -> Status {
    if count.set(device_count()) { OK } else { INVALID_VALUE }
}

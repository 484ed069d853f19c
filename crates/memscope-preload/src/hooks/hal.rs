//! The driver: device memory by address and by handle.
use super::{halMemAlloc, halMemCreate, halMemFree, halMemRelease};
use crate::kernel_times;
use crate::recording::{recording, ticks_now};
use core::ffi::{c_int, c_void};
use memscope_hook::Entry;
use memscope_recorder::device::{self, DeviceBlock, Space, SpaceAddr, SpaceDevice};
use memscope_recorder::{Extended, event_with_stack};

const SUCCESS: c_int = 0;
const OUT_OF_MEMORY: c_int = 6;

pub(super) unsafe extern "C" fn allocate(address: *mut *mut c_void, size: u64, flag: u64, entry: Entry) -> c_int {
    // Often the first we see of a framework that begins without `aclInit`.
    kernel_times::offer();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { halMemAlloc::call(address, size, flag) };
    let Flag { device, attributes } = Flag::decode(flag);
    match answer {
        SUCCESS if !address.is_null() => recording(entry, |guard| {
            // SAFETY: the driver stored the block's address there.
            let address = SpaceAddr(unsafe { *address } as u64);
            device::device_alloc(guard, DeviceBlock { space: Space::Driver, device, address, size, attributes });
        }),
        OUT_OF_MEMORY => recording(entry, |guard| {
            let space = Space::Driver;
            event_with_stack(guard, |stack| Extended::OutOfMemory { space, device, size, flag, stack });
        }),
        _ => {}
    }
    answer
}

pub(super) unsafe extern "C" fn free(address: *mut c_void, entry: Entry) -> c_int {
    let began = ticks_now();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { halMemFree::call(address) };
    if answer == SUCCESS && !address.is_null() {
        recording(entry, |guard| device::device_free(guard, Space::Driver, SpaceAddr(address as u64), began));
    }
    answer
}

pub(super) unsafe extern "C" fn create(
    handle: *mut *mut c_void,
    size: usize,
    properties: *const Properties,
    flag: u64,
    entry: Entry,
) -> c_int {
    kernel_times::offer();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { halMemCreate::call(handle, size, properties, flag) };
    if !matches!(answer, SUCCESS | OUT_OF_MEMORY) {
        return answer;
    }
    // SAFETY: the caller's pointers are valid for the driver, which has just used them.
    let (created, properties) = unsafe { (handle.as_ref(), properties.as_ref()) };
    let (Some(created), Some(properties)) = (created, properties) else { return answer };
    let attributes = properties.module & 0xff | page_type(properties.page_type) << PAGE_TYPE_SHIFT;
    match answer {
        SUCCESS => recording(entry, |guard| {
            let block = DeviceBlock {
                space: Space::DriverHandle,
                device: properties.device,
                address: SpaceAddr(*created as u64),
                size: size as u64,
                attributes,
            };
            device::device_alloc(guard, block);
        }),
        OUT_OF_MEMORY => recording(entry, |guard| {
            let (space, device, size) = (Space::DriverHandle, properties.device, size as u64);
            event_with_stack(guard, |stack| Extended::OutOfMemory { space, device, size, flag, stack });
        }),
        _ => {}
    }
    answer
}

pub(super) unsafe extern "C" fn release(handle: *mut c_void, entry: Entry) -> c_int {
    let began = ticks_now();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { halMemRelease::call(handle) };
    if answer == SUCCESS && !handle.is_null() {
        recording(entry, |guard| device::device_free(guard, Space::DriverHandle, SpaceAddr(handle as u64), began));
    }
    answer
}

/// `struct drv_mem_prop`.
#[repr(C)]
pub(crate) struct Properties {
    side: u32,
    device: SpaceDevice,
    module: u32,
    page_type: u32,
    memory_type: u32,
    reserved: u64,
}

const _: () = assert!(size_of::<Properties>() == 32);

const PAGE_TYPE_SHIFT: u32 = 8;

/// Normal, huge or giant; anything else counts as normal.
fn page_type(code: u32) -> u32 {
    if code <= 2 { code } else { 0 }
}

/// What the flag of `halMemAlloc` says.
///
/// ```text
/// bit 63……56 55……32 31 30……18 17 16……14 13……10 9……0
///     module        giant     huge       kind   device
/// ```
struct Flag {
    device: SpaceDevice,
    attributes: u32,
}

impl Flag {
    fn decode(flag: u64) -> Flag {
        const HOST_SIDE: u64 = 2;
        const HUGE: u64 = 1 << 17;
        const GIANT: u64 = 1 << 31;
        let device = if flag >> 10 & 0xf == HOST_SIDE { SpaceDevice::HOST } else { SpaceDevice((flag & 0x3ff) as u32) };
        let page_type = if flag & GIANT != 0 { 2 } else { u32::from(flag & HUGE != 0) };
        Flag { device, attributes: (flag >> 56) as u32 | page_type << PAGE_TYPE_SHIFT }
    }
}

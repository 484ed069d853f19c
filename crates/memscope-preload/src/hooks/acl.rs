//! The runtime's public face: its beginning and end, and host memory registered for the device.
use super::{aclFinalize, aclInit, aclrtHostRegisterV2, aclrtHostUnregister, aclrtSetDevice};
use crate::kernel_times;
use crate::recording::{recording, ticks_now};
use crate::torch;
use core::ffi::{c_char, c_int, c_void};
use memscope_hook::Entry;
use memscope_recorder::device::{self, DeviceBlock, LogicalDevice, Space, SpaceAddr, SpaceDevice, SystemKind};

const SUCCESS: c_int = 0;

pub(super) unsafe extern "C" fn host_register(address: *mut c_void, size: u64, flag: u32, entry: Entry) -> c_int {
    /// `ACL_HOST_REG_PINNED`; other registrations only map.
    const PINNED: u32 = 0x1000_0000;
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { aclrtHostRegisterV2::call(address, size, flag) };
    if answer == SUCCESS && flag & PINNED != 0 {
        recording(entry, |guard| {
            let block = DeviceBlock {
                space: Space::Registered,
                device: SpaceDevice::HOST,
                address: SpaceAddr(address as u64),
                size,
                attributes: 0,
            };
            device::device_alloc(guard, block);
        });
    }
    answer
}

pub(super) unsafe extern "C" fn host_unregister(address: *mut c_void, entry: Entry) -> c_int {
    let began = ticks_now();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { aclrtHostUnregister::call(address) };
    if answer == SUCCESS {
        recording(entry, |guard| device::device_free(guard, Space::Registered, SpaceAddr(address as u64), began));
    }
    answer
}

pub(super) unsafe extern "C" fn initialise(config: *const c_char, entry: Entry) -> c_int {
    kernel_times::offer();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { aclInit::call(config) };
    if answer == SUCCESS {
        note(SystemKind::AclInit, 0, entry);
        torch::look();
        torch::kernels_added();
    }
    answer
}

pub(super) unsafe extern "C" fn finalise(entry: Entry) -> c_int {
    // The driver must still be there to stop its log.
    kernel_times::end_all();
    // SAFETY: the function takes nothing.
    let answer = unsafe { aclFinalize::call() };
    if answer == SUCCESS {
        note(SystemKind::AclFinalize, 0, entry);
    }
    answer
}

pub(super) unsafe extern "C" fn set_device(device: i32, entry: Entry) -> c_int {
    kernel_times::offer();
    // SAFETY: the program's own arguments are passed on.
    let answer = unsafe { aclrtSetDevice::call(device) };
    if answer == SUCCESS && device >= 0 {
        note(SystemKind::SetDevice, device as u64, entry);
        memscope_recorder::kernel::device_chosen(LogicalDevice(device as u32));
    }
    answer
}

fn note(kind: SystemKind, value: u64, entry: Entry) {
    recording(entry, |guard| device::system(guard, kind, value));
}

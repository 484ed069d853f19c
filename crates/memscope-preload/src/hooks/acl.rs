//! The runtime's public face: its beginning and end, and host memory registered for the device.
//!
//! `aclrtMalloc` is not hooked and must not be: MindSpore finds CANN by asking who defines it.
use super::{profiling, recording, task_log, ticks_now};
use crate::original::{ACL_ABSENT, Original, call_original};
use core::ffi::{c_char, c_int, c_void};
use memscope_recorder::device::{self, DeviceBlock, HOST_DEVICE, Space, SystemKind};

const ACL: &core::ffi::CStr = c"libascendcl.so";
static HOST_REGISTER: Original = Original::of(ACL, c"aclrtHostRegisterV2");
static HOST_UNREGISTER: Original = Original::of(ACL, c"aclrtHostUnregister");
static INIT: Original = Original::of(ACL, c"aclInit");
static FINALIZE: Original = Original::of(ACL, c"aclFinalize");
static SET_DEVICE: Original = Original::of(ACL, c"aclrtSetDevice");

const SUCCESS: c_int = 0;

pub(super) unsafe extern "C" fn host_register(
    address: *mut c_void,
    size: u64,
    flag: u32,
    stack: usize,
    frame: usize,
) -> c_int {
    /// `ACL_HOST_REG_PINNED`; other registrations only map.
    const PINNED: u32 = 0x1000_0000;
    let answer = call_original!(HOST_REGISTER, fn(*mut c_void, u64, u32) -> c_int, (address, size, flag), ACL_ABSENT);
    if answer == SUCCESS && flag & PINNED != 0 {
        recording(stack, frame, |entry| {
            let block = DeviceBlock {
                space: Space::Registered,
                device: HOST_DEVICE,
                address: address as u64,
                size,
                attributes: 0,
            };
            // SAFETY: the guard is held and the entry is ours.
            unsafe { device::device_alloc(block, entry) };
        });
    }
    answer
}

pub(super) unsafe extern "C" fn host_unregister(address: *mut c_void, stack: usize, frame: usize) -> c_int {
    let began = ticks_now();
    let answer = call_original!(HOST_UNREGISTER, fn(*mut c_void) -> c_int, (address), ACL_ABSENT);
    if answer == SUCCESS {
        recording(stack, frame, |entry| {
            // SAFETY: the guard is held and the entry is ours.
            unsafe { device::device_free(Space::Registered, address as u64, began, entry) };
        });
    }
    answer
}

pub(super) unsafe extern "C" fn initialise(config: *const c_char, stack: usize, frame: usize) -> c_int {
    profiling::offer();
    let answer = call_original!(INIT, fn(*const c_char) -> c_int, (config), ACL_ABSENT);
    if answer == SUCCESS {
        note(SystemKind::AclInit, 0, stack, frame);
    }
    answer
}

/// The argument is whatever the register held: the function takes none.
pub(super) unsafe extern "C" fn finalise(_: usize, stack: usize, frame: usize) -> c_int {
    // The driver must still be there to stop its log.
    task_log::end_all();
    let answer = call_original!(FINALIZE, fn() -> c_int, (), ACL_ABSENT);
    if answer == SUCCESS {
        note(SystemKind::AclFinalize, 0, stack, frame);
    }
    answer
}

pub(super) unsafe extern "C" fn set_device(device: i32, stack: usize, frame: usize) -> c_int {
    profiling::offer();
    let answer = call_original!(SET_DEVICE, fn(i32) -> c_int, (device), ACL_ABSENT);
    if answer == SUCCESS && device >= 0 {
        note(SystemKind::SetDevice, device as u64, stack, frame);
        memscope_recorder::kernel::device_chosen(device as u32);
    }
    answer
}

fn note(kind: SystemKind, value: u64, stack: usize, frame: usize) {
    recording(stack, frame, |_| {
        // SAFETY: the guard is held.
        unsafe { device::system(kind, value) };
    });
}

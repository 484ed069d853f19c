//! The stream that torch_npu gives the kernels of the calling thread to.
//!
//! torch_npu tells it as an object of two words: kind and number of the device, and a number of its own; from that it tells the handle
//! of the runtime, which ATB tells too. Asked, it would set up itself and a device for a thread that has none, and throw in a forked
//! child. So it is asked only about a device on which its pool has reported memory in this process, by a thread that uses that device.
use crate::hooks::atb::{Helper, KeptErrno, current_device};
use crate::original::TORCH_NPU;
use memscope_hook::around::call_for_object;
use memscope_recorder::device::{LogicalDevice, devices_of_torch};
use memscope_torch::PRIVATE_USE;

memscope_hook::functions! {
    found by Helper;
    // `NPUStream (DeviceIndex)`, an object that is returned in memory.
    CurrentStream is _ZN7c10_npu19getCurrentNPUStreamEa(device: usize), in TORCH_NPU;
    // Does not wait for what is queued if it is told not to.
    HandleOf is _ZNK7c10_npu9NPUStream6streamEb(stream: *const u64, waits: bool) -> u64, in TORCH_NPU;
}

pub(super) const UNKNOWN: u64 = 0;

/// The handle of the stream of an operator whose tensors are on this device; of one that has none, on that of its thread.
#[inline(always)]
pub(super) fn current(device: Option<LogicalDevice>) -> u64 {
    let devices = devices_of_torch();
    if devices == 0 { UNKNOWN } else { ask(device, devices) }
}

#[inline(never)]
fn ask(device: Option<LogicalDevice>, devices: u64) -> u64 {
    let _errno = KeptErrno::keep();
    let used = current_device();
    let is_set_up = used.0 < u64::BITS && devices >> used.0 & 1 == 1;
    if !is_set_up || device.is_some_and(|device| device != used) {
        return UNKNOWN;
    }
    let (Some(handle_of), current) = (HandleOf::find(), CurrentStream::ORIGINAL.address()) else { return UNKNOWN };
    if current == 0 {
        return UNKNOWN;
    }
    // More than it is known to take.
    let mut stream = [0u64; 4];
    // SAFETY: the function of this name takes a number, for which a word is as good, and returns an object for which there is room.
    unsafe { call_for_object(current, used.0 as usize, stream.as_mut_ptr().cast()) };
    let [kind, number, ..] = stream[0].to_ne_bytes();
    if kind != PRIVATE_USE || u32::from(number) != used.0 {
        return UNKNOWN;
    }
    // SAFETY: an object of the function's class, as it was returned.
    unsafe { handle_of(stream.as_ptr(), false) }
}

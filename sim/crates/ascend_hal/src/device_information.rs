//! Facts about a device.

use std::time::Duration;

use sim_boundary::Out;

use crate::memory::device_count;
use crate::status::{INVALID_VALUE, NO_DEVICE, NOT_SUPPORTED, OK, Status};

/// Ticks of the device's counter in a millisecond.
const COUNTER_KHZ: u64 = 50_000;

const MODULE_SYSTEM: i32 = 0;
const INFO_COUNTER: i32 = 13;
const INFO_COUNTER_FREQUENCY: i32 = 25;

/// The device's counter, which is the monotonic clock in other units.
pub(crate) fn counter() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    ticks(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
}

pub(crate) fn ticks(duration: Duration) -> u64 {
    (duration.as_nanos() * u128::from(COUNTER_KHZ) / 1_000_000) as u64
}

/// One number about a device. Only what has a meaning here is answered.
#[unsafe(no_mangle)]
pub extern "C" fn halGetDeviceInfo(device: u32, module: i32, info: i32, value: Out<i64>) -> Status {
    if device >= device_count() {
        return NO_DEVICE;
    }
    let answer = match (module, info) {
        (MODULE_SYSTEM, INFO_COUNTER) => counter(),
        (MODULE_SYSTEM, INFO_COUNTER_FREQUENCY) => COUNTER_KHZ,
        _ => return NOT_SUPPORTED,
    };
    if value.set(answer as i64) { OK } else { INVALID_VALUE }
}

/// Version of the driver's interface, as 0xMMmmpp.
#[unsafe(no_mangle)]
pub extern "C" fn halGetAPIVersion(version: Out<i32>) -> Status {
    if version.set(0x07_22_00) { OK } else { INVALID_VALUE }
}

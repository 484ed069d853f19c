//! `libascend_hal.so`: the driver.
//!
//! Device memory is host memory at addresses of its own, the same from run to run, with a capacity per device.

mod address_space;
mod device_information;
mod memory;
mod physical;
mod task_log;

/// Results of driver calls.
pub(crate) mod status {
    pub(crate) type Status = i32;
    pub(crate) const OK: Status = 0;
    pub(crate) const NO_DEVICE: Status = 1;
    pub(crate) const INVALID_VALUE: Status = 3;
    pub(crate) const OUT_OF_MEMORY: Status = 6;
    pub(crate) const NOT_SUPPORTED: Status = 0xfffe;
}

//! Memory of devices, read for watched blocks: the one place where the runtime is called for more than its hooks' own arguments.
use crate::hooks::atb::current_device;
use crate::original::{ACL, Original};
use core::ffi::{c_int, c_void};
use memscope_recorder::device::{DevAddr, LogicalDevice};
use memscope_recorder::watch::{Calling, Memory, Unread, last_stream, remember_stream};

memscope_hook::functions! {
    found by Original;
    aclrtMemcpy(to: *mut c_void, room: usize, from: *const c_void, count: usize, kind: c_int) -> c_int, in ACL;
    aclrtSynchronizeStream(stream: usize) -> c_int, in ACL;
    aclrtSynchronizeDevice() -> c_int, in ACL;
}

const SUCCESS: c_int = 0;

/// The runtime, as the calling thread has set it up.
pub(crate) struct Runtime {
    /// `None`: all streams of the device.
    stream: Option<usize>,
}

impl Runtime {
    /// Of an operator that says where its kernels go; remembered for its end.
    pub(crate) fn of_stream(stream: Option<usize>) -> Runtime {
        remember_stream(stream);
        Runtime { stream }
    }

    pub(crate) fn of_last_stream() -> Runtime {
        Runtime { stream: last_stream() }
    }

    pub(crate) fn of_device() -> Runtime {
        Runtime { stream: None }
    }
}

impl Memory for Runtime {
    /// A thread that has no device, in a program that may have none, has nothing to wait for.
    fn settle(&self) {
        if self.device().is_none() {
            return;
        }
        let _calling = Calling::begin();
        // SAFETY: the stream is the one its library gave; the other takes nothing.
        unsafe {
            match (self.stream, aclrtSynchronizeStream::find(), aclrtSynchronizeDevice::find()) {
                (Some(stream), Some(synchronize), _) => synchronize(stream),
                (_, _, Some(synchronize)) => synchronize(),
                _ => SUCCESS,
            };
        }
    }

    fn read(&self, device: LogicalDevice, address: DevAddr, into: &mut [u8]) -> Result<(), Unread> {
        const DEVICE_TO_HOST: c_int = 2;
        if self.device() != Some(device) {
            return Err(Unread::NotFromHere);
        }
        let copy = aclrtMemcpy::find().ok_or(Unread::NotFromHere)?;
        let _calling = Calling::begin();
        // SAFETY: there is room for as many bytes; what is not a block of the device the runtime refuses.
        let answer = unsafe {
            copy(into.as_mut_ptr().cast(), into.len(), address.0 as *const c_void, into.len(), DEVICE_TO_HOST)
        };
        if answer == SUCCESS { Ok(()) } else { Err(Unread::NoMemory) }
    }

    fn device(&self) -> Option<LogicalDevice> {
        Some(current_device()).filter(|device| *device != LogicalDevice::UNKNOWN)
    }
}

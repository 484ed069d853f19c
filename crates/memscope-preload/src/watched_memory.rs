//! Memory of devices, read for watched blocks: the one place where the runtime is called for more than its hooks' own arguments.
use crate::hooks::atb::{Helper, current_device};
use crate::original::{ACL, Original};
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use memscope_recorder::device::{DevAddr, LogicalDevice};
use memscope_recorder::watch::{Calling, Memory, Unread, remember_stream, stream_of};

memscope_hook::functions! {
    found by Original;
    aclrtMemcpy(to: *mut c_void, room: usize, from: *const c_void, count: usize, kind: c_int) -> c_int, in ACL;
    aclrtSynchronizeStream(stream: usize) -> c_int, in ACL;
    aclrtSynchronizeDevice() -> c_int, in ACL;
}

memscope_hook::functions! {
    // Older versions do not have it, and are not searched for it with every operator.
    found by Helper;
    // Stores 0 for a stream that is not captured, and a model.
    aclmdlRICaptureGetInfo(stream: usize, status: *mut u32, model: *mut usize) -> c_int, in ACL;
}

const SUCCESS: c_int = 0;

/// Streams that are being captured; 0 is none, for the default stream cannot be. Who captures more at once is not seen.
static CAPTURED: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

pub(crate) fn capture_begins(stream: usize) {
    if CAPTURED.iter().all(|place| place.load(Relaxed) != stream) {
        let mut places = CAPTURED.iter();
        places.find(|place| place.compare_exchange(0, stream, Release, Relaxed).is_ok());
    }
}

pub(crate) fn capture_ended(stream: usize) {
    for place in &CAPTURED {
        let _ = place.compare_exchange(stream, 0, Release, Relaxed);
    }
}

/// The runtime, as the calling thread has set it up.
pub(crate) struct Runtime {
    /// `None`: all streams of the device.
    stream: Option<usize>,
}

impl Runtime {
    /// Of an operator that says where its kernels go, if it does; remembered for its end.
    pub(crate) fn of_operator(number: u64, stream: Option<usize>) -> Runtime {
        remember_stream(number, stream);
        Runtime { stream }
    }

    pub(crate) fn of_ending_operator(number: u64) -> Runtime {
        Runtime { stream: stream_of(number) }
    }

    pub(crate) fn of_stream(stream: usize) -> Runtime {
        Runtime { stream: Some(stream) }
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

    /// A capture that began before we were there is known only by its stream.
    fn is_captured(&self) -> bool {
        if CAPTURED.iter().any(|place| place.load(Acquire) != 0) {
            return true;
        }
        let (Some(stream), Some(get_info)) = (self.stream, aclmdlRICaptureGetInfo::find()) else { return false };
        let (mut status, mut model) = (0, 0);
        let _calling = Calling::begin();
        // SAFETY: the stream is the one its library gave, and there is room for both results.
        let answer = unsafe { get_info(stream, &raw mut status, &raw mut model) };
        answer == SUCCESS && status != 0
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

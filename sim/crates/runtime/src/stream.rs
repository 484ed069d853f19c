//! Streams: queues of tasks. Every task has its number in one, and waits in it if the run is deferred.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use sim_boundary::{Handle, Out};

use crate::context::current_device;
use crate::queue::{self, Place};
use crate::status::{INVALID_PARAMETER, OK, Status, written};

/// A stream; programs only carry its address.
pub struct Stream {
    pub(crate) device: u32,
    pub(crate) id: u16,
    tasks: AtomicU16,
}

impl Stream {
    /// The number of the next task, which wraps as the device's own does.
    pub(crate) fn next_task(&self) -> u16 {
        self.tasks.fetch_add(1, Ordering::Relaxed)
    }
}

/// Ids in use, per device. Id 0 is the device's default stream.
static IDS: Mutex<Vec<(u32, u16)>> = Mutex::new(Vec::new());
static DEFAULT_TASKS: [AtomicU16; 64] = [const { AtomicU16::new(0) }; 64];

/// Which stream is meant; null is the default stream of the thread's device.
pub(crate) fn at(stream: Handle<Stream>) -> Result<Place, Status> {
    match stream.get() {
        Some(stream) => Ok((stream.device, stream.id)),
        None => Ok((current_device()?, 0)),
    }
}

/// Device, stream and task number for a task about to be launched; null is the default stream of the thread's device.
pub(crate) fn place(stream: Handle<Stream>) -> Result<(u32, u16, u16), Status> {
    if let Some(stream) = stream.get() {
        return Ok((stream.device, stream.id, stream.next_task()));
    }
    let device = current_device()?;
    let tasks = DEFAULT_TASKS.get(device as usize).ok_or(INVALID_PARAMETER)?;
    Ok((device, 0, tasks.fetch_add(1, Ordering::Relaxed)))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamCreateWithFlags(stream: Out<Handle<Stream>>, _priority: i32, _flags: u32) -> Status {
    let device = match current_device() {
        Ok(device) => device,
        Err(status) => return status,
    };
    let Ok(mut ids) = IDS.lock() else { return INVALID_PARAMETER };
    let Some(id) = (1..2048).find(|&id| !ids.contains(&(device, id))) else { return INVALID_PARAMETER };
    ids.push((device, id));
    written(stream.set(Handle::new(Stream { device, id, tasks: AtomicU16::new(0) })))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamCreate(stream: Out<Handle<Stream>>, priority: i32) -> Status {
    rtStreamCreateWithFlags(stream, priority, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamDestroy(stream: Handle<Stream>) -> Status {
    if !stream.is_null() && rtStreamSynchronize(stream) != OK {
        return INVALID_PARAMETER;
    }
    let Some(stream) = stream.destroy() else { return INVALID_PARAMETER };
    if let Ok(mut ids) = IDS.lock() {
        ids.retain(|used| *used != (stream.device, stream.id));
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamSynchronize(stream: Handle<Stream>) -> Status {
    at(stream).map_or_else(|status| status, queue::wait_for)
}

/// Private to the simulator: a function of the host in its turn.
#[unsafe(no_mangle)]
pub extern "C" fn simRtHostFunction(
    stream: Handle<Stream>,
    function: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Status {
    let place = match at(stream) {
        Ok(place) => place,
        Err(status) => return status,
    };
    let data = data as usize;
    queue::submit(place, queue::Task { logged: None, work: Box::new(move || function(data as *mut c_void)) });
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtGetStreamId(stream: Handle<Stream>, id: Out<i32>) -> Status {
    written(id.set(stream.get().map_or(0, |stream| i32::from(stream.id))))
}

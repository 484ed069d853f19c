//! Devices and contexts. A thread works in a context, and a context belongs to a device.

use std::cell::Cell;
use std::env;
use std::sync::{LazyLock, OnceLock};

use sim_boundary::{Handle, Out};

use crate::driver::drvGetDevNum;
use crate::queue;
use crate::status::{INVALID_DEVICE, INVALID_PARAMETER, NO_CONTEXT, OK, Status, written};

/// A context; programs only carry its address.
pub struct Context {
    /// The device as the program numbers them.
    device: i32,
}

/// Physical numbers of the devices the program may see, by its own numbers.
static VISIBLE: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut count = 0;
    drvGetDevNum(&mut count);
    let listed = env::var("ASCEND_RT_VISIBLE_DEVICES").ok().map(|list| {
        list.split(',').map_while(|number| number.trim().parse().ok().filter(|&number| number < count)).collect()
    });
    listed.unwrap_or_else(|| (0..count).collect())
});

static PRIMARY: [OnceLock<usize>; 64] = [const { OnceLock::new() }; 64];

thread_local! {
    static CURRENT: Cell<Handle<Context>> = const { Cell::new(Handle::null()) };
}

fn physical(device: i32) -> Option<u32> {
    VISIBLE.get(usize::try_from(device).ok()?).copied()
}

/// The device the calling thread works on, as the driver numbers it.
pub(crate) fn current_device() -> Result<u32, Status> {
    let context = CURRENT.get();
    let device = context.get().ok_or(NO_CONTEXT)?.device;
    physical(device).ok_or(INVALID_DEVICE)
}

/// The device's first context, which lives as long as the process.
fn primary(device: i32) -> Option<Handle<Context>> {
    physical(device)?;
    let address = *PRIMARY.get(device as usize)?.get_or_init(|| Handle::new(Context { device }).address());
    Some(Handle::at(address))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtSetDevice(device: i32) -> Status {
    let Some(context) = primary(device) else { return INVALID_DEVICE };
    CURRENT.set(context);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtGetDevice(device: Out<i32>) -> Status {
    match CURRENT.get().get() {
        Some(context) => written(device.set(context.device)),
        None => NO_CONTEXT,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtDeviceReset(device: i32) -> Status {
    if physical(device).is_none() {
        return INVALID_DEVICE;
    }
    if CURRENT.get().get().is_some_and(|context| context.device == device) {
        CURRENT.set(Handle::null());
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtGetDeviceCount(count: Out<i32>) -> Status {
    written(count.set(VISIBLE.len() as i32))
}

/// The physical number of a device the program sees.
#[unsafe(no_mangle)]
pub extern "C" fn rtGetVisibleDeviceIdByLogicDeviceId(device: i32, seen: Out<i32>) -> Status {
    match physical(device) {
        Some(number) => written(seen.set(number as i32)),
        None => INVALID_DEVICE,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtDeviceSynchronize() -> Status {
    current_device().map_or_else(|status| status, queue::wait_for_device)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtCtxCreateEx(context: Out<Handle<Context>>, _flags: u32, device: i32) -> Status {
    if physical(device).is_none() {
        return INVALID_DEVICE;
    }
    let made = Handle::new(Context { device });
    CURRENT.set(made);
    written(context.set(made))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtCtxDestroyEx(context: Handle<Context>) -> Status {
    let Some(device) = context.get().map(|context| context.device) else { return INVALID_PARAMETER };
    if CURRENT.get().address() == context.address() {
        CURRENT.set(Handle::null());
    }
    // A device's first context is not the program's to end.
    if primary(device).is_some_and(|primary| primary.address() != context.address()) {
        context.destroy();
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtCtxSetCurrent(context: Handle<Context>) -> Status {
    if context.is_null() {
        return INVALID_PARAMETER;
    }
    CURRENT.set(context);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtCtxGetCurrent(context: Out<Handle<Context>>) -> Status {
    let current = CURRENT.get();
    if current.is_null() { NO_CONTEXT } else { written(context.set(current)) }
}

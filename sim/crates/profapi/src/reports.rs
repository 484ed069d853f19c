//! Reports and the callbacks they go to.

use std::ffi::{c_char, c_void};
use std::mem;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sim_boundary::{Text, settings};

const CALLBACK_COMPACT: i32 = 4;
const CALLBACK_API: i32 = 9;
const CALLBACK_HASH: i32 = 12;
const CALLBACKS: usize = 32;

type ReportCompact = extern "C" fn(u32, *const c_void, u32) -> i32;
type ReportApi = extern "C" fn(u32, *const c_void) -> i32;
type GetHash = extern "C" fn(*const c_char, usize) -> u64;

static REGISTERED: [AtomicPtr<c_void>; CALLBACKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CALLBACKS];

fn registered(kind: i32) -> Option<*mut c_void> {
    let function = REGISTERED.get(kind as usize)?.load(Ordering::Acquire);
    (!function.is_null()).then_some(function)
}

/// Sets the function for one kind of report; `length` is the size of a function pointer.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofRegisterProfileCallback(kind: i32, function: *mut c_void, length: u32) -> i32 {
    let Some(slot) = usize::try_from(kind).ok().and_then(|kind| REGISTERED.get(kind)) else { return -1 };
    if settings::PROFILING_TAKEN.get() != 0 || length as usize != size_of::<*mut c_void>() {
        return -1;
    }
    slot.store(function, Ordering::Release);
    0
}

/// Private to the simulator: whether anybody listens for task tracks.
#[unsafe(no_mangle)]
pub extern "C" fn simProfTracksWanted() -> i32 {
    i32::from(registered(CALLBACK_COMPACT).is_some())
}

/// Reports a small fixed-size record.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofReportCompactInfo(aging: u32, data: *const c_void, length: u32) -> i32 {
    let Some(function) = registered(CALLBACK_COMPACT) else { return 0 };
    // SAFETY: whoever registered a function for this kind promised this signature.
    let function: ReportCompact = unsafe { mem::transmute(function) };
    function(aging, data, length)
}

/// Reports the start and end of an interface call.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofReportApi(aging: u32, data: *const c_void) -> i32 {
    let Some(function) = registered(CALLBACK_API) else { return 0 };
    // SAFETY: whoever registered a function for this kind promised this signature.
    let function: ReportApi = unsafe { mem::transmute(function) };
    function(aging, data)
}

/// Accepted and forgotten: the number of its callback is not known to us.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofReportAdditionalInfo(_aging: u32, _data: *const c_void, _length: u32) -> i32 {
    0
}

/// Accepted and forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofReportEvent(_aging: u32, _event: *const c_void) -> i32 {
    0
}

/// A number that stands for a text in reports.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofGetHashId(text: Text, length: usize) -> u64 {
    if let Some(function) = registered(CALLBACK_HASH) {
        // SAFETY: whoever registered a function for this kind promised this signature.
        let function: GetHash = unsafe { mem::transmute(function) };
        return function(text.pointer(), length);
    }
    let text = text.get().unwrap_or_default();
    let (high, low) = text.bytes().take(length).fold((0u32, 0u32), |(high, low), byte| {
        let byte = u32::from(byte);
        (high.wrapping_mul(29).wrapping_add(byte), low.wrapping_mul(131).wrapping_add(byte))
    });
    u64::from(high) << 32 | u64::from(low)
}

/// The host's time stamp for reports, in nanoseconds here.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofSysCycleTime() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Accepted and forgotten: names of report types are for the profiler's own files.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofRegTypeInfo(_level: u16, _kind: u32, _name: Text) -> i32 {
    0
}

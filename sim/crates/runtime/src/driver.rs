//! What the runtime calls in the libraries below it. Undefined here, so each call can be interposed.
//!
//! Declared safe: every pointer handed over is either a local variable's or an argument that the program itself promised to
//! be valid (see `sim_boundary`).

use std::ffi::{c_char, c_void};

/// Properties of physical memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PhysicalProperties {
    pub(crate) side: u32,
    pub(crate) device: u32,
    pub(crate) module: u32,
    pub(crate) page: u32,
    pub(crate) memory: u32,
    pub(crate) reserved: u64,
}

/// A task for the device's log.
#[repr(C)]
pub(crate) struct LoggedTask {
    pub(crate) device: u32,
    pub(crate) stream: u16,
    pub(crate) task: u16,
    pub(crate) kind: u32,
}

unsafe extern "C" {
    pub(crate) safe fn drvGetDevNum(count: *mut u32) -> i32;
    pub(crate) safe fn halMemAlloc(address: *mut usize, size: u64, flag: u64) -> i32;
    pub(crate) safe fn halMemFree(address: usize) -> i32;
    pub(crate) safe fn halMemAddressReserve(
        address: *mut usize,
        size: usize,
        alignment: usize,
        wanted: usize,
        flag: u64,
    ) -> i32;
    pub(crate) safe fn halMemAddressFree(address: usize) -> i32;
    pub(crate) safe fn halMemCreate(
        handle: *mut usize,
        size: usize,
        properties: *const PhysicalProperties,
        flag: u64,
    ) -> i32;
    pub(crate) safe fn halMemRelease(handle: usize) -> i32;
    pub(crate) safe fn halMemMap(address: usize, size: usize, offset: usize, handle: usize, flag: u64) -> i32;
    pub(crate) safe fn halMemUnmap(address: usize) -> i32;
    pub(crate) safe fn halHostRegister(host: usize, size: u64, flag: u32, device: u32, seen: *mut usize) -> i32;
    pub(crate) safe fn halHostUnregister(host: usize, device: u32) -> i32;
    pub(crate) safe fn simHalMemoryInfo(device: u32, used: *mut u64, capacity: *mut u64) -> i32;
    pub(crate) safe fn simHalExamine(address: usize, size: u64, owner: *mut i32) -> i32;
    pub(crate) safe fn gettid() -> i32;
    pub(crate) safe fn simHalTaskRan(task: *const LoggedTask);

    pub(crate) safe fn MsprofGetHashId(text: *const c_char, length: usize) -> u64;
    pub(crate) safe fn MsprofReportCompactInfo(aging: u32, data: *const c_void, length: u32) -> i32;
    pub(crate) safe fn MsprofSysCycleTime() -> u64;
    pub(crate) safe fn simProfTracksWanted() -> i32;
    pub(crate) safe fn simProfStarted() -> i32;
}

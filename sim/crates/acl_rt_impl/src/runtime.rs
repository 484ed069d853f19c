//! What this library calls in `libruntime.so`. Undefined here, so each call can be interposed.
//!
//! Declared safe: see `sim_boundary` for why pointers may be handed on.

use std::ffi::{c_char, c_void};

pub(crate) type Status = i32;
pub(crate) const OK: Status = 0;
pub(crate) const INVALID_PARAMETER: Status = 107_000;
pub(crate) const NOT_SUPPORTED: Status = 207_000;

/// `OK`, or that the caller passed null for a result.
pub(crate) fn written(set: bool) -> Status {
    if set { OK } else { INVALID_PARAMETER }
}

/// Properties of physical memory, in the driver's layout.
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

unsafe extern "C" {
    pub(crate) safe fn rtSetDevice(device: i32) -> Status;
    pub(crate) safe fn rtGetDevice(device: *mut i32) -> Status;
    pub(crate) safe fn rtDeviceReset(device: i32) -> Status;
    pub(crate) safe fn rtGetDeviceCount(count: *mut i32) -> Status;
    pub(crate) safe fn rtGetVisibleDeviceIdByLogicDeviceId(device: i32, seen: *mut i32) -> Status;
    pub(crate) safe fn rtDeviceSynchronize() -> Status;
    pub(crate) safe fn rtCtxCreateEx(context: *mut usize, flags: u32, device: i32) -> Status;
    pub(crate) safe fn rtCtxDestroyEx(context: usize) -> Status;
    pub(crate) safe fn rtCtxSetCurrent(context: usize) -> Status;
    pub(crate) safe fn rtCtxGetCurrent(context: *mut usize) -> Status;

    pub(crate) safe fn rtStreamCreateWithFlags(stream: *mut usize, priority: i32, flags: u32) -> Status;
    pub(crate) safe fn rtStreamDestroy(stream: usize) -> Status;
    pub(crate) safe fn rtStreamSynchronize(stream: usize) -> Status;
    pub(crate) safe fn simRtHostFunction(
        stream: usize,
        function: extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Status;
    pub(crate) safe fn rtStreamBeginCapture(stream: usize, mode: u32) -> Status;
    pub(crate) safe fn rtStreamEndCapture(stream: usize, model: *mut usize) -> Status;
    pub(crate) safe fn rtStreamGetCaptureInfo(stream: usize, status: *mut u32, model: *mut usize) -> Status;
    pub(crate) safe fn rtThreadExchangeCaptureMode(mode: *mut u32) -> Status;
    pub(crate) safe fn rtModelExecute(model: usize, stream: usize, flag: u32) -> Status;
    pub(crate) safe fn rtModelDestroy(model: usize) -> Status;
    pub(crate) safe fn rtStreamWaitEvent(stream: usize, event: usize) -> Status;
    pub(crate) safe fn rtGetStreamId(stream: usize, id: *mut i32) -> Status;
    pub(crate) safe fn rtEventCreateWithFlag(event: *mut usize, flag: u32) -> Status;
    pub(crate) safe fn rtEventDestroy(event: usize) -> Status;
    pub(crate) safe fn rtEventRecord(event: usize, stream: usize) -> Status;
    pub(crate) safe fn rtEventReset(event: usize, stream: usize) -> Status;
    pub(crate) safe fn rtEventQueryStatus(event: usize, status: *mut i32) -> Status;
    pub(crate) safe fn rtEventSynchronize(event: usize) -> Status;
    pub(crate) safe fn rtEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) -> Status;

    pub(crate) safe fn rtMalloc(address: *mut usize, size: u64, kind: u32, module: u16) -> Status;
    pub(crate) safe fn rtFree(address: usize) -> Status;
    pub(crate) safe fn rtMallocHost(address: *mut usize, size: u64, module: u16) -> Status;
    pub(crate) safe fn rtFreeHost(address: usize) -> Status;
    pub(crate) safe fn rtHostRegister(host: usize, size: u64, flag: u32, seen: *mut usize) -> Status;
    pub(crate) safe fn rtHostUnregister(host: usize) -> Status;
    pub(crate) safe fn rtMemGetInfoEx(kind: u32, free: *mut usize, total: *mut usize) -> Status;
    pub(crate) safe fn rtMemcpy(to: usize, capacity: u64, from: usize, size: u64, kind: u32) -> Status;
    pub(crate) safe fn rtMemcpyAsync(
        to: usize,
        capacity: u64,
        from: usize,
        size: u64,
        kind: u32,
        stream: usize,
    ) -> Status;
    pub(crate) safe fn rtMemset(address: usize, capacity: u64, value: u32, size: u64) -> Status;
    pub(crate) safe fn rtMemsetAsync(address: usize, capacity: u64, value: u32, size: u64, stream: usize) -> Status;
    pub(crate) safe fn rtReserveMemAddress(
        address: *mut usize,
        size: usize,
        alignment: usize,
        wanted: usize,
        flags: u64,
    ) -> Status;
    pub(crate) safe fn rtReleaseMemAddress(address: usize) -> Status;
    pub(crate) safe fn rtMallocPhysical(
        handle: *mut usize,
        size: usize,
        properties: *const PhysicalProperties,
        flags: u64,
    ) -> Status;
    pub(crate) safe fn rtFreePhysical(handle: usize) -> Status;
    pub(crate) safe fn rtMapMem(address: usize, size: usize, offset: usize, handle: usize, flags: u64) -> Status;
    pub(crate) safe fn rtUnmapMem(address: usize) -> Status;

    pub(crate) safe fn rtRegisterAllKernel(binary: *const c_void, handle: *mut usize) -> Status;
    pub(crate) safe fn rtDevBinaryUnRegister(handle: usize) -> Status;
    pub(crate) safe fn rtBinaryGetFunctionByName(binary: usize, name: *const c_char, function: *mut usize) -> Status;
    pub(crate) safe fn rtLaunchKernelByFuncHandleV2(
        function: usize,
        blocks: u32,
        arguments: *const c_void,
        stream: usize,
        configuration: *const c_void,
    ) -> Status;
}

//! Streams, events and callbacks.

use std::ffi::c_void;

use sim_boundary::Out;

use crate::runtime::{
    NOT_SUPPORTED, OK, Status, rtEventCreateWithFlag, rtEventDestroy, rtEventElapsedTime, rtEventQueryStatus,
    rtEventRecord, rtEventReset, rtEventSynchronize, rtGetStreamId, rtStreamCreateWithFlags, rtStreamDestroy,
    rtStreamSynchronize, rtStreamWaitEvent, simRtHostFunction, written,
};

/// Nothing is waiting for a callback thread: callbacks run in their streams.
const REPORT_TIMEOUT: Status = 507_012;

type HostFunction = extern "C" fn(*mut c_void);

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateStreamImpl(stream: Out<usize>) -> Status {
    rtStreamCreateWithFlags(stream.pointer(), 0, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateStreamV2Impl(stream: Out<usize>, _configuration: *const c_void) -> Status {
    rtStreamCreateWithFlags(stream.pointer(), 0, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateStreamWithConfigImpl(stream: Out<usize>, priority: u32, flags: u32) -> Status {
    rtStreamCreateWithFlags(stream.pointer(), priority as i32, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyStreamImpl(stream: usize) -> Status {
    rtStreamDestroy(stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyStreamForceImpl(stream: usize) -> Status {
    rtStreamDestroy(stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStreamImpl(stream: usize) -> Status {
    rtStreamSynchronize(stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStreamWithTimeoutImpl(stream: usize, _milliseconds: i32) -> Status {
    rtStreamSynchronize(stream)
}

/// 0: everything in the stream is done, now that somebody asks.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamQueryImpl(stream: usize, status: Out<u32>) -> Status {
    match rtStreamSynchronize(stream) {
        OK => written(status.set(0)),
        refused => refused,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamGetIdImpl(stream: usize, id: Out<i32>) -> Status {
    rtGetStreamId(stream, id.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamWaitEventImpl(stream: usize, event: usize) -> Status {
    rtStreamWaitEvent(stream, event)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetStreamFailureModeImpl(_stream: usize, _mode: u64) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetStreamOverflowSwitchImpl(_stream: usize, _flag: u32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateEventImpl(event: Out<usize>) -> Status {
    rtEventCreateWithFlag(event.pointer(), 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateEventWithFlagImpl(event: Out<usize>, flag: u32) -> Status {
    rtEventCreateWithFlag(event.pointer(), flag)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateEventExWithFlagImpl(event: Out<usize>, flag: u32) -> Status {
    rtEventCreateWithFlag(event.pointer(), flag)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyEventImpl(event: usize) -> Status {
    rtEventDestroy(event)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtRecordEventImpl(event: usize, stream: usize) -> Status {
    rtEventRecord(event, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetEventImpl(event: usize, stream: usize) -> Status {
    rtEventReset(event, stream)
}

/// 1: the event has been recorded and reached.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtQueryEventStatusImpl(event: usize, status: Out<i32>) -> Status {
    rtEventQueryStatus(event, status.pointer())
}

/// 0: reached, in the older numbering.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtQueryEventImpl(event: usize, status: Out<i32>) -> Status {
    let mut recorded = 0;
    let result = rtEventQueryStatus(event, &mut recorded);
    if result == OK { written(status.set(1 - recorded)) } else { result }
}

/// 0: nobody waits for the event any more.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtQueryEventWaitStatusImpl(_event: usize, status: Out<i32>) -> Status {
    written(status.set(0))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeEventImpl(event: usize) -> Status {
    rtEventSynchronize(event)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeEventWithTimeoutImpl(event: usize, _milliseconds: i32) -> Status {
    rtEventSynchronize(event)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtEventElapsedTimeImpl(milliseconds: Out<f32>, start: usize, end: usize) -> Status {
    rtEventElapsedTime(milliseconds.pointer(), start, end)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSubscribeReportImpl(_thread: u64, _stream: usize) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnSubscribeReportImpl(_thread: u64, _stream: usize) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtProcessReportImpl(_milliseconds: i32) -> Status {
    REPORT_TIMEOUT
}

/// Run in its turn, as if somebody processed reports all the time.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtLaunchCallbackImpl(
    function: Option<HostFunction>,
    data: *mut c_void,
    _blocking: u32,
    stream: usize,
) -> Status {
    let Some(function) = function else { return NOT_SUPPORTED };
    simRtHostFunction(stream, function, data)
}

/// See `aclrtLaunchCallback`.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtLaunchHostFuncImpl(stream: usize, function: Option<HostFunction>, data: *mut c_void) -> Status {
    let Some(function) = function else { return NOT_SUPPORTED };
    simRtHostFunction(stream, function, data)
}

//! Collectives: a copy within the rank, and a task with the collective's name.

use std::ffi::{CStr, c_char, c_void};

use sim_boundary::Handle;

use crate::communicator::{Communicator, INVALID_PARAMETER, OK};

const RUNTIME_ERROR: i32 = 15;
const COPY_ON_DEVICE: u32 = 3;

unsafe extern "C" {
    safe fn rtMemcpyAsync(to: usize, capacity: u64, from: usize, size: u64, kind: u32, stream: usize) -> i32;
    safe fn rtAicpuKernelLaunchExWithArgs(
        kind: u32,
        operator: *const c_char,
        blocks: u32,
        arguments: *const c_void,
        memory: *mut c_void,
        stream: usize,
        flags: u32,
    ) -> i32;
}

/// Bytes of an element of a type, in HCCL's numbering.
fn element_bytes(data_type: u32) -> u64 {
    match data_type {
        0 | 7 => 1,
        1 | 3 | 8 | 11 => 2,
        2 | 4 | 9 => 4,
        5 | 6 | 10 => 8,
        _ => 1,
    }
}

fn task(name: &CStr, stream: usize) -> i32 {
    let nothing = std::ptr::null_mut();
    let launched = rtAicpuKernelLaunchExWithArgs(0, name.as_ptr(), 1, nothing, nothing, stream, 0);
    if launched == 0 { OK } else { RUNTIME_ERROR }
}

fn copy(name: &CStr, to: usize, from: usize, bytes: u64, stream: usize) -> i32 {
    if bytes != 0 && to != from && rtMemcpyAsync(to, bytes, from, bytes, COPY_ON_DEVICE, stream) != 0 {
        return RUNTIME_ERROR;
    }
    task(name, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclAllReduce(
    from: usize,
    to: usize,
    count: u64,
    data_type: u32,
    _operation: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    copy(c"hcom_allReduce_", to, from, count * element_bytes(data_type), stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclReduce(
    from: usize,
    to: usize,
    count: u64,
    data_type: u32,
    _operation: u32,
    _root: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    copy(c"hcom_reduce_", to, from, count * element_bytes(data_type), stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclBroadcast(
    _buffer: usize,
    _count: u64,
    _data_type: u32,
    _root: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_broadcast_", stream)
}

/// Every rank is taken to contribute what this one does; programs that compare ranks then find them equal.
#[unsafe(no_mangle)]
pub extern "C" fn HcclAllGather(
    from: usize,
    to: usize,
    count: u64,
    data_type: u32,
    communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    let Some(communicator) = communicator.get() else { return INVALID_PARAMETER };
    let bytes = count * element_bytes(data_type);
    for rank in 0..communicator.ranks as usize {
        let place = to + rank * bytes as usize;
        if bytes != 0 && place != from && rtMemcpyAsync(place, bytes, from, bytes, COPY_ON_DEVICE, stream) != 0 {
            return RUNTIME_ERROR;
        }
    }
    task(c"hcom_allGather_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclReduceScatter(
    from: usize,
    to: usize,
    count: u64,
    data_type: u32,
    _operation: u32,
    communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    let Some(communicator) = communicator.get() else { return INVALID_PARAMETER };
    let bytes = count * element_bytes(data_type);
    copy(c"hcom_reduceScatter_", to, from + communicator.rank as usize * bytes as usize, bytes, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclScatter(
    _from: usize,
    _to: usize,
    _count: u64,
    _data_type: u32,
    _root: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_scatter_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclSend(
    _buffer: usize,
    _count: u64,
    _data_type: u32,
    _peer: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_send_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclRecv(
    _buffer: usize,
    _count: u64,
    _data_type: u32,
    _peer: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_receive_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclBatchSendRecv(
    _items: *const c_void,
    _count: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_batchSendRecv_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclAlltoAll(
    _from: usize,
    _send_count: u64,
    _send_type: u32,
    _to: usize,
    _receive_count: u64,
    _receive_type: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_alltoall_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclAlltoAllV(
    _from: usize,
    _send_counts: *const c_void,
    _send_offsets: *const c_void,
    _send_type: u32,
    _to: usize,
    _receive_counts: *const c_void,
    _receive_offsets: *const c_void,
    _receive_type: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_alltoallv_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclAlltoAllVC(
    _from: usize,
    _matrix: *const c_void,
    _send_type: u32,
    _to: usize,
    _receive_type: u32,
    _communicator: Handle<Communicator>,
    stream: usize,
) -> i32 {
    task(c"hcom_alltoallvc_", stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclBarrier(_communicator: Handle<Communicator>, stream: usize) -> i32 {
    task(c"hcom_barrier_", stream)
}

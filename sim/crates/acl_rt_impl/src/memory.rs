//! Memory and copies.

use sim_boundary::Out;

use crate::runtime::{
    INVALID_PARAMETER, Status, rtFree, rtFreeHost, rtHostRegister, rtHostUnregister, rtMalloc, rtMallocHost,
    rtMemGetInfoEx, rtMemcpy, rtMemcpyAsync, rtMemset, rtMemsetAsync,
};

/// The module that asks: the application.
pub(crate) const MODULE_APP: u16 = 33;
const ALIGNMENT: u64 = 32;

/// Page preferences of acl as the runtime's bits.
fn kind(policy: u32) -> u32 {
    match policy {
        0 | 3 => 0x400,
        1 | 4 => 0x800,
        _ => 0x1000,
    }
}

fn aligned(size: usize) -> Option<u64> {
    (size as u64).checked_next_multiple_of(ALIGNMENT).filter(|&size| size != 0)
}

/// Rounds up and adds a margin that kernels may read beyond the end.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtMallocImpl(address: Out<usize>, size: usize, policy: u32) -> Status {
    let Some(size) = aligned(size) else { return INVALID_PARAMETER };
    rtMalloc(address.pointer(), size + ALIGNMENT, kind(policy), MODULE_APP)
}

/// Rounds up only.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtMallocAlign32Impl(address: Out<usize>, size: usize, policy: u32) -> Status {
    let Some(size) = aligned(size) else { return INVALID_PARAMETER };
    rtMalloc(address.pointer(), size, kind(policy), MODULE_APP)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreeImpl(address: usize) -> Status {
    rtFree(address)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMallocHostImpl(address: Out<usize>, size: usize) -> Status {
    rtMallocHost(address.pointer(), size as u64, MODULE_APP)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreeHostImpl(address: usize) -> Status {
    rtFreeHost(address)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtHostRegisterImpl(host: usize, size: u64, kind: u32, seen: Out<usize>) -> Status {
    rtHostRegister(host, size, kind, seen.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtHostRegisterV2Impl(host: usize, size: u64, flag: u32) -> Status {
    let mut seen = 0;
    rtHostRegister(host, size, flag, &mut seen)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtHostUnregisterImpl(host: usize) -> Status {
    rtHostUnregister(host)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetMemInfoImpl(kind: u32, free: Out<usize>, total: Out<usize>) -> Status {
    rtMemGetInfoEx(kind, free.pointer(), total.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemcpyImpl(to: usize, capacity: usize, from: usize, size: usize, kind: u32) -> Status {
    rtMemcpy(to, capacity as u64, from, size as u64, kind)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemcpyAsyncImpl(
    to: usize,
    capacity: usize,
    from: usize,
    size: usize,
    kind: u32,
    stream: usize,
) -> Status {
    rtMemcpyAsync(to, capacity as u64, from, size as u64, kind, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemsetImpl(address: usize, capacity: usize, value: i32, size: usize) -> Status {
    rtMemset(address, capacity as u64, value as u32, size as u64)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemsetAsyncImpl(
    address: usize,
    capacity: usize,
    value: i32,
    size: usize,
    stream: usize,
) -> Status {
    rtMemsetAsync(address, capacity as u64, value as u32, size as u64, stream)
}

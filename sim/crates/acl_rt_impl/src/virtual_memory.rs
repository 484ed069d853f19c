//! Reserving addresses, taking physical memory and joining the two.

use sim_boundary::{In, Out};

use crate::memory::MODULE_APP;
use crate::runtime::{
    INVALID_PARAMETER, NOT_SUPPORTED, OK, PhysicalProperties, Status, rtFreePhysical,
    rtGetVisibleDeviceIdByLogicDeviceId, rtMallocPhysical, rtMapMem, rtReleaseMemAddress, rtReserveMemAddress,
    rtUnmapMem, written,
};

const HUGE_PAGE: usize = 2 << 20;
const LOCATION_DEVICE: u32 = 1;
/// Kinds of memory that mean pages of 1 GiB.
const GIANT_PAGE_KINDS: [u32; 2] = [6, 7];

/// Properties of physical memory, as acl lays them out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    handle_kind: u32,
    allocation_kind: u32,
    memory_kind: u32,
    location_id: u32,
    location_kind: u32,
    reserved: u64,
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtReserveMemAddressImpl(
    address: Out<usize>,
    size: usize,
    alignment: usize,
    wanted: usize,
    flags: u64,
) -> Status {
    rtReserveMemAddress(address.pointer(), size, alignment, wanted, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtReleaseMemAddressImpl(address: usize) -> Status {
    rtReleaseMemAddress(address)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMallocPhysicalImpl(
    handle: Out<usize>,
    size: usize,
    properties: In<Properties>,
    flags: u64,
) -> Status {
    let Some(wanted) = properties.get() else { return INVALID_PARAMETER };
    let mut device = 0;
    let known = rtGetVisibleDeviceIdByLogicDeviceId(wanted.location_id as i32, &mut device);
    if known != OK {
        return known;
    }
    let properties = PhysicalProperties {
        side: u32::from(wanted.location_kind == LOCATION_DEVICE),
        device: device as u32,
        module: u32::from(MODULE_APP),
        page: if GIANT_PAGE_KINDS.contains(&wanted.memory_kind) { 2 } else { 1 },
        memory: 0,
        reserved: wanted.reserved,
    };
    rtMallocPhysical(handle.pointer(), size, &properties, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreePhysicalImpl(handle: usize) -> Status {
    rtFreePhysical(handle)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMapMemImpl(address: usize, size: usize, offset: usize, handle: usize, flags: u64) -> Status {
    rtMapMem(address, size, offset, handle, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnmapMemImpl(address: usize) -> Status {
    rtUnmapMem(address)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemGetAllocationGranularityImpl(
    _properties: In<Properties>,
    _option: u32,
    unit: Out<usize>,
) -> Status {
    written(unit.set(HUGE_PAGE))
}

/// Memory cannot be shared between simulated processes; these exist because frameworks link to them.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemExportToShareableHandleImpl(
    _handle: usize,
    _kind: u32,
    _flags: u64,
    _shareable: Out<u64>,
) -> Status {
    NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemImportFromShareableHandleImpl(_shareable: u64, _device: i32, _handle: Out<usize>) -> Status {
    NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemSetPidToShareableHandleImpl(_shareable: u64, _processes: In<i32>, _count: usize) -> Status {
    NOT_SUPPORTED
}

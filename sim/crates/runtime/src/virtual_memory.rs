//! Reserving addresses, taking physical memory and joining the two.

use sim_boundary::{In, Out};

use crate::driver::{
    PhysicalProperties, halMemAddressFree, halMemAddressReserve, halMemCreate, halMemMap, halMemRelease, halMemUnmap,
};
use crate::status::{INVALID_PARAMETER, Status, of_driver};

#[unsafe(no_mangle)]
pub extern "C" fn rtReserveMemAddress(
    address: Out<usize>,
    size: usize,
    alignment: usize,
    wanted: usize,
    flags: u64,
) -> Status {
    of_driver(halMemAddressReserve(address.pointer(), size, alignment, wanted, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtReleaseMemAddress(address: usize) -> Status {
    of_driver(halMemAddressFree(address))
}

/// `properties` are the driver's; the device in them is the driver's number.
#[unsafe(no_mangle)]
pub extern "C" fn rtMallocPhysical(
    handle: Out<usize>,
    size: usize,
    properties: In<PhysicalProperties>,
    flags: u64,
) -> Status {
    if properties.get().is_none() {
        return INVALID_PARAMETER;
    }
    of_driver(halMemCreate(handle.pointer(), size, properties.pointer(), flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtFreePhysical(handle: usize) -> Status {
    of_driver(halMemRelease(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtMapMem(address: usize, size: usize, offset: usize, handle: usize, flags: u64) -> Status {
    of_driver(halMemMap(address, size, offset, handle, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtUnmapMem(address: usize) -> Status {
    of_driver(halMemUnmap(address))
}

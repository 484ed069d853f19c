//! Allocators that a framework offers for a stream. They are accepted and never asked: no kernel here needs memory of its own.

use sim_boundary::Handle;

use crate::runtime::{INVALID_PARAMETER, OK, Status};

/// A framework's allocator.
pub struct Allocator;

fn accepted(allocator: Handle<Allocator>) -> Status {
    if allocator.is_null() { INVALID_PARAMETER } else { OK }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorCreateDescImpl() -> Handle<Allocator> {
    Handle::new(Allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorDestroyDescImpl(allocator: Handle<Allocator>) -> Status {
    if allocator.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorSetObjToDescImpl(allocator: Handle<Allocator>, _object: usize) -> Status {
    accepted(allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorSetAllocFuncToDescImpl(allocator: Handle<Allocator>, _function: usize) -> Status {
    accepted(allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorSetFreeFuncToDescImpl(allocator: Handle<Allocator>, _function: usize) -> Status {
    accepted(allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorSetAllocAdviseFuncToDescImpl(allocator: Handle<Allocator>, _function: usize) -> Status {
    accepted(allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorSetGetAddrFromBlockFuncToDescImpl(
    allocator: Handle<Allocator>,
    _function: usize,
) -> Status {
    accepted(allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorRegisterImpl(_stream: usize, allocator: Handle<Allocator>) -> Status {
    accepted(allocator)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtAllocatorUnregisterImpl(_stream: usize) -> Status {
    OK
}

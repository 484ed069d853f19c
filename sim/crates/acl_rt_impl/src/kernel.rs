//! Loading binaries and launching their kernels.

use std::ffi::c_void;

use sim_boundary::{Out, Text};

use crate::runtime::{
    INVALID_PARAMETER, NOT_SUPPORTED, Status, rtBinaryGetFunctionByName, rtDevBinaryUnRegister,
    rtLaunchKernelByFuncHandleV2, rtRegisterAllKernel,
};

#[unsafe(no_mangle)]
pub extern "C" fn aclrtBinaryLoadFromDataImpl(
    data: *const c_void,
    length: usize,
    _options: *const c_void,
    binary: Out<usize>,
) -> Status {
    if data.is_null() || length == 0 {
        return INVALID_PARAMETER;
    }
    rtRegisterAllKernel(data, binary.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtBinaryUnLoadImpl(binary: usize) -> Status {
    rtDevBinaryUnRegister(binary)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtBinaryGetFunctionImpl(binary: usize, name: Text, function: Out<usize>) -> Status {
    rtBinaryGetFunctionByName(binary, name.pointer(), function.pointer())
}

/// Kernels have no code here.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetFunctionAddrImpl(_function: usize, _cube: Out<usize>, _vector: Out<usize>) -> Status {
    NOT_SUPPORTED
}

fn launch(function: usize, blocks: u32, arguments: *const c_void, stream: usize) -> Status {
    rtLaunchKernelByFuncHandleV2(function, blocks, arguments, stream, std::ptr::null())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtLaunchKernelImpl(
    function: usize,
    blocks: u32,
    arguments: *const c_void,
    _size: usize,
    stream: usize,
) -> Status {
    launch(function, blocks, arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtLaunchKernelV2Impl(
    function: usize,
    blocks: u32,
    arguments: *const c_void,
    _size: usize,
    _configuration: *const c_void,
    stream: usize,
) -> Status {
    launch(function, blocks, arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtLaunchKernelWithConfigImpl(
    function: usize,
    blocks: u32,
    stream: usize,
    _configuration: *const c_void,
    arguments: *const c_void,
    _reserve: *const c_void,
) -> Status {
    launch(function, blocks, arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtLaunchKernelWithHostArgsImpl(
    function: usize,
    blocks: u32,
    stream: usize,
    _configuration: *const c_void,
    arguments: *const c_void,
    _size: usize,
    _placeholders: *const c_void,
    _placeholder_count: usize,
) -> Status {
    launch(function, blocks, arguments, stream)
}

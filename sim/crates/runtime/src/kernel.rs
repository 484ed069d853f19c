//! Kernels: registering them and the many ways to launch one.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::Mutex;

use sim_boundary::{Fault, Handle, In, Out, Text};

use crate::status::{AICORE_EXCEPTION, INVALID_PARAMETER, OK, Status, written};
use crate::stream::Stream;
use crate::task::{self, Kind};

static LAUNCH_FAULT: Fault = Fault::new("LAUNCH");

/// A loaded binary or a kernel in it. The simulator's other libraries give `work` to kernels that compute something.
pub struct Kernel {
    name: CString,
    work: Option<extern "C" fn(*mut c_void)>,
}

/// The arguments of a launch, as far as we look at them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Arguments {
    data: *mut c_void,
}

/// Kernels by the address of the host function that stands for them.
static BY_STUB: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn kernel(name: Option<String>, work: Option<extern "C" fn(*mut c_void)>) -> Handle<Kernel> {
    let name = CString::new(name.unwrap_or_default()).unwrap_or_default();
    Handle::new(Kernel { name, work })
}

fn admitted() -> Status {
    if LAUNCH_FAULT.strikes() { AICORE_EXCEPTION } else { OK }
}

fn launch(kernel: Handle<Kernel>, arguments: In<Arguments>, stream: Handle<Stream>) -> Status {
    let Some(kernel) = kernel.get() else { return INVALID_PARAMETER };
    let computing = kernel.work.zip(arguments.get().map(|arguments| arguments.data as usize));
    task::run(stream, Kind::Kernel, Some(&kernel.name), admitted, move || {
        if let Some((work, data)) = computing {
            work(data as *mut c_void);
        }
    })
}

fn by_stub(stub: usize) -> Handle<Kernel> {
    let known = BY_STUB.lock().ok().and_then(|kernels| kernels.get(&stub).copied());
    known.map_or(Handle::null(), Handle::at)
}

/// Private to the simulator: a kernel with a name and, if it computes, what it does with its arguments.
#[unsafe(no_mangle)]
pub extern "C" fn simRtKernel(name: Text, work: Option<extern "C" fn(*mut c_void)>) -> Handle<Kernel> {
    kernel(name.get(), work)
}

/// Registers a binary; its contents are not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn rtDevBinaryRegister(_binary: *const c_void, handle: Out<Handle<Kernel>>) -> Status {
    written(handle.set(kernel(None, None)))
}

/// The same for a binary whose kernels are found by key.
#[unsafe(no_mangle)]
pub extern "C" fn rtRegisterAllKernel(binary: *const c_void, handle: Out<Handle<Kernel>>) -> Status {
    rtDevBinaryRegister(binary, handle)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtDevBinaryUnRegister(handle: Handle<Kernel>) -> Status {
    if handle.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

/// Makes a host function's address stand for a kernel.
#[unsafe(no_mangle)]
pub extern "C" fn rtFunctionRegister(
    _binary: Handle<Kernel>,
    stub: usize,
    name: Text,
    _extension: *const c_void,
    _mode: u32,
) -> Status {
    let Ok(mut kernels) = BY_STUB.lock() else { return INVALID_PARAMETER };
    kernels.insert(stub, kernel(name.get(), None).address());
    OK
}

/// A kernel of a binary, by name.
#[unsafe(no_mangle)]
pub extern "C" fn rtBinaryGetFunctionByName(
    _binary: Handle<Kernel>,
    name: Text,
    function: Out<Handle<Kernel>>,
) -> Status {
    written(function.set(kernel(name.get(), None)))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtKernelLaunch(
    stub: usize,
    _blocks: u32,
    _arguments: *mut c_void,
    _size: u32,
    _memory: *mut c_void,
    stream: Handle<Stream>,
) -> Status {
    launch(by_stub(stub), In::null(), stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtKernelLaunchWithHandleV2(
    handle: Handle<Kernel>,
    _key: u64,
    _blocks: u32,
    arguments: In<Arguments>,
    _memory: *mut c_void,
    stream: Handle<Stream>,
    _configuration: *const c_void,
) -> Status {
    launch(handle, arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtKernelLaunchWithFlagV2(
    stub: usize,
    _blocks: u32,
    arguments: In<Arguments>,
    _memory: *mut c_void,
    stream: Handle<Stream>,
    _flags: u32,
    _configuration: *const c_void,
) -> Status {
    launch(by_stub(stub), arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtAicpuKernelLaunchExWithArgs(
    _kind: u32,
    operator: Text,
    _blocks: u32,
    _arguments: *const c_void,
    _memory: *mut c_void,
    stream: Handle<Stream>,
    _flags: u32,
) -> Status {
    let name = operator.get().and_then(|name| CString::new(name).ok()).unwrap_or_default();
    task::run(stream, Kind::HostCpuKernel, Some(&name), admitted, || {})
}

#[unsafe(no_mangle)]
pub extern "C" fn rtLaunchKernelByFuncHandle(
    function: Handle<Kernel>,
    _blocks: u32,
    _arguments: *mut c_void,
    stream: Handle<Stream>,
) -> Status {
    launch(function, In::null(), stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtLaunchKernelByFuncHandleV2(
    function: Handle<Kernel>,
    _blocks: u32,
    _arguments: *mut c_void,
    stream: Handle<Stream>,
    _configuration: *const c_void,
) -> Status {
    launch(function, In::null(), stream)
}

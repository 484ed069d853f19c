//! Start and end, devices, contexts, versions.

use std::ffi::{CString, c_char};
use std::sync::{LazyLock, OnceLock};

use sim_boundary::{Fault, Out, Text, TextBuffer, settings};

use crate::runtime::{
    INVALID_PARAMETER, NOT_SUPPORTED, OK, Status, rtCtxCreateEx, rtCtxDestroyEx, rtCtxGetCurrent, rtCtxSetCurrent,
    rtDeviceReset, rtDeviceSynchronize, rtGetDevice, rtGetDeviceCount, rtGetVisibleDeviceIdByLogicDeviceId,
    rtSetDevice, written,
};

const INTERNAL_ERROR: Status = 500_000;
/// The CANN release this tree says it is. MindSpore 2.7 accepts 8.2 and 8.3.
const RELEASE: &str = "8.3.RC1";

static INIT_FAULT: Fault = Fault::new("INIT");
static SET_DEVICE_FAULT: Fault = Fault::new("SET_DEVICE");

#[unsafe(no_mangle)]
pub extern "C" fn aclInitImpl(_configuration: Text) -> Status {
    if INIT_FAULT.strikes() { INTERNAL_ERROR } else { OK }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclFinalizeImpl() -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetDeviceImpl(device: i32) -> Status {
    if SET_DEVICE_FAULT.strikes() { INTERNAL_ERROR } else { rtSetDevice(device) }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetDeviceImpl(device: Out<i32>) -> Status {
    rtGetDevice(device.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetDeviceImpl(device: i32) -> Status {
    rtDeviceReset(device)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetDeviceForceImpl(device: i32) -> Status {
    rtDeviceReset(device)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetDeviceCountImpl(count: Out<u32>) -> Status {
    rtGetDeviceCount(count.pointer().cast())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetLogicDevIdByUserDevIdImpl(device: i32, logic: Out<i32>) -> Status {
    rtGetVisibleDeviceIdByLogicDeviceId(device, logic.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeDeviceImpl() -> Status {
    rtDeviceSynchronize()
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeDeviceWithTimeoutImpl(_milliseconds: i32) -> Status {
    rtDeviceSynchronize()
}

/// 0 for a device, 1 for a host: programs run on hosts here.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetRunModeImpl(mode: Out<u32>) -> Status {
    written(mode.set(1))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCreateContextImpl(context: Out<usize>, device: i32) -> Status {
    rtCtxCreateEx(context.pointer(), 0, device)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyContextImpl(context: usize) -> Status {
    rtCtxDestroyEx(context)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetCurrentContextImpl(context: usize) -> Status {
    rtCtxSetCurrent(context)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetCurrentContextImpl(context: Out<usize>) -> Status {
    rtCtxGetCurrent(context.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSocNameImpl() -> *const c_char {
    static NAME: OnceLock<CString> = OnceLock::new();
    NAME.get_or_init(|| CString::new(settings::soc_name()).unwrap_or_default()).as_ptr()
}

/// What a chip has of each kind of unit. Cube cores and vector cores of the default chip.
#[unsafe(no_mangle)]
pub extern "C" fn aclGetDeviceCapabilityImpl(_device: u32, kind: u32, value: Out<i64>) -> Status {
    match kind {
        0 => written(value.set(24)),
        1 => written(value.set(48)),
        2 => written(value.set(192 << 20)),
        _ => NOT_SUPPORTED,
    }
}

/// Devices of one machine reach each other.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceCanAccessPeerImpl(possible: Out<i32>, device: i32, peer: i32) -> Status {
    written(possible.set(i32::from(device != peer)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceEnablePeerAccessImpl(_peer: i32, _flags: u32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceDisablePeerAccessImpl(_peer: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceGetBareTgidImpl(process: Out<i32>) -> Status {
    written(process.set(std::process::id() as i32))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetDeviceSatModeImpl(_mode: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetOpExecuteTimeOutImpl(_seconds: u32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetOpWaitTimeoutImpl(_seconds: u32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetExceptionInfoCallbackImpl(_callback: usize) -> Status {
    OK
}

/// No error is remembered: every call reports its own.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetLastErrorImpl(_level: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtPeekAtLastErrorImpl(_level: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetRecentErrMsgImpl() -> *const c_char {
    c"".as_ptr()
}

/// Takes a format and any number of arguments, of which it looks at none.
#[unsafe(no_mangle)]
pub extern "C" fn aclAppLogImpl() {}

/// Features of the installation: none of the optional ones.
#[unsafe(no_mangle)]
pub extern "C" fn aclGetCannAttributeImpl(_attribute: i32, value: Out<i32>) -> Status {
    written(value.set(0))
}

/// A package's version, as fixed fields of text.
#[repr(C)]
pub struct PackageVersion {
    version: [u8; 128],
    major: [u8; 64],
    minor: [u8; 64],
    release: [u8; 64],
    patch: [u8; 64],
    reserved: [u8; 128],
}

static PACKAGE_VERSION: LazyLock<[&'static str; 5]> = LazyLock::new(|| [RELEASE, "8", "3", "RC1", "0"]);

fn field<const SIZE: usize>(text: &str) -> [u8; SIZE] {
    let mut field = [0; SIZE];
    field.iter_mut().take(SIZE - 1).zip(text.bytes()).for_each(|(place, byte)| *place = byte);
    field
}

#[unsafe(no_mangle)]
pub extern "C" fn aclsysGetCANNVersionImpl(_package: i32, version: Out<PackageVersion>) -> Status {
    let [whole, major, minor, release, patch] = *PACKAGE_VERSION;
    written(version.set(PackageVersion {
        version: field(whole),
        major: field(major),
        minor: field(minor),
        release: field(release),
        patch: field(patch),
        reserved: [0; 128],
    }))
}

/// `buffer` holds 128 bytes by the interface's contract.
#[unsafe(no_mangle)]
pub extern "C" fn aclsysGetVersionStrImpl(package: Text, buffer: TextBuffer) -> Status {
    if package.get().is_none() {
        return INVALID_PARAMETER;
    }
    written(buffer.set(RELEASE, 128))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetVersionImpl(major: Out<i32>, minor: Out<i32>, patch: Out<i32>) -> Status {
    written(major.set(1) && minor.set(13) && patch.set(0))
}

/// Dumping of tensors, which nothing here produces.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlInitDumpImpl() -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlSetDumpImpl(_configuration: Text) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlFinalizeDumpImpl() -> Status {
    OK
}

const _: () = assert!(size_of::<PackageVersion>() == 512);

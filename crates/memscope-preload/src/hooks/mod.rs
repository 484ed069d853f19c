//! Every function the library exports, by the library it belongs to.
mod acl;
pub(crate) mod atb;
mod dl;
mod exec;
mod hal;
mod mstx;
mod process;
mod runtime;
mod sandbox;
mod storage;

use crate::api;
use crate::original::{
    ACL, ACL_ABSENT, ACL_IMPLEMENTATION, ACL_LAUNCH_ABSENT, ATB, C10, DRIVER, DRIVER_ABSENT, FAILED, LIBC,
    NO_SYSTEM_CALL, Original, RUNTIME, RUNTIME_ABSENT, TORCH,
};
use crate::torch;
use core::ffi::{c_char, c_int, c_long, c_void};
use memscope_hook::Api;

memscope_hook::hooks! {
    originals found by Original;

    entered {
        halMemAlloc(address: *mut *mut c_void, size: u64, flag: u64) -> c_int,
            in DRIVER.with_inner(c"halMemAllocInner"), else DRIVER_ABSENT => hal::allocate;
        halMemFree(address: *mut c_void) -> c_int,
            in DRIVER.with_inner(c"halMemFreeInner"), else DRIVER_ABSENT => hal::free;
        halMemCreate(handle: *mut *mut c_void, size: usize, properties: *const hal::Properties, flag: u64) -> c_int,
            in DRIVER.with_inner(c"halMemCreateInner"), else DRIVER_ABSENT => hal::create;
        halMemRelease(handle: *mut c_void) -> c_int,
            in DRIVER.with_inner(c"halMemReleaseInner"), else DRIVER_ABSENT => hal::release;

        // Not `aclrtMalloc`: MindSpore finds CANN by asking who defines it.
        aclInit(config: *const c_char) -> c_int, in ACL, else ACL_ABSENT => acl::initialise;
        aclFinalize() -> c_int, in ACL, else ACL_ABSENT => acl::finalise;
        aclrtSetDevice(device: i32) -> c_int, in ACL, else ACL_ABSENT => acl::set_device;
        aclrtHostRegisterV2(address: *mut c_void, size: u64, flag: u32) -> c_int, in ACL, else ACL_ABSENT
            => acl::host_register;
        aclrtHostUnregister(address: *mut c_void) -> c_int, in ACL, else ACL_ABSENT => acl::host_unregister;

        rtStreamBeginCapture(stream: usize, mode: c_int) -> c_int, in RUNTIME, else RUNTIME_ABSENT => runtime::begin_capture;
        rtStreamEndCapture(stream: usize, model: *mut *mut c_void) -> c_int, in RUNTIME, else RUNTIME_ABSENT
            => runtime::end_capture;
    }
    plain {
        mlockall(flags: c_int) -> c_int, in LIBC, else FAILED => process::lock_all;

        execve(path: *const c_char, arguments: exec::Texts, environment: exec::Texts) -> c_int,
            in LIBC, else FAILED => exec::execute;
        execv(path: *const c_char, arguments: exec::Texts) -> c_int, in LIBC, else FAILED => exec::execute_here;
        execvpe(name: *const c_char, arguments: exec::Texts, environment: exec::Texts) -> c_int,
            in LIBC, else FAILED => exec::search;
        execvp(name: *const c_char, arguments: exec::Texts) -> c_int, in LIBC, else FAILED => exec::search_here;
        posix_spawn(
            pid: usize, path: *const c_char, actions: usize, attributes: usize, arguments: exec::Texts,
            environment: exec::Texts,
        ) -> c_int,
            in LIBC, else NO_SYSTEM_CALL => exec::spawn;
        posix_spawnp(
            pid: usize, name: *const c_char, actions: usize, attributes: usize, arguments: exec::Texts,
            environment: exec::Texts,
        ) -> c_int,
            in LIBC, else NO_SYSTEM_CALL => exec::spawn_found;
    }
    variadic {
        execl -> c_int => exec::execute_list;
        execlp -> c_int => exec::search_list;
        execle -> c_int => exec::execute_list_in;
    }
    wrapped {
        fork() -> c_int, in LIBC, else FAILED => process::fork_by;
        // Without what libraries registered for a fork, so that a signal handler may call it.
        _Fork() -> c_int, in LIBC, else FAILED => process::fork_by;
        // Not `dlopen`: it looks up its caller for `RPATH`.
        dlclose(handle: *mut c_void) -> c_int, in LIBC, else FAILED => dl::close_by;

        // Kernel launches. Each argument is an integer or a pointer and passed on as a word; none is looked at.
        rtKernelLaunch(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_int,
            in RUNTIME, else RUNTIME_ABSENT => runtime::launch_by;
        rtKernelLaunchWithHandleV2(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize) -> c_int,
            in RUNTIME, else RUNTIME_ABSENT => runtime::launch_by;
        rtKernelLaunchWithFlagV2(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize) -> c_int,
            in RUNTIME, else RUNTIME_ABSENT => runtime::launch_by;
        rtAicpuKernelLaunchExWithArgs(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize) -> c_int,
            in RUNTIME, else RUNTIME_ABSENT => runtime::launch_by;
        rtLaunchKernelByFuncHandle(a: usize, b: usize, c: usize, d: usize) -> c_int,
            in RUNTIME, else RUNTIME_ABSENT => runtime::launch_by;
        rtLaunchKernelByFuncHandleV2(a: usize, b: usize, c: usize, d: usize, e: usize) -> c_int,
            in RUNTIME, else RUNTIME_ABSENT => runtime::launch_by;
        aclrtLaunchKernelImpl(a: usize, b: usize, c: usize, d: usize, e: usize) -> c_int,
            in ACL_IMPLEMENTATION, else ACL_LAUNCH_ABSENT => runtime::launch_by;
        aclrtLaunchKernelV2Impl(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_int,
            in ACL_IMPLEMENTATION, else ACL_LAUNCH_ABSENT => runtime::launch_by;
        aclrtLaunchKernelWithConfig(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_int,
            in ACL, else ACL_LAUNCH_ABSENT => runtime::launch_by;
        aclrtLaunchKernelWithHostArgs(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize,
        ) -> c_int,
            in ACL, else ACL_LAUNCH_ABSENT => runtime::launch_by;
    }
    around {
        // ATB is built twice, for the two forms of `std::string`: names that mention it are here for both.
        Execute is _ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE(runner: usize, pack: *const atb::VariantPack),
            in ATB => atb::execute, atb::executed;
        SaveOld is _ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKSs(
            stream: usize, kernel: usize, path: *const usize,
        ),
            in ATB => atb::save_old;
        SaveCxx11 is
            _ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
                stream: usize, kernel: usize, path: *const usize,
            ),
            in ATB => atb::save_cxx11;
        NeedSaveOld is _ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKSs(ids: usize, kind: usize),
            in ATB => atb::probe::need_save_old, atb::probe::need_save_said;
        NeedSaveCxx11 is
            _ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
                ids: usize, kind: usize,
            ),
            in ATB => atb::probe::need_save_cxx11, atb::probe::need_save_said;
        SaveBefore is _ZN3atb5Probe18IsSaveTensorBeforeEv(), in ATB => atb::probe::save_before;
        SaveAfter is _ZN3atb5Probe17IsSaveTensorAfterEv(), in ATB => atb::probe::save_after;
        InRange is _ZN3atb5Probe21IsExecuteCountInRangeEm(count: u64), in ATB => atb::probe::in_range;
        SaveDescription is _ZN3atb5Probe16IsSaveTensorDescEv(), in ATB => atb::probe::save_description;
        RunnerSaves is _ZNK3atb6Runner12IsSaveTensorEv(runner: usize), in ATB => atb::probe::runner_saves;

        AllocCpu is _ZN3c109alloc_cpuEm(size: usize), in C10
            => storage::allocate_storage, storage::allocated_storage, storage::refused_storage;
        FreeCpu is _ZN3c108free_cpuEPv(address: usize), in C10 => storage::free_storage;
        // Called once, when Python has loaded torch: from then on its operators can be observed.
        EngineStub is _ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE(engine: usize),
            in TORCH => torch::loaded;
    }
    gated {
        // Called for each call of torch's dispatcher.
        StepCallbacks is _ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE(scope: u8), in TORCH, by torch::GATE
            => torch::asked, torch::answered;
    }
    chosen {
        prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int,
            in LIBC, for sandbox::PR_SET_SECCOMP, sandbox::PR_SET_TSC => sandbox::watched_prctl;
        syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long,
            in LIBC, for sandbox::SYS_SECCOMP, sandbox::SYS_PRCTL => sandbox::watched_syscall;
    }
    own {
        InitInjectionMstx(get_table: Option<mstx::GetTable>) -> c_int => mstx::initialise;
        msmemscope_api() -> *const Api => api::table;
    }
}

/// Those that may be called where nothing may be searched.
pub(crate) fn find_originals() {
    process::find_originals();
    exec::find_originals();
}
pub(crate) use sandbox::find_originals as find_sandbox_originals;

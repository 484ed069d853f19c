//! ATB, the library of transformer operators: its operators, their kernels, and the tensors both are given.
//!
//! ATB is C++ and built twice, for the two forms of `std::string`. The mangled names that mention strings differ, so that
//! hooks for both are here; the others are the same. A function we only ask something may be missing, or its string may
//! be one we cannot end: then the event says less, and the operator runs all the same.
mod helper;
mod layout;
mod probe;
mod text;

use super::recording;
use crate::around::Next;
use crate::original::Original;
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use helper::{Helper, KeptErrno};
use layout::{InlineVector, KernelTensor, Tensor, VariantPack, each_kernel_tensor};
use memscope_recorder::atb::{self, Access, AccessMode, Operator, Phase, TensorOwner};
use memscope_recorder::device::UNKNOWN_DEVICE;
use memscope_recorder::wanted;
use text::{Abi, ReturnedText};

const LIBRARY: &CStr = c"libatb.so";
static EXECUTE: Original = Original::of(LIBRARY, c"_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE");
static SAVE_OLD: Original = Original::of(LIBRARY, c"_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKSs");
static SAVE_CXX11: Original = Original::of(
    LIBRARY,
    c"_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
);

around!(_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE => execute, executed);
around!(_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKSs => save_old, unchanged);
around!(
    _ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
        => save_cxx11, unchanged
);
around!(
    _ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKSs => probe::need_save_old, probe::need_save_said
);
around!(
    _ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
        => probe::need_save_cxx11, probe::need_save_said
);
around!(_ZN3atb5Probe18IsSaveTensorBeforeEv => probe::save_before, unchanged);
around!(_ZN3atb5Probe17IsSaveTensorAfterEv => probe::save_after, unchanged);
around!(_ZN3atb5Probe21IsExecuteCountInRangeEm => probe::in_range, unchanged);
around!(_ZN3atb5Probe16IsSaveTensorDescEv => probe::save_description, unchanged);
around!(_ZNK3atb6Runner12IsSaveTensorEv => probe::runner_saves, unchanged);

unsafe extern "C" fn unchanged(answer: usize, _token: usize, _stack: usize, _frame: usize) -> usize {
    answer
}

/// What ATB says of an internal failure (`ERROR_INTERNAL_ERROR`).
const ABSENT: usize = 3;

/// `atb::Status atb::Runner::Execute(atb::RunnerVariantPack &)`.
unsafe extern "C" fn execute(runner: usize, pack: *const VariantPack, _: usize, stack: usize, frame: usize) -> Next {
    /// Numbers launches across the process; 0 is none.
    static LAUNCHES: AtomicU64 = AtomicU64::new(1);
    let original = EXECUTE.address();
    if original == 0 {
        return Next::answer(ABSENT);
    }
    let wanted = wanted();
    if !(wanted.operators || wanted.accesses) || !atb::is_traced() || pack.is_null() {
        return Next::jump(original);
    }
    let mut launch = 0;
    recording(stack, frame, |entry| {
        let _errno = KeptErrno::keep();
        launch = LAUNCHES.fetch_add(1, Relaxed);
        let device = current_device();
        let (mut name, mut path) = (ReturnedText::empty(), ReturnedText::empty());
        // SAFETY: the arguments are ATB's own; the guard is held and the entry is ours.
        unsafe {
            name.ask(runner, &NAME_OLD, &NAME_CXX11);
            path.ask(runner, &PATH_OLD, &PATH_CXX11);
            let (workspace, workspace_size) = VariantPack::workspace(pack);
            let (name, path) = (name.text(), path.text());
            atb::operator_start(&Operator { launch, device, workspace, workspace_size, path, name }, entry);
            if wanted.accesses {
                // Operators write into some of their inputs, such as caches, and do not say into which.
                VariantPack::each_in_tensor(pack, accessed(AccessMode::Unknown, TensorOwner::AtbOperator, device));
                VariantPack::each_out_tensor(pack, accessed(AccessMode::Write, TensorOwner::AtbOperator, device));
            }
        }
    });
    match launch {
        // Part of another hook's recording.
        0 => Next::jump(original),
        launch => Next::call(original, launch as usize),
    }
}

unsafe extern "C" fn executed(answer: usize, launch: usize, stack: usize, frame: usize) -> usize {
    // SAFETY: the guard is held.
    recording(stack, frame, |_| unsafe { atb::operator_end(launch as u64) });
    answer
}

static NAME_OLD: Helper = Helper::of(LIBRARY, c"_ZNK3atb6Runner16GetOperationNameEv");
static NAME_CXX11: Helper = Helper::of(LIBRARY, c"_ZNK3atb6Runner16GetOperationNameB5cxx11Ev");
static PATH_OLD: Helper = Helper::of(LIBRARY, c"_ZNK3atb6Runner16GetSaveTensorDirEv");
static PATH_CXX11: Helper = Helper::of(LIBRARY, c"_ZNK3atb6Runner16GetSaveTensorDirB5cxx11Ev");

/// Records an access to each tensor that has memory. The guard must be held when it is called.
fn accessed(mode: AccessMode, owner: TensorOwner, device: u32) -> impl Fn(Tensor<'_>) {
    move |tensor| {
        let Tensor { address, size, dtype, format, dimensions } = tensor;
        if address != 0 {
            // SAFETY: the guard is held.
            unsafe { atb::access(&Access { mode, owner, device, address, size, dtype, format, dimensions }) };
        }
    }
}

/// The device of the thread, in the program's numbers. ATB asks for it itself whenever it registers memory.
fn current_device() -> u32 {
    static GET_DEVICE: Helper = Helper::of(c"libascendcl.so", c"aclrtGetDevice");
    let address = GET_DEVICE.address();
    if address == 0 {
        return UNKNOWN_DEVICE;
    }
    // SAFETY: the address is that of the C function of this name, which has this type.
    let get_device: unsafe extern "C" fn(*mut i32) -> c_int = unsafe { core::mem::transmute(address) };
    let mut device = -1;
    // SAFETY: the function stores a number there or fails.
    let answer = unsafe { get_device(&raw mut device) };
    if answer == 0 { u32::try_from(device).unwrap_or(UNKNOWN_DEVICE) } else { UNKNOWN_DEVICE }
}

unsafe extern "C" fn save_old(_: usize, kernel: usize, path: *const usize, stack: usize, frame: usize) -> Next {
    // SAFETY: passed on.
    unsafe { save(&SAVE_OLD, Abi::Old, kernel, path, stack, frame) }
}

unsafe extern "C" fn save_cxx11(_: usize, kernel: usize, path: *const usize, stack: usize, frame: usize) -> Next {
    // SAFETY: passed on.
    unsafe { save(&SAVE_CXX11, Abi::Cxx11, kernel, path, stack, frame) }
}

/// `void atb::StoreUtil::SaveLaunchParam(void *stream, const Mki::LaunchParam &, const std::string &path)`, called before
/// and after a kernel is launched. Nothing is saved if ATB does so for us alone.
///
/// # Safety
/// The arguments are ATB's own.
unsafe fn save(original: &Original, abi: Abi, kernel: usize, path: *const usize, stack: usize, frame: usize) -> Next {
    let wanted = wanted();
    if (wanted.kernels || wanted.kernel_accesses) && atb::is_traced() && !path.is_null() {
        recording(stack, frame, |_| {
            let _errno = KeptErrno::keep();
            // SAFETY: the arguments are ATB's own, whose string is of this form; the guard is held.
            unsafe {
                let path = abi.text(path);
                let phase = if path.ends_with(b"/after") { Phase::End } else { Phase::Start };
                let device = current_device();
                atb::kernel(phase, device, path);
                if wanted.kernel_accesses && phase == Phase::Start {
                    access_kernel_tensors(kernel, device);
                }
            }
        });
    }
    if probe::only_we_ask() { Next::answer(0) } else { Next::jump(original.address()) }
}

/// # Safety
/// `kernel` is a `Mki::LaunchParam`; the guard is held.
unsafe fn access_kernel_tensors(kernel: usize, device: u32) {
    static IN_TENSORS: Helper = Helper::of(LIBRARY, c"_ZN3Mki11LaunchParam12GetInTensorsEv");
    static OUT_TENSORS: Helper = Helper::of(LIBRARY, c"_ZN3Mki11LaunchParam13GetOutTensorsEv");
    type Get = unsafe extern "C" fn(usize) -> *const InlineVector<KernelTensor>;
    for (helper, mode) in [(&IN_TENSORS, AccessMode::Unknown), (&OUT_TENSORS, AccessMode::Write)] {
        let address = helper.address();
        if address == 0 {
            continue;
        }
        // SAFETY: the symbol is a member function of this type, which returns a reference into the object.
        unsafe {
            let get: Get = core::mem::transmute(address);
            let tensors = get(kernel);
            if !tensors.is_null() {
                each_kernel_tensor(tensors, accessed(mode, TensorOwner::AtbKernel, device));
            }
        }
    }
}

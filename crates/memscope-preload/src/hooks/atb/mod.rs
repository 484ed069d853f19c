//! ATB, the library of transformer operators: its operators, their kernels, and the tensors both are given.
//!
//! ATB is C++ and built twice, for the two forms of `std::string`. The mangled names that mention strings differ, so that
//! hooks for both are here; the others are the same. A function we only ask something may be missing, or its string may
//! be one we cannot end: then the event says less, and the operator runs all the same.
mod helper;
mod layout;
pub(super) mod probe;
mod stream;
mod text;

use super::{Execute, SaveCxx11, SaveOld};
use crate::original::{ACL, ATB, Original};
use crate::recording::recording;
use crate::watched_memory::Runtime;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub(crate) use helper::{Helper, KeptErrno};
pub(crate) use layout::VariantPack;
use layout::{InlineVector, KernelTensor, Tensor, each_kernel_tensor};
use memscope_hook::Entry;
use memscope_hook::around::Next;
use memscope_recorder::atb::{self, Access, AccessMode, Operator, Phase, TensorOwner};
use memscope_recorder::device::LogicalDevice;
use memscope_recorder::slot::Guard;
use memscope_recorder::watch::{self, GivenFor, WatchSource};
use memscope_recorder::{Extended, event, wanted};
use stream::execute_stream;
use text::{Abi, ReturnedText};

/// What ATB says of an internal failure (`ERROR_INTERNAL_ERROR`).
const ABSENT: usize = 3;

/// `atb::Status atb::Runner::Execute(atb::RunnerVariantPack &)`.
pub(super) unsafe extern "C" fn execute(runner: usize, pack: *const VariantPack, entry: Entry) -> Next {
    /// Numbers operators across the process; 0 is none.
    static OPERATORS: AtomicU64 = AtomicU64::new(1);
    let original = Execute::ORIGINAL.address();
    if original == 0 {
        return Next::answer(ABSENT);
    }
    let wanted = wanted();
    if !(wanted.operators || wanted.accesses || watch::is_on()) || !atb::is_traced() || pack.is_null() {
        return Next::jump(original);
    }
    let mut number = 0;
    recording(entry, |guard| {
        let _errno = KeptErrno::keep();
        number = OPERATORS.fetch_add(1, Relaxed);
        let device = current_device();
        let (mut name, mut path) = (ReturnedText::empty(), ReturnedText::empty());
        // SAFETY: the arguments are ATB's own.
        unsafe {
            name.ask(runner, NameOld::ORIGINAL, NameCxx11::ORIGINAL);
            path.ask(runner, PathOld::ORIGINAL, PathCxx11::ORIGINAL);
            let (workspace, workspace_size) = VariantPack::workspace(pack);
            let (name, path) = (name.text(), path.text());
            let stream = execute_stream(runner, pack);
            if wanted.operators || wanted.accesses {
                let handle = stream.unwrap_or(0) as u64;
                let operator = Operator { number, device, workspace, workspace_size, stream: handle, path, name };
                atb::operator_start(guard, &operator);
            }
            if wanted.accesses {
                // Operators write into some of their inputs, such as caches, and do not say into which.
                VariantPack::each_in_tensor(
                    pack,
                    accessed(guard, AccessMode::Unknown, TensorOwner::AtbOperator, device),
                );
                VariantPack::each_out_tensor(
                    pack,
                    accessed(guard, AccessMode::Write, TensorOwner::AtbOperator, device),
                );
            }
            if watch::at_operators() {
                let operator = watched_operator(WatchSource::AtbOperator, number, path, name);
                let memory = Runtime::of_operator(number, stream);
                watch::begins(guard, &operator, &|visit| each_watched_tensor(pack, visit), &memory);
            }
        }
    });
    match number {
        // Part of another hook's recording.
        0 => Next::jump(original),
        number => Next::call(original, number as usize),
    }
}

pub(super) unsafe extern "C" fn executed(answer: usize, number: usize, entry: Entry) -> usize {
    recording(entry, |guard| {
        if watch::at_operators() {
            let _errno = KeptErrno::keep();
            let operator = watched_operator(WatchSource::AtbOperator, number as u64, b"", b"");
            watch::ends(guard, &operator, &|_| {}, &Runtime::of_ending_operator(number as u64));
        }
        let wanted = wanted();
        if wanted.operators || wanted.accesses {
            event(guard, &Extended::AtbOperatorEnd { launch: number as u64 });
        }
    });
    answer
}

/// ATB's paths begin with the device and the process; users name operators by the rest, or by the operation.
fn watched_operator<'a>(source: WatchSource, number: u64, path: &'a [u8], name: &'a [u8]) -> watch::Operator<'a> {
    let behind_first = path.iter().position(|byte| *byte == b'/').and_then(|at| path.get(at + 1..));
    let long = behind_first.filter(|rest| !rest.is_empty()).unwrap_or(if path.is_empty() { name } else { path });
    watch::Operator { source, number, kernel: 0, name: long, short_name: name }
}

fn watched_tensor(given: GivenFor, tensor: &Tensor<'_>) -> watch::Tensor {
    watch::Tensor { given, device: LogicalDevice::UNKNOWN, address: tensor.address, size: tensor.size }
}

/// Operators write into some of their inputs, and do not say into which.
///
/// # Safety
/// `pack` is one of ATB's.
unsafe fn each_watched_tensor(pack: *const VariantPack, visit: &mut dyn FnMut(watch::Tensor)) {
    // SAFETY: the caller's.
    unsafe {
        VariantPack::each_in_tensor(pack, |tensor| visit(watched_tensor(GivenFor::Unknown, &tensor)));
        VariantPack::each_out_tensor(pack, |tensor| visit(watched_tensor(GivenFor::Writing, &tensor)));
    }
}

memscope_hook::functions! {
    found by Helper;
    // Each returns a string, of the form its name says.
    NameOld is _ZNK3atb6Runner16GetOperationNameEv(runner: usize), in ATB;
    NameCxx11 is _ZNK3atb6Runner16GetOperationNameB5cxx11Ev(runner: usize), in ATB;
    PathOld is _ZNK3atb6Runner16GetSaveTensorDirEv(runner: usize), in ATB;
    PathCxx11 is _ZNK3atb6Runner16GetSaveTensorDirB5cxx11Ev(runner: usize), in ATB;
    // Each returns a reference into the object.
    InTensors is _ZN3Mki11LaunchParam12GetInTensorsEv(kernel: usize) -> *const InlineVector<KernelTensor>, in ATB;
    OutTensors is _ZN3Mki11LaunchParam13GetOutTensorsEv(kernel: usize) -> *const InlineVector<KernelTensor>, in ATB;
    aclrtGetDevice(device: *mut i32) -> c_int, in ACL;
}

/// Records an access to each tensor that has memory.
fn accessed(guard: &Guard<'_>, mode: AccessMode, owner: TensorOwner, device: LogicalDevice) -> impl Fn(Tensor<'_>) {
    move |tensor| {
        let Tensor { address, size, dtype, format, dimensions } = tensor;
        if address.0 != 0 {
            atb::access(guard, &Access { mode, owner, device, address, size, dtype, format, dimensions });
        }
    }
}

/// The device of the thread. ATB asks for it itself whenever it registers memory.
pub(crate) fn current_device() -> LogicalDevice {
    let Some(get_device) = aclrtGetDevice::find() else { return LogicalDevice::UNKNOWN };
    let mut device = -1;
    // SAFETY: the function stores a number there or fails.
    let answer = unsafe { get_device(&raw mut device) };
    let known = u32::try_from(device).ok().filter(|_| answer == 0);
    known.map_or(LogicalDevice::UNKNOWN, LogicalDevice)
}

pub(super) unsafe extern "C" fn save_old(stream: usize, kernel: usize, path: *const usize, entry: Entry) -> Next {
    // SAFETY: passed on.
    unsafe { save(SaveOld::ORIGINAL, Abi::Old, Kernel { stream, parameters: kernel }, path, entry) }
}

pub(super) unsafe extern "C" fn save_cxx11(stream: usize, kernel: usize, path: *const usize, entry: Entry) -> Next {
    // SAFETY: passed on.
    unsafe { save(SaveCxx11::ORIGINAL, Abi::Cxx11, Kernel { stream, parameters: kernel }, path, entry) }
}

/// A kernel that is launched.
#[derive(Clone, Copy)]
struct Kernel {
    stream: usize,
    /// A `Mki::LaunchParam`.
    parameters: usize,
}

/// `void atb::StoreUtil::SaveLaunchParam(void *stream, const Mki::LaunchParam &, const std::string &path)`, called before
/// and after a kernel is launched. Nothing is saved if ATB does so for us alone.
///
/// # Safety
/// The arguments are ATB's own.
unsafe fn save(original: &Original, abi: Abi, kernel: Kernel, path: *const usize, entry: Entry) -> Next {
    let wanted = wanted();
    if (wanted.kernels || wanted.kernel_accesses) && atb::is_traced() && !path.is_null() {
        recording(entry, |guard| {
            let _errno = KeptErrno::keep();
            // SAFETY: the arguments are ATB's own, whose string is of this form.
            unsafe {
                let path = abi.text(path);
                let phase = if path.ends_with(b"/after") { Phase::End } else { Phase::Start };
                let device = current_device();
                atb::kernel(guard, phase, device, path);
                if wanted.kernel_accesses && phase == Phase::Start {
                    access_kernel_tensors(guard, kernel.parameters, device);
                }
                if watch::at_kernels() {
                    watch_kernel(guard, phase, kernel, path);
                }
            }
        });
    }
    if probe::only_we_ask() { Next::answer(0) } else { Next::jump(original.address()) }
}

/// Its number is where its parameters are: they stay there while it is at work.
///
/// # Safety
/// `kernel` is ATB's own.
unsafe fn watch_kernel(guard: &Guard<'_>, phase: Phase, kernel: Kernel, path: &[u8]) {
    let Kernel { stream, parameters } = kernel;
    let side = if phase == Phase::Start { b"/before".as_slice() } else { b"/after" };
    let path = path.strip_suffix(side).unwrap_or(path);
    let name = path.iter().rposition(|byte| *byte == b'/').and_then(|at| path.get(at + 1..)).unwrap_or(path);
    let operator = watched_operator(WatchSource::AtbKernel, parameters as u64, path, name);
    let memory = Runtime::of_stream(stream);
    match phase {
        Phase::Start => {
            watch::begins(
                guard,
                &operator,
                &|visit| {
                    for (get, given) in
                        [(InTensors::find(), GivenFor::Unknown), (OutTensors::find(), GivenFor::Writing)]
                    {
                        let Some(get) = get else { continue };
                        // SAFETY: the caller vouches for the kernel.
                        unsafe {
                            let tensors = get(parameters);
                            if !tensors.is_null() {
                                each_kernel_tensor(tensors, |tensor| visit(watched_tensor(given, &tensor)));
                            }
                        }
                    }
                },
                &memory,
            );
            watch::enter_named_kernel();
        }
        Phase::End => {
            watch::leave_named_kernel();
            watch::ends(guard, &operator, &|_| {}, &memory);
        }
    }
}

/// # Safety
/// `kernel` is a `Mki::LaunchParam`.
unsafe fn access_kernel_tensors(guard: &Guard<'_>, kernel: usize, device: LogicalDevice) {
    for (get, mode) in [(InTensors::find(), AccessMode::Unknown), (OutTensors::find(), AccessMode::Write)] {
        let Some(get) = get else { continue };
        // SAFETY: the caller vouches for the kernel.
        unsafe {
            let tensors = get(kernel);
            if !tensors.is_null() {
                each_kernel_tensor(tensors, accessed(guard, mode, TensorOwner::AtbKernel, device));
            }
        }
    }
}

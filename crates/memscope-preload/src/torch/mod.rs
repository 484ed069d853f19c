//! An observer of torch: it is told of every call of torch's dispatcher, in every thread, and records operators.
//!
//! torch calls observers by a list that must not shrink while it runs, so ours is registered once and never removed; while nothing
//! is traced torch is told to leave it out. Before torch's library is loaded there is nothing to register with. When Python has
//! loaded it, it calls a function that is hooked; a program that has it already, or that is not Python, is looked at when tracing
//! begins and when it uses a device.
mod listening;
mod observer;
mod streams;

use crate::hooks::EngineStub;
use crate::original::{C10, Original, TORCH};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
pub(crate) use listening::{GATE, answered, asked, library_unloaded};
use memscope_hook::Entry;
use memscope_hook::around::Next;
use memscope_recorder::sys::loader::{self, Object};
use memscope_recorder::{aten, is_host_wanted, wanted, watch};
use memscope_torch::callback::Callback;
use memscope_torch::layout::Layout;
use memscope_torch::version::{
    CXX11_STRING_FUNCTION, OLD_STRING_FUNCTION, SINCE_2_4, StringForm, VERSION_FUNCTION, Version,
};
use memscope_torch::{Functions, Torch};
pub(crate) use observer::kernels_added;

memscope_hook::functions! {
    found by Original;
    AddObserver is _ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE(callback: Callback) -> u64, in TORCH;
    DisableObserver is _ZN2at15disableCallbackEm(handle: u64), in TORCH;
    EnableObserver is _ZN2at16reenableCallbackEm(handle: u64), in TORCH;
    Name is _ZNK2at14RecordFunction4nameEv(call: usize) -> *const c_char, in TORCH;
    NumberOfInputs is _ZNK2at14RecordFunction10num_inputsEv(call: usize) -> usize, in TORCH;
    NumberOfOutputs is _ZNK2at14RecordFunction11num_outputsEv(call: usize) -> usize, in TORCH;
    HasKernel is _ZNK3c104impl13OperatorEntry23hasKernelForDispatchKeyENS_11DispatchKeyE(entry: usize, key: u16) -> bool,
        in TORCH;
    KeyName is _ZN3c108toStringENS_11DispatchKeyE(key: u16) -> *const c_char, in C10;
}

/// The one tensor that is not defined.
const UNDEFINED_TENSOR: &CStr = c"_ZN3c1019UndefinedTensorImpl10_singletonE";

/// What is registered with a torch. Written once, by whoever turns the state from [`ABSENT`].
struct Observer {
    state: AtomicU32,
    torch: UnsafeCell<MaybeUninit<Torch>>,
    handle: AtomicU64,
    /// Whether torch is asked to call it.
    is_enabled: AtomicU32,
}

// SAFETY: `torch` is written by one thread before the state says that it is there.
unsafe impl Sync for Observer {}

const ABSENT: u32 = 0;
const COMING: u32 = 1;
const THERE: u32 = 2;

static OBSERVER: Observer = Observer {
    state: AtomicU32::new(ABSENT),
    torch: UnsafeCell::new(MaybeUninit::uninit()),
    handle: AtomicU64::new(0),
    is_enabled: AtomicU32::new(0),
};

/// The torch that is observed.
#[inline(always)]
fn observed() -> Option<&'static Torch> {
    if OBSERVER.state.load(Acquire) != THERE {
        return None;
    }
    // SAFETY: written before the state.
    Some(unsafe { (*OBSERVER.torch.get()).assume_init_ref() })
}

/// Python has loaded torch.
pub(crate) unsafe extern "C" fn loaded(_engine: usize, _: Entry) -> Next {
    look();
    listening::set_gate();
    Next::jump(EngineStub::ORIGINAL.address())
}

/// Registers with torch if it is in the process by now, and what it tells is wanted and traced.
pub(crate) fn look() {
    let wanted = wanted();
    let is_watched = watch::at_operators_of_torch();
    if !(wanted.aten_operators || wanted.aten_accesses || is_watched) || !aten::is_traced() {
        return;
    }
    if OBSERVER.state.compare_exchange(ABSENT, COMING, AcqRel, Relaxed).is_err() {
        if is_watched {
            ask_for_tensors();
        }
        return;
    }
    let is_there = register(wanted.aten_accesses, is_watched);
    OBSERVER.state.store(if is_there { THERE } else { ABSENT }, Release);
}

/// An observer that was registered to hear of operators only is left out from now on, and another takes its place: whether a watched block is
/// an operator's own, its tensors tell.
fn ask_for_tensors() {
    let (Some(torch), Some(add), Some(disable)) = (observed(), AddObserver::find(), DisableObserver::find()) else {
        return;
    };
    if torch.layout.is_none() || observer::has_tensors() {
        return;
    }
    if !listening::is_registered() {
        observer::callback(true);
        return;
    }
    // SAFETY: torch's own functions, and the handle of the one observer that is enabled.
    unsafe {
        disable(OBSERVER.handle.load(Relaxed));
        OBSERVER.handle.store(add(observer::callback(true)), Relaxed);
    }
}

/// Not under the guard: what torch allocates for its list it will free one day, and both belong to the program.
fn register(accesses: bool, is_watched: bool) -> bool {
    let (Some(torch_library), Some(core)) = (loader::loaded(c"libtorch_cpu.so"), loader::loaded(c"libc10.so")) else {
        return false;
    };
    let Some(functions) = functions(&core) else { return false };
    let Some(add) = AddObserver::find() else { return false };
    let layout = layout(&torch_library, &core);
    let tensors = (accesses || is_watched) && layout.is_some();
    observer::configure(accesses, wanted().aten_operators, is_host_wanted());
    // SAFETY: the state says that nobody else writes or reads it.
    unsafe { (*OBSERVER.torch.get()).write(Torch::new(functions, layout)) };
    // SAFETY: torch's own function, whose argument has been the same in all versions.
    let handle = unsafe { add(observer::callback(tensors)) };
    OBSERVER.handle.store(handle, Relaxed);
    OBSERVER.is_enabled.store(1, Release);
    listening::registered(layout.is_some());
    true
}

fn functions(core: &Object) -> Option<Functions> {
    Some(Functions {
        name: Name::find()?,
        number_of_inputs: NumberOfInputs::find()?,
        number_of_outputs: NumberOfOutputs::find()?,
        has_kernel: HasKernel::find(),
        key_name: KeyName::find(),
        undefined_tensor: core.find(UNDEFINED_TENSOR).unwrap_or(0),
    })
}

fn layout(torch: &Object, core: &Object) -> Option<&'static Layout> {
    let strings = match (core.find(OLD_STRING_FUNCTION), core.find(CXX11_STRING_FUNCTION)) {
        (Some(_), None) => StringForm::Old,
        (None, Some(_)) => StringForm::Cxx11,
        _ => return None,
    };
    let version = match torch.find(VERSION_FUNCTION) {
        Some(address) => {
            // SAFETY: the function of this name takes nothing and returns a number.
            let number = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> u64>(address)() };
            Version::from_number(number)
        }
        None => Version::without_number(torch.find(SINCE_2_4).is_some()),
    };
    Layout::of(version, strings)
}

/// Tracing began or ended: an observer that nobody listens to need not be called.
pub(crate) fn tracing_changed() {
    look();
    if observed().is_none() {
        return;
    }
    listening::set_gate();
    if !listening::is_registered() {
        return;
    }
    let (Some(disable), Some(enable)) = (DisableObserver::find(), EnableObserver::find()) else { return };
    let is_traced = u32::from(aten::is_traced());
    if OBSERVER.is_enabled.swap(is_traced, AcqRel) != is_traced {
        let handle = OBSERVER.handle.load(Relaxed);
        // SAFETY: torch's own functions, and the handle of the one observer we have.
        unsafe { if is_traced == 1 { enable(handle) } else { disable(handle) } };
    }
}

//! Kernel launches: the runtime's functions and those of ACL, which call the runtime's.
//!
//! All arguments are integers or pointers, so each is passed on as a word and none is looked at.
use super::{hidden, profiling, task_log};
use crate::original::{ACL_LAUNCH_ABSENT, Original, RUNTIME_ABSENT};
use core::ffi::{CStr, c_int};
use memscope_recorder::kernel;
use memscope_recorder::slot::Launch;

const RUNTIME: &CStr = c"libruntime.so";
const ACL: &CStr = c"libascendcl.so";
const IMPLEMENTATION: &CStr = c"libascendcl_impl.so";
const IMPLEMENTATION_ELSEWHERE: &CStr = c"libacl_rt_impl.so";

/// `name(argument, …) is original, else answer`: an exported function that stands in front of the original, and what it
/// answers where there is none.
macro_rules! launches {
    ($($name:ident($($argument:ident),*) is $original:expr, else $absent:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: usize),*) -> c_int {
            static ORIGINAL: Original = $original;
            let address = ORIGINAL.address();
            if address == 0 {
                return $absent;
            }
            type Function = unsafe extern "C" fn($(word!($argument)),*) -> c_int;
            // SAFETY: the address is that of the C function of this name, which takes that many words.
            let original: Function = unsafe { core::mem::transmute(address) };
            let mark = mark(address);
            // SAFETY: the mark is on our stack and does not change.
            let _launch = unsafe { begin(&raw const mark as usize) };
            // SAFETY: the program's own arguments are passed on.
            unsafe { original($($argument),*) }
        }
    )*};
}

macro_rules! word {
    ($argument:ident) => {
        usize
    };
}

launches! {
    rtKernelLaunch(a, b, c, d, e, f) is Original::of(RUNTIME, c"rtKernelLaunch"), else RUNTIME_ABSENT;
    rtKernelLaunchWithHandleV2(a, b, c, d, e, f, g)
        is Original::of(RUNTIME, c"rtKernelLaunchWithHandleV2"), else RUNTIME_ABSENT;
    rtKernelLaunchWithFlagV2(a, b, c, d, e, f, g)
        is Original::of(RUNTIME, c"rtKernelLaunchWithFlagV2"), else RUNTIME_ABSENT;
    rtAicpuKernelLaunchExWithArgs(a, b, c, d, e, f, g)
        is Original::of(RUNTIME, c"rtAicpuKernelLaunchExWithArgs"), else RUNTIME_ABSENT;
    rtLaunchKernelByFuncHandle(a, b, c, d)
        is Original::of(RUNTIME, c"rtLaunchKernelByFuncHandle"), else RUNTIME_ABSENT;
    rtLaunchKernelByFuncHandleV2(a, b, c, d, e)
        is Original::of(RUNTIME, c"rtLaunchKernelByFuncHandleV2"), else RUNTIME_ABSENT;
    aclrtLaunchKernelImpl(a, b, c, d, e)
        is Original::of_either(IMPLEMENTATION, IMPLEMENTATION_ELSEWHERE, c"aclrtLaunchKernelImpl"),
        else ACL_LAUNCH_ABSENT;
    aclrtLaunchKernelV2Impl(a, b, c, d, e, f)
        is Original::of_either(IMPLEMENTATION, IMPLEMENTATION_ELSEWHERE, c"aclrtLaunchKernelV2Impl"),
        else ACL_LAUNCH_ABSENT;
    aclrtLaunchKernelWithConfig(a, b, c, d, e, f)
        is Original::of(ACL, c"aclrtLaunchKernelWithConfig"), else ACL_LAUNCH_ABSENT;
    aclrtLaunchKernelWithHostArgs(a, b, c, d, e, f, g, h)
        is Original::of(ACL, c"aclrtLaunchKernelWithHostArgs"), else ACL_LAUNCH_ABSENT;
}

/// A word no other frame is likely to have at the same place. Unknown to the compiler, so that it is stored.
#[inline(always)]
fn mark(address: usize) -> usize {
    core::hint::black_box(address ^ 0x6d73_6d65_6d73_636f)
}

/// Records a launch, unless kernels are not asked for or this call is part of another launch.
///
/// # Safety
/// As for [`Launch::enter`].
#[inline(always)]
unsafe fn begin(mark: usize) -> Option<Launch> {
    if !memscope_recorder::wanted().kernels {
        return None;
    }
    // SAFETY: passed on.
    let launch = unsafe { Launch::enter(mark) }?;
    if !kernel::is_settled() {
        settle();
    }
    // SAFETY: the guard is held.
    hidden(|| unsafe { kernel::launch() });
    Some(launch)
}

/// Before a thread's first launch, and whenever it may have changed its device.
#[cold]
#[inline(never)]
fn settle() {
    let callbacks = profiling::ensure();
    task_log::ensure(callbacks);
}

//! Executors and launches.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use sim_boundary::{Handle, Out};

const NOT_REPEATABLE: i32 = 561_103;

/// What the first phase of an operator leaves for the second.
pub struct Executor {
    work: Box<dyn Fn()>,
}

/// Arguments of a launch: where they are.
#[repr(C)]
struct Arguments {
    data: usize,
    rest: [u64; 15],
}

unsafe extern "C" {
    safe fn simRtKernel(name: *const c_char, work: Option<extern "C" fn(*mut c_void)>) -> usize;
    safe fn simRtHoldsTasks() -> i32;
    safe fn rtKernelLaunchWithHandleV2(
        handle: usize,
        key: u64,
        blocks: u32,
        arguments: *const Arguments,
        memory: *mut c_void,
        stream: usize,
        configuration: *const c_void,
    ) -> i32;
}

/// An operator's kernel, registered at its first launch.
pub(crate) struct Kernel {
    name: &'static CStr,
    handle: OnceLock<usize>,
}

extern "C" fn execute(executor: *mut c_void) {
    if let Some(executor) = Handle::<Executor>::at(executor as usize).get() {
        (executor.work)();
    }
}

impl Kernel {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, handle: OnceLock::new() }
    }

    /// Second phase: one launch, through the runtime like any other program's. It uses the executor up, unless the kernel may run
    /// later or once more: then it stays to the end of the process.
    pub(crate) fn launch(&self, executor: Handle<Executor>, stream: usize) -> i32 {
        let handle = *self.handle.get_or_init(|| simRtKernel(self.name.as_ptr(), Some(execute)));
        let arguments = Arguments { data: executor.address(), rest: [0; 15] };
        let nothing = std::ptr::null_mut();
        let status = rtKernelLaunchWithHandleV2(handle, 0, 1, &arguments, nothing, stream, nothing);
        if simRtHoldsTasks() == 0 {
            executor.destroy();
        }
        status
    }
}

/// First phase of an operator that computes.
pub(crate) fn plan(executor: Out<Handle<Executor>>, work: impl Fn() + 'static) -> i32 {
    executor.set(Handle::new(Executor { work: Box::new(work) }));
    0
}

/// Refused: most operators have no executor that could be kept. Frameworks then plan anew each time, which also keeps every
/// address they use in view.
#[unsafe(no_mangle)]
pub extern "C" fn aclSetAclOpExecutorRepeatable(_executor: Handle<Executor>) -> i32 {
    NOT_REPEATABLE
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyAclOpExecutor(executor: Handle<Executor>) -> i32 {
    executor.destroy();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnInit(_configuration: *const c_char) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnFinalize() -> i32 {
    0
}

/// Room that an operator's planning may use, per thread; none is needed. Frameworks insist on finding these three.
#[unsafe(no_mangle)]
pub extern "C" fn InitHugeMemThreadLocal(_argument: usize, _shared: u8) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn UnInitHugeMemThreadLocal(_argument: usize, _shared: u8) {}

#[unsafe(no_mangle)]
pub extern "C" fn ReleaseHugeMem(_argument: usize, _shared: u8) {}

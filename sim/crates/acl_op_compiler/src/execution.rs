//! Running one operator by name: a launch of a kernel of that name that does nothing.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::Mutex;

use sim_boundary::Text;

const INVALID_PARAMETER: i32 = 100_000;

unsafe extern "C" {
    safe fn simRtKernel(name: *const c_char, work: Option<extern "C" fn(*mut c_void)>) -> usize;
    safe fn rtKernelLaunchWithHandleV2(
        handle: usize,
        key: u64,
        blocks: u32,
        arguments: *const c_void,
        memory: *mut c_void,
        stream: usize,
        configuration: *const c_void,
    ) -> i32;
}

static KERNELS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

fn launch(operator: Text, stream: usize) -> i32 {
    let Some(name) = operator.get() else { return INVALID_PARAMETER };
    let kernel = match KERNELS.lock() {
        Ok(mut kernels) => *kernels.entry(name).or_insert_with_key(|name| {
            let name = CString::new(name.as_str()).unwrap_or_default();
            simRtKernel(name.as_ptr(), None)
        }),
        Err(_) => return INVALID_PARAMETER,
    };
    let nothing = std::ptr::null_mut();
    rtKernelLaunchWithHandleV2(kernel, 0, 1, nothing, nothing, stream, nothing)
}

type Ignored = *const c_void;

#[unsafe(no_mangle)]
pub extern "C" fn aclopCompileAndExecute(
    operator: Text,
    _input_count: i32,
    _input_descriptions: Ignored,
    _inputs: Ignored,
    _output_count: i32,
    _output_descriptions: Ignored,
    _outputs: Ignored,
    _attributes: Ignored,
    _engine: i32,
    _compile: i32,
    _path: Text,
    stream: usize,
) -> i32 {
    launch(operator, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopCompileAndExecuteV2(
    operator: Text,
    _input_count: i32,
    _input_descriptions: Ignored,
    _inputs: Ignored,
    _output_count: i32,
    _output_descriptions: Ignored,
    _outputs: Ignored,
    _attributes: Ignored,
    _engine: i32,
    _compile: i32,
    _path: Text,
    stream: usize,
) -> i32 {
    launch(operator, stream)
}

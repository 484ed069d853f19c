//! Options: remembered, and without effect.

use std::collections::BTreeMap;
use std::sync::Mutex;

use sim_boundary::{Out, Text, TextBuffer};

const INVALID_PARAMETER: i32 = 100_000;
/// Room for any value, as the interface's users reserve it.
const VALUE_BYTES: usize = 256;

static COMPILE: Mutex<BTreeMap<i32, String>> = Mutex::new(BTreeMap::new());

#[unsafe(no_mangle)]
pub extern "C" fn aclSetCompileopt(option: i32, value: Text) -> i32 {
    let (Some(value), Ok(mut options)) = (value.get(), COMPILE.lock()) else { return INVALID_PARAMETER };
    options.insert(option, value);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetCompileoptSize(_option: i32) -> usize {
    VALUE_BYTES
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetCompileopt(option: i32, value: TextBuffer, capacity: usize) -> i32 {
    let Ok(options) = COMPILE.lock() else { return INVALID_PARAMETER };
    let known = options.get(&option).map_or("", String::as_str);
    if value.set(known, capacity) { 0 } else { INVALID_PARAMETER }
}

// Frameworks look for these here as well as in `libascendcl.so`; the options are the same.
unsafe extern "C" {
    safe fn aclrtGetSysParamOptImpl(option: i32, value: *mut i64) -> i32;
    safe fn aclrtSetSysParamOptImpl(option: i32, value: i64) -> i32;
    safe fn aclrtCtxGetSysParamOptImpl(option: i32, value: *mut i64) -> i32;
    safe fn aclrtCtxSetSysParamOptImpl(option: i32, value: i64) -> i32;
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSysParamOpt(option: i32, value: Out<i64>) -> i32 {
    aclrtGetSysParamOptImpl(option, value.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCtxGetSysParamOpt(option: i32, value: Out<i64>) -> i32 {
    aclrtCtxGetSysParamOptImpl(option, value.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetSysParamOpt(option: i32, value: i64) -> i32 {
    aclrtSetSysParamOptImpl(option, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCtxSetSysParamOpt(option: i32, value: i64) -> i32 {
    aclrtCtxSetSysParamOptImpl(option, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetCompileFlag(_flag: i32) -> i32 {
    0
}

//! System options: remembered, and without effect. Contexts share them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use sim_boundary::Out;

use crate::runtime::{INVALID_PARAMETER, OK, Status, written};

static OPTIONS: Mutex<BTreeMap<i32, i64>> = Mutex::new(BTreeMap::new());

fn get(option: i32, value: Out<i64>) -> Status {
    let known = OPTIONS.lock().ok().and_then(|options| options.get(&option).copied());
    written(value.set(known.unwrap_or(0)))
}

fn set(option: i32, value: i64) -> Status {
    let Ok(mut options) = OPTIONS.lock() else { return INVALID_PARAMETER };
    options.insert(option, value);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSysParamOptImpl(option: i32, value: Out<i64>) -> Status {
    get(option, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetSysParamOptImpl(option: i32, value: i64) -> Status {
    set(option, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCtxGetSysParamOptImpl(option: i32, value: Out<i64>) -> Status {
    get(option, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCtxSetSysParamOptImpl(option: i32, value: i64) -> Status {
    set(option, value)
}

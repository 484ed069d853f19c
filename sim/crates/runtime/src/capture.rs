//! Captures: tasks of a stream that are kept instead of run, and run together later.

use std::cell::Cell;

use sim_boundary::{Handle, Out};

use crate::driver::gettid;
use crate::queue::{self, Mode, Model};
use crate::status::{INVALID_PARAMETER, OK, Status, written};
use crate::stream::{Stream, at};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

const STATUS_NONE: u32 = 0;
const STATUS_ACTIVE: u32 = 1;
const STATUS_INVALIDATED: u32 = 2;

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamBeginCapture(stream: Handle<Stream>, mode: u32) -> Status {
    let mode = match mode {
        GLOBAL => Mode::Everybody,
        THREAD_LOCAL => Mode::Thread(gettid() as u32),
        RELAXED => Mode::Nobody,
        _ => return INVALID_PARAMETER,
    };
    // The default stream cannot be captured.
    if stream.is_null() {
        return INVALID_PARAMETER;
    }
    at(stream).map_or_else(|status| status, |place| queue::begin_capture(place, mode))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamEndCapture(stream: Handle<Stream>, model: Out<Handle<Model>>) -> Status {
    match at(stream).and_then(queue::end_capture) {
        Ok(captured) => written(model.set(Handle::new(captured))),
        Err(status) => status,
    }
}

/// 0: not captured, 1: captured, 2: captured in vain. The model is not known before the end.
#[unsafe(no_mangle)]
pub extern "C" fn rtStreamGetCaptureInfo(
    stream: Handle<Stream>,
    status: Out<u32>,
    model: Out<Handle<Model>>,
) -> Status {
    let place = match at(stream) {
        Ok(place) => place,
        Err(status) => return status,
    };
    model.set(Handle::null());
    written(status.set(match queue::capture_of(place) {
        None => STATUS_NONE,
        Some(true) => STATUS_ACTIVE,
        Some(false) => STATUS_INVALIDATED,
    }))
}

/// The thread's mode, exchanged. It is kept and has no consequence: what a capture forbids goes by its own.
#[unsafe(no_mangle)]
pub extern "C" fn rtThreadExchangeCaptureMode(mode: Out<u32>) -> Status {
    let Some(wanted) = sim_boundary::In::from(mode.pointer().cast_const()).get() else { return INVALID_PARAMETER };
    written(mode.set(MODE.replace(wanted)))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtModelExecute(model: Handle<Model>, stream: Handle<Stream>, _flag: u32) -> Status {
    let Some(model) = model.get() else { return INVALID_PARAMETER };
    match at(stream) {
        Ok(place) => {
            queue::replay(model, place);
            OK
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtModelDestroy(model: Handle<Model>) -> Status {
    if model.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

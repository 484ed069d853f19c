//! Switching profiling on and off.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use sim_boundary::In;

/// What a module's handler is called with for a switch.
const COMMAND_SWITCH: u32 = 1;
/// The size of a command record.
const COMMAND_BYTES: u32 = 5424;
/// Where a command record says what to do.
const COMMAND_TYPE_OFFSET: usize = 280;
const TYPE_START: u32 = 1;
const TYPE_STOP: u32 = 2;

type Handler = extern "C" fn(u32, *mut c_void, u32) -> i32;

static HANDLERS: Mutex<Vec<(u32, Handler)>> = Mutex::new(Vec::new());
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A module (runtime, framework, …) asks to be told of commands.
#[unsafe(no_mangle)]
pub extern "C" fn MsprofRegisterCallback(module: u32, handler: Option<Handler>) -> i32 {
    let (Some(handler), Ok(mut handlers)) = (handler, HANDLERS.lock()) else { return -1 };
    handlers.retain(|(known, _)| *known != module);
    handlers.push((module, handler));
    0
}

/// A profiler starts or stops profiling: every module is told.
#[unsafe(no_mangle)]
pub extern "C" fn profSetProfCommand(command: *mut c_void, length: u32) -> i32 {
    if command.is_null() || length != COMMAND_BYTES {
        return -1;
    }
    match In::from(command.wrapping_byte_add(COMMAND_TYPE_OFFSET).cast_const().cast::<u32>()).get() {
        Some(TYPE_START) => STARTED.store(1, Ordering::Release),
        Some(TYPE_STOP) => STARTED.store(0, Ordering::Release),
        _ => {}
    }
    // Called on a copy: a handler may register another.
    let handlers = HANDLERS.lock().map(|handlers| handlers.clone()).unwrap_or_default();
    for (_, handler) in handlers {
        handler(COMMAND_SWITCH, command, length);
    }
    0
}

/// Private to the simulator: whether a start command has come (and no stop since).
#[unsafe(no_mangle)]
pub extern "C" fn simProfStarted() -> i32 {
    STARTED.load(Ordering::Acquire) as i32
}

//! Blocks that the program wants watched.
use memscope_hook::{WATCH_CAPTURED, WATCH_NO_MEMORY, WATCH_TOO_MANY, WATCHED_ANYWHERE, WATCHED_HOST, WatchedBlock};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{MemScopeError, table};

/// Where a block is: address, length, where the memory begins that it is part of (0 if that is not known), and the device: the number of an NPU
/// as the program counts them, -1 for the host, or nothing: the NPU that the thread uses, or else the host.
type Place = (u64, u64, u64, Option<i32>);

/// Watches a block, and gives the number of the watch.
#[pyfunction]
pub(crate) fn watch(py: Python<'_>, place: Place, name: &str, looks: i64) -> PyResult<u32> {
    let Some(api) = table::find() else { return Err(not_recording()) };
    let (address, length, storage, device) = place;
    let device = match device {
        Some(number) if number >= 0 => number,
        Some(_) => WATCHED_HOST,
        None => WATCHED_ANYWHERE,
    };
    let block = WatchedBlock { device, address, size: length, storage, looks };
    // Without the GIL: the device is waited for, and what it runs may need the GIL.
    // SAFETY: the block and the name live as long as the call.
    let answer = py.detach(|| unsafe { (api.watch)(&raw const block, name.as_ptr(), name.len()) });
    match answer {
        WATCH_NO_MEMORY => Err(PyValueError::new_err(format!(
            "{length} bytes at {address:#x} cannot be read; a watched block must be memory of this process or of the NPU that the \
             calling thread uses"
        ))),
        WATCH_TOO_MANY => Err(MemScopeError::new_err("no more blocks can be watched at once; remove() some of them")),
        WATCH_CAPTURED => Err(MemScopeError::new_err(
            "a graph is being captured, and until that ends memory of an NPU cannot be read; call watch() before or after",
        )),
        watch => u32::try_from(watch).map_err(|_| not_recording()),
    }
}

/// How many blocks of exactly this place were watched, and are not any more.
#[pyfunction]
pub(crate) fn unwatch(address: u64, length: u64) -> u32 {
    table::find().map_or(0, |api| (api.unwatch)(address, length))
}

fn not_recording() -> PyErr {
    MemScopeError::new_err(
        "nothing is recorded in this process; call msmemscope.start() before watch(), or start the program with: msmemscope python …",
    )
}

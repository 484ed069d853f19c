//! What the program calls its memory and its code.
use memscope_hook::{Api, ToldMemory, label_level};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::table;
use crate::text::utf8;

/// What this thread allocates from here on has the label, until [`label_end`].
#[pyfunction]
pub(crate) fn label_start(level: u8, text: &Bound<'_, PyString>) -> PyResult<()> {
    let text = utf8(text)?;
    // SAFETY: bytes with their length, here and below.
    labelled(level, |api| unsafe { (api.label_start)(level, text.as_ptr(), text.len()) })
}

/// Ends the innermost label of this level and text in this thread.
#[pyfunction]
pub(crate) fn label_end(level: u8, text: &Bound<'_, PyString>) -> PyResult<()> {
    let text = utf8(text)?;
    // SAFETY: as above.
    labelled(level, |api| unsafe { (api.label_end)(level, text.as_ptr(), text.len()) })
}

/// The block around the address, of a device or the host, has the label.
#[pyfunction]
pub(crate) fn label_block(address: usize, level: u8, text: &Bound<'_, PyString>) -> PyResult<()> {
    let text = utf8(text)?;
    // SAFETY: as above.
    labelled(level, |api| unsafe { (api.label_block)(address, level, text.as_ptr(), text.len()) })
}

fn labelled(level: u8, tell: impl FnOnce(&Api)) -> PyResult<()> {
    if level > label_level::PHASE {
        return Err(PyValueError::new_err(format!("level must be from 0 to {}, not {level}", label_level::PHASE)));
    }
    if let Some(api) = table::find() {
        tell(api);
    }
    Ok(())
}

/// A piece of code that is to be seen among the functions begins in this thread.
#[pyfunction]
pub(crate) fn function_start(text: &Bound<'_, PyString>) -> PyResult<()> {
    let text = utf8(text)?;
    if let Some(api) = table::find() {
        // SAFETY: as above.
        unsafe { (api.function_start)(text.as_ptr(), text.len()) };
    }
    Ok(())
}

#[pyfunction]
pub(crate) fn function_end(text: &Bound<'_, PyString>) -> PyResult<()> {
    let text = utf8(text)?;
    if let Some(api) = table::find() {
        // SAFETY: as above.
        unsafe { (api.function_end)(text.as_ptr(), text.len()) };
    }
    Ok(())
}

/// The books of a device at this moment; a negative number is the device this thread uses. With `memory` (reserved, its most,
/// allocated, its most, free, total) what a framework says instead.
#[pyfunction]
#[pyo3(signature = (name, device, memory=None))]
pub(crate) fn snapshot(name: &str, device: i32, memory: Option<(u64, u64, u64, u64, u64, u64)>) -> PyResult<()> {
    let Some(api) = table::find() else { return Ok(()) };
    match memory {
        Some((reserved, max_reserved, allocated, max_allocated, free, total)) => {
            let memory = ToldMemory { reserved, max_reserved, allocated, max_allocated, free, total };
            // SAFETY: as above.
            unsafe { (api.told_snapshot)(name.as_ptr(), name.len(), device, &raw const memory) };
        }
        None => {
            let name = std::ffi::CString::new(name)
                .map_err(|_| PyValueError::new_err(format!("name must not contain a null character: {name:?}")))?;
            // SAFETY: a C string.
            unsafe { (api.snapshot)(name.as_ptr(), device) };
        }
    }
    Ok(())
}

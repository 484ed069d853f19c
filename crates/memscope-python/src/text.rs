//! Texts of Python: as the recorder has them, without a copy, and as they may be shown.
use std::ffi::c_char;

use memscope_session::line::escaped;
use pyo3::ffi::{Py_ssize_t, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A text from outside as a message or a `repr` may have it: nothing in it that a terminal would obey.
#[pyfunction]
pub(crate) fn shown(text: &Bound<'_, PyString>) -> String {
    escaped(&text.to_string_lossy()).into_owned()
}

unsafe extern "C" {
    /// In every CPython since 3.3; the stable interface has it only from 3.10 on, and what it has before copies each text.
    fn PyUnicode_AsUTF8AndSize(text: *mut PyObject, size: *mut Py_ssize_t) -> *const c_char;
}

/// The bytes of a text, which it keeps itself: a program that names its memory again and again allocates nothing by it.
pub(crate) fn utf8<'t>(text: &'t Bound<'_, PyString>) -> PyResult<&'t [u8]> {
    let mut size: Py_ssize_t = 0;
    // SAFETY: a text, with the interpreter's lock held; its bytes live as long as it does.
    unsafe {
        let bytes = PyUnicode_AsUTF8AndSize(text.as_ptr(), &raw mut size);
        if bytes.is_null() {
            return Err(PyErr::fetch(text.py()));
        }
        Ok(std::slice::from_raw_parts(bytes.cast(), usize::try_from(size).unwrap_or(0)))
    }
}

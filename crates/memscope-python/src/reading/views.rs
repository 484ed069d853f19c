//! Columns of numbers as Python sees them.
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView};

/// A number of a column.
///
/// # Safety
/// Every bit pattern of its bytes is a value, and there is no padding between them.
pub(super) unsafe trait Number: Copy {
    /// What Python's `struct` calls it.
    const FORMAT: &'static str;
}

// SAFETY: integers have no padding, and each pattern of bits is one.
unsafe impl Number for u8 {
    const FORMAT: &'static str = "B";
}
// SAFETY: as above.
unsafe impl Number for u32 {
    const FORMAT: &'static str = "I";
}
// SAFETY: as above.
unsafe impl Number for i32 {
    const FORMAT: &'static str = "i";
}
// SAFETY: as above.
unsafe impl Number for u64 {
    const FORMAT: &'static str = "Q";
}

/// A column that is made for Python when it is first asked for. Classes of the stable interface have no buffers of their own before
/// 3.11: it is a view of bytes, read-only, which numpy takes without a copy.
pub(super) struct ColumnView(PyOnceLock<Py<PyAny>>);

impl Default for ColumnView {
    fn default() -> ColumnView {
        ColumnView(PyOnceLock::new())
    }
}

impl ColumnView {
    pub(super) fn get<T: Number>(&self, py: Python<'_>, values: &[T]) -> PyResult<Py<PyAny>> {
        let made = self.0.get_or_try_init(py, || {
            // SAFETY: the bytes of a slice of numbers without padding, for as long as the slice is borrowed.
            let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
            let view = PyMemoryView::from(PyBytes::new(py, bytes).as_any())?;
            view.call_method1("cast", (T::FORMAT,)).map(Bound::unbind)
        })?;
        Ok(made.clone_ref(py))
    }
}

//! What the C side hands to a simulated library, as types.
//!
//! The simulated functions are called from C with raw pointers and cannot check more than null. Each type here stands for one
//! promise of the C interface (an out parameter may be written, a text ends in NUL, …). A value is made only by the C caller
//! passing an argument, so the promise is the caller's, and the one `unsafe` that relies on it sits next to its statement.

pub mod board;
mod fault;
pub mod settings;

pub use fault::Fault;

use std::ffi::{CStr, c_char};

/// An out parameter: null, or valid for a write of `T`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result; false if the caller passed null.
    pub fn set(self, value: T) -> bool {
        if self.0.is_null() {
            return false;
        }
        // SAFETY: not null, and the C caller promises that an out parameter may be written.
        unsafe { self.0.write(value) };
        true
    }

    /// The `index`-th element of an out parameter that is an array.
    pub fn element(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Where the result goes, to hand on to another C function.
    pub fn pointer(self) -> *mut T {
        self.0
    }
}

/// An argument passed by address: null, or valid for a read of `T`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// No argument.
    pub const fn null() -> Self {
        Self(std::ptr::null())
    }

    /// The value, or `None` for null.
    pub fn get(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not null, and the C caller promises that an in parameter may be read; alignment is not assumed.
        Some(unsafe { self.0.read_unaligned() })
    }

    /// The first `count` values of an array argument; empty for null.
    pub fn list(self, count: usize) -> Vec<T> {
        (0..count).map_while(|index| Self(self.0.wrapping_add(index)).get()).collect()
    }

    /// The argument itself, to hand on to another C function.
    pub fn pointer(self) -> *const T {
        self.0
    }
}

impl<T> From<*const T> for In<T> {
    fn from(pointer: *const T) -> Self {
        Self(pointer)
    }
}

impl<T> From<*mut T> for Out<T> {
    fn from(pointer: *mut T) -> Self {
        Self(pointer)
    }
}

/// A C string: null, or NUL-terminated.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// A copy of the text; `None` for null. Bytes that are not UTF-8 are replaced.
    pub fn get(self) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not null, and the C caller promises a terminating NUL.
        Some(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// The argument itself, to hand on to another C function.
    pub fn pointer(self) -> *const c_char {
        self.0
    }
}

impl From<&'static CStr> for Text {
    fn from(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

/// A caller's buffer for a C string, of a given capacity.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TextBuffer(*mut c_char);

impl TextBuffer {
    /// Writes `text` and a NUL, cut to `capacity` bytes in all; false for a null or empty buffer.
    pub fn set(self, text: &str, capacity: usize) -> bool {
        if capacity == 0 {
            return false;
        }
        let kept = &text.as_bytes()[..text.len().min(capacity - 1)];
        kept.iter().chain([&0]).enumerate().all(|(index, byte)| Out(self.0.wrapping_add(index)).set(*byte as c_char))
    }
}

/// An object that a simulated library made and the C side only carries around.
#[repr(transparent)]
pub struct Handle<T>(*mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> Handle<T> {
    /// Moves `value` to the heap and gives its handle to the C side.
    pub fn new(value: T) -> Self {
        Self(Box::into_raw(Box::new(value)))
    }

    /// The null handle.
    pub const fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The handle at an address that [`Self::address`] gave.
    pub fn at(address: usize) -> Self {
        Self(address as *mut T)
    }

    /// Whether the C side passed no object.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address as a number.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// The object; `None` for null.
    pub fn get<'a>(self) -> Option<&'a T> {
        // SAFETY: a handle that is not null came from `new` of the same type and the C caller has not destroyed it yet.
        unsafe { self.0.as_ref() }
    }

    /// The object, to change it; `None` for null.
    pub fn get_mut<'a>(self) -> Option<&'a mut T> {
        // SAFETY: as for `get`; the interface leaves it to the caller not to use one object from two threads at once.
        unsafe { self.0.as_mut() }
    }

    /// Ends the object's life.
    pub fn destroy(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the handle came from `new`, and the C caller destroys an object once.
        Some(*unsafe { Box::from_raw(self.0) })
    }
}

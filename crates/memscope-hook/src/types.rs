//! What can be passed through a stub.
use core::ffi::CStr;

/// Where a hooked function was entered, as its stub saw it. Passed after all other arguments.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Entry {
    /// The stack pointer. On x86-64 the return address is at it, on aarch64 the frame record the stub made.
    pub stack_pointer: usize,
    /// The frame pointer register, still the caller's.
    pub frame_pointer: usize,
}

/// A function of any type.
pub type Callback = unsafe extern "C" fn();

/// A type that is passed in one general register, or in a word of the stack. A stub counts on nothing else: it would
/// put the [`Entry`] in the wrong place behind a number in a vector register, or behind a structure.
pub trait Word {}

/// A type that is returned in a general register, or nothing.
pub trait Answer {}

impl<T: Word> Answer for T {}
impl Answer for () {}

macro_rules! words {
    ($($type:ty),*) => { $(impl Word for $type {})* };
}
words!(bool, u8, i8, u16, i16, u32, i32, u64, i64, usize, isize);

impl<T> Word for *const T {}
impl<T> Word for *mut T {}
/// A function that may be null.
impl<R, A, B, C> Word for Option<unsafe extern "C" fn(A, B, C) -> R> {}

/// Compiles only for words.
pub const fn is_word<T: Word>() {}

/// Compiles only for answers.
pub const fn answers<T: Answer>() {}

/// A name that ends with a zero byte, as C has it.
pub const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("no C string"),
    }
}

/// The bytes of a text, as a list of their own.
pub const fn bytes<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    match text.as_bytes().first_chunk() {
        Some(bytes) => *bytes,
        None => panic!("the text is shorter"),
    }
}

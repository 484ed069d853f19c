//! The C table through which other code in the process talks to the recorder: `const Api *msmemscope_api(void)`. What
//! programs may use of it is in `include/msmemscope.h`.
//!
//! Compiled into both sides (the host wrappers include this file), so that they agree without linking each other.
//! Append only; a consumer checks `size` before it uses a member.

/// What the recording library offers.
#[repr(C)]
pub(crate) struct Api {
    /// Bytes of this table in the library that provides it.
    pub(crate) size: u32,
    /// Raised when a member changes its meaning.
    pub(crate) version: u32,
    /// Where the thread's two guard words are, relative to the thread pointer: the stack pointer of the hook at work, and
    /// the word at it.
    pub(crate) guard_offset: isize,
    /// What a call does that finds the guard taken: 0 pass unrecorded, 1 take it, 2 take the second.
    pub(crate) nested: unsafe extern "C" fn(stack: usize, frame: usize) -> u32,
    /// Ticks of the thread's lane, for `host_moved`.
    pub(crate) now: extern "C" fn() -> u64,
    pub(crate) host_alloc: unsafe extern "C" fn(address: usize, size: usize, stack: usize, frame: usize),
    pub(crate) host_free: unsafe extern "C" fn(address: usize),
    /// `new` 0: the block was freed and nothing took its place.
    pub(crate) host_moved:
        unsafe extern "C" fn(old: usize, new: usize, size: usize, began: u64, stack: usize, frame: usize),
    /// `protection` as in `mmap`, with [`NO_RESERVE`] where the flags say so.
    pub(crate) host_map: unsafe extern "C" fn(address: usize, size: usize, protection: u8, stack: usize, frame: usize),
    pub(crate) host_unmap: unsafe extern "C" fn(address: usize, size: usize),
    pub(crate) host_remapped: unsafe extern "C" fn(
        old: usize,
        old_size: usize,
        new: usize,
        new_size: usize,
        began: u64,
        stack: usize,
        frame: usize,
    ),
    /// Tracing from here on, up to here, and the end of a step.
    pub(crate) start: extern "C" fn(),
    pub(crate) stop: extern "C" fn(),
    pub(crate) step: extern "C" fn(),
    /// The memory in use on a device is to be told under a name; a negative number is the device of the calling thread.
    pub(crate) snapshot: unsafe extern "C" fn(name: *const core::ffi::c_char, device: i32),
    pub(crate) host_protect:
        unsafe extern "C" fn(address: usize, size: usize, protection: u8, stack: usize, frame: usize),
    /// How much further than the guard the thread's second guard is.
    pub(crate) second_guard: usize,
}

pub(crate) const API_VERSION: u32 = 2;

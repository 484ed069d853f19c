//! `libmsmemscope_host.so`: the malloc family and anonymous mappings, wrapped.
//!
//! Preloaded only when host memory is asked for, after the recording library, whose C table it calls. It keeps no state
//! but the addresses of the originals, and whether there ever was reserved address space. Each line of [`hooks`] is a stub
//! that notes where it was entered (for the call stack) and a function of a few lines: take the guard, call the original,
//! report.
#![no_std]

mod heap;
mod hooks;
mod mappings;
mod originals;
mod recording;
#[cfg_attr(target_arch = "x86_64", path = "thread/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "thread/aarch64.rs")]
mod thread;

memscope_hook::preloaded_library!();

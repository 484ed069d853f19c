//! `libascend_kernel_hook.so`: the recorder, its hooks and its C table, in one preloaded library.
//!
//! The name is not ours to choose: torch_npu and MindSpore report their pools only if a preloaded file is called so.
//! What is done here: [`hooks`] lists every exported function; a hook takes the guard, calls the original and hands over
//! what happened. [`kernel_times`] is a client of the runtime's profiling interface, with a thread of its own, that
//! hears which tasks kernels become and when they ran; [`torch`] is one of torch's observers, [`python_calls`] is told by the
//! interpreter which functions are called. What any of it means is decided offline.
#![no_std]

mod api;
mod deliberate_lock;
mod hooks;
mod kernel_times;
mod lifecycle;
mod original;
mod python_calls;
mod recording;
mod torch;
mod watched_memory;

memscope_hook::preloaded_library!();

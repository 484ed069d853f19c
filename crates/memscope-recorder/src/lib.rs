//! From a hook to the spool: what happens in the target process, and nothing more.
//!
//! What it does: keeps one [`lane`] per running thread (a mapped window, the encoder's state, the stack memory),
//! one [`process`] record per process image and forked child, and turns each hook's call into a record in the window
//! before the call returns.
//!
//! The hooks' duties: call the real function, and hand over what happened with the thread's [`slot::Guard`], which whatever
//! records borrows. Hooks of host memory hold it over the real call as well, and reach it through the C table.
//!
//! How it is fast: the lane is found by one load from thread-local storage, time is one counter read, a record is a
//! handful of stores; a full window costs one `write`. Nothing is locked, allocated or formatted, and `errno` is never
//! touched because all system calls are raw.
//!
//! How it survives fork: lanes, and whatever a recording says only once, sit in memory the kernel hands to a child as
//! zeroes. A child's first event finds an empty lane, takes the slow path and starts a recording of its own; the parent's window
//! is out of reach. What a child is to inherit (the settings, whether tracing is on, the count of steps) is ordinary memory.
//!
//! What it is not: it calls no hooked function and no device. What devices, pools and frameworks tell ([`device`], [`storage`],
//! [`kernel`], [`atb`], [`aten`], [`task_log`]) it writes down as its hook has it. What a device holds
//! ([`watch`]) its hooks read for it.
#![cfg_attr(not(test), no_std)]

pub mod atb;
pub mod aten;
pub mod calls;
mod claims;
mod clock;
mod config;
pub mod control;
pub mod device;
mod equipment;
mod files;
pub mod forks;
mod keeper;
pub mod kernel;
pub mod labels;
mod lane;
mod lanes;
#[cfg(all(test, feature = "model"))]
mod model;
pub mod next_program;
mod path;
mod placement;
mod process;
pub mod sandbox;
pub mod slot;
mod stacks;
mod start;
mod step;
pub mod storage;
pub mod task_log;
mod threads;
pub mod watch;
mod windows;
mod writer;

pub use config::Wanted;
pub use lane::{
    event, event_with_stack, host_alloc, host_free, host_map, host_moved, host_protect, host_refused, host_remapped,
    host_unmap, ticks_now,
};
pub use memscope_format::encode::Extended;
pub use memscope_format::record::{HostCall, Protection};
pub use memscope_stack::python::{Support, find_function};
pub use process::{Beginning, begin, initialise, is_host_wanted, process_ends, wanted};
pub use stacks::{library_to_keep, library_unloaded};

/// For hooks with threads of their own.
pub use memscope_sys as sys;

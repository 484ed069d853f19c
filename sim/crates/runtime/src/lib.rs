//! `libruntime.so`: devices, contexts, streams, events, copies and kernel launches.
//!
//! A task runs to its end inside the call that launches it, on the calling thread, which is one legal schedule of the
//! asynchronous interface: everything is complete when asked. With `SIM_DEFERRED` the other extreme holds: a task runs only when
//! somebody waits for its stream.

mod capture;
mod context;
mod driver;
mod event;
mod kernel;
mod memory;
mod queue;
mod status;
mod stream;
mod task;
mod virtual_memory;

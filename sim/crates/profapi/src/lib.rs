//! `libprofapi.so`: who wants to be told about what runs.
//!
//! A profiler registers callbacks; the runtime and the frameworks report through the functions here. Modules register
//! themselves to be told when profiling is switched on.

mod commands;
mod reports;

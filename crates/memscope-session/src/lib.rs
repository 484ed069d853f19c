//! A recorded run, however it was begun: what the user's words mean ([`settings`]), how a program is started with the
//! recording libraries ([`invocation`]), what the process beside it does meanwhile ([`keeper`]), and what becomes of the
//! recording afterwards ([`export`], [`report`], [`analyze`]).
//!
//! The command and the Python package are two thin shells over this crate: neither knows anything of a run that the other
//! does not.
//!
//! The caller's duties: show what [`printer::Printer`] is given, and pass the program's end on as its own.
#![forbid(unsafe_code)]

pub mod analyze;
pub mod compare;
pub mod device_usage;
pub mod environment;
pub mod export;
pub mod invocation;
pub mod keeper;
pub mod libraries;
pub mod line;
pub mod opened;
pub mod output_dir;
pub mod pass;
pub mod place;
pub mod printer;
pub mod program;
pub mod program_end;
pub mod record_config;
pub mod report;
mod run_files;
pub mod settings;
pub mod signals;
pub mod usage_error;
pub mod views;
pub mod windows_home;
mod workers;

pub use memscope_dump::brand;

/// A mistake of the user: nothing was created, nothing was started.
pub const EXIT_USAGE: u8 = 2;
/// Something that is not the user's mistake failed before the program was started, or a recording cannot be read.
pub const EXIT_FAILURE: u8 = 1;
/// `analyze` found what it was to fail on.
pub const EXIT_FINDINGS: u8 = 1;
/// The program ended well and its recording is whole, but not all files could be made of it. A status of the program other
/// than 0, or its signal, goes before.
pub const EXIT_UNWRITTEN: u8 = 3;

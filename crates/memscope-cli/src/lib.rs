//! The `msmemscope` command: what was typed ([`args`]) becomes what is meant ([`settings`]), which a command of
//! [`commands`] carries out; [`printer`] is the only place that prints.
//!
//! One table, [`options`], is the truth about the options: the parser, the help, the man page and the shell
//! completions ([`documents`]) all read it.
#![forbid(unsafe_code)]

pub mod args;
pub mod brand;
mod call_site;
pub mod commands;
pub mod device_usage;
pub mod documents;
pub mod environment;
pub mod keeper;
pub mod launch;
pub mod libraries;
pub mod options;
pub mod output_dir;
mod own_allocator;
pub mod printer;
mod process_report;
pub mod program;
mod quantity;
pub mod record_config;
mod resident_size;
pub mod settings;
pub mod signals;
mod summary;
pub mod usage_error;
mod windows_home;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::CommandLine;
use crate::brand::Brand;
use crate::printer::Printer;
use crate::settings::{LogLevel, Resolution};

/// A mistake of the user: nothing was created, nothing was started.
pub const EXIT_USAGE: u8 = 2;
/// Something that is not the user's mistake failed before the program was started.
pub const EXIT_FAILURE: u8 = 1;

pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let brand = Brand::of_command(words.next().as_deref());
    let words: Vec<OsString> = words.collect();
    let printer = Printer::new(brand, LogLevel::default());
    let resolution = match CommandLine::parse(&words).and_then(|line| Resolution::of(line, brand)) {
        Ok(resolution) => resolution,
        Err(error) => {
            printer.error(&error);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let printer = Printer::new(brand, resolution.log_level);
    for note in &resolution.notes {
        printer.note(note);
    }
    commands::carry_out(&resolution.intent, &printer)
}

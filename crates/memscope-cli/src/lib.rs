//! The `msmemscope` command: what was typed ([`args`]) becomes what is meant ([`intent`]), which a command of
//! [`commands`] carries out, with what `memscope-session` knows of runs and recordings.
//!
//! One table, [`options`], is the truth about the options: the parser, the help, the man page and the shell
//! completions ([`documents`]) all read it.
#![forbid(unsafe_code)]

pub mod analyze_settings;
pub mod args;
pub mod commands;
pub mod documents;
pub mod intent;
pub mod options;
pub mod resolution;
pub mod view_settings;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::CommandLine;
use crate::resolution::Resolution;
use memscope_session::EXIT_USAGE;
use memscope_session::brand::Brand;
use memscope_session::printer::Printer;
use memscope_session::settings::LogLevel;

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

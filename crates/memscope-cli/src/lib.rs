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
    let (name, words) = named(std::env::args_os().collect());
    let brand = Brand::of_command(name.as_deref());
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

/// The installed command is a text that a shell can source and whose first line names this program with this option: the
/// kernel adds the text's own path, which is what the user has typed.
const CALLED_AS: &str = "--called-as";

/// What the command was called, and what follows.
fn named(mut words: Vec<OsString>) -> (Option<OsString>, Vec<OsString>) {
    let before = if words.len() > 2 && words[1] == CALLED_AS { 3 } else { words.len().min(1) };
    let rest = words.split_off(before);
    (words.pop(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_text_the_kernel_was_given() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for (given, name, rest) in [
            (&["msleaks", "prog"][..], Some("msleaks"), &["prog"][..]),
            (&["/l/msmemscope", "--called-as", "/bin/msleaks", "info", "d"], Some("/bin/msleaks"), &["info", "d"]),
            (&["msmemscope", "--called-as"], Some("msmemscope"), &["--called-as"]),
            (&["msmemscope"], Some("msmemscope"), &[]),
            (&[], None, &[]),
        ] {
            assert_eq!(named(words(given)), (name.map(OsString::from), words(rest)), "{given:?}");
        }
    }
}

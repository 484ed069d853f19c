//! `--load-api-env` and `--unload-api-env`: what a shell has to do so that programs it starts have the recording library
//! from their beginning, or no longer. The command cannot change the shell that started it: it prints the shell's command,
//! which the file that is sourced (`scripts/sourced.sh`) carries out.
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use memscope_session::environment;
use memscope_session::libraries::Libraries;
use memscope_session::printer::Printer;

use crate::intent::ApiEnv;

pub(super) fn run(change: ApiEnv, printer: &Printer) -> anyhow::Result<ExitCode> {
    let chosen = std::env::var_os(environment::LIBRARY_DIR);
    let command = std::env::current_exe().ok();
    // The host library is brought by start(), if it is wanted: a shell's other programs need not pay for it.
    let libraries = Libraries::find(chosen.as_deref(), command.as_deref(), false)?;
    let existing = std::env::var_os(environment::PRELOAD);
    let preload = match change {
        ApiEnv::Load => libraries.preload(existing.as_deref()),
        ApiEnv::Unload => libraries.preload_without(existing.as_deref()),
    };
    if std::io::stdout().is_terminal() {
        let (name, option) = (printer.brand().name(), option_of(change));
        printer.note(&format_args!("nothing has changed; a shell does this if you write: source {name} {option}"));
    }
    Ok(printer.verbatim(&shell_command(&preload)?))
}

fn option_of(change: ApiEnv) -> &'static str {
    match change {
        ApiEnv::Load => "--load-api-env",
        ApiEnv::Unload => "--unload-api-env",
    }
}

/// One line for any shell that is like the Bourne shell.
fn shell_command(preload: &OsStr) -> anyhow::Result<String> {
    let name = environment::PRELOAD;
    if preload.is_empty() {
        return Ok(format!("unset {name}\n"));
    }
    let value = std::str::from_utf8(preload.as_bytes())
        .map_err(|_| anyhow::anyhow!("{name} has bytes that are not UTF-8; set it by hand"))?;
    Ok(format!("export {name}='{}'\n", value.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_it_a_value_is_one_word_for_a_shell() {
        for (value, command) in [
            ("", "unset LD_PRELOAD\n"),
            ("/a.so:/b.so", "export LD_PRELOAD='/a.so:/b.so'\n"),
            ("/it's $(here)", "export LD_PRELOAD='/it'\\''s $(here)'\n"),
        ] {
            assert_eq!(shell_command(OsStr::new(value)).unwrap(), command);
        }
    }
}

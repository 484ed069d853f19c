//! The user's mistakes. Each is one line: which option, what is wrong with it, what would be right.
use std::ffi::OsStr;

use thiserror::Error;

use crate::line::escaped;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UsageError {
    #[error("unknown option {typed}: {hint}")]
    UnknownOption { typed: String, hint: String },
    #[error("{option} needs a value; allowed: {allowed}")]
    MissingValue { option: String, allowed: &'static str },
    #[error("{option} takes no value, but {value} was given; write {option} alone")]
    UnexpectedValue { option: String, value: String },
    #[error("bad value {value} for {option}{reason}; allowed: {allowed}")]
    BadValue { option: String, value: String, reason: String, allowed: &'static str },
    #[error("{option} does not belong to '{command}'; allowed there: {allowed}")]
    ForeignOption { option: String, command: &'static str, allowed: String },
    #[error("'{command}' needs {expected}, but {given}")]
    BadOperands { command: &'static str, expected: String, given: String },
    #[error(
        "there is no command {typed}, and a recording behind it: did you mean '{meant}'? A program of that name is run with: \
         {command} -- {typed} …"
    )]
    MistypedCommand { typed: String, meant: &'static str, command: &'static str },
    #[error(
        "{typed} is an analysis, not a command; write: {command} analyze {recording} {analysis}. A program of that name is run \
         with: {command} -- {typed} …"
    )]
    AnalysisAsCommand { typed: String, analysis: &'static str, recording: String, command: &'static str },
    #[error("{option} belongs to a command that reads a recording: {commands}")]
    ViewOption { option: String, commands: String },
    #[error("{option} takes two values in 'diff' only, not in '{command}'")]
    OnlyDiffTakesTwo { option: &'static str, command: &'static str },
    #[error(
        "--at=total is no moment, and '{command}' needs one: peak, end, main, step:N or a time such as 12.5 or 800ms"
    )]
    TotalIsNoMoment { command: &'static str },
    #[error("no program to run; write: {command} [options] bash user.sh, or {command} [options] -- program arguments")]
    NoProgram { command: &'static str },
    #[error(
        "'export' writes files, so --data-format=none means nothing there; write --data-format={formats}, or for the summary alone: {command} info"
    )]
    NothingToExport { command: &'static str, formats: String },
    #[error("--start-index counts the marks of a text; give that with --mstx-info=TEXT")]
    StartIndexOfWhat,
    #[error("--write adds what inefficient finds, and nothing else; write: analyze FILE inefficient --write")]
    WriteOfWhat,
    #[error("--compare needs --input; allowed: {allowed}")]
    CompareWithoutInput { allowed: &'static str },
    #[error(
        "--compare needs two inputs, but --input names one; write --input=BASE,COMPARE, or --steps=BASE,COMPARE for two steps of it"
    )]
    CompareWithOneInput,
    #[error("--compare takes at most two steps, but --steps names {given}; write --steps=BASE,COMPARE")]
    CompareSteps { given: usize },
    #[error(
        "--load-api-env and --unload-api-env change a shell and run no program; write: source {command} --load-api-env, \
         then start the program"
    )]
    ApiEnvWithProgram { command: &'static str },
    #[error("the working directory cannot be found ({reason}); give an absolute --output")]
    NoWorkingDirectory { reason: String },
}

/// Longer texts are cut: a message is one line that a person reads.
const SHOWN_CHARS: usize = 120;

/// What the user typed, in quotes, safe to print on one line: control characters are escaped, invalid UTF-8 is shown
/// as the replacement character.
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let cut: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("'{}{more}'", escaped(&cut))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn what_was_typed_stays_on_one_line_whatever_it_contains() {
        assert_eq!(quoted("a\nb\u{1b}[0m"), "'a\\nb\\u{1b}[0m'");
        assert_eq!(quoted(OsStr::from_bytes(b"x\xff")), "'x\u{fffd}'");
        assert_eq!(quoted("权重"), "'权重'");
    }

    #[test]
    fn a_very_long_value_is_cut() {
        let shown = quoted("y".repeat(5000));
        assert_eq!(shown.chars().count(), SHOWN_CHARS + 3);
        assert!(shown.ends_with("…'"));
    }
}

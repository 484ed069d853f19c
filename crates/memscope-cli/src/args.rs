//! What was typed: options with their values as bytes, and the words that follow. Nothing is interpreted here beyond
//! which word belongs to which option.
//!
//! `getopt` would also take options after the program name and accept shortened ones; both steal what is meant for the
//! program, so words after the program name are left alone here. [`memscope_session::settings`] takes back the few the manual's
//! examples put there.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::options::{self, OptionId, OptionSpec, SUB_COMMANDS, SubCommandSpec};
use memscope_session::usage_error::{UsageError, quoted};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenOption {
    pub id: OptionId,
    /// As typed, with its dashes: messages speak of what the user wrote.
    pub spelling: String,
    /// Present exactly if the option takes a value.
    pub value: Option<OsString>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramWords {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// A `--` stood somewhere: every argument is the program's own.
    pub protected: bool,
}

#[derive(Clone, Debug)]
pub enum Words {
    Nothing,
    Program(ProgramWords),
    SubCommand(&'static SubCommandSpec, Vec<OsString>),
}

#[derive(Clone, Debug)]
pub struct CommandLine {
    pub options: Vec<GivenOption>,
    pub words: Words,
}

impl CommandLine {
    /// `words` without `argv[0]`.
    pub fn parse(words: &[OsString]) -> Result<Self, UsageError> {
        let mut options = Vec::new();
        let mut rest = words.iter();
        let mut command: Option<(&'static SubCommandSpec, Vec<OsString>)> = None;
        while let Some(word) = rest.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                match &mut command {
                    Some((_, operands)) => operands.extend(rest.by_ref().cloned()),
                    None => return Ok(Self { options, words: program_words(rest.as_slice(), true) }),
                }
            } else if bytes.len() > 1 && bytes[0] == b'-' {
                let option = take_option(word, &mut rest)?;
                let asks_for_text = matches!(option.id, OptionId::Help | OptionId::Version);
                options.push(option);
                if asks_for_text {
                    // Whoever asks for help gets it, whatever else is wrong with the line.
                    break;
                }
            } else if let Some((_, operands)) = &mut command {
                operands.push(word.clone());
            } else if let Some(spec) = SUB_COMMANDS.iter().find(|spec| spec.name.as_bytes() == bytes) {
                command = Some((spec, Vec::new()));
            } else {
                let start = words.len() - rest.len() - 1;
                return Ok(Self { options, words: program_words(&words[start..], false) });
            }
        }
        let words = match command {
            Some((spec, operands)) => Words::SubCommand(spec, operands),
            None => Words::Nothing,
        };
        Ok(Self { options, words })
    }
}

fn program_words(words: &[OsString], after_dashes: bool) -> Words {
    match words.split_first() {
        None => Words::Nothing,
        Some((program, arguments)) => Words::Program(ProgramWords {
            program: program.clone(),
            arguments: arguments.to_vec(),
            protected: after_dashes || arguments.iter().any(|argument| argument == "--"),
        }),
    }
}

fn take_option(word: &OsStr, rest: &mut std::slice::Iter<'_, OsString>) -> Result<GivenOption, UsageError> {
    let (spec, spelling, attached) = match word.as_bytes().strip_prefix(b"--") {
        Some(_) => {
            let (name, value) = split_long(word);
            let spec = name.and_then(options::any_option_named).ok_or_else(|| unknown_long(word))?;
            (spec, format!("--{}", name.unwrap_or_default()), value)
        }
        None => split_short(word)?,
    };
    let value = match (spec.value, attached) {
        (None, None) => None,
        (None, Some(value)) => return Err(UsageError::UnexpectedValue { option: spelling, value: quoted(value) }),
        (Some(_), Some(value)) => Some(value),
        (Some(value_spec), None) => match rest.as_slice().first() {
            // `--steps --level=op prog`: the value was forgotten; taking the next option for it would only move the
            // message to the wrong place.
            Some(next) if !is_ours(next) => {
                rest.next();
                Some(next.clone())
            }
            _ => return Err(UsageError::MissingValue { option: spelling, allowed: value_spec.allowed }),
        },
    };
    Ok(GivenOption { id: spec.id, spelling, value })
}

/// `--name=value` into its parts; the name only if it is valid UTF-8, as all of ours are.
pub fn split_long(word: &OsStr) -> (Option<&str>, Option<OsString>) {
    let body = word.as_bytes().strip_prefix(b"--").unwrap_or_default();
    let (name, value) = match body.iter().position(|byte| *byte == b'=') {
        Some(at) => (&body[..at], Some(OsString::from_vec(body[at + 1..].to_vec()))),
        None => (body, None),
    };
    (std::str::from_utf8(name).ok(), value)
}

fn split_short(word: &OsStr) -> Result<(&'static OptionSpec, String, Option<OsString>), UsageError> {
    let bytes = word.as_bytes();
    let letter = char::from(bytes[1]);
    let unknown = || UsageError::UnknownOption {
        typed: quoted(word),
        hint: String::from("--help lists all; options of the program come after its name"),
    };
    let spec = options::option_short(letter).ok_or_else(unknown)?;
    let attached = match &bytes[2..] {
        [] => None,
        [b'=', value @ ..] | value => Some(OsString::from_vec(value.to_vec())),
    };
    Ok((spec, format!("-{letter}"), attached))
}

fn unknown_long(word: &OsStr) -> UsageError {
    let name = word.to_string_lossy();
    let name = name.trim_start_matches('-').split('=').next().unwrap_or_default();
    UsageError::UnknownOption { typed: quoted(format!("--{name}")), hint: options::hint_for(name) }
}

fn is_ours(word: &OsStr) -> bool {
    word == "--"
        || (word.as_bytes().starts_with(b"--") && split_long(word).0.and_then(options::any_option_named).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<CommandLine, UsageError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        CommandLine::parse(&words)
    }

    fn program(line: &CommandLine) -> Vec<&str> {
        match &line.words {
            Words::Program(words) => {
                std::iter::once(&words.program).chain(&words.arguments).map(|word| word.to_str().unwrap()).collect()
            }
            other => panic!("not a program: {other:?}"),
        }
    }

    #[test]
    fn a_value_stands_behind_the_equals_sign_or_in_the_next_word() {
        for line in [
            &["--output=x y", "prog"][..],
            &["--output", "x y", "prog"],
            &["--output-path=x y", "prog"],
            &["-o", "x y", "prog"],
            &["-ox y", "prog"],
            &["-o=x y", "prog"],
        ] {
            let parsed = parse(line).unwrap();
            assert_eq!(parsed.options.len(), 1, "{line:?}");
            assert_eq!(parsed.options[0].id, OptionId::Output, "{line:?}");
            assert_eq!(parsed.options[0].value, Some(OsString::from("x y")), "{line:?}");
            assert_eq!(program(&parsed), ["prog"], "{line:?}");
        }
    }

    #[test]
    fn an_equals_sign_in_the_value_stays_there() {
        assert_eq!(parse(&["--output=a=b", "prog"]).unwrap().options[0].value, Some(OsString::from("a=b")));
    }

    #[test]
    fn words_after_the_program_are_the_programs() {
        let parsed = parse(&["--steps", "1", "python", "t.py", "--lr", "0.1", "-h", "--help"]).unwrap();
        assert_eq!(program(&parsed), ["python", "t.py", "--lr", "0.1", "-h", "--help"]);
        assert_eq!(parsed.options.len(), 1);
    }

    #[test]
    fn dashes_end_the_options_and_hide_sub_commands() {
        let parsed = parse(&["--level=op", "--", "export", "--steps=1"]).unwrap();
        assert_eq!(program(&parsed), ["export", "--steps=1"]);
        let Words::Program(words) = parsed.words else { unreachable!() };
        assert!(words.protected);
    }

    #[test]
    fn dashes_among_the_programs_words_protect_all_of_them() {
        let Words::Program(words) = parse(&["bash", "x.sh", "--steps=1", "--", "y"]).unwrap().words else { panic!() };
        assert!(words.protected);
        assert_eq!(words.arguments, ["x.sh", "--steps=1", "--", "y"]);
    }

    #[test]
    fn a_sub_command_takes_options_on_both_sides_of_its_operand() {
        for line in
            [&["export", "--format=db", "d"][..], &["export", "d", "--format", "db"], &["--format=db", "export", "d"]]
        {
            let parsed = parse(line).unwrap();
            assert_eq!(parsed.options[0].value, Some(OsString::from("db")));
            let Words::SubCommand(spec, operands) = parsed.words else { panic!("{line:?}") };
            assert_eq!((spec.name, operands), ("export", vec![OsString::from("d")]));
        }
    }

    #[test]
    fn a_forgotten_value_is_noticed_where_it_is_missing() {
        for line in [&["--steps"][..], &["--steps", "--", "prog"], &["--steps", "--level=op", "prog"]] {
            let error = parse(line).unwrap_err();
            assert!(
                matches!(&error, UsageError::MissingValue { option, .. } if option == "--steps"),
                "{line:?}: {error}"
            );
        }
    }

    #[test]
    fn shortened_and_unknown_options_are_refused() {
        for (word, hint) in [
            ("--call", "write --call-stack"),
            ("--stepz=1", "did you mean --steps?"),
            ("--qqqqqqq", "--help lists all"),
            ("-x", "--help lists all"),
            ("---steps=1", "write --steps"),
        ] {
            let error = parse(&[word, "prog"]).unwrap_err().to_string();
            assert!(error.contains(hint), "{word}: {error}");
        }
    }

    #[test]
    fn options_without_value_refuse_one() {
        for word in ["--compare=1", "--help=x", "-hv"] {
            assert!(matches!(parse(&[word, "prog"]), Err(UsageError::UnexpectedValue { .. })), "{word}");
        }
    }

    #[test]
    fn a_single_dash_is_a_program_name() {
        assert_eq!(program(&parse(&["-"]).unwrap()), ["-"]);
    }

    #[test]
    fn help_is_given_whatever_follows() {
        let parsed = parse(&["--help", "--nonsense"]).unwrap();
        assert_eq!(parsed.options[0].id, OptionId::Help);
    }

    #[test]
    fn names_that_are_not_utf8_are_unknown_and_values_may_be_anything() {
        let bad_name = OsString::from_vec(b"--st\xffeps=1".to_vec());
        assert!(matches!(CommandLine::parse(&[bad_name]), Err(UsageError::UnknownOption { .. })));
        let value = OsString::from_vec(b"--output=/tmp/\xff".to_vec());
        let parsed = CommandLine::parse(&[value, "prog".into()]).unwrap();
        assert_eq!(parsed.options[0].value, Some(OsString::from_vec(b"/tmp/\xff".to_vec())));
    }
}

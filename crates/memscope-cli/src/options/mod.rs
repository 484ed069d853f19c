//! The one place of options and sub-commands, as tables. Parser, help, man page and completions read them; nothing else spells an
//! option's name.
mod hints;
mod of_run;
mod of_views;
mod sub_commands;

pub use hints::{hint_for, mistyped_sub_command};
pub use of_run::OPTIONS;
pub use of_views::VIEW_OPTIONS;
pub use sub_commands::{SUB_COMMANDS, SubCommand, SubCommandSpec, sub_command};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionId {
    Help,
    Version,
    Steps,
    Device,
    Level,
    Events,
    CallStack,
    CollectMode,
    Analysis,
    DataFormat,
    Stacks,
    Watch,
    Output,
    WatchMaxBytes,
    MaxSize,
    LogLevel,
    Verbose,
    Quiet,
    Compare,
    Input,
    LoadApiEnv,
    UnloadApiEnv,
    At,
    Pid,
    OfDevice,
    Pool,
    Sort,
    Rows,
    Least,
    Chart,
    Svg,
    Json,
    FailOn,
    MstxInfo,
    StartIndex,
    MemSize,
    InefficientType,
    IdleThreshold,
    Write,
    File,
    All,
}

/// What completions offer for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    Nothing,
    Directory,
    Path,
    Words(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug)]
pub struct ValueSpec {
    pub placeholder: &'static str,
    /// Ends every message about a bad value.
    pub allowed: &'static str,
    pub offer: Offer,
}

#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    pub id: OptionId,
    /// Without the dashes; the first is the manual's.
    pub names: &'static [&'static str],
    pub shorts: &'static [char],
    /// `None`: the option takes no value.
    pub value: Option<ValueSpec>,
    pub help: &'static str,
}

impl OptionSpec {
    /// The manual's spelling, with dashes.
    pub fn spelling(&self) -> String {
        format!("--{}", self.names[0])
    }

    /// "" for an option without value: those have no bad values.
    pub fn allowed(&self) -> &'static str {
        self.value.map_or("", |value| value.allowed)
    }
}

pub fn option(id: OptionId) -> &'static OptionSpec {
    OPTIONS.iter().chain(VIEW_OPTIONS).find(|option| option.id == id).expect("every option has a row")
}

/// Whether the option belongs to some sub-commands and to nothing else.
pub fn is_of_views(id: OptionId) -> bool {
    VIEW_OPTIONS.iter().any(|option| option.id == id)
}

/// As [`option_named`], options of sub-commands too: which command is meant is not known while options are read.
pub fn any_option_named(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().chain(VIEW_OPTIONS).find(|option| option.names.contains(&name))
}

pub fn option_named(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

pub fn option_short(letter: char) -> Option<&'static OptionSpec> {
    OPTIONS.iter().chain(VIEW_OPTIONS).find(|option| option.shorts.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_and_no_letter_is_taken_twice() {
        let mut names: Vec<&str> = OPTIONS.iter().flat_map(|option| option.names.iter().copied()).collect();
        let mut letters: Vec<char> = OPTIONS.iter().flat_map(|option| option.shorts.iter().copied()).collect();
        let (all_names, all_letters) = (names.len(), letters.len());
        names.sort_unstable();
        names.dedup();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!((names.len(), letters.len()), (all_names, all_letters));
    }

    #[test]
    fn no_command_has_two_options_of_one_name() {
        for command in SUB_COMMANDS {
            let specs: Vec<&OptionSpec> = command.options().collect();
            for spec in &specs {
                for name in spec.names {
                    assert_eq!(specs.iter().filter(|other| other.names.contains(name)).count(), 1, "{name}");
                }
            }
        }
    }
}

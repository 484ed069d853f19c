//! The one table of options and sub-commands. Parser, help, man page and completions read it; nothing else spells an
//! option's name.
use memscope_session::settings::{FORMAT_CHOICES, FORMAT_HELP, FORMAT_WORDS};

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
    MaxSize,
    LogLevel,
    Verbose,
    Quiet,
    Compare,
    Input,
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

pub static OPTIONS: &[OptionSpec] = &[
    OptionSpec { id: OptionId::Help, names: &["help"], shorts: &['h'], value: None, help: "Print this help" },
    OptionSpec {
        id: OptionId::Version,
        names: &["version"],
        shorts: &['v', 'V'],
        value: None,
        help: "Print the version",
    },
    OptionSpec {
        id: OptionId::Steps,
        names: &["steps"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "step numbers from 1 to 4294967295, separated by commas, e.g. 1,2,3",
            offer: Offer::Nothing,
        }),
        help: "Collect only these steps, e.g. --steps=1,2,3 [default: all]",
    },
    OptionSpec {
        id: OptionId::Device,
        names: &["device"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "npu, npu:0 to npu:31, cpu, separated by commas",
            offer: Offer::Words(&["npu", "cpu", "npu,cpu"]),
        }),
        help: "Whose memory to collect: npu (all NPUs), npu:ID with ID from 0 to 31, cpu (the host), \
               e.g. --device=npu:2,npu:7,cpu [default: npu]",
    },
    OptionSpec {
        id: OptionId::Level,
        names: &["level"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "0 or op, 1 or kernel, separated by commas",
            offer: Offer::Words(&["op", "kernel", "op,kernel", "0", "1"]),
        }),
        help: "Collect operators (0 or op), kernels (1 or kernel) or both, e.g. --level=op,kernel [default: op]",
    },
    OptionSpec {
        id: OptionId::Events,
        names: &["events"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "alloc, free, launch, access, traceback, separated by commas, or none",
            offer: Offer::Words(&["alloc", "free", "launch", "access", "traceback", "none"]),
        }),
        help: "Events to write: alloc, free, launch, access, traceback, or none; alloc, free and access bring the \
               events they need with them [default: alloc,free,launch]",
    },
    OptionSpec {
        id: OptionId::CallStack,
        names: &["call-stack"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "c, python, c:DEPTH, python:DEPTH with DEPTH from 0 to 1000, separated by commas",
            offer: Offer::Words(&["c", "python", "c,python"]),
        }),
        help: "Collect call stacks, with their depth if given (0 to 1000, otherwise 50), \
               e.g. --call-stack=c:20,python:10 [default: none]",
    },
    OptionSpec {
        id: OptionId::CollectMode,
        names: &["collect-mode"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "MODE",
            allowed: "immediate, deferred",
            offer: Offer::Words(&["immediate", "deferred"]),
        }),
        help: "Collect from the start (immediate) or from the first start() of the Python interface (deferred) \
               [default: immediate]",
    },
    OptionSpec {
        id: OptionId::Analysis,
        names: &["analysis"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "leaks, decompose, inefficient, oom, oom:K with K from 1 to 1000, separated by commas, or none",
            offer: Offer::Words(&["leaks", "decompose", "inefficient", "oom", "none"]),
        }),
        help: "Analyses: leaks, decompose, inefficient, oom[:K] (the K largest holders, 1 to 1000, otherwise 10), or \
               none; each brings the events it needs with it [default: leaks]",
    },
    OptionSpec {
        id: OptionId::DataFormat,
        names: &["data-format", "format"],
        shorts: &[],
        value: Some(ValueSpec { placeholder: "FORMAT", allowed: FORMAT_CHOICES, offer: Offer::Words(FORMAT_WORDS) }),
        help: FORMAT_HELP,
    },
    OptionSpec {
        id: OptionId::Stacks,
        names: &["stacks"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "WHERE",
            allowed: "inline, table",
            offer: Offer::Words(&["inline", "table"]),
        }),
        help: "Where the exported files have call stacks: inline (in each row) or table (once, beside the rows, which \
               refer to it) [default: table for host memory, inline for NPUs; of export: that of the run]",
    },
    OptionSpec {
        id: OptionId::Watch,
        names: &["watch"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "SPEC",
            allowed: "[START[:OUTPUT]],END[,full-content] where START and END are operator names of at most 254 bytes \
                      and OUTPUT is a number",
            offer: Offer::Nothing,
        }),
        help: "Watch the output tensors of operator START until operator END, e.g. --watch=op0:1,op1,full-content; \
               without full-content only check sums are kept",
    },
    OptionSpec {
        id: OptionId::Output,
        names: &["output", "output-path"],
        shorts: &['o'],
        value: Some(ValueSpec {
            placeholder: "DIR",
            allowed: "a directory path of 1 to 4096 characters",
            offer: Offer::Directory,
        }),
        help: "Directory for the results; created if need be [default: memscopeDumpResults, as msleaks \
               leaksDumpResults; of export: that of the recording]",
    },
    OptionSpec {
        id: OptionId::MaxSize,
        names: &["max-size"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "SIZE",
            allowed: "a number of bytes from 1, or with K, M, G or T for the power of 1024, e.g. 500M or 2G",
            offer: Offer::Nothing,
        }),
        help: "Largest size of the recording on disk, e.g. 500M or 2G [default: no limit]",
    },
    OptionSpec {
        id: OptionId::LogLevel,
        names: &["log-level"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LEVEL",
            allowed: "debug, info, warn, error",
            offer: Offer::Words(&["debug", "info", "warn", "error"]),
        }),
        help: "How much to say: debug, info, warn or error [default: warn]",
    },
    OptionSpec {
        id: OptionId::Verbose,
        names: &["verbose", "debug"],
        shorts: &[],
        value: None,
        help: "Short for --log-level=debug; an explicit --log-level wins",
    },
    OptionSpec {
        id: OptionId::Quiet,
        names: &["quiet"],
        shorts: &['q'],
        value: None,
        help: "Short for --log-level=error; --verbose and an explicit --log-level win",
    },
    OptionSpec {
        id: OptionId::Compare,
        names: &["compare"],
        shorts: &[],
        value: None,
        help: "Compare two earlier runs, named by --input, instead of running a program",
    },
    OptionSpec {
        id: OptionId::Input,
        names: &["input", "input-path"],
        shorts: &['i'],
        value: Some(ValueSpec {
            placeholder: "BASE,COMPARE",
            allowed: "two existing paths separated by a comma, together at most 4096 characters",
            offer: Offer::Path,
        }),
        help: "The two results for --compare, e.g. --input=/home/a/run1,/home/a/run2",
    },
    OptionSpec {
        id: OptionId::All,
        names: &["all"],
        shorts: &[],
        value: None,
        help: "Of info: everything about each process, however many there are [default: the ten largest of many]",
    },
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubCommand {
    Export,
    Info,
    Completions,
    ManPage,
}

#[derive(Clone, Copy, Debug)]
pub struct SubCommandSpec {
    pub id: SubCommand,
    pub name: &'static str,
    /// Name of its one operand, and what that is; `None`: it takes none.
    pub operand: Option<(&'static str, &'static str)>,
    pub options: &'static [OptionId],
    /// Only for `make install`.
    pub hidden: bool,
    pub help: &'static str,
}

pub static SUB_COMMANDS: &[SubCommandSpec] = &[
    SubCommandSpec {
        id: SubCommand::Export,
        name: "export",
        operand: Some(("DIR", "one directory: an output directory, a process directory or a spool directory")),
        options: &[
            OptionId::DataFormat,
            OptionId::Stacks,
            OptionId::Output,
            OptionId::LogLevel,
            OptionId::Verbose,
            OptionId::Quiet,
            OptionId::Help,
        ],
        hidden: false,
        help: "Write the files of an earlier run, again or elsewhere",
    },
    SubCommandSpec {
        id: SubCommand::Info,
        name: "info",
        operand: Some((
            "DIR",
            "one directory: an output directory, a process directory or a spool directory, or one csv or db file",
        )),
        options: &[OptionId::All, OptionId::LogLevel, OptionId::Verbose, OptionId::Quiet, OptionId::Help],
        hidden: false,
        help: "Say what an earlier run recorded, or what dump files say",
    },
    SubCommandSpec {
        id: SubCommand::Completions,
        name: "completions",
        operand: Some(("SHELL", "one shell: bash, zsh or fish")),
        options: &[OptionId::Help],
        hidden: true,
        help: "Print the completion script of a shell",
    },
    SubCommandSpec {
        id: SubCommand::ManPage,
        name: "man",
        operand: None,
        options: &[OptionId::Help],
        hidden: true,
        help: "Print the man page",
    },
];

pub fn option(id: OptionId) -> &'static OptionSpec {
    OPTIONS.iter().find(|option| option.id == id).expect("every option has a row")
}

pub fn option_named(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

pub fn option_short(letter: char) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|option| option.shorts.contains(&letter))
}

pub fn sub_command(id: SubCommand) -> &'static SubCommandSpec {
    SUB_COMMANDS.iter().find(|command| command.id == id).expect("every sub-command has a row")
}

/// What to say about a long option that does not exist; `name` without its dashes.
pub fn hint_for(name: &str) -> String {
    let names = || OPTIONS.iter().flat_map(|option| option.names.iter().copied());
    let full: Vec<String> =
        names().filter(|full| !name.is_empty() && full.starts_with(name)).map(|full| format!("--{full}")).collect();
    if !full.is_empty() {
        return format!("options cannot be shortened; write {}", full.join(" or "));
    }
    let closest = names().map(|known| (distance(name, known), known)).min().expect("the table is not empty");
    // A distance near the length of the word means that nothing of it was kept.
    if closest.0 <= closest.1.len() / 2 {
        format!("did you mean --{}?", closest.1)
    } else {
        String::from("--help lists all; options of the program come after its name")
    }
}

/// Levenshtein's: insertions, deletions and replacements that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
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
    fn edit_distance_counts_single_character_edits() {
        for (from, to, edits) in [("", "", 0), ("steps", "steps", 0), ("stpes", "steps", 2), ("", "abc", 3)] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
            assert_eq!(distance(to, from), edits, "{to} {from}");
        }
    }

    #[test]
    fn a_hint_names_the_full_option_the_closest_or_none() {
        assert_eq!(hint_for("call"), "options cannot be shortened; write --call-stack");
        assert_eq!(hint_for("out"), "options cannot be shortened; write --output or --output-path");
        assert_eq!(hint_for("evnets"), "did you mean --events?");
        assert_eq!(hint_for("callstack"), "did you mean --call-stack?");
        assert!(hint_for("zzzzzzzz").starts_with("--help lists all"));
    }
}

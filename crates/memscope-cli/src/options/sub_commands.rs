//! Sub-commands, with the options each takes.
use super::{OptionId, OptionSpec, option};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubCommand {
    Export,
    Info,
    Analyze,
    Top,
    Tree,
    Flamegraph,
    Diff,
    Completions,
    ManPage,
    SideKeeper,
}

#[derive(Clone, Copy, Debug)]
pub struct SubCommandSpec {
    pub id: SubCommand,
    pub name: &'static str,
    /// Name of its one operand, and what that is; `None`: it takes none.
    pub operand: Option<(&'static str, &'static str)>,
    options: &'static [&'static [OptionId]],
    /// Only for `make install`.
    pub hidden: bool,
    pub help: &'static str,
}

impl SubCommandSpec {
    /// How many operands it takes at most.
    pub fn most_operands(&self) -> usize {
        match self.id {
            SubCommand::Diff => 2,
            SubCommand::Analyze => usize::MAX,
            _ => usize::from(self.operand.is_some()),
        }
    }

    /// The options it takes.
    pub fn options(&self) -> impl Iterator<Item = &'static OptionSpec> {
        self.options.iter().copied().flatten().map(|id| option(*id))
    }

    pub fn takes(&self, id: OptionId) -> bool {
        self.options().any(|option| option.id == id)
    }

    /// What an option of this spelling, with its dashes, is in this command.
    pub fn option(&self, spelling: &str) -> Option<&'static OptionSpec> {
        let named = |spec: &&'static OptionSpec| match spelling.strip_prefix("--") {
            Some(name) => spec.names.contains(&name),
            None => spelling
                .strip_prefix('-')
                .is_some_and(|letter| spec.shorts.iter().any(|short| letter == short.to_string())),
        };
        self.options().find(named)
    }
}

const RECORDING: &str = "one directory: an output directory, a process directory or a spool directory, or one of csv or db \
                         files, or such a file";

/// What is looked at: a moment of a process, and whose memory.
const OF_A_MOMENT: &[OptionId] = &[OptionId::At, OptionId::Pid, OptionId::OfDevice, OptionId::Pool];
/// How much is said.
const REPORTING: &[OptionId] = &[OptionId::LogLevel, OptionId::Verbose, OptionId::Quiet, OptionId::Help];

pub static SUB_COMMANDS: &[SubCommandSpec] = &[
    SubCommandSpec {
        id: SubCommand::Export,
        name: "export",
        operand: Some(("DIR", "one directory: an output directory, a process directory or a spool directory")),
        options: &[&[OptionId::DataFormat, OptionId::Stacks, OptionId::Analysis, OptionId::Output], REPORTING],
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
        options: &[&[OptionId::All], REPORTING],
        hidden: false,
        help: "Say what an earlier run recorded, or what dump files say",
    },
    SubCommandSpec {
        id: SubCommand::Analyze,
        name: "analyze",
        operand: Some((
            "DIR",
            "directories of recordings, or csv or db files, and then the analyses wanted, if not all: leaks, fluctuation, \
             decompose, inefficient, oom, watch",
        )),
        options: &[
            &[
                OptionId::At,
                OptionId::Json,
                OptionId::FailOn,
                OptionId::MstxInfo,
                OptionId::StartIndex,
                OptionId::MemSize,
                OptionId::InefficientType,
                OptionId::IdleThreshold,
                OptionId::Write,
            ],
            REPORTING,
        ],
        hidden: false,
        help: "Find leaks, fluctuation, memory held for nothing and what ran out in an earlier run",
    },
    SubCommandSpec {
        id: SubCommand::Top,
        name: "top",
        operand: Some(("DIR", RECORDING)),
        options: &[OF_A_MOMENT, &[OptionId::Sort, OptionId::Rows, OptionId::Json], REPORTING],
        hidden: false,
        help: "List the functions and call sites that hold most memory",
    },
    SubCommandSpec {
        id: SubCommand::Tree,
        name: "tree",
        operand: Some(("DIR", RECORDING)),
        options: &[OF_A_MOMENT, &[OptionId::Least, OptionId::Json], REPORTING],
        hidden: false,
        help: "Show who called whom to get the memory, as a tree",
    },
    SubCommandSpec {
        id: SubCommand::Flamegraph,
        name: "flamegraph",
        operand: Some(("DIR", RECORDING)),
        options: &[OF_A_MOMENT, &[OptionId::Chart, OptionId::File], REPORTING],
        hidden: false,
        help: "Draw that tree as a flame graph, for a browser",
    },
    SubCommandSpec {
        id: SubCommand::Diff,
        name: "diff",
        operand: Some((
            "DIR",
            "two directories of recordings, or one and two moments (--at=A,B) or processes (--pid=A,B)",
        )),
        options: &[OF_A_MOMENT, &[OptionId::Rows, OptionId::Svg, OptionId::File, OptionId::Json], REPORTING],
        hidden: false,
        help: "List the call sites that grew or shrank between two runs, processes or moments",
    },
    SubCommandSpec {
        id: SubCommand::Completions,
        name: "completions",
        operand: Some(("SHELL", "one shell: bash, zsh or fish")),
        options: &[&[OptionId::Help]],
        hidden: true,
        help: "Print the completion script of a shell",
    },
    SubCommandSpec {
        id: SubCommand::ManPage,
        name: "man",
        operand: None,
        options: &[&[OptionId::Help]],
        hidden: true,
        help: "Print the man page",
    },
    SubCommandSpec {
        id: SubCommand::SideKeeper,
        name: memscope_session::keeper::side::COMMAND,
        operand: Some(("PROCESS", "a process number and its start time")),
        options: &[&[OptionId::Help]],
        hidden: true,
        help: "Keep the run of a program that records itself; the Python package starts it",
    },
];

pub fn sub_command(id: SubCommand) -> &'static SubCommandSpec {
    SUB_COMMANDS.iter().find(|command| command.id == id).expect("every sub-command has a row")
}

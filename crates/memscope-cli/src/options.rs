//! The one table of options and sub-commands. Parser, help, man page and completions read it; nothing else spells an
//! option's name.
use memscope_session::analyze::ANALYSIS_WORDS;
use memscope_session::settings::{FORMAT_CHOICES, FORMAT_HELP, FORMAT_WORDS, allowed};

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
            allowed: allowed::DEVICE,
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
            allowed: allowed::LEVEL,
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
            allowed: allowed::EVENTS,
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
            allowed: allowed::CALL_STACK,
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
            allowed: allowed::ANALYSIS,
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
        value: Some(ValueSpec { placeholder: "SPEC", allowed: allowed::WATCH, offer: Offer::Nothing }),
        help: "Watch the output tensors of operator START until operator END, e.g. --watch=op0:1,op1,full-content; \
               without full-content only check sums are kept. The report says who changed them",
    },
    OptionSpec {
        id: OptionId::WatchMaxBytes,
        names: &["watch-max-bytes"],
        shorts: &[],
        value: Some(ValueSpec { placeholder: "SIZE", allowed: allowed::SIZE, offer: Offer::Nothing }),
        help: "Most bytes that --watch=...,full-content keeps of each process; from then on only check sums [default: 4G]",
    },
    OptionSpec {
        id: OptionId::Output,
        names: &["output", "output-path"],
        shorts: &['o'],
        value: Some(ValueSpec { placeholder: "DIR", allowed: allowed::OUTPUT, offer: Offer::Directory }),
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
        help: "Compare two earlier runs, named by --input, operator by operator (--level=op) or kernel by kernel \
               (--level=kernel), or two steps of one, instead of running a program; --json for programs",
    },
    OptionSpec {
        id: OptionId::Input,
        names: &["input", "input-path"],
        shorts: &['i'],
        value: Some(ValueSpec {
            placeholder: "BASE,COMPARE",
            allowed: "two existing paths separated by a comma, together at most 4096 characters, or one with \
                      --steps=BASE,COMPARE",
            offer: Offer::Path,
        }),
        help: "What --compare compares: directories or csv or db files, e.g. --input=/home/a/run1,/home/a/run2, or one and \
               two steps of it, e.g. --input=/home/a/run1 --steps=2,3",
    },
    OptionSpec {
        id: OptionId::LoadApiEnv,
        names: &["load-api-env"],
        shorts: &[],
        value: None,
        help: "Let programs of this shell load the recording library from their start, for the Python interface: \
               source msmemscope --load-api-env",
    },
    OptionSpec {
        id: OptionId::UnloadApiEnv,
        names: &["unload-api-env"],
        shorts: &[],
        value: None,
        help: "Undo --load-api-env: source msmemscope --unload-api-env",
    },
    OptionSpec {
        id: OptionId::All,
        names: &["all"],
        shorts: &[],
        value: None,
        help: "Of info: everything about each process, however many there are [default: the ten largest of many]",
    },
];

/// Options of sub-commands only. Within those they come before options of the same name in [`OPTIONS`].
pub static VIEW_OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        id: OptionId::At,
        names: &["at"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "MOMENT",
            allowed: "peak, end, main (when main returned, of Python programs), step:N (its end), a time after the \
                      beginning such as 12.5 or 800ms, or total; of diff also two of them, separated by a comma",
            offer: Offer::Words(&["peak", "end", "main", "total", "step:"]),
        }),
        help: "When: peak, end, main (when a Python program's main module had run), step:N (when step N ended), a time \
               after the beginning, e.g. 12.5 or 800ms, or total (all that was allocated, freed or not); of diff two of them, e.g. --at=step:2,step:9 [default: peak]",
    },
    OptionSpec {
        id: OptionId::Pid,
        names: &["pid"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "PID",
            allowed: "the number of a recorded process; of diff also two of them, separated by a comma",
            offer: Offer::Nothing,
        }),
        help: "Which process [default: the one with the highest peak]",
    },
    OptionSpec {
        id: OptionId::OfDevice,
        names: &["device"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "DEVICE",
            allowed: "cpu, or npu:ID",
            offer: Offer::Words(&["cpu", "npu:0"]),
        }),
        help: "Whose memory: cpu or npu:ID [default: where the peak was highest]",
    },
    OptionSpec {
        id: OptionId::Pool,
        names: &["pool"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "POOL",
            allowed: "HOST, PINNED, HAL, PTA, PTA_WORKSPACE, ATB, MINDSPORE",
            offer: Offer::Words(&["HOST", "PINNED", "HAL", "PTA", "PTA_WORKSPACE", "ATB", "MINDSPORE"]),
        }),
        help: "Memory of which pool: HOST, PINNED, HAL, PTA, PTA_WORKSPACE, ATB or MINDSPORE [default: that with the \
               highest peak]",
    },
    OptionSpec {
        id: OptionId::Sort,
        names: &["sort"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "BY",
            allowed: "own, inclusive",
            offer: Offer::Words(&["own", "inclusive"]),
        }),
        help: "Order of functions: by their own bytes, or with those they called [default: your functions first]",
    },
    OptionSpec {
        id: OptionId::Rows,
        names: &["rows"],
        shorts: &['n'],
        value: Some(ValueSpec { placeholder: "N", allowed: "a number from 1", offer: Offer::Nothing }),
        help: "How many rows [default: 20]",
    },
    OptionSpec {
        id: OptionId::Least,
        names: &["min"],
        shorts: &[],
        value: Some(ValueSpec { placeholder: "PERCENT", allowed: "0 to 100", offer: Offer::Nothing }),
        help: "Leave out what holds less than this share of the whole [default: 1]",
    },
    OptionSpec {
        id: OptionId::Chart,
        names: &["format"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "FORMAT",
            allowed: "svg, collapsed, speedscope",
            offer: Offer::Words(&["svg", "collapsed", "speedscope"]),
        }),
        help: "svg for a browser, collapsed (a line a stack) or speedscope for other tools [default: svg]",
    },
    OptionSpec {
        id: OptionId::Svg,
        names: &["svg"],
        shorts: &[],
        value: None,
        help: "Draw both as one flame graph for a browser: what grew and what shrank",
    },
    OptionSpec { id: OptionId::Json, names: &["json"], shorts: &[], value: None, help: "Print JSON" },
    OptionSpec {
        id: OptionId::FailOn,
        names: &["fail-on"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "names of analyses, separated by commas, e.g. leaks,oom",
            offer: Offer::Words(ANALYSIS_WORDS),
        }),
        help: "End with status 1 if one of these finds something, e.g. --fail-on=leaks,oom",
    },
    OptionSpec {
        id: OptionId::MstxInfo,
        names: &["mstx-info"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "TEXT",
            allowed: "the text of marks the program made",
            offer: Offer::Nothing,
        }),
        help: "leaks: what was allocated between two marks of this text and not freed by a third, instead of by steps",
    },
    OptionSpec {
        id: OptionId::StartIndex,
        names: &["start-index"],
        shorts: &[],
        value: Some(ValueSpec { placeholder: "N", allowed: "a whole number from 0 on", offer: Offer::Nothing }),
        help: "leaks: the first of the three marks, from 0 [default: 0]",
    },
    OptionSpec {
        id: OptionId::MemSize,
        names: &["mem-size"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "SIZE",
            allowed: "a number of bytes, or with K, M, G or T behind it, e.g. 1M",
            offer: Offer::Nothing,
        }),
        help: "inefficient: leave out blocks smaller than this [default: 0]",
    },
    OptionSpec {
        id: OptionId::InefficientType,
        names: &["inefficient-type"],
        shorts: &[],
        value: Some(ValueSpec {
            placeholder: "LIST",
            allowed: "early_allocation, late_deallocation, temporary_idleness, separated by commas",
            offer: Offer::Words(&["early_allocation", "late_deallocation", "temporary_idleness"]),
        }),
        help: "inefficient: look only for these of early_allocation, late_deallocation and temporary_idleness",
    },
    OptionSpec {
        id: OptionId::IdleThreshold,
        names: &["idle-threshold"],
        shorts: &[],
        value: Some(ValueSpec { placeholder: "N", allowed: "a number of operators from 1", offer: Offer::Nothing }),
        help: "inefficient: more operators than this between two accesses make a block idle [default: 3000]",
    },
    OptionSpec {
        id: OptionId::Write,
        names: &["write"],
        shorts: &[],
        value: None,
        help: "inefficient: add what is found to the csv or db file, as inefficient_type of the rows that allocate",
    },
    OptionSpec {
        id: OptionId::File,
        names: &["output"],
        shorts: &['o'],
        value: Some(ValueSpec { placeholder: "FILE", allowed: "a file, or - for standard output", offer: Offer::Path }),
        help: "File to write, - for standard output [default: flamegraph_PID.svg, or as the format is called]",
    },
];

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
    pub options: &'static [OptionId],
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

    /// What an option of this spelling, with its dashes, is in this command.
    pub fn option(&self, spelling: &str) -> Option<&'static OptionSpec> {
        let named = |spec: &&OptionSpec| match spelling.strip_prefix("--") {
            Some(name) => spec.names.contains(&name),
            None => spelling
                .strip_prefix('-')
                .is_some_and(|letter| spec.shorts.iter().any(|short| letter == short.to_string())),
        };
        self.options.iter().map(|id| option(*id)).find(named)
    }
}

const RECORDING: &str = "one directory: an output directory, a process directory or a spool directory, or one of csv or db \
                         files, or such a file";

pub static SUB_COMMANDS: &[SubCommandSpec] = &[
    SubCommandSpec {
        id: SubCommand::Export,
        name: "export",
        operand: Some(("DIR", "one directory: an output directory, a process directory or a spool directory")),
        options: &[
            OptionId::DataFormat,
            OptionId::Stacks,
            OptionId::Analysis,
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
        id: SubCommand::Analyze,
        name: "analyze",
        operand: Some((
            "DIR",
            "directories of recordings, or csv or db files, and then the analyses wanted, if not all: leaks, fluctuation, \
             decompose, inefficient, oom, watch",
        )),
        options: &[
            OptionId::At,
            OptionId::Json,
            OptionId::FailOn,
            OptionId::MstxInfo,
            OptionId::StartIndex,
            OptionId::MemSize,
            OptionId::InefficientType,
            OptionId::IdleThreshold,
            OptionId::Write,
            OptionId::LogLevel,
            OptionId::Verbose,
            OptionId::Quiet,
            OptionId::Help,
        ],
        hidden: false,
        help: "Find leaks, fluctuation, memory held for nothing and what ran out in an earlier run",
    },
    SubCommandSpec {
        id: SubCommand::Top,
        name: "top",
        operand: Some(("DIR", RECORDING)),
        options: &[
            OptionId::At,
            OptionId::Pid,
            OptionId::OfDevice,
            OptionId::Pool,
            OptionId::Sort,
            OptionId::Rows,
            OptionId::Json,
            OptionId::LogLevel,
            OptionId::Verbose,
            OptionId::Quiet,
            OptionId::Help,
        ],
        hidden: false,
        help: "List the functions and call sites that hold most memory",
    },
    SubCommandSpec {
        id: SubCommand::Tree,
        name: "tree",
        operand: Some(("DIR", RECORDING)),
        options: &[
            OptionId::At,
            OptionId::Pid,
            OptionId::OfDevice,
            OptionId::Pool,
            OptionId::Least,
            OptionId::Json,
            OptionId::LogLevel,
            OptionId::Verbose,
            OptionId::Quiet,
            OptionId::Help,
        ],
        hidden: false,
        help: "Show who called whom to get the memory, as a tree",
    },
    SubCommandSpec {
        id: SubCommand::Flamegraph,
        name: "flamegraph",
        operand: Some(("DIR", RECORDING)),
        options: &[
            OptionId::At,
            OptionId::Pid,
            OptionId::OfDevice,
            OptionId::Pool,
            OptionId::Chart,
            OptionId::File,
            OptionId::LogLevel,
            OptionId::Verbose,
            OptionId::Quiet,
            OptionId::Help,
        ],
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
        options: &[
            OptionId::At,
            OptionId::Pid,
            OptionId::OfDevice,
            OptionId::Pool,
            OptionId::Rows,
            OptionId::Svg,
            OptionId::File,
            OptionId::Json,
            OptionId::LogLevel,
            OptionId::Verbose,
            OptionId::Quiet,
            OptionId::Help,
        ],
        hidden: false,
        help: "List the call sites that grew or shrank between two runs, processes or moments",
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
    SubCommandSpec {
        id: SubCommand::SideKeeper,
        name: memscope_session::keeper::side::COMMAND,
        operand: Some(("PROCESS", "a process number and its start time")),
        options: &[OptionId::Help],
        hidden: true,
        help: "Keep the run of a program that records itself; the Python package starts it",
    },
];

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

pub fn sub_command(id: SubCommand) -> &'static SubCommandSpec {
    SUB_COMMANDS.iter().find(|command| command.id == id).expect("every sub-command has a row")
}

/// What to say about a long option that does not exist; `name` without its dashes.
pub fn hint_for(name: &str) -> String {
    let mut all: Vec<&str> =
        OPTIONS.iter().chain(VIEW_OPTIONS).flat_map(|option| option.names.iter().copied()).collect();
    let mut seen = std::collections::HashSet::new();
    all.retain(|name| seen.insert(*name));
    let names = || all.iter().copied();
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

/// The sub-command that was meant by a word that is none: one letter is missing, too much or wrong, or two are exchanged; in
/// long words two letters may be wrong.
pub fn mistyped_sub_command(typed: &str) -> Option<&'static SubCommandSpec> {
    let exchanged = |name: &str| {
        let (typed, name): (Vec<char>, Vec<char>) = (typed.chars().collect(), name.chars().collect());
        (1..name.len()).any(|at| {
            let mut other = name.clone();
            other.swap(at - 1, at);
            other == typed
        })
    };
    let near = |spec: &&SubCommandSpec| {
        let edits = distance(typed, spec.name);
        edits == 1 || (edits == 2 && spec.name.len() > 5) || exchanged(spec.name)
    };
    SUB_COMMANDS.iter().filter(|spec| !spec.hidden).find(near)
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
    fn no_command_has_two_options_of_one_name() {
        for command in SUB_COMMANDS {
            let specs: Vec<&OptionSpec> = command.options.iter().map(|id| option(*id)).collect();
            for spec in &specs {
                for name in spec.names {
                    assert_eq!(specs.iter().filter(|other| other.names.contains(name)).count(), 1, "{name}");
                }
            }
        }
    }

    #[test]
    fn mistyped_commands_are_recognised_and_programs_are_not() {
        for (typed, meant) in
            [("tpo", "top"), ("tre", "tree"), ("dif", "diff"), ("flamegraf", "flamegraph"), ("inof", "info")]
        {
            assert_eq!(mistyped_sub_command(typed).map(|spec| spec.name), Some(meant), "{typed}");
        }
        for program in ["ls", "tar", "du", "df", "dir", "find", "python", "bash", "rm", "t"] {
            assert!(mistyped_sub_command(program).is_none(), "{program}");
        }
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

//! Options of the command itself; some of them sub-commands take as well.
use super::{Offer, OptionId, OptionSpec, ValueSpec};
use memscope_session::settings::{FORMAT_CHOICES, FORMAT_HELP, FORMAT_WORDS, allowed};

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

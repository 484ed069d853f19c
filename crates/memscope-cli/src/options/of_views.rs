//! Options of sub-commands only.
use super::{Offer, OptionId, OptionSpec, ValueSpec};
use memscope_session::analyze::ANALYSIS_WORDS;

/// Within sub-commands they come before options of the same name in [`super::OPTIONS`].
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

//! The analyses: what a user asks of a recording or of dump files, and what the report after a run says of its own accord.
//!
//! [`ANALYSES`] is the one table of them. Each has a module here that gives the report of `memscope-analysis`, which is
//! numbers, its names, and is two views of it: lines for a person and JSON for a program. All that are asked for share one
//! pass over a trace ([`Analysts`]).
mod decompose;
mod fluctuation;
pub mod inefficient;
pub mod leaks;
pub mod oom;
mod reading;
mod shares;
mod text;
pub mod watch;

use std::fmt;
use std::num::NonZeroU16;
use std::path::Path;

use memscope_analysis::InefficiencySettings;
use memscope_model::{Outcome, TimestampNs, TraceInfo, TraceSink};
use serde::Serialize;
use serde_json::{Value, json};

use crate::keeper::oom_kills::{self, OomKill};
use crate::line::Line;
use crate::program_end::ProgramEnd;
use crate::settings::Analysis;
use crate::views::layout::Layout;
use crate::views::merged::Naming;
use crate::views::reading::At;

use reading::name_of;
pub use reading::{AnalyzeError, Analyzed, AnalyzedProcess, analyze, analyze_places};
pub use text::lines;

/// The version of the JSON's shape; it grows when something is renamed, moved or left out.
pub const SCHEMA: u32 = 1;

/// What can be asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Leaks,
    Fluctuation,
    Decompose,
    Inefficient,
    Oom,
    Watch,
}

impl Kind {
    pub fn row(self) -> &'static Row {
        ANALYSES.iter().find(|row| row.kind == self).expect("every analysis has a row")
    }

    pub fn word(self) -> &'static str {
        self.row().word
    }

    pub fn from_word(word: &str) -> Option<Kind> {
        ANALYSES.iter().find(|row| row.word == word).map(|row| row.kind)
    }
}

/// One analysis.
pub struct Row {
    pub kind: Kind,
    pub word: &'static str,
    /// For help texts.
    pub answers: &'static str,
    /// Whether the report after a run has it, of what the run was asked for.
    in_report: fn(&Analysis) -> bool,
    begin: fn(&Wishes) -> Box<dyn Running>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

pub static ANALYSES: [Row; 6] = [
    Row {
        kind: Kind::Leaks,
        word: "leaks",
        answers: "what is not given back, and whether it grows",
        in_report: |analysis| analysis.leaks,
        begin: leaks::begin,
    },
    Row {
        kind: Kind::Fluctuation,
        word: "fluctuation",
        answers: "how memory goes up and down within steps, what held it at the peak, what pools reserve without using it",
        // The first sign of a leak.
        in_report: |analysis| analysis.leaks,
        begin: fluctuation::begin,
    },
    Row {
        kind: Kind::Decompose,
        word: "decompose",
        answers: "what memory is made of, by owner: at the peak, at the end of each step, at any moment",
        in_report: |analysis| analysis.decompose,
        begin: decompose::begin,
    },
    Row {
        kind: Kind::Inefficient,
        word: "inefficient",
        answers: "what is allocated too early, freed too late or idle, by operators",
        in_report: |analysis| analysis.inefficient,
        begin: inefficient::begin,
    },
    Row {
        kind: Kind::Oom,
        word: "oom",
        answers: "what was going on when memory ran out",
        // Always: nobody knows beforehand.
        in_report: |_| true,
        begin: oom::begin,
    },
    Row {
        kind: Kind::Watch,
        word: "watch",
        answers: "who changed a watched block that was not theirs",
        // Programs may watch blocks, too.
        in_report: |_| true,
        begin: watch::begin,
    },
];

/// Their words, in the order of the table.
pub const ANALYSIS_WORDS: &[&str] = &["leaks", "fluctuation", "decompose", "inefficient", "oom", "watch"];

/// What the user wants of them beyond their names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Wishes {
    /// Leaks between these, instead of by steps.
    pub marks: Option<leaks::Marks>,
    /// The moment that is decomposed.
    pub at: At,
    /// When the recording at hand began: moments may be told from there.
    pub recording_start: TimestampNs,
    /// How much will be told of it.
    pub detail: Detail,
    /// Of an out of memory: how many blocks and call sites are listed; `None` if nobody asked.
    pub oom_listed: Option<NonZeroU16>,
    /// What counts as inefficient.
    pub inefficient: InefficiencySettings,
}

/// An analysis that watches a trace.
pub trait Running {
    /// What has to see every event of it.
    fn sink(&mut self) -> &mut dyn TraceSink;

    /// The trace is over.
    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking>;
}

/// What is known when a trace is over.
#[derive(Clone)]
pub struct Ended<'e> {
    pub info: &'e TraceInfo,
    pub outcome: &'e Outcome,
    /// Where it was read from.
    pub path: &'e Path,
    /// What the run was asked to watch, in the option's notation.
    pub watch: Option<String>,
    /// The kernel killed the process for want of memory, as far as can be told.
    pub oom_kill: Option<OomKill>,
    /// The program itself ended with status 0; of its children, and of files alone, nobody knows.
    pub ended_well: bool,
}

impl<'e> Ended<'e> {
    /// `path` is where the trace was read from: what the command noted of the run is beside it.
    pub fn new(info: &'e TraceInfo, outcome: &'e Outcome, path: &'e Path) -> Ended<'e> {
        // A name such as `.` has no parent to read from.
        let output = path.canonicalize().ok().and_then(|directory| Some(directory.parent()?.to_owned()));
        let output = output.filter(|_| info.run_id != 0);
        let oom_kill = output.as_deref().filter(|_| info.exited == Some(false));
        let oom_kill = oom_kill.and_then(|output| oom_kills::of_process(output, info.run_id, info.pid, true));
        // Of others nobody asks.
        let refused_in = output.as_deref().filter(|_| outcome.refusals > 0);
        let ended_well = refused_in.is_some_and(|output| {
            let is_its = |end: &ProgramEnd| (end.run_id, end.pid) == (info.run_id, info.pid);
            ProgramEnd::read_all(output).iter().any(|end| is_its(end) && end.status.success())
        });
        Ended { info, outcome, path, watch: info.watch.clone(), oom_kill, ended_well }
    }
}

/// What came of an analysis: plain data with names, and its two views.
pub trait Report: fmt::Debug + Send {
    /// How many things were found that should not be: what `--fail-on` asks for.
    fn findings(&self) -> u64;

    /// What the document has under the word of the analysis.
    fn json(&self) -> Value;

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line>;
}

/// A report's plain data as it stands, for [`Report::json`].
fn as_json(report: &impl Serialize) -> Value {
    serde_json::to_value(report).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// How much is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// After a run, among other things: what the user should know, nothing if there is nothing to know.
    #[default]
    Brief,
    /// It was asked for.
    Full,
}

/// What a trace would need for an analysis and does not have, and how to get it: a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking(pub String);

/// Of a trace without a single block.
fn no_memory() -> Lacking {
    Lacking(String::from(
        "there is no allocation in it; --events=alloc,free records them, and --device which memory they are of",
    ))
}

/// What became of one analysis of a trace.
pub type Conclusion = (Kind, Result<Box<dyn Report>, Lacking>);

/// The analyses that share a pass over a trace.
pub struct Analysts(Vec<(Kind, Box<dyn Running>)>);

impl Analysts {
    pub fn new(kinds: &[Kind], wishes: &Wishes) -> Analysts {
        Analysts(kinds.iter().map(|kind| (*kind, (kind.row().begin)(wishes))).collect())
    }

    /// Those that belong into the report of a run that was asked for `analysis`.
    pub fn of_run(analysis: &Analysis, wishes: &Wishes) -> Analysts {
        let kinds: Vec<Kind> = ANALYSES.iter().filter(|row| (row.in_report)(analysis)).map(|row| row.kind).collect();
        Analysts::new(&kinds, wishes)
    }

    pub fn sinks(&mut self) -> impl Iterator<Item = &mut dyn TraceSink> {
        self.0.iter_mut().map(|(_, running)| running.sink())
    }

    pub fn finish(self, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Vec<Conclusion> {
        self.0.into_iter().map(|(kind, running)| (kind, running.finish(ended, naming))).collect()
    }
}

/// The document for programs, as text.
pub fn document(analyzed: &Analyzed) -> String {
    format!("{:#}\n", value(analyzed))
}

/// The document for programs. Leaks of all processes are one list: whoever asks for them need not know of processes.
pub fn value(analyzed: &Analyzed) -> Value {
    let mut leaks: Option<Vec<Value>> = None;
    let processes: Vec<Value> = analyzed
        .processes
        .iter()
        .map(|process| {
            let mut object = json!({
                "pid": process.info.pid,
                "command": process.info.command,
                "source": process.path.to_string_lossy(),
            });
            for (kind, conclusion) in &process.conclusions {
                match conclusion {
                    Ok(report) => {
                        let mut told = report.json();
                        if *kind == Kind::Leaks
                            && let Some(Value::Array(mut rows)) =
                                told.as_object_mut().and_then(|told| told.remove("leaks"))
                        {
                            rows.iter_mut().for_each(|row| row["pid"] = json!(process.info.pid));
                            leaks.get_or_insert_default().append(&mut rows);
                        }
                        object[kind.word()] = told;
                    }
                    Err(Lacking(what)) => object["lacking"][kind.word()] = json!(what),
                }
            }
            object
        })
        .collect();
    let mut document = json!({ "schema": SCHEMA, "processes": processes });
    if let Some(leaks) = leaks {
        document["leaks"] = Value::Array(leaks);
    }
    document
}

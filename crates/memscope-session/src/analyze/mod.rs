//! The analyses: what a user asks of a recording or of dump files, and what the report after a run says of its own accord.
//!
//! [`ANALYSES`] is the one table of them. Each has a module here that gives the report of `memscope-analysis`, which is
//! numbers, its names, and is two views of it: lines for a person and JSON for a program. All that are asked for share one
//! pass over a trace ([`Analysts`]).
pub mod leaks;
mod reading;

use std::fmt;

use memscope_model::{Outcome, TraceInfo, TraceSink};
use serde_json::{Value, json};

use crate::settings::Analysis;
use crate::views::layout::Layout;
use crate::views::merged::Naming;

pub use reading::{AnalyzeError, Analyzed, AnalyzedProcess, analyze};

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

pub static ANALYSES: [Row; 1] = [Row {
    kind: Kind::Leaks,
    word: "leaks",
    answers: "what is not given back, and whether it grows",
    in_report: |analysis| analysis.leaks,
    begin: leaks::begin,
}];

/// Their words, in the order of the table.
pub const ANALYSIS_WORDS: &[&str] = &["leaks", "fluctuation", "decompose", "inefficient", "oom"];

/// What the user wants of them beyond their names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Wishes {
    /// Leaks between these, instead of by steps.
    pub marks: Option<leaks::Marks>,
}

/// An analysis that watches a trace.
pub trait Running {
    /// What has to see every event of it.
    fn sink(&mut self) -> &mut dyn TraceSink;

    /// The trace is over.
    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking>;
}

/// What is known when a trace is over.
#[derive(Clone, Copy)]
pub struct Ended<'e> {
    pub info: &'e TraceInfo,
    pub outcome: &'e Outcome,
}

/// What came of an analysis: plain data with names, and its two views.
pub trait Report: fmt::Debug + Send {
    /// How many things were found that should not be: what `--fail-on` asks for.
    fn findings(&self) -> u64;

    /// What the document has under the word of the analysis.
    fn json(&self) -> Value;

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<String>;
}

/// How much is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// After a run, among other things: what the user should know, nothing if there is nothing to know.
    Brief,
    /// It was asked for.
    Full,
}

/// What a trace would need for an analysis and does not have, and how to get it: a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking(pub String);

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

/// The document for programs.
pub fn document(analyzed: &Analyzed) -> String {
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
                    Ok(report) => object[kind.word()] = report.json(),
                    Err(Lacking(what)) => object["lacking"][kind.word()] = json!(what),
                }
            }
            object
        })
        .collect();
    format!("{:#}\n", json!({ "schema": SCHEMA, "processes": processes }))
}

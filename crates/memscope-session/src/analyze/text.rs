//! What came of analyses, for a person.
use super::{Analyzed, AnalyzedProcess, Conclusion, Detail, Kind, Lacking};
use crate::line::{Line, line_of};
use crate::usage_error::quoted;
use crate::views::layout::{Emphasis, Layout};
use std::path::PathBuf;

/// The reports of all processes.
pub fn lines(analyzed: &Analyzed, layout: &Layout) -> Vec<Line> {
    analyzed.processes.iter().flat_map(|process| of_process(process, layout)).collect()
}

fn of_process(process: &AnalyzedProcess, layout: &Layout) -> Vec<Line> {
    let title = format!("process {} {}", process.info.pid, process.info.command);
    let mut lines = vec![layout.emphasised(layout.fit(&title), Emphasis::Heading)];
    for (kind, conclusion) in &process.conclusions {
        match conclusion {
            Ok(report) => lines.extend(report.lines(layout, Detail::Full)),
            Err(Lacking(what)) => lines.push(line_of!("no {}: {what}", kind.word())),
        }
    }
    lines
}

impl Analyzed {
    pub fn conclusions(&self, kind: Kind) -> impl Iterator<Item = &Conclusion> {
        self.processes.iter().flat_map(|process| &process.conclusions).filter(move |(of, _)| *of == kind)
    }

    /// Why `kind` can be had of nothing that was read at `paths`, if so.
    pub fn wanting(&self, kind: Kind, paths: &[PathBuf]) -> Option<String> {
        if self.conclusions(kind).any(|(_, conclusion)| conclusion.is_ok()) {
            return None;
        }
        let Lacking(what) = self.conclusions(kind).find_map(|(_, conclusion)| conclusion.as_ref().err())?;
        let places: Vec<String> = paths.iter().map(quoted).collect();
        Some(format!("no {} of {}: {what}", kind.word(), places.join(", ")))
    }

    /// How many things of this kind were found that should not be.
    pub fn findings(&self, kind: Kind) -> u64 {
        self.conclusions(kind)
            .filter_map(|(_, conclusion)| conclusion.as_ref().ok())
            .map(|found| found.findings())
            .sum()
    }
}

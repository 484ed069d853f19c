//! How the programs of runs ended, as the command that started them was told.
use std::collections::HashMap;
use std::path::PathBuf;

use super::process::ProcessReport;
use crate::program_end::ProgramEnd;

/// Gives the reports the ends that are known: `known`, of the run that is just over, and what was kept of others.
///
/// A process that ran one program after the other has several recordings; its end is that of the last.
pub fn fill_in(reports: &mut [ProcessReport], known: Option<&ProgramEnd>) {
    let mut ends: HashMap<(PathBuf, u64), Option<ProgramEnd>> = HashMap::new();
    let mut last: HashMap<(PathBuf, u64), usize> = HashMap::new();
    for (index, report) in reports.iter().enumerate() {
        // A name such as `.` has no parent to read from.
        let Ok(directory) = report.directory.canonicalize() else { continue };
        let Some(output_dir) = directory.parent() else { continue };
        let run = (output_dir.to_owned(), report.run_id);
        let end = *ends.entry(run.clone()).or_insert_with(|| match known {
            Some(known) if known.run_id == report.run_id => Some(*known),
            _ => ProgramEnd::read(output_dir, report.run_id),
        });
        if end.is_some_and(|end| end.pid == report.pid)
            && last.get(&run).is_none_or(|other| reports[*other].start_ns <= report.start_ns)
        {
            last.insert(run, index);
        }
    }
    for (run, index) in last {
        reports[index].end = ends[&run].map(|end| end.status);
    }
}

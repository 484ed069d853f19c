//! How the programs of runs ended, as the command that started them was told.
use std::collections::HashMap;
use std::path::PathBuf;

use super::process::ProcessReport;
use crate::program_end::ProgramEnd;

/// Gives the reports the ends that are known: `known`, of the run that is just over, and what was kept of others.
///
/// A process that ran one program after the other has several recordings; its end is that of the last. They are in order
/// of start.
pub fn fill_in(reports: &mut [ProcessReport], known: Option<&ProgramEnd>) {
    let mut ends: HashMap<PathBuf, Vec<ProgramEnd>> = HashMap::new();
    let mut last: HashMap<(u64, u32), usize> = HashMap::new();
    for (index, report) in reports.iter_mut().enumerate() {
        // A name such as `.` has no parent to read from.
        let Ok(directory) = report.directory.canonicalize() else { continue };
        let Some(output_dir) = directory.parent() else { continue };
        let kept = ends.entry(output_dir.to_owned()).or_insert_with(|| ProgramEnd::read_all(output_dir));
        let is_of_report = |end: &&ProgramEnd| (end.run_id, end.pid) == (report.run_id, report.pid);
        report.end = known.into_iter().chain(&*kept).find(is_of_report).map(|end| end.status);
        if report.end.is_some() {
            last.insert((report.run_id, report.pid), index);
        }
    }
    for (index, report) in reports.iter_mut().enumerate() {
        report.end = report.end.filter(|_| last.get(&(report.run_id, report.pid)) == Some(&index));
    }
}

//! What processes had in memory, as the kernel counted it while they ran.
use std::collections::HashMap;
use std::path::PathBuf;

use memscope_model::TimestampNs;
use memscope_usage::{HOST_PEAK, UsageLog};

use super::process::ProcessReport;

/// Looks up the reports' processes in the samples of their runs. A log that cannot be read says nothing; the export has
/// said so.
pub fn fill_in(reports: &mut [ProcessReport]) {
    let mut logs: HashMap<(PathBuf, u64), Option<UsageLog>> = HashMap::new();
    let starts: Vec<(u64, u32, TimestampNs)> =
        reports.iter().map(|report| (report.run_id, report.pid, report.start)).collect();
    for report in reports {
        // A name such as `.` has no parent to read from.
        let directory = report.directory.canonicalize();
        let Some(output_dir) = directory.as_ref().ok().and_then(|directory| directory.parent()) else { continue };
        let log = logs
            .entry((output_dir.to_owned(), report.run_id))
            .or_insert_with(|| UsageLog::open(output_dir, report.run_id).unwrap_or_default());
        // The same process may run another program later, and that is another recording.
        let later = starts
            .iter()
            .filter(|(run_id, pid, start)| (*run_id, *pid) == (report.run_id, report.pid) && *start > report.start);
        let until_ns = later.map(|(_, _, start)| start.0).min().unwrap_or(u64::MAX);
        let log = log.as_ref();
        let most = log.and_then(|log| log.most(HOST_PEAK, report.pid, report.start.0, until_ns));
        // Ended between two samples: that it holds nothing any more is all that is known.
        report.resident_bytes = most.filter(|bytes| *bytes > 0);
    }
}

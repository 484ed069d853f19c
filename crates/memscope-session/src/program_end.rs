//! How the program that was started came to its end: only its parent is told, so it is kept with the recording.
//!
//! It is the name of a file next to the directories of the processes: a full disk has room for a name. What is in it is for
//! people.
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use crate::run_files;

/// Of the kind of the file; the process and its wait status follow.
const KIND_START: &str = "end_";

/// The end of the process that the command started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramEnd {
    pub run_id: u64,
    pub pid: u32,
    pub status: ExitStatus,
}

impl ProgramEnd {
    /// For whoever reads the recording later.
    pub fn write(&self, output_dir: &Path) -> io::Result<()> {
        let path = run_files::path(output_dir, self.run_id, &self.kind());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        // All that readers need is there.
        let _ = writeln!(file, "process {} {}", self.pid, describe(self.status));
        Ok(())
    }

    /// Those of all runs below a directory whose end was seen.
    pub fn read_all(output_dir: &Path) -> Vec<ProgramEnd> {
        let found = run_files::find(output_dir, KIND_START).into_iter();
        found.filter_map(|(run_id, numbers, _)| ProgramEnd::of_kind(run_id, &numbers)).collect()
    }

    fn kind(&self) -> String {
        format!("{KIND_START}{}_{}", self.pid, self.status.into_raw())
    }

    fn of_kind(run_id: u64, numbers: &str) -> Option<ProgramEnd> {
        let (pid, status) = numbers.split_once('_')?;
        Some(ProgramEnd { run_id, pid: pid.parse().ok()?, status: ExitStatus::from_raw(status.parse().ok()?) })
    }
}

/// In words, for after the process's name.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "exited".to_owned(),
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal);
            let name = name.map_or_else(|| format!("signal {signal}"), str::to_owned);
            let core = if status.core_dumped() { " (core dumped)" } else { "" };
            format!("killed by {name}{core}")
        }
        (None, None) => format!("ended with wait status {:#x}", status.into_raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_end_is_named_as_a_shell_would_and_comes_back_from_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let ends = [
            (0x0000, "exited"),
            (0x0300, "exited with status 3"),
            (0x0009, "killed by SIGKILL"),
            (0x008b, "killed by SIGSEGV (core dumped)"),
            (0x0023, "killed by signal 35"),
        ];
        for numbers in ["", "2", "2_", "_3", "-2_3", "2_3_4"] {
            fs::write(run_files::path(directory.path(), 9, &format!("{KIND_START}{numbers}")), "").unwrap();
        }
        let mut written = Vec::new();
        for (run_id, (raw, words)) in (1..).zip(ends) {
            let end = ProgramEnd { run_id, pid: 77, status: ExitStatus::from_raw(raw) };
            assert_eq!(describe(end.status), words);
            end.write(directory.path()).unwrap();
            written.push(end);
        }
        let mut read = ProgramEnd::read_all(directory.path());
        read.sort_by_key(|end| end.run_id);
        assert_eq!(read, written);
    }
}

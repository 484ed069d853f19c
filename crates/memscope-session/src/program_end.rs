//! How the program that was started came to its end: only its parent is told, so it is kept with the recording.
//!
//! It is the name of a hidden, empty file next to the directories of the processes: a full disk has room for a name.
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

const NAME_START: &str = ".msmemscope_end_";

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
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(output_dir.join(self.file_name())).map(drop)
    }

    /// Those of all runs below a directory whose end was seen.
    pub fn read_all(output_dir: &Path) -> Vec<ProgramEnd> {
        let entries = fs::read_dir(output_dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| ProgramEnd::of_file_name(entry.file_name().to_str()?)).collect()
    }

    fn file_name(&self) -> String {
        format!("{NAME_START}{}_{}_{}", self.run_id, self.pid, self.status.into_raw())
    }

    fn of_file_name(name: &str) -> Option<ProgramEnd> {
        let mut numbers = name.strip_prefix(NAME_START)?.split('_');
        let mut next = || numbers.next();
        Some(ProgramEnd {
            run_id: next()?.parse().ok()?,
            pid: next()?.parse().ok()?,
            status: ExitStatus::from_raw(next()?.parse().ok()?),
        })
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
        for name in ["", "1", "1_2", "1_2_", "_2_3", "1_-2_3"] {
            fs::write(directory.path().join(format!("{NAME_START}{name}")), "").unwrap();
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

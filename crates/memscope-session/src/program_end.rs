//! How the program that was started came to its end: only its parent is told, so it is kept with the recording, in a hidden
//! file next to the directories of the processes.
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
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
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path(output_dir, self.run_id))?;
        io::Write::write_all(&mut file, format!("{}\t{}\n", self.pid, self.status.into_raw()).as_bytes())
    }

    /// `None` if it was not written: the command was killed, or the run goes on.
    pub fn read(output_dir: &Path, run_id: u64) -> Option<ProgramEnd> {
        const LONGEST: u64 = 100;
        let path = path(output_dir, run_id);
        // A pipe of that name would never end.
        if !fs::metadata(&path).ok().is_some_and(|metadata| metadata.is_file() && metadata.len() <= LONGEST) {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        let (pid, status) = text.trim_end().split_once('\t')?;
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

fn path(output_dir: &Path, run_id: u64) -> PathBuf {
    output_dir.join(format!("{NAME_START}{run_id}"))
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
        for (run_id, (raw, words)) in (1..).zip(ends) {
            let end = ProgramEnd { run_id, pid: 77, status: ExitStatus::from_raw(raw) };
            assert_eq!(describe(end.status), words);
            end.write(directory.path()).unwrap();
            assert_eq!(ProgramEnd::read(directory.path(), run_id), Some(end));
        }
        assert_eq!(ProgramEnd::read(directory.path(), 99), None);
        for (run_id, text) in [(100, "no numbers\tat all\n"), (101, ""), (102, "77")] {
            fs::write(path(directory.path(), run_id), text).unwrap();
            assert_eq!(ProgramEnd::read(directory.path(), run_id), None);
        }
    }
}

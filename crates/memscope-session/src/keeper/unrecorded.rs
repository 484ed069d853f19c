//! The list of processes that were not recorded: a file next to the directories of those that were.
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::run_files;

const KIND: &str = "unrecorded";

/// A process without a recording.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Unrecorded {
    pub pid: u32,
    pub user: u32,
    /// Empty if it could not be found out.
    pub executable: String,
    /// The name the kernel has for it.
    pub name: String,
    pub reason: String,
}

impl Unrecorded {
    /// Looks the process up, while it is there.
    pub fn of_process(pid: u32, user: u32, reason: String) -> Unrecorded {
        let executable = fs::read_link(format!("/proc/{pid}/exe"));
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        Unrecorded {
            pid,
            user,
            executable: executable.map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned()),
            name: String::from_utf8_lossy(name.trim_ascii_end()).into_owned(),
            reason,
        }
    }

    /// It is about to become this program.
    pub(super) fn will_be(&mut self, program: &OsStr) {
        // As the kernel will name it, if the name does not depend on where the process is.
        let path = Some(Path::new(program)).filter(|path| path.is_absolute()).and_then(|path| path.canonicalize().ok());
        self.executable = path.as_deref().unwrap_or(Path::new(program)).to_string_lossy().into_owned();
        let name = Path::new(program).file_name().unwrap_or(program);
        self.name = name.to_string_lossy().into_owned();
    }

    fn line(&self) -> String {
        // A name may hold anything but a zero byte.
        let field = |text: &str| text.replace(['\t', '\n', '\r'], " ");
        let (executable, name, reason) = (field(&self.executable), field(&self.name), field(&self.reason));
        format!("{}\t{}\t{executable}\t{name}\t{reason}\n", self.pid, self.user)
    }

    fn parse(line: &str) -> Option<Unrecorded> {
        let mut fields = line.splitn(5, '\t');
        let mut next = || fields.next();
        Some(Unrecorded {
            pid: next()?.parse().ok()?,
            user: next()?.parse().ok()?,
            executable: next()?.to_owned(),
            name: next()?.to_owned(),
            reason: next()?.to_owned(),
        })
    }
}

/// Written line by line, so that what is known survives the command.
#[derive(Debug)]
pub(super) struct UnrecordedLog {
    path: PathBuf,
    file: Option<File>,
    known: HashSet<(u32, String)>,
    noted: Vec<Unrecorded>,
}

impl UnrecordedLog {
    pub(super) fn new(output_dir: &Path, run_id: u64) -> UnrecordedLog {
        UnrecordedLog {
            path: run_files::path(output_dir, run_id, KIND),
            file: None,
            known: HashSet::new(),
            noted: Vec::new(),
        }
    }

    /// The first reason of a process and its program counts. A disk that is full loses the note, not the run.
    pub(super) fn note(&mut self, process: Unrecorded) {
        const MOST: usize = 100_000;
        if self.noted.len() >= MOST || !self.known.insert((process.pid, process.executable.clone())) {
            return;
        }
        if self.file.is_none() {
            self.file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.path).ok();
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(process.line().as_bytes());
        }
        self.noted.push(process);
    }

    pub(super) fn knows(&self, pid: u32) -> bool {
        self.known.iter().any(|(known, _)| *known == pid)
    }

    pub(super) fn noted(&self) -> &[Unrecorded] {
        &self.noted
    }
}

/// Those of all runs below a directory.
pub fn read_all(output_dir: &Path) -> Vec<Unrecorded> {
    let lists = run_files::find(output_dir, KIND).into_iter().filter(|(_, more, _)| more.is_empty());
    lists.flat_map(|(_, _, path)| read(&path).unwrap_or_default()).collect()
}

fn read(path: &Path) -> io::Result<Vec<Unrecorded>> {
    // A pipe of that name would never end.
    if !fs::metadata(path)?.is_file() {
        return Ok(Vec::new());
    }
    let text = fs::read(path)?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(Unrecorded::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_once_each() {
        let directory = tempfile::tempdir().unwrap();
        let process = |pid, executable: &str| Unrecorded {
            pid,
            user: 26,
            executable: executable.to_owned(),
            name: "post\tgres".to_owned(),
            reason: "cannot make its directory in /a\tb: denied".to_owned(),
        };
        let mut log = UnrecordedLog::new(directory.path(), 7);
        for process in [process(1, "/bin/a"), process(1, "/bin/a"), process(1, "/bin/b"), process(2, "")] {
            log.note(process);
        }
        fs::write(run_files::path(directory.path(), 9, KIND), "no\nnumbers\tat all\n").unwrap();
        let notes = read_all(directory.path());
        let programs: Vec<_> = notes.iter().map(|note| (note.pid, note.executable.as_str())).collect();
        assert_eq!(programs, [(1, "/bin/a"), (1, "/bin/b"), (2, "")]);
        assert_eq!((notes[0].name.as_str(), notes[0].user), ("post gres", 26));
        // A disk without room loses the file, not the notes.
        let mut log = UnrecordedLog::new(&directory.path().join("nowhere"), 8);
        log.note(process(1, "/bin/a"));
        assert_eq!(log.noted(), [process(1, "/bin/a")]);
    }
}

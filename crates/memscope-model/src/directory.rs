//! Finding recorded processes.
use crate::process::spool_directory;
use crate::{ModelError, ProcessInfo};
use memscope_format::decode::Spool;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What was found below an output directory.
#[derive(Debug, Default)]
pub struct FoundProcesses {
    /// Directories for [`crate::Process::open`], in order of start time.
    pub processes: Vec<PathBuf>,
    /// Directories that hold a recording that cannot be read, and why. Their run is not known, so they are here
    /// whichever run was asked for.
    pub unreadable: Vec<(PathBuf, ModelError)>,
}

/// Recorded processes directly below `root`, or `root` itself if it is one, in order of start time; with `run`, only
/// those of that run. Other directories are passed over. Fails if there are recordings and none can be read; where
/// some can, [`survey_processes`] tells about the others.
pub fn find_processes(root: &Path, run: Option<u64>) -> Result<Vec<PathBuf>, ModelError> {
    let found = survey_processes(root, run)?;
    match found.unreadable.into_iter().next() {
        Some((_, error)) if found.processes.is_empty() => Err(error),
        _ => Ok(found.processes),
    }
}

/// As [`find_processes`], and what could not be read.
pub fn survey_processes(root: &Path, run: Option<u64>) -> Result<FoundProcesses, ModelError> {
    let directory_error = |source| ModelError::Directory { path: root.to_owned(), source };
    let mut candidates = Vec::new();
    if spool_directory(root).is_some() {
        candidates.push(root.to_owned());
    } else {
        for entry in fs::read_dir(root).map_err(directory_error)? {
            candidates.push(entry.map_err(directory_error)?.path());
        }
    }
    // Processes of one start time keep an order that does not depend on the file system.
    candidates.sort_unstable();
    let mut found = FoundProcesses::default();
    let mut started = Vec::new();
    for candidate in candidates {
        let Some(spool) = readable_spool(&candidate, &mut found) else { continue };
        match Spool::open(&spool) {
            Ok(spool) => {
                let info: &ProcessInfo = spool.process();
                if run.is_none_or(|run| run == info.run_id) {
                    started.push((info.start, candidate));
                }
            }
            Err(error) => found.unreadable.push((candidate, error.into())),
        }
    }
    started.sort_by_key(|(start, _)| *start);
    found.processes = started.into_iter().map(|(_, directory)| directory).collect();
    Ok(found)
}

/// The candidate's spool directory; notes a candidate that cannot even be looked into.
fn readable_spool(candidate: &Path, found: &mut FoundProcesses) -> Option<PathBuf> {
    let spool = spool_directory(candidate);
    if spool.is_none()
        && let Err(source) = fs::metadata(candidate.join(memscope_format::layout::SPOOL_DIRECTORY))
        && source.kind() == io::ErrorKind::PermissionDenied
    {
        found.unreadable.push((candidate.to_owned(), ModelError::Directory { path: candidate.to_owned(), source }));
    }
    spool
}

//! The directory and the files of a process, made for it.
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use memscope_format::layout::{EVENTS_FILE, PROCESS_HEADER_SIZE, SPOOL_DIRECTORY, WINDOWS_FILE};

use super::{Run, Unrecorded};
use crate::invocation::RunRecord;

pub(super) struct ProcessFiles {
    pub(super) directory: PathBuf,
    /// For reading and writing.
    pub(super) windows: File,
    /// For appending.
    pub(super) events: File,
}

/// As the recorder makes them.
pub(super) fn create(run: &Run, pid: u32) -> io::Result<ProcessFiles> {
    const MOST_IMAGES_AHEAD: i64 = 1000;
    let zone = TimeZone::fixed(Offset::from_seconds(run.utc_offset).unwrap_or(Offset::UTC));
    let now = jiff::Timestamp::now();
    let mut builder = DirBuilder::new();
    builder.mode(0o750);
    match builder.create(&run.output_dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // The name must be new: `exec` gives the same process another image, possibly within the same second.
    for ahead in 0..MOST_IMAGES_AHEAD {
        let time = now.checked_add(jiff::Span::new().seconds(ahead)).unwrap_or(now).to_zoned(zone.clone());
        let name = format!("{}_{pid}_{}_ascend", run.brand.name(), time.strftime("%Y%m%d%H%M%S"));
        let directory = run.output_dir.join(name);
        match builder.create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            answer => answer?,
        }
        let spool = directory.join(SPOOL_DIRECTORY);
        builder.create(&spool)?;
        let new_file = || {
            let mut options = OpenOptions::new();
            options.create_new(true).mode(0o600);
            options
        };
        let windows = new_file().read(true).write(true).open(spool.join(WINDOWS_FILE))?;
        let events = new_file().append(true).open(spool.join(EVENTS_FILE))?;
        return Ok(ProcessFiles { directory, windows, events });
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Removes what a process has made that cannot be recorded: files without so much as a header.
pub(super) fn remove_unbegun(run: &Run, pid: u32) {
    let start = format!("{}_{pid}_", run.brand.name());
    for entry in fs::read_dir(&run.output_dir).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()) {
            continue;
        }
        let spool = entry.path().join(SPOOL_DIRECTORY);
        let (windows, events) = (spool.join(WINDOWS_FILE), spool.join(EVENTS_FILE));
        let shorter_than = |path: &Path, length: u64| {
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() < length)
        };
        if shorter_than(&windows, PROCESS_HEADER_SIZE as u64) && shorter_than(&events, 1) {
            let files_removed = fs::remove_file(windows).and_then(|()| fs::remove_file(events));
            // Where anything else is in them, they stay.
            let _ = files_removed.and_then(|()| fs::remove_dir(spool)).and_then(|()| fs::remove_dir(entry.path()));
        }
    }
}

/// Processes of the run that made a directory and no file in it, and could not say so: a directory takes no file
/// descriptor, a file and a message take one.
pub fn left_without_files(run: &RunRecord) -> Vec<Unrecorded> {
    /// File systems stamp with the time of the last timer interrupt.
    const STAMP_LAG: Duration = Duration::from_millis(20);
    let start = format!("{}_", run.brand.name());
    let earliest = run.started - STAMP_LAG;
    let mut left = Vec::new();
    for entry in fs::read_dir(&run.output_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&start)?.split('_').next()?.parse().ok());
        let spool = entry.path().join(SPOOL_DIRECTORY);
        if let Some(pid) = pid
            && let Ok(metadata) = fs::symlink_metadata(&spool)
            && metadata.modified().is_ok_and(|made| made >= earliest)
            && fs::read_dir(&spool).is_ok_and(|mut files| files.next().is_none())
        {
            left.push(Unrecorded {
                pid,
                user: metadata.uid(),
                executable: String::new(),
                name: "(name unknown)".to_owned(),
                reason: "it could make no files: no file descriptor was left to it, or it was killed before".to_owned(),
            });
        }
    }
    left.sort_unstable_by_key(|process| process.pid);
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brand::Brand;

    #[test]
    fn only_the_files_of_the_process_that_could_not_begin_are_removed() {
        let output = tempfile::tempdir().unwrap();
        let run = Run { run_id: 1, brand: Brand::default(), utc_offset: 0, output_dir: output.path().to_owned() };
        let made = [7, 7, 70].map(|pid| create(&run, pid).unwrap());
        made[1].windows.set_len(PROCESS_HEADER_SIZE as u64).unwrap();
        remove_unbegun(&run, 7);
        let left: Vec<bool> = made.iter().map(|files| files.directory.exists()).collect();
        assert_eq!(left, [false, true, true]);
    }
}

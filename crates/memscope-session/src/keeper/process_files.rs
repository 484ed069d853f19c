//! The directory and the files of a process, made for it.
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use jiff::tz::{Offset, TimeZone};
use memscope_format::layout::{EVENTS_FILE, SPOOL_DIRECTORY, WINDOWS_FILE};

use super::Run;

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

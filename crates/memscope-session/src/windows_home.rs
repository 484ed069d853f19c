//! Windows that were kept on a local file system, because the output's is none to map files from: once their process has
//! ended they are moved to where they belong.
use memscope_model::{SPOOL_DIRECTORY, WINDOWS_FILE};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::printer::Printer;

/// Where the windows of a process directory are, if not in it.
pub fn place_of_windows(directory: &Path) -> Option<PathBuf> {
    fs::read_link(directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE)).ok()
}

/// The windows of a process directory, wherever they are; `None` for a link that leads somewhere else.
pub fn windows_of(directory: &Path) -> Option<PathBuf> {
    match place_of_windows(directory) {
        Some(away) => is_ours(&away, directory).then_some(away),
        None => Some(directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE)),
    }
}

/// Moves the windows of every process in `output` that has ended. What cannot be moved stays, and is said.
pub fn bring(output: &Path, printer: &Printer) {
    let inside = fs::read_dir(output).into_iter().flatten().flatten().map(|entry| entry.path());
    for directory in inside.chain([output.to_owned()]) {
        // What is not there the reader tells.
        let Some(away) = place_of_windows(&directory) else { continue };
        if !is_ours(&away, &directory) || is_in_use(&away) {
            continue;
        }
        if let Err(error) = move_home(&away, &directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE)) {
            printer.error(&format_args!("a part of the recording stays at {}: {error}", away.display()));
        }
    }
}

/// Whether a process still records there: it holds a lock as long as it lives, whatever it does to its descriptors.
fn is_in_use(away: &Path) -> bool {
    File::open(away).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// A link in somebody's output may lead anywhere: only what the recorder made is moved.
fn is_ours(away: &Path, directory: &Path) -> bool {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (Some(file), Some(process)) = (name(away), name(directory)) else { return false };
    let is_file = fs::symlink_metadata(away).is_ok_and(|found| found.is_file() && found.nlink() == 1);
    is_file && file.starts_with("msmemscope_") && file.ends_with(&format!("_{process}.windows"))
}

/// Whole or not at all: the link is replaced when the copy is on the disk.
fn move_home(away: &Path, home: &Path) -> io::Result<()> {
    let arriving = home.with_extension("arriving");
    let moved = (|| {
        let mut copy = File::create_new(&arriving)?;
        io::copy(&mut File::open(away)?, &mut copy)?;
        copy.sync_all()?;
        fs::rename(&arriving, home)
    })();
    if let Err(error) = moved {
        let _ = fs::remove_file(&arriving);
        return Err(error);
    }
    fs::remove_file(away)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brand::Brand;
    use crate::settings::LogLevel;

    /// A process directory whose windows are elsewhere, and that place.
    fn away() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("msmemscope_1_20260101000000_ascend");
        fs::create_dir_all(directory.join(SPOOL_DIRECTORY)).unwrap();
        let away = root.path().join("msmemscope_0_7_msmemscope_1_20260101000000_ascend.windows");
        fs::write(&away, "windows").unwrap();
        std::os::unix::fs::symlink(&away, directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE)).unwrap();
        (root, directory, away)
    }

    #[test]
    fn windows_take_the_place_of_the_link_to_them() {
        let (_root, directory, away) = away();
        assert_eq!(place_of_windows(&directory).as_ref(), Some(&away));
        let home = directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE);
        move_home(&away, &home).unwrap();
        assert_eq!((fs::read_to_string(&home).unwrap().as_str(), away.exists()), ("windows", false));
        assert_eq!(place_of_windows(&directory), None);
        assert_eq!(fs::read_dir(home.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_move_that_fails_leaves_everything_as_it_was() {
        let (_root, directory, away) = away();
        fs::remove_file(&away).unwrap();
        let home = directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE);
        move_home(&away, &home).unwrap_err();
        assert_eq!(place_of_windows(&directory), Some(away));
        assert_eq!(fs::read_dir(home.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn windows_of_a_process_that_lives_stay_where_they_are() {
        let (root, directory, away) = away();
        let held = File::open(&away).unwrap();
        held.lock().unwrap();
        let printer = Printer::new(Brand::default(), LogLevel::Error);
        bring(root.path(), &printer);
        assert_eq!(place_of_windows(&directory).as_ref(), Some(&away));
        drop(held);
        bring(root.path(), &printer);
        assert_eq!((place_of_windows(&directory), away.exists()), (None, false));
    }

    #[test]
    fn only_what_the_recorder_made_for_that_process_is_moved() {
        let (root, directory, away) = away();
        assert!(is_ours(&away, &directory));
        assert!(!is_ours(&away, &root.path().join("msmemscope_2_20260101000000_ascend")));
        assert!(!is_ours(Path::new("/etc/passwd"), &directory));
        let link = root.path().join("msmemscope_0_8_msmemscope_1_20260101000000_ascend.windows");
        std::os::unix::fs::symlink(&away, &link).unwrap();
        assert!(!is_ours(&link, &directory));
    }
}

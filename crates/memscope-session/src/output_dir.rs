//! The output directory: checked as far as possible before it is created, so that a mistake leaves nothing behind.
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use thiserror::Error;

use crate::report::quantity::bytes;
use crate::settings::Settings;
use crate::usage_error::quoted;
use memscope_format::settings::WATCH_MAX_BYTES;

/// Memory contents and call stacks are the user's own business, his group's at most.
const MODE: u32 = 0o750;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the output directory {directory} cannot be used: {reason}; give another with --output")]
pub struct OutputDirError {
    directory: String,
    reason: String,
}

/// A recorder is told its directory in a string of limited length, and would not start with a longer one.
pub fn check_length(directory: &Path, longest: usize) -> Result<(), OutputDirError> {
    let length = directory.as_os_str().len();
    if length <= longest {
        return Ok(());
    }
    let start: String = directory.to_string_lossy().chars().take(40).collect();
    let reason = format!("its path has {length} bytes, and {longest} are the most");
    Err(OutputDirError { directory: format!("'{start}…'"), reason })
}

/// What the user should know before watched blocks take what is left of the disk.
pub fn room_for_watching(settings: &Settings) -> Option<String> {
    settings.watch.as_ref().filter(|watch| watch.full_content)?;
    let most = settings.watch_max_bytes.unwrap_or(WATCH_MAX_BYTES);
    let system = rustix::fs::statvfs(&settings.output_dir).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    (free < most).then(|| {
        format!(
            "--watch with full-content may keep {} of each process, and {} are free in {}; when the disk is nearly full only check sums are \
             kept; --watch-max-bytes, in config() watch_max_bytes, sets another limit",
            bytes(most),
            bytes(free),
            quoted(&settings.output_dir)
        )
    })
}

/// `directory` is absolute.
pub fn prepare(directory: &Path) -> Result<(), OutputDirError> {
    let unusable = |reason: String| OutputDirError { directory: quoted(directory), reason };
    for ancestor in directory.ancestors() {
        match ancestor.metadata() {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(unusable(format!("{} is not a directory", quoted(ancestor))));
            }
            Ok(_) => {
                accessat(CWD, ancestor, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
                    .map_err(|error| unusable(format!("{}: {error}", quoted(ancestor))))?;
                break;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // ENOTDIR: an ancestor further up is a file and will be named.
            Err(error) if error.kind() == ErrorKind::NotADirectory => {}
            Err(error) => return Err(unusable(error.to_string())),
        }
    }
    DirBuilder::new().recursive(true).mode(MODE).create(directory).map_err(|error| unusable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn missing_parents_are_created_for_nobody_else() {
        let top = tempfile::tempdir().unwrap();
        let wanted = top.path().join("a/b");
        prepare(&wanted).unwrap();
        prepare(&wanted).unwrap();
        for created in [wanted.clone(), top.path().join("a")] {
            // The umask may take more away.
            assert_eq!(created.metadata().unwrap().mode() & 0o777 & !MODE, 0, "{created:?}");
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("file");
        std::fs::write(&file, b"").unwrap();
        for wanted in [file.clone(), file.join("below/it")] {
            let error = prepare(&wanted).unwrap_err().to_string();
            assert!(error.contains(&format!("{} is not a directory", quoted(&file))), "{error}");
        }
    }

    #[test]
    fn a_file_system_that_refuses_is_reported_before_anything_exists() {
        let wanted = Path::new("/proc/memscope/results");
        let error = prepare(wanted).unwrap_err().to_string();
        assert!(error.contains("'/proc"), "{error}");
        assert!(!wanted.exists());
    }
}

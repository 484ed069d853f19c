//! Where files go, under which names and permissions, and how a file appears whole or not at all.
use crate::brand::Brand;
use crate::error::ExportError;
use crate::format::{FileNames, Format};
use crate::rows::DeviceId;
use memscope_model::TimestampNs;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DIRECTORY_MODE: u32 = 0o750;
pub(crate) const DUMP_MODE: u32 = 0o600;
pub(crate) const CONFIG_MODE: u32 = 0o640;
/// The journals SQLite may put next to a database.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The files of a device: `device_<id>/dump/<table>_<time>.<extension>` in the process directory, and the table of
/// stacks beside it.
pub(crate) fn file_names(
    process_directory: &Path,
    device: DeviceId,
    brand: Brand,
    time: &str,
    format: Format,
) -> FileNames {
    let directory = process_directory.join(format!("device_{}", device.text())).join("dump");
    let named = |table: &str| directory.join(format!("{table}_{time}.{}", format.word()));
    FileNames { dump: named(brand.table()), stacks: named(brand.stacks_table()), brand, time: time.to_owned() }
}

/// The `<time>` of file names: that of the process directory if its name has one, so that exporting again replaces the
/// files instead of adding others; else the local time the process started at.
pub fn file_time(process_directory: &Path, start: TimestampNs, utc_offset: Option<i32>) -> String {
    let name = process_directory.file_name().unwrap_or_default().to_string_lossy();
    let parts: Vec<&str> = name.split('_').collect();
    if let [brand, _pid, time, "ascend"] = parts[..]
        && (brand == Brand::MsMemScope.name() || brand == Brand::MsLeaks.name())
        && time.len() == 14
        && time.bytes().all(|byte| byte.is_ascii_digit())
    {
        return time.to_owned();
    }
    let start = jiff::Timestamp::from_nanosecond(i128::from(start.0)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let zone = match utc_offset.and_then(|seconds| jiff::tz::Offset::from_seconds(seconds).ok()) {
        Some(offset) => jiff::tz::TimeZone::fixed(offset),
        None => jiff::tz::TimeZone::system(),
    };
    start.to_zoned(zone).strftime("%Y%m%d%H%M%S").to_string()
}

/// Creates the missing directories of `path`, each readable by the owner's group and by nobody else.
pub(crate) fn create_directories(path: &Path) -> Result<(), ExportError> {
    let failed = |path: &Path, source| ExportError::Directory { path: path.to_owned(), source };
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if ancestor.as_os_str().is_empty() || ancestor.is_dir() {
            break;
        }
        missing.push(ancestor);
    }
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
            // The mode is part of the contract and the user's umask is not.
            Ok(()) => fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))
                .map_err(|source| failed(directory, source))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(source) => return Err(failed(directory, source)),
        }
    }
    Ok(())
}

/// A file being written under a temporary name next to its final one. [`PartialFile::commit`] gives it the final name
/// in one step; dropped without it, nothing remains.
///
/// The temporary name is always the same, so what a killed export left is used up by the next one. Two exports at
/// once are kept apart by a lock on it.
pub(crate) struct PartialFile {
    /// Holds the lock.
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl PartialFile {
    pub(crate) fn create(target: &Path, mode: u32) -> Result<PartialFile, ExportError> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".partial");
        let temporary = target.with_file_name(name);
        loop {
            // Only a file is ever left by an export; a link would lead the writing elsewhere.
            if fs::symlink_metadata(&temporary).is_ok_and(|there| !there.is_file()) {
                fs::remove_file(&temporary).map_err(ExportError::write(target))?;
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(mode)
                .open(&temporary)
                .map_err(ExportError::write(target))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(ExportError::Busy { path: target.to_owned() }),
                // A file system without locks: better an export without protection than none.
                Err(TryLockError::Error(_)) => {}
            }
            // Between opening and locking, another export may have finished and renamed the file we hold.
            let same = match (file.metadata(), fs::symlink_metadata(&temporary)) {
                (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
                _ => false,
            };
            if !same {
                continue;
            }
            let partial = PartialFile { file, temporary, target: target.to_owned(), committed: false };
            for companion in partial.companions() {
                let _ = fs::remove_file(companion);
            }
            // Not of an empty file: ext4 takes cutting it for the replacement of a file's contents, and has closing it wait
            // until all of it is on its way to the disk.
            if partial.file.metadata().map_err(ExportError::write(target))?.len() > 0 {
                partial.file.set_len(0).map_err(ExportError::write(target))?;
            }
            partial.file.set_permissions(Permissions::from_mode(mode)).map_err(ExportError::write(target))?;
            return Ok(partial);
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    pub(crate) fn commit(mut self) -> Result<PathBuf, ExportError> {
        fs::rename(&self.temporary, &self.target).map_err(ExportError::write(&self.target))?;
        self.committed = true;
        Ok(self.target.clone())
    }

    fn companions(&self) -> impl Iterator<Item = PathBuf> + '_ {
        COMPANIONS.iter().map(|suffix| {
            let mut name = self.temporary.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        })
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.temporary);
        }
        for companion in self.companions() {
            let _ = fs::remove_file(companion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_time_in_the_directory_name_wins_over_the_clock() {
        let time = |name: &str| file_time(Path::new(name), TimestampNs(1_764_753_084_425_691_000), Some(3600));
        assert_eq!(time("/x/msmemscope_31_20251203091122_ascend"), "20251203091122");
        assert_eq!(time("/x/msleaks_31_20251203091122_ascend/"), "20251203091122");
        for other in ["/x/msmemscope_31_2025120309112_ascend", "/x/other_31_20251203091122_ascend", "/x/run", "/"] {
            assert_eq!(time(other), "20251203101124", "{other}");
        }
    }

    #[test]
    fn a_time_beyond_all_calendars_makes_a_name_all_the_same() {
        let name = file_time(Path::new("/x"), TimestampNs(u64::MAX), Some(i32::MAX));
        assert!(name.bytes().all(|byte| byte.is_ascii_digit()), "{name}");
    }

    #[test]
    fn created_directories_are_closed_to_others_and_existing_ones_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let outer = root.path().join("there");
        fs::create_dir(&outer).unwrap();
        fs::set_permissions(&outer, Permissions::from_mode(0o755)).unwrap();
        let inner = outer.join("device_cpu/dump");
        create_directories(&inner).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&inner), mode(&outer.join("device_cpu")), mode(&outer)), (0o750, 0o750, 0o755));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), b"").unwrap();
        let error = create_directories(&root.path().join("file/dump")).unwrap_err().to_string();
        assert!(error.contains("/file: ") && error.contains("exists"), "{error}");
    }

    #[test]
    fn an_abandoned_file_leaves_the_old_one_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("memscope_dump_1.csv");
        fs::write(&target, b"old").unwrap();
        let partial = PartialFile::create(&target, DUMP_MODE).unwrap();
        partial.file().write_all(b"half").unwrap();
        assert_eq!(names(root.path()).len(), 2);
        drop(partial);
        assert_eq!(names(root.path()), ["memscope_dump_1.csv"]);
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }

    #[test]
    fn a_committed_file_replaces_the_old_one_and_uses_up_what_a_killed_export_left() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("memscope_dump_1.csv");
        fs::write(&target, b"old").unwrap();
        fs::write(root.path().join(".memscope_dump_1.csv.partial"), b"left by a killed export").unwrap();
        fs::write(root.path().join(".memscope_dump_1.csv.partial-wal"), b"same").unwrap();
        let partial = PartialFile::create(&target, DUMP_MODE).unwrap();
        partial.file().write_all(b"new").unwrap();
        partial.commit().unwrap();
        assert_eq!(names(root.path()), ["memscope_dump_1.csv"]);
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_second_export_of_the_same_file_is_refused_while_the_first_runs() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("memscope_dump_1.csv");
        let first = PartialFile::create(&target, DUMP_MODE).unwrap();
        assert!(matches!(PartialFile::create(&target, DUMP_MODE), Err(ExportError::Busy { .. })));
        first.commit().unwrap();
        PartialFile::create(&target, DUMP_MODE).unwrap().commit().unwrap();
    }
}

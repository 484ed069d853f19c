//! Whether the files of an export have room, asked before the first is begun.
//!
//! How much was recorded is known without reading it, and so is what that can come to at most. Only where this is more
//! than there is room for are the rows counted, in a pass of its own that writes nothing.
use crate::error::ExportError;
use crate::format::{Format, StackForm};
use memscope_model::Process;
use std::path::{Path, PathBuf};

/// What MindStudio Insight takes at most.
pub(crate) const VIEWER_FILE_LIMIT: u64 = 20 << 30;

/// No event is recorded in fewer bytes.
const LEAST_EVENT_BYTES: u64 = 4;
/// Rows without stacks have about half of it.
const LONG_ROW_BYTES: u64 = 300;
const LONG_FRAME_BYTES: u64 = 160;

/// The files of one device, before they are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileEstimate {
    pub(crate) dump: PathBuf,
    pub(crate) bytes: u64,
}

/// What the files can come to, as far as the size of the recording tells; too much rather than too little.
pub(crate) fn most_bytes(process: &Process, stacks: Option<StackForm>) -> u64 {
    let number = |key: &str| process.config(key).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let host_only = process.config("npu") == Some("0");
    let frames = match stacks {
        Some(StackForm::Table) => 0,
        None if host_only => 0,
        _ => number("c") + number("py"),
    };
    let rows = process.recorded_bytes() / LEAST_EVENT_BYTES;
    rows.saturating_mul(LONG_ROW_BYTES + frames * LONG_FRAME_BYTES)
}

/// What may still be written to the file system of a directory, which need not exist yet; `None` if nobody tells.
pub(crate) fn free_bytes(directory: &Path) -> Option<u64> {
    let directory = std::path::absolute(directory).ok()?;
    let existing = directory.ancestors().find(|ancestor| ancestor.is_dir())?;
    let system = rustix::fs::statvfs(existing).ok()?;
    // Some file systems that have no end say 0 of all.
    (system.f_blocks > 0).then(|| system.f_bavail.saturating_mul(system.f_frsize))
}

/// `free` is `None` if nobody tells.
pub(crate) fn check(files: &[FileEstimate], free: Option<u64>, inline: bool) -> Result<(), ExportError> {
    let needed = files.iter().map(|file| file.bytes).sum::<u64>();
    match (files.first(), free) {
        (Some(first), Some(free)) if needed > free => {
            let others = files.len() - 1;
            Err(ExportError::NoRoom { path: first.dump.clone(), others, needed, free, inline })
        }
        _ => Ok(()),
    }
}

/// Files that MindStudio Insight will refuse for their size.
pub(crate) fn beyond_viewer(format: Format, files: &[FileEstimate]) -> impl Iterator<Item = String> {
    let of_viewer = format.is_for_viewer();
    files.iter().filter(move |file| of_viewer && file.bytes > VIEWER_FILE_LIMIT).map(|file| {
        format!(
            "{} will have about {}, and MindStudio Insight refuses files above 20 GiB: --events or --steps make it \
             smaller",
            file.dump.display(),
            size_text(file.bytes)
        )
    })
}

/// `4.2 GB`: the unit in which file systems are sold.
pub(crate) fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> FileEstimate {
        FileEstimate { dump: PathBuf::from("/x/memscope_dump_1.db"), bytes }
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_what_helps() {
        assert!(check(&[file(10)], Some(10), true).is_ok());
        assert!(check(&[file(10)], None, true).is_ok());
        assert!(check(&[], Some(0), true).is_ok());
        let error = check(&[file(6_000_000), file(5)], Some(5_999_999), true).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        for word in ["/x/memscope_dump_1.db", "6.0 MB", "export -o", "--stacks=table", "--data-format=none", "--events"]
        {
            assert!(error.contains(word), "{word}: {error}");
        }
        let error = check(&[file(11)], Some(10), false).unwrap_err().to_string();
        assert!(!error.contains("--stacks"), "{error}");
    }

    #[test]
    fn a_file_too_large_for_the_viewer_is_named_and_only_if_it_is_for_it() {
        let large = [file(VIEWER_FILE_LIMIT), file(VIEWER_FILE_LIMIT + 1)];
        let told: Vec<String> = beyond_viewer(Format::Db, &large).collect();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("21.5 GB") && told[0].contains("20 GiB"), "{told:?}");
        assert_eq!(beyond_viewer(Format::Csv, &large).count(), 0);
    }

    #[test]
    fn the_room_of_a_directory_that_is_not_there_yet_is_that_of_its_file_system() {
        let root = tempfile::tempdir().unwrap();
        let (here, below) = (free_bytes(root.path()).unwrap(), free_bytes(&root.path().join("a/b")).unwrap());
        // Others write meanwhile.
        assert!(here > 0 && below > 0);
        assert!(free_bytes(Path::new("relative/nowhere")).is_some());
    }

    #[test]
    fn sizes_have_one_decimal() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (4_230_999_314, "4.2 GB")]
        {
            assert_eq!(size_text(bytes), text);
        }
    }
}

//! Whether the files of an export have room, asked before the first is begun.
//!
//! How much was recorded is known without reading it, and so is what that can come to at most. Only where this is more
//! than there is room for are the rows counted, in a pass of its own that writes nothing.
use crate::error::ExportError;
use crate::format::{Format, StackForm};
use memscope_model::Process;
use memscope_model::record_settings::Mask;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    let settings = process.settings();
    let depth = |depth: Option<u32>| u64::from(depth.unwrap_or(0));
    let host_only = settings.npus == Some(Mask::NONE);
    let frames = match stacks {
        Some(StackForm::Table) => 0,
        None if host_only => 0,
        _ => depth(settings.c_depth) + depth(settings.python_depth),
    };
    let rows = (process.recorded_bytes() / LEAST_EVENT_BYTES).saturating_add(process.most_listed_blocks());
    rows.saturating_mul(LONG_ROW_BYTES + frames * LONG_FRAME_BYTES)
}

/// What may still be written to the file system of a directory, which need not exist yet; `None` if it is not known.
pub(crate) fn free_bytes(directory: &Path) -> Option<u64> {
    let directory = std::path::absolute(directory).ok()?;
    let existing = directory.ancestors().find(|ancestor| ancestor.is_dir())?;
    let system = rustix::fs::statvfs(existing).ok()?;
    // Some file systems that have no end say 0 of all.
    (system.f_blocks > 0).then(|| system.f_bavail.saturating_mul(system.f_frsize))
}

/// The room for exports that write at the same time: what one is about to write is not there for the others.
#[derive(Debug, Default)]
pub struct Room {
    claims: Mutex<Claims>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Claims {
    bytes: u64,
    count: usize,
}

/// Room for the files of one export until it is dropped.
pub(crate) struct Claim<'r> {
    room: &'r Room,
    bytes: u64,
}

impl Room {
    /// `None` if it is not there now.
    pub(crate) fn try_claim(&self, directory: &Path, bytes: u64) -> Option<Claim<'_>> {
        let mut claims = self.claims();
        claims.has_room(bytes, free_bytes(directory)).then(|| self.grant(&mut claims, bytes))
    }

    /// Waits for others to end if there may be room then.
    pub(crate) fn claim(
        &self,
        directory: &Path,
        files: &[FileEstimate],
        inline: bool,
    ) -> Result<Claim<'_>, ExportError> {
        let needed = files.iter().map(|file| file.bytes).sum::<u64>();
        let mut claims = self.claims();
        loop {
            let free = free_bytes(directory);
            if claims.has_room(needed, free) {
                return Ok(self.grant(&mut claims, needed));
            }
            if claims.count == 0 {
                let path = files.first().map(|file| file.dump.clone()).unwrap_or_default();
                let (others, free) = (files.len().saturating_sub(1), free.unwrap_or(0));
                return Err(ExportError::NoRoom { path, others, needed, free, inline });
            }
            claims = self.released.wait(claims).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn grant(&self, claims: &mut Claims, bytes: u64) -> Claim<'_> {
        claims.bytes += bytes;
        claims.count += 1;
        Claim { room: self, bytes }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    /// `free` is `None` if it is not known. What others have written of their claims is counted twice, so that "no" is a
    /// reason to wait for them.
    fn has_room(&self, bytes: u64, free: Option<u64>) -> bool {
        free.is_none_or(|free| self.bytes.saturating_add(bytes) <= free)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claims = self.room.claims();
        claims.bytes -= self.bytes;
        claims.count -= 1;
        self.room.released.notify_all();
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

    /// More than any file system has.
    const TOO_MUCH: u64 = 1 << 62;

    #[test]
    fn files_that_do_not_fit_are_refused_with_what_helps() {
        let (root, room) = (tempfile::tempdir().unwrap(), Room::default());
        assert!(room.claim(root.path(), &[file(10)], true).is_ok());
        assert!(room.claim(root.path(), &[], true).is_ok());
        let refusal = |inline| {
            let refused = room.claim(root.path(), &[file(TOO_MUCH), file(5)], inline);
            refused.map(|_| ()).unwrap_err().to_string()
        };
        let error = refusal(true);
        assert!(!error.contains('\n'), "{error}");
        for word in
            ["/x/memscope_dump_1.db", "TB are needed", "export -o", "--stacks=table", "--data-format=none", "--events"]
        {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert!(!refusal(false).contains("--stacks"));
        assert!(room.try_claim(root.path(), TOO_MUCH).is_none());
    }

    #[test]
    fn an_export_waits_for_room_that_another_will_not_have_used() {
        let (root, room) = (tempfile::tempdir().unwrap(), Room::default());
        let most = free_bytes(root.path()).unwrap() / 4 * 3;
        let first = room.try_claim(root.path(), most).unwrap();
        assert!(room.try_claim(root.path(), most).is_none(), "both do not fit");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| room.claim(root.path(), &[file(most)], false).is_ok());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(room.claim(root.path(), &[file(TOO_MUCH)], false).is_err(), "nobody is waited for who is not there");
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

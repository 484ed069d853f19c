//! Seccomp filters that a program installs by a system call of its own, which its recorder does not see.
//!
//! To ask the kernel may be what such a filter kills for, so the recorder does not. The keeper counts the filters of each
//! process and its threads, and where there are more than the recorder knows of it says so in a word of the recording's
//! header: from then on the recorder makes no system call, which ends the recording and not the program. Between the filter
//! and the next look a window may become full; what its append asks for is then up to the filter.
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memscope_format::layout::{FILTERS_UNCOUNTED, PROCESS_HEADER_SIZE, PROCESS_MAGIC, ProcessHeader};
use rustix::fs::OFlags;

use super::Run;
use crate::windows_home;

/// For so long after its beginning a process is looked at in every look: this is when programs lock themselves in.
pub(super) const YOUTH: Duration = Duration::from_secs(1);
/// What one look may spend on older processes; the next goes on with the others.
const LONGEST_LOOK: Duration = Duration::from_millis(1);
/// Threads of a process that one look looks at.
const MOST_THREADS: usize = 8;

#[derive(Debug)]
pub(super) struct Filters {
    run: Run,
    /// How many the keeper itself has, as every process in a container may.
    own: u32,
    processes: HashMap<u32, Known>,
    /// Where the looks at older processes go on.
    next: usize,
}

/// What is known of a process.
#[derive(Debug)]
struct Known {
    since: Instant,
    /// Which of its threads are next.
    thread: usize,
    /// The number its recorder was told last.
    told: u32,
}

/// A process, or a thread of one, as its status says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Status {
    filters: u32,
    /// The number the process has for itself.
    own_pid: Option<u32>,
}

impl Filters {
    pub(super) fn of_run(run: Run) -> Filters {
        let own = Status::read(Path::new("/proc/self/status")).map_or(0, |status| status.filters);
        Filters { run, own, processes: HashMap::new(), next: 0 }
    }

    /// One look at these processes, which are all there are; says whether one of them is young.
    pub(super) fn look(&mut self, alive: &HashSet<u32>) -> bool {
        let began = Instant::now();
        self.processes.retain(|pid, _| alive.contains(pid));
        for pid in alive {
            self.processes.entry(*pid).or_insert(Known { since: began, thread: 0, told: 0 });
        }
        let (young, mut old): (Vec<u32>, Vec<u32>) =
            alive.iter().partition(|pid| self.processes[*pid].since + YOUTH > began);
        for pid in &young {
            self.look_at(*pid);
        }
        old.sort_unstable();
        for _ in 0..old.len() {
            if began.elapsed() > LONGEST_LOOK {
                break;
            }
            self.next = (self.next + 1) % old.len();
            self.look_at(old[self.next]);
        }
        !young.is_empty()
    }

    fn look_at(&mut self, pid: u32) {
        let Some(known) = self.processes.get_mut(&pid) else { return };
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads: Vec<PathBuf> = threads.map(|thread| thread.path().join("status")).collect();
        let counted = threads
            .iter()
            .cycle()
            .skip(known.thread)
            .take(threads.len().min(MOST_THREADS))
            .filter_map(|status| Status::read(status))
            .max_by_key(|status| status.filters);
        known.thread = (known.thread + MOST_THREADS) % threads.len().max(1);
        let Some(Status { filters, own_pid }) = counted else { return };
        if filters > self.own.max(known.told) && tell(&self.run, &[Some(pid), own_pid], filters) {
            known.told = filters;
        }
    }
}

impl Status {
    /// `None` if the process has gone.
    fn read(path: &Path) -> Option<Status> {
        Some(Status::parse(&String::from_utf8_lossy(&fs::read(path).ok()?)))
    }

    fn parse(text: &str) -> Status {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            value.split_ascii_whitespace().next_back()?.parse::<u32>().ok()
        };
        // Strict mode is no filter, and kernels before 5.9 do not count: both are one.
        let at_least = u32::from(field("Seccomp:").unwrap_or(0) != 0);
        Status { filters: field("Seccomp_filters:").unwrap_or(0).max(at_least), own_pid: field("NStgid:") }
    }
}

/// Tells the recorder of the process with one of these numbers, if it knows of fewer filters; says whether it was told.
fn tell(run: &Run, pids: &[Option<u32>], filters: u32) -> bool {
    let Some(path) = windows_of(run, pids) else { return false };
    let answer = open(&path).and_then(|file| {
        let header = Header::read(&file)?;
        let is_it = header.run_id == run.run_id && pids.contains(&Some(header.pid));
        let is_unknown =
            header.inherited != FILTERS_UNCOUNTED && filters > header.inherited.saturating_add(header.known);
        if is_it && is_unknown {
            file.write_all_at(&filters.to_le_bytes(), offset_of!(ProcessHeader, filters_counted) as u64)?;
        }
        Ok(is_it && is_unknown)
    });
    answer.unwrap_or(false)
}

/// What the header of a recording says.
struct Header {
    pid: u32,
    run_id: u64,
    inherited: u32,
    known: u32,
}

impl Header {
    fn read(file: &File) -> io::Result<Header> {
        let mut page = [0; PROCESS_HEADER_SIZE];
        file.read_exact_at(&mut page, 0)?;
        let word = |offset: usize| page[offset..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let run_id =
            page[offset_of!(ProcessHeader, run_id)..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if !page.starts_with(&PROCESS_MAGIC) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Header {
            pid: word(offset_of!(ProcessHeader, pid)),
            run_id,
            inherited: word(offset_of!(ProcessHeader, filters_inherited)),
            known: word(offset_of!(ProcessHeader, filters_known)),
        })
    }
}

/// A link in the place of the file is not followed: it may lead anywhere.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// The windows of the newest image of the process.
fn windows_of(run: &Run, pids: &[Option<u32>]) -> Option<PathBuf> {
    let starts: Vec<String> = pids.iter().flatten().map(|pid| format!("{}_{pid}_", run.brand.name())).collect();
    let directories = fs::read_dir(&run.output_dir).into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        starts.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()))
    });
    // Names end with the time.
    let time_of = |name: &[u8]| name.rsplitn(3, |byte| *byte == b'_').nth(1).map(<[u8]>::to_vec);
    let newest = directories.max_by_key(|entry| time_of(entry.file_name().as_encoded_bytes()))?;
    windows_home::windows_of(&newest.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brand::Brand;
    use memscope_format::layout::SPOOL_DIRECTORY;

    #[test]
    fn a_status_says_how_many_filters_there_are() {
        let status = |text: &str| Status::parse(text);
        let counted = status("Name:\tSeccomp:\nNStgid:\t4711\t7\nSeccomp:\t2\nSeccomp_filters:\t3\n");
        assert_eq!(counted, Status { filters: 3, own_pid: Some(7) });
        assert_eq!(status("Seccomp:\t2\n").filters, 1);
        assert_eq!(status("Seccomp:\t1\nSeccomp_filters:\t0\n").filters, 1);
        assert_eq!(status("Seccomp:\t0\nSeccomp_filters:\t0\n").filters, 0);
    }

    /// A run, and the recording of process 7 that inherited one filter and knows of `known`.
    fn recording(inherited: u32, known: u32) -> (tempfile::TempDir, Run, PathBuf) {
        let output = tempfile::tempdir().unwrap();
        let run = Run { run_id: 5, brand: Brand::default(), utc_offset: 0, output_dir: output.path().to_owned() };
        let mut windows = PathBuf::new();
        for time in ["20260101000000", "20260101000001"] {
            let spool = output.path().join(format!("{}_7_{time}_ascend", run.brand.name())).join(SPOOL_DIRECTORY);
            fs::create_dir_all(&spool).unwrap();
            let mut page = [0; PROCESS_HEADER_SIZE];
            let mut put = |offset: usize, bytes: &[u8]| page[offset..offset + bytes.len()].copy_from_slice(bytes);
            put(0, &PROCESS_MAGIC);
            put(offset_of!(ProcessHeader, pid), &7u32.to_le_bytes());
            put(offset_of!(ProcessHeader, run_id), &5u64.to_le_bytes());
            put(offset_of!(ProcessHeader, filters_inherited), &inherited.to_le_bytes());
            put(offset_of!(ProcessHeader, filters_known), &known.to_le_bytes());
            windows = spool.join("windows.spool");
            fs::write(&windows, page).unwrap();
        }
        (output, run, windows)
    }

    fn counted(windows: &Path) -> u32 {
        let page = fs::read(windows).unwrap();
        u32::from_le_bytes(*page[offset_of!(ProcessHeader, filters_counted)..].first_chunk().unwrap())
    }

    #[test]
    fn the_newest_image_is_told_of_filters_that_it_does_not_know() {
        let (output, run, newest) = recording(1, 1);
        assert!(!tell(&run, &[Some(7), None], 2));
        assert_eq!(counted(&newest), 0);
        assert!(tell(&run, &[Some(4711), Some(7)], 3));
        assert_eq!(counted(&newest), 3);
        let older = output.path().join(format!("{}_7_20260101000000_ascend/spool/windows.spool", run.brand.name()));
        assert_eq!(counted(&older), 0);
        // Of another process, or another run.
        assert!(!tell(&run, &[Some(70)], 3));
        assert!(!tell(&Run { run_id: 6, ..run }, &[Some(7)], 3));
    }

    #[test]
    fn who_could_not_count_what_it_began_with_is_told_nothing() {
        let (_output, run, newest) = recording(FILTERS_UNCOUNTED, 0);
        assert!(!tell(&run, &[Some(7)], 9));
        assert_eq!(counted(&newest), 0);
    }

    #[test]
    fn a_link_in_the_place_of_the_windows_is_not_followed() {
        let (output, run, newest) = recording(0, 0);
        let elsewhere = output.path().join("elsewhere");
        fs::rename(&newest, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &newest).unwrap();
        assert!(!tell(&run, &[Some(7)], 1));
        assert_eq!(counted(&elsewhere), 0);
    }
}

//! Whether the kernel killed processes of a run for want of memory. Nobody tells: the process is gone by SIGKILL, as by
//! anybody's. But the kernel counts, for each control group and for the whole machine, and writes into its log whom it
//! killed. The counts are read before the run and after it, outside of its processes, and what they say is kept with the
//! recording.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::program_end::ProgramEnd;
use crate::run_files;

const KIND: &str = "oom";

/// What the kernel said of one run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OomKills {
    /// How many processes of the command's control group were killed meanwhile; `None` if that is not counted.
    pub in_group: Option<u64>,
    /// How many of the whole machine were.
    pub on_machine: Option<u64>,
    /// Processes the kernel's log names.
    pub named: Vec<u32>,
}

/// How sure it is that a process was killed for want of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// It ended in a way that the kernel's killing is one explanation of, and somebody was killed somewhere.
    Possible,
    /// It ended by SIGKILL, and a process of its control group was killed for want of memory during the run.
    Likely,
    /// The kernel's log names it.
    Certain,
}

/// The end of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OomKill {
    pub certainty: Certainty,
    /// How many processes of the control group, or else of the machine, were killed during the run.
    pub killed: u64,
}

impl OomKills {
    /// Whether there is anything to keep.
    fn is_nothing(&self) -> bool {
        self.in_group.unwrap_or(0) == 0 && self.on_machine.unwrap_or(0) == 0 && self.named.is_empty()
    }

    /// For whoever reads the recording later; no file if nobody was killed.
    pub fn write(&self, output_dir: &Path, run_id: u64) -> io::Result<()> {
        if self.is_nothing() {
            return Ok(());
        }
        let mut text = String::new();
        for (word, count) in [("group", self.in_group), ("machine", self.on_machine)] {
            if let Some(count) = count {
                text.push_str(&format!("{word}\t{count}\n"));
            }
        }
        text.extend(self.named.iter().map(|pid| format!("process\t{pid}\n")));
        let path = run_files::path(output_dir, run_id, KIND);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
    }

    /// What was kept of a run; `None` if that is nothing.
    pub fn read(output_dir: &Path, run_id: u64) -> Option<OomKills> {
        const MOST_BYTES: u64 = 1 << 20;
        let path = run_files::path(output_dir, run_id, KIND);
        // A pipe of that name would never end.
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let mut text = String::new();
        File::open(&path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let mut kills = OomKills::default();
        for (word, number) in text.lines().filter_map(|line| line.split_once('\t')) {
            match word {
                "group" => kills.in_group = number.parse().ok(),
                "machine" => kills.on_machine = number.parse().ok(),
                "process" => kills.named.extend(number.parse::<u32>()),
                _ => {}
            }
        }
        Some(kills)
    }

    /// Whether the process was one of those: by how it ended, as its parent was told, or else by its recording having no end.
    pub fn verdict(&self, pid: u32, end: Option<i32>, is_cut: bool) -> Option<OomKill> {
        const SIGKILL: i32 = 9;
        let was_killed = end.map_or(is_cut, |signal| signal == SIGKILL);
        let group = self.in_group.unwrap_or(0);
        let killed = if group > 0 { group } else { self.on_machine.unwrap_or(0).max(self.named.len() as u64) };
        let certainty = match (was_killed, self.named.contains(&pid)) {
            (false, _) => return None,
            (true, true) => Certainty::Certain,
            (true, false) if killed == 0 => return None,
            // Whom the log names is known, and it is not this one.
            (true, false) if self.named.len() as u64 >= killed => return None,
            (true, false) if group > 0 && end.is_some() => Certainty::Likely,
            (true, false) => Certainty::Possible,
        };
        Some(OomKill { certainty, killed })
    }
}

/// What is known of a process of a run in `output_dir`.
pub fn of_process(output_dir: &Path, run_id: u64, pid: u32, is_cut: bool) -> Option<OomKill> {
    let kills = OomKills::read(output_dir, run_id)?;
    let ends = ProgramEnd::read_all(output_dir);
    let end = ends.iter().find(|end| (end.run_id, end.pid) == (run_id, pid));
    // An exit is no signal.
    kills.verdict(pid, end.map(|end| end.status.signal().unwrap_or(0)), is_cut)
}

/// From before the run to after it.
#[derive(Debug)]
pub struct OomKillWatch {
    counter: Option<(Counter, u64)>,
    on_machine: Option<u64>,
    log: Option<File>,
}

impl OomKillWatch {
    /// Call before the program is started.
    pub fn begin() -> OomKillWatch {
        let counter = Counter::of_this_process().and_then(|counter| {
            let before = counter.read()?;
            Some((counter, before))
        });
        OomKillWatch { counter, on_machine: killed_on_machine(), log: open_log() }
    }

    /// Call when the program has ended: the kernel counts before it kills.
    pub fn end(self) -> OomKills {
        let risen = |before: u64, now: Option<u64>| now.map(|now| now.saturating_sub(before));
        OomKills {
            in_group: self.counter.and_then(|(counter, before)| risen(before, counter.read())),
            on_machine: self.on_machine.and_then(|before| risen(before, killed_on_machine())),
            named: self.log.map(named_in_log).unwrap_or_default(),
        }
    }
}

/// Where a control group's kills are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counter {
    path: PathBuf,
}

/// Of the second version of control groups, and of the first.
const COUNTERS: [&str; 2] = ["memory.events", "memory.oom_control"];

impl Counter {
    fn of_this_process() -> Option<Counter> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        counters(&groups, &mounts).into_iter().find(|counter| counter.read().is_some())
    }

    fn read(&self) -> Option<u64> {
        number_after("oom_kill", &fs::read_to_string(&self.path).ok()?)
    }
}

/// Where the counter may be, by `/proc/self/cgroup` and `/proc/self/mountinfo`: in the process's own group, or where memory is
/// not counted for each group, in the next outer one.
fn counters(groups: &str, mounts: &str) -> Vec<Counter> {
    let mut places = Vec::new();
    for line in groups.lines() {
        // number:controllers:path
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (name, is_mount): (&str, fn(&Mount<'_>) -> bool) = match controllers {
            "" => (COUNTERS[0], |mount| mount.kind == "cgroup2"),
            _ if controllers.split(',').any(|controller| controller == "memory") => (COUNTERS[1], |mount| {
                mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "memory")
            }),
            _ => continue,
        };
        for mount in mounts.lines().filter_map(Mount::of_line).filter(is_mount) {
            // In a container the mount may begin further in than the group's name.
            let within = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
            let inside = Path::new(&mount.place).join(within);
            let outwards = inside.ancestors().take_while(|directory| directory.starts_with(&mount.place));
            places.extend(outwards.map(|directory| Counter { path: directory.join(name) }));
        }
    }
    places
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'l> {
    root: String,
    place: String,
    kind: &'l str,
    options: &'l str,
}

impl<'l> Mount<'l> {
    fn of_line(line: &'l str) -> Option<Mount<'l>> {
        let (before, behind) = line.split_once(" - ")?;
        let (mut before, mut behind) = (before.split(' '), behind.split(' '));
        let (root, place) = (unescaped(before.nth(3)?), unescaped(before.next()?));
        let (kind, _source, options) = (behind.next()?, behind.next()?, behind.next()?);
        Some(Mount { root, place, kind, options })
    }
}

/// Blanks are `\040` there.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

/// `key number` on a line of its own.
fn number_after(key: &str, text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(word, _)| *word == key).and_then(|(_, number)| number.trim().parse().ok())
}

fn killed_on_machine() -> Option<u64> {
    number_after("oom_kill", &fs::read_to_string("/proc/vmstat").ok()?)
}

/// The kernel's log from now on, where we may read it and it speaks of the processes by the numbers we know them by.
fn open_log() -> Option<File> {
    /// The number of the machine's first space of process numbers, the same everywhere.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    const O_NONBLOCK: i32 = 0o4000;
    fs::read_link("/proc/self/ns/pid").ok().filter(|space| space.as_os_str() == FIRST_NAMESPACE)?;
    let mut log = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg").ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

fn named_in_log(mut log: File) -> Vec<u32> {
    const MOST_RECORDS: usize = 100_000;
    let mut named = Vec::new();
    let mut record = [0; 8192];
    for _ in 0..MOST_RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => named.extend(killed_process(&String::from_utf8_lossy(&record[..length]))),
            // Records that were overwritten before they could be read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    named
}

/// The process a record of the log says was killed: `…: Killed process 1234 (python3), …` or `… Killed process 1234, UID …`.
fn killed_process(record: &str) -> Option<u32> {
    // Only the kernel's own: others may write into its log, with a facility above 0, or 3 bits of level alone.
    let (prefix, text) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let number = text.split_once("Killed process ")?.1;
    let digits = number.find(|character: char| !character.is_ascii_digit()).unwrap_or(number.len());
    number[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "0::/user.slice/app.scope\n";
    const HYBRID: &str = "9:name=systemd:/\n4:cpuset,memory:/jobs/a b\n0::/\n";
    const MOUNTS: &str = "\
24 1 0:22 / /proc rw,relatime shared:5 - proc proc rw\n\
30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n\
31 24 0:27 / /sys/fs/cgroup/mem\\040ory rw,nosuid shared:10 - cgroup cgroup rw,cpuset,memory\n\
32 24 0:28 / /sys/fs/cgroup/freezer rw,nosuid shared:11 - cgroup cgroup rw,freezer\n";

    fn paths(groups: &str, mounts: &str) -> Vec<String> {
        counters(groups, mounts).into_iter().map(|counter| counter.path.display().to_string()).collect()
    }

    #[test]
    fn the_counter_of_the_own_group_is_looked_for_first_and_then_outwards() {
        assert_eq!(
            paths(UNIFIED, MOUNTS),
            [
                "/sys/fs/cgroup/unified/user.slice/app.scope/memory.events",
                "/sys/fs/cgroup/unified/user.slice/memory.events",
                "/sys/fs/cgroup/unified/memory.events",
            ]
        );
        assert_eq!(
            paths(HYBRID, MOUNTS),
            [
                "/sys/fs/cgroup/mem ory/jobs/a b/memory.oom_control",
                "/sys/fs/cgroup/mem ory/jobs/memory.oom_control",
                "/sys/fs/cgroup/mem ory/memory.oom_control",
                "/sys/fs/cgroup/unified/memory.events",
            ]
        );
        // In a container whose part of the tree is mounted as the whole.
        let mounted = "30 24 0:26 /docker/77 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(paths("0::/docker/77/inner\n", mounted)[0], "/sys/fs/cgroup/inner/memory.events");
        assert_eq!(paths("0::/\n", mounted), ["/sys/fs/cgroup/memory.events"]);
        for nothing in ["", "0", "a:b", "1:cpu:/x\n"] {
            assert_eq!(paths(nothing, MOUNTS), Vec::<String>::new());
        }
        assert_eq!(paths(UNIFIED, "30 24 0:26\n - \ngarbage"), Vec::<String>::new());
    }

    #[test]
    fn kills_are_counted_in_the_files_of_both_versions_and_of_the_machine() {
        let events = "low 0\nhigh 0\nmax 41\noom 2\noom_kill 1\noom_group_kill 0\n";
        let oom_control = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let machine = "nr_free_pages 61\noom_kill 12\npgscan 4\n";
        let counted = [events, oom_control, machine].map(|text| number_after("oom_kill", text));
        assert_eq!(counted, [Some(1), Some(3), Some(12)]);
        for text in ["", "oom_kill\n", "oom_kill many\n", "oom_kill_disable 1\n"] {
            assert_eq!(number_after("oom_kill", text), None);
        }
    }

    #[test]
    fn the_log_names_whom_the_kernel_killed() {
        let records = [
            "3,512,99,-;Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:2kB",
            "3,513,99,-;Out of memory: Killed process 12 (a b) total-vm:1kB\n SUBSYSTEM=x",
            "6,514,99,-;Tasks in /a are going to be killed due to memory.oom.group set",
            "12,515,99,-;somebody writes: Killed process 13 (x)",
            "3,516,99,-;Killed process , UID",
            "no record",
        ];
        let named = records.map(killed_process);
        assert_eq!(named, [Some(4711), Some(12), None, None, None, None]);
    }

    #[test]
    fn a_process_is_judged_by_its_end_and_by_what_the_kernel_said() {
        let kills = |in_group, on_machine, named: &[u32]| OomKills { in_group, on_machine, named: named.to_vec() };
        let certainty = |kills: OomKills, end, is_cut| kills.verdict(7, end, is_cut).map(|kill| kill.certainty);
        let (killed, terminated, exited) = (Some(9), Some(15), Some(0));
        for (said, end, is_cut, expected) in [
            (kills(Some(1), Some(1), &[7]), killed, true, Some(Certainty::Certain)),
            (kills(None, None, &[7]), None, true, Some(Certainty::Certain)),
            (kills(Some(1), None, &[]), killed, true, Some(Certainty::Likely)),
            (kills(Some(1), None, &[]), None, true, Some(Certainty::Possible)),
            (kills(None, Some(1), &[]), killed, true, Some(Certainty::Possible)),
            (kills(Some(0), Some(2), &[]), killed, true, Some(Certainty::Possible)),
            // It was another.
            (kills(Some(1), Some(1), &[8]), killed, true, None),
            (kills(Some(2), Some(2), &[8]), killed, true, Some(Certainty::Likely)),
            // It ended otherwise, whatever the kernel did.
            (kills(Some(1), Some(1), &[7]), exited, false, None),
            (kills(Some(1), Some(1), &[]), terminated, true, None),
            (kills(Some(1), Some(1), &[]), None, false, None),
            // Somebody else sent it.
            (kills(Some(0), Some(0), &[]), killed, true, None),
            (kills(None, None, &[]), killed, true, None),
        ] {
            assert_eq!(certainty(said.clone(), end, is_cut), expected, "{said:?} {end:?} {is_cut}");
        }
    }

    #[test]
    fn what_the_kernel_said_is_kept_with_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let kills = OomKills { in_group: Some(2), on_machine: None, named: vec![4711, 12] };
        kills.write(directory.path(), 5).unwrap();
        assert_eq!(OomKills::read(directory.path(), 5), Some(kills));
        OomKills { in_group: Some(0), ..OomKills::default() }.write(directory.path(), 6).unwrap();
        assert_eq!(OomKills::read(directory.path(), 6), None);
        fs::write(run_files::path(directory.path(), 7, KIND), "group\tmany\nelse\nprocess\t-1\nprocess\t3\n").unwrap();
        assert_eq!(OomKills::read(directory.path(), 7), Some(OomKills { named: vec![3], ..OomKills::default() }));
    }
}

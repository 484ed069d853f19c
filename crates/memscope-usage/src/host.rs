//! What the recorded processes use of the host's memory, as the kernel counts it.
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::{HOST, HOST_PEAK, ProcessMemory, UsageError, UsageSample, UsageSource};

/// The processes that are recorded below a directory and are alive: whoever is recorded has a directory there, whether it
/// was started by the program, by its children or by `exec`.
#[derive(Debug)]
pub struct HostProcesses {
    output_dir: PathBuf,
    /// Directories of processes that are gone: a run may have thousands, and asking for them again costs each time.
    ended: HashSet<OsString>,
    /// The most each process ever had in memory, as of the newest sample.
    peaks: Vec<ProcessMemory>,
}

impl HostProcesses {
    pub fn recorded_below(output_dir: PathBuf) -> HostProcesses {
        HostProcesses { output_dir, ended: HashSet::new(), peaks: Vec::new() }
    }
}

impl UsageSource for HostProcesses {
    fn devices(&self) -> Vec<u32> {
        vec![HOST, HOST_PEAK]
    }

    fn sample(&mut self, device: u32) -> Result<UsageSample, UsageError> {
        if device == HOST_PEAK {
            return Ok(UsageSample { device: None, processes: Some(std::mem::take(&mut self.peaks)) });
        }
        // A directory that cannot be read now may be later; until then nothing is recorded in it either.
        let entries = fs::read_dir(&self.output_dir).into_iter().flatten().flatten();
        let mut processes = Vec::new();
        self.peaks.clear();
        for name in entries.map(|entry| entry.file_name()) {
            let Some(pid) = name.to_str().and_then(pid_of).filter(|_| !self.ended.contains(&name)) else { continue };
            let Some(size) = resident_size(pid) else {
                self.ended.insert(name);
                continue;
            };
            processes.push(ProcessMemory { pid, bytes: size.now });
            self.peaks.push(ProcessMemory { pid, bytes: size.most });
        }
        for list in [&mut processes, &mut self.peaks] {
            list.sort_unstable_by_key(|process| process.pid);
            // Of one process that replaced its program there are several.
            list.dedup_by_key(|process| process.pid);
        }
        Ok(UsageSample { device: None, processes: Some(processes) })
    }
}

/// The process of a directory `<brand>_<pid>_<time>_ascend`.
fn pid_of(directory: &str) -> Option<u32> {
    let mut parts = directory.strip_suffix("_ascend")?.split('_');
    let (_, pid, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    pid.parse().ok()
}

/// Bytes a process has in memory, and the most it had since it began its program.
struct ResidentSize {
    now: u64,
    most: u64,
}

/// `None` of a process that has ended.
fn resident_size(pid: u32) -> Option<ResidentSize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    };
    Some(ResidentSize { now: field("VmRSS:")?, most: field("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_recorded_processes_tell_their_numbers() {
        assert_eq!(pid_of("msmemscope_31_20251203091122_ascend"), Some(31));
        assert_eq!(pid_of("msleaks_7_1_ascend"), Some(7));
        for other in ["msmemscope_31_20251203091122", "msmemscope_x_1_ascend", "a_1_2_3_ascend", "_ascend", ""] {
            assert_eq!(pid_of(other), None, "{other}");
        }
    }

    #[test]
    fn recorded_processes_that_are_alive_are_sampled() {
        let directory = tempfile::tempdir().unwrap();
        let own = std::process::id();
        // Above every process number there can be.
        for pid in [own, 1 << 30] {
            fs::create_dir(directory.path().join(format!("msmemscope_{pid}_1_ascend"))).unwrap();
        }
        let mut processes = HostProcesses::recorded_below(directory.path().to_owned());
        let usage = processes.sample(HOST).unwrap();
        let [process] = usage.processes.as_deref().unwrap() else { panic!("{usage:?}") };
        assert!(process.pid == own && process.bytes > 1 << 16, "{process:?}");
        let peaks = processes.sample(HOST_PEAK).unwrap();
        let [peak] = peaks.processes.as_deref().unwrap() else { panic!("{peaks:?}") };
        assert!(peak.pid == own && peak.bytes >= process.bytes, "{peak:?}");
        assert!(HostProcesses::recorded_below(directory.path().join("none")).sample(HOST).unwrap().is_empty());
    }
}

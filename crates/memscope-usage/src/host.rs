//! What the recorded processes use of the host's memory, as the kernel counts it.
use std::fs;
use std::path::PathBuf;

use crate::{HOST, ProcessMemory, Usage, UsageError, UsageSource};

/// The processes that are recorded below a directory and are alive: whoever is recorded has a directory there, whether it
/// was started by the program, by its children or by `exec`.
#[derive(Debug)]
pub struct HostProcesses {
    output_dir: PathBuf,
}

impl HostProcesses {
    pub fn recorded_below(output_dir: PathBuf) -> HostProcesses {
        HostProcesses { output_dir }
    }
}

impl UsageSource for HostProcesses {
    fn devices(&self) -> Vec<u32> {
        vec![HOST]
    }

    fn sample(&mut self, _: u32) -> Result<Usage, UsageError> {
        // A directory that cannot be read now may be later; until then nothing is recorded in it either.
        let entries = fs::read_dir(&self.output_dir).into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| pid_of(entry.file_name().to_str()?)).collect();
        pids.sort_unstable();
        // Of one process that replaced its program there are several.
        pids.dedup();
        let resident = |pid| Some(ProcessMemory { pid, bytes: resident_bytes(pid)? });
        Ok(Usage { device: None, processes: Some(pids.into_iter().filter_map(resident).collect()) })
    }
}

/// The process of a directory `<brand>_<pid>_<time>_ascend`.
fn pid_of(directory: &str) -> Option<u32> {
    let mut parts = directory.strip_suffix("_ascend")?.split('_');
    let (_, pid, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    pid.parse().ok()
}

/// `None` of a process that has ended.
fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
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
        assert!(HostProcesses::recorded_below(directory.path().join("none")).sample(HOST).unwrap().is_empty());
    }
}

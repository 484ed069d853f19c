//! Writing the usage log.
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::log::{NO_PROCESS, Record, UNKNOWN, header, host_log_path, log_path};
use crate::{UsageError, UsageSample};

/// Who uses how much is nobody else's business.
const MODE: u32 = 0o600;

/// Appends what changed since the sample before: a device at rest costs nothing, and "the latest at or before" is the
/// same. Records of one sample are one `write`, so a kill leaves whole samples.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: File,
    written: HashMap<u32, Written>,
    records: Vec<u8>,
    /// Something was appended, or tried to be.
    is_begun: bool,
}

impl Drop for LogWriter {
    /// A log that says nothing is no file.
    fn drop(&mut self) {
        if !self.is_begun {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What the log says about a device so far.
#[derive(Debug)]
struct Written {
    used: u64,
    total: u64,
    processes: BTreeMap<u32, u64>,
}

impl Default for Written {
    fn default() -> Written {
        Written { used: UNKNOWN, total: UNKNOWN, processes: BTreeMap::new() }
    }
}

impl LogWriter {
    pub fn create(output_dir: &Path, run_id: u64) -> Result<LogWriter, UsageError> {
        Self::create_at(log_path(output_dir, run_id), run_id)
    }

    /// The log of the processes' use of host memory.
    pub fn create_host(output_dir: &Path, run_id: u64) -> Result<LogWriter, UsageError> {
        Self::create_at(host_log_path(output_dir, run_id), run_id)
    }

    fn create_at(path: PathBuf, run_id: u64) -> Result<LogWriter, UsageError> {
        let created = Self::create_file(&path, run_id);
        match created {
            Ok(file) => Ok(LogWriter { path, file, written: HashMap::new(), records: Vec::new(), is_begun: false }),
            Err(source) => Err(UsageError::Write { path, source }),
        }
    }

    fn create_file(path: &Path, run_id: u64) -> io::Result<File> {
        // Only ever a new file: a link of that name, put there by somebody else, is not followed.
        let mut file = OpenOptions::new().append(true).create_new(true).mode(MODE).open(path)?;
        file.write_all(&header(run_id))?;
        Ok(file)
    }

    /// After an error the log must be left alone: it may end in a part of a record.
    pub fn append(&mut self, time_ns: u64, device: u32, usage: &UsageSample) -> Result<(), UsageError> {
        let written = self.written.entry(device).or_default();
        self.records.clear();
        written.note_changes(time_ns, device, usage, &mut self.records);
        if self.records.is_empty() {
            return Ok(());
        }
        self.is_begun = true;
        self.file.write_all(&self.records).map_err(|source| UsageError::Write { path: self.path.clone(), source })
    }
}

impl Written {
    /// Where the driver does not say this time, what it said before stands.
    fn note_changes(&mut self, time_ns: u64, device: u32, usage: &UsageSample, records: &mut Vec<u8>) {
        let before = (self.used, self.total);
        if let Some(memory) = usage.device {
            (self.used, self.total) = (memory.used_bytes, memory.total_bytes);
        }
        let (device_used, device_total) = (self.used, self.total);
        let mut note = |pid, process_used| {
            let record = Record { time_ns, device_used, device_total, process_used, device, pid };
            records.extend_from_slice(&record.encode());
        };
        if let Some(processes) = &usage.processes {
            // One that is no longer listed has given everything back.
            self.processes.retain(|pid, _| {
                let listed = processes.iter().any(|process| process.pid == *pid);
                if !listed {
                    note(*pid, 0);
                }
                listed
            });
            for process in processes {
                if self.processes.insert(process.pid, process.bytes) != Some(process.bytes) {
                    note(process.pid, process.bytes);
                }
            }
        }
        if records.is_empty() && before != (device_used, device_total) {
            let process_used = UNKNOWN;
            let record = Record { time_ns, device_used, device_total, process_used, device, pid: NO_PROCESS };
            records.extend_from_slice(&record.encode());
        }
    }
}

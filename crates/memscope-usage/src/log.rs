//! The usage log: its bytes, and looking up a time in it. `docs/format.md` specifies it; [`crate::LogWriter`] writes it.
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::UsageError;

pub(crate) const MAGIC: [u8; 8] = *b"MSMUSAGE";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const RECORD_BYTES: usize = 40;
/// A later version may append fields to a record, but not without end.
const MOST_RECORD_BYTES: usize = 4096;
/// Where the driver does not say.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// In place of a device: the record is about a process's memory on the host.
pub const HOST: u32 = 10_000;
/// Likewise: the most the process has had on the host since its program began.
pub const HOST_PEAK: u32 = 10_001;
/// In place of a process: the record is about the device alone.
pub(crate) const NO_PROCESS: u32 = 0;
/// 26 million changes; a longer file is not read to its end.
const MOST_BYTES: u64 = 1 << 30;

/// A file of the run, as `memscope-session` names them all: an input of reports and exports, as long as the recording is kept.
pub fn log_path(output_dir: &Path, run_id: u64) -> PathBuf {
    output_dir.join(format!("run_{run_id}.usage"))
}

/// The same for the processes' use of host memory, in a file of its own: two threads write them.
pub fn host_log_path(output_dir: &Path, run_id: u64) -> PathBuf {
    output_dir.join(format!("run_{run_id}.host_usage"))
}

pub(crate) fn header(run_id: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
    bytes[16..].copy_from_slice(&run_id.to_le_bytes());
    bytes
}

/// One record: what was known at a time of a device and, unless [`NO_PROCESS`], of a process on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) time_ns: u64,
    pub(crate) device_used: u64,
    pub(crate) device_total: u64,
    pub(crate) process_used: u64,
    pub(crate) device: u32,
    pub(crate) pid: u32,
}

impl Record {
    pub(crate) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.device_used.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.device_total.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.process_used.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.device.to_le_bytes());
        bytes[36..].copy_from_slice(&self.pid.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Record> {
        Some(Record {
            time_ns: word(bytes, 0)?,
            device_used: word(bytes, 8)?,
            device_total: word(bytes, 16)?,
            process_used: word(bytes, 24)?,
            device: half(bytes, 32)?,
            pid: half(bytes, 36)?,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// The samples of one run.
#[derive(Debug, Default)]
pub struct UsageLog {
    devices: HashMap<u32, Series>,
    /// Does not change.
    totals: HashMap<u32, u64>,
    processes: HashMap<(u32, u32), Series>,
}

/// What the latest samples at or before a time said; `None` where there was none yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageAt {
    /// Bytes the process held on the device.
    pub process_used: Option<u64>,
    /// Bytes all processes and the driver held on the device.
    pub device_used: Option<u64>,
    /// Bytes there are.
    pub device_total: Option<u64>,
}

impl UsageLog {
    /// `None` if nothing was sampled in this run. Of a file that was cut or overwritten, whatever is a whole record
    /// counts.
    pub fn open(output_dir: &Path, run_id: u64) -> Result<Option<UsageLog>, UsageError> {
        let mut log: Option<UsageLog> = None;
        for path in [log_path(output_dir, run_id), host_log_path(output_dir, run_id)] {
            let file = match open_regular(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(UsageError::Read { path, source }),
            };
            let bytes = BufReader::with_capacity(1 << 16, file.take(MOST_BYTES));
            match Self::read(bytes, run_id) {
                Ok(Some(more)) => log.get_or_insert_default().join(more),
                Ok(None) => return Err(UsageError::Foreign { path }),
                Err(source) => return Err(UsageError::Read { path, source }),
            }
        }
        Ok(log)
    }

    /// `None` if the bytes do not begin as a log of this run.
    fn read(mut bytes: impl Read, run_id: u64) -> io::Result<Option<UsageLog>> {
        let mut start = [0; HEADER_BYTES];
        if !fill(&mut bytes, &mut start)? {
            return Ok(None);
        }
        let record_bytes = half(&start, 12).map_or(0, |length| length as usize);
        let ours = start.starts_with(&MAGIC) && half(&start, 8) == Some(VERSION) && word(&start, 16) == Some(run_id);
        if !ours || !(RECORD_BYTES..=MOST_RECORD_BYTES).contains(&record_bytes) {
            return Ok(None);
        }
        let mut log = UsageLog::default();
        let mut record = vec![0; record_bytes];
        while fill(&mut bytes, &mut record)? {
            // Time 0 is space a file system reserved and never filled.
            if let Some(record) = Record::decode(&record).filter(|record| record.time_ns != 0) {
                log.add(&record);
            }
        }
        log.devices.values_mut().chain(log.processes.values_mut()).for_each(Series::finish);
        Ok(Some(log))
    }

    /// Takes in the other log of the run; they have no device in common.
    fn join(&mut self, other: UsageLog) {
        self.devices.extend(other.devices);
        self.totals.extend(other.totals);
        self.processes.extend(other.processes);
    }

    fn add(&mut self, record: &Record) {
        self.devices.entry(record.device).or_default().push(record.time_ns, record.device_used);
        if record.device_total != UNKNOWN {
            self.totals.entry(record.device).or_insert(record.device_total);
        }
        if record.pid != NO_PROCESS {
            let key = (record.device, record.pid);
            self.processes.entry(key).or_default().push(record.time_ns, record.process_used);
        }
    }

    /// The latest samples at or before `time_ns`; of the device [`HOST`], what the process had in host memory.
    pub fn at(&self, device: u32, pid: u32, time_ns: u64) -> UsageAt {
        let latest = |series: Option<&Series>| series.and_then(|series| series.at(time_ns));
        UsageAt {
            process_used: latest(self.processes.get(&(device, pid))),
            device_used: latest(self.devices.get(&device)),
            device_total: self.totals.get(&device).copied(),
        }
    }
}

impl UsageLog {
    /// The largest sample of a process on a device from `from_ns` on and before `until_ns`.
    pub fn most(&self, device: u32, pid: u32, from_ns: u64, until_ns: u64) -> Option<u64> {
        let samples = self.processes.get(&(device, pid))?.0.iter();
        samples.filter(|(time_ns, _)| (from_ns..until_ns).contains(time_ns)).map(|(_, value)| *value).max()
    }
}

/// A number over time: (time, value from then on).
#[derive(Debug, Default)]
struct Series(Vec<(u64, u64)>);

impl Series {
    fn push(&mut self, time_ns: u64, value: u64) {
        if value != UNKNOWN {
            self.0.push((time_ns, value));
        }
    }

    /// The wall clock may have been set back in between; of samples of the same time the later one stays the later one.
    fn finish(&mut self) {
        self.0.sort_by_key(|(time_ns, _)| *time_ns);
        self.0.dedup_by_key(|(_, value)| *value);
        self.0.shrink_to_fit();
    }

    fn at(&self, time_ns: u64) -> Option<u64> {
        let after = self.0.partition_point(|(sampled_ns, _)| *sampled_ns <= time_ns);
        self.0.get(after.checked_sub(1)?).map(|(_, value)| *value)
    }
}

/// A pipe of that name would never end.
fn open_regular(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Whether there was enough for all of `buffer`.
fn fill(bytes: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match bytes.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;

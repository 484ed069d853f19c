//! Memory usage of devices while the program runs: sampled here, outside of it, because a question to the driver has no
//! place on a thread that allocates, and looked up when rows are written.
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memscope_dump::SampledUsage;
use memscope_model::{Device, Process, TimestampNs};
use memscope_usage::{HOST, Sampler, SamplerEnd, UsageError, UsageLog};

use crate::printer::Printer;
use crate::settings::{NpuSelection, Settings};

/// How long the user waits, after the program's end, for a driver that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sampling of a run, if there is something to sample.
#[derive(Debug)]
pub struct DeviceUsage {
    devices: Option<Sampler>,
    /// What the processes use of the host's memory: the summary and rows of pinned memory tell it.
    host: Option<Sampler>,
}

impl DeviceUsage {
    /// Call when the output directory is there.
    pub fn start(settings: &Settings, run_id: u64, printer: &Printer) -> DeviceUsage {
        let npu = settings.devices.npu;
        let started = |sampler: io::Result<Sampler>, what: &str| {
            sampler.inspect_err(|error| printer.info(&format_args!("{what}: {error}"))).ok()
        };
        let devices = (npu != NpuSelection::None)
            .then(|| Sampler::start(settings.output_dir.clone(), run_id, move |device| selects(npu, device)));
        let host = Sampler::start_host(settings.output_dir.clone(), run_id);
        DeviceUsage {
            devices: devices.and_then(|devices| started(devices, NOT_SAMPLED)),
            host: started(host, HOST_NOT_SAMPLED),
        }
    }

    /// Call when the program has ended, before the export. A machine without NPUs is nothing to warn of.
    pub fn end(self, printer: &Printer) {
        if let Some(SamplerEnd::Stopped(error)) = self.host.map(|sampler| sampler.finish(PATIENCE)) {
            printer.note(&format_args!("host memory usage of the processes is incomplete: {error}"));
        }
        match self.devices.map(|sampler| sampler.finish(PATIENCE)) {
            None | Some(SamplerEnd::Sampled) => {}
            Some(SamplerEnd::Unavailable(error)) => printer.info(&format_args!("{NOT_SAMPLED}: {error}")),
            Some(SamplerEnd::Stopped(error)) => {
                printer.note(&format_args!("device memory usage is incomplete: {error}"));
            }
            Some(SamplerEnd::Unresponsive) => {
                printer.note(&"device memory usage is incomplete: the driver did not answer");
            }
        }
    }
}

const NOT_SAMPLED: &str = "device memory usage is not sampled";
const HOST_NOT_SAMPLED: &str = "host memory usage of the processes is not sampled";

fn selects(npu: NpuSelection, device: u32) -> bool {
    match npu {
        NpuSelection::None => false,
        NpuSelection::All => true,
        NpuSelection::Set(mask) => mask.checked_shr(device).is_some_and(|bits| bits & 1 == 1),
    }
}

/// What was sampled during runs, each read once for all of its processes.
#[derive(Debug, Default)]
pub struct SampledRuns {
    logs: Mutex<HashMap<(PathBuf, u64), SharedLog>>,
}

/// What a log holds, if there is one, or why it cannot be read.
type SharedLog = Arc<Result<Option<UsageLog>, UsageError>>;

impl SampledRuns {
    /// With what the user should know of a log that cannot be read: the export goes on without it.
    pub fn process(&self, process: &Process, directory: &Path) -> (SampledProcess, Option<String>) {
        let (run_id, pid) = (process.info().run_id, process.info().pid);
        // Logs are next to the directories of the run's processes. A name such as `.` has no parent to read from.
        let directory = directory.canonicalize();
        let output_dir = directory.as_ref().ok().and_then(|directory| directory.parent());
        let log = output_dir.map(|output_dir| self.log(output_dir, run_id));
        let problem = log.as_ref().and_then(|log| Some(log.as_ref().as_ref().err()?.to_string()));
        (SampledProcess { log, pid }, problem)
    }

    fn log(&self, output_dir: &Path, run_id: u64) -> SharedLog {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs.entry((output_dir.to_owned(), run_id));
        Arc::clone(log.or_insert_with(|| Arc::new(UsageLog::open(output_dir, run_id))))
    }
}

/// What was sampled during the run of a recorded process, as that process sees it.
#[derive(Debug)]
pub struct SampledProcess {
    log: Option<SharedLog>,
    pid: u32,
}

impl SampledProcess {
    pub fn at(&self, device: Device, time: TimestampNs) -> SampledUsage {
        let device = match device {
            Device::Cpu => HOST,
            Device::Npu(number) => u32::from(number),
            Device::Unknown => return SampledUsage::default(),
        };
        let log = self.log.as_ref().and_then(|log| log.as_ref().as_ref().ok()?.as_ref());
        let at = log.map(|log| log.at(device, self.pid, time.0)).unwrap_or_default();
        SampledUsage { process_used: at.process_used, device_used: at.device_used, device_total: at.device_total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_of_the_option_are_sampled() {
        let selected = |npu| [0, 1, 31, 32].map(|device| selects(npu, device));
        assert_eq!(selected(NpuSelection::None), [false; 4]);
        assert_eq!(selected(NpuSelection::All), [true; 4]);
        assert_eq!(selected(NpuSelection::Set(1 << 31 | 1)), [true, false, true, false]);
    }
}

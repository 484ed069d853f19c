//! The thread that asks.
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::{Dcmi, HostProcesses, LogWriter, UsageError, UsageSource};

/// From one sample to the next, if the driver answers in less than half of it.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// Samples from its start to its end, on a thread of its own. Loading the library and the first question may take
/// long, so they are on that thread too: the program does not wait for them.
#[derive(Debug)]
pub struct Sampler {
    /// Closing it asks the thread to end; dropping the sampler does so without waiting.
    running: Sender<Infallible>,
    end: Receiver<SamplerEnd>,
}

/// What became of the sampling.
#[derive(Debug)]
pub enum SamplerEnd {
    /// What there was to sample is in the log.
    Sampled,
    /// Nothing could be sampled, and there is no log.
    Unavailable(UsageError),
    /// The log ends early.
    Stopped(UsageError),
    /// The driver still owes an answer; there may be a log up to that question.
    Unresponsive,
}

impl Sampler {
    /// Samples the `selected` ones of the devices dcmi knows.
    pub fn start(
        output_dir: PathBuf,
        run_id: u64,
        selected: impl Fn(u32) -> bool + Send + 'static,
    ) -> io::Result<Sampler> {
        Self::start_with(Dcmi::open, output_dir, run_id, selected)
    }

    /// Samples the host memory of the processes that are recorded below `output_dir`.
    pub fn start_host(output_dir: PathBuf, run_id: u64) -> io::Result<Sampler> {
        let processes = HostProcesses::recorded_below(output_dir.clone());
        let create_log = move || LogWriter::create_host(&output_dir, run_id);
        Self::spawn("host usage", move || Ok(processes), create_log, |_| true)
    }

    /// Samples what `open`, called on the sampler's thread, returns. One sample is taken even if the end comes first.
    pub fn start_with<S: UsageSource>(
        open: impl FnOnce() -> Result<S, UsageError> + Send + 'static,
        output_dir: PathBuf,
        run_id: u64,
        selected: impl Fn(u32) -> bool + Send + 'static,
    ) -> io::Result<Sampler> {
        Self::spawn("usage", open, move || LogWriter::create(&output_dir, run_id), selected)
    }

    fn spawn<S: UsageSource>(
        thread_name: &str,
        open: impl FnOnce() -> Result<S, UsageError> + Send + 'static,
        create_log: impl Fn() -> Result<LogWriter, UsageError> + Send + 'static,
        selected: impl Fn(u32) -> bool + Send + 'static,
    ) -> io::Result<Sampler> {
        let (running, asked_to_end) = mpsc::channel();
        let (tell_end, end) = mpsc::channel();
        thread::Builder::new().name(thread_name.to_owned()).spawn(move || {
            let outcome = open().map_or_else(SamplerEnd::Unavailable, |mut source| {
                let devices: Vec<u32> = source.devices().into_iter().filter(|device| selected(*device)).collect();
                sample_until_end(&mut source, &devices, create_log, &asked_to_end)
            });
            // Nobody listens to a sampler that was dropped.
            let _ = tell_end.send(outcome);
        })?;
        Ok(Sampler { running, end })
    }

    /// Ends the sampling; after [`SamplerEnd::Sampled`] the log is complete. A driver that hangs cannot be stopped: after
    /// `patience` it is left alone.
    pub fn finish(self, patience: Duration) -> SamplerEnd {
        drop(self.running);
        self.end.recv_timeout(patience).unwrap_or(SamplerEnd::Unresponsive)
    }
}

fn sample_until_end(
    source: &mut impl UsageSource,
    devices: &[u32],
    create_log: impl Fn() -> Result<LogWriter, UsageError>,
    asked_to_end: &Receiver<Infallible>,
) -> SamplerEnd {
    if devices.is_empty() {
        return SamplerEnd::Unavailable(UsageError::NoDevice);
    }
    let mut log: Option<LogWriter> = None;
    loop {
        let began = Instant::now();
        let mut refusal = None;
        for &device in devices {
            let usage = match source.sample(device) {
                Ok(usage) if usage.is_empty() && log.is_none() => continue,
                Ok(usage) => usage,
                Err(error) => {
                    refusal = Some(error);
                    continue;
                }
            };
            // After the answer: what a sample says was so at its time or just before, never later.
            let time_ns = wall_clock_ns();
            let appended = match &mut log {
                Some(log) => log.append(time_ns, device, &usage),
                None => create_log().and_then(|new| log.insert(new).append(time_ns, device, &usage)),
            };
            if let Err(error) = appended {
                return SamplerEnd::Stopped(error);
            }
        }
        match (asked_to_end.recv_timeout(pause(began.elapsed())), &log, refusal) {
            (Err(RecvTimeoutError::Timeout), ..) => {}
            (_, None, Some(refusal)) => return SamplerEnd::Unavailable(refusal),
            _ => return SamplerEnd::Sampled,
        }
    }
}

/// At least as long as the sampling took: a slow driver is asked less often, not all the time.
fn pause(took: Duration) -> Duration {
    INTERVAL.saturating_sub(took).max(took)
}

/// The clock of the rows: nanoseconds since 1970.
fn wall_clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;

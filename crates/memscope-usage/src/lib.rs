//! How much memory a device and the processes on it use, asked of the driver's management library (dcmi) while a
//! program runs, and looked up by time afterwards; likewise how much of the host's memory the processes use.
//!
//! A question to dcmi is a call into the driver. It is asked by the command that started the program, every
//! [`INTERVAL`], and never by the program's own threads: [`Sampler`] appends what changed to a [log](log_path), and
//! [`UsageLog::at`] answers for the time of an event.
//!
//! dcmi is a C library that is there or not, so it is loaded at run time, and this is the one offline crate with
//! `unsafe` code. All of it is in the module `dcmi`, which turns C answers into [`UsageSample`] and lets no pointer out.
//!
//! The caller's duties: keep the [`Sampler`] alive for as long as the program, call [`Sampler::finish`] before the log
//! is read, and tell the user its [`SamplerEnd`].
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod dcmi;
mod error;
mod host;
mod log;
mod log_writer;
mod sampler;
mod usage;

pub use dcmi::Dcmi;
pub use error::UsageError;
pub use host::HostProcesses;
pub use log::{HOST, HOST_PEAK, UsageAt, UsageLog, host_log_path, log_path};
pub use log_writer::LogWriter;
pub use sampler::{INTERVAL, Sampler, SamplerEnd};
pub use usage::{DeviceMemory, ProcessMemory, UsageSample, UsageSource};

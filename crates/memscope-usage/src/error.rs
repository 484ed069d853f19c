use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why usage cannot be sampled or read.
#[derive(Debug, Error)]
pub enum UsageError {
    /// No driver on this machine, or not one this process may load; the loader's own words.
    #[error("the device management library cannot be loaded ({reason})")]
    NoLibrary { reason: String },
    #[error("the device management library has no function {name}")]
    MissingFunction { name: &'static str },
    #[error("{function} of the device management library failed with {code}")]
    Refused { function: &'static str, code: i32 },
    #[error("there is no device {device}")]
    UnknownDevice { device: u32 },
    #[error("none of the selected devices is on this machine")]
    NoDevice,
    #[error("the usage log {} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the usage log {} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is no usage log of this run that this version can read", path.display())]
    Foreign { path: PathBuf },
}

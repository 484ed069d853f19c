//! One answer of the driver.
use crate::UsageError;

/// Memory of a device and of the processes on it at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageSample {
    /// `None` if the driver does not say, as for devices without memory of the asked kind.
    pub device: Option<DeviceMemory>,
    /// Each process once, in order of its number; `None` if the driver does not say.
    pub processes: Option<Vec<ProcessMemory>>,
}

impl UsageSample {
    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.device.is_none() && self.processes.as_ref().is_none_or(Vec::is_empty)
    }
}

/// Bytes, but no finer than the driver counts: MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceMemory {
    pub used_bytes: u64,
    pub total_bytes: u64,
}

/// What a process holds on one device, or on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessMemory {
    pub pid: u32,
    pub bytes: u64,
}

/// Somebody who knows; outside of tests [`crate::Dcmi`] and [`crate::HostProcesses`].
pub trait UsageSource {
    /// In ascending order.
    fn devices(&self) -> Vec<u32>;
    fn sample(&mut self, device: u32) -> Result<UsageSample, UsageError>;
}

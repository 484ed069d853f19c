//! What marks, ranges and device choices of threads add up to.
use crate::Device;
use rustc_hash::FxHashMap;

/// Which device each thread uses.
#[derive(Debug, Default)]
pub(crate) struct ThreadDevices {
    by_thread: FxHashMap<u32, Device>,
    /// The device all threads so far agree on; `Unknown` once they do not.
    common: Option<Device>,
}

impl ThreadDevices {
    pub(crate) fn set(&mut self, thread: u32, device: Device) {
        self.by_thread.insert(thread, device);
        self.common = Some(match self.common {
            Some(common) if common != device => Device::Unknown,
            _ => device,
        });
    }

    /// A thread that never chose one uses the device of the others if that is one.
    pub(crate) fn of(&self, thread: u32) -> Device {
        self.by_thread.get(&thread).copied().or(self.common).unwrap_or(Device::Unknown)
    }
}

/// The texts of ranges that did not end yet, by number.
#[derive(Debug, Default)]
pub(crate) struct OpenRanges(FxHashMap<u64, String>);

impl OpenRanges {
    pub(crate) fn start(&mut self, id: u64, text: &str) {
        self.0.insert(id, text.to_owned());
    }

    pub(crate) fn end(&mut self, id: u64) -> Option<String> {
        self.0.remove(&id)
    }
}

//! Kernels: launches, the numbers and names the runtime gives them, and what the process knows about its devices' task
//! logs.
use crate::device::{LogicalDevice, PhysicalDevice};
use crate::lane::{event, record};
use crate::process;
use crate::slot::{self, Guard};
use crate::task_log::TaskLogState;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use memscope_format::encode::Extended;
use memscope_format::layout::notes;

/// Most devices of a machine, and hash values remembered as written down.
const DEVICES: usize = 64;
const NAMES: usize = 4096;

/// What a process knows of kernels. In the process's memory, so that a forked child finds zeroes: it has no reader of a
/// task log, and its recording has no names yet.
pub(crate) struct Kernels {
    names: [AtomicU64; NAMES],
    logs: [TaskLogState; DEVICES],
    /// Raised when all threads have to check again the task log of the device they launch on; see [`is_task_log_checked`].
    epoch: AtomicU32,
}

/// The calling thread is about to launch a kernel.
pub fn launch(guard: &Guard<'_>) {
    event(guard, &Extended::KernelLaunch);
}

/// The runtime gave the next task of a stream its number. `task` is the whole word it reports; `name` is 0 for what is
/// no kernel.
pub fn task(guard: &Guard<'_>, device: PhysicalDevice, stream: u32, task: u32, name: u64) {
    event(guard, &Extended::Task { device, stream, task, name });
}

/// The number that stands for a name in the runtime's reports: two rolling products, side by side.
pub fn name_hash(name: &[u8]) -> u64 {
    let (high, low) = name.iter().fold((0u32, 0u32), |(high, low), byte| {
        let byte = u32::from(*byte);
        (high.wrapping_mul(29).wrapping_add(byte), low.wrapping_mul(131).wrapping_add(byte))
    });
    u64::from(high) << 32 | u64::from(low)
}

/// Whether the name of this hash was written down. A wrong no costs a second definition, which does no harm.
pub fn name_is_known(hash: u64) -> bool {
    let Some(process) = process::current() else { return false };
    process.kernels.names.get(name_place(hash)).is_some_and(|place| place.load(Relaxed) == hash)
}

/// Writes down what `hash` stands for.
pub fn define_name(guard: &Guard<'_>, hash: u64, text: &[u8]) {
    record(guard.no_stack(), 0, |lane, ticks, _| {
        lane.writer.definition(ticks, &Extended::KernelName { hash, text });
    });
    // One place for each hash: of two names that share it, each is defined again when it comes after the other.
    if let Some(process) = process::current()
        && let Some(place) = process.kernels.names.get(name_place(hash))
    {
        place.store(hash, Release);
    }
}

fn name_place(hash: u64) -> usize {
    (hash ^ hash >> 32) as usize % NAMES
}

/// Whether the calling thread can launch at once: it has checked that the task log of its device is read, and
/// since then it chose no other device, no log ended or was missed, and the process did not fork.
#[inline(always)]
pub fn is_task_log_checked() -> bool {
    let Some(process) = process::current() else { return false };
    // SAFETY: the slot is the thread's own.
    let checked = unsafe { (*slot::current()).launch_epoch };
    checked == process.kernels.epoch.load(Relaxed).wrapping_add(1)
}

/// The epoch for [`task_log_checked`], taken before the check begins.
pub fn check_epoch() -> u32 {
    process::ensure().map_or(0, |process| process.kernels.epoch.load(Relaxed).wrapping_add(1))
}

/// The calling thread has checked the task log of this device, on which it launches.
pub fn task_log_checked(epoch: u32, device: LogicalDevice) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own.
    unsafe { ((*slot).launch_epoch, (*slot).launch_device) = (epoch, device) };
}

/// The calling thread chose a device; many choose the same again and again.
pub fn device_chosen(device: LogicalDevice) {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own.
    unsafe {
        if (*slot).launch_device != device {
            (*slot).launch_epoch = 0;
        }
    }
}

/// Every thread has to check again before its next launch.
pub fn recheck_task_logs() {
    if let Some(process) = process::current() {
        process.kernels.epoch.fetch_add(1, Relaxed);
    }
}

/// The task log of a device; `None` if nothing is recorded yet, or there can be no such device.
pub fn task_log(device: PhysicalDevice) -> Option<&'static TaskLogState> {
    process::current()?.kernels.logs.get(device.0 as usize)
}

/// All task logs, by device.
pub fn task_logs() -> impl Iterator<Item = (PhysicalDevice, &'static TaskLogState)> {
    let logs = process::current().map_or([].as_slice(), |process| process.kernels.logs.as_slice());
    (0u32..).map(PhysicalDevice).zip(logs)
}

/// Another profiler holds the callbacks.
pub fn note_profiling_taken() {
    if let Some(process) = process::ensure() {
        process.note(notes::PROFILING_TAKEN);
    }
}

/// A device's task log cannot be had.
pub fn note_task_log_refused() {
    if let Some(process) = process::ensure() {
        process.note(notes::TASK_LOG_REFUSED);
    }
}

/// Whether an environment variable is set, given its name and `=`.
pub fn is_set(name_and_equals: &[u8]) -> bool {
    crate::config::variable(name_and_equals).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_runtime() {
        assert_eq!(name_hash(b"AddF16Kernel"), 0x5ab7_fa27_babd_ba77);
        assert_eq!(name_hash(b"MatMulV2"), 0x4199_db10_b0a3_c2d8);
        assert_eq!(name_hash(b""), 0);
    }
}

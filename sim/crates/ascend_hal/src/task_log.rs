//! The channel on which a device tells when tasks begin and end.

use std::collections::VecDeque;
use std::sync::{Condvar, LazyLock, Mutex};
use std::time::Duration;

use sim_boundary::{In, Out, settings};

use crate::device_information::{counter, ticks};
use crate::memory::device_count;

/// The one channel there is.
const TASK_CHANNEL: u32 = 50;
/// What the real driver keeps before it drops is not known; this is ample for a reader that has to wait for its turn on a
/// machine with few cores, while programs launch a kernel in a microsecond.
const MOST_BYTES: usize = 64 << 20;
/// How long a read of an empty channel waits, so that a reader that only loops does not burn a core.
const PATIENCE: Duration = Duration::from_millis(20);
const MAGIC: u32 = 0x6bd3;

/// How a channel is started.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StartParameters {
    channel_type: u32,
    sample_period: u32,
    real_time: u32,
    switches: In<u32>,
    switches_size: u32,
}

#[derive(Default)]
struct Channel {
    running: bool,
    bytes: VecDeque<u8>,
    dropped: u64,
    count: u32,
}

#[derive(Default)]
struct Log {
    channel: Mutex<Channel>,
    arrived: Condvar,
}

static LOGS: LazyLock<Vec<Log>> = LazyLock::new(|| (0..device_count()).map(|_| Log::default()).collect());

/// A task that ran, as the runtime tells it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Task {
    pub device: u32,
    pub stream: u16,
    pub task: u16,
    pub kind: u32,
}

impl Channel {
    /// ```text
    /// word 0: begin 0 | end 1 :6, count :4, kind :6, magic :16
    /// 64-byte record: stream :16, task :16 | counter (2 words) | queue | 11 words
    /// 32-byte record: task :32             | counter (2 words) | queue |  3 words
    /// ```
    fn record(&mut self, task: Task, end: bool, time: u64) {
        let short = ["950", "960"].iter().any(|series| settings::soc_name().contains(series));
        let size = if short { 32 } else { 64 };
        if self.bytes.len() + size > MOST_BYTES {
            self.dropped += 1;
            return;
        }
        let head = u32::from(end) | (self.count & 0xf) << 6 | (task.kind & 0x3f) << 10 | MAGIC << 16;
        self.count += 1;
        let ids = if short { u32::from(task.task) } else { u32::from(task.stream) | u32::from(task.task) << 16 };
        let start = self.bytes.len();
        self.bytes.extend(head.to_le_bytes());
        self.bytes.extend(ids.to_le_bytes());
        self.bytes.extend(time.to_le_bytes());
        self.bytes.resize(start + size, 0);
    }
}

/// Private to the simulator: a task was run. The kernel's duration is the configured one; no time is really spent.
#[unsafe(no_mangle)]
pub extern "C" fn simHalTaskRan(task: In<Task>) {
    let Some(task) = task.get() else { return };
    let Some(log) = LOGS.get(task.device as usize) else { return };
    let Ok(mut channel) = log.channel.lock() else { return };
    if channel.running {
        let begin = counter();
        channel.record(task, false, begin);
        channel.record(task, true, begin + ticks(Duration::from_nanos(settings::KERNEL_NS.get())));
        log.arrived.notify_all();
    }
}

/// Starts the log of a device. The first switch asks for tasks; without it nothing is logged.
#[unsafe(no_mangle)]
pub extern "C" fn prof_drv_start(device: u32, channel: u32, parameters: In<StartParameters>) -> i32 {
    let (Some(log), Some(parameters)) = (LOGS.get(device as usize), parameters.get()) else { return -1 };
    let Ok(mut state) = log.channel.lock() else { return -1 };
    if channel != TASK_CHANNEL || state.running {
        return -1;
    }
    let wanted = parameters.switches_size >= 4 && parameters.switches.get() == Some(1);
    *state = Channel { running: wanted, ..Channel::default() };
    0
}

/// Whole records that have arrived, up to `size` bytes; the number of bytes. Waits a little when there are none.
#[unsafe(no_mangle)]
pub extern "C" fn prof_channel_read(device: u32, channel: u32, buffer: Out<u8>, size: u32) -> i32 {
    let Some(log) = LOGS.get(device as usize) else { return -1 };
    if channel != TASK_CHANNEL {
        return -1;
    }
    let Ok(state) = log.channel.lock() else { return -1 };
    let Ok((mut state, _)) =
        log.arrived.wait_timeout_while(state, PATIENCE, |state| state.running && state.bytes.is_empty())
    else {
        return -1;
    };
    let count = state.bytes.len().min(size as usize & !63);
    for (index, byte) in state.bytes.drain(..count).enumerate() {
        buffer.element(index).set(byte);
    }
    count as i32
}

/// Stops the log of a device and wakes a waiting reader. What has arrived can still be read.
#[unsafe(no_mangle)]
pub extern "C" fn prof_stop(device: u32, channel: u32) -> i32 {
    let Some(log) = LOGS.get(device as usize) else { return -1 };
    let Ok(mut state) = log.channel.lock() else { return -1 };
    if channel != TASK_CHANNEL || !state.running {
        return -1;
    }
    state.running = false;
    log.arrived.notify_all();
    0
}

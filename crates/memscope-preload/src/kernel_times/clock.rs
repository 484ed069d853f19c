//! When a device's counter stood where, on our clock.
use crate::original::{DRIVER, DRIVER_ABSENT, Original};
use core::ffi::c_int;
use memscope_recorder::slot::Guard;
use memscope_recorder::sys;
use memscope_recorder::task_log::{device_clock, ticks};

memscope_hook::functions! {
    found by Original;
    halGetDeviceInfo(device: u32, module: i32, info: i32, value: *mut i64) -> c_int,
        in DRIVER, else DRIVER_ABSENT;
}

const SUCCESS: c_int = 0;

/// Pairs the device's counter with ours, often at first and then once a second while there is something to date.
pub(super) struct Clock {
    device: u32,
    frequency_khz: u64,
    next_ns: u64,
    pause_ns: u64,
}

impl Clock {
    const FIRST_PAUSE_NS: u64 = 1_000_000;
    const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

    pub(super) fn new(device: u32) -> Clock {
        const FREQUENCY: i32 = 25;
        let frequency_khz = device_info(device, FREQUENCY).unwrap_or(0);
        Clock { device, frequency_khz, next_ns: 0, pause_ns: Clock::FIRST_PAUSE_NS }
    }

    pub(super) fn look_if_due(&mut self, guard: &Guard<'_>) {
        if sys::clock_ns(sys::Clock::Monotonic) >= self.next_ns {
            self.look(guard);
        }
    }

    /// Of a few readings the quickest tells most exactly when it was.
    pub(super) fn look(&mut self, guard: &Guard<'_>) {
        const COUNTER: i32 = 13;
        const READINGS: usize = 4;
        let mut best: Option<(u64, u64, u64)> = None;
        for _ in 0..READINGS {
            let before = ticks();
            let counter = device_info(self.device, COUNTER);
            let after = ticks();
            let Some(counter) = counter else { continue };
            if best.is_none_or(|(_, start, end)| after.wrapping_sub(before) < end.wrapping_sub(start)) {
                best = Some((counter, before, after));
            }
        }
        if let Some((counter, before, after)) = best {
            device_clock(guard, self.device, self.frequency_khz, counter, before, after);
        }
        self.next_ns = sys::clock_ns(sys::Clock::Monotonic) + self.pause_ns;
        self.pause_ns = (self.pause_ns * 2).min(Clock::LONGEST_PAUSE_NS);
    }
}

fn device_info(device: u32, info: i32) -> Option<u64> {
    const SYSTEM: i32 = 0;
    let mut value: i64 = 0;
    // SAFETY: the pointer is to a variable of that type.
    let answer = unsafe { halGetDeviceInfo::call(device, SYSTEM, info, &raw mut value) };
    (answer == SUCCESS).then_some(value as u64)
}

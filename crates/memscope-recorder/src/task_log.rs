//! The task log of a device, from the claim to its last line.
//!
//! One thread of ours reads it and has a lane for nothing else: its lines come later than what they tell of, and a reader
//! of the spool reads that lane ahead of the others.
//!
//! ```text
//! IDLE ──claim──► CLAIMED ──► READING ──ask──► ASKED ──► DRAINED ──► STOPPED ──► IDLE
//!  │                 │            the log's reader: READING on, ASKED → DRAINED, STOPPED → IDLE
//!  └─want─► WANTED   └──► REFUSED
//! ```
use crate::clock;
use crate::device::PhysicalDevice;
use crate::lane::{self, Lane, record};
use crate::process;
use crate::slot::Guard;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};
use memscope_format::encode::Extended;
pub use memscope_format::record::{MOST_EXECUTIONS, TaskLogLine};
use memscope_sys as sys;

/// Zeroed memory is one that nobody has claimed.
pub struct TaskLogState {
    state: AtomicU32,
    /// The lane of the last reader, for the next.
    lane: AtomicPtr<Lane>,
}

const IDLE: u32 = 0;
const CLAIMED: u32 = 1;
const READING: u32 = 2;
/// The reader is asked to read what is there; then the log is stopped.
const ASKED: u32 = 3;
const DRAINED: u32 = 4;
/// Stopped; the reader reads the rest and ends.
const STOPPED: u32 = 5;
const REFUSED: u32 = 6;
/// A task ran on the device before anybody looked.
const WANTED: u32 = 7;

const MILLISECOND: u64 = 1_000_000;

/// What the reader is to do when it has found the log empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    GoOn,
    End,
}

impl TaskLogState {
    /// Whether nobody has looked after the log.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state.load(Acquire) == IDLE
    }

    /// Tells that the log is missed; `true` for the first to do so.
    #[cold]
    pub fn want(&self) -> bool {
        self.state.compare_exchange(IDLE, WANTED, AcqRel, Acquire).is_ok()
    }

    pub fn is_wanted(&self) -> bool {
        self.state.load(Acquire) == WANTED
    }

    /// `true` for the one thread that has to start the log now. Others wait a while until it has: what they launch is to
    /// be in it.
    pub fn claim(&self) -> bool {
        const PATIENCE: u32 = 1000;
        for _ in 0..PATIENCE {
            let state = self.state.load(Acquire);
            match state {
                IDLE | WANTED => {
                    if self.state.compare_exchange(state, CLAIMED, AcqRel, Acquire).is_ok() {
                        return true;
                    }
                }
                CLAIMED => sys::wait_while(&self.state, CLAIMED, MILLISECOND),
                _ => break,
            }
        }
        false
    }

    /// The log runs and its reader is about to.
    pub fn begin(&self) {
        self.turn_to(READING);
    }

    /// It cannot be had. Nobody tries again.
    pub fn refuse(&self) {
        self.turn_to(REFUSED);
    }

    /// Ends the log: lets the reader take what is there, calls `stop` and waits for the rest. Waits no longer than a
    /// user accepts at the end of a program, whatever the driver does. Does nothing if the log does not run.
    pub fn end(&self, stop: impl FnOnce()) {
        const DRAINING_MS: u32 = 50;
        const ENDING_MS: u32 = 2000;
        if self.state.compare_exchange(READING, ASKED, AcqRel, Acquire).is_ok() {
            sys::wake_all(&self.state);
            self.wait(DRAINING_MS, |state| state != ASKED);
            stop();
            // Unless the reader has given up by itself.
            let _ =
                self.state.fetch_update(AcqRel, Acquire, |state| matches!(state, ASKED | DRAINED).then_some(STOPPED));
            sys::wake_all(&self.state);
        }
        self.wait(ENDING_MS, |state| !matches!(state, ASKED | DRAINED | STOPPED));
    }

    fn wait(&self, milliseconds: u32, done: impl Fn(u32) -> bool) {
        let mut state = self.state.load(Acquire);
        if done(state) {
            return;
        }
        let began = sys::clock_ns(sys::Clock::Monotonic);
        while !done(state)
            && sys::clock_ns(sys::Clock::Monotonic).saturating_sub(began) < u64::from(milliseconds) * MILLISECOND
        {
            sys::wait_while(&self.state, state, MILLISECOND);
            state = self.state.load(Acquire);
        }
    }

    fn turn_to(&self, state: u32) {
        self.state.store(state, Release);
        sys::wake_all(&self.state);
    }

    /// Whether the log is stopped. Looked at before a read, so that an empty read after it means the end.
    pub fn is_stopped(&self) -> bool {
        self.state.load(Acquire) == STOPPED
    }

    /// The reader found nothing. Sleeps a little where the driver's read does not wait by itself.
    pub fn found_empty(&self, was_stopped: bool) -> Reading {
        const PAUSE: u64 = 5 * MILLISECOND;
        if was_stopped {
            return Reading::End;
        }
        if self.state.compare_exchange(ASKED, DRAINED, AcqRel, Acquire).is_ok() {
            sys::wake_all(&self.state);
        } else {
            sys::wait_while(&self.state, READING, PAUSE);
        }
        Reading::GoOn
    }

    /// Gives the calling thread the lane of this log; `false` if there is none to be had.
    ///
    /// # Safety
    /// The calling thread is the log's reader.
    pub unsafe fn open_lane(&self, _: &Guard<'_>) -> bool {
        // SAFETY: a lane found here was left by a reader that has ended.
        let lane = unsafe { lane::keep(self.lane.swap(ptr::null_mut(), AcqRel)) };
        self.lane.store(lane, Release);
        !lane.is_null()
    }

    /// The reader has read everything.
    pub fn ended(&self) {
        self.turn_to(IDLE);
    }
}

/// Ticks, for [`device_clock`].
pub fn ticks() -> u64 {
    process::current().map_or(0, |process| clock::ticks(process.clock()))
}

/// The device's counter stood at `counter` between two moments ([`ticks`]). `frequency_khz` 0: unknown. Told by the log's
/// reader, which has its lane.
pub fn device_clock(
    guard: &Guard<'_>,
    device: PhysicalDevice,
    frequency_khz: u64,
    counter: u64,
    before: u64,
    after: u64,
) {
    let width = after.saturating_sub(before);
    record(guard.no_stack(), 1, |lane, _, _| {
        let record = Extended::DeviceClock { device, frequency_khz, counter, width };
        lane.writer.extended_event(before + width / 2, &record);
    });
}

/// Lines of the log, at most [`MOST_EXECUTIONS`]; told by its reader.
pub fn executions(guard: &Guard<'_>, device: PhysicalDevice, streams: bool, lines: &[TaskLogLine]) {
    if lines.is_empty() {
        return;
    }
    let count = lines.len() as u64;
    record(guard.no_stack(), count, |lane, ticks, _| {
        let record = Extended::Executions { device, streams, lines };
        lane.writer.extended_events(ticks, &record, count);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn log() -> TaskLogState {
        TaskLogState { state: AtomicU32::new(IDLE), lane: AtomicPtr::new(ptr::null_mut()) }
    }

    #[test]
    fn one_of_many_threads_starts_the_log_and_the_others_find_it_started() {
        let (log, starts) = (log(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if log.claim() {
                        starts.fetch_add(1, AcqRel);
                        log.begin();
                    }
                    assert_eq!(log.state.load(Acquire), READING);
                });
            }
        });
        assert_eq!(starts.load(Acquire), 1);
    }

    #[test]
    fn an_end_lets_the_reader_drain_before_and_after_the_stop() {
        let (log, stopped) = (log(), AtomicBool::new(false));
        assert!(log.want() && log.is_wanted() && log.claim());
        log.begin();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let was_stopped = log.is_stopped();
                    if log.found_empty(was_stopped) == Reading::End {
                        break;
                    }
                }
                assert!(stopped.load(Acquire));
                log.ended();
            });
            log.end(|| {
                assert!(matches!(log.state.load(Acquire), DRAINED | ASKED));
                stopped.store(true, Release);
            });
        });
        assert!(log.is_idle());
        // Nothing to end.
        log.end(|| panic!("it does not run"));
    }

    #[test]
    fn a_reader_that_hangs_does_not_keep_the_program() {
        let log = log();
        assert!(log.claim());
        log.begin();
        log.end(|| {});
        assert!(log.is_stopped());
    }

    #[test]
    fn what_was_refused_is_not_asked_for_again() {
        let log = log();
        assert!(log.claim());
        log.refuse();
        assert!(!log.claim() && !log.want());
    }
}

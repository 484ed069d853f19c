//! Ticks: the cheapest clock that runs evenly.
//!
//! A counter read costs 9 ns where `clock_gettime` costs 27. The counter is taken only where the processor promises a
//! constant rate in all power states and the kernel still believes in it; ticks become time offline, through
//! calibrations against the monotonic clock.
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use memscope_format::layout::ClockKind;
use memscope_sys::{self as sys, Clock, clock_ns, vdso};

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod counter;
mod line;
pub(crate) use line::TickLine;

/// Counter ticks are divided by `1 << SHIFT`: about 6 ns at 2.5 GHz, so that the time between two events mostly fits a
/// byte. Far below the time a pointer needs to travel between two threads, so the order across threads holds.
pub(crate) const SHIFT: u32 = counter::SHIFT;

/// Whether the counter may be used; found out once per image.
static COUNTER: AtomicBool = AtomicBool::new(false);

/// Set once the program has made reading the counter a fault, for a thread and those it starts: no clock is read any more
/// on the slow paths, and no lane begins.
static GONE: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_gone() -> bool {
    GONE.load(Relaxed)
}

pub(crate) fn set_gone() {
    GONE.store(true, Relaxed);
}

/// Once per image, before the first event: finds the kernel's clock code and asks which clock the kernel goes by.
pub(crate) fn initialise() {
    let (mut current, mut available) = ([0; 64], [0; 256]);
    let current = read_line(c"/sys/devices/system/clocksource/clocksource0/current_clocksource", &mut current);
    let available = read_line(c"/sys/devices/system/clocksource/clocksource0/available_clocksource", &mut available);
    COUNTER.store(counter::is_even() && counter::is_believed(current, available), Relaxed);
    // SAFETY: what the kernel said.
    unsafe { vdso::initialise(vdso_header(), counter::is_read_by_the_kernels_code(current)) };
}

/// Where the kernel put its code. `getauxval` leaves an error number where it finds nothing, which is the program's.
fn vdso_header() -> usize {
    unsafe extern "C" {
        fn getauxval(kind: u64) -> u64;
        fn __errno_location() -> *mut i32;
    }
    const AT_SYSINFO_EHDR: u64 = 33;
    // SAFETY: neither has preconditions; the error number is this thread's own.
    unsafe {
        let error = *__errno_location();
        let header = getauxval(AT_SYSINFO_EHDR);
        *__errno_location() = error;
        header as usize
    }
}

/// The first line of a small file; empty if there is none.
fn read_line<'b>(path: &core::ffi::CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    let Ok(file) = sys::open(path, sys::O_RDONLY) else { return &[] };
    let length = sys::read(file, buffer).unwrap_or(0);
    sys::close(file);
    let text = buffer.get(..length).unwrap_or_default();
    text.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

pub(crate) fn kind() -> ClockKind {
    if COUNTER.load(Relaxed) { ClockKind::Counter } else { ClockKind::Monotonic }
}

#[inline(always)]
pub(crate) fn ticks(kind: ClockKind) -> u64 {
    match kind {
        ClockKind::Counter => counter::read() >> SHIFT,
        ClockKind::Monotonic => clock_ns(Clock::Monotonic),
    }
}

/// The same moment in ticks and on the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calibration {
    /// As recorded: the counter's plus `offset`.
    pub(crate) ticks: u64,
    pub(crate) monotonic_ns: u64,
    /// By how much the counter was set back since the process began: see [`Calibration::after_step`].
    pub(crate) offset: u64,
}

impl Calibration {
    /// The quickest of three readings: an interruption between the two clocks would bend the time line. `None` if the
    /// program forbids asking for the time.
    pub(crate) fn now(kind: ClockKind, offset: u64) -> Option<Calibration> {
        const READINGS: usize = 3;
        if is_gone() {
            return None;
        }
        let mut best = None;
        let mut quickest = u64::MAX;
        for _ in 0..READINGS {
            let before = ticks(kind);
            let monotonic_ns = clock_ns(Clock::Monotonic);
            let took = ticks(kind).wrapping_sub(before);
            if monotonic_ns == 0 {
                return None;
            }
            if took < quickest {
                quickest = took;
                let ticks = (before + took / 2).wrapping_add(offset);
                best = Some(Calibration { ticks, monotonic_ns, offset });
            }
        }
        best
    }

    /// The counter's own ticks.
    pub(crate) fn counter(&self) -> u64 {
        self.ticks.wrapping_sub(self.offset)
    }

    /// Whether the counter was set back since `earlier`, as after the restore of a checkpoint. A reading that is older
    /// on both clocks is just an older reading.
    pub(crate) fn is_behind(&self, earlier: &Calibration) -> bool {
        let Some(since_ns) = self.monotonic_ns.checked_sub(earlier.monotonic_ns) else { return false };
        let tolerated = if since_ns > MILLISECOND { 0 } else { TOLERANCE };
        self.ticks.saturating_add(tolerated) < earlier.ticks
    }

    /// This reading, made after the counter was set back, with the offset that continues the line from `start` to
    /// `newest`: recorded ticks never decrease, and events before the step keep their time.
    pub(crate) fn after_step(self, start: &Calibration, newest: &Calibration) -> Calibration {
        let known_ns = newest.monotonic_ns.saturating_sub(start.monotonic_ns);
        let known_ticks = newest.ticks.saturating_sub(start.ticks);
        let since_ns = self.monotonic_ns.saturating_sub(newest.monotonic_ns);
        // A tick is never shorter than a nanosecond: without a rate, one too many does no harm. Floating point, because a
        // division of 128 bits is a library's function, which not every architecture has without the rest of it.
        let rate = if known_ns == 0 { 1.0 } else { known_ticks as f64 / known_ns as f64 };
        let since_ticks = (since_ns as f64 * rate + 0.5) as u64;
        let ticks = newest.ticks.saturating_add(since_ticks.max(1));
        Calibration { ticks, monotonic_ns: self.monotonic_ns, offset: ticks.wrapping_sub(self.counter()) }
    }
}

const MILLISECOND: u64 = 1_000_000;
/// In ticks: about a millisecond of a 2.5 GHz counter. Cores differ by less; what is within it is no step.
const TOLERANCE: u64 = 2_500_000 >> SHIFT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_advance_with_time() {
        initialise();
        let first = Calibration::now(kind(), 0).unwrap();
        while clock_ns(Clock::Monotonic) < first.monotonic_ns + 2_000_000 {}
        let second = Calibration::now(kind(), 0).unwrap();
        assert!(second.ticks > first.ticks && second.monotonic_ns > first.monotonic_ns);
        assert!(!second.is_behind(&first) && !first.is_behind(&second));
    }

    const fn at(ticks: u64, monotonic_ns: u64, offset: u64) -> Calibration {
        Calibration { ticks, monotonic_ns, offset }
    }

    #[test]
    fn a_counter_that_was_set_back_is_noticed_and_an_old_reading_is_not() {
        let newest = at(1_000_000_000, 6_000_000_000, 0);
        assert!(at(5000, 6_000_000_001, 0).is_behind(&newest));
        assert!(!at(5000, 5_999_999_999, 0).is_behind(&newest));
        assert!(!at(1_000_000_000 - TOLERANCE, 6_000_000_001, 0).is_behind(&newest));
        assert!(at(1_000_000_000 - TOLERANCE, 6_001_000_001, 0).is_behind(&newest));
        assert!(!at(u64::MAX, u64::MAX, 0).is_behind(&newest));
    }

    #[test]
    fn after_a_step_back_the_line_goes_on_at_its_rate() {
        // Six nanoseconds a tick; the checkpoint lay for an hour.
        let (start, newest) = (at(1_000_000, 6_000_000_000, 0), at(101_000_000, 6_600_000_000, 0));
        let restored = at(7, 6_600_000_000 + 3_600_000_000_000, 0).after_step(&start, &newest);
        assert_eq!((restored.ticks, restored.counter()), (101_000_000 + 600_000_000_000, 7));
        // A second one, from the readings of the first.
        let again = at(3u64.wrapping_add(restored.offset), restored.monotonic_ns + 6, restored.offset);
        let again = again.after_step(&start, &restored);
        assert_eq!((again.ticks, again.counter()), (restored.ticks + 1, 3));
    }

    #[test]
    fn a_step_back_before_there_is_a_rate_is_survived() {
        let start = at(1_000_000_000, 6_000_000_000, 0);
        let restored = at(7, 6_000_000_100, 0).after_step(&start, &start);
        assert_eq!((restored.ticks, restored.counter()), (1_000_000_100, 7));
        let extreme = at(7, u64::MAX, 0).after_step(&at(0, 0, 0), &at(u64::MAX, 1, 0));
        assert_eq!((extreme.ticks, extreme.counter()), (u64::MAX, 7));
    }
}

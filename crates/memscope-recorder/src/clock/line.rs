//! A process's time line: the calibrations in its header, and where the line goes on if the counter was set back.
use super::{Calibration, TOLERANCE};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::fence;
use memscope_format::layout::{ClockKind, ProcessHeader};

/// Zeroed memory is the line of a process that begins.
pub(crate) struct TickLine {
    /// Added to the counter since it was set back; 0 as long as it never was.
    offset: AtomicU64,
    /// Who writes a calibration down at this moment, by the ticks of it; 0 nobody.
    writing: AtomicU64,
}

impl TickLine {
    /// Pairs ticks and time now, and writes the pair down. Without a clock the last pair has to do.
    pub(crate) fn calibrate(&self, kind: ClockKind, header: &ProcessHeader) -> Calibration {
        let newest = self.newest(header);
        match Calibration::now(kind, self.offset.load(Acquire)) {
            Some(reading) => self.take(reading, &newest, header),
            None => newest,
        }
    }

    /// Takes in a reading made after `newest` was known.
    fn take(&self, reading: Calibration, newest: &Calibration, header: &ProcessHeader) -> Calibration {
        let mut now = reading;
        if now.is_behind(newest) {
            let resumed = now.after_step(&start(header), newest);
            // One thread decides for all where the line goes on.
            let agreed = match self.offset.compare_exchange(now.offset, resumed.offset, AcqRel, Acquire) {
                Ok(_) => resumed.offset,
                Err(others) => others,
            };
            now = Calibration { ticks: now.counter().wrapping_add(agreed), offset: agreed, ..now };
        }
        self.write_down(&now, header);
        now
    }

    /// Two slots in turn: a kill in between leaves the older one whole. One thread at a time; one that was left by a jump
    /// meanwhile, or does not run, holds the place for a while only.
    fn write_down(&self, now: &Calibration, header: &ProcessHeader) {
        const HELD: u64 = 1000 * TOLERANCE;
        let holder = self.writing.load(Relaxed);
        let mine = now.ticks.max(1);
        let is_free = holder == 0 || holder.abs_diff(mine) > HELD;
        if !is_free || self.writing.compare_exchange(holder, mine, Acquire, Relaxed).is_err() {
            return;
        }
        let next = header.calibrations.load(Relaxed) + 1;
        if let Some(slot) = header.calibration_slots.get(next as usize % 2) {
            slot.ticks.store(now.ticks, Relaxed);
            slot.monotonic_ns.store(now.monotonic_ns, Relaxed);
            header.calibrations.store(next, Release);
        }
        let _ = self.writing.compare_exchange(mine, 0, Release, Relaxed);
    }

    /// The pair written down last, with the offset that holds now.
    fn newest(&self, header: &ProcessHeader) -> Calibration {
        const TRIES: usize = 4;
        for _ in 0..TRIES {
            let offset = self.offset.load(Acquire);
            let count = header.calibrations.load(Acquire);
            let Some(slot) = header.calibration_slots.get(count as usize % 2) else { break };
            let (ticks, monotonic_ns) = (slot.ticks.load(Relaxed), slot.monotonic_ns.load(Relaxed));
            fence(Acquire);
            // Another may have begun to write there, but only after it has counted one more.
            if count != 0 && header.calibrations.load(Relaxed) == count && self.offset.load(Relaxed) == offset {
                return Calibration { ticks, monotonic_ns, offset };
            }
        }
        start(header)
    }
}

fn start(header: &ProcessHeader) -> Calibration {
    Calibration { ticks: header.start_ticks, monotonic_ns: header.start_monotonic_ns, offset: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: (u64, u64) = (1_000_000_000, 6_000_000_000);

    fn beginning() -> (TickLine, Box<ProcessHeader>) {
        // SAFETY: zeroed memory is a valid line, and a valid header: numbers all.
        let (line, mut header) =
            unsafe { (core::mem::zeroed::<TickLine>(), Box::<ProcessHeader>::new_zeroed().assume_init()) };
        (header.start_ticks, header.start_monotonic_ns) = START;
        (line, header)
    }

    /// A reading of the counter at a time, as a thread makes it that knows the line.
    fn read(line: &TickLine, header: &ProcessHeader, counter: u64, monotonic_ns: u64) -> Calibration {
        let newest = line.newest(header);
        let offset = line.offset.load(Relaxed);
        line.take(Calibration { ticks: counter.wrapping_add(offset), monotonic_ns, offset }, &newest, header)
    }

    fn written(header: &ProcessHeader) -> (u64, u64) {
        let slot = &header.calibration_slots[header.calibrations.load(Relaxed) as usize % 2];
        (slot.ticks.load(Relaxed), slot.monotonic_ns.load(Relaxed))
    }

    #[test]
    fn each_reading_is_written_down() {
        let (line, header) = beginning();
        for n in 1..5 {
            let now = read(&line, &header, START.0 + n * 1_000_000, START.1 + n * 6_000_000);
            assert_eq!(written(&header), (now.ticks, now.monotonic_ns));
            assert_eq!((header.calibrations.load(Relaxed), now.offset), (n, 0));
        }
    }

    #[test]
    fn a_writer_that_never_came_back_does_not_end_the_calibrations() {
        let (line, header) = beginning();
        read(&line, &header, START.0 + 1_000_000, START.1 + 6_000_000);
        // Left by a jump.
        line.writing.store(START.0 + 1_500_000, Relaxed);
        read(&line, &header, START.0 + 2_000_000, START.1 + 12_000_000);
        assert_eq!(header.calibrations.load(Relaxed), 1, "it may still be at work");
        let later = START.0 + 1_500_000 + 1001 * TOLERANCE;
        read(&line, &header, later, START.1 + 7_000_000_000);
        assert_eq!((header.calibrations.load(Relaxed), written(&header).0), (2, later));
        read(&line, &header, later + 1, START.1 + 7_000_000_010);
        assert_eq!((header.calibrations.load(Relaxed), written(&header).0), (3, later + 1));
    }

    #[test]
    fn a_counter_that_was_set_back_continues_the_line_for_all_threads() {
        let (line, header) = beginning();
        let before = read(&line, &header, START.0 + 100_000_000, START.1 + 600_000_000);
        // Two threads notice at once, with the same knowledge.
        let newest = line.newest(&header);
        let reading = |counter, monotonic_ns| Calibration { ticks: counter, monotonic_ns, offset: 0 };
        let first = line.take(reading(50, before.monotonic_ns + 60), &newest, &header);
        let second = line.take(reading(60, before.monotonic_ns + 120), &newest, &header);
        assert_eq!((first.ticks, first.counter()), (before.ticks + 10, 50));
        assert_eq!((second.ticks, second.counter(), second.offset), (before.ticks + 20, 60, first.offset));
        let third = read(&line, &header, 70, before.monotonic_ns + 180);
        assert_eq!((third.ticks, written(&header).0), (before.ticks + 30, before.ticks + 30));
        // And once more, further back than it ever was.
        let fourth = read(&line, &header, 3, third.monotonic_ns + 1_000_000_000_000);
        assert!(fourth.ticks > third.ticks && fourth.offset != third.offset && fourth.counter() == 3);
    }
}

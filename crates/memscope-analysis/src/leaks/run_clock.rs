//! The time of a run without what the program spent on imports.
use memscope_model::TimestampNs;

/// Stands still while modules are imported.
#[derive(Clone, Debug, Default)]
pub(super) struct RunClock {
    start: Option<TimestampNs>,
    halts: Vec<Halt>,
    /// Imports have gone on since then.
    importing_since: Option<TimestampNs>,
}

/// Imports, from one time to another.
#[derive(Clone, Copy, Debug)]
struct Halt {
    from: TimestampNs,
    until: TimestampNs,
    /// Nanoseconds of all imports before.
    halted_before: u64,
}

/// Shorter imports count like anything else: there may be very many of them.
const SHORTEST_HALT_NS: u64 = 1 << 17;

impl RunClock {
    /// The time of an event, and whether it belongs to an import, if it tells. Times come in their order.
    #[inline]
    pub(super) fn see(&mut self, time: TimestampNs, is_import: Option<bool>) -> u64 {
        self.start.get_or_insert(time);
        match (self.importing_since, is_import) {
            (None, Some(true)) => self.importing_since = Some(time),
            (Some(since), Some(false)) => {
                self.importing_since = None;
                if time.since(since) >= SHORTEST_HALT_NS {
                    let halted_before = self.halted();
                    self.halts.push(Halt { from: since, until: time, halted_before });
                }
            }
            _ => {}
        }
        self.read(time)
    }

    /// Nanoseconds from the start to `time` that count.
    #[inline]
    pub(super) fn read(&self, time: TimestampNs) -> u64 {
        let Some(start) = self.start else { return 0 };
        let time = self.importing_since.map_or(time, |since| time.min(since));
        let halted = match self.halts.last() {
            None => 0,
            Some(last) if time >= last.until => self.halted(),
            Some(_) => {
                let after = self.halts.partition_point(|halt| halt.from <= time);
                let before = after.checked_sub(1).map(|at| self.halts[at]);
                before.map_or(0, |halt| halt.halted_before + time.min(halt.until).since(halt.from))
            }
        };
        time.since(start).saturating_sub(halted)
    }

    pub(super) fn start(&self) -> TimestampNs {
        self.start.unwrap_or_default()
    }

    fn halted(&self) -> u64 {
        self.halts.last().map_or(0, |last| last.halted_before + last.until.since(last.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_during_imports_and_tells_earlier_times_too() {
        const MS: u64 = 1_000_000;
        let at = |ms: u64| TimestampNs(ms * MS);
        let mut clock = RunClock::default();
        let (import, work, silent) = (Some(true), Some(false), None);
        let events =
            [(100, work), (110, import), (120, silent), (190, work), (200, silent), (210, import), (310, work)];
        let told: Vec<u64> = events.iter().map(|(ms, is_import)| clock.see(at(*ms), *is_import) / MS).collect();
        assert_eq!(told, [0, 10, 10, 10, 20, 30, 30]);
        for (ms, expected) in [(105, 5), (110, 10), (150, 10), (195, 15), (205, 25), (290, 30), (320, 40)] {
            assert_eq!(clock.read(at(ms)) / MS, expected, "at {ms} ms");
        }
    }

    #[test]
    fn a_run_that_ends_in_an_import_counts_up_to_it_and_very_short_imports_count() {
        let mut clock = RunClock::default();
        for (time, is_import, told) in
            [(0, false, 0), (10, true, 10), (20, false, 20), (30, true, 30), (9_000_000, true, 30)]
        {
            assert_eq!(clock.see(TimestampNs(time), Some(is_import)), told, "at {time}");
        }
    }
}

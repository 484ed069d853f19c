//! A device's counter as wall clock time.
use crate::TimestampNs;

/// The counter of one device at some moments of ours, and what lies between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceClock {
    /// Strictly increasing in both members: counter and time.
    points: Vec<(u64, TimestampNs)>,
    frequency_khz: u64,
}

impl DeviceClock {
    /// Moments nearer to each other say more about the reading than about the rate.
    const NEAREST_NS: u64 = 500_000;

    /// The counter stood so at this time. Moments come in the order of time; one that cannot be is left out.
    pub(crate) fn see(&mut self, counter: u64, time: TimestampNs, frequency_khz: u64) {
        /// No counter of a device runs slower or faster; what is outside was made up.
        const POSSIBLE_KHZ: std::ops::RangeInclusive<u64> = 1..=10_000_000;
        if POSSIBLE_KHZ.contains(&frequency_khz) {
            self.frequency_khz = frequency_khz;
        }
        let fits = self
            .points
            .last()
            .is_none_or(|(last_counter, last)| counter > *last_counter && time.since(*last) >= Self::NEAREST_NS);
        if fits {
            self.points.push((counter, time));
        }
    }

    /// When the counter stood at `counter`; `None` if nothing is known of it.
    pub(crate) fn time(&self, counter: u64) -> Option<TimestampNs> {
        let next = self.points.partition_point(|point| point.0 <= counter);
        let time = match (self.points.get(next.wrapping_sub(1)), self.points.get(next)) {
            (Some(left), Some(right)) => along(*left, rate(*left, *right), counter),
            (Some(outer), None) | (None, Some(outer)) => along(*outer, self.usual_rate()?, counter),
            (None, None) => return None,
        };
        Some(TimestampNs(time.clamp(1, i128::from(i64::MAX)) as u64))
    }

    /// Beyond the ends: what the device says its rate is, or what it was on the whole.
    fn usual_rate(&self) -> Option<(i128, i128)> {
        match (self.frequency_khz, self.points.first(), self.points.last()) {
            (khz @ 1.., _, _) => Some((1_000_000, i128::from(khz))),
            (0, Some(first), Some(last)) if last.0 > first.0 => Some(rate(*first, *last)),
            _ => None,
        }
    }
}

/// Nanoseconds for so many counts.
fn rate(left: (u64, TimestampNs), right: (u64, TimestampNs)) -> (i128, i128) {
    (i128::from(right.1.since(left.1)), i128::from(right.0 - left.0))
}

fn along(from: (u64, TimestampNs), (ns, counts): (i128, i128), counter: u64) -> i128 {
    i128::from(from.1.0) + (i128::from(counter) - i128::from(from.0)).saturating_mul(ns) / counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_moment_and_the_frequency_are_enough() {
        let mut clock = DeviceClock::default();
        assert_eq!(clock.time(5), None);
        clock.see(1000, TimestampNs(10_000_000), 50_000);
        assert_eq!((clock.time(1050), clock.time(950)), (Some(TimestampNs(10_001_000)), Some(TimestampNs(9_999_000))));
    }

    #[test]
    fn between_two_moments_the_measured_rate_counts_and_beyond_them_the_told_one() {
        let mut clock = DeviceClock::default();
        clock.see(0, TimestampNs(1_000_000), 1000);
        clock.see(1000, TimestampNs(3_000_000), 1000);
        assert_eq!((clock.time(500), clock.time(2000)), (Some(TimestampNs(2_000_000)), Some(TimestampNs(4_000_000))));
    }

    #[test]
    fn a_device_that_tells_no_frequency_is_measured() {
        let mut clock = DeviceClock::default();
        clock.see(0, TimestampNs(1_000_000), 0);
        assert_eq!(clock.time(10), None);
        clock.see(1000, TimestampNs(2_000_000), 0);
        assert_eq!(clock.time(3000), Some(TimestampNs(4_000_000)));
    }

    proptest! {
        #[test]
        fn never_runs_backwards_between_moments(
            points in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..20),
            mut counters in proptest::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut clock = DeviceClock::default();
            points.iter().for_each(|(counter, time, khz)| clock.see(*counter, TimestampNs(*time), *khz));
            counters.sort_unstable();
            let times: Vec<Option<TimestampNs>> = counters.iter().map(|counter| clock.time(*counter)).collect();
            prop_assert!(times.is_sorted());
        }
    }
}

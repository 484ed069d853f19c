//! A device's counter as wall clock time.

/// The counter of one device at some moments of ours, and what lies between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceClock {
    /// Strictly increasing in both members: counter and nanoseconds since the epoch.
    points: Vec<(u64, u64)>,
    frequency_khz: u64,
}

impl DeviceClock {
    /// Moments nearer to each other say more about the reading than about the rate.
    const NEAREST_NS: u64 = 500_000;

    /// The counter stood so at this time. Moments come in the order of time; one that cannot be is left out.
    pub(crate) fn see(&mut self, counter: u64, time_ns: u64, frequency_khz: u64) {
        /// No counter of a device runs slower or faster; what is outside was made up.
        const POSSIBLE_KHZ: std::ops::RangeInclusive<u64> = 1..=10_000_000;
        if POSSIBLE_KHZ.contains(&frequency_khz) {
            self.frequency_khz = frequency_khz;
        }
        let fits = self.points.last().is_none_or(|(last_counter, last_ns)| {
            counter > *last_counter && time_ns.checked_sub(*last_ns).is_some_and(|gap| gap >= Self::NEAREST_NS)
        });
        if fits {
            self.points.push((counter, time_ns));
        }
    }

    /// When the counter stood at `counter`; `None` if nothing is known of it.
    pub(crate) fn time_ns(&self, counter: u64) -> Option<u64> {
        let next = self.points.partition_point(|point| point.0 <= counter);
        let time = match (self.points.get(next.wrapping_sub(1)), self.points.get(next)) {
            (Some(left), Some(right)) => along(*left, rate(*left, *right), counter),
            (Some(outer), None) | (None, Some(outer)) => along(*outer, self.usual_rate()?, counter),
            (None, None) => return None,
        };
        Some(time.clamp(1, i128::from(i64::MAX)) as u64)
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
fn rate(left: (u64, u64), right: (u64, u64)) -> (i128, i128) {
    (i128::from(right.1 - left.1), i128::from(right.0 - left.0))
}

fn along(from: (u64, u64), (ns, counts): (i128, i128), counter: u64) -> i128 {
    i128::from(from.1) + (i128::from(counter) - i128::from(from.0)).saturating_mul(ns) / counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_moment_and_the_frequency_are_enough() {
        let mut clock = DeviceClock::default();
        assert_eq!(clock.time_ns(5), None);
        clock.see(1000, 10_000_000, 50_000);
        assert_eq!((clock.time_ns(1050), clock.time_ns(950)), (Some(10_001_000), Some(9_999_000)));
    }

    #[test]
    fn between_two_moments_the_measured_rate_counts_and_beyond_them_the_told_one() {
        let mut clock = DeviceClock::default();
        clock.see(0, 1_000_000, 1000);
        clock.see(1000, 3_000_000, 1000);
        assert_eq!((clock.time_ns(500), clock.time_ns(2000)), (Some(2_000_000), Some(4_000_000)));
    }

    #[test]
    fn a_device_that_tells_no_frequency_is_measured() {
        let mut clock = DeviceClock::default();
        clock.see(0, 1_000_000, 0);
        assert_eq!(clock.time_ns(10), None);
        clock.see(1000, 2_000_000, 0);
        assert_eq!(clock.time_ns(3000), Some(4_000_000));
    }

    proptest! {
        #[test]
        fn never_runs_backwards_between_moments(
            points in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..20),
            mut counters in proptest::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut clock = DeviceClock::default();
            points.iter().for_each(|(counter, time, khz)| clock.see(*counter, *time, *khz));
            counters.sort_unstable();
            let times: Vec<Option<u64>> = counters.iter().map(|counter| clock.time_ns(*counter)).collect();
            prop_assert!(times.is_sorted());
        }
    }
}

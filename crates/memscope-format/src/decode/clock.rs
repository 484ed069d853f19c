//! Ticks to wall clock time.
use crate::record::TimestampNs;

/// A piecewise linear map through all calibrations of a process, extended past both ends by the nearest slope.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Strictly increasing in both members: ticks and monotonic nanoseconds.
    points: Vec<(u64, u64)>,
    /// What to add to a monotonic time to get the wall clock.
    epoch_offset: i128,
}

/// A part of a [`Timeline`] between two calibrations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stretch {
    start: u64,
    /// How long it is; 0 before the first.
    ticks: u64,
    ns: u64,
    /// The time at its start.
    time: TimestampNs,
}

impl Timeline {
    /// `start` is the process header's moment; `calibrations` may come in any order and may be nonsense.
    pub(super) fn new(
        start: (u64, u64),
        start_time: TimestampNs,
        calibrations: impl IntoIterator<Item = (u64, u64)>,
    ) -> Timeline {
        // Two readings closer than this say more about the reading than about the rate.
        const NEAREST_NS: u64 = 20_000;
        let mut all: Vec<(u64, u64)> = calibrations.into_iter().filter(|point| *point > start).collect();
        all.sort_unstable();
        let mut points = vec![start];
        for (ticks, ns) in all {
            let (last_ticks, last_ns) = points[points.len() - 1];
            if ticks > last_ticks && ns.checked_sub(last_ns).is_some_and(|gap| gap >= NEAREST_NS) {
                points.push((ticks, ns));
            }
        }
        Timeline { points, epoch_offset: i128::from(start_time.0) - i128::from(start.1) }
    }

    /// The wall clock time at these ticks, within 1 (0 means "no time" to consumers) and what SQLite can hold.
    pub fn time(&self, ticks: u64) -> TimestampNs {
        let next = self.points.partition_point(|point| point.0 <= ticks);
        let monotonic = match (self.points.len(), next) {
            // A single moment: count ticks as nanoseconds rather than invent a rate.
            (1, _) => i128::from(self.points[0].1) + (i128::from(ticks) - i128::from(self.points[0].0)),
            (count, next) => {
                let right = next.clamp(1, count - 1);
                let (t0, n0) = self.points[right - 1];
                let (t1, n1) = self.points[right];
                i128::from(n0)
                    + (i128::from(ticks) - i128::from(t0)).saturating_mul(i128::from(n1 - n0)) / i128::from(t1 - t0)
            }
        };
        TimestampNs(monotonic.saturating_add(self.epoch_offset).clamp(1, i128::from(i64::MAX)) as u64)
    }

    /// The same as [`Timeline::time`], quicker for ticks near those asked for last: `stretch` keeps what they share.
    #[inline]
    pub fn time_near(&self, ticks: u64, stretch: &mut Stretch) -> TimestampNs {
        let past = ticks.wrapping_sub(stretch.start);
        if past >= stretch.ticks {
            return self.time_far(ticks, stretch);
        }
        TimestampNs(stretch.time.0 + past * stretch.ns / stretch.ticks)
    }

    #[cold]
    fn time_far(&self, ticks: u64, stretch: &mut Stretch) -> TimestampNs {
        let next = self.points.partition_point(|point| point.0 <= ticks);
        if let (Some((t0, n0)), Some((t1, n1))) = (next.checked_sub(1).map(|at| self.points[at]), self.points.get(next))
            && let Some(epoch_ns) = u64::try_from(i128::from(n0) + self.epoch_offset).ok().filter(|ns| *ns > 0)
        {
            let (ticks, ns) = (t1 - t0, n1 - n0);
            // So that neither product nor sum can be too large.
            if ticks < 1 << 32 && ns < 1 << 32 && epoch_ns < (i64::MAX as u64) >> 1 {
                *stretch = Stretch { start: t0, ticks, time: TimestampNs(epoch_ns), ns };
            }
        }
        self.time(ticks)
    }

    /// The ticks at a wall clock time: the inverse of [`Timeline::time`], within a tick.
    pub fn ticks(&self, time: TimestampNs) -> u64 {
        let monotonic = i128::from(time.0) - self.epoch_offset;
        let next = self.points.partition_point(|point| i128::from(point.1) <= monotonic);
        let ticks = match (self.points.len(), next) {
            (1, _) => i128::from(self.points[0].0) + (monotonic - i128::from(self.points[0].1)),
            (count, next) => {
                let right = next.clamp(1, count - 1);
                let (t0, n0) = self.points[right - 1];
                let (t1, n1) = self.points[right];
                i128::from(t0) + (monotonic - i128::from(n0)).saturating_mul(i128::from(t1 - t0)) / i128::from(n1 - n0)
            }
        };
        ticks.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interpolates_between_and_extrapolates_beyond_calibrations() {
        let line = Timeline::new((1000, 5_000_000), TimestampNs(100_000_000), [(3000, 7_000_000), (2000, 6_000_000)]);
        assert_eq!(line.time(1000), TimestampNs(100_000_000));
        assert_eq!(line.time(1500), TimestampNs(100_500_000));
        assert_eq!(line.time(4000), TimestampNs(103_000_000));
        assert_eq!(line.time(500), TimestampNs(99_500_000));
        for ticks in [500, 1000, 1500, 2000, 2999, 3000, 4000] {
            assert_eq!(line.ticks(line.time(ticks)), ticks);
        }
    }

    proptest! {
        #[test]
        fn never_runs_backwards_whatever_the_calibrations(
            start in any::<(u64, u64)>(), real in any::<u64>(),
            points in proptest::collection::vec(any::<(u64, u64)>(), 0..20),
            mut ticks in proptest::collection::vec(any::<u64>(), 0..50),
        ) {
            let line = Timeline::new(start, TimestampNs(real), points);
            ticks.sort_unstable();
            let times: Vec<TimestampNs> = ticks.iter().map(|t| line.time(*t)).collect();
            prop_assert!(times.is_sorted());
            let mut stretch = Stretch::default();
            let near: Vec<TimestampNs> = ticks.iter().map(|t| line.time_near(*t, &mut stretch)).collect();
            prop_assert_eq!(&near, &times);
            let back: Vec<u64> = times.iter().map(|time| line.ticks(*time)).collect();
            prop_assert!(back.is_sorted());
        }

        #[test]
        fn what_is_near_is_told_the_same(
            gaps in proptest::collection::vec((1u64..3_000_000_000, 20_000u64..3_000_000_000), 1..8),
            asked in proptest::collection::vec(0u64..20_000_000_000, 1..50),
        ) {
            let mut points = vec![(1_000_000, 5_000_000)];
            for (ticks, ns) in gaps {
                let (last_ticks, last_ns) = points[points.len() - 1];
                points.push((last_ticks + ticks, last_ns + ns));
            }
            let line = Timeline::new(points[0], TimestampNs(1_700_000_000_000_000_000), points[1..].iter().copied());
            let mut stretch = Stretch::default();
            for ticks in asked {
                prop_assert_eq!(line.time_near(ticks, &mut stretch), line.time(ticks));
            }
        }
    }
}

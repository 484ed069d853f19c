//! How much was in use over time, in a bounded number of points however long the trace is.
use memscope_model::TimestampNs;

/// Most points a series has; half as many at least once it was full.
const MOST_POINTS: usize = 128;
/// How much time a point stands for at first: about a millisecond.
const FIRST_WIDTH_NS: u64 = 1 << 20;

/// What was in use at most in one stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryPoint {
    /// When the stretch begins.
    pub time: TimestampNs,
    pub most_bytes: u64,
}

/// Adds up to constant time an event: when it is full, neighbours are joined and stretches are twice as long.
#[derive(Clone, Debug)]
pub(super) struct Series {
    start: TimestampNs,
    width_ns: u64,
    most: Vec<u64>,
    now: u64,
}

impl Series {
    pub(super) fn new(start: TimestampNs) -> Series {
        Series { start, width_ns: FIRST_WIDTH_NS, most: vec![0], now: 0 }
    }

    pub(super) fn start(&self) -> TimestampNs {
        self.start
    }

    /// So much is in use from this moment on.
    #[inline]
    pub(super) fn see(&mut self, time: TimestampNs, bytes: u64) {
        let stretch = time.since(self.start) / self.width_ns;
        if stretch + 1 != self.most.len() as u64 {
            self.go_on_to(time);
        }
        self.now = bytes;
        if let Some(most) = self.most.last_mut() {
            *most = (*most).max(bytes);
        }
    }

    #[cold]
    fn go_on_to(&mut self, time: TimestampNs) {
        while time.since(self.start) / self.width_ns >= MOST_POINTS as u64 {
            let joined = self.most.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            self.most = joined;
            self.width_ns = self.width_ns.saturating_mul(2);
        }
        let stretch = (time.since(self.start) / self.width_ns) as usize;
        // What is in use goes on being in use while nothing happens.
        while self.most.len() <= stretch {
            self.most.push(self.now);
        }
    }

    /// The series up to a moment, which is not before its newest.
    pub(super) fn points(&self, until: TimestampNs) -> Vec<HistoryPoint> {
        let mut series = self.clone();
        series.see(until, self.now);
        let starts = (0u64..).map(|stretch| series.start.later_by(stretch.saturating_mul(series.width_ns)));
        starts.zip(&series.most).map(|(time, most)| HistoryPoint { time, most_bytes: *most }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each point is the most that was in use in its stretch, and stretches are as long as they must be.
        #[test]
        fn points_are_the_most_of_their_stretch(
            events in proptest::collection::vec((0u64..1 << 30, 0u64..1000), 1..200),
            rest in 0u64..1 << 32,
        ) {
            let start = TimestampNs(1_000_000_007);
            let mut series = Series::new(start);
            let mut time = start;
            let mut happened = vec![(start, 0)];
            for (wait, bytes) in events {
                time = time.later_by(wait);
                series.see(time, bytes);
                happened.push((time, bytes));
            }
            let until = time.later_by(rest);
            let points = series.points(until);
            prop_assert!(points.len() <= MOST_POINTS);
            let width = if points.len() > 1 { points[1].time.since(points[0].time) } else { until.since(start) + 1 };
            prop_assert!(points.len() > MOST_POINTS / 2 || width == FIRST_WIDTH_NS || points.len() == 1);
            prop_assert_eq!(points[0].time, start);
            prop_assert!(points.last().unwrap().time <= until);
            prop_assert!(points.last().unwrap().time.later_by(width) > until);
            for point in points {
                let end = point.time.later_by(width);
                let before = happened.iter().rev().find(|(time, _)| *time <= point.time).map_or(0, |(_, bytes)| *bytes);
                let within = happened.iter().filter(|(time, _)| *time >= point.time && *time < end);
                let most = within.map(|(_, bytes)| *bytes).max().unwrap_or(0).max(before);
                prop_assert_eq!(point.most_bytes, most);
            }
        }
    }
}

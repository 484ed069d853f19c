//! A time of unknown length in a bounded number of equal pieces.
use memscope_model::TimestampNs;

/// At most so many: when time runs over the last, two become one. More than half of them are in use, once the time is long
/// enough for that.
pub(crate) const MOST_BINS: usize = 64;
/// The least that is told apart.
const FIRST_WIDTH: u32 = 10;

/// Where the pieces are. All series of a trace share one, so that they can be laid beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TimeBins {
    origin: Option<TimestampNs>,
    /// Doublings of the first width.
    widened: u32,
}

impl TimeBins {
    /// Makes room for a time; says how often two pieces have to become one.
    #[inline]
    pub(crate) fn make_room(&mut self, time: TimestampNs) -> u32 {
        let origin = *self.origin.get_or_insert(time);
        let before = self.widened;
        while time.since(origin) >> (FIRST_WIDTH + self.widened) >= MOST_BINS as u64 {
            self.widened += 1;
        }
        self.widened - before
    }

    /// The piece a time lies in; of times before the first, that is the first.
    #[inline]
    pub(crate) fn place(&self, time: TimestampNs) -> usize {
        let origin = self.origin.unwrap_or(time);
        if time <= origin { 0 } else { (time.since(origin) >> (FIRST_WIDTH + self.widened)) as usize }
    }

    pub(crate) fn origin(&self) -> Option<TimestampNs> {
        self.origin
    }

    pub(crate) fn width_ns(&self) -> u64 {
        1 << (FIRST_WIDTH + self.widened)
    }
}

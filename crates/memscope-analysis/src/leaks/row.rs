//! What a source of memory held when each step ended, in a row that does not grow with the steps.
//!
//! Moments are numbered from 0 as they pass: ends of steps, or ends of equal parts of the time. A row has an entry only where
//! something changed. When there are more moments than a row may have places, places are joined by twos, in all rows at
//! once ([`Scale`]): a place then stands for several moments, and holds the least of them, since what leaks is never less.

/// How many moments a place stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Scale {
    /// A place is so many powers of two of moments wide.
    shift: u32,
    most_places: u32,
}

impl Scale {
    pub(super) fn new(most_places: u32) -> Scale {
        Scale { shift: 0, most_places }
    }

    #[inline]
    pub(super) fn place(self, moment: u32) -> u32 {
        moment >> self.shift
    }

    /// How many places there are of the first `moments` of `all`. A place that has others of them, too, is none.
    pub(super) fn places(self, moments: u32, all: u32) -> usize {
        let whole = if moments < all { moments >> self.shift } else { moments.div_ceil(self.width()) };
        whole as usize
    }

    /// Moments of a place.
    pub(super) fn width(self) -> u32 {
        1 << self.shift
    }

    /// Whether places must be joined before there can be so many moments.
    #[inline]
    pub(super) fn is_full(self, moments: u32) -> bool {
        moments.checked_sub(1).is_some_and(|last| self.place(last) >= self.most_places)
    }

    /// Places are twice as wide from now on; rows have to be [`LiveRow::join`]ed.
    pub(super) fn widen(&mut self) {
        self.shift += 1;
    }
}

/// Bytes alive at moments.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveRow {
    /// By place, those in which something changed.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    place: u32,
    /// The least of the place's moments so far.
    least: u64,
    /// At the last of them, and at all moments up to the next entry.
    last: u64,
}

impl LiveRow {
    /// At the moments from `first` to the one before `end` so many bytes were alive. Moments are told in their order,
    /// without gaps.
    pub(super) fn hold(&mut self, first: u32, end: u32, bytes: u64, scale: Scale) {
        if first >= end {
            return;
        }
        let place = scale.place(first);
        let before = self.entries.last().map_or(0, |entry| entry.last);
        match self.entries.last_mut() {
            Some(entry) if entry.place == place => {
                entry.least = entry.least.min(bytes);
                entry.last = bytes;
            }
            _ if before == bytes => {}
            _ => {
                let is_first_of_place = first & (scale.width() - 1) == 0;
                let least = if is_first_of_place { bytes } else { bytes.min(before) };
                self.entries.push(Entry { place, least, last: bytes });
            }
        }
    }

    /// At how many places something changed.
    pub(super) fn changes(&self) -> usize {
        self.entries.len()
    }

    /// Joins places by twos.
    pub(super) fn join(&mut self) {
        let mut joined: Vec<Entry> = Vec::with_capacity(self.entries.len().div_ceil(2));
        let mut before = 0;
        let mut entries = self.entries.iter().peekable();
        while let Some(first) = entries.next() {
            let mut entry = Entry { place: first.place / 2, ..*first };
            if first.place % 2 == 1 {
                entry.least = entry.least.min(before);
            } else if let Some(second) = entries.next_if(|second| second.place == first.place + 1) {
                entry.least = entry.least.min(second.least);
                entry.last = second.last;
            }
            before = entry.last;
            joined.push(entry);
        }
        self.entries = joined;
    }

    /// Adds what was alive at each place, the first ones of all.
    pub(super) fn add_to(&self, places: &mut [u64]) {
        let mut entries = self.entries.iter().peekable();
        let mut last = 0;
        for (place, sum) in (0u32..).zip(places) {
            let bytes = match entries.next_if(|entry| entry.place == place) {
                Some(entry) => {
                    last = entry.last;
                    entry.least
                }
                None => last,
            };
            *sum = sum.saturating_add(bytes);
        }
    }
}

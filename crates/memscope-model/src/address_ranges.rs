//! A set of addresses, kept as ranges.
use memscope_format::record::HostAddr;
use std::collections::BTreeMap;

/// Ranges that neither overlap nor touch.
#[derive(Clone, Default, Debug)]
pub(crate) struct AddressRanges {
    /// Ends by start.
    ranges: BTreeMap<HostAddr, HostAddr>,
    bytes: u64,
    most_bytes: u64,
}

impl AddressRanges {
    pub(crate) fn insert(&mut self, start: HostAddr, end: HostAddr) {
        let (mut first, mut last) = (start, end);
        // Those that overlap the new one or touch it become part of it.
        while let Some((&known_start, &known_end)) = self.ranges.range(..=last).next_back()
            && known_end >= first
        {
            self.ranges.remove(&known_start);
            self.bytes -= known_end - known_start;
            (first, last) = (first.min(known_start), last.max(known_end));
        }
        self.ranges.insert(first, last);
        self.bytes += last - first;
        self.most_bytes = self.most_bytes.max(self.bytes);
    }

    /// Takes out what lies in `start..end`, and returns it in ascending order.
    pub(crate) fn remove(&mut self, start: HostAddr, end: HostAddr) -> Vec<(HostAddr, HostAddr)> {
        let mut removed = Vec::new();
        while let Some((&known_start, &known_end)) = self.ranges.range(..end).next_back()
            && known_end > start
        {
            self.ranges.remove(&known_start);
            if known_end > end {
                self.ranges.insert(end, known_end);
            }
            if known_start < start {
                self.ranges.insert(known_start, start);
            }
            removed.push((known_start.max(start), known_end.min(end)));
        }
        self.bytes -= removed.iter().map(|(start, end)| *end - *start).sum::<u64>();
        removed.reverse();
        removed
    }

    pub(crate) fn contains(&self, address: HostAddr) -> bool {
        self.ranges.range(..=address).next_back().is_some_and(|(_, end)| *end > address)
    }

    /// Bytes in the set, now and at most so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.most_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_single_addresses(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 1u64..20), 0..80),
        ) {
            let mut ranges = AddressRanges::default();
            let mut simple: BTreeSet<u64> = BTreeSet::new();
            let mut most = 0;
            for (insert, start, length) in steps {
                let touched: Vec<u64> = (start..start + length).collect();
                if insert {
                    ranges.insert(HostAddr(start), HostAddr(start + length));
                    simple.extend(&touched);
                } else {
                    let removed = ranges.remove(HostAddr(start), HostAddr(start + length));
                    let removed: Vec<u64> = removed.into_iter().flat_map(|(start, end)| start.0..end.0).collect();
                    let expected: Vec<u64> = touched.into_iter().filter(|address| simple.remove(address)).collect();
                    prop_assert_eq!(removed, expected);
                }
                most = most.max(simple.len() as u64);
                prop_assert_eq!(ranges.bytes(), (simple.len() as u64, most));
                prop_assert!((0..90).all(|address| ranges.contains(HostAddr(address)) == simple.contains(&address)));
                let known: Vec<(HostAddr, HostAddr)> = ranges.ranges.iter().map(|(start, end)| (*start, *end)).collect();
                prop_assert!(known.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?} touch", known);
            }
        }
    }
}

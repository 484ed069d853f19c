//! Which entries of two sequences belong together.
use super::search::{Limits, Search};
use rustc_hash::FxHashSet;

/// Entries that belong together: `length` of them from these two places on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub base: usize,
    pub compared: usize,
    pub length: usize,
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aligned {
    Both { base: usize, compared: usize },
    BaseOnly(usize),
    ComparedOnly(usize),
}

/// Entries of two sequences that belong together, in the order of both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alignment {
    runs: Vec<Run>,
    lengths: (usize, usize),
}

impl Alignment {
    /// Entries are the same if their numbers are. The same two sequences are always aligned in the same way.
    pub fn of(base: &[u32], compared: &[u32]) -> Alignment {
        Alignment::within(base, compared, &Limits::default())
    }

    fn within(base: &[u32], compared: &[u32], limits: &Limits) -> Alignment {
        let mut found = Found::default();
        let same = |(one, other): &(&u32, &u32)| one == other;
        let prefix = base.iter().zip(compared).take_while(same).count();
        let suffix = base[prefix..].iter().rev().zip(compared[prefix..].iter().rev()).take_while(same).count();
        found.add(0, 0, prefix);
        let (base_end, compared_end) = (base.len() - suffix, compared.len() - suffix);
        let (left, right) = (&base[prefix..base_end], &compared[prefix..compared_end]);
        let (left, right) = (Shared::of(left, right), Shared::of(right, left));
        Search::new(limits).align(&left.numbers, &right.numbers, &mut |x, y, length| {
            for at in 0..length {
                found.add(prefix + left.places[x + at] as usize, prefix + right.places[y + at] as usize, 1);
            }
        });
        found.add(base_end, compared_end, suffix);
        Alignment { runs: found.runs, lengths: (base.len(), compared.len()) }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many entries have a partner.
    pub fn matched(&self) -> usize {
        self.runs.iter().map(|run| run.length).sum()
    }

    /// All entries of both, in order: where they differ, first those of the base.
    pub fn entries(&self) -> impl Iterator<Item = Aligned> + '_ {
        let end = Run { base: self.lengths.0, compared: self.lengths.1, length: 0 };
        let mut from = (0, 0);
        self.runs.iter().copied().chain([end]).flat_map(move |run| {
            let (base, compared) = from;
            from = (run.base + run.length, run.compared + run.length);
            let together =
                (0..run.length).map(move |at| Aligned::Both { base: run.base + at, compared: run.compared + at });
            (base..run.base)
                .map(Aligned::BaseOnly)
                .chain((compared..run.compared).map(Aligned::ComparedOnly))
                .chain(together)
        })
    }
}

/// Runs that follow each other are one.
#[derive(Default)]
struct Found {
    runs: Vec<Run>,
}

impl Found {
    fn add(&mut self, base: usize, compared: usize, length: usize) {
        match self.runs.last_mut() {
            _ if length == 0 => {}
            Some(last) if (last.base + last.length, last.compared + last.length) == (base, compared) => {
                last.length += length;
            }
            _ => self.runs.push(Run { base, compared, length }),
        }
    }
}

/// The entries of a sequence that the other has, too, somewhere, and where they were.
struct Shared {
    numbers: Vec<u32>,
    places: Vec<u32>,
}

impl Shared {
    fn of(sequence: &[u32], other: &[u32]) -> Shared {
        let known: FxHashSet<u32> = other.iter().copied().collect();
        let kept = sequence.iter().zip(0..).filter(|(number, _)| known.contains(number));
        let (numbers, places) = kept.map(|(number, place)| (*number, place)).unzip();
        Shared { numbers, places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letters(text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }

    /// Both sequences in one line: what only the base has as `-x`, what only the other has as `+x`.
    fn told(base: &str, compared: &str) -> String {
        let (left, right) = (letters(base), letters(compared));
        let letter = |number: u32| char::from_u32(number).unwrap();
        Alignment::of(&left, &right)
            .entries()
            .map(|entry| match entry {
                Aligned::Both { base, compared } => {
                    assert_eq!(left[base], right[compared]);
                    letter(left[base]).to_string()
                }
                Aligned::BaseOnly(at) => format!("-{}", letter(left[at])),
                Aligned::ComparedOnly(at) => format!("+{}", letter(right[at])),
            })
            .collect()
    }

    #[test]
    fn what_is_the_same_stays_together() {
        assert_eq!(told("", ""), "");
        assert_eq!(told("abc", "abc"), "abc");
        assert_eq!(told("abc", ""), "-a-b-c");
        assert_eq!(told("", "abc"), "+a+b+c");
        assert_eq!(told("abc", "axc"), "a-b+xc");
        assert_eq!(told("abcabc", "abcxabc"), "abc+xabc");
        assert_eq!(told("abcd", "acbd"), "a-bc+bd");
        assert_eq!(told("abc", "xyz"), "-a-b-c+x+y+z");
    }

    #[test]
    fn a_long_piece_that_only_one_has_is_passed_over() {
        let step = |number: u32| (0..200).map(move |at| at + 1000 * number);
        let steps = |numbers: &[u32]| -> Vec<u32> { numbers.iter().flat_map(|number| step(*number)).collect() };
        // An evaluation of the same operators in another order, much longer than a window sees.
        let evaluation: Vec<u32> = (0..40_000u32).map(|at| at.wrapping_mul(7919) % 200).collect();
        let base = steps(&[0, 0, 0, 1, 2, 3, 0, 0]);
        let compared = [&base[..600], &evaluation, &base[600..]].concat();
        let alignment = Alignment::of(&base, &compared);
        assert_eq!(alignment.matched(), base.len());
        // Periodic, so that no entry is unique.
        let base = steps(&[0; 40]);
        let compared = [&base[..600], &vec![199; 30_000], &base[600..]].concat();
        assert!(Alignment::of(&base, &compared).matched() >= base.len() - 200);
    }

    fn longest_common(base: &[u32], compared: &[u32]) -> usize {
        let mut row = vec![0; compared.len() + 1];
        for one in base {
            let mut diagonal = 0;
            for (at, other) in compared.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if one == other { diagonal + 1 } else { above.max(row[at]) };
                diagonal = above;
            }
        }
        row[compared.len()]
    }

    fn is_valid(alignment: &Alignment, base: &[u32], compared: &[u32]) {
        let mut from = (0, 0);
        for run in &alignment.runs {
            assert!(run.length > 0 && run.base >= from.0 && run.compared >= from.1);
            from = (run.base + run.length, run.compared + run.length);
            assert_eq!(base[run.base..from.0], compared[run.compared..from.1]);
        }
        let mut places = (0, 0);
        for entry in alignment.entries() {
            let (base, compared) = match entry {
                Aligned::Both { base, compared } => (Some(base), Some(compared)),
                Aligned::BaseOnly(base) => (Some(base), None),
                Aligned::ComparedOnly(compared) => (None, Some(compared)),
            };
            for (place, told) in [(&mut places.0, base), (&mut places.1, compared)] {
                if let Some(told) = told {
                    assert_eq!(told, *place);
                    *place += 1;
                }
            }
        }
        assert_eq!(places, (base.len(), compared.len()));
    }

    fn sequence(names: u32) -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::vec(0..names, 0..120)
    }

    proptest! {
        #[test]
        fn nothing_better_exists_where_a_window_is_enough(base in sequence(6), compared in sequence(6)) {
            let alignment = Alignment::of(&base, &compared);
            is_valid(&alignment, &base, &compared);
            prop_assert_eq!(alignment.matched(), longest_common(&base, &compared));
        }

        #[test]
        fn any_alignment_is_valid_and_keeps_what_is_plainly_the_same(
            base in sequence(5),
            compared in sequence(7),
            both in sequence(9),
            edits in 1usize..9,
            run in 1usize..5,
        ) {
            let limits = Limits { edits, run };
            let (base, compared) = ([&both[..], &base, &both].concat(), [&both[..], &compared, &both].concat());
            let alignment = Alignment::within(&base, &compared, &limits);
            is_valid(&alignment, &base, &compared);
            prop_assert!(alignment.matched() >= 2 * both.len());
            prop_assert_eq!(alignment, Alignment::within(&base, &compared, &limits));
        }
    }
}

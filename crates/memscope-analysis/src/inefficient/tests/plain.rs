//! All rules against a model too simple to be wrong.
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What the definitions say, by looking at everything.
#[derive(Default)]
struct Plain {
    found: BTreeSet<(u64, &'static str)>,
    byte_operators: u64,
    at_peak: u64,
}

struct Seen {
    step: Do,
    unit: u64,
    /// What it is done on; of the memory for what is freed.
    stream: Option<u64>,
    /// Freed memory that two streams used.
    is_shared: bool,
    /// Outermost operator that begins here.
    begins: bool,
    used: u64,
    block: Option<u64>,
}

/// The streams that are known of a block's allocation and uses.
fn streams_of(seen: &[Seen], block: u64) -> Vec<u64> {
    let of_block = seen.iter().filter(|event| event.block == Some(block) && !matches!(event.step, Free(..)));
    let mut streams: Vec<u64> = Vec::new();
    for stream in of_block.filter_map(|event| event.stream) {
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }
    streams
}

fn plain(steps: &[Do], idle_threshold: u64) -> Plain {
    let mut seen: Vec<Seen> = Vec::new();
    // Thread, unit, and the streams of its operators.
    let mut open: Vec<(u32, u64, Vec<Option<u64>>)> = Vec::new();
    let mut slots: Vec<(u64, u64, u64)> = Vec::new();
    let mut current = [0u64; 3];
    let (mut units, mut blocks) = (0, 0);
    for step in steps {
        if let On(thread, stream) = *step {
            current[thread as usize] = stream;
            continue;
        }
        let (On(thread, _)
        | Start(thread, _)
        | End(thread, _)
        | Malloc(thread, ..)
        | Free(thread, _)
        | Use(thread, ..)) = *step;
        let place = open.iter().position(|(of, ..)| *of == thread);
        let begins = matches!(step, Start(..)) && place.is_none();
        if place.is_none() {
            units += 1;
        }
        let unit = place.map_or(units, |place| open[place].1);
        let own = Some(current[thread as usize]).filter(|stream| *stream != 0);
        let mut stream = place.and_then(|place| open[place].2.iter().rev().flatten().next().copied());
        match (step, place) {
            (Start(..), None) => {
                open.push((thread, unit, vec![own]));
                stream = own;
            }
            (Start(..), Some(place)) => open[place].2.push(own),
            (End(..), Some(place)) => {
                open[place].2.pop();
                if open[place].2.is_empty() {
                    open.remove(place);
                }
            }
            _ => {}
        }
        let block = match *step {
            Malloc(_, slot, size) => {
                blocks += 1;
                slots.push((slot, blocks, size));
                Some(blocks)
            }
            Free(_, slot) => {
                let place = slots.iter().position(|(of, ..)| *of == slot).unwrap();
                Some(slots.remove(place).1)
            }
            Use(_, slot, _) => Some(slots.iter().find(|(of, ..)| *of == slot).unwrap().1),
            _ => None,
        };
        let mut is_shared = false;
        if let (Free(..), Some(block)) = (step, block) {
            let streams = streams_of(&seen, block);
            is_shared = streams.len() > 1;
            stream = streams.first().copied().or(stream);
        }
        let used = slots.iter().map(|(_, _, size)| size).sum();
        seen.push(Seen { step: *step, unit, stream, is_shared, begins, used, block });
    }
    let is_malloc = |seen: &Seen| matches!(seen.step, Malloc(..));
    let is_free = |seen: &Seen| matches!(seen.step, Free(..)) && !seen.is_shared;
    let top = seen.iter().filter(|event| is_malloc(event)).map(|event| event.used).max().unwrap_or(0);
    let peak = seen.iter().position(|event| is_malloc(event) && event.used == top);
    let mut plain = Plain::default();
    for block in 1..=blocks {
        let of_block: Vec<usize> = (0..seen.len()).filter(|at| seen[*at].block == Some(block)).collect();
        let Malloc(_, _, size) = seen[of_block[0]].step else { unreachable!() };
        for pair in of_block.windows(2) {
            let [from, to] = *pair else { unreachable!() };
            let neither = [seen[from].unit, seen[to].unit];
            let (before, now) = (streams_of(&seen[..=from], block), streams_of(&seen[..=to], block));
            if now.len() > 1 {
                continue;
            }
            let may_be =
                |stream: Option<u64>, of: &[u64]| stream.is_none() || of.is_empty() || of.first().copied() == stream;
            let others = |is: fn(&Seen) -> bool| {
                let fits = |event: &&Seen| !neither.contains(&event.unit) && may_be(event.stream, &now);
                seen[from + 1..to].iter().filter(fits).any(is)
            };
            // Where the stream was not known before, whatever began counts.
            let begun = seen[from + 1..to].iter().filter(|event| event.begins && !neither.contains(&event.unit));
            let begun = begun.filter(|event| may_be(event.stream, &before)).count() as u64;
            let apart = neither[0] != neither[1];
            let operators = if apart { begun } else { 0 };
            let kind = match (seen[from].step, seen[to].step) {
                (Malloc(..), Use(..)) if apart && others(is_free) => EARLY,
                (Use(..), Free(..)) if apart && others(is_malloc) => LATE,
                (Use(..), Use(..)) if operators > idle_threshold => IDLE,
                _ => continue,
            };
            plain.found.insert((block, kind));
            plain.byte_operators += size * operators;
            if peak.is_some_and(|peak| (from..to).contains(&peak)) {
                plain.at_peak += size;
            }
        }
    }
    plain
}

/// A program that does only what programs can do, from any numbers.
fn program(choices: &[(u8, u32, u64, u64)]) -> Vec<Do> {
    let mut steps = Vec::new();
    let mut depths = [0usize; 3];
    let mut live: Vec<u64> = Vec::new();
    let mut slots = 0;
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for &(what, thread, number, size) in choices {
        let depth = &mut depths[thread as usize];
        match what {
            0..=2 if *depth < NAMES.len() => {
                steps.push(Start(thread, NAMES[*depth]));
                *depth += 1;
            }
            3..=6 if *depth > 0 => {
                *depth -= 1;
                steps.push(End(thread, NAMES[*depth]));
            }
            7..=8 => {
                slots += 1;
                live.push(slots);
                steps.push(Malloc(thread, slots, size));
            }
            9 if !live.is_empty() => {
                steps.push(Free(thread, live.remove(number as usize % live.len())));
            }
            10..=12 if !live.is_empty() => steps.push(Use(thread, live[number as usize % live.len()], 0)),
            13 => steps.push(On(thread, number % 3)),
            _ => {}
        }
    }
    steps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(512)))]

    #[test]
    fn agrees_with_the_definitions_looked_up_one_by_one(
        choices in proptest::collection::vec((0u8..14, 0u32..3, any::<u64>(), 1u64..50), 0..120),
        idle_threshold in 1u64..6,
    ) {
        let steps = program(&choices);
        let plain = plain(&steps, idle_threshold);
        let mut played = Played::new(InefficiencySettings { idle_threshold, ..InefficiencySettings::default() });
        played.play(&steps);
        let report = played.tally.report();
        let found: BTreeSet<(u64, &str)> =
            played.found().into_iter().flat_map(|(block, words)| words.into_iter().map(move |word| (block, word))).collect();
        prop_assert_eq!(&found, &plain.found);
        prop_assert_eq!(report.findings.iter().map(|found| found.byte_operators).sum::<u64>(), plain.byte_operators);
        prop_assert_eq!(report.findings.iter().map(|found| found.bytes_at_peak).sum::<u64>(), plain.at_peak);
        prop_assert_eq!(report.pools.iter().map(|pool| pool.bytes_at_peak).sum::<u64>(), plain.at_peak);
        prop_assert_eq!(report.findings.iter().map(|found| found.blocks).sum::<u64>(), found.len() as u64);
        prop_assert!(report.findings.is_sorted_by_key(|found| Reverse(found.byte_operators)));
    }
}

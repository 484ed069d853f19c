use super::{record, replay};
use crate::{Action, BlockEvent, Origin};
use memscope_testkit::SpoolBuilder;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One step of a made-up program. Addresses are few, so that they meet often.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Alloc {
        slot: u64,
        size: u64,
        node: u32,
    },
    Free {
        slot: u64,
    },
    /// In pages.
    Map {
        page: u64,
        pages: u64,
    },
    Unmap {
        page: u64,
        pages: u64,
    },
    EndBlock,
}

pub(super) const LANES: usize = 4;
pub(super) const PAGE: u64 = 4096;
const PAGES: u64 = 40;

/// Lane, ticks since the step before, step.
pub(super) fn steps(most: usize) -> impl Strategy<Value = Vec<(usize, u64, Step)>> {
    let size = prop_oneof![0u64..200, 0u64..1 << 30];
    let step = prop_oneof![
        6 => (0u64..24, size, 0u32..8).prop_map(|(slot, size, node)| Step::Alloc { slot, size, node }),
        5 => (0u64..24).prop_map(|slot| Step::Free { slot }),
        2 => (0..PAGES, 1u64..8).prop_map(|(page, pages)| Step::Map { page, pages }),
        2 => (0..PAGES, 1u64..12).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        1 => Just(Step::EndBlock),
    ];
    proptest::collection::vec((0..LANES, prop_oneof![Just(0u64), 0u64..1 << 20], step), 0..most)
}

pub(super) fn build(steps: &[(usize, u64, Step)]) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    let lanes: Vec<_> = (0..LANES as u32).map(|thread| spool.lane(100 + thread)).collect();
    for lane in &lanes {
        // Only six of the eight nodes are defined.
        for node in 1..=5 {
            spool.unknown_node(*lane, node, node - 1, 0x1000 + u64::from(node));
        }
    }
    for ((lane, _, step), ticks) in steps.iter().zip(times(steps)) {
        let lane = lanes[*lane];
        match *step {
            Step::Alloc { slot, size, node } => spool.alloc(lane, ticks, slot << 4, size, node),
            Step::Free { slot } => spool.free(lane, ticks, slot << 4, 0),
            Step::Map { page, pages } => spool.map(lane, ticks, page * PAGE, pages * PAGE, 1),
            Step::Unmap { page, pages } => spool.unmap(lane, ticks, page * PAGE, pages * PAGE, 2),
            Step::EndBlock => spool.end_generation(lane),
        };
    }
    spool
}

/// What a heap event must be, by a model too simple to be wrong.
fn expected_heap(ordered: &[(u64, usize, Step)]) -> Vec<(Action, u64, u64, bool, bool)> {
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut expected = Vec::new();
    for (_, _, step) in ordered {
        match *step {
            Step::Alloc { slot, size, .. } => {
                if let Some(old) = live.insert(slot << 4, size) {
                    expected.push((Action::Free, slot << 4, old, true, true));
                }
                expected.push((Action::Malloc, slot << 4, size, true, false));
            }
            Step::Free { slot } => match live.remove(&(slot << 4)) {
                Some(size) => expected.push((Action::Free, slot << 4, size, true, false)),
                None => expected.push((Action::Free, slot << 4, 0, false, false)),
            },
            _ => {}
        }
    }
    expected
}

/// Which pages are mapped at the end.
fn expected_pages(ordered: &[(u64, usize, Step)]) -> Vec<u64> {
    let mut mapped = std::collections::BTreeSet::new();
    for (_, _, step) in ordered {
        match *step {
            Step::Map { page, pages } => mapped.extend(page..page + pages),
            Step::Unmap { page, pages } => mapped.retain(|at| !(page..page + pages).contains(at)),
            _ => {}
        }
    }
    mapped.into_iter().collect()
}

/// When each step happens. Steps of one lane may share a moment; those of different lanes are further apart than events
/// that are put right when they contradict each other.
fn times(steps: &[(usize, u64, Step)]) -> Vec<u64> {
    const APART: u64 = 100_000;
    let mut ticks = 0;
    let mut previous = None;
    let times = steps.iter().map(|(lane, wait, _)| {
        let together = *wait == 0 && previous == Some(*lane);
        previous = Some(*lane);
        ticks += if together { 0 } else { (wait + 1) * APART };
        ticks
    });
    times.collect()
}

/// The steps in the order of a replay: by time, then lane, then as written.
fn in_order(steps: &[(usize, u64, Step)]) -> Vec<(u64, usize, Step)> {
    let mut ordered: Vec<_> =
        steps.iter().zip(times(steps)).map(|((lane, _, step), ticks)| (ticks, *lane, *step)).collect();
    ordered.sort_by_key(|(ticks, lane, _)| (*ticks, *lane));
    ordered
}

fn heap(event: &BlockEvent) -> (Action, u64, u64, bool, bool) {
    (event.action, event.block.address, event.block.size, event.matched, event.synthetic)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(128)))]

    #[test]
    fn a_replay_agrees_with_a_simple_model(steps in steps(300)) {
        let (events, outcome) = replay(&mut record(&mut build(&steps)).process);
        prop_assert!(outcome.damage.is_empty(), "{:?}", outcome.damage);
        let ordered = in_order(&steps);
        let seen: Vec<_> = events.iter().filter(|event| event.block.origin == Origin::Heap).map(heap).collect();
        prop_assert_eq!(seen, expected_heap(&ordered));
        let mut pages: Vec<u64> = outcome
            .live_blocks()
            .filter(|block| block.origin == Origin::Mapping)
            .flat_map(|block| block.address / PAGE..(block.address + block.size) / PAGE)
            .collect();
        pages.sort_unstable();
        prop_assert_eq!(pages, expected_pages(&ordered));
        let unknown = steps.iter().filter(|(_, _, step)| matches!(step, Step::Alloc { node: 6.., .. })).count();
        prop_assert_eq!(outcome.events_without_stack, unknown as u64);
    }
}

#[test]
fn lanes_of_many_full_blocks_come_back_whole() {
    let mut spool = SpoolBuilder::new();
    let lanes = [spool.lane(1), spool.lane(2)];
    for number in 0..240_000u64 {
        spool.alloc(lanes[(number % 2) as usize], number * 3, number << 4, number % 100, 0);
    }
    assert!(spool.appended_bytes() > 2 << 18);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert!(outcome.damage.is_empty());
    assert!(events.iter().zip(0u64..).all(|(event, number)| event.block.address == number << 4));
    assert_eq!(events.len(), 240_000);
}

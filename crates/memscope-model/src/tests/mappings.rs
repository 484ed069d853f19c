//! Which part of the address space is memory.
use super::{record, replay};
use crate::{Action, BlockEvent, Origin};
use memscope_format::record::Protection;
use memscope_testkit::SpoolBuilder;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const PAGES: u64 = 40;

fn rows(events: &[BlockEvent]) -> Vec<(Action, u64, u64, bool)> {
    events
        .iter()
        .map(|event| (event.action, event.block.address / PAGE, event.block.size / PAGE, event.synthetic))
        .collect()
}

#[test]
fn reserved_address_space_is_no_memory_until_it_is_committed() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.unknown_node(lane, 1, 0, 0x10).unknown_node(lane, 2, 0, 0x20);
    spool.reserve(lane, 1, 100 * PAGE, 1000 * PAGE, 1);
    spool.protect(lane, 2, (110 * PAGE, 20 * PAGE), Protection::READ_WRITE, 2);
    // Usable already, in part.
    spool.protect(lane, 3, (120 * PAGE, 15 * PAGE), Protection(Protection::READ | Protection::EXECUTE), 1);
    spool.protect(lane, 4, (112 * PAGE, 2 * PAGE), Protection(Protection::NO_RESERVE), 1);
    spool.map(lane, 5, 500 * PAGE, 10 * PAGE, 2);
    spool.unmap(lane, 6, 100 * PAGE, 1000 * PAGE, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let (malloc, free) = (Action::Malloc, Action::Free);
    let expected = [
        (malloc, 110, 20, false),
        (malloc, 130, 5, false),
        (free, 110, 20, false),
        (malloc, 110, 2, true),
        (malloc, 114, 16, true),
        (malloc, 500, 10, false),
        (free, 500, 10, false),
        (free, 130, 5, false),
        (free, 114, 16, false),
        (free, 110, 2, false),
    ];
    assert_eq!(rows(&events), expected);
    assert_eq!(outcome.pools[0].peak_bytes, 33 * PAGE);
    assert_eq!((outcome.reserved_space, outcome.peak_reserved_space), (0, 1000 * PAGE));
    assert_eq!((outcome.unknown_unmaps, outcome.implausible_events), (0, 0));
    // Who committed it holds it.
    assert_eq!(events[0].at.stack, events[5].at.stack);
    assert_ne!(events[0].at.stack, events[1].at.stack);
}

#[test]
fn a_protection_of_memory_nobody_mapped_says_nothing() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    for protection in [Protection::NONE, Protection::READ_WRITE, Protection::NONE] {
        spool.protect(lane, 1, (100 * PAGE, 20 * PAGE), protection, 0);
    }
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((events.len(), outcome.peak_reserved_space, outcome.unknown_unmaps), (0, 0, 0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Map { page: u64, pages: u64, usable: bool },
    Protect { page: u64, pages: u64, usable: bool },
    Unmap { page: u64, pages: u64 },
    Remap { page: u64, pages: u64, new_page: u64, new_pages: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..PAGES, 1u64..12);
    let step = prop_oneof![
        (range(), any::<bool>()).prop_map(|((page, pages), usable)| Step::Map { page, pages, usable }),
        (range(), any::<bool>()).prop_map(|((page, pages), usable)| Step::Protect { page, pages, usable }),
        range().prop_map(|(page, pages)| Step::Unmap { page, pages }),
        (range(), range()).prop_map(|((page, pages), (new_page, new_pages))| Step::Remap {
            page,
            pages,
            new_page,
            new_pages
        }),
    ];
    proptest::collection::vec(step, 0..120)
}

/// A page table: whether a mapped page is usable.
type Pages = BTreeMap<u64, bool>;

/// Does what the kernel would; false if it would refuse.
fn apply(pages: &mut Pages, step: Step) -> bool {
    match step {
        Step::Map { page, pages: count, usable } => pages.extend((page..page + count).map(|page| (page, usable))),
        Step::Protect { page, pages: count, usable } => {
            pages.range_mut(page..page + count).for_each(|(_, state)| *state = usable);
        }
        Step::Unmap { page, pages: count } => pages.retain(|at, _| !(page..page + count).contains(at)),
        Step::Remap { page, pages: count, new_page, new_pages } => {
            // All of one kind; of files, which the table does not know, nothing is told.
            let states: Vec<Option<bool>> = (page..page + count).map(|at| pages.get(&at).copied()).collect();
            if states.iter().any(|state| *state != states[0]) {
                return false;
            }
            let Some(usable) = states[0] else { return true };
            pages.retain(|at, _| !(page..page + count).contains(at));
            pages.extend((new_page..new_page + new_pages).map(|page| (page, usable)));
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(256)))]

    #[test]
    fn mappings_agree_with_a_page_table(steps in steps()) {
        let mut spool = SpoolBuilder::new();
        let lane = spool.lane(7);
        let mut pages = Pages::new();
        let (mut peak, mut peak_reserved) = (0, 0);
        let count = |pages: &Pages, wanted: bool| pages.values().filter(|usable| **usable == wanted).count() as u64;
        for (ticks, step) in (1..).zip(steps) {
            if !apply(&mut pages, step) {
                continue;
            }
            match step {
                Step::Map { page, pages, usable: true } => spool.map(lane, ticks, page * PAGE, pages * PAGE, 0),
                Step::Map { page, pages, .. } => spool.reserve(lane, ticks, page * PAGE, pages * PAGE, 0),
                Step::Protect { page, pages, usable } => {
                    let protection = if usable { Protection::READ_WRITE } else { Protection::NONE };
                    spool.protect(lane, ticks, (page * PAGE, pages * PAGE), protection, 0)
                }
                Step::Unmap { page, pages } => spool.unmap(lane, ticks, page * PAGE, pages * PAGE, 0),
                Step::Remap { page, pages, new_page, new_pages } => {
                    let (old, new) = ((page * PAGE, pages * PAGE), (new_page * PAGE, new_pages * PAGE));
                    spool.remap(lane, ticks, old, new, 0)
                }
            };
            peak = peak.max(count(&pages, true));
            peak_reserved = peak_reserved.max(count(&pages, false));
        }
        let (_, outcome) = replay(&mut record(&mut spool).process);
        let mut usable: Vec<u64> = outcome
            .live_blocks()
            .inspect(|block| assert_eq!(block.origin, Origin::Mapping))
            .flat_map(|block| block.address / PAGE..(block.address + block.size) / PAGE)
            .collect();
        usable.sort_unstable();
        let expected: Vec<u64> = pages.iter().filter(|(_, usable)| **usable).map(|(page, _)| *page).collect();
        prop_assert_eq!(usable, expected);
        prop_assert_eq!(outcome.pools.first().map_or(0, |pool| pool.peak_bytes), peak * PAGE);
        prop_assert_eq!(outcome.reserved_space, count(&pages, false) * PAGE);
        prop_assert_eq!(outcome.peak_reserved_space, peak_reserved * PAGE);
    }
}

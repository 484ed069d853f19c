//! Behaviour of whole replays, over spools made with [`crate::testing`].
mod damage;
mod directories;
mod events;
mod properties;
mod stacks;

use crate::testing::SpoolBuilder;
use crate::{Action, BlockId, MemoryEvent, Origin, Outcome, Process};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// A written spool, opened.
struct Recorded {
    process: Process,
    // Dropped last: the directory of the open files.
    _directory: tempfile::TempDir,
}

fn record(spool: &mut SpoolBuilder) -> Recorded {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    Recorded { process: Process::open(directory.path()).unwrap(), _directory: directory }
}

/// All events, after checking what must hold for every replay of whatever bytes.
fn replay(process: &mut Process) -> (Vec<MemoryEvent>, Outcome) {
    let mut events: Vec<MemoryEvent> = Vec::new();
    let mut fractions: Vec<f64> = Vec::new();
    let outcome = process
        .replay(
            &mut |event, _| {
                events.push(*event);
                ControlFlow::Continue(())
            },
            &mut |fraction| fractions.push(fraction),
        )
        .unwrap();
    assert_eq!(fractions.last(), Some(&1.0));
    assert!(fractions.is_sorted());
    check_books(&events, &outcome);
    (events, outcome)
}

fn replay_directory(directory: &Path) -> (Vec<MemoryEvent>, Outcome) {
    replay(&mut Process::open(directory).unwrap())
}

fn check_books(events: &[MemoryEvent], outcome: &Outcome) {
    let mut live: BTreeMap<BlockId, MemoryEvent> = BTreeMap::new();
    let (mut total, mut peak, mut newest) = (0u64, 0u64, 0u64);
    let mut time = 0;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.id, index as u64);
        assert!(event.time_ns >= time);
        time = event.time_ns;
        match event.action {
            Action::Malloc => {
                assert!(event.matched && event.allocation_stack == event.stack);
                assert_eq!(event.block, BlockId(newest + 1));
                newest += 1;
                total += event.size;
                live.insert(event.block, *event);
            }
            Action::Free if event.matched => {
                let malloc = live.remove(&event.block).expect("a free of a live block");
                assert_eq!(
                    (malloc.address, malloc.size, malloc.origin, malloc.stack),
                    (event.address, event.size, event.origin, event.allocation_stack)
                );
                total -= event.size;
            }
            Action::Free => {
                assert_eq!((event.size, event.block, event.synthetic), (0, BlockId(newest + 1), false));
                newest += 1;
            }
        }
        assert_eq!(event.total, total);
        peak = peak.max(total);
    }
    let count = |wanted: fn(&MemoryEvent) -> bool| events.iter().filter(|event| wanted(event)).count() as u64;
    assert_eq!(outcome.events, events.len() as u64);
    assert_eq!(outcome.mallocs, count(|event| event.action == Action::Malloc));
    assert_eq!(outcome.frees, count(|event| event.action == Action::Free));
    assert_eq!(outcome.unmatched_frees, count(|event| !event.matched));
    let replaced = |event: &MemoryEvent| event.action == Action::Free && event.synthetic;
    assert_eq!(
        outcome.replaced_blocks,
        events.iter().filter(|event| replaced(event) && event.origin == Origin::Heap).count() as u64
    );
    assert_eq!(outcome.first_time_ns, events.first().map_or(0, |event| event.time_ns));
    assert_eq!(outcome.last_time_ns, time);
    let alive: Vec<_> = outcome.live_blocks().map(|block| (block.block, block.address, block.size)).collect();
    let expected: Vec<_> = live.values().map(|event| (event.block, event.address, event.size)).collect();
    assert_eq!(alive, expected);
    match outcome.pools.as_slice() {
        [] => assert!(events.is_empty()),
        [host] => {
            assert_eq!((host.live_bytes, host.live_blocks), (total, live.len() as u64));
            assert_eq!(host.peak_bytes, peak);
            let first_at_peak = events.iter().find(|event| event.total == peak && peak > 0);
            assert_eq!(host.peak_time_ns, first_at_peak.map_or(0, |event| event.time_ns));
        }
        more => panic!("{more:?}"),
    }
}

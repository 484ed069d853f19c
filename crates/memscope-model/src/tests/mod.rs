//! Behaviour of whole replays, over spools made with `memscope_testkit`.
mod choice;
mod damage;
mod devices;
mod directories;
mod events;
mod kernels;
mod launches;
mod mappings;
mod properties;
mod stacks;

use crate::{Action, BlockId, Device, MemoryEvent, Origin, Outcome, Pool, Process};
use memscope_testkit::SpoolBuilder;
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

/// One device's pool, by a model too simple to be wrong.
#[derive(Clone, Copy, Default)]
struct Sums {
    used: u64,
    blocks: u64,
    peak: u64,
    peak_time_ns: u64,
}

fn check_books(events: &[MemoryEvent], outcome: &Outcome) {
    let mut live: BTreeMap<BlockId, MemoryEvent> = BTreeMap::new();
    let mut pools: BTreeMap<(Device, Pool), Sums> = BTreeMap::new();
    let (mut newest, mut time) = (0u64, 0);
    for (index, event) in events.iter().enumerate() {
        assert!(event.id >= index as u64);
        assert!(event.time_ns >= time);
        time = event.time_ns;
        let sums = pools.entry((event.device, event.pool)).or_default();
        match event.action {
            Action::Malloc => {
                assert!(event.matched && event.allocation_stack == event.stack);
                assert_eq!(event.block, BlockId(newest + 1));
                newest += 1;
                (sums.used, sums.blocks) = (sums.used + event.size, sums.blocks + 1);
                live.insert(event.block, *event);
            }
            Action::Free if event.matched => {
                let malloc = live.remove(&event.block).expect("a free of a live block");
                assert_eq!(
                    (malloc.address, malloc.size, malloc.origin, malloc.stack, malloc.device, malloc.pool),
                    (event.address, event.size, event.origin, event.allocation_stack, event.device, event.pool)
                );
                (sums.used, sums.blocks) = (sums.used - event.size, sums.blocks - 1);
            }
            Action::Free => {
                assert_eq!((event.size, event.block, event.synthetic), (0, BlockId(newest + 1), false));
                newest += 1;
            }
        }
        assert_eq!(event.used, sums.used);
        if sums.used > sums.peak {
            (sums.peak, sums.peak_time_ns) = (sums.used, event.time_ns);
        }
    }
    let count = |wanted: fn(&MemoryEvent) -> bool| events.iter().filter(|event| wanted(event)).count() as u64;
    assert_eq!(outcome.events, events.len() as u64);
    assert_eq!(outcome.mallocs, count(|event| event.action == Action::Malloc));
    assert_eq!(outcome.frees, count(|event| event.action == Action::Free));
    // Those of devices give no event.
    assert!(outcome.unmatched_frees >= count(|event| !event.matched));
    let replaced = |event: &MemoryEvent| {
        event.action == Action::Free
            && event.synthetic
            && event.origin != Origin::Mapping
            && event.pool != Pool::PtaWorkspace
    };
    assert_eq!(outcome.replaced_blocks, events.iter().filter(|event| replaced(event)).count() as u64);
    if outcome.notes == 0 {
        assert_eq!(outcome.first_time_ns, events.first().map_or(0, |event| event.time_ns));
        assert_eq!(outcome.last_time_ns, time);
    }
    let alive: Vec<_> = outcome.live_blocks().map(|block| (block.block, block.address, block.size)).collect();
    let expected: Vec<_> = live.values().map(|event| (event.block, event.address, event.size)).collect();
    assert_eq!(alive, expected);
    assert!(outcome.pools.is_sorted_by_key(|usage| (usage.device, usage.pool)));
    for usage in &outcome.pools {
        // A pool may have told its total and nothing else.
        let sums = pools.remove(&(usage.device, usage.pool)).unwrap_or_default();
        assert_eq!((usage.live_bytes, usage.live_blocks), (sums.used, sums.blocks));
        assert_eq!((usage.peak_bytes, usage.peak_time_ns), (sums.peak, sums.peak_time_ns));
        assert_eq!(usage.allocated_bytes - usage.freed_bytes, sums.used);
    }
    assert!(pools.is_empty(), "{:?}", outcome.pools);
}

//! Behaviour of whole replays, over spools made with `memscope_testkit`.
mod calls;
mod choice;
mod damage;
mod devices;
mod directories;
mod events;
mod kernels;
mod labels;
mod mappings;
mod operators;
mod properties;
mod stacks;
mod storages;
mod trace;

use crate::{Action, BlockEvent, BlockId, Device, Origin, Outcome, Pool, Process, TimestampNs};
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
fn replay(process: &mut Process) -> (Vec<BlockEvent>, Outcome) {
    let mut events: Vec<BlockEvent> = Vec::new();
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

fn replay_directory(directory: &Path) -> (Vec<BlockEvent>, Outcome) {
    replay(&mut Process::open(directory).unwrap())
}

/// One device's pool, by a model too simple to be wrong.
#[derive(Clone, Copy, Default)]
struct Sums {
    used: u64,
    blocks: u64,
    peak: u64,
    peak_time: TimestampNs,
}

fn check_books(events: &[BlockEvent], outcome: &Outcome) {
    let mut live: BTreeMap<BlockId, BlockEvent> = BTreeMap::new();
    let mut pools: BTreeMap<(Device, Pool), Sums> = BTreeMap::new();
    let (mut newest, mut time) = (0u64, TimestampNs::default());
    for (index, event) in events.iter().enumerate() {
        assert!(event.at.event >= index as u64);
        assert!(event.at.time >= time);
        time = event.at.time;
        let sums = pools.entry((event.block.device, event.block.pool)).or_default();
        match event.action {
            Action::Malloc => {
                assert!(event.matched);
                if event.synthetic {
                    // A piece of a mapping is made by whoever made the whole.
                    let (made, at) = (event.block.made, event.at);
                    assert_eq!((made.thread, made.stack), (at.thread, at.stack));
                } else {
                    assert_eq!(event.block.made, event.at);
                }
                assert_eq!(event.block.id, BlockId(newest + 1));
                newest += 1;
                (sums.used, sums.blocks) = (sums.used + event.block.size, sums.blocks + 1);
                live.insert(event.block.id, *event);
            }
            Action::Free if event.matched => {
                let malloc = live.remove(&event.block.id).expect("a free of a live block");
                assert_eq!(malloc.block, event.block);
                (sums.used, sums.blocks) = (sums.used - event.block.size, sums.blocks - 1);
            }
            Action::Free => {
                assert_eq!((event.block.size, event.block.id, event.synthetic), (0, BlockId(newest + 1), false));
                newest += 1;
            }
        }
        assert_eq!(event.used, sums.used);
        if sums.used > sums.peak {
            (sums.peak, sums.peak_time) = (sums.used, event.at.time);
        }
    }
    let count = |wanted: fn(&BlockEvent) -> bool| events.iter().filter(|event| wanted(event)).count() as u64;
    assert_eq!(outcome.events, events.len() as u64);
    assert_eq!(outcome.mallocs, count(|event| event.action == Action::Malloc));
    assert_eq!(outcome.frees, count(|event| event.action == Action::Free));
    // Those of devices give no event.
    assert!(outcome.unmatched_frees >= count(|event| !event.matched));
    let replaced = |event: &BlockEvent| {
        event.action == Action::Free
            && event.synthetic
            && event.block.origin != Origin::Mapping
            && event.block.pool != Pool::PtaWorkspace
    };
    assert_eq!(outcome.replaced_blocks, events.iter().filter(|event| replaced(event)).count() as u64);
    if outcome.notes == 0 {
        assert_eq!(outcome.first_time, events.first().map(|event| event.at.time).unwrap_or_default());
        assert_eq!(outcome.last_time, time);
    }
    let alive: Vec<_> = outcome.live_blocks().map(|block| (block.id, block.address, block.size)).collect();
    let expected: Vec<_> = live.values().map(|event| (event.block.id, event.block.address, event.block.size)).collect();
    assert_eq!(alive, expected);
    assert!(outcome.pools.is_sorted_by_key(|usage| (usage.device, usage.pool)));
    for usage in &outcome.pools {
        // A pool may have told its total and nothing else.
        let sums = pools.remove(&(usage.device, usage.pool)).unwrap_or_default();
        assert_eq!((usage.live_bytes, usage.live_blocks), (sums.used, sums.blocks));
        assert_eq!((usage.peak_bytes, usage.peak_time), (sums.peak, sums.peak_time));
        assert_eq!(usage.allocated_bytes - usage.freed_bytes, sums.used);
    }
    assert!(pools.is_empty(), "{:?}", outcome.pools);
}

use super::kernels::kernels_on_two_threads;
use super::{check_books, devices, properties, replay_directory};
use crate::{Process, State, TimestampNs, TraceEvent};
use memscope_format::layout::{EVENTS_FILE, PROCESS_HEADER_SIZE, WINDOW_HEADER_SIZE, WINDOW_SIZE, WINDOWS_FILE};
use memscope_testkit::SpoolBuilder;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;

#[derive(Clone, Debug)]
enum Harm {
    Truncate(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Overwrite(prop::sample::Index, Vec<u8>),
}

fn harm() -> impl Strategy<Value = (bool, Harm)> {
    let any_index = any::<prop::sample::Index>;
    let harm = prop_oneof![
        any_index().prop_map(Harm::Truncate),
        (any_index(), 0u8..8).prop_map(|(at, bit)| Harm::Flip(at, bit)),
        (any_index(), proptest::collection::vec(any::<u8>(), 1..300))
            .prop_map(|(at, bytes)| Harm::Overwrite(at, bytes)),
    ];
    (any::<bool>(), harm)
}

impl Harm {
    /// Does the harm to `bytes`, of which those from `reach` on are padding that nobody reads.
    fn apply(&self, bytes: &mut Vec<u8>, reach: usize) {
        let reach = reach.min(bytes.len());
        if reach == 0 {
            return;
        }
        match self {
            Harm::Truncate(at) => bytes.truncate(at.index(reach)),
            Harm::Flip(at, bit) => bytes[at.index(reach)] ^= 1 << bit,
            Harm::Overwrite(at, with) => {
                let at = at.index(reach);
                let length = with.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&with[..length]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(256)))]

    #[test]
    fn harmed_files_end_in_an_error_or_in_books_that_agree(
        steps in properties::steps(120), harms in proptest::collection::vec(harm(), 1..5),
    ) {
        replay_harmed(&mut properties::build(&steps), &harms);
    }

    #[test]
    fn harmed_records_of_devices_end_in_an_error_or_in_books_that_agree(
        steps in devices::steps(), harms in proptest::collection::vec(harm(), 1..5),
    ) {
        replay_harmed(&mut devices::build(&steps), &harms);
    }

    #[test]
    fn harmed_recordings_of_kernels_end_in_an_error_or_in_order(
        harms in proptest::collection::vec((0u32..4, harm()), 1..5),
    ) {
        let directory = tempfile::tempdir().unwrap();
        kernels_on_two_threads().write(directory.path()).unwrap();
        for (window, (to_windows, harm)) in harms {
            let file = if to_windows { WINDOWS_FILE } else { EVENTS_FILE };
            let path = directory.path().join("spool").join(file);
            let mut bytes = fs::read(&path).unwrap();
            let start = if to_windows { PROCESS_HEADER_SIZE + window as usize % 3 * WINDOW_SIZE } else { 0 };
            let mut harmed = bytes.split_off(start.min(bytes.len()));
            harm.apply(&mut harmed, if to_windows { WINDOW_HEADER_SIZE + 900 } else { usize::MAX });
            bytes.extend(harmed);
            fs::write(&path, bytes).unwrap();
        }
        let Ok(mut process) = Process::open(directory.path()) else { return Ok(()) };
        let mut last = TimestampNs::default();
        let outcome = process.trace(
            &mut |event: &TraceEvent<'_>, _: &State<'_>| {
                if let TraceEvent::Note(note) = event {
                    assert!(note.at.time >= last);
                    last = note.at.time;
                }
                ControlFlow::Continue(())
            },
            &mut |_| {},
        );
        prop_assert!(outcome.is_err() || outcome.unwrap().kernels.launches <= 1000);
    }

    #[test]
    fn a_damaged_block_costs_only_itself(
        blocks in proptest::collection::vec((0usize..3, 1u64..30), 2..12),
        damaged in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let mut spool = SpoolBuilder::new();
        let lanes = [spool.lane(1), spool.lane(2), spool.lane(3)];
        let damaged = damaged.index(blocks.len());
        let mut expected = BTreeSet::new();
        let mut range = 0..0;
        let mut address = 0;
        for (index, (lane, events)) in blocks.iter().enumerate() {
            let start = spool.appended_bytes();
            for _ in 0..*events {
                address += 16;
                spool.alloc(lanes[*lane], address, address, 1, 0);
                if index != damaged {
                    expected.insert(address);
                }
            }
            spool.end_generation(lanes[*lane]);
            if index == damaged {
                range = start + WINDOW_HEADER_SIZE..spool.appended_bytes();
            }
        }
        let directory = tempfile::tempdir().unwrap();
        spool.write(directory.path()).unwrap();
        let path = directory.path().join("spool").join(EVENTS_FILE);
        let mut bytes = fs::read(&path).unwrap();
        bytes[range.start + place.index(range.len())] ^= 1 << bit;
        fs::write(&path, bytes).unwrap();
        let (events, outcome) = replay_directory(directory.path());
        let seen: BTreeSet<u64> = events.iter().map(|event| event.block.address).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(outcome.damage.len(), 1);
    }
}

/// Replays what is left of a spool after its files were harmed.
fn replay_harmed(spool: &mut SpoolBuilder, harms: &[(bool, Harm)]) {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    for (to_windows, harm) in harms {
        let (file, reach) = if *to_windows {
            // The first window and what it holds: the rest is mostly zeros.
            (WINDOWS_FILE, PROCESS_HEADER_SIZE + WINDOW_HEADER_SIZE + 600)
        } else {
            (EVENTS_FILE, usize::MAX)
        };
        let path = directory.path().join("spool").join(file);
        let Ok(mut bytes) = fs::read(&path) else { continue };
        harm.apply(&mut bytes, reach);
        fs::write(&path, bytes).unwrap();
    }
    let Ok(mut process) = Process::open(directory.path()) else { return };
    let mut events = Vec::new();
    let mut visit = |event: &TraceEvent<'_>, state: &State<'_>| {
        match event {
            TraceEvent::Memory(event) => {
                walk_frames(event.at.stack, state.stacks);
                events.push(**event);
            }
            TraceEvent::Alive(event) => walk_frames(event.at.stack, state.stacks),
            TraceEvent::Note(note) => walk_frames(note.at.stack, state.stacks),
        }
        ControlFlow::Continue(())
    };
    if let Ok(outcome) = process.trace(&mut visit, &mut |_| {}) {
        check_books(&events, &outcome);
    }
}

/// Walks a stack to its end: what is damaged must not make it endless or lead out of the tables.
fn walk_frames(stack: crate::StackId, stacks: &crate::Stacks) {
    for frame in stacks.c_frames(stack).chain(stacks.python_frames(stack)) {
        match frame {
            crate::Frame::C { module, .. } => drop(stacks.module(module).path.as_os_str().len()),
            crate::Frame::Python { code, .. } => drop(stacks.code(code).file.len()),
            crate::Frame::Text(text) => drop(stacks.text(text).len()),
            crate::Frame::Unknown { .. } => {}
        }
    }
}
#[test]
fn a_torn_block_whose_window_holds_less_gives_what_the_window_holds() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    for number in 1..=10u64 {
        spool.alloc(lane, number, number << 4, 1, 0);
    }
    let mut appended = spool.clone();
    appended.end_generation(lane).write(directory.path()).unwrap();
    let events = directory.path().join("spool").join(EVENTS_FILE);
    let mut bytes = fs::read(&events).unwrap();
    let payload = bytes.len() - WINDOW_HEADER_SIZE;
    *bytes.last_mut().unwrap() ^= 1;
    // The window still holds the generation of the torn block, but its length lost its last record.
    spool.write(directory.path()).unwrap();
    fs::write(&events, bytes).unwrap();
    let windows = directory.path().join("spool").join(WINDOWS_FILE);
    let mut bytes = fs::read(&windows).unwrap();
    let committed = PROCESS_HEADER_SIZE + 8;
    let record = payload / 10;
    bytes[committed] = (payload - record) as u8;
    fs::write(&windows, bytes).unwrap();
    let (events, _) = replay_directory(directory.path());
    assert_eq!(events.len(), 9);
}

#[test]
fn what_a_live_process_records_while_it_is_read_neither_hides_nor_adds_anything() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    let lanes = [spool.lane(1), spool.lane(2)];
    let mut ticks = 0;
    let mut record = |spool: &mut SpoolBuilder, count: u64| {
        for number in ticks + 1..=ticks + count {
            spool.alloc(lanes[number as usize % 2], number, number << 4, 1, 0);
        }
        ticks += count;
    };
    record(&mut spool, 10);
    spool.write(directory.path()).unwrap();
    let mut opened = Process::open(directory.path()).unwrap();
    // Both windows are filled and appended, several times.
    for _ in 0..3 {
        record(&mut spool, 6);
        for lane in lanes {
            spool.end_generation(lane);
        }
    }
    record(&mut spool, 2);
    spool.write(directory.path()).unwrap();
    for _ in 0..2 {
        let mut seen = 0;
        let outcome = opened.replay(
            &mut |_, _| {
                seen += 1;
                ControlFlow::Continue(())
            },
            &mut |_| {},
        );
        assert_eq!((seen, outcome.unwrap().damage), (10, vec![]));
    }
    assert_eq!(replay_directory(directory.path()).0.len(), 30);
}

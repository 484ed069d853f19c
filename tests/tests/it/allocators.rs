//! The wrapped functions: every answer, every caller, other allocators.
use memscope_format::decode::EventKind;
use memscope_format::record::{HostAddr, Protection};
use memscope_model::{Action, Origin};
use memscope_tests::{Recorded, Recording, Workshop};
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(source: &str) -> Recording {
    let workshop = Workshop::new();
    let program = workshop.compile(source);
    workshop.run_both(&workshop.recorder(), || Command::new(&program))
}

#[test]
fn every_call_of_the_malloc_family_is_recorded_for_what_it_did() {
    let recording = run("heap_calls.c");
    let stdout = recording.stdout();
    assert!(stdout.contains("errno: as it should be") && !stdout.contains("WRONG"), "{stdout}");
    let process = recording.only().assert_sound();
    let mut addresses = Vec::new();
    let passage: Vec<String> = process
        .passage(900_001, 900_002)
        .into_iter()
        .map(|kind| match kind {
            EventKind::HostAlloc { address, size } => {
                addresses.push((address, size));
                format!("+{size}")
            }
            EventKind::HostFree { address } => {
                let found = addresses.iter().position(|(known, _)| *known == address);
                let (_, size) = addresses.remove(found.expect("a free has an allocation"));
                format!("-{size}")
            }
            EventKind::HostRefused { call, .. } => format!("no {call:?}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        passage.join(" "),
        "+0 -0 +100 -100 +200 -200 +300 no Realloc -300 +400 -400 no Calloc no Malloc +500 +640 +700 +800 +900 +1000 -1000 \
         +2000 no Reallocarray -500 -640 -700 -800 -900 -2000 +1000 -1000"
    );
    assert_eq!((process.tally(24), process.tally(48)), ((200_000, 200_000, 0), (200_000, 200_000, 0)));
}

#[test]
fn mappings_are_recorded_as_they_are_made_cut_covered_and_moved() {
    const PAGE: u64 = 4096;
    let recording = run("mappings.c");
    let process = recording.only().assert_sound();
    let events = process.passage(900_001, 900_002);
    let EventKind::HostMap { address: area, .. } = events[0] else { panic!("{events:?}") };
    let EventKind::HostMap { address: grows, .. } = events[5] else { panic!("{events:?}") };
    let EventKind::HostRemap { new: grown, .. } = events[6] else { panic!("{events:?}") };
    let EventKind::HostMap { address: place, .. } = events[7] else { panic!("{events:?}") };
    let protection = Protection::READ_WRITE;
    let map = |address, pages| EventKind::HostMap { address, size: pages * PAGE, protection };
    let unmap = |address, pages| EventKind::HostUnmap { address, size: pages * PAGE };
    let expected = [
        map(area, 37),
        unmap(area + 4 * PAGE, 4),
        map(area + 8 * PAGE, 2),
        unmap(area + 12 * PAGE, 1),
        unmap(area, 2),
        map(grows, 3),
        EventKind::HostRemap { old: grows, old_size: 3 * PAGE, new: grown, new_size: 53 * PAGE },
        map(place, 61),
        EventKind::HostRemap { old: grown, old_size: PAGE, new: place + 60 * PAGE, new_size: PAGE },
    ];
    assert_eq!(events, expected);
    let alive = |HostAddr(start): HostAddr, pages: u64| {
        let inside = process
            .outcome
            .live_blocks()
            .filter(|block| block.origin == Origin::Mapping && (start..start + pages * PAGE).contains(&block.address));
        inside.map(|block| block.size / PAGE).sum::<u64>()
    };
    assert_eq!((alive(area, 37), alive(grown, 53), alive(place, 61)), (37 - 4 - 1 - 2, 52, 61));
}

#[test]
fn reserved_address_space_is_kept_apart_from_usable_memory() {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let recording = run("reservations.c");
    let process = recording.only().assert_sound();
    let events = process.passage(900_001, 900_002);
    let EventKind::HostMap { address: code, .. } = events[0] else { panic!("{events:?}") };
    let EventKind::HostMap { address: heap, .. } = events[2] else { panic!("{events:?}") };
    let (none, read_write) = (Protection::NONE, Protection::READ_WRITE);
    let reserved = Protection(Protection::NO_RESERVE);
    let protect = |address, size, protection| EventKind::HostProtect { address, size, protection };
    let expected = [
        EventKind::HostMap { address: code, size: MIB, protection: read_write },
        EventKind::HostUnmap { address: code, size: MIB },
        EventKind::HostMap { address: heap, size: 4096 * GIB, protection: reserved },
        protect(heap + GIB, 3 * MIB, read_write),
        EventKind::HostMap { address: heap + 2 * GIB, size: 5 * MIB, protection: read_write },
        protect(heap + GIB, 3 * MIB, Protection(Protection::READ)),
        protect(heap + GIB, 3 * MIB, read_write),
        protect(heap + GIB + MIB, MIB, none),
        EventKind::HostMap { address: heap + 2 * GIB, size: MIB, protection: reserved },
    ];
    assert_eq!(events, expected);
    let mut usable: Vec<(u64, u64)> = process
        .outcome
        .live_blocks()
        .filter(|block| (heap.0..heap.0 + 4096 * GIB).contains(&block.address))
        .map(|block| (block.address - heap.0, block.size / MIB))
        .collect();
    usable.sort_unstable();
    assert_eq!(usable, [(GIB, 1), (GIB + 2 * MIB, 1), (2 * GIB + MIB, 4), (3 * GIB, 7)]);
    assert_eq!(process.outcome.peak_reserved_space, 4096 * GIB);
    let peak = process.outcome.pools[0].peak_bytes;
    assert!((13 * MIB..16 * MIB).contains(&peak), "{peak}");
}

#[test]
fn a_program_with_an_allocator_of_its_own_runs_as_ever() {
    let recording = run("own_malloc.c");
    let process = recording.only().assert_sound();
    let arenas = process.raw.iter().filter(|event| matches!(event.kind, EventKind::HostMap { size: 315_392, .. }));
    assert_eq!(arenas.count(), 1, "the arena it maps is seen");
    assert_eq!(process.tally(100), (0, 0, 0), "what it hands out of the arena is its own affair");
}

fn jemalloc() -> PathBuf {
    let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = places.iter().map(|place| Path::new(place).join("libjemalloc.so.2")).find(|path| path.is_file());
    found.expect("jemalloc is needed: install the package libjemalloc2")
}

fn overlapping_mappings(process: &Recorded, start: u64, size: u64) -> usize {
    let maps =
        process.events.iter().filter(|event| event.block.origin == Origin::Mapping && event.action == Action::Malloc);
    maps.filter(|map| map.block.address < start + size && start < map.block.address + map.block.size).count()
}

#[test]
fn memory_of_a_preloaded_allocator_is_counted_once() {
    const SIZE: u64 = 64 << 20;
    let workshop = Workshop::new();
    let program = workshop.compile("large_blocks.c");
    let recorder = workshop.recorder().preload_after(&jemalloc());
    let recording = workshop.run_both(&recorder, || Command::new(&program));
    let process = recording.only().assert_sound();
    assert_eq!(process.tally(SIZE), (20, 20, 0));
    assert_eq!(process.tally(SIZE + 1), (1, 1, 0));
    assert_eq!(process.tally(2 * SIZE + 1), (1, 0, 1));
    for event in process.allocations(SIZE) {
        assert_eq!(
            overlapping_mappings(process, event.block.address, SIZE),
            0,
            "mapped by jemalloc for this very block"
        );
    }
}

#[test]
fn large_blocks_of_the_c_library_are_counted_once() {
    const SIZE: u64 = 64 << 20;
    let recording = run("large_blocks.c");
    let process = recording.only().assert_sound();
    assert_eq!((process.tally(SIZE), process.tally(2 * SIZE + 1)), ((20, 20, 0), (1, 0, 1)));
    for event in process.allocations(SIZE) {
        assert_eq!(overlapping_mappings(process, event.block.address, SIZE), 0);
    }
}

/// An address that realloc leaves is given to another thread at once: per address the order must hold nevertheless.
#[test]
fn blocks_that_change_hands_between_threads_are_recorded_in_order() {
    let workshop = Workshop::new();
    let program = workshop.compile("handover.c");
    let recording = workshop.run_both(&workshop.recorder(), || {
        let mut command = Command::new(&program);
        command.arg("150000");
        command
    });
    let process = recording.only().assert_sound();
    let left = process.outcome.live_blocks().filter(|block| (1100..2200).contains(&block.size)).count();
    assert_eq!(left, 0);
}

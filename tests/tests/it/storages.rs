//! Storages of tensors on the host, with a stand-in for torch's lowest library. torch itself: `tests/frameworks`.
use memscope_format::decode::EventKind;
use memscope_format::record::Space;
use memscope_model::{Action, Device, Pool, RefusedCall};
use memscope_tests::{Recorded, Recording, Workshop};
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// The program and its library, run `way`, bare and recorded, with C stacks.
fn run(workshop: &Workshop, way: &str, library_flags: &[&str]) -> Recording {
    let flags = [&["-Wl,-soname,libc10.so"], library_flags].concat();
    let library = workshop.compile_library("c10.cpp", "libc10.so", &flags);
    let directory = library.parent().expect("it is in the workshop").display().to_string();
    let (library, place) = (library.display().to_string(), format!("-Wl,-rpath,{directory}"));
    let program = workshop.compile_as("storages.cpp", "storages", &[&library, &place]);
    let recorder = workshop.recorder().c_stacks(20);
    let command = || {
        let mut command = Command::new(&program);
        command.arg(way);
        command
    };
    workshop.run_both(&recorder, command)
}

fn storages(process: &Recorded, action: Action) -> Vec<u64> {
    let is_one = |pool: Pool, device: Device| pool == Pool::PtaCaching && device == Device::Cpu;
    let events = process.events.iter().filter(|event| is_one(event.block.pool, event.block.device));
    events.filter(|event| event.action == action && !event.synthetic).map(|event| event.block.size).collect()
}

#[test]
fn each_storage_is_a_block_of_torchs_pool_above_the_block_of_the_heap_it_lies_in() {
    let workshop = Workshop::new();
    let recording = run(&workshop, "keep", &[]);
    let process = recording.only().assert_sound();
    let (made, freed) = (storages(process, Action::Malloc), storages(process, Action::Free));
    let handed_over = |sizes: &[u64]| sizes.iter().filter(|size| (20_000..20_007).contains(*size)).count();
    assert_eq!((handed_over(&made), handed_over(&freed)), (12_000, 12_000));
    let others: Vec<u64> = made.iter().copied().filter(|size| *size < 20_000).collect();
    assert_eq!(others, (10_001..=10_010).chain([1001, 2002, 4004]).collect::<Vec<_>>());
    // Those of the heap are as they would be without: each storage has one, with the same size at the same place.
    let live = |pool| -> HashSet<(u64, u64)> {
        let blocks = process.outcome.live_blocks().filter(|block| block.pool == pool);
        blocks.map(|block| (block.address, block.size)).collect()
    };
    let alive = live(Pool::PtaCaching);
    assert_eq!(alive.len(), 10);
    assert!(alive.is_subset(&live(Pool::Host)));
    for size in 10_001..=10_010 {
        assert_eq!(process.tally(size), (1, 0, 1), "{size}");
    }
    let of_pool = |size: u64| {
        let kept = process.events.iter().find(|event| event.block.pool == Pool::PtaCaching && event.block.size == size);
        process.functions(kept.expect("it was recorded").at.stack)
    };
    assert_eq!(of_pool(10_005)[..2], ["keep", "main"]);
    assert_eq!(of_pool(4004)[..2], ["grow", "main"]);
}

#[test]
fn an_allocation_that_throws_is_one_refusal_with_its_stack_and_the_exception_arrives() {
    let workshop = Workshop::new();
    let recording = run(&workshop, "refused", &[]);
    assert_eq!(recording.stdout(), "refused 2\nrefused 1\na negative number\n");
    let process = recording.only().assert_sound();
    let refusals = &process.outcome.out_of_memory;
    assert_eq!(refusals.len(), 3, "{refusals:?}");
    for refusal in refusals {
        assert_eq!((refusal.call, refusal.size), (RefusedCall::Pool(Pool::PtaCaching), 1 << 47));
        assert_eq!(refusal.device, Device::Cpu);
        assert_eq!(process.functions(refusal.stack)[..2], ["ask_for_too_much", "main"]);
    }
    assert_eq!(storages(process, Action::Malloc), [5005, 6006]);
}

#[test]
fn an_exception_that_nobody_catches_is_recorded_before_the_program_dies_of_it() {
    let workshop = Workshop::new();
    let recording = run(&workshop, "uncaught", &[]);
    assert_eq!(recording.output.status.signal(), Some(6), "{:?}", recording.output);
    let refusals = &recording.only().assert_sound().outcome.out_of_memory;
    assert!(matches!(refusals[..], [refusal] if refusal.size == 1 << 47), "{refusals:?}");
}

#[test]
fn what_is_refused_beneath_a_storage_that_is_given_all_the_same_is_none() {
    let workshop = Workshop::new();
    let recording = run(&workshop, "keep", &["-DARENA"]);
    let process = recording.only().assert_sound();
    let refused = |kind: &EventKind| matches!(kind, EventKind::HostRefused { .. } | EventKind::OutOfMemory { .. });
    assert_eq!(process.raw.iter().filter(|event| refused(&event.kind)).count(), 0);
    let is_storage = |kind: &EventKind| matches!(kind, EventKind::DeviceAlloc { space: Space::TensorStorage, .. });
    assert_eq!(process.raw.iter().filter(|event| is_storage(&event.kind)).count(), 12_013);
}

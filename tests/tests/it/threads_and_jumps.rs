//! Threads that come and go, frames that are left by jumps and exceptions.
use memscope_format::decode::{Event, EventKind};
use memscope_format::record::HostAddr;
use memscope_tests::{Recorder, Recording, Workshop, finish};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

fn run(source: &str, mode: &str, c_depth: u32) -> (Workshop, Recording) {
    let workshop = Workshop::new();
    let program = workshop.compile(source);
    let recorder = workshop.recorder().c_stacks(c_depth);
    let recording = workshop.run_both(&recorder, || {
        let mut command = Command::new(&program);
        command.arg(mode);
        command
    });
    (workshop, recording)
}

#[test]
fn two_hundred_threads_share_a_few_lanes_and_keep_their_own_names() {
    let (workshop, recording) = run("crowd.c", "many", 0);
    let process = recording.only().assert_sound();
    let list = fs::read_to_string(workshop.path("recorded-run/threads")).unwrap();
    for line in list.lines() {
        let (number, thread) = line.split_once(' ').unwrap();
        let (size, thread) = (10_000 + number.parse::<u64>().unwrap(), thread.parse::<u32>().unwrap());
        assert_eq!(process.tally(size), (500, 500, 0));
        let mut threads = BTreeMap::new();
        for event in process.allocations(size).into_iter().chain(process.frees(size)) {
            *threads.entry(event.at.thread).or_insert(0) += 1;
        }
        assert_eq!(threads, BTreeMap::from([(thread, 1000)]), "thread number {number}");
    }
    assert_eq!(list.lines().count(), 200);
    // Four at a time and main; a few more, because a joined thread may still be on its way out of the kernel.
    assert!(process.lanes <= 20, "{} lanes for five threads at once", process.lanes);
}

#[test]
fn the_smallest_stacks_have_room_for_stacks_being_taken() {
    let (_workshop, recording) = run("crowd.c", "tiny", 32);
    let process = recording.only().assert_sound();
    assert_eq!(process.tally(6006), (1000, 1000, 0));
    for event in process.allocations(6006) {
        let functions = process.functions(event.at.stack);
        assert_eq!(functions[0], "deepest");
        assert!(functions.contains(&"on_little_stack".to_owned()), "{functions:?}");
    }
}

#[test]
fn what_thread_key_destructors_do_is_recorded() {
    let (_workshop, recording) = run("crowd.c", "keys", 8);
    let process = recording.only().assert_sound();
    assert_eq!((process.tally(7101), process.tally(7102)), ((10, 10, 0), (10, 10, 0)));
    assert_eq!(process.functions(process.allocations(7102)[0].at.stack)[0], "at_thread_end");
}

#[test]
fn twenty_thousand_threads_at_once_lose_nothing() {
    for c_depth in [0, 8] {
        let (_workshop, recording) = run("crowd.c", "together", c_depth);
        assert!(recording.output.status.success(), "{:?}", recording.output);
        let process = recording.only().assert_sound();
        assert_eq!((process.tally(7103), process.outcome.lost_events), ((20_000, 20_000, 0), 0));
        assert!(process.lanes > 20_000, "{} lanes", process.lanes);
    }
}

/// Threads of `ends_at_work.c`; more by `MSMEMSCOPE_ENDS_AT_WORK`.
fn threads_that_end_at_work() -> String {
    std::env::var("MSMEMSCOPE_ENDS_AT_WORK").unwrap_or_else(|_| "300".to_owned())
}

#[test]
fn a_thread_that_ends_while_a_hook_is_at_work_does_no_harm() {
    let workshop = Workshop::new();
    let program = workshop.compile("ends_at_work.c");
    for way in ["raw-exit", "pthread-exit", "cancel"] {
        for c_depth in [0, 20] {
            let output = workshop.directory(&format!("{way}-{c_depth}"));
            let recorder = Recorder::into_directory(&output).c_stacks(c_depth);
            let mut command = Command::new(&program);
            let command = recorder.apply(command.arg(way).arg(threads_that_end_at_work()));
            let run = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started"));
            assert!(run.status.success(), "{way}, {c_depth}: {run:?}");
            let recording = Recording::open(&output, run);
            let process = recording.only();
            assert_eq!(process.outcome.damage, [], "{way}, {c_depth}");
            let said = recording.stdout();
            let pairs: usize = said.split(' ').next().and_then(|pairs| pairs.parse().ok()).expect("it says how many");
            let of_size = |event: &&Event| {
                matches!(
                    event.kind,
                    EventKind::HostMap { size: 49_152, .. } | EventKind::HostUnmap { size: 49_152, .. }
                )
            };
            let recorded = process.raw.iter().filter(of_size).count();
            assert!(recorded >= 2 * pairs, "{way}, {c_depth}: {recorded} events of {pairs} pairs");
        }
    }
}

#[test]
fn thread_local_objects_are_recorded_from_constructor_to_destructor() {
    let (_workshop, recording) = run("thread_local.cpp", "", 8);
    let process = recording.only().assert_sound();
    for size in [7001, 7002, 7003, 7004] {
        assert_eq!(process.tally(size), (20, 20, 0), "{size}");
    }
}

#[test]
fn a_jump_out_of_nested_calls_leaves_the_right_stack() {
    let (_workshop, recording) = run("jumps.c", "nested", 32);
    let process = recording.only().assert_sound();
    // Rounds of depth 0 to 19 five times over; the jump leaks every block.
    assert_eq!(process.tally(5001), (1050, 0, 1050));
    assert_eq!(process.tally(5002), (100, 100, 0));
    for event in process.allocations(5002) {
        assert_eq!(process.functions(event.at.stack)[..3], ["landed", "nested", "main"]);
    }
    let deepest = process.allocations(5001).iter().map(|event| process.functions(event.at.stack).len()).max().unwrap();
    let shallow = process.functions(process.allocations(5001)[0].at.stack);
    assert_eq!(shallow[..3], ["sink", "nested", "main"]);
    assert_eq!(deepest, shallow.len() + 19);
}

#[test]
fn jumps_out_of_a_signal_handler_do_not_disturb_the_recording() {
    let (_workshop, recording) = run("jumps.c", "handler", 16);
    let process = recording.only().assert_sound();
    let (allocated, freed, alive) = process.tally(5003);
    assert!(allocated >= 20_000 && allocated == freed && alive == 0, "{allocated} {freed} {alive}");
    assert_eq!(process.functions(process.allocations(5002)[0].at.stack)[..3], ["landed", "handler", "main"]);
    assert!(process.functions(process.allocations(5003)[allocated - 1].at.stack).starts_with(&["handler".to_owned()]));
}

#[test]
fn a_storm_of_signals_loses_nothing() {
    for c_depth in [0, 16] {
        let (workshop, recording) = run("jumps.c", "storm", c_depth);
        let process = recording.only().assert_sound();
        let rounds: usize = fs::read_to_string(workshop.path("recorded-run/rounds")).unwrap().trim().parse().unwrap();
        assert_eq!(process.tally(5004), (rounds, rounds, 0));
    }
}

/// The handler jumps out of whatever runs, our own code included. What was under way then may be missing; everything
/// else must be there and right.
#[test]
fn jumps_out_of_the_recorder_itself_leave_a_readable_recording() {
    for c_depth in [0, 16] {
        let workshop = Workshop::new();
        let program = workshop.compile("jumps.c");
        let allocator = workshop.compile_library("bump.c", "libbump.so", &[]);
        let recorder = workshop.recorder().c_stacks(c_depth).preload_after(&allocator);
        let recording = workshop.run_both(&recorder, || {
            let mut command = Command::new(&program);
            command.arg("abandoned");
            command
        });
        let process = recording.only();
        assert_eq!(process.outcome.damage, []);
        assert_eq!(process.outcome.events_without_stack, 0);
        // The allocator counts upwards, so every address but those of a few early blocks rises with time.
        let mut last = HostAddr(0);
        let mut count = 0;
        for event in &process.raw {
            if let EventKind::HostAlloc { address, size: 105 } = event.kind {
                assert!(address > last, "{address:x?} after {last:x?}, event {count}");
                assert_eq!((address - last) % 16, 0);
                (last, count) = (address, count + 1);
            }
        }
        assert!(count > 10_000, "{count}");
        let after = process.tally(5002);
        assert_eq!(after, (1000, 1000, 0), "after the last jump nothing is lost");
        assert_eq!(process.outcome.unmatched_frees, 0);
        if c_depth > 0 {
            assert_eq!(process.functions(process.allocations(5002)[999].at.stack)[..2], ["landed", "abandoned"]);
        }
    }
}

#[test]
fn coroutines_have_stacks_of_their_own() {
    let (_workshop, recording) = run("jumps.c", "coroutines", 16);
    let process = recording.only().assert_sound();
    assert_eq!((process.tally(5101), process.tally(5102)), ((1000, 1000, 0), (1000, 999, 1)));
    for (size, function) in [(5101, "left_side"), (5102, "right_side")] {
        for event in process.allocations(size) {
            let functions = process.functions(event.at.stack);
            assert_eq!(functions[0], function);
            assert!(!functions.contains(&"main".to_owned()), "{functions:?}");
        }
    }
    assert_eq!(process.functions(process.allocations(5002)[0].at.stack)[..3], ["landed", "coroutines", "main"]);
}

#[test]
fn exceptions_pass_through_and_the_stack_is_right_afterwards() {
    let (_workshop, recording) = run("throws.cpp", "", 48);
    let process = recording.only().assert_sound();
    let sinks: usize = (0..200).map(|round| round % 30 + 1).sum();
    assert_eq!(process.tally(4001), (sinks, sinks, 0));
    assert_eq!((process.tally(4002), process.tally(4004)), ((200, 200, 0), (200, 200, 0)));
    for (round, event) in process.allocations(4004).iter().enumerate() {
        assert_eq!(process.functions(event.at.stack)[..3], ["caught", "round_trip", "main"], "round {round}");
    }
    for (round, event) in process.allocations(4002).iter().enumerate() {
        let functions = process.functions(event.at.stack);
        let depth = functions.iter().filter(|name| *name == "sink").count();
        assert_eq!(depth, round % 30 + 1, "{functions:?}");
        assert!(functions.ends_with(&["_start".to_owned()]) || functions.contains(&"main".to_owned()));
    }
}

#[test]
fn contexts_switched_by_a_signal_handler_in_the_middle_of_a_hook_do_no_harm_and_are_counted() {
    for c_depth in [0, 16] {
        let (workshop, recording) = run("preempted.c", "", c_depth);
        let process = recording.only();
        assert_eq!(process.outcome.damage, []);
        let told = fs::read_to_string(workshop.path("recorded-run/told")).unwrap();
        let (mappings, blocks) = told.trim().split_once(' ').unwrap();
        let (mappings, blocks): (usize, u64) = (mappings.parse().unwrap(), blocks.parse().unwrap());
        let count = |is: fn(&EventKind) -> bool| process.raw.iter().filter(|event| is(&event.kind)).count();
        let made = count(|kind| matches!(kind, EventKind::HostMap { size: 28_672, .. }));
        let cut = count(|kind| matches!(kind, EventKind::HostUnmap { size: 28_672, .. }));
        assert_eq!((made, cut), (mappings, mappings));
        let (allocated, freed, alive) = process.tally(6201);
        assert_eq!((freed, alive), (allocated, 0));
        assert_eq!(2 * allocated as u64 + process.outcome.lost_events, 2 * blocks);
    }
}

//! Programs that are legal, and hard on whoever is preloaded: they run as ever, and what is recorded of them is right.
use memscope_format::decode::EventKind;
use memscope_tests::{Recording, Workshop, root_for};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

fn run(mode: &str, c_depth: u32) -> (Workshop, Recording) {
    let workshop = Workshop::new();
    let program = workshop.compile("hostile.c");
    let recorder = workshop.recorder().c_stacks(c_depth);
    let recording = workshop.run_both(&recorder, || {
        let mut command = Command::new(&program);
        command.arg(mode);
        command
    });
    assert!(recording.output.status.success(), "{mode}: {:?}", recording.output);
    (workshop, recording)
}

/// The two numbers a program tells of itself.
fn told(workshop: &Workshop, run: &str) -> (u64, u64) {
    let text = fs::read_to_string(workshop.path(run).join("told")).expect("the program tells");
    let (one, other) = text.trim().split_once(' ').expect("two numbers");
    (one.parse().unwrap(), other.parse().unwrap())
}

/// Bytes that a directory takes on the disk, and files in it.
fn disk_usage(directory: &Path) -> (u64, u64) {
    let mut total = (0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let (bytes, files) = if metadata.is_dir() { disk_usage(&entry.path()) } else { (0, 1) };
        total = (total.0 + bytes + metadata.blocks() * 512, total.1 + files);
    }
    total
}

#[test]
fn a_start_that_is_left_by_a_jump_is_made_again() {
    for c_depth in [0, 16] {
        let (_workshop, recording) = run("start_left", c_depth);
        let children: Vec<_> = recording.processes.iter().filter(|process| process.alive(6101) == 0).collect();
        let tallies: Vec<_> = children
            .iter()
            .map(|process| (process.info.pid, process.tally(6101), process.outcome.lost_events))
            .filter(|(_, tally, _)| *tally != (0, 0, 0))
            .collect();
        let whole = tallies.iter().filter(|(_, tally, _)| *tally == (100, 100, 0)).count();
        assert_eq!(whole, 40, "every child records what comes after the jumps: {tallies:?}");
    }
}

#[test]
fn after_a_jump_out_of_a_call_everything_is_recorded() {
    for c_depth in [0, 16] {
        let (_workshop, recording) = run("guard_left", c_depth);
        let process = recording.only();
        assert_eq!(process.tally(6102), (30_000, 30_000, 0));
        assert_eq!(process.outcome.damage, []);
    }
}

#[test]
fn close_to_a_limit_the_program_gets_what_it_asks_for() {
    for c_depth in [0, 16] {
        let (_workshop, recording) = run("limited", c_depth);
        let process = recording.only();
        let maps =
            |event: &&memscope_format::decode::Event| matches!(event.kind, EventKind::HostMap { size: 4096, .. });
        let recorded = process.raw.iter().filter(maps).count() as u64;
        // Five threads; each event is recorded or counted: mappings, their ends, and the one large block.
        assert!(2 * recorded + process.outcome.lost_events >= 20_000, "{recorded} {}", process.outcome.lost_events);
        assert!(recorded > 0 || process.outcome.lost_events > 0);
        assert!(process.file_sizes() < 1 << 20, "{} bytes", process.file_sizes());
    }
}

#[test]
fn threads_whose_first_event_is_in_a_vfork_child_keep_their_lanes() {
    for c_depth in [0, 16] {
        let (_workshop, recording) = run("vfork_first", c_depth);
        let process = recording.only();
        assert_eq!(process.outcome.damage, []);
        assert_eq!((process.tally(6104), process.tally(6105)), ((300_000, 300_000, 0), (20_000, 20_000, 0)));
        // Those of the vfork children: in the parent's memory, under nobody's number.
        assert!(process.outcome.lost_events <= 120, "{}", process.outcome.lost_events);
    }
}

#[test]
fn what_a_vfork_child_lost_is_told_of_a_process_without_events_of_its_own() {
    let (_workshop, recording) = run("vfork_only", 0);
    let process = recording.only();
    assert_eq!((process.raw.len(), process.outcome.lost_events, process.outcome.lost_without_window), (0, 10, 10));
}

#[test]
fn a_file_of_the_program_keeps_no_bytes_of_ours() {
    let (_workshop, recording) = run("recycler", 0);
    let process = recording.only();
    assert_eq!((process.outcome.damage.len(), process.info.strays_left), (0, 0));
    let (allocated, freed, alive) = process.tally(6106);
    assert!(allocated > 100_000 && allocated == freed && alive == 0, "{allocated} {freed} {alive}");
}

#[test]
fn descendants_keep_nothing_of_their_ancestors() {
    for c_depth in [0, 16] {
        let (workshop, recording) = run("generations", c_depth);
        assert_eq!(recording.processes.len(), 101);
        let (bare, recorded) = (told(&workshop, "bare-run"), told(&workshop, "recorded-run"));
        assert!(recorded.0 <= bare.0 + 2, "open files: {recorded:?}, bare {bare:?}");
        assert!(recorded.1 <= bare.1 + 40, "mappings: {recorded:?}, bare {bare:?}");
    }
}

#[test]
fn a_thread_costs_what_it_records() {
    const MEGABYTE: u64 = 1 << 20;
    for (c_depth, resident) in [(0, 50), (16, 250)] {
        let (workshop, recording) = run("crowd", c_depth);
        let process = recording.only().assert_sound();
        assert_eq!(process.tally(6108), (12_000, 12_000, 0));
        let (disk, _) = disk_usage(&workshop.path("recorded"));
        assert!(disk < 50 * MEGABYTE && process.file_sizes() < 50 * MEGABYTE, "{disk} bytes of disk");
        let (bare, recorded) = (told(&workshop, "bare-run"), told(&workshop, "recorded-run"));
        let added = recorded.0.saturating_sub(bare.0);
        assert!(added < resident * MEGABYTE, "{added} bytes added to the resident size");
    }
}

#[test]
fn locked_memory_does_not_multiply() {
    if !root_for("lock all memory") {
        return;
    }
    for c_depth in [0, 16] {
        let (workshop, _recording) = run("locked", c_depth);
        let (resident, _) = told(&workshop, "recorded-run");
        assert!(resident < 40 << 20, "{resident} bytes resident");
    }
}

#[test]
fn subshells_are_small() {
    let workshop = Workshop::new();
    let recorder = workshop.recorder();
    let recording = workshop.run_both(&recorder, || {
        let mut command = Command::new("bash");
        command.args(["-c", "for i in {1..200}; do x=$(echo a); done; echo $x"]);
        command
    });
    assert_eq!(recording.processes.len(), 201);
    let (disk, files) = disk_usage(&workshop.path("recorded"));
    assert!(disk < 10 << 20 && files <= 402, "{disk} bytes in {files} files");
}

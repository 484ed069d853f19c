//! Random programs of signals, jumps, forks, threads and unloaded libraries: every call they made is recorded, or counted
//! as lost.
use memscope_format::decode::EventKind;
use memscope_tests::{Recorded, Workshop, random, rounds};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Blocks allocated and freed, mappings made and unmade.
type Kinds = [u64; 4];

struct Counted {
    made: Kinds,
    /// Events of calls that were left half way, which may be seen or not.
    left: u64,
}

fn counted(directory: &Path, pid: u32) -> Counted {
    let bytes = fs::read(directory.join(pid.to_string())).expect("every process counts");
    let count = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap());
    Counted { made: [count(0), count(1), count(2), count(3)], left: count(4) }
}

fn recorded(process: &Recorded) -> Kinds {
    let mut kinds = [0; 4];
    for event in &process.raw {
        match event.kind {
            EventKind::HostAlloc { .. } => kinds[0] += 1,
            EventKind::HostFree { .. } => kinds[1] += 1,
            EventKind::HostMap { .. } => kinds[2] += 1,
            EventKind::HostUnmap { .. } => kinds[3] += 1,
            _ => {}
        }
    }
    kinds
}

/// Runs random programs that do `what`, one or as many as `MSMEMSCOPE_CHAOS_ROUNDS` says; gives what was recorded of the one of which
/// the least was, and what was lost of all.
fn chaos(what: &str, c_depth: u32) -> (u64, u64) {
    let each = (0..rounds("MSMEMSCOPE_CHAOS_ROUNDS", 1)).map(|_| one_program(what, c_depth));
    each.fold((u64::MAX, 0), |(least, all_lost), (events, lost)| (least.min(events), all_lost + lost))
}

/// Compares every process of a random program with its own count.
fn one_program(what: &str, c_depth: u32) -> (u64, u64) {
    let seed = random()() % 1_000_000;
    let workshop = Workshop::new();
    let program = workshop.compile("chaos.c");
    let heap = workshop.compile_library("chaos_heap.c", "libchaos_heap.so", &[]);
    let plugin = ["-DFUNCTION=work", "-DLOADED=11", "-DCALLED=22", "-DUNLOADED=33"];
    let plugin = workshop.compile_library("plugin.c", "libplugin.so", &plugin);
    let counts = workshop.directory("counts");
    let recorder = workshop.recorder().c_stacks(c_depth).preload_after(&heap);
    let mut command = Command::new(&program);
    command.arg(seed.to_string()).arg(what).arg(&plugin).env("CHAOS_COUNTS", &counts);
    let recording = workshop.run(&recorder, command);
    let context = format!("seed {seed}, {what}, depth {c_depth}");
    assert!(recording.output.status.success(), "{context}: {:?}", recording.output);
    let (mut events, mut lost) = (0, 0);
    for process in &recording.processes {
        let Counted { made, left } = counted(&counts, process.info.pid);
        let (found, missed) = (recorded(process), process.outcome.lost_events);
        let context = format!(
            "{context}, process {}: {found:?} recorded, {missed} lost, {made:?} made, {left} left half way",
            process.info.pid
        );
        assert_eq!(process.outcome.damage, [], "{context}");
        let all = |kinds: Kinds| kinds.iter().sum::<u64>();
        assert!((all(found) + missed).abs_diff(all(made)) <= left, "{context}");
        (events, lost) = (events + all(found), lost + missed);
    }
    let processes = fs::read_dir(&counts).unwrap().count();
    assert_eq!(recording.processes.len(), processes, "{context}: every process that did anything is recorded");
    (events, lost)
}

#[test]
fn threads_and_unloaded_libraries_are_recorded_exactly() {
    for depth in [0, 16] {
        let (events, lost) = chaos("u", depth);
        assert!(events > 40_000 && lost == 0, "{events} {lost}");
    }
}

#[test]
fn calls_of_signal_handlers_are_recorded_or_counted() {
    for (what, depth) in [("s", 0), ("s", 16), ("sa", 0), ("sa", 16)] {
        chaos(what, depth);
    }
}

#[test]
fn calls_around_jumps_are_recorded_or_counted() {
    for (what, depth) in [("sj", 0), ("sj", 16), ("saj", 0), ("saj", 16)] {
        chaos(what, depth);
    }
}

#[test]
fn forks_of_every_kind_are_recorded_or_counted() {
    for (what, depth) in [("fvu", 0), ("fvu", 16), ("sfF", 0), ("saF", 16)] {
        chaos(what, depth);
    }
}

#[test]
fn everything_at_once_is_recorded_or_counted() {
    for depth in [0, 16] {
        chaos("sajfFvu", depth);
    }
}

//! Programs that lock themselves in by seccomp: they live as they do bare, and what was not recorded is told.
use memscope_format::decode::{EventKind, ProcessState};
use memscope_format::layout::StopReason;
use memscope_tests::{Recorded, Recorder, Recording, Workshop};
use std::process::Command;

pub(crate) const BEFORE: usize = 1000;
pub(crate) const ROUNDS: usize = 100_000;

fn run_with(workshop: &Workshop, filter: &str, adapt: impl FnOnce(Recorder) -> Recorder) -> Recording {
    let program = workshop.compile("sandbox.c");
    let recording = workshop.run_both(&adapt(workshop.recorder()), || {
        let mut command = Command::new(&program);
        command.args([filter, &BEFORE.to_string()]);
        command
    });
    assert!(recording.output.status.success(), "{:?}", recording.output);
    recording
}

fn run(filter: &str) -> Recording {
    run_with(&Workshop::new(), filter, |recorder| recorder)
}

/// Nothing from before the filter is missing, and of what came after it all is recorded or counted.
pub(crate) fn assert_accounted(process: &Recorded, after: usize) {
    assert_eq!(process.outcome.damage, []);
    assert_eq!((process.tally(7000), process.tally(7001)), ((BEFORE, BEFORE, 0), (1, 1, 0)));
    let mark = |kind: EventKind| matches!(kind, EventKind::HostAlloc { size: 7001, .. });
    let filter = process.raw.iter().position(|event| mark(event.kind)).expect("the mark is recorded") + 2;
    let recorded = process.raw.len() - filter;
    assert_eq!(recorded as u64 + process.outcome.lost_events, after as u64, "{recorded} of them recorded");
}

/// The recording ended with the last window that could not be appended.
fn assert_stopped(process: &Recorded) {
    assert_accounted(process, 2 * ROUNDS);
    assert_eq!(process.info.stop_reason, StopReason::Sandbox);
    assert_eq!(process.outcome.stopped.map(|stopped| stopped.reason), Some(StopReason::Sandbox));
    let recorded = process.allocations(7002).len();
    assert!((10_000..ROUNDS).contains(&recorded), "a window's worth is recorded: {recorded}");
}

#[test]
fn a_filter_that_kills_who_asks_for_the_time_hinders_nothing() {
    let recording = run("no-clock");
    let process = recording.only().assert_sound();
    assert_accounted(process, 2 * ROUNDS);
    assert!(!process.info.sandboxed());
}

#[test]
fn a_filter_with_a_few_calls_ends_the_recording_and_not_the_program() {
    for filter in ["few-calls", "few-calls-by-system-call", "few-calls-by-raw-prctl"] {
        let recording = run(filter);
        assert_stopped(recording.only());
        assert!(recording.only().info.sandboxed());
    }
}

#[test]
fn stacks_are_taken_without_forbidden_calls() {
    let workshop = Workshop::new();
    let recording = run_with(&workshop, "few-calls", |recorder| recorder.c_stacks(20).python_stacks(20));
    let process = recording.only();
    assert_stopped(process);
    let stack = process.allocations(7002)[0].at.stack;
    assert_eq!(process.functions(stack)[..2], ["allocate", "main"]);
}

#[test]
fn a_filter_that_kills_who_writes_ends_the_recording_and_not_the_program() {
    let recording = run("no-output");
    assert_stopped(recording.only());
    assert_eq!(recording.only().info.state, ProcessState::Ended);
}

#[test]
fn a_filter_that_looks_at_the_descriptor_is_asked_about_ours() {
    let recording = run("standard-streams");
    assert_stopped(recording.only());
    assert!(!recording.only().info.sandboxed(), "threads and children can be recorded");
}

#[test]
fn a_filter_that_answers_in_place_of_the_kernel_is_not_believed() {
    assert_stopped(run("lying-writes").only());
}

#[test]
fn strict_mode_and_a_forbidden_counter_end_the_recording_at_once() {
    let strict = run("strict");
    if cfg!(target_arch = "x86_64") {
        assert_accounted(strict.only(), 2 * ROUNDS);
        assert_eq!((strict.only().info.stop_reason, strict.only().allocations(7002).len()), (StopReason::Sandbox, 0));
        let clockless = run("no-counter");
        // The second thread's own block, too, and what the C library frees at its end.
        assert!(clockless.only().outcome.lost_events >= 2 * (ROUNDS as u64 + 1000));
        assert_eq!(clockless.only().tally(7000), (BEFORE, BEFORE, 0));
        assert_eq!(clockless.only().info.stop_reason, StopReason::Sandbox);
    } else {
        // Only x86-64 takes the counter away with it.
        assert_stopped(strict.only());
    }
}

#[test]
fn a_thread_that_begins_under_a_filter_is_counted_as_lost() {
    let recording = run("late-thread");
    let process = recording.only();
    assert_accounted(process, 2000);
    assert_eq!((process.outcome.lost_events, process.info.stop_reason), (2000, StopReason::None));
    assert!(process.info.sandboxed());
}

#[test]
fn a_child_that_may_make_no_directory_lives_unrecorded_and_its_parent_says_so() {
    let recording = run("children");
    let process = recording.only().assert_sound();
    assert_accounted(process, 2 * ROUNDS);
    assert!(process.info.sandboxed());
}

#[test]
fn a_child_that_locks_itself_in_before_its_first_event_is_recorded() {
    let recording = run("no-directories-at-once");
    let [parent, child] = recording.processes.as_slice() else { panic!("{:?}", recording.commands()) };
    assert_accounted(parent.assert_sound(), 2 * ROUNDS);
    assert_eq!(child.assert_sound().tally(7003), (1000, 1000, 0));
    assert!(child.info.sandboxed(), "what is said of its own child, that is not recorded");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_child_that_gives_its_counter_up_before_its_first_event_lives_and_counts_what_is_lost() {
    let recording = run("no-counter-at-once");
    let [parent, child] = recording.processes.as_slice() else { panic!("{:?}", recording.commands()) };
    assert_accounted(parent.assert_sound(), 2 * ROUNDS);
    assert_eq!((child.raw.len(), child.outcome.lost_events), (0, 2000));
    assert_eq!(child.info.stop_reason, StopReason::Sandbox);
}

#[test]
fn a_filter_of_a_child_that_borrows_the_memory_is_not_the_parents() {
    let recording = run("borrower");
    let process = recording.only().assert_sound();
    assert_accounted(process, 2 * ROUNDS);
    assert!(!process.info.sandboxed());
}

#[test]
fn a_system_without_reservations_is_recorded() {
    let recording = run("no-reservation");
    let [before, after] = recording.processes.as_slice() else { panic!("{:?}", recording.commands()) };
    assert_eq!(before.assert_sound().tally(7000), (BEFORE, BEFORE, 0));
    assert_accounted(after.assert_sound(), 2 * ROUNDS);
}

#[test]
fn a_program_that_would_inherit_a_filter_that_kills_for_a_recording_begins_without_one() {
    let recording = run("no-beginnings");
    let before = recording.only().assert_sound();
    assert_eq!(before.tally(7000), (BEFORE, BEFORE, 0));
    assert!(before.info.sandboxed());
}

#[test]
fn a_filter_the_kernel_does_not_take_changes_nothing() {
    let recording = run("refused");
    let process = recording.only().assert_sound();
    assert_accounted(process, 2 * ROUNDS);
    assert!(!process.info.sandboxed());
}

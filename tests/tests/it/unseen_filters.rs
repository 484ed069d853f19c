//! Programs that lock themselves in by a system call instruction of their own: only the command, outside of them, can see it.
use crate::sandbox::{BEFORE, ROUNDS, assert_accounted};
use memscope_format::decode::EventKind;
use memscope_format::layout::StopReason;
use memscope_tests::{Recording, Workshop, command, finish};
use std::process::Stdio;

/// Runs `own_filter.c` under the command, whose keeper looks at it from outside.
fn run(how: &str) -> (Recording, String) {
    let workshop = Workshop::new();
    let program = workshop.compile("own_filter.c");
    let output = workshop.path("output");
    let mut command = command();
    command
        .args(["--device=cpu", "--data-format=none", "-o"])
        .arg(&output)
        .arg("--")
        .arg(program)
        .arg(how)
        .arg(&output);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = finish(command.spawn().expect("the command can be started"));
    let report = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{:?}\n{report}", run.status);
    (Recording::open(&output, run), report)
}

#[test]
fn a_filter_that_no_library_saw_is_noticed_from_outside_and_ends_the_recording_and_not_the_program() {
    for how in ["main", "thread"] {
        let (recording, report) = run(how);
        let process = recording.only();
        assert_eq!(process.outcome.damage, []);
        assert_eq!(process.tally(7000), (BEFORE, BEFORE, 0));
        assert_eq!(process.info.stop_reason, StopReason::UnknownFilter, "{report}");
        assert!(report.contains("a seccomp filter by a system call of its own"), "{report}");
        let recorded = process.raw.iter().filter(|event| matches!(event.kind, EventKind::HostAlloc { size: 7002, .. }));
        let missing = 2 * (ROUNDS - recorded.count()) as u64;
        assert!((missing - 1..missing + 10).contains(&process.outcome.lost_events), "{missing} missing\n{report}");
    }
}

#[test]
fn a_child_under_such_a_filter_lives_and_its_parent_says_that_it_is_not_recorded() {
    let (recording, report) = run("children");
    assert!(recording.only().info.sandboxed());
    assert!(report.contains("threads and forked children that began under it are not recorded"), "{report}");
}

#[test]
fn a_filter_that_was_seen_or_is_from_before_the_program_does_not_end_the_recording() {
    let (recording, report) = run("counted");
    assert_accounted(recording.only().assert_sound(), 2 * ROUNDS);
    assert_eq!(recording.only().info.filters_counted, 0, "{report}");
    let (recording, report) = run("next-image");
    let after = recording.processes.last().expect("the second image is recorded");
    assert_accounted(after.assert_sound(), 2 * ROUNDS);
    assert_eq!(after.info.filters_counted, 0, "{report}");
}

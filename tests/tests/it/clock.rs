//! Where the times of a recording come from.
use memscope_format::layout::{ClockKind, StopReason};
use memscope_tests::{Recorder, Recording, Workshop, finish, root_for};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right").as_nanos() as u64
}

#[test]
fn a_library_that_tells_the_program_another_time_does_not_tell_us() {
    let workshop = Workshop::new();
    let program = workshop.compile("unreliable.c");
    let liar = workshop.compile_library("liar.c", "libliar.so", &[]);
    let began = now_ns();
    let recording = workshop.run_both(&workshop.recorder().preload_after(&liar), || Command::new(&program));
    let process = recording.only().assert_sound();
    assert_eq!(process.tally(8002), (100_000, 100_000, 0));
    let times = [process.info.start, process.outcome.first_time, process.outcome.last_time].map(|time| time.0);
    assert!(times.is_sorted() && times[0] >= began && times[2] <= now_ns(), "{began} {times:?}");
}

/// Runs the program recorded, in a world of its own in which the kernel says it goes by this clock source.
fn run_with_clock_source(workshop: &Workshop, name: &str, program: &Path, arguments: &[&str]) -> Recording {
    let recorder: Recorder = workshop.recorder();
    let source = workshop.path("clocksource");
    fs::write(&source, format!("{name}\n")).expect("the workshop can be written to");
    let script = "mount --bind \"$0\" /sys/devices/system/clocksource/clocksource0/current_clocksource && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(source).arg("env");
    command.args(recorder.environment().map(|(name, value)| format!("{name}={value}"))).arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("unshare is needed and cannot be run"));
    assert!(output.status.success(), "{output:?}");
    Recording::open(recorder.output(), output)
}

#[test]
fn the_counter_is_not_used_where_the_kernel_has_given_it_up() {
    if !root_for("mount a file over another") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("unreliable.c");
    let began = now_ns();
    let recording = run_with_clock_source(&workshop, "hpet", &program, &[]);
    let process = recording.only().assert_sound();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(process.info.clock, ClockKind::Monotonic);
    }
    assert_eq!(process.tally(8002), (100_000, 100_000, 0));
    let times = [process.info.start, process.outcome.first_time, process.outcome.last_time].map(|time| time.0);
    assert!(times.is_sorted() && times[0] >= began && times[2] <= now_ns(), "{began} {times:?}");
}

#[test]
fn a_clock_that_may_be_a_system_call_is_not_read_under_a_filter_that_forbids_it() {
    if !root_for("mount a file over another") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("sandbox.c");
    let recording = run_with_clock_source(&workshop, "hpet", &program, &["no-clock", "1000"]);
    let process = recording.only();
    assert_eq!((process.tally(7000), process.tally(7001)), ((1000, 1000, 0), (1, 1, 0)));
    if cfg!(target_arch = "x86_64") {
        assert_eq!((process.outcome.lost_events, process.info.stop_reason), (200_000, StopReason::Sandbox));
    }
}

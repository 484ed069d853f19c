//! Programs that change the ground under themselves, and disks that are full.
use memscope_format::layout::StopReason;
use memscope_tests::{Recorder, Recording, Workshop, finish, is_root, root_for};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn run(arguments: &[&str]) -> Recording {
    let workshop = Workshop::new();
    let program = workshop.compile("surroundings.c");
    workshop.run_both(&workshop.recorder(), || {
        let mut command = Command::new(&program);
        command.args(arguments);
        command
    })
}

#[test]
fn descriptors_closed_and_taken_by_the_program_are_left_alone() {
    let recording = run(&["closefrom"]);
    let process = recording.only().assert_sound();
    assert_eq!((process.tally(6001), process.tally(6002)), ((1000, 1000, 0), (100_000, 100_000, 0)));
}

#[test]
fn moving_the_output_away_does_not_end_the_recording() {
    let workshop = Workshop::new();
    let program = workshop.compile("surroundings.c");
    let (before, after) = (workshop.directory("before"), workshop.path("after"));
    let output = workshop.directory("before/recorded");
    let mut command = Command::new(&program);
    command.arg("rename").args([&before, &after]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = Recorder::into_directory(&output).apply(&mut command).spawn().expect("the program starts");
    let ended = finish(child);
    assert!(ended.status.success(), "{ended:?}");
    let recording = Recording::open(&after.join("recorded"), ended);
    assert_eq!(recording.only().assert_sound().tally(6002), (100_000, 100_000, 0));
}

#[test]
fn a_program_with_few_descriptors_is_recorded_and_can_open_files() {
    let recording = run(&["few-files"]);
    let process = recording.only().assert_sound();
    assert_eq!((process.tally(6001), process.tally(6002)), ((100_000, 100_000, 0), (100_000, 100_000, 0)));
}

#[test]
fn a_limit_on_file_sizes_ends_the_recording_and_not_the_program() {
    let recording = run(&["small-files"]);
    let process = recording.only();
    assert_eq!(process.outcome.damage, []);
    assert_eq!(process.info.stop_reason, StopReason::WriteFailed);
    let churned = process.raw.len() as u64 + process.outcome.lost_events;
    assert!(process.outcome.lost_events > 0 && churned >= 400_000, "{churned}");
}

#[test]
fn a_program_that_drops_its_rights_stays_recorded() {
    if !root_for("drop root's rights") {
        return;
    }
    let recording = run(&["drop-root"]);
    let [parent, child] = recording.processes.as_slice() else { panic!("{:?}", recording.commands()) };
    parent.assert_sound();
    assert_eq!((parent.tally(6001), parent.tally(6002)), ((1000, 1000, 0), (100_000, 100_000, 0)));
    assert_eq!(child.assert_sound_child().tally(6003), (100, 100, 0));
}

/// Runs `burst` with the counter behind the library; returns the recording and how many events there were.
fn counted_burst(workshop: &Workshop, recorder: &Recorder, threads: &str, rounds: &str) -> (Recording, u64) {
    let program = workshop.compile("burst.c");
    let counter = workshop.compile_library("counter.c", "libcounter.so", &[]);
    let counts = workshop.path("counts");
    fs::write(&counts, [0; 4096]).unwrap();
    let recording = workshop.run_both(&recorder.clone().preload_after(&counter), || {
        fs::write(&counts, [0; 4096]).unwrap();
        let mut command = Command::new(&program);
        command.args([threads, rounds]).env("COUNTER_FILE", &counts);
        command
    });
    (recording, counted_events(&counts))
}

fn counted_events(counts: &Path) -> u64 {
    let counts = fs::read(counts).unwrap();
    counts[..16].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).sum()
}

fn heap_events(recording: &Recording) -> u64 {
    use memscope_format::decode::EventKind::{HostAlloc, HostFree};
    let events = recording.only().raw.iter();
    events.filter(|event| matches!(event.kind, HostAlloc { .. } | HostFree { .. })).count() as u64
}

#[test]
fn a_size_cap_is_kept_and_what_is_left_out_is_counted() {
    for (threads, cap) in [("1", 1_000_000), ("4", 3_000_000)] {
        let workshop = Workshop::new();
        let recorder = workshop.recorder().size_cap(cap);
        let (recording, happened) = counted_burst(&workshop, &recorder, threads, "200000");
        let process = recording.only();
        assert_eq!(process.outcome.damage, []);
        assert_eq!(process.info.stop_reason, StopReason::SizeCap);
        assert!(process.outcome.lost_events > 0);
        assert_eq!(heap_events(&recording) + process.outcome.lost_events, happened, "{threads} threads");
        assert!(process.file_sizes() <= cap, "{} of {cap} bytes", process.file_sizes());
    }
}

#[test]
fn a_size_cap_holds_for_many_threads() {
    let workshop = Workshop::new();
    let recorder = workshop.recorder().size_cap(2_000_000);
    let (recording, happened) = counted_burst(&workshop, &recorder, "40", "20000");
    let process = recording.only();
    assert!(process.file_sizes() <= 2_000_000, "{} bytes", process.file_sizes());
    assert_eq!(process.info.stop_reason, StopReason::SizeCap);
    assert_eq!(heap_events(&recording) + process.outcome.lost_events, happened);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    for (threads, c_depth) in [("1", 0), ("4", 0), ("2", 16)] {
        let workshop = Workshop::new();
        let program = workshop.compile("burst.c");
        let counter = workshop.compile_library("counter.c", "libcounter.so", &[]);
        let (counts, disk, kept) = (workshop.path("counts"), workshop.directory("disk"), workshop.path("kept"));
        fs::write(&counts, [0; 4096]).unwrap();
        let recorder = Recorder::into_directory(&disk.join("recorded")).c_stacks(c_depth).preload_after(&counter);
        // The mount lives and dies with the namespace, so the recording is copied out of it at the end.
        let script = "mount -t tmpfs -o size=3m tmpfs \"$1\" || exit 77
            shift; kept=$1; shift
            env \"$@\"; status=$?
            cp -r \"$DISK/recorded\" \"$kept\" || exit 78
            exit $status";
        let mut command = Command::new("unshare");
        command.arg(if is_root() { "-m" } else { "-Urm" }).args(["sh", "-c", script, "sh"]).arg(&disk).arg(&kept);
        command.args(recorder.environment().map(|(name, value)| format!("{name}={value}")));
        command.arg(format!("COUNTER_FILE={}", counts.display())).arg(&program).args([threads, "300000"]);
        command.env("DISK", &disk).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = finish(command.spawn().expect("unshare is installed"));
        assert_ne!(ended.status.code(), Some(77), "no tmpfs can be mounted, neither as root nor in a user namespace");
        let expected = format!("{threads} threads, 300000 rounds\n");
        assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(0), expected.as_bytes()), "{ended:?}");
        assert_eq!(ended.stderr, b"");

        let recording = Recording::open(&kept, ended);
        let process = recording.only();
        let enospc = 28;
        assert_eq!((process.info.stop_reason, process.info.stop_errno), (StopReason::WriteFailed, enospc));
        assert!(process.outcome.lost_events > 0);
        let known = heap_events(&recording) + process.outcome.lost_events;
        let own = counted_events(&counts).checked_sub(known).expect("no more is recorded and lost than was counted");
        let most = 2 * recorder.most_own_allocations();
        assert!(own <= most && own.is_multiple_of(2), "{own} missing: {threads} threads, C stacks of {c_depth}");
        assert_eq!(process.outcome.damage, [], "all that was recorded is readable");
        assert!(process.file_sizes() > 2 << 20, "the disk was used");
    }
}

#[test]
fn fibers_on_stacks_of_any_size_are_told_apart() {
    let workshop = Workshop::new();
    let program = workshop.compile("fibers.c");
    let recording = workshop.run_both(&workshop.recorder().c_stacks(16), || {
        let mut command = Command::new(&program);
        command.args(["16", "64", "256", "1024", "256", "6144", "12288", "16"]);
        command
    });
    let process = recording.only().assert_sound();
    for (size, function) in [(6201, "work_of_first"), (6202, "work_of_second"), (6203, "work_of_third")] {
        let allocations = process.allocations(size);
        assert_eq!(allocations.len(), 80);
        for event in allocations {
            assert_eq!(process.functions(event.at.stack)[..3], ["allocate", function, "run"]);
        }
    }
}

//! What the command tells after the run of a real program.
use memscope_tests::{Recording, Workshop, command, finish, is_root};
use std::process::{Command, Stdio};

/// The summary after `programs/<source>` ran under the command.
fn summary_of(source: &str) -> String {
    let workshop = Workshop::new();
    let program = workshop.compile(source);
    let mut command = command();
    command.arg("--device=cpu").arg("-o").arg(workshop.path("output")).arg("--").arg(&program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("the command can be started"));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_heap_that_was_not_seen_is_admitted() {
    const ADMITTED: &str = "the heap of this program was not seen: it has an allocator of its own";
    let own = summary_of("own_malloc.c");
    assert!(own.contains(ADMITTED), "{own}");
    for ordinary in ["heap_calls.c", "mappings.c"] {
        let text = summary_of(ordinary);
        assert!(text.contains("1 process recorded") && !text.contains(ADMITTED), "{text}");
    }
}

#[test]
fn a_process_that_could_make_no_files_and_tell_nobody_is_named() {
    let workshop = Workshop::new();
    let program = workshop.compile("hostile.c");
    let mut command = command();
    command.arg("--device=cpu").arg("-o").arg(workshop.path("output")).arg("--").arg(&program).arg("no_files");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("the command can be started"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 process recorded") && text.contains("1 process NOT RECORDED"), "{text}");
    assert!(text.contains("it could make no files: no file descriptor was left to it"), "{text}");
}

#[test]
fn without_files_there_is_a_summary_and_a_recording_that_can_be_exported() {
    let workshop = Workshop::new();
    let program = workshop.compile("heap_calls.c");
    let output = workshop.path("output");
    let run = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the command can be started"))
    };
    let recorded =
        run(command().args(["--device=cpu", "--data-format=none", "-o"]).arg(&output).arg("--").arg(&program));
    let text = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert!(text.contains("1 process recorded") && text.contains("cpu HOST: peak "), "{text}");
    assert!(text.contains("no files, as --data-format=none says") && !text.contains("files:"), "{text}");
    let recording = Recording::open(&output, recorded);
    let [process] = recording.of("heap_calls")[..] else { panic!("{:?}", recording.commands()) };
    assert!(!process.directory.join("device_cpu").exists());
    let exported = run(command().arg("export").arg(&output));
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    assert!(process.directory.join("device_cpu/dump").is_dir());
}

#[test]
fn the_peak_of_a_program_that_reserves_terabytes_is_what_it_made_usable() {
    let text = summary_of("reservations.c");
    let line = text.lines().find(|line| line.contains("cpu HOST: peak ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("peak 14.") && line.contains(" MiB after"), "{line}");
    assert!(line.contains("at most 4.0 TiB of address space reserved and not usable"), "{line}");
}

#[test]
fn a_child_with_address_sanitizer_runs_as_ever_and_is_recorded() {
    let workshop = Workshop::new();
    let program = workshop.compile_as("frames.c", "frames", &["-fsanitize=address"]);
    let run = |command: &mut Command| {
        command.args(["sh", "-c", "\"$1\"; exit $?", "sh"]).arg(&program).env("ASAN_OPTIONS", "detect_leaks=0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the command can be started"))
    };
    let bare = run(&mut Command::new("env"));
    let output = workshop.path("output");
    let recorded = run(command().args(["--device=cpu", "--call-stack=c", "-o"]).arg(&output).arg("--"));
    assert_eq!((bare.status, &bare.stdout), (recorded.status, &recorded.stdout), "{recorded:?}");
    let recording = Recording::open(&output, recorded);
    let [process] = recording.of("frames")[..] else { panic!("{:?}", recording.commands()) };
    let [event] = process.allocations(31337)[..] else { panic!("one allocation") };
    assert_eq!(process.functions(event.at.stack)[..2], ["inner", "middle"]);
}

#[test]
fn the_end_of_the_program_is_named_after_the_run_and_later() {
    let ends = [
        ("kill -KILL $$", "killed by SIGKILL"),
        ("ulimit -c 0; kill -SEGV $$", "killed by SIGSEGV"),
        ("exit 3", "exited with status 3"),
        ("exit 0", "exited"),
    ];
    for (script, words) in ends {
        let workshop = Workshop::new();
        let output = workshop.path("output");
        let run = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            finish(command.spawn().expect("the command can be started"))
        };
        let ended = run(command().arg("--device=cpu").arg("-o").arg(&output).args(["--", "sh", "-c", script]));
        let bare = run(Command::new("sh").args(["-c", script]));
        assert_eq!(ended.status.to_string(), bare.status.to_string(), "{ended:?}");
        let info = run(command().arg("info").arg(&output));
        for told in [&ended.stderr, &info.stdout] {
            let told = String::from_utf8_lossy(told);
            let line = told.lines().find(|line| line.contains(" events, ") && line.contains(" sh -c "));
            assert!(line.is_some_and(|line| line.ends_with(&format!(" events, {words}"))), "{script}: {told}");
        }
    }
}

/// The summary of a run whose output is on a disk of that size, what `info` says afterwards, and the status of the run.
fn on_a_small_disk(size: &str, script: &str) -> (String, String, Option<i32>) {
    let workshop = Workshop::new();
    let (program, disk) = (workshop.compile("burst.c"), workshop.directory("disk"));
    let within = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\" || exit 77
        \"$3\" --device=cpu -o \"$2/output\" -- sh -c \"$4\" sh \"$5\"; status=$?
        \"$3\" info \"$2/output\"
        exit $status";
    let mut unshare = Command::new("unshare");
    unshare.arg(if is_root() { "-m" } else { "-Urm" }).args(["sh", "-c", within, "sh", size]).arg(&disk);
    unshare.arg(command().get_program()).arg(script).arg(&program);
    unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = finish(unshare.spawn().expect("unshare is installed"));
    assert_ne!(ended.status.code(), Some(77), "no tmpfs can be mounted, neither as root nor in a user namespace");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ended.stderr), text(&ended.stdout), ended.status.code())
}

/// `2 processes recorded: 1,000 events, 3 LOST`, without what follows.
fn headline(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains(" recorded: ")).unwrap_or_else(|| panic!("{text}"));
    let line = line.strip_prefix("[msmemscope] ").unwrap_or(line);
    line.split(';').next().unwrap_or(line)
}

#[test]
fn files_that_do_not_fit_the_disk_take_nothing_from_the_summary() {
    let (summary, info, status) = on_a_small_disk("30m", "\"$1\" 1 300000 >&2; true");
    assert_eq!(headline(&summary), headline(&info), "{summary}");
    assert!(
        headline(&info).starts_with("2 processes recorded: ") && headline(&info).ends_with(", none lost"),
        "{info}"
    );
    assert!(summary.contains("; files of 1 process could NOT be written"), "{summary}");
    let unwritten: Vec<&str> = summary.lines().filter(|line| line.contains("NOT EXPORTED: ")).collect();
    assert!(matches!(unwritten[..], [line] if line.contains("_cpu") || line.contains(".csv")), "{summary}");
    assert!(summary.contains("the recording is kept, export it with: msmemscope export "), "{summary}");
    assert_eq!(status, Some(3), "{summary}");
}

#[test]
fn the_programs_own_failure_goes_before_that_of_its_files() {
    let (summary, _, status) = on_a_small_disk("30m", "\"$1\" 1 300000 >&2; exit 5");
    assert!(summary.contains("could NOT be written"), "{summary}");
    assert_eq!(status, Some(5), "{summary}");
}

#[test]
fn a_process_that_begins_on_a_full_disk_is_named_and_leaves_nothing() {
    let (summary, info, _) = on_a_small_disk("2m", "\"$1\" 1 300000 >&2; \"$1\" 1 1 >&2; true");
    for text in [&summary, &info] {
        assert!(!text.contains("could NOT be read"), "{text}");
    }
    assert!(summary.contains("; 1 process NOT RECORDED"), "{summary}");
    assert!(summary.contains(" burst: NOT RECORDED: there is no space for its recording: No space left"), "{summary}");
}

#[test]
fn a_disk_that_is_full_of_the_recording_costs_no_word_of_the_summary() {
    let (summary, info, status) = on_a_small_disk("2m", "\"$1\" 1 300000 >&2; true");
    assert_eq!(headline(&summary), headline(&info), "{summary}");
    assert!(headline(&info).starts_with("2 processes recorded: ") && headline(&info).ends_with(" LOST"), "{info}");
    assert!(summary.contains("the recording could not be written: No space left on device"), "{summary}");
    let line = info.lines().find(|line| line.contains(" sh -c ")).unwrap_or_else(|| panic!("{info}"));
    assert!(line.ends_with(" events, exited"), "{info}");
    assert!(summary.contains("config.json: No space left on device"), "{summary}");
    assert_eq!(status, Some(3), "{summary}");
}

//! The command beside its program: files for processes that cannot make theirs, and a word on those without a recording.
use memscope_tests::{Recording, Workshop, command, finish, library, python, root_for};
use std::ffi::OsStr;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs `words` under the command, recording host memory into `output`.
fn run(output: &Path, words: &[&OsStr]) -> Output {
    let mut command = command();
    command.arg("--device=cpu").arg("-o").arg(output).arg("--").args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the command can be started"))
}

fn summary(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The directory is the test's own and closed to others, as a user's output directory is.
fn output_directory(workshop: &Workshop) -> std::path::PathBuf {
    let output = workshop.path("output");
    fs::DirBuilder::new().create(&output).unwrap();
    fs::set_permissions(&output, Permissions::from_mode(0o700)).unwrap();
    output
}

#[test]
fn a_process_that_becomes_another_user_is_recorded_with_its_children() {
    if !root_for("become another user") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("other_user.c");
    let output = output_directory(&workshop);
    let run = run(&output, &[program.as_os_str()]);
    assert!(run.status.success(), "{run:?}");
    assert!(!summary(&run).contains("NOT RECORDED"), "{}", summary(&run));
    let recording = Recording::open(&output, run);
    let tallies = [(1111, 11, 10), (1112, 11, 10), (2222, 20_001, 20_000), (3333, 30_001, 30_000)];
    for (size, allocations, frees) in tallies {
        let holders = recording.processes.iter().filter(|process| !process.allocations(size).is_empty());
        let [process] = holders.collect::<Vec<_>>()[..] else { panic!("{size}: {:?}", recording.commands()) };
        process.assert_sound_child();
        assert_eq!(process.tally(size), (allocations, frees, 1));
    }
    // All that was written is the user's who runs the command.
    for process in &recording.processes {
        assert_eq!(fs::metadata(process.directory.join("spool/events.spool")).unwrap().uid(), 0);
    }
    let last = recording.processes.iter().find(|process| !process.allocations(3333).is_empty()).unwrap();
    assert!(last.info.command.ends_with(" again"), "{}", last.info.command);
}

#[test]
fn a_process_in_another_root_directory_is_recorded() {
    if !root_for("change the root directory") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("other_user.c");
    let (output, root) = (output_directory(&workshop), workshop.directory("empty"));
    let run = run(&output, &[program.as_os_str(), root.as_os_str()]);
    assert!(run.status.success(), "{run:?}");
    let recording = Recording::open(&output, run);
    let child = recording.processes.iter().find(|process| !process.allocations(2222).is_empty());
    assert_eq!(child.expect("the child is recorded").assert_sound_child().tally(2222), (20_001, 20_000, 1));
}

#[test]
fn a_process_without_space_for_its_recording_is_named_with_the_reason() {
    let workshop = Workshop::new();
    let program = workshop.compile("heap_calls.c");
    let output = output_directory(&workshop);
    let script = format!("ulimit -f 0; exec {}", program.display());
    let run = run(&output, &[OsStr::new("bash"), OsStr::new("-c"), OsStr::new(&script)]);
    let text = summary(&run);
    let told = text.lines().find(|line| line.contains("heap_calls")).unwrap_or_else(|| panic!("{text}"));
    assert!(told.contains("NOT RECORDED: there is no space for its recording: No space left on device"), "{text}");
    let info = command().arg("info").arg(&output).output().unwrap();
    assert!(String::from_utf8_lossy(&info.stdout).contains("heap_calls: NOT RECORDED"), "{info:?}");
}

#[test]
fn children_that_cannot_hold_the_library_are_named_with_the_reason() {
    let workshop = Workshop::new();
    let dynamic = workshop.compile("waits_for_note.c");
    let unloadable = workshop.compile_as("waits_for_note.c", "static_child", &["-static"]);
    let output = output_directory(&workshop);
    let script = format!("{1} {0} && env -i {2} {0}", output.display(), unloadable.display(), dynamic.display());
    let run = run(&output, &[OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&script)]);
    let text = summary(&run);
    assert!(run.status.success(), "{text}");
    assert!(text.contains("2 processes NOT RECORDED"), "{text}");
    for (name, reason) in
        [("static_child", "it is statically linked"), ("waits_for_note", "its environment was cleared")]
    {
        let told = text.lines().find(|line| line.contains(name) && line.contains("NOT RECORDED"));
        assert!(told.is_some_and(|line| line.contains(reason)), "{name}: {text}");
    }
}

#[test]
fn ordinary_children_are_not_said_to_be_missing() {
    let workshop = Workshop::new();
    let program = workshop.compile("heap_calls.c");
    let output = output_directory(&workshop);
    let script = format!("for i in 1 2 3; do {} > /dev/null; done; (true); sh -c true", program.display());
    let run = run(&output, &[OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&script)]);
    assert!(run.status.success() && !summary(&run).contains("NOT RECORDED"), "{}", summary(&run));
}

#[test]
fn a_set_uid_child_is_named_by_a_command_that_may_not_look_at_it() {
    const NOBODY: u32 = 65534;
    if !root_for("make a program that gains rights") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("waits_for_note.c");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let output = output_directory(&workshop);
    chown(&output, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = command();
    command.uid(NOBODY).gid(NOBODY).current_dir("/").arg("--device=cpu").arg("-o").arg(&output);
    command.args(["--", "sh", "-c", "\"$0\" \"$1\""]).arg(&program).arg(&output);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = finish(command.spawn().expect("the command can be started"));
    let text = summary(&run);
    assert!(run.status.success(), "{text}");
    let told =
        text.lines().find(|line| line.contains("waits_for_note: NOT RECORDED")).unwrap_or_else(|| panic!("{text}"));
    assert!(told.contains("the loader ignores LD_PRELOAD") && told.ends_with("(user 0)"), "{text}");
}

#[test]
fn a_hundred_processes_of_another_user_at_once_are_all_recorded() {
    if !root_for("become another user") {
        return;
    }
    const SCRIPT: &str = "for i in $(seq 100); do ls / > /dev/null & done; wait";
    let workshop = Workshop::new();
    let output = output_directory(&workshop);
    let words = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", SCRIPT].map(OsStr::new);
    let run = run(&output, &words);
    assert!(run.status.success() && !summary(&run).contains("NOT RECORDED"), "{}", summary(&run));
    assert_eq!(Recording::open(&output, run).of("ls").len(), 100);
}

#[test]
fn a_keeper_that_says_nothing_holds_nobody_up() {
    let workshop = Workshop::new();
    let program = workshop.compile("heap_calls.c");
    let libraries = [library("libascend_kernel_hook.so"), library("libmsmemscope_host.so")];
    let libraries = libraries.map(|path| path.display().to_string()).join(":");
    let mut command = python();
    command.arg(workshop.script("silent_keeper.py")).arg(libraries).arg(&program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = finish(command.spawn().expect("python3 can be started"));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "asked 0\n", "{run:?}");
}

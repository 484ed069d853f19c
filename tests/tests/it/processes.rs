//! Programs that make processes, and the ways a process ends.
use memscope_model::ProcessState;
use memscope_tests::{Recorded, Recorder, Recording, Workshop, root_for};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The workshop is returned too, because names are looked up in the program's file.
fn family(mode: &str, c_depth: u32) -> (Workshop, Recording) {
    let workshop = Workshop::new();
    let program = workshop.compile("family.c");
    let recorder = workshop.recorder().c_stacks(c_depth);
    let recording = workshop.run_both(&recorder, || {
        let mut command = Command::new(&program);
        command.arg(mode);
        command
    });
    (workshop, recording)
}

fn parent_and_child(recording: &Recording) -> (&Recorded, &Recorded) {
    let [parent, child] = recording.processes.as_slice() else { panic!("{:?}", recording.commands()) };
    assert_eq!(child.info.parent_pid, parent.info.pid);
    (parent.assert_sound(), child.assert_sound_child())
}

fn assert_both_sides_of_a_fork(recording: &Recording) {
    let (parent, child) = parent_and_child(recording);
    assert_eq!(parent.tally(1001), (1, 1, 0));
    assert_eq!(parent.tally(1002), (3000, 3000, 0));
    assert_eq!((parent.tally(2002), parent.tally(2003)), ((0, 0, 0), (0, 0, 0)), "the child's events in the parent");
    assert_eq!(child.tally(2002), (5000, 5000, 0));
    assert_eq!(child.tally(2003), (1, 0, 1));
    assert_eq!(child.tally(1002), (0, 0, 0), "the parent's events in the child");
    assert_eq!(child.outcome.unmatched_frees, 1, "the parent's block, freed by the child");
}

#[test]
fn both_sides_of_a_fork_are_recorded_apart() {
    assert_both_sides_of_a_fork(&family("fork", 0).1);
}

#[test]
fn both_sides_of_a_fork_are_recorded_apart_with_stacks() {
    let (_workshop, recording) = family("fork", 16);
    assert_both_sides_of_a_fork(&recording);
    for (process, size) in [(&recording.processes[0], 1002), (&recording.processes[1], 2002)] {
        let stack = process.allocations(size)[0].at.stack;
        assert_eq!(process.functions(stack)[..2], ["fork_once", "main"]);
    }
}

#[test]
fn a_wiped_environment_does_not_keep_a_child_from_being_recorded() {
    assert_both_sides_of_a_fork(&family("clearenv", 0).1);
}

#[test]
fn forks_among_running_threads_are_recorded() {
    let (_workshop, recording) = family("threads", 8);
    assert_eq!(recording.processes.len(), 11);
    let parent = recording.processes[0].assert_sound();
    let churned = parent.tally(3003);
    assert!(churned.0 > 0 && churned.0 == churned.1, "{churned:?}");
    assert_eq!((parent.tally(1002), parent.tally(2002)), ((1, 1, 0), (0, 0, 0)));
    for child in &recording.processes[1..] {
        child.assert_sound_child();
        assert_eq!((child.tally(2002), child.tally(3003)), ((100, 100, 0), (0, 0, 0)));
    }
}

#[test]
fn a_fork_on_the_smallest_stack_is_recorded() {
    let (_workshop, recording) = family("small-stack", 16);
    let (_, child) = parent_and_child(&recording);
    assert_eq!(child.tally(2002), (1, 1, 0));
}

#[test]
fn a_program_started_by_vfork_is_recorded_and_its_parent_goes_on() {
    let (_workshop, recording) = family("vfork", 0);
    let (parent, child) = parent_and_child(&recording);
    assert_eq!((parent.tally(1001), parent.tally(1002)), ((1, 1, 0), (1, 1, 0)));
    assert_eq!((child.tally(4004), child.tally(1001)), ((1, 1, 0), (0, 0, 0)));
}

#[test]
fn a_spawned_program_is_recorded() {
    let (_workshop, recording) = family("spawn", 0);
    let (parent, child) = parent_and_child(&recording);
    assert_eq!((parent.tally(1001), parent.tally(1002)), ((1, 1, 0), (1, 1, 0)));
    assert_eq!(child.tally(4004), (1, 1, 0));
}

#[test]
fn exec_in_place_makes_two_recordings_of_one_process() {
    let (_workshop, recording) = family("exec", 0);
    let [before, after] = recording.processes.as_slice() else { panic!("{:?}", recording.commands()) };
    assert_eq!(before.info.pid, after.info.pid);
    assert_eq!((before.assert_sound().tally(1001), before.tally(4004)), ((1, 1, 0), (0, 0, 0)));
    assert_eq!((after.assert_sound().tally(1001), after.tally(4004)), ((0, 0, 0), (1, 1, 0)));
    assert_eq!((before.info.state, after.info.state), (ProcessState::NotEnded, ProcessState::Ended));
}

#[test]
fn children_that_allocate_nothing_leave_nothing() {
    for c_depth in [0, 16] {
        let workshop = Workshop::new();
        let program = workshop.compile("silent_children.c");
        let recording = workshop.run_both(&workshop.recorder().c_stacks(c_depth), || Command::new(&program));
        assert_eq!(recording.only().allocations(100).len(), 1);
    }
}

fn ending(mode: &str) -> Recording {
    let workshop = Workshop::new();
    let program = workshop.compile("endings.c");
    let recording = workshop.run_both(&workshop.recorder(), || {
        let mut command = Command::new(&program);
        command.arg(mode);
        command
    });
    let process = recording.only().assert_sound();
    assert_eq!(process.tally(8000), (1, 0, 1), "from a constructor");
    assert_eq!(process.tally(8001), (1, 0, 1), "from main");
    recording
}

#[test]
fn an_exit_is_recorded_with_what_its_handlers_allocate() {
    let recording = ending("exit");
    let process = recording.only();
    assert_eq!((process.tally(8002), process.tally(8009)), ((1, 0, 1), (1, 0, 1)));
    assert_eq!((recording.output.status.code(), process.info.state), (Some(3), ProcessState::Ended));
}

#[test]
fn ends_without_handlers_are_recorded() {
    for (mode, code) in [("_exit", Some(3)), ("abort", None), ("kill", None)] {
        let recording = ending(mode);
        let process = recording.only();
        assert_eq!((process.tally(8002), process.tally(8009)), ((0, 0, 0), (0, 0, 0)), "{mode}");
        assert_eq!((recording.output.status.code(), process.info.state), (code, ProcessState::NotEnded), "{mode}");
    }
}

#[test]
fn a_quick_exit_is_recorded_with_what_its_handler_allocates() {
    let recording = ending("quick_exit");
    assert_eq!((recording.only().tally(8002), recording.only().tally(8009)), ((1, 0, 1), (0, 0, 0)));
}

#[test]
fn a_fault_handler_on_an_alternate_stack_allocates_and_exits() {
    let recording = ending("segv");
    assert_eq!(recording.only().tally(8003), (1, 0, 1));
    assert_eq!(recording.output.status.code(), Some(7));
}

#[test]
fn shell_scripts_with_pipes_and_subshells_run_as_ever() {
    let workshop = Workshop::new();
    let script = workshop.script("pipeline.sh");
    let recording = workshop.run_both(&workshop.recorder().c_stacks(8), || {
        let mut command = Command::new("bash");
        command.arg(&script).env("LC_ALL", "C");
        command
    });
    assert!(recording.stdout().contains("subshell said 3"), "{}", recording.stdout());
    for tool in ["bash", "ls", "sort", "find", "grep", "wc", "tr", "cat", "mkdir"] {
        let found = recording.of(tool);
        assert!(!found.is_empty(), "{tool} is not among {:?}", recording.commands());
        assert!(found.iter().all(|process| !process.raw.is_empty()), "{tool} has no events");
    }
    // Subshells free what their parents allocated, so frees may be unmatched.
    recording.processes.iter().for_each(|process| {
        process.assert_sound_child();
    });
    // The script's last command took over the shell's own process.
    let shells: HashSet<u32> = recording.of("bash").iter().map(|process| process.info.pid).collect();
    assert!(recording.of("ls").iter().any(|process| shells.contains(&process.info.pid)));
}

/// Runs a command as another user; only root can.
fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]);
    command
}

#[test]
fn a_set_user_id_program_runs_unrecorded() {
    if !root_for("start a program as another user") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("surroundings.c");
    let recorder = workshop.recorder();
    // The variables are set behind setpriv, so that neither it nor env is recorded.
    let run = |recorder: Option<&Recorder>| {
        let mut command = as_nobody();
        let variables = recorder.map(Recorder::environment).into_iter().flatten();
        command.args(variables.map(|(name, value)| format!("{name}={value}")));
        command.arg(&program).arg("secure").current_dir("/").output().expect("setpriv is installed")
    };
    let ordinary = run(Some(&recorder));
    assert_eq!((ordinary.status.code(), ordinary.stdout.as_slice()), (Some(0), b"0\n".as_slice()));
    let recorded = Recording::open(recorder.output(), ordinary);
    assert_eq!(recorded.only().assert_sound().tally(6001), (10, 10, 0));

    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("the program is ours");
    let bare = run(None);
    let privileged = run(Some(&recorder));
    assert_eq!(bare.stdout, b"1\n", "the file system honours set-user-id");
    assert_eq!(
        (bare.status, bare.stdout, bare.stderr),
        (privileged.status, privileged.stdout.clone(), privileged.stderr.clone())
    );
    assert_eq!(Recording::open(recorder.output(), privileged).processes.len(), 1, "only the ordinary run");
}

//! Outputs on file systems that may go away while the program runs. They are real ones: `bindfs` serves a directory through
//! FUSE, and is killed.
use memscope_format::layout::{EVENTS_FILE, SPOOL_DIRECTORY, StopReason, WINDOWS_FILE};
use memscope_tests::{Recorded, Recorder, Recording, Workshop, finish, library, root_for};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory that is served by another process.
struct Served {
    server: Child,
    behind: PathBuf,
    mounted: PathBuf,
}

impl Served {
    fn new(workshop: &Workshop) -> Served {
        let (behind, mounted) = (workshop.directory("behind"), workshop.directory("mounted"));
        let server = Command::new("bindfs").arg("-f").args([&behind, &mounted]).stdin(Stdio::null()).spawn();
        let server = server.expect("bindfs is needed and cannot be run");
        let served = Served { server, behind, mounted };
        let deadline = Instant::now() + Duration::from_secs(30);
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
        while device(&served.mounted) == device(&served.behind) {
            assert!(
                Instant::now() < deadline,
                "bindfs did not mount {}: is there /dev/fuse?",
                served.mounted.display()
            );
            std::thread::yield_now();
        }
        served
    }

    fn kill(&mut self) {
        self.server.kill().expect("the server can be killed");
        self.server.wait().expect("the server ends");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.mounted).status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The command `msmemscope`.
fn command() -> Command {
    let library = memscope_tests::library("libascend_kernel_hook.so");
    Command::new(library.parent().and_then(Path::parent).expect("an installation").join("bin/msmemscope"))
}

/// Starts the program, has `meanwhile` done while it waits, and lets it go on to its end, which is a good one.
fn run(workshop: &Workshop, recorder: &Recorder, meanwhile: impl FnOnce()) -> Output {
    run_with(workshop, recorder, &[], meanwhile)
}

fn run_with(workshop: &Workshop, recorder: &Recorder, arguments: &[&str], meanwhile: impl FnOnce()) -> Output {
    let program = workshop.compile("unreliable.c");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = recorder.apply(&mut command).spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("the program is there");
    meanwhile();
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("the program waits");
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
    output
}

/// Has the kernel drop what it keeps of the recording in `output`, as it does when memory is short.
fn forget_cached(output: &Path) {
    for file in [WINDOWS_FILE, EVENTS_FILE] {
        let path = process_directory(output).join(SPOOL_DIRECTORY).join(file);
        let argument = format!("if={}", path.display());
        let status = Command::new("dd").args([&argument, "iflag=nocache", "count=0", "status=none"]).status();
        assert!(status.expect("dd is needed and cannot be run").success());
    }
}

/// The directory of the only process in `output`.
fn process_directory(output: &Path) -> PathBuf {
    let mut entries = fs::read_dir(output).expect("the output is there");
    entries.next().expect("a recording").expect("the output can be listed").path()
}

/// Where the windows of the only recording in `output` are.
fn windows(output: &Path) -> PathBuf {
    fs::read_link(process_directory(output).join(SPOOL_DIRECTORY).join(WINDOWS_FILE))
        .expect("the windows are elsewhere")
}

#[test]
fn a_program_whose_output_goes_away_lives_on_and_what_was_recorded_is_kept() {
    if !root_for("mount a file system") {
        return;
    }
    let workshop = Workshop::new();
    let mut served = Served::new(&workshop);
    let recorder = Recorder::into_directory(&served.mounted.clone());
    let output = run(&workshop, &recorder, || {
        forget_cached(&served.mounted);
        served.kill();
    });
    let windows = windows(&served.behind);
    let recording = Recording::open(&served.behind, output);
    let process = recording.only();
    assert!(process.info.windows_elsewhere());
    assert_eq!((process.outcome.damage.as_slice(), process.info.stop_reason), (&[][..], StopReason::WriteFailed));
    assert_eq!(process.tally(8001), (1000, 1000, 0));
    // What fits a window is there, the rest is counted.
    let (kept, freed) = (process.allocations(8002).len(), process.frees(8002).len());
    assert!(kept > 10_000, "{kept}");
    assert_eq!((kept + freed) as u64 + process.outcome.lost_events, 200_000);
    fs::remove_file(windows).expect("the windows are there");
}

#[test]
fn windows_elsewhere_are_the_users_own_and_named_by_the_recording() {
    if !root_for("mount a file system") {
        return;
    }
    let workshop = Workshop::new();
    let served = Served::new(&workshop);
    let output = run(&workshop, &Recorder::into_directory(&served.mounted), || {});
    let windows = windows(&served.mounted);
    let metadata = fs::symlink_metadata(&windows).expect("the windows are there");
    assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600, "{metadata:?}");
    let recording = Recording::open(&served.mounted, output);
    let process: &Recorded = recording.only().assert_sound();
    assert_eq!(process.tally(8002), (100_000, 100_000, 0));
    assert!(fs::symlink_metadata(process.directory.join(SPOOL_DIRECTORY).join(EVENTS_FILE)).unwrap().is_file());
    fs::remove_file(&windows).expect("the windows can be removed");
    // On another machine.
    let error = memscope_model::Process::open(&process.directory).expect_err("half of the recording is missing");
    assert!(error.to_string().contains(&windows.display().to_string()), "{error}");
}

#[test]
fn an_output_on_a_local_disk_keeps_its_windows() {
    let workshop = Workshop::new();
    let recorder = workshop.recorder();
    let output = run(&workshop, &recorder, || {});
    let recording = Recording::open(recorder.output(), output);
    assert!(!recording.only().assert_sound().info.windows_elsewhere());
}

#[test]
fn the_command_brings_the_windows_home() {
    if !root_for("mount a file system") {
        return;
    }
    let workshop = Workshop::new();
    let served = Served::new(&workshop);
    let program = workshop.compile("unreliable.c");
    let mut command = command();
    command.arg("--device=cpu").arg(format!("--output={}", served.mounted.display())).arg("--").arg(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("the command starts"));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("windows"), "{said}");
    let recording = Recording::open(&served.mounted, output);
    let process = recording.only().assert_sound();
    assert_eq!(process.tally(8002), (100_000, 100_000, 0));
    let home = process.directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE);
    assert!(fs::symlink_metadata(home).expect("the windows are there").is_file());
    let name = process.directory.file_name().expect("a name").to_str().expect("text");
    for elsewhere in ["/dev/shm", "/tmp", "/var/tmp"] {
        let left = fs::read_dir(elsewhere).into_iter().flatten().flatten();
        let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().contains(name)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn an_export_leaves_the_windows_of_a_running_process_alone_and_brings_them_home_later() {
    if !root_for("mount a file system") {
        return;
    }
    let workshop = Workshop::new();
    let served = Served::new(&workshop);
    let export = || {
        let mut export = command();
        export.arg("export").arg(&served.mounted);
        export.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(export.spawn().expect("the command starts"));
        assert!(output.status.success(), "{output:?}");
    };
    let mut away = PathBuf::new();
    // The program closes our descriptors, which does not make it another's.
    let output = run_with(&workshop, &Recorder::into_directory(&served.mounted), &["close"], || {
        export();
        away = windows(&served.mounted);
        assert!(away.is_file());
    });
    export();
    assert!(!away.exists());
    let recording = Recording::open(&served.mounted, output);
    assert_eq!(recording.only().assert_sound().tally(8002), (100_000, 100_000, 0));
}

#[test]
fn nothing_is_recorded_where_windows_can_be_kept_nowhere_and_readers_say_so() {
    if !root_for("mount a file system") {
        return;
    }
    let workshop = Workshop::new();
    let served = Served::new(&workshop);
    let program = workshop.compile("unreliable.c");
    // A world of its own for the mounts, in which the workshop is to be found under another name.
    let script = "mount --rbind \"$0\" /mnt && \
                  for place in /dev/shm /tmp /var/tmp; do mount -t tmpfs -o size=1m none $place || exit 3; done && \
                  exec env -u TMPDIR \"$@\" /mnt/unreliable";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(program.parent().expect("the workshop"));
    let recorder = Recorder::into_directory(Path::new("/mnt/mounted"));
    // So are the libraries: the installation may be below one of the places.
    let ours = ["libascend_kernel_hook.so", "libmsmemscope_host.so"];
    for name in ours {
        fs::copy(library(name), workshop.path(name)).expect("the libraries can be copied");
    }
    let settings = recorder.environment().map(|(name, value)| match name {
        "LD_PRELOAD" => format!("{name}={}", ours.map(|library| format!("/mnt/{library}")).join(":")),
        _ => format!("{name}={value}"),
    });
    command.args(settings);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("unshare is needed and cannot be run"));
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"ready\n"[..]), "{output:?}");
    let error = memscope_model::find_processes(&served.mounted, None).expect_err("there is no recording");
    assert!(error.to_string().contains("no local file system has room"), "{error}");
}

//! Compiling and running the programs.
use crate::{Recorder, Recording};
use memscope_testkit::compiled::compile;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A temporary directory with the programs of one test, open to other users because some programs change theirs.
pub struct Workshop {
    directory: TempDir,
}

impl Default for Workshop {
    fn default() -> Workshop {
        Workshop::new()
    }
}

impl Workshop {
    pub fn new() -> Workshop {
        let directory = TempDir::with_prefix("memscope-e2e-").expect("a temporary directory can be made");
        set_mode(directory.path(), 0o755);
        Workshop { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new directory that everybody may write to.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("the directory is new");
        set_mode(&path, 0o777);
        path
    }

    /// A recorder with an output directory of its own.
    pub fn recorder(&self) -> Recorder {
        Recorder::into_directory(&self.directory("recorded"))
    }

    /// Compiles `programs/<source>` and returns the program.
    pub fn compile(&self, source: &str) -> PathBuf {
        let name = Path::new(source).file_stem().and_then(OsStr::to_str).expect("a source has a name");
        self.compile_as(source, name, &[])
    }

    /// Compiles `programs/<source>` to a shared library.
    pub fn compile_library(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.compile_as(source, name, &[&["-shared", "-fPIC"], flags].concat())
    }

    pub fn compile_as(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let compiler = if source.ends_with(".cpp") { "c++" } else { "cc" };
        let output = self.path(name);
        // As distributions build for the processor, whose compilers keep frame pointers on aarch64 and on x86-64 do not.
        let frame_pointers =
            if cfg!(target_arch = "aarch64") { "-fno-omit-frame-pointer" } else { "-fomit-frame-pointer" };
        // With every call and allocation that is written.
        let as_written = ["-O1", "-g", frame_pointers, "-fno-optimize-sibling-calls", "-fno-builtin", "-pthread"];
        let strict = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"];
        // Before glibc 2.34 the loader's functions, and those of timers, are in libraries of their own.
        let libraries = ["-Wl,--push-state,--as-needed", "-ldl", "-lrt", "-Wl,--pop-state"];
        let source = program_source(source);
        let source = [source.to_str().expect("its path is text")];
        compile(compiler, &[&as_written[..], &strict, &source, flags, &libraries].concat(), &output);
        output
    }

    /// Runs the command bare and recorded, each in a fresh directory of its own; asserts that nobody can tell the
    /// difference, and opens the recording.
    pub fn run_both(&self, recorder: &Recorder, command: impl Fn() -> Command) -> Recording {
        let bare_directory = self.directory("bare-run");
        let mut bare = command();
        bare.current_dir(&bare_directory).envs(recorder.bare_environment());
        let bare = finish(start(&mut bare));
        let recorded = self.run(recorder, command());
        assert_eq!(
            (bare.status, text(&bare.stdout), text(&bare.stderr)),
            (recorded.output.status, text(&recorded.output.stdout), text(&recorded.output.stderr)),
            "the recorded run differs from the bare one"
        );
        recorded
    }

    /// Runs the command recorded, in the fresh directory `recorded-run`.
    pub fn run(&self, recorder: &Recorder, mut command: Command) -> Recording {
        command.current_dir(self.directory("recorded-run"));
        let output = finish(start(recorder.apply(&mut command)));
        Recording::open(recorder.output(), output)
    }
}

/// The source of a program.
pub(crate) fn program_source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

/// The Python interpreter itself: what is called `python3` may be a shell script that looks for it.
pub fn python() -> Command {
    let answer = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let answer = answer.expect("python3 is needed and cannot be run");
    let path = String::from_utf8(answer.stdout).expect("the interpreter's path is text");
    Command::new(path.trim_end())
}

/// The minor version of that interpreter, and of the C library: `(3.)11`, `(2.)36`.
pub fn python_minor() -> u32 {
    let mut command = python();
    let answer = command.args(["-c", "import sys; print(sys.version_info[1])"]).output();
    text(&answer.expect("python3 can be run").stdout).trim().parse().expect("a version is a number")
}

pub fn glibc_minor() -> u32 {
    let answer = Command::new("getconf").arg("GNU_LIBC_VERSION").output().expect("getconf is part of the C library");
    let version = text(&answer.stdout);
    version.trim().rsplit('.').next().and_then(|minor| minor.parse().ok()).unwrap_or_else(|| panic!("{version:?}"))
}

impl Workshop {
    /// A script of `programs/`, to be given to its interpreter.
    pub fn script(&self, name: &str) -> PathBuf {
        program_source(name)
    }
}

fn start(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}

/// Waits for the end of a program; one that hangs is killed and fails the test.
pub fn finish(child: Child) -> Output {
    // Long enough for a machine with ten times as much to do as it can.
    const DEADLINE: Duration = Duration::from_secs(240);
    let pid = child.id().to_string();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(DEADLINE) {
        Ok(output) => output.expect("the program's output can be read"),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &pid]).status();
            panic!("the program did not end within {DEADLINE:?}");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the directory is ours");
}

/// Whether the tests run as root, which some of them need.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc is mounted").uid() == 0
}

/// Whether the calling test, which needs root for `what`, can run; says so if it is skipped, on the real error stream: what
/// goes through the test harness is shown only of tests that fail.
pub fn root_for(what: &str) -> bool {
    if !is_root() {
        let test = thread::current();
        let _ = writeln!(io::stderr(), "SKIPPED {}: only root can {what}", test.name().unwrap_or("a test"));
    }
    is_root()
}

/// Numbers nobody can predict; only the moment of a kill depends on them.
pub fn random() -> impl FnMut() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let mut state = now.as_nanos() as u64 | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

//! The built command against real programs.
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use memscope_session::libraries::{HOST, RECORDER};
use memscope_session::record_config::RecordConfig;
use memscope_session::settings::Format;
use tempfile::TempDir;

const COMMAND: &str = env!("CARGO_BIN_EXE_msmemscope");

fn compile(arguments: &[&str], source: &str, result: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("source.c");
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc").args(arguments).arg("-o").arg(result).arg(&file).status().unwrap();
    assert!(status.success(), "cc {arguments:?}");
}

/// `program`, with every signal as a program finds it that nobody has prepared anything for.
fn attentive(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// An installation whose libraries do nothing, and an empty working directory.
struct Place {
    top: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { top: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.libraries()).unwrap();
        std::fs::create_dir(place.work()).unwrap();
        for name in [RECORDER, HOST] {
            compile(&["-shared", "-fPIC"], "int memscope_test_marker;\n", &place.libraries().join(name));
        }
        place
    }

    fn libraries(&self) -> PathBuf {
        self.top.path().join("lib64")
    }

    fn work(&self) -> PathBuf {
        self.top.path().join("work")
    }

    fn command(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        self.equip(Command::new(COMMAND), words)
    }

    /// As [`Place::command`], in a process that ignores no signal: the tests' own may have been started with some ignored
    /// (a shell does that to what it starts with `&`), and what is ignored is inherited.
    fn attentive_command(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        self.equip(attentive(COMMAND), words)
    }

    fn equip(&self, mut command: Command, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        command.args(words).current_dir(self.work()).env("MSMEMSCOPE_LIB_DIR", self.libraries());
        command.env_remove("LD_PRELOAD").stdin(Stdio::null());
        command
    }

    fn run(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.command(words).output().unwrap()
    }

    fn created(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.work()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Refused with one line on the error stream, and nothing else happened.
    fn refuses(&self, words: &[&str], code: i32, parts: &[&str]) {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{words:?}: {error}");
        assert!(error.starts_with("[msmemscope] error: "), "{words:?}: {error}");
        for part in parts {
            assert!(error.contains(part), "{words:?}: {part} is missing in {error}");
        }
        assert!(output.stdout.is_empty(), "{words:?}");
        assert_eq!(self.created(), Vec::<PathBuf>::new(), "{words:?}");
    }
}

#[test]
fn mistakes_end_with_2_and_leave_nothing_behind() {
    let place = Place::new();
    place.refuses(&["--device=gpu", "true"], 2, &["--device", "'gpu'", "npu:31"]);
    place.refuses(&["--setps=1", "true"], 2, &["--setps", "--steps"]);
    place.refuses(&["--steps"], 2, &["--steps"]);
    place.refuses(&[], 2, &["no program"]);
    place.refuses(&["--output=/proc/nothing/here", "true"], 2, &["'/proc/nothing/here'", "--output"]);
    place.refuses(&["--compare", "--input=/tmp,/usr"], 2, &["not available"]);
    place.refuses(&["export", "/nowhere/at/all"], 2, &["'/nowhere/at/all'"]);
}

#[test]
fn programs_that_cannot_run_end_as_in_a_shell() {
    let place = Place::new();
    place.refuses(&["no-such-program-here"], 127, &["'no-such-program-here'", "not found"]);
    place.refuses(&["/nowhere/at/all"], 127, &["'/nowhere/at/all'"]);
    place.refuses(&["/etc/passwd"], 126, &["'/etc/passwd'", "execute permission"]);
    place.refuses(&["/tmp"], 126, &["'/tmp'", "directory"]);
}

#[test]
fn a_static_program_is_refused() {
    let place = Place::new();
    for flag in ["-static", "-static-pie"] {
        let program = place.top.path().join("static-program");
        compile(&[flag], "int main(void) { return 0; }\n", &program);
        place.refuses(&[program.to_str().unwrap()], 2, &["statically linked", "-static"]);
        let script = place.top.path().join("script");
        std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        place.refuses(&[script.to_str().unwrap()], 2, &["statically linked"]);
    }
}

/// The file belongs to somebody else only if root can give it away.
#[test]
fn a_program_that_changes_the_user_is_refused() {
    if !rustix::process::getuid().is_root() {
        // On the real error stream: what goes through the harness is shown only of tests that fail.
        let line = "SKIPPED a_program_that_changes_the_user_is_refused: only root can give a file away";
        let _ = writeln!(std::io::stderr(), "{line}");
        return;
    }
    let place = Place::new();
    let program = place.top.path().join("other");
    std::fs::copy("/bin/true", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(65_534), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    place.refuses(&[program.to_str().unwrap()], 2, &["set-uid", "65534", "LD_PRELOAD"]);
    std::os::unix::fs::chown(&program, Some(0), Some(65_534)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o2755)).unwrap();
    place.refuses(&[program.to_str().unwrap()], 2, &["set-gid", "65534", "LD_PRELOAD"]);
}

#[test]
fn a_missing_library_is_named() {
    let place = Place::new();
    std::fs::remove_file(place.libraries().join(HOST)).unwrap();
    place.refuses(&["--device=cpu", "true"], 1, &[HOST, "MSMEMSCOPE_LIB_DIR"]);
    assert!(place.run(["true"]).status.success());
    std::fs::remove_file(place.libraries().join(RECORDER)).unwrap();
    let output = place.run(["true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(RECORDER));
}

#[test]
fn the_exit_status_and_the_streams_are_the_programs() {
    let place = Place::new();
    for code in [0, 1, 2, 42, 255] {
        let script = format!("printf out; printf err >&2; exit {code}");
        let output = place.run(["--quiet", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(output.stdout, b"out");
        assert_eq!(output.stderr, b"err");
    }
    let output = place.run(["--quiet", "--", "cat", "/dev/null"]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn death_by_a_signal_is_passed_on() {
    let place = Place::new();
    for signal in ["TERM", "KILL", "INT", "QUIT", "SEGV", "ABRT", "PIPE", "HUP", "USR1"] {
        let script = format!("ulimit -c 0; kill -{signal} $$");
        let output = place.attentive_command(["sh", "-c", &script]).output().unwrap();
        let number = output.status.signal().unwrap_or_else(|| panic!("{signal}: {}", output.status));
        let expected = attentive("sh").args(["-c", &script]).status().unwrap();
        assert_eq!(Some(number), expected.signal(), "{signal}");
        assert!(!output.status.core_dumped(), "{signal}");
    }
    let output = place.run(["bash", "-c", "kill -RTMIN+3 $$"]);
    assert_eq!(output.status.code(), Some(128 + 37), "a real-time signal becomes a number");
}

#[test]
fn signals_sent_to_us_reach_the_program() {
    let place = Place::new();
    for signal in ["TERM", "HUP", "USR1", "USR2"] {
        // The program itself sends the signal once its trap is set; the sleep only bounds a failure.
        let script =
            format!("sleep 30 >/dev/null 2>&1 & trap 'kill $!; echo got; exit 7' {signal}; kill -{signal} $PPID; wait");
        let output = place.attentive_command(["sh", "-c", &script]).output().unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"got\n"[..]), "{signal}");
    }
}

#[test]
fn an_interrupt_is_the_programs_to_handle() {
    let place = Place::new();
    // Alone in its process group, as a shell with job control would start it; the script signals the group like a
    // terminal does.
    for (signal, code) in [("INT", 5), ("QUIT", 6)] {
        let script = format!("trap 'exit {code}' {signal}; kill -{signal} 0; exit 99");
        let output = place.attentive_command(["--quiet", "sh", "-c", &script]).process_group(0).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{signal}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let script = "kill -INT 0; exit 99";
    let output = place.attentive_command(["--quiet", "sh", "-c", script]).process_group(0).output().unwrap();
    assert_eq!(output.status.signal(), Some(2));
    assert!(output.stderr.is_empty(), "the interrupt that ended the program was taken for ours");
}

#[test]
fn the_program_inherits_the_dispositions_we_were_started_with() {
    let place = Place::new();
    let plain = place.attentive_command(["grep", "SigIgn", "/proc/self/status"]).output().unwrap();
    let mask = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        u64::from_str_radix(text.split_whitespace().last().unwrap(), 16).unwrap()
    };
    let interrupt_and_hangup = 1 << 1 | 1;
    assert_eq!(mask(&plain) & interrupt_and_hangup, 0);
    let script = format!("trap '' INT HUP; exec {COMMAND} grep SigIgn /proc/self/status");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.work()).env("MSMEMSCOPE_LIB_DIR", place.libraries());
    assert_eq!(mask(&shell.output().unwrap()) & interrupt_and_hangup, interrupt_and_hangup);
}

#[test]
fn the_program_gets_the_libraries_and_the_configuration() {
    let place = Place::new();
    let script = r#"printf '%s\n%s\n%s' "$LD_PRELOAD" "$0" "$MSMEMSCOPE_RECORD""#;
    let mut command = place.command([
        "--device=cpu,npu:3",
        "--call-stack=c:20",
        "--format=db",
        "--max-size=2G",
        "--output=a;b",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let output = command.env("LD_PRELOAD", place.libraries().join(HOST)).output().unwrap();
    let lines: Vec<&[u8]> = output.stdout.splitn(3, |byte| *byte == b'\n').collect();
    let real = place.libraries().canonicalize().unwrap();
    assert_eq!(
        String::from_utf8_lossy(lines[0]),
        format!("{}:{}", real.join(RECORDER).display(), real.join(HOST).display())
    );
    assert_eq!(lines[1], b"sh");
    let config = RecordConfig::parse(OsStr::from_bytes(lines[2])).unwrap();
    assert_eq!((config.c_depth, config.python_depth, config.cpu, config.npu_mask), (20, 0, true, 1 << 3));
    assert_eq!((config.data_format, config.max_size), (Format::Db, 2 << 30));
    assert_eq!((config.level, config.events, config.dump, config.analysis), (1, 7, 7, 1));
    assert_eq!(config.dir, place.work().join("a;b"));
    assert_ne!(config.run, 0);
    assert_eq!(place.created(), [place.work().join("a;b")]);
}

#[test]
fn the_old_name_writes_and_speaks_as_before() {
    let place = Place::new();
    let mut command = place.command(["--watch=a,b", "sh", "-c", "echo $MSMEMSCOPE_RECORD"]);
    let output = command.arg0("/usr/bin/msleaks").output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("brand=msleaks;"), "{out}");
    assert!(error.starts_with("[msleaks] note: --watch"), "{error}");
    assert_eq!(place.created(), [place.work().join("leaksDumpResults")]);
}

#[test]
fn a_script_without_interpreter_line_runs_in_the_shell() {
    let place = Place::new();
    let script = place.top.path().join("plain");
    std::fs::write(&script, "echo $1; exit 9\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = place.run([script.to_str().unwrap(), "word"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(9), &b"word\n"[..]));
}

#[test]
fn notes_go_to_the_error_stream_and_are_silenced_by_quiet() {
    let place = Place::new();
    let output = place.run(["echo", "--steps=1", "x"]);
    assert_eq!(output.stdout, b"x\n");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("[msmemscope] note: '--steps=1'") && error.contains("-- echo"), "{error}");
    let output = place.run(["--quiet", "echo", "--steps=1", "x"]);
    assert!(output.stderr.is_empty());
}

#[test]
fn texts_go_to_standard_output_and_create_nothing() {
    let place = Place::new();
    for (words, part) in [
        (&["--help"][..], "--call-stack"),
        (&["-h"], "Usage: msmemscope"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["-v"], "msmemscope "),
        (&["-V"], "msmemscope "),
        (&["man"], ".TH"),
        (&["completions", "bash"], "complete -F _msmemscope"),
        (&["completions", "zsh"], "#compdef msmemscope"),
        (&["completions", "fish"], "complete -c msmemscope"),
    ] {
        let output = place.run(words);
        assert!(output.status.success(), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}");
    }
    assert_eq!(place.created(), Vec::<PathBuf>::new());
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(COMMAND).arg("man").stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn address_sanitizer_is_told_that_libraries_come_before_it_unless_the_user_says_something_about_it() {
    let place = Place::new();
    let options = |own: Option<&str>| {
        let mut command = place.command(["sh", "-c", "echo $ASAN_OPTIONS"]);
        match own {
            Some(own) => command.env("ASAN_OPTIONS", own),
            None => command.env_remove("ASAN_OPTIONS"),
        };
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim_end().to_owned()
    };
    assert_eq!(options(None), "verify_asan_link_order=0");
    assert_eq!(options(Some("detect_leaks=0")), "detect_leaks=0:verify_asan_link_order=0");
    assert_eq!(options(Some("verify_asan_link_order=1")), "verify_asan_link_order=1");
}

#[test]
fn an_output_directory_too_long_to_be_told_is_refused_before_the_program_starts() {
    let place = Place::new();
    let deep = |length: usize| format!("{}{}", place.work().display(), "/d".repeat(length / 2));
    let output = place.run([format!("--output={}", deep(3900)), "touch".to_owned(), "started".to_owned()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    let most: usize = told.split(" are the most").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(told.contains("its path has 3") && (1000..1536).contains(&most), "{told}");
    assert_eq!(place.created(), Vec::<PathBuf>::new());
    // One as long as it may be.
    let longest = format!("{:d<most$}", deep(most - place.work().as_os_str().len() - 3) + "/");
    assert_eq!(longest.len(), most);
    assert!(place.run([format!("--output={longest}"), "true".to_owned()]).status.success());
}

#[test]
fn a_program_for_another_c_library_is_refused() {
    let place = Place::new();
    let program = place.work().join("foreign");
    compile(&["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"], "int main(void) { return 0; }\n", &program);
    let output = place.run([program.as_os_str()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("it uses the C library musl"), "{told}");
}

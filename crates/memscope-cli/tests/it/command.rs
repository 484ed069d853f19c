//! The built command against real programs.
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use memscope_session::libraries::{HOST, RECORDER};
use memscope_session::record_config::RecordSettings;
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
struct Installation {
    top: TempDir,
}

impl Installation {
    fn new() -> Self {
        let installation = Self { top: tempfile::tempdir().unwrap() };
        std::fs::create_dir(installation.libraries()).unwrap();
        std::fs::create_dir(installation.work()).unwrap();
        for name in [RECORDER, HOST] {
            compile(&["-shared", "-fPIC"], "int memscope_test_marker;\n", &installation.libraries().join(name));
        }
        installation
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

    /// As [`Installation::command`], in a process that ignores no signal: the tests' own may have been started with
    /// some ignored (a shell does that to what it starts with `&`), and what is ignored is inherited.
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
    let installation = Installation::new();
    installation.refuses(&["--device=gpu", "true"], 2, &["--device", "'gpu'", "npu:31"]);
    installation.refuses(&["--setps=1", "true"], 2, &["--setps", "--steps"]);
    installation.refuses(&["--steps"], 2, &["--steps"]);
    installation.refuses(&[], 2, &["no program"]);
    installation.refuses(&["--output=/proc/nothing/here", "true"], 2, &["'/proc/nothing/here'", "--output"]);
    let nothing = installation.libraries().display().to_string();
    let input = format!("--input={nothing},{nothing}");
    installation.refuses(&["--compare", &input], 2, &["neither a recording nor a csv or db file", &nothing]);
    installation.refuses(&["export", "/nowhere/at/all"], 2, &["'/nowhere/at/all'"]);
}

#[test]
fn programs_that_cannot_run_end_as_in_a_shell() {
    let installation = Installation::new();
    installation.refuses(&["no-such-program-here"], 127, &["'no-such-program-here'", "not found"]);
    installation.refuses(&["/nowhere/at/all"], 127, &["'/nowhere/at/all'"]);
    installation.refuses(&["/etc/passwd"], 126, &["'/etc/passwd'", "execute permission"]);
    installation.refuses(&["/tmp"], 126, &["'/tmp'", "directory"]);
}

#[test]
fn a_static_program_is_refused() {
    let installation = Installation::new();
    for flag in ["-static", "-static-pie"] {
        let program = installation.top.path().join("static-program");
        compile(&[flag], "int main(void) { return 0; }\n", &program);
        installation.refuses(&[program.to_str().unwrap()], 2, &["statically linked", "-static"]);
        let script = installation.top.path().join("script");
        std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        installation.refuses(&[script.to_str().unwrap()], 2, &["statically linked"]);
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
    let installation = Installation::new();
    let program = installation.top.path().join("other");
    std::fs::copy("/bin/true", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(65_534), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    installation.refuses(&[program.to_str().unwrap()], 2, &["set-uid", "65534", "LD_PRELOAD"]);
    std::os::unix::fs::chown(&program, Some(0), Some(65_534)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o2755)).unwrap();
    installation.refuses(&[program.to_str().unwrap()], 2, &["set-gid", "65534", "LD_PRELOAD"]);
}

#[test]
fn a_missing_library_is_named() {
    let installation = Installation::new();
    std::fs::remove_file(installation.libraries().join(HOST)).unwrap();
    installation.refuses(&["--device=cpu", "true"], 1, &[HOST, "MSMEMSCOPE_LIB_DIR"]);
    assert!(installation.run(["true"]).status.success());
    std::fs::remove_file(installation.libraries().join(RECORDER)).unwrap();
    let output = installation.run(["true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(RECORDER));
}

#[test]
fn the_exit_status_and_the_streams_are_the_programs() {
    let installation = Installation::new();
    for code in [0, 1, 2, 42, 255] {
        let script = format!("printf out; printf err >&2; exit {code}");
        let output = installation.run(["--quiet", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(output.stdout, b"out");
        assert_eq!(output.stderr, b"err");
    }
    let output = installation.run(["--quiet", "--", "cat", "/dev/null"]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn death_by_a_signal_is_passed_on() {
    let installation = Installation::new();
    for signal in ["TERM", "KILL", "INT", "QUIT", "SEGV", "ABRT", "PIPE", "HUP", "USR1"] {
        let script = format!("ulimit -c 0; kill -{signal} $$");
        let output = installation.attentive_command(["sh", "-c", &script]).output().unwrap();
        let number = output.status.signal().unwrap_or_else(|| panic!("{signal}: {}", output.status));
        let expected = attentive("sh").args(["-c", &script]).status().unwrap();
        assert_eq!(Some(number), expected.signal(), "{signal}");
        assert!(!output.status.core_dumped(), "{signal}");
    }
    let output = installation.run(["bash", "-c", "kill -RTMIN+3 $$"]);
    assert_eq!(output.status.code(), Some(128 + 37), "a real-time signal becomes a number");
}

#[test]
fn signals_sent_to_us_reach_the_program() {
    let installation = Installation::new();
    for signal in ["TERM", "HUP", "USR1", "USR2"] {
        // The program itself sends the signal once its trap is set; the sleep only bounds a failure.
        let script =
            format!("sleep 30 >/dev/null 2>&1 & trap 'kill $!; echo got; exit 7' {signal}; kill -{signal} $PPID; wait");
        let output = installation.attentive_command(["sh", "-c", &script]).output().unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"got\n"[..]), "{signal}");
    }
}

#[test]
fn an_interrupt_is_the_programs_to_handle() {
    let installation = Installation::new();
    // Alone in its process group, as a shell with job control would start it; the script signals the group like a
    // terminal does.
    for (signal, code) in [("INT", 5), ("QUIT", 6)] {
        let script = format!("trap 'exit {code}' {signal}; kill -{signal} 0; exit 99");
        let output =
            installation.attentive_command(["--quiet", "sh", "-c", &script]).process_group(0).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{signal}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let script = "kill -INT 0; exit 99";
    let output = installation.attentive_command(["--quiet", "sh", "-c", script]).process_group(0).output().unwrap();
    assert_eq!(output.status.signal(), Some(2));
    assert!(output.stderr.is_empty(), "the interrupt that ended the program was taken for ours");
}

#[test]
fn the_program_inherits_the_dispositions_we_were_started_with() {
    let installation = Installation::new();
    let plain = installation.attentive_command(["grep", "SigIgn", "/proc/self/status"]).output().unwrap();
    let mask = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        u64::from_str_radix(text.split_whitespace().last().unwrap(), 16).unwrap()
    };
    let interrupt_and_hangup = 1 << 1 | 1;
    assert_eq!(mask(&plain) & interrupt_and_hangup, 0);
    let script = format!("trap '' INT HUP; exec {COMMAND} grep SigIgn /proc/self/status");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(installation.work()).env("MSMEMSCOPE_LIB_DIR", installation.libraries());
    assert_eq!(mask(&shell.output().unwrap()) & interrupt_and_hangup, interrupt_and_hangup);
}

#[test]
fn the_program_gets_the_libraries_and_the_configuration() {
    let installation = Installation::new();
    let script = r#"printf '%s\n%s\n%s' "$LD_PRELOAD" "$0" "$MSMEMSCOPE_RECORD""#;
    let mut command = installation.command([
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
    let output = command.env("LD_PRELOAD", installation.libraries().join(HOST)).output().unwrap();
    let lines: Vec<&[u8]> = output.stdout.splitn(3, |byte| *byte == b'\n').collect();
    let real = installation.libraries().canonicalize().unwrap();
    assert_eq!(
        String::from_utf8_lossy(lines[0]),
        format!("{}:{}", real.join(RECORDER).display(), real.join(HOST).display())
    );
    assert_eq!(lines[1], b"sh");
    let told = RecordSettings::parse(lines[2]);
    assert_eq!(
        (told.version, told.brand, told.deferred, told.log_level),
        (Some(1), Some("msmemscope"), Some(false), Some(2))
    );
    assert_eq!((told.c_depth, told.python_depth, told.cpu), (Some(20), Some(0), Some(true)));
    assert_eq!(told.npus.map(|npus| npus.0), Some(1 << 3));
    assert_eq!((told.data_format, told.max_size), (Some(Format::Db.code()), Some(2 << 30)));
    assert_eq!((told.level, told.events, told.dump, told.analysis), (Some(1), Some(7), Some(7), Some(1)));
    assert_eq!(
        (told.steps.map(|steps| steps.iter().count()), told.stacks, told.oom_holders),
        (Some(0), Some(""), Some(0))
    );
    assert!(told.watch.is_some_and(|watch| watch.is_empty()) && told.owner.is_some() && told.utc_offset.is_some());
    assert_eq!(told.dir, Some(installation.work().join("a;b").as_os_str().as_bytes()));
    assert!(told.run.is_some_and(|run| run != 0));
    assert_eq!(installation.created(), [installation.work().join("a;b")]);
}

#[test]
fn the_old_name_writes_and_speaks_as_before() {
    let installation = Installation::new();
    let mut command = installation.command(["--input=/tmp,/tmp", "sh", "-c", "echo $MSMEMSCOPE_RECORD"]);
    let output = command.arg0("/usr/bin/msleaks").output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("brand=msleaks;"), "{out}");
    assert!(error.starts_with("[msleaks] note: --input"), "{error}");
    assert_eq!(installation.created(), [installation.work().join("leaksDumpResults")]);
}

#[test]
fn watched_blocks_that_may_fill_the_disk_are_told_of_before() {
    let installation = Installation::new();
    let noted = |most: &str| {
        let output = installation.run(["--watch=a,b,full-content", most, "true"]);
        String::from_utf8_lossy(&output.stderr).contains("--watch with full-content may keep")
    };
    assert!(noted("--watch-max-bytes=1000000T"));
    assert!(!noted("--watch-max-bytes=1"));
}

#[test]
fn a_script_without_interpreter_line_runs_in_the_shell() {
    let installation = Installation::new();
    let script = installation.top.path().join("plain");
    std::fs::write(&script, "echo $1; exit 9\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = installation.run([script.to_str().unwrap(), "word"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(9), &b"word\n"[..]));
}

#[test]
fn notes_go_to_the_error_stream_and_are_silenced_by_quiet() {
    let installation = Installation::new();
    let output = installation.run(["echo", "--steps=1", "x"]);
    assert_eq!(output.stdout, b"x\n");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("[msmemscope] note: '--steps=1'") && error.contains("-- echo"), "{error}");
    let output = installation.run(["--quiet", "echo", "--steps=1", "x"]);
    assert!(output.stderr.is_empty());
}

#[test]
fn texts_go_to_standard_output_and_create_nothing() {
    let installation = Installation::new();
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
        let output = installation.run(words);
        assert!(output.status.success(), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}");
    }
    assert_eq!(installation.created(), Vec::<PathBuf>::new());
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
    let installation = Installation::new();
    let options = |own: Option<&str>| {
        let mut command = installation.command(["sh", "-c", "echo $ASAN_OPTIONS"]);
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
    let installation = Installation::new();
    let deep = |length: usize| format!("{}{}", installation.work().display(), "/d".repeat(length / 2));
    let output = installation.run([format!("--output={}", deep(3900)), "touch".to_owned(), "started".to_owned()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    let most: usize = told.split(" are the most").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(told.contains("its path has 3") && (1000..1536).contains(&most), "{told}");
    assert_eq!(installation.created(), Vec::<PathBuf>::new());
    // One as long as it may be.
    let longest = format!("{:d<most$}", deep(most - installation.work().as_os_str().len() - 3) + "/");
    assert_eq!(longest.len(), most);
    assert!(installation.run([format!("--output={longest}"), "true".to_owned()]).status.success());
}

#[test]
fn a_program_for_another_c_library_is_refused() {
    let installation = Installation::new();
    let program = installation.work().join("foreign");
    compile(&["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"], "int main(void) { return 0; }\n", &program);
    let output = installation.run([program.as_os_str()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("it uses the C library musl"), "{told}");
}

//! Programs that a recorded one begins: as it would bare, and without a word of the loader where ours cannot be loaded.
use memscope_tests::{Workshop, command, finish, root_for, staged};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Every way to begin `program`, bare and under the command; gives the report of the latter.
fn begin_in_every_way(workshop: &Workshop, program: &Path, name: &str) -> String {
    let execs = workshop.compile("execs.c");
    let search = format!("/nowhere:{}:/usr/bin:/bin", program.parent().expect("it is in a directory").display());
    let run = |command: &mut Command| {
        command.env("PATH", &search).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the program can be started"))
    };
    let bare = run(Command::new(&execs).arg(program));
    let mut recorded = command();
    recorded
        .args(["--device=cpu", "--data-format=none", "-o"])
        .arg(workshop.path(name))
        .arg("--")
        .arg(&execs)
        .arg(program);
    let recorded = run(&mut recorded);
    assert_eq!(text(&bare.stdout), text(&recorded.stdout));
    assert_eq!((bare.status, text(&bare.stderr).as_str()), (recorded.status, ""));
    text(&recorded.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program of 32 bits, with the loader of the package libc6-i386.
fn bits32(workshop: &Workshop) -> PathBuf {
    let source = workshop.script("bits32.c");
    let program = workshop.path("bits32");
    let mut compiler = Command::new("cc");
    compiler.args(["-m32", "-O1", "-nostdlib", "-fno-pic", "-no-pie", "-o"]).arg(&program).arg(source);
    compiler.args(["-Wl,--no-as-needed", "/lib32/libc.so.6", "-Wl,-dynamic-linker,/lib/ld-linux.so.2"]);
    let answer = compiler.output().expect("the C compiler can be run");
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    program
}

#[test]
fn a_program_is_begun_with_the_words_and_the_environment_that_it_was_given() {
    let workshop = Workshop::new();
    let told = workshop.compile("told.c");
    let report = begin_in_every_way(&workshop, &told, "output");
    assert!(!report.contains("NOT RECORDED"), "{report}");
    // One was begun without an environment, and two were not there to be begun.
    assert!(report.contains("14 processes recorded"), "{report}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_of_32_bits_begins_without_a_word_of_the_loader_and_is_named() {
    let workshop = Workshop::new();
    let program = bits32(&workshop);
    let report = begin_in_every_way(&workshop, &program, "output");
    assert!(!report.contains("ld.so"), "{report}");
    let named = report.lines().find(|line| line.contains("bits32") && line.contains("NOT RECORDED"));
    assert!(named.is_some_and(|line| line.contains("it is a 32-bit program")), "{report}");
}

/// A copy of the installation below a directory that only its owner may enter; its command.
fn closed_installation(workshop: &Workshop) -> PathBuf {
    let home = workshop.directory("home");
    let copied = Command::new("cp").arg("-a").arg(staged("")).arg(home.join("installed")).status();
    assert!(copied.expect("cp can be run").success());
    fs::set_permissions(&home, Permissions::from_mode(0o700)).expect("the directory is ours");
    home.join("installed/libexec/msmemscope")
}

#[test]
fn a_child_of_another_user_who_cannot_enter_the_installation_is_named_without_a_word_of_the_loader() {
    if !root_for("become another user") {
        return;
    }
    let workshop = Workshop::new();
    let installed = closed_installation(&workshop);
    let output = workshop.path("output");
    let words = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", "ls / > /dev/null; id -u"].map(OsStr::new);
    let mut command = Command::new(installed);
    command.arg("--device=cpu").arg("-o").arg(&output).arg("--").args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run: Output = finish(command.spawn().expect("the command can be started"));
    let report = text(&run.stderr);
    assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(0), "65534\n"), "{report}");
    assert!(report.lines().all(|line| line.starts_with("[msmemscope]")), "{report}");
    let named = report.lines().find(|line| line.contains(" sh: NOT RECORDED")).unwrap_or_else(|| panic!("{report}"));
    assert!(named.contains("home' is closed to its user") && named.ends_with("(user 65534)"), "{report}");
}

//! Programs built for a test with the tools of the machine.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Runs a command that must succeed; its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Position-independent and with a build id, whatever the compiler's defaults are.
pub(crate) fn compile(compiler: &str, sources: &[&Path], flags: &[&str], output: &Path) {
    let sources: Vec<&str> = sources.iter().map(|source| source.to_str().unwrap()).collect();
    let whatever_the_defaults = ["-fPIE", "-pie", "-Wl,--build-id=sha1"];
    memscope_testkit::compiled::compile(compiler, &[&whatever_the_defaults, flags, &sources].concat(), output);
}

/// The return addresses a program reports of itself.
pub(crate) fn reported(program: &Path) -> Vec<u64> {
    let output = run(&mut Command::new(program));
    output.lines().map(|line| u64::from_str_radix(line, 16).unwrap()).collect()
}

/// Functions of a file: (address, size, linker name).
pub(crate) fn functions(program: &Path) -> Vec<(u64, u64, String)> {
    let output = run(Command::new("nm").args(["-S", "--defined-only"]).arg(program));
    output
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [start, size, "t" | "T" | "W", name] => {
                Some((u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(size, 16).unwrap(), name.to_owned()))
            }
            _ => None,
        })
        .collect()
}

pub(crate) fn build_id(program: &Path) -> Vec<u8> {
    let notes = run(Command::new("readelf").arg("-n").arg(program));
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id");
    (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
}

/// Splits the debug information of `program` off into `debug` and leaves a link to it.
pub(crate) fn strip_into(program: &Path, debug: &Path) {
    run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(debug));
    run(Command::new("strip").arg(program));
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(program));
}

//! Stacks taken inside real interpreters are what the interpreters themselves say.
//!
//! Runs `python_live/driver.py` under every CPython 3.9 to 3.14 that can be found: `python3` and `python3.N` on the
//! `PATH`, and the versions that pyenv has installed. To see what a capture costs:
//! `cargo test --release -p memscope-stack --test python_live -- --ignored --nocapture`.
#![allow(clippy::print_stderr, reason = "which interpreters were tested is part of the result")]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the probe where this test was built and answers its path.
fn probe() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile_directory = test.parent().and_then(Path::parent).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", "python_probe", "--target-dir"]);
    build.arg(profile_directory.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile_directory.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "{build:?}");
    profile_directory.join("examples/libpython_probe.so")
}

/// Every interpreter once, by version.
fn interpreters() -> BTreeMap<String, PathBuf> {
    let mut candidates = vec![PathBuf::from("python3")];
    candidates.extend((9..=14).map(|minor| PathBuf::from(format!("python3.{minor}"))));
    let told = Command::new("pyenv").arg("root").output().ok().filter(|output| output.status.success());
    let roots = [
        std::env::var_os("PYENV_ROOT").map(PathBuf::from),
        told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")),
    ];
    for root in roots.into_iter().flatten() {
        let Ok(versions) = std::fs::read_dir(root.join("versions")) else { continue };
        candidates.extend(versions.flatten().map(|version| version.path().join("bin/python3")));
    }
    let mut found = BTreeMap::new();
    for candidate in candidates {
        let script = "import sys, sysconfig; print(sys.implementation.name, sysconfig.get_config_var('Py_GIL_DISABLED') \
                      or 0, sys.version_info.minor, sys.version.split()[0])";
        let Ok(output) = Command::new(&candidate).args(["-c", script]).output() else { continue };
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        if let ["cpython", "0", minor, version] = *answer.split_whitespace().collect::<Vec<_>>()
            && matches!(minor.parse(), Ok(9..=14))
        {
            found.entry(version.to_owned()).or_insert(candidate);
        }
    }
    found
}

fn run(mode: &str) {
    let probe = probe();
    let interpreters = interpreters();
    assert!(!interpreters.is_empty(), "no CPython 3.9 to 3.14 found");
    for (version, python) in interpreters {
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_live/driver.py");
        let output = Command::new(&python).arg(driver).arg(&probe).arg(mode).output().unwrap();
        let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{version} ({}): {:?}\n{told}{errors}", python.display(), output.status);
        eprint!("{told}");
    }
}

#[test]
fn stacks_are_those_the_interpreter_shows() {
    run("check");
}

#[test]
#[ignore = "a measurement, for release builds"]
fn cost_of_a_capture() {
    run("measure");
}

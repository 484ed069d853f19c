//! The command, run to its end.
use std::process::{Command, Output};

pub(crate) fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_msmemscope")).args(words).output().unwrap()
}

/// What it prints; it must succeed.
pub(crate) fn text(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// It must refuse, in one line that has these parts.
pub(crate) fn refused(words: &[&str], parts: &[&str]) {
    let output = run(words);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}: {told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    for part in parts {
        assert!(told.contains(part), "{words:?}: {part}: {told}");
    }
}

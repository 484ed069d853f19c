//! Where the libraries under test are.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library of the staged installation.
///
/// # Panics
/// If it is not there: a test of nothing must not pass.
pub fn library(name: &str) -> PathBuf {
    staged(&format!("lib64/{name}"))
}

/// The staged `msmemscope`.
///
/// # Panics
/// As [`library`].
pub fn command() -> Command {
    Command::new(staged("bin/msmemscope"))
}

/// A file or folder of the staged installation.
///
/// # Panics
/// As [`library`].
pub fn staged(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace");
    let stage = env::var_os("MSMEMSCOPE_STAGE").map_or_else(|| workspace.join("target/stage"), PathBuf::from);
    let path = stage.join(name);
    assert!(
        path.exists(),
        "{} is missing: run `make build` in {}, or set MSMEMSCOPE_STAGE to an installation's prefix",
        path.display(),
        workspace.display()
    );
    path
}

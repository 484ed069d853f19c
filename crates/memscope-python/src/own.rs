//! Where the recording of this process is, and which of its spans is which.
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memscope_session::record_config::DecodedConfig;
use memscope_session::{environment, opened};
use pyo3::prelude::*;

/// Of a recording that began here: the output directory, and the run.
static BEGUN: OnceLock<(PathBuf, u64)> = OnceLock::new();
/// How often a span was begun here; above it the process that counted, for a forked one counts anew.
static STARTS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn remember(output_dir: &Path, run: u64) {
    BEGUN.get_or_init(|| (output_dir.to_owned(), run));
}

pub(crate) fn count_start() {
    let own = u64::from(std::process::id()) << 32;
    let counted = |starts: u64| Some(if starts >> 32 == own >> 32 { starts + 1 } else { own + 1 });
    let _ = STARTS.fetch_update(Relaxed, Relaxed, counted);
}

/// How many spans this process has begun.
#[pyfunction]
pub(crate) fn spans() -> u32 {
    let starts = STARTS.load(Relaxed);
    if starts >> 32 == u64::from(std::process::id()) { starts as u32 } else { 0 }
}

/// The directory of this process's own recording, if there is one, whoever began it.
#[pyfunction]
pub(crate) fn own_directory(py: Python<'_>) -> Option<PathBuf> {
    py.detach(|| {
        let (output_dir, run) = match BEGUN.get() {
            Some(begun) => begun.clone(),
            None => {
                let config = DecodedConfig::decode(&std::env::var_os(environment::RECORD)?)?;
                (config.settings.output_dir, config.run)
            }
        };
        opened::directory_of(&output_dir, run, std::process::id())
    })
}

//! Why a recording cannot be read at all.
use memscope_format::decode::SpoolError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    #[error("cannot list {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "{} holds no recording: expected {}/{} in it",
        path.display(),
        memscope_format::layout::SPOOL_DIRECTORY,
        memscope_format::layout::WINDOWS_FILE
    )]
    NoRecording { path: PathBuf },
    // The text of a spool error already names the file and the cause.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Whoever wanted to know has broken off.
    #[error("interrupted")]
    Interrupted,
    // As is that of a source's own error.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
}

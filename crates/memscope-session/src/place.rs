//! Where traces are to be read from, and which of them are meant.
use memscope_dump::{Source, Sources, sources};
use memscope_model::{ModelError, Process};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Everything at a path, or a part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// An output directory, a process directory, a csv or a db file.
    pub path: PathBuf,
    /// Only this process.
    pub pid: Option<u32>,
    /// Of the recording of one process, only the time from the `start` of this number to the next `stop`.
    pub span: Option<NonZeroU32>,
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Place {
        Place { path, pid: None, span: None }
    }
}

impl Place {
    pub fn sources(&self) -> Result<Sources, ModelError> {
        if let Some(span) = self.span {
            let mut process = Process::open(&self.path)?;
            process.choose_span(span);
            let source = Source { path: self.path.clone(), trace: Box::new(process) };
            return Ok(Sources { found: vec![source], unreadable: Vec::new() });
        }
        let mut sources = sources(&self.path)?;
        if let Some(pid) = self.pid {
            sources.found.retain(|source| source.trace.info().pid == pid);
        }
        Ok(sources)
    }
}

//! One recorded process.
use crate::replay::Replay;
use crate::settings::Settings;
use crate::{MemoryEvent, ModelError, Outcome, ProcessInfo, Stacks, TraceEvent};
use memscope_format::decode::Spool;
use memscope_format::layout;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A process directory, opened. Its events are read by [`Process::replay`].
#[derive(Debug)]
pub struct Process {
    spool: Spool,
    settings: Settings,
    stacks: Stacks,
}

impl Process {
    /// Opens a process directory (the one that holds `spool/`) or a spool directory itself.
    pub fn open(directory: &Path) -> Result<Process, ModelError> {
        let Some(spool) = spool_directory(directory) else {
            return Err(ModelError::NoRecording { path: directory.to_owned() });
        };
        let spool = Spool::open(&spool)?;
        let settings = Settings::parse(&spool.process().config);
        let stacks = Stacks::new(settings.depth("c"), settings.depth("py"));
        Ok(Process { spool, settings, stacks })
    }

    pub fn info(&self) -> &ProcessInfo {
        self.spool.process()
    }

    /// A setting the process was recorded with, e.g. `c`, the number of native frames.
    pub fn config(&self, key: &str) -> Option<&str> {
        self.settings.get(key)
    }

    /// The stacks met in replays so far; ids of an earlier replay stay valid.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Gives all events in time order to `visit`, until it breaks off. `progress` is called now and then with the
    /// fraction done, at last with 1.
    pub fn trace(
        &mut self,
        visit: &mut dyn FnMut(TraceEvent<'_>, &Stacks) -> ControlFlow<()>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Outcome, ModelError> {
        Replay::new(&self.spool, &self.settings, &mut self.stacks)?.run(visit, progress)
    }

    /// As [`Process::trace`], only the events that are about memory.
    pub fn replay(
        &mut self,
        visit: &mut dyn FnMut(&MemoryEvent, &Stacks) -> ControlFlow<()>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Outcome, ModelError> {
        let mut memory_only = |event: TraceEvent<'_>, stacks: &Stacks| match event {
            TraceEvent::Memory(event) => visit(event, stacks),
            _ => ControlFlow::Continue(()),
        };
        self.trace(&mut memory_only, progress)
    }
}

/// The spool directory in or at `directory`.
pub(crate) fn spool_directory(directory: &Path) -> Option<PathBuf> {
    [directory.join(layout::SPOOL_DIRECTORY), directory.to_owned()].into_iter().find(|candidate| {
        let windows = candidate.join(layout::WINDOWS_FILE);
        // A link to where they are not is told as such.
        windows.is_file() || windows.is_symlink()
    })
}

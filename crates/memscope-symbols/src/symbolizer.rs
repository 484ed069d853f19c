//! Addresses of many files to frames, for one thread.
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::frame::SourceFrame;
use crate::objects::{Object, Symbols};

/// Keeps its answers by (path, build id, offset); what it reads for them it may share with others.
pub struct Symbolizer {
    symbols: Symbols,
    by_path: FxHashMap<PathBuf, Vec<usize>>,
    modules: Vec<ModuleAnswers>,
    problems: Vec<String>,
}

struct ModuleAnswers {
    object: Arc<Object>,
    answers: FxHashMap<u64, Arc<[SourceFrame]>>,
    /// How many problems of the object are among ours.
    told: usize,
}

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbolizer {
    pub fn new() -> Self {
        Self::sharing(&Symbols::new())
    }

    /// Looks for separate debug files in these directories instead of the system's.
    pub fn with_debug_directories(debug_directories: Vec<PathBuf>) -> Self {
        Self::sharing(&Symbols::with_debug_directories(debug_directories))
    }

    /// Reads no file that another one has read.
    pub fn sharing(symbols: &Symbols) -> Self {
        Symbolizer {
            symbols: symbols.clone(),
            by_path: FxHashMap::default(),
            modules: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Frames at a return address, innermost first; empty if nothing is known.
    ///
    /// `offset` is the return address minus the load bias, i.e. an address as in the ELF file: the call is the
    /// instruction before it, and it is the call that is looked up. An empty `build_id` means that none was recorded;
    /// the file at `path` is then taken as it is.
    pub fn c_frames(&mut self, path: &Path, build_id: &[u8], offset: u64) -> &[SourceFrame] {
        let index = self.module(path, build_id);
        let ModuleAnswers { object, answers, told } = &mut self.modules[index];
        match answers.entry(offset) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.symbols.frames(object, offset, told, &mut self.problems)),
        }
    }

    /// What could not be used and why, one line each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn module(&mut self, path: &Path, build_id: &[u8]) -> usize {
        let known = self.by_path.get(path).map(Vec::as_slice).unwrap_or_default();
        if let Some(&index) = known.iter().find(|&&index| self.modules[index].object.recorded_build_id == build_id) {
            return index;
        }
        let index = self.modules.len();
        self.modules.push(ModuleAnswers {
            object: self.symbols.object(path, build_id),
            answers: FxHashMap::default(),
            told: 0,
        });
        self.by_path.entry(path.to_owned()).or_default().push(index);
        index
    }
}

//! Addresses of many files to frames, each file opened once and each address looked up once.
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::debug_file::{self, hex};
use crate::debug_info::DebugInfo;
use crate::demangle::{Names, printable};
use crate::elf::Elf;
use crate::frame::Frame;
use crate::symbol_table::SymbolTable;

/// Where distributions install separate debug files.
const SYSTEM_DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// Keeps what it has read: one object per (path, build id), one answer per (object, offset).
pub struct Symbolizer {
    debug_directories: Vec<PathBuf>,
    /// Modules known under a path; nearly always one, more if the file was replaced between two recorded processes.
    by_path: FxHashMap<PathBuf, Vec<usize>>,
    modules: Vec<Module>,
    names: Names,
    problems: Vec<String>,
}

struct Module {
    path: PathBuf,
    recorded_build_id: Vec<u8>,
    sources: Sources,
    answers: FxHashMap<u64, Box<[Frame]>>,
}

/// What answers for a module; both absent if the file could not be used.
#[derive(Default)]
struct Sources {
    debug_info: Option<DebugInfo>,
    symbols: Option<SymbolTable>,
}

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbolizer {
    pub fn new() -> Self {
        Self::with_debug_directories(vec![PathBuf::from(SYSTEM_DEBUG_DIRECTORY)])
    }

    /// Looks for separate debug files in these directories instead of the system's.
    pub fn with_debug_directories(debug_directories: Vec<PathBuf>) -> Self {
        Symbolizer {
            debug_directories,
            by_path: FxHashMap::default(),
            modules: Vec::new(),
            names: Names::default(),
            problems: Vec::new(),
        }
    }

    /// Frames at a return address, innermost first; empty if nothing is known.
    ///
    /// `offset` is the return address minus the load bias, i.e. an address as in the ELF file: the call is the
    /// instruction before it, and it is the call that is looked up. An empty `build_id` means that none was recorded;
    /// the file at `path` is then taken as it is.
    pub fn c_frames(&mut self, path: &Path, build_id: &[u8], offset: u64) -> &[Frame] {
        let index = self.module(path, build_id);
        let Module { path, sources, answers, .. } = &mut self.modules[index];
        match answers.entry(offset) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(sources.frames(path, offset, &mut self.names, &mut self.problems).into())
            }
        }
    }

    /// What could not be used and why, one line each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn module(&mut self, path: &Path, build_id: &[u8]) -> usize {
        let known = self.by_path.get(path).map(Vec::as_slice).unwrap_or_default();
        if let Some(&index) = known.iter().find(|&&index| self.modules[index].recorded_build_id == build_id) {
            return index;
        }
        let sources = Sources::open(path, build_id, &self.debug_directories, &mut self.problems);
        let index = self.modules.len();
        self.modules.push(Module {
            path: path.to_owned(),
            recorded_build_id: build_id.to_owned(),
            sources,
            answers: FxHashMap::default(),
        });
        self.by_path.entry(path.to_owned()).or_default().push(index);
        index
    }
}

impl Sources {
    fn open(path: &Path, recorded: &[u8], debug_directories: &[PathBuf], problems: &mut Vec<String>) -> Self {
        if is_kernel_page(path) {
            return Sources::default();
        }
        let refusal = match Elf::open(path) {
            Ok(elf) if recorded.is_empty() || elf.build_id == recorded => {
                return Self::of_file(path, elf, debug_directories, problems);
            }
            Ok(elf) if elf.build_id.is_empty() => format!(
                "has no build id, but the program ran a file with build id {}: its symbols are not used",
                hex(recorded)
            ),
            Ok(elf) => format!(
                "has build id {}, but the program ran a file with build id {}: its symbols are not used",
                hex(&elf.build_id),
                hex(recorded)
            ),
            Err(error) => format!("{error}: no symbols from it"),
        };
        // The file the program ran is gone, but its debug file may still be installed.
        match debug_file::by_build_id(recorded, debug_directories) {
            Some(debug) => Self::of_parts(path, None, Some(debug), problems),
            None => {
                problems.push(problem(path, &refusal));
                Sources::default()
            }
        }
    }

    fn of_file(path: &Path, elf: Elf, debug_directories: &[PathBuf], problems: &mut Vec<String>) -> Self {
        let debug = if elf.has_debug_info() { None } else { debug_file::find(path, &elf, debug_directories) };
        let sources = Self::of_parts(path, Some(elf), debug, problems);
        if sources.debug_info.is_none() && sources.symbols.is_none() {
            problems.push(problem(path, "has neither debug information nor function symbols"));
        }
        sources
    }

    fn of_parts(path: &Path, file: Option<Elf>, debug: Option<Elf>, problems: &mut Vec<String>) -> Self {
        let with_debug_info = [debug.as_ref(), file.as_ref()].into_iter().flatten().find(|elf| elf.has_debug_info());
        let mut debug_info = None;
        if let Some(elf) = with_debug_info {
            match DebugInfo::load(elf) {
                Ok(loaded) => {
                    if loaded.is_split {
                        problems.push(problem(
                            path,
                            "keeps part of its debug information in .dwo files, which are not read: \
                             its inlined functions are not shown",
                        ));
                    }
                    if elf.has_supplement {
                        problems.push(problem(
                            path,
                            "keeps part of its debug information in a file shared by several packages (dwz), which \
                             is not read: some of its inlined functions have no name",
                        ));
                    }
                    debug_info = Some(loaded);
                }
                Err(error) => problems.push(problem(path, &format!("{error}: lines and inlined functions unknown"))),
            }
        }
        let (all, exported) = file.map_or((None, None), |elf| (elf.symbols, elf.dynamic_symbols));
        let symbols = all.or_else(|| debug.and_then(|elf| elf.symbols)).or(exported);
        Sources { debug_info, symbols }
    }

    fn frames(&self, path: &Path, offset: u64, names: &mut Names, problems: &mut Vec<String>) -> Vec<Frame> {
        let Some(address) = offset.checked_sub(1) else { return Vec::new() };
        let mut frames = Vec::new();
        if let Some(debug_info) = &self.debug_info {
            match debug_info.frames(address, names) {
                Ok(found) => frames = found,
                // Other units may be whole, so the rest is still asked; one line a file is enough to say it.
                Err(error) => {
                    let line = problem(path, &format!("{error}: some lines and inlined functions unknown"));
                    if !problems.contains(&line) {
                        problems.push(line);
                    }
                }
            }
        }
        let symbol = || self.symbols.as_ref().and_then(|symbols| symbols.find(address));
        match frames.last_mut() {
            Some(Frame { function: Some(name), .. }) => {
                // Compilers give functions of an anonymous namespace no linkage name; their symbol has all of it.
                if !name.contains("::")
                    && let Some((linkage, _)) = symbol()
                {
                    let qualified = names.readable(&linkage);
                    if qualified.strip_suffix(name.as_str()).is_some_and(|scope| scope.ends_with("::")) {
                        *name = qualified;
                    }
                }
            }
            Some(physical) => physical.function = symbol().map(|(name, _)| names.readable(&name)),
            None => frames.extend(symbol().map(|(name, distance)| Frame {
                function: Some(names.readable(&name)),
                // `address` is that of the call; the return address is what debuggers and `backtrace_symbols` show.
                symbol_offset: Some(distance + 1),
                ..Frame::default()
            })),
        }
        frames
    }
}

/// Code the kernel maps into every process; it is in no file and nobody can do anything about that.
fn is_kernel_page(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.starts_with(b"[") || name.starts_with(b"linux-vdso.so") || name.starts_with(b"linux-gate.so")
}

fn problem(path: &Path, what: &str) -> String {
    printable(&format!("{}: {what}", path.display()))
}

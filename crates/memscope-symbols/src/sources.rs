//! What answers for one file: its debug information and its symbols, its own or those of a separate debug file.
use std::path::{Path, PathBuf};

use crate::debug_file::{self, hex};
use crate::debug_info::DebugInfo;
use crate::demangle::{Names, printable};
use crate::elf::Elf;
use crate::frame::SourceFrame;
use crate::symbol_table::SymbolTable;

/// Both absent if the file could not be used.
#[derive(Default)]
pub(crate) struct Sources {
    debug_info: Option<DebugInfo>,
    symbols: Option<SymbolTable>,
}

impl Sources {
    /// Roughly what it holds in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.debug_info.as_ref().map_or(0, |info| info.bytes) + self.symbols.as_ref().map_or(0, SymbolTable::bytes)
    }

    pub(crate) fn open(
        path: &Path,
        recorded: &[u8],
        debug_directories: &[PathBuf],
        problems: &mut Vec<String>,
    ) -> Self {
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

    pub(crate) fn frames(
        &self,
        path: &Path,
        offset: u64,
        names: &mut Names,
        problems: &mut Vec<String>,
    ) -> Vec<SourceFrame> {
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
            Some(SourceFrame { function: Some(name), .. }) => {
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
            None => frames.extend(symbol().map(|(name, distance)| SourceFrame {
                function: Some(names.readable(&name)),
                // `address` is that of the call; the return address is what debuggers and `backtrace_symbols` show.
                symbol_offset: Some(distance + 1),
                ..SourceFrame::default()
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

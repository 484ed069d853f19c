//! DWARF of one file: address to frames, parsed one compilation unit at a time as addresses ask for it.
use std::sync::Arc;

use addr2line::Context;
use addr2line::gimli::{self, AbbreviationsCacheStrategy, Dwarf};

use crate::demangle::{Names, printable};
use crate::elf::{Elf, ElfError};
use crate::frame::SourceFrame;
use crate::metered::{Meter, MeteredReader};

#[derive(Debug, thiserror::Error)]
pub(crate) enum DebugInfoError {
    #[error("{0}")]
    Elf(#[from] ElfError),
    #[error("has damaged debug information ({0})")]
    Damaged(gimli::Error),
    #[error("has debug information that refers to itself without end")]
    Endless,
    #[error("has debug information nested {depth} levels deep, more than any compiler writes")]
    TooDeep { depth: isize },
    #[error("has debug information with {attributes} attributes in one entry, more than any compiler writes")]
    TooWide { attributes: usize },
}

/// Reads granted for each byte of debug sections, on top of a fixed grant for small files. Looking up every address of
/// libpython, libc and a Rust program took 0.4 to 0.8 a byte.
const READS_PER_BYTE: u64 = 4;
const READS_GRANTED: u64 = 1 << 20;
/// `addr2line` follows nested inlining by recursion; real programs stay below a hundred levels.
const DEEPEST_NESTING: isize = 500;
/// Attributes may take no bytes at all, so that the meter does not see them.
const MOST_ATTRIBUTES: usize = 200;

pub(crate) struct DebugInfo {
    context: Context<MeteredReader>,
    meter: Arc<Meter>,
    /// Some units keep their functions in `.dwo` files, which are not read: lines are known, inlined frames are not.
    pub(crate) is_split: bool,
    /// Of its sections, all of which are held in memory.
    pub(crate) bytes: u64,
}

impl DebugInfo {
    pub(crate) fn load(elf: &Elf) -> Result<Self, DebugInfoError> {
        elf.check_debug_info_size()?;
        let meter = Meter::new(elf.debug_info_size().saturating_mul(READS_PER_BYTE).saturating_add(READS_GRANTED));
        let mut dwarf = Dwarf::load(|id| -> Result<_, ElfError> {
            Ok(MeteredReader::new(elf.debug_section(id)?, elf.endian(), Arc::clone(&meter)))
        })?;
        // Units of one link often share abbreviations; without the cache each would parse them again.
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let is_split = survey(&dwarf)?;
        let context = Context::from_dwarf(dwarf).map_err(|error| explain(error, &meter))?;
        Ok(DebugInfo { context, meter, is_split, bytes: elf.debug_info_size() })
    }

    /// Frames at `address`, innermost first; empty if the address is in no unit.
    pub(crate) fn frames(&self, address: u64, names: &mut Names) -> Result<Vec<SourceFrame>, DebugInfoError> {
        let explained = |error| explain(error, &self.meter);
        let mut frames = Vec::new();
        // `addr2line` looks for the range `address..address + 1`.
        if address == u64::MAX {
            return Ok(frames);
        }
        let mut found = self.context.find_frames(address).skip_all_loads().map_err(explained)?;
        while let Some(frame) = found.next().map_err(explained)? {
            let function = match &frame.function {
                Some(name) => {
                    Some(names.readable(&name.raw_name().map_err(explained)?)).filter(|name| !name.is_empty())
                }
                None => None,
            };
            let location = frame.location.as_ref();
            frames.push(SourceFrame {
                function,
                file: location.and_then(|location| location.file).filter(|file| !file.is_empty()).map(printable),
                line: location.and_then(|location| location.line),
                inlined: true,
                symbol_offset: None,
            });
        }
        if let Some(physical) = frames.last_mut() {
            physical.inlined = false;
        }
        Ok(frames)
    }
}

fn explain(error: gimli::Error, meter: &Meter) -> DebugInfoError {
    if meter.is_spent() { DebugInfoError::Endless } else { DebugInfoError::Damaged(error) }
}

/// Refuses entries that would make the reader recurse or loop beyond reason; tells whether a unit is split.
///
/// One pass over the entries, a fraction of a second for a hundred megabytes. An entry that cannot be read ends its
/// unit here as it will later.
fn survey(dwarf: &Dwarf<MeteredReader>) -> Result<bool, DebugInfoError> {
    let mut is_split = false;
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(abbreviations) = dwarf.abbreviations(&header) else { continue };
        let Ok(mut entries) = header.entries_raw(&abbreviations, None) else { continue };
        while !entries.is_empty() {
            let depth = entries.next_depth();
            if depth > DEEPEST_NESTING {
                return Err(DebugInfoError::TooDeep { depth });
            }
            let Ok(abbreviation) = entries.read_abbreviation() else { break };
            let Some(abbreviation) = abbreviation else { continue };
            let attributes = abbreviation.attributes();
            if attributes.len() > MOST_ATTRIBUTES {
                return Err(DebugInfoError::TooWide { attributes: attributes.len() });
            }
            if depth == 0 {
                is_split |= attributes
                    .iter()
                    .any(|attribute| matches!(attribute.name(), gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name));
            }
            if entries.skip_attributes(attributes).is_err() {
                break;
            }
        }
    }
    Ok(is_split)
}

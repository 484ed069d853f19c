//! What is taken from an ELF file: its build id, where its debug sections lie, and its function symbols.
//!
//! A 400 MB library without debug information costs its headers and symbol table: nothing else is read. Mapping the
//! file would be simpler but needs `unsafe`, and a file that shrinks while mapped kills the reader.
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use addr2line::gimli::{RunTimeEndian, SectionId};
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{ElfFile, FileHeader, SectionHeader, SectionTable, Sym, SymbolTable as ElfSymbols};
use object::read::{CompressedData, CompressedFileRange, ReadCache};
use object::{CompressionFormat, Endianness, FileKind, Object, ObjectSection};

use crate::symbol_table::{Extent, Symbol, SymbolTable};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ElfError {
    #[error("cannot be opened ({0})")]
    Open(#[source] io::Error),
    #[error("is not a regular file")]
    NotAFile,
    #[error("is not an ELF file")]
    NotElf,
    #[error("is damaged ({0})")]
    Damaged(#[from] object::Error),
    #[error("cannot be read ({0})")]
    Read(#[source] io::Error),
    #[error("has {bytes} bytes of debug information, more than the {limit} that are read")]
    TooLarge { bytes: u64, limit: u64 },
}

/// Debug information is held in memory; above this it would be the reader that runs out.
const LARGEST_DEBUG_INFO: u64 = 4 << 30;
/// No section a compiler writes shrinks to less; a decompression bomb does.
const LARGEST_COMPRESSION_RATIO: u64 = 256;

/// The sections that names and lines come from; variables and types are not looked at.
const DEBUG_SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

pub(crate) struct Elf {
    file: File,
    length: u64,
    endian: RunTimeEndian,
    /// Empty if the file has none.
    pub(crate) build_id: Vec<u8>,
    /// Name and CRC-32 of the file that holds the debug information.
    pub(crate) debug_link: Option<(Vec<u8>, u32)>,
    /// Part of the debug information is in a file shared between packages, as `dwz` makes them.
    pub(crate) has_supplement: bool,
    pub(crate) symbols: Option<SymbolTable>,
    pub(crate) dynamic_symbols: Option<SymbolTable>,
    debug_sections: Vec<(SectionId, CompressedFileRange)>,
}

impl Elf {
    pub(crate) fn open(path: &Path) -> Result<Self, ElfError> {
        // Asked before opening: opening a FIFO would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(ElfError::Open)?;
        if !metadata.is_file() {
            return Err(ElfError::NotAFile);
        }
        let file = File::open(path).map_err(ElfError::Open)?;
        let length = metadata.len();
        let cache = ReadCache::new(BoundedFile::new(file.try_clone().map_err(ElfError::Open)?, length));
        match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => Self::read::<FileHeader64<Endianness>>(file, length, &cache),
            Ok(FileKind::Elf32) => Self::read::<FileHeader32<Endianness>>(file, length, &cache),
            _ => Err(ElfError::NotElf),
        }
    }

    fn read<Header: FileHeader<Endian = Endianness>>(
        file: File,
        length: u64,
        cache: &ReadCache<BoundedFile>,
    ) -> Result<Self, ElfError> {
        let elf = ElfFile::<Header, _>::parse(cache)?;
        let mut debug_sections = Vec::new();
        for id in DEBUG_SECTIONS {
            if let Some(section) = elf.section_by_name(id.name()) {
                let range = section.compressed_file_range()?;
                if range.uncompressed_size > 0 {
                    debug_sections.push((id, range));
                }
            }
        }
        let endian = elf.endian();
        let table = |symbols: &ElfSymbols<'_, Header, _>| -> Result<Option<SymbolTable>, ElfError> {
            let functions = function_symbols(endian, elf.elf_section_table(), symbols);
            if functions.is_empty() {
                return Ok(None);
            }
            let strings = elf.elf_section_table().section(symbols.string_section())?;
            let (start, size) = strings.file_range(endian).unwrap_or_default();
            let names = file.try_clone().map_err(ElfError::Read)?;
            Ok(Some(SymbolTable::new(functions, names, start..start.saturating_add(size).min(length))))
        };
        Ok(Elf {
            endian: match endian {
                Endianness::Little => RunTimeEndian::Little,
                Endianness::Big => RunTimeEndian::Big,
            },
            build_id: elf.build_id()?.unwrap_or_default().to_vec(),
            debug_link: elf.gnu_debuglink()?.map(|(name, crc)| (name.to_vec(), crc)),
            has_supplement: elf.section_by_name(".gnu_debugaltlink").is_some(),
            symbols: table(elf.elf_symbol_table())?,
            dynamic_symbols: table(elf.elf_dynamic_symbol_table())?,
            debug_sections,
            length,
            file,
        })
    }

    pub(crate) fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        self.debug_sections.iter().any(|(id, _)| *id == SectionId::DebugInfo)
    }

    /// All debug sections together, decompressed.
    pub(crate) fn debug_info_size(&self) -> u64 {
        self.debug_sections.iter().fold(0, |sum, (_, range)| sum.saturating_add(range.uncompressed_size))
    }

    /// Fails unless all debug sections can be held in memory and are as large as they say.
    pub(crate) fn check_debug_info_size(&self) -> Result<(), ElfError> {
        let bytes = self.debug_info_size();
        if bytes > LARGEST_DEBUG_INFO {
            return Err(ElfError::TooLarge { bytes, limit: LARGEST_DEBUG_INFO });
        }
        for (_, range) in &self.debug_sections {
            let end = range.offset.checked_add(range.compressed_size);
            if end.is_none_or(|end| end > self.length) {
                return Err(ElfError::Read(io::ErrorKind::UnexpectedEof.into()));
            }
            let ratio = if range.format == CompressionFormat::None { 1 } else { LARGEST_COMPRESSION_RATIO };
            let largest = range.compressed_size.saturating_mul(ratio);
            if range.uncompressed_size > largest {
                return Err(ElfError::TooLarge { bytes: range.uncompressed_size, limit: largest });
            }
        }
        Ok(())
    }

    /// The section's bytes, decompressed; empty if there is no such section. [`Self::check_debug_info_size`] first.
    pub(crate) fn debug_section(&self, id: SectionId) -> Result<Box<[u8]>, ElfError> {
        let Some((_, range)) = self.debug_sections.iter().find(|(candidate, _)| *candidate == id) else {
            return Ok(Box::default());
        };
        let size = usize::try_from(range.compressed_size)
            .map_err(|_| ElfError::TooLarge { bytes: range.compressed_size, limit: usize::MAX as u64 })?;
        let mut bytes = vec![0; size].into_boxed_slice();
        self.file.read_exact_at(&mut bytes, range.offset).map_err(ElfError::Read)?;
        if range.format == CompressionFormat::None {
            return Ok(bytes);
        }
        let packed = CompressedData { format: range.format, data: &bytes, uncompressed_size: range.uncompressed_size };
        Ok(packed.decompress()?.into_owned().into_boxed_slice())
    }
}

fn function_symbols<'data, Header: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    sections: &SectionTable<'data, Header, &'data ReadCache<BoundedFile>>,
    symbols: &ElfSymbols<'data, Header, &'data ReadCache<BoundedFile>>,
) -> Vec<Symbol> {
    use object::elf::{STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC};
    let section_end = |index| {
        let section = sections.section(index).ok()?;
        let (start, size): (u64, u64) = (section.sh_addr(endian).into(), section.sh_size(endian).into());
        start.checked_add(size)
    };
    symbols
        .enumerate()
        .filter(|(_, symbol)| matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC))
        .filter_map(|(index, symbol)| {
            // Only a definition lies in a section.
            let section = symbols.symbol_section(endian, symbol, index).ok()??;
            let start: u64 = symbol.st_value(endian).into();
            let size: u64 = symbol.st_size(endian).into();
            Some(Symbol {
                start,
                extent: match size {
                    0 => Extent::AtMost(section_end(section)?.checked_sub(start)?),
                    size => Extent::Exactly(size),
                },
                name: symbol.st_name(endian),
                preference: match symbol.st_bind() {
                    STB_GLOBAL => 2,
                    STB_WEAK => 1,
                    _ => 0,
                },
            })
        })
        .collect()
}

/// A file of which only about its own size can be read in all. `ReadCache` keeps every distinct range it is asked for:
/// headers that describe the same bytes a thousand times over would otherwise be held a thousand times.
struct BoundedFile {
    file: File,
    left: u64,
}

impl BoundedFile {
    fn new(file: File, length: u64) -> Self {
        // Section names are fetched by a few hundred bytes each, so a small file needs more than its size.
        const SLACK: u64 = 4 << 20;
        BoundedFile { file, left: length.saturating_add(SLACK) }
    }
}

impl Read for BoundedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(buffer.len() as u64)
            .ok_or_else(|| io::Error::other("file describes itself too often"))?;
        self.file.read(buffer)
    }
}

impl Seek for BoundedFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

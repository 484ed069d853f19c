//! Function symbols of an ELF file, by address.
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// How far a symbol reaches, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Extent {
    Exactly(u64),
    /// The symbol has no size, as some functions written in assembly: up to the next one, or the end of the section.
    AtMost(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    pub(crate) extent: Extent,
    /// Offset in the string table.
    pub(crate) name: u32,
    /// Among names for the same address, the one others can see says more: global over weak over local.
    pub(crate) preference: u8,
}

impl Symbol {
    fn covers(&self, address: u64) -> bool {
        matches!(self.extent, Extent::Exactly(size) if self.is_within(address, size))
    }

    fn may_reach(&self, address: u64) -> bool {
        matches!(self.extent, Extent::AtMost(size) if self.is_within(address, size))
    }

    fn is_within(&self, address: u64, size: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|distance| distance < size)
    }
}

/// Names stay in the file until they are asked for: string tables of large C++ libraries are tens of megabytes, of
/// which a trace touches a few names.
pub(crate) struct SymbolTable {
    /// By address.
    symbols: Vec<Symbol>,
    file: File,
    strings: Range<u64>,
}

impl SymbolTable {
    pub(crate) fn new(mut symbols: Vec<Symbol>, file: File, strings: Range<u64>) -> Self {
        symbols.sort_unstable();
        symbols.dedup();
        SymbolTable { symbols, file, strings }
    }

    /// What it holds in memory.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(self.symbols.as_slice()) as u64
    }

    /// Linker name of the function at `address` and the distance from its start.
    ///
    /// A symbol with a size counts only if it covers the address: the nearest exported name before a private function
    /// of a stripped library would be a wrong answer, not a vague one.
    pub(crate) fn find(&self, address: u64) -> Option<(String, u64)> {
        let before = self.symbols.partition_point(|symbol| symbol.start <= address);
        let candidates = self.symbols.get(..before)?;
        let start = covering_start(candidates, address).or_else(|| sizeless_start(candidates, address))?;
        let first = candidates.partition_point(|symbol| symbol.start < start);
        let after = candidates.partition_point(|symbol| symbol.start <= start);
        let aliases = candidates.get(first..after)?;
        let name = self.best_name(aliases, address)?;
        Some((name, address - start))
    }

    /// Among aliases the name a reader knows: `malloc`, not `__libc_malloc`.
    fn best_name(&self, aliases: &[Symbol], address: u64) -> Option<String> {
        /// Identical code folding can merge thousands of functions into one address.
        const ALIASES_READ: usize = 16;
        let strongest = aliases.iter().map(|symbol| (symbol.covers(address), symbol.preference)).max()?;
        aliases
            .iter()
            .filter(|symbol| (symbol.covers(address), symbol.preference) == strongest)
            .take(ALIASES_READ)
            .filter_map(|symbol| self.name(symbol.name))
            .min_by_key(|name| (name.bytes().take_while(|&byte| byte == b'_').count(), name.len(), name.clone()))
    }

    fn name(&self, offset: u32) -> Option<String> {
        const USUAL: usize = 256;
        const LONGEST: usize = 32 * 1024;
        let start = self.strings.start.checked_add(u64::from(offset))?;
        let available = self.strings.end.checked_sub(start)?;
        let mut buffer = Vec::new();
        for size in [USUAL, LONGEST] {
            buffer.resize(size.min(usize::try_from(available).unwrap_or(size)), 0);
            self.file.read_exact_at(&mut buffer, start).ok()?;
            if let Some(length) = buffer.iter().position(|&byte| byte == 0) {
                return (length > 0).then(|| String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
        }
        None
    }
}

/// Start of the nearest symbol that covers the address. Functions nest only by a few levels (a hand-written entry
/// point within another), so looking further back would find nothing but cost time.
fn covering_start(candidates: &[Symbol], address: u64) -> Option<u64> {
    const LOOK_BACK: usize = 32;
    candidates.iter().rev().take(LOOK_BACK).find(|symbol| symbol.covers(address)).map(|symbol| symbol.start)
}

/// By order: the nearest symbol, if it does not say where it ends.
fn sizeless_start(candidates: &[Symbol], address: u64) -> Option<u64> {
    let nearest = candidates.last()?.start;
    candidates
        .iter()
        .rev()
        .take_while(|symbol| symbol.start == nearest)
        .all(|symbol| symbol.may_reach(address))
        .then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn table(symbols: &[(u64, u64, &str, u8)]) -> SymbolTable {
        let mut strings = vec![0u8];
        let mut entries = Vec::new();
        for &(start, size, name, preference) in symbols {
            let extent = if size == 0 { Extent::AtMost(0x1000) } else { Extent::Exactly(size) };
            entries.push(Symbol { start, extent, name: strings.len() as u32, preference });
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&strings).unwrap();
        SymbolTable::new(entries, file, 0..strings.len() as u64)
    }

    #[test]
    fn a_sized_symbol_answers_only_for_what_it_covers() {
        let table = table(&[(0x100, 0x10, "a", 2), (0x200, 0x10, "b", 2)]);
        assert_eq!(table.find(0xff), None);
        assert_eq!(table.find(0x100), Some(("a".into(), 0)));
        assert_eq!(table.find(0x10f), Some(("a".into(), 15)));
        assert_eq!(table.find(0x110), None);
        assert_eq!(table.find(0x20f), Some(("b".into(), 15)));
        assert_eq!(table.find(u64::MAX), None);
    }

    #[test]
    fn a_symbol_without_size_reaches_to_the_next_or_the_end_of_its_section() {
        let table = table(&[(0x100, 0, "entry", 2), (0x200, 8, "b", 2), (0x300, 0, "last", 2)]);
        assert_eq!(table.find(0x1ff), Some(("entry".into(), 0xff)));
        assert_eq!(table.find(0x208), None);
        assert_eq!(table.find(0x12ff), Some(("last".into(), 0xfff)));
        assert_eq!(table.find(0x1300), None);
    }

    #[test]
    fn an_enclosing_function_wins_over_a_label_inside_it() {
        let table = table(&[(0x100, 0x80, "outer", 0), (0x120, 0, "label", 2)]);
        assert_eq!(table.find(0x130), Some(("outer".into(), 0x30)));
    }

    #[test]
    fn of_several_names_the_public_and_plain_one_is_shown() {
        let table = table(&[
            (0x100, 8, "__libc_malloc", 2),
            (0x100, 8, "malloc", 2),
            (0x100, 8, "m", 0),
            (0x100, 8, "__malloc", 2),
        ]);
        assert_eq!(table.find(0x101), Some(("malloc".into(), 1)));
    }

    #[test]
    fn a_name_outside_the_string_table_is_no_name() {
        let mut table = table(&[(0x100, 8, "a", 2)]);
        table.symbols[0].name = u32::MAX;
        assert_eq!(table.find(0x100), None);
    }
}

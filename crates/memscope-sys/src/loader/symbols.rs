//! The symbols an object exports, found by its own hash tables.
use super::Object;
use super::memory::Memory;
use crate::arch::resolver_arguments;
use core::ffi::CStr;

/// What an object's dynamic section says; 0 is not there.
pub(super) struct Tables {
    symbols: usize,
    strings: usize,
    gnu_hash: usize,
    hash: usize,
    versions: usize,
    /// The offset of its name for the linker, as far as there is one.
    so_name: Option<usize>,
}

impl Tables {
    pub(super) fn read(memory: &mut Memory, object: &Object) -> Option<Tables> {
        const MOST_ENTRIES: usize = 1024;
        const AT_ONCE: usize = 32;
        const PAGE: usize = 4096;
        const NULL: usize = 0;
        const HASH: usize = 4;
        const STRINGS: usize = 5;
        const SYMBOLS: usize = 6;
        const SO_NAME: usize = 14;
        const GNU_HASH: usize = 0x6fff_fef5;
        const VERSIONS: usize = 0x6fff_fff0;
        let mut tables = Tables { symbols: 0, strings: 0, gnu_hash: 0, hash: 0, versions: 0, so_name: None };
        // The loader turns offsets into addresses in place, unless the section cannot be written.
        let address = |value: usize| if value < object.bias { value.wrapping_add(object.bias) } else { value };
        let mut at = object.dynamic;
        for _ in 0..MOST_ENTRIES {
            let mut several = [[NULL; 2]; AT_ONCE];
            // Entries do not cross pages; behind the last one there need be nothing.
            let whole = at % PAGE <= PAGE - size_of_val(&several);
            let entries = match if whole { memory.read(at) } else { None } {
                Some(read) => {
                    several = read;
                    several.as_slice()
                }
                None => {
                    several[0] = memory.read(at)?;
                    several.get(..1)?
                }
            };
            for [tag, value] in entries.iter().copied() {
                match tag {
                    NULL => return (tables.symbols != 0 && tables.strings != 0).then_some(tables),
                    HASH => tables.hash = address(value),
                    STRINGS => tables.strings = address(value),
                    SYMBOLS => tables.symbols = address(value),
                    SO_NAME => tables.so_name = Some(value),
                    GNU_HASH => tables.gnu_hash = address(value),
                    VERSIONS => tables.versions = address(value),
                    _ => {}
                }
            }
            at = at.checked_add(size_of_val(entries))?;
        }
        None
    }

    /// Where its name for the linker stands.
    pub(super) fn so_name(&self) -> Option<usize> {
        self.strings.checked_add(self.so_name?)
    }

    /// The address of the function or variable `name`, in the version a caller without one is given.
    pub(super) fn find(&self, memory: &mut Memory, object: &Object, name: &CStr) -> Option<usize> {
        if self.gnu_hash != 0 {
            self.find_by_gnu_hash(memory, object, name.to_bytes())
        } else if self.hash != 0 {
            self.find_by_hash(memory, object, name.to_bytes())
        } else {
            None
        }
    }

    fn find_by_gnu_hash(&self, memory: &mut Memory, object: &Object, name: &[u8]) -> Option<usize> {
        const MOST_STEPS: u32 = 1 << 20;
        let hash = name.iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let word = |memory: &mut Memory, at: usize| memory.read::<u32>(self.gnu_hash.checked_add(at * 4)?);
        let [buckets, first, filter_size, shift] = memory.read::<[u32; 4]>(self.gnu_hash)?;
        let filter_size = filter_size as usize;
        let filter = self.gnu_hash.checked_add(16)?;
        let at = filter.checked_add((hash as usize / 64).checked_rem(filter_size)? * 8)?;
        let wanted = 1u64 << (hash % 64) | 1u64 << (hash.wrapping_shr(shift) % 64);
        if memory.read::<u64>(at)? & wanted != wanted {
            return None;
        }
        let start = filter_size.checked_mul(2)?.checked_add(4)?;
        let chains = start.checked_add(buckets as usize)?;
        let mut symbol = word(memory, start + hash.checked_rem(buckets)? as usize)?;
        for _ in 0..MOST_STEPS {
            let entry = word(memory, chains.checked_add(symbol.checked_sub(first)? as usize)?)?;
            if (entry ^ hash) >> 1 == 0
                && let Some(address) = self.address(memory, object, symbol, name)
            {
                return Some(address);
            }
            if entry & 1 != 0 {
                return None;
            }
            symbol = symbol.checked_add(1)?;
        }
        None
    }

    fn find_by_hash(&self, memory: &mut Memory, object: &Object, name: &[u8]) -> Option<usize> {
        let hash = name.iter().fold(0u32, |hash, byte| {
            let hash = hash.wrapping_shl(4).wrapping_add(u32::from(*byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        });
        let word = |memory: &mut Memory, at: usize| memory.read::<u32>(self.hash.checked_add(at * 4)?);
        let (buckets, symbols) = (word(memory, 0)?, word(memory, 1)?);
        let mut symbol = word(memory, 2 + hash.checked_rem(buckets)? as usize)?;
        for _ in 0..symbols {
            if symbol == 0 {
                return None;
            }
            if let Some(address) = self.address(memory, object, symbol, name) {
                return Some(address);
            }
            symbol = word(memory, 2 + buckets as usize + symbol as usize)?;
        }
        None
    }

    /// Calls `visit` with each function that is defined here for others.
    ///
    /// # Safety
    /// The object is not unloaded meanwhile.
    pub(super) unsafe fn each_function(
        &self,
        memory: &mut Memory,
        object: &Object,
        mut visit: impl FnMut(&'static CStr, usize),
    ) {
        let Some((first, behind)) = self.defined(memory) else { return };
        for symbol in first..behind {
            let Some(head) = memory.read::<u64>(self.symbols.wrapping_add(symbol as usize * 24)) else { return };
            // SAFETY: a symbol's name is a C string in the object's table of strings.
            let name = unsafe { CStr::from_ptr(self.strings.wrapping_add(head as u32 as usize) as *const _) };
            if let Some(address) = self.address(memory, object, symbol, name.to_bytes()) {
                visit(name, address);
            }
        }
    }

    /// Which symbols may be defined ones.
    fn defined(&self, memory: &mut Memory) -> Option<(u32, u32)> {
        if self.gnu_hash == 0 {
            return Some((1, memory.read::<u32>(self.hash.checked_add(4)?)?));
        }
        let [buckets, first, filter_size, _] = memory.read::<[u32; 4]>(self.gnu_hash)?;
        let word = |memory: &mut Memory, at: usize| memory.read::<u32>(self.gnu_hash.checked_add(at.checked_mul(4)?)?);
        let start = (filter_size as usize).checked_mul(2)?.checked_add(4)?;
        let mut last = 0;
        for bucket in 0..buckets as usize {
            last = word(memory, start + bucket)?.max(last);
        }
        let chains = start.checked_add(buckets as usize)?;
        // The last chain ends with a mark.
        while word(memory, chains.checked_add(last.checked_sub(first)? as usize)?)? & 1 == 0 {
            last = last.checked_add(1)?;
        }
        Some((first, last.checked_add(1)?))
    }

    /// The address of symbol number `symbol` if it is called `name`, is defined here, and is not an old version of it.
    fn address(&self, memory: &mut Memory, object: &Object, symbol: u32, name: &[u8]) -> Option<usize> {
        const UNDEFINED: u64 = 0;
        const ABSOLUTE: u64 = 0xfff1;
        const OBJECT_OR_FUNCTION: [u64; 4] = [0, 1, 2, 5];
        const RESOLVER: u64 = 10;
        const OLD_VERSION: u16 = 0x8000;
        let symbol = symbol as usize;
        let at = self.symbols.checked_add(symbol * 24)?;
        // section : 16 | visibility : 8 | binding : 4 | type : 4 | offset of the name : 32
        let [head, value] = memory.read::<[u64; 2]>(at)?;
        let (section, binding, kind) = (head >> 48, head >> 36 & 0xf, head >> 32 & 0xf);
        let is_exported = matches!(binding, 1 | 2 | 10);
        let is_empty = value == 0 && section != ABSOLUTE;
        if section == UNDEFINED || !is_exported || is_empty {
            return None;
        }
        if self.versions != 0 && memory.read::<u16>(self.versions.checked_add(symbol * 2)?)? & OLD_VERSION != 0 {
            return None;
        }
        if !memory.is_text(self.strings.checked_add(head as u32 as usize)?, name) {
            return None;
        }
        let address = if section == ABSOLUTE { value as usize } else { (value as usize).wrapping_add(object.bias) };
        if kind == RESOLVER {
            return Some(resolve(address)).filter(|address| *address != 0);
        }
        OBJECT_OR_FUNCTION.contains(&kind).then_some(address)
    }
}

/// What the function at `resolver` chooses for this machine. Called as the loader calls it.
fn resolve(resolver: usize) -> usize {
    let (first, second) = resolver_arguments();
    // SAFETY: a symbol of this type is a function that takes these arguments, or none, and has no other effect.
    unsafe {
        let resolver: unsafe extern "C" fn(u64, *const [u64; 3]) -> usize = core::mem::transmute(resolver);
        resolver(first, &raw const second)
    }
}

//! A loaded object as it lies in memory: what it refers to by name, and which of its pages are read-only.
use core::ffi::CStr;
use libc::{PT_DYNAMIC, PT_GNU_RELRO, PT_LOAD, dl_phdr_info};

/// A word that the loader fills with the address of a symbol.
#[derive(Clone, Copy)]
pub(crate) struct Reference {
    pub(crate) word: usize,
    pub(crate) kind: Kind,
    pub(crate) name: &'static CStr,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For calls; may be filled at the first one.
    Call,
    /// Whatever the program does with the address.
    Address,
}

pub(crate) struct Image {
    pub(crate) bias: usize,
    pub(crate) dynamic: usize,
    /// Where it lies.
    start: usize,
    end: usize,
    /// What the loader made read-only once it was filled: whole pages, an incomplete last one left out, as the loader does it.
    pub(crate) read_only: (usize, usize),
}

impl Image {
    /// # Safety
    /// `info` is what `dl_iterate_phdr` passes.
    pub(crate) unsafe fn of(info: &dl_phdr_info, page_size: usize) -> Option<Image> {
        let bias = info.dlpi_addr as usize;
        // SAFETY: the program headers of a loaded object.
        let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let mut image = Image { bias, dynamic: 0, start: usize::MAX, end: 0, read_only: (0, 0) };
        for header in headers {
            let start = bias.wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            match header.p_type {
                PT_LOAD => (image.start, image.end) = (image.start.min(start), image.end.max(end)),
                PT_DYNAMIC => image.dynamic = start,
                PT_GNU_RELRO => image.read_only = (start & !(page_size - 1), end & !(page_size - 1)),
                _ => {}
            }
        }
        (image.dynamic != 0).then_some(image)
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    pub(crate) fn is_read_only(&self, word: usize) -> bool {
        (self.read_only.0..self.read_only.1).contains(&word)
    }

    /// Calls `visit` with each reference to a symbol.
    ///
    /// # Safety
    /// The object is loaded, and stays it.
    pub(crate) unsafe fn each_reference(&self, mut visit: impl FnMut(Reference)) {
        // SAFETY: the caller's.
        let Some(tables) = (unsafe { Tables::read(self) }) else { return };
        let entry = size_of::<Relocation>();
        let in_bytes = [
            (tables.calls, tables.calls_size),
            // Those without a symbol come first.
            (
                tables.relocations.wrapping_add(tables.without_symbol.wrapping_mul(entry)),
                tables.relocations_size.saturating_sub(tables.without_symbol.wrapping_mul(entry)),
            ),
        ];
        for (start, size) in in_bytes {
            for number in 0..if start == 0 { 0 } else { size / entry } {
                // SAFETY: a table of the object, as long as it says, and the symbols and names it refers to.
                unsafe {
                    let relocation = &*((start + number * entry) as *const Relocation);
                    let kind = match relocation.information as u32 {
                        CALL => Kind::Call,
                        ADDRESS | WORD if relocation.addend == 0 => Kind::Address,
                        _ => continue,
                    };
                    let symbol = tables.symbols + (relocation.information >> 32) as usize * SYMBOL_SIZE;
                    let name = tables.strings + *(symbol as *const u32) as usize;
                    let name = CStr::from_ptr(name as *const _);
                    visit(Reference { word: self.bias.wrapping_add(relocation.word as usize), kind, name });
                }
            }
        }
    }
}

const SYMBOL_SIZE: usize = 24;

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    word: u64,
    /// symbol : 32 | type : 32
    information: u64,
    addend: i64,
}

#[cfg(target_arch = "x86_64")]
const CALL: u32 = 7;
#[cfg(target_arch = "x86_64")]
const ADDRESS: u32 = 6;
#[cfg(target_arch = "x86_64")]
const WORD: u32 = 1;
#[cfg(target_arch = "aarch64")]
const CALL: u32 = 1026;
#[cfg(target_arch = "aarch64")]
const ADDRESS: u32 = 1025;
#[cfg(target_arch = "aarch64")]
const WORD: u32 = 257;

/// What the dynamic section says; 0 is not there.
#[derive(Default)]
struct Tables {
    symbols: usize,
    strings: usize,
    calls: usize,
    calls_size: usize,
    relocations: usize,
    relocations_size: usize,
    without_symbol: usize,
}

impl Tables {
    /// # Safety
    /// The object is loaded, and stays it.
    unsafe fn read(image: &Image) -> Option<Tables> {
        const NULL: usize = 0;
        const CALLS_SIZE: usize = 2;
        const STRINGS: usize = 5;
        const SYMBOLS: usize = 6;
        const RELOCATIONS: usize = 7;
        const RELOCATIONS_SIZE: usize = 8;
        const CALLS: usize = 23;
        const WITHOUT_SYMBOL: usize = 0x6fff_fff9;
        // The loader turns offsets into addresses in place, unless the section cannot be written.
        let address = |value: usize| if value < image.bias { value.wrapping_add(image.bias) } else { value };
        let mut tables = Tables::default();
        let mut at = image.dynamic as *const [usize; 2];
        loop {
            // SAFETY: a dynamic section ends with an entry of zeroes.
            let [tag, value] = unsafe { *at };
            match tag {
                NULL => return (tables.symbols != 0 && tables.strings != 0).then_some(tables),
                CALLS_SIZE => tables.calls_size = value,
                STRINGS => tables.strings = address(value),
                SYMBOLS => tables.symbols = address(value),
                RELOCATIONS => tables.relocations = address(value),
                RELOCATIONS_SIZE => tables.relocations_size = value,
                CALLS => tables.calls = address(value),
                WITHOUT_SYMBOL => tables.without_symbol = value,
                _ => {}
            }
            at = at.wrapping_add(1);
        }
    }
}

//! A loaded ELF object: found by an address in it, without the loader's locks.
use super::known_objects;
use super::loader::{self, ProgramHeaders};
use super::maps::{Mapping, Maps};
use core::ffi::{CStr, c_char};
use core::ptr::null;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_R: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const MAX_HEADERS: usize = 1024;
const PAGE: usize = 4096;

/// A loaded object. Its pointers hold as long as it is loaded, that is at least until the lane forgets its modules.
#[derive(Clone, Copy)]
pub(super) struct LoadedModule {
    /// The segment that holds the address asked about: between segments there may be others' memory.
    segment_start: usize,
    segment_end: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) bias: usize,
    /// The loader's name for it; null if it has none that can be found.
    name: *const c_char,
    build_id: *const u8,
    build_id_len: usize,
    /// The lane's number for it plus one; 0 as long as the spool does not know it.
    pub(super) defined: u32,
    /// `.eh_frame_hdr` (0 if there is none) and the readable segment around it.
    pub(super) unwind_header: usize,
    pub(super) unwind_start: usize,
    pub(super) unwind_end: usize,
}

/// Of a [`LoadedModule`] without its number.
pub(super) const WORDS: usize = 11;

impl LoadedModule {
    /// All but the number in the spool, which is each lane's own.
    pub(super) fn words(&self) -> [usize; WORDS] {
        [
            self.segment_start,
            self.segment_end,
            self.start,
            self.end,
            self.bias,
            self.name as usize,
            self.build_id as usize,
            self.build_id_len,
            self.unwind_header,
            self.unwind_start,
            self.unwind_end,
        ]
    }

    /// What [`LoadedModule::words`] gave of an object that is still loaded.
    pub(super) fn from_words(words: [usize; WORDS]) -> LoadedModule {
        let [
            segment_start,
            segment_end,
            start,
            end,
            bias,
            name,
            build_id,
            build_id_len,
            unwind_header,
            unwind_start,
            unwind_end,
        ] = words;
        LoadedModule {
            segment_start,
            segment_end,
            start,
            end,
            bias,
            name: name as *const c_char,
            build_id: build_id as *const u8,
            build_id_len,
            defined: 0,
            unwind_header,
            unwind_start,
            unwind_end,
        }
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.segment_start) < self.segment_end - self.segment_start
    }

    /// Where the part of it that is looked up by address begins.
    pub(super) fn first_address(&self) -> usize {
        self.segment_start
    }

    /// Whether the loader still has this object at `address`, which is in it.
    pub(super) fn is_still_loaded(&self, address: usize) -> bool {
        match loader::object_at(address) {
            Some(object) => object.bias == self.bias && object.name == self.name,
            None => !loader::can_search(),
        }
    }

    /// Whether all of the range is in the object and can be read.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub(super) fn is_readable(&self, address: usize, length: usize) -> bool {
        is_readable_within(self.start, self.end, address, length)
    }

    /// `None` if `address` is in none of its segments.
    ///
    /// # Safety
    /// The program headers must be those of an object loaded at `bias`, and `name` its name (or null), valid while it
    /// is loaded.
    unsafe fn from_headers(
        address: usize,
        bias: usize,
        name: *const c_char,
        ProgramHeaders { headers, count }: ProgramHeaders,
    ) -> Option<LoadedModule> {
        let mut module = LoadedModule {
            segment_start: 0,
            segment_end: 0,
            start: usize::MAX,
            end: 0,
            bias,
            name,
            build_id: null(),
            build_id_len: 0,
            defined: 0,
            unwind_header: 0,
            unwind_start: 0,
            unwind_end: 0,
        };
        // SAFETY: the caller vouches for the headers.
        let header = |index: usize| unsafe { headers.add(index).read_unaligned() };
        let count = count.min(MAX_HEADERS);
        for load in (0..count).map(header).filter(|header| header.p_type == PT_LOAD) {
            let start = bias.wrapping_add(load.p_vaddr as usize);
            let end = start.saturating_add(load.p_memsz as usize);
            let start = start & !(PAGE - 1);
            if address >= start && address < end {
                (module.segment_start, module.segment_end) = (start, end);
            }
            module.start = module.start.min(start);
            module.end = module.end.max(end);
        }
        if module.segment_end == 0 {
            return None;
        }
        for segment in (0..count).map(header) {
            let start = bias.wrapping_add(segment.p_vaddr as usize);
            let length = segment.p_filesz as usize;
            if segment.p_type == PT_NOTE && module.build_id_len == 0 {
                module.find_build_id(start, length);
            } else if segment.p_type == PT_GNU_EH_FRAME {
                let holder = (0..count).map(header).find(|load| {
                    let load_start = bias.wrapping_add(load.p_vaddr as usize);
                    load.p_type == PT_LOAD
                        && load.p_flags & PF_R != 0
                        && start.wrapping_sub(load_start) < load.p_filesz as usize
                });
                if let Some(load) = holder {
                    module.unwind_header = start;
                    module.unwind_start = bias.wrapping_add(load.p_vaddr as usize);
                    module.unwind_end = module.unwind_start.saturating_add(load.p_filesz as usize);
                }
            }
        }
        Some(module)
    }

    fn find_build_id(&mut self, start: usize, length: usize) {
        const HEADER: usize = 12;
        if !is_readable_within(self.start, self.end, start, length) {
            return;
        }
        let end = start + length;
        let mut at = start;
        while end - at >= HEADER {
            // SAFETY: `at..at + HEADER` lies in the range just found readable.
            let [name_len, value_len, kind] = unsafe { (at as *const [u32; 3]).read_unaligned() };
            let name_at = at + HEADER;
            let value_at = name_at.saturating_add((name_len as usize).next_multiple_of(4));
            let next = value_at.saturating_add((value_len as usize).next_multiple_of(4));
            if next > end {
                return;
            }
            // SAFETY: four bytes of the name are before `value_at`, which is not beyond the readable range.
            if kind == NT_GNU_BUILD_ID && name_len == 4 && unsafe { (name_at as *const [u8; 4]).read() } == *b"GNU\0" {
                self.build_id = value_at as *const u8;
                self.build_id_len = value_len as usize;
                return;
            }
            at = next;
        }
    }

    pub(super) fn build_id(&self) -> &[u8] {
        if self.build_id.is_null() {
            return &[];
        }
        // SAFETY: `find_build_id` checked the range, which stays mapped while the object is loaded.
        unsafe { core::slice::from_raw_parts(self.build_id, self.build_id_len) }
    }

    /// The loader's name for it.
    pub(super) fn name(&self) -> Option<&[u8]> {
        if self.name.is_null() {
            return None;
        }
        // SAFETY: the loader's name of the object, a C string that lives as long as the object is loaded.
        Some(unsafe { CStr::from_ptr(self.name) }.to_bytes())
    }
}

fn is_readable_within(start: usize, end: usize, address: usize, length: usize) -> bool {
    if address < start || address > end || length > end - address || length == 0 {
        return false;
    }
    let last = address + length - 1;
    // The kernel is asked about eight bytes at a time; the end of a page stands for all of it.
    let mut page = address & !(PAGE - 1);
    while page <= last {
        if !memscope_sys::is_readable(page) {
            return false;
        }
        page += PAGE;
    }
    true
}

/// The object that holds `address`, which must be in use by the calling thread's stack, or in none.
#[cold]
pub(super) fn loaded_object_at(address: usize) -> Option<LoadedModule> {
    if loader::can_search() {
        return object_by_search(address);
    }
    // Before anything is looked at: what is unloaded meanwhile is of an epoch that is over.
    let epoch = super::unload_epoch();
    known_objects::find(address, epoch).or_else(|| {
        let mut module = object_by_mappings(address)?;
        // In the loader's list, so that not each lane looks for it among the mappings.
        if let Some(name) = memscope_sys::loader::path_of_bias(module.bias) {
            module.name = name as *const c_char;
        }
        known_objects::keep(&module, epoch);
        Some(module)
    })
}

fn object_by_search(address: usize) -> Option<LoadedModule> {
    let object = loader::object_at(address)?;
    // The loader gives the beginning of the object where it has no gaps. A library is linked for address 0, so that it
    // begins at its bias. The program itself begins anywhere, but its headers are known.
    // SAFETY: headers of what lies at that place, and the loader's own name of the object.
    let module =
        |headers: ProgramHeaders| unsafe { LoadedModule::from_headers(address, object.bias, object.name, headers) };
    loader::program_headers(object.bias)
        .and_then(module)
        .or_else(|| headers_at(object.start).and_then(module))
        .or_else(|| headers_at(object.bias).and_then(module))
}

/// Asks the kernel. An object begins with its header, which is the beginning of its file.
fn object_by_mappings(address: usize) -> Option<LoadedModule> {
    const RECENT: usize = 8;
    let mut maps = Maps::open()?;
    // The last mappings of the beginning of a file: that of the wanted one is among them.
    let mut beginnings = [Mapping::default(); RECENT];
    let mut count = 0usize;
    let mapping = loop {
        let (mapping, _) = maps.next(&mut [])?;
        if mapping.offset == 0
            && mapping.is_readable
            && mapping.is_of_a_file()
            && let Some(slot) = beginnings.get_mut(count % RECENT)
        {
            *slot = mapping;
            count += 1;
        }
        if mapping.contains(address) {
            break mapping;
        }
        if mapping.start > address {
            return None;
        }
    };
    let start = if mapping.is_of_a_file() {
        let last_first = (0..RECENT.min(count)).filter_map(|back| beginnings.get((count - 1 - back) % RECENT));
        last_first.filter(|beginning| beginning.is_of_the_file_of(&mapping)).map(|beginning| beginning.start).next()?
    } else if mapping.is_readable {
        // The kernel's own object.
        mapping.start
    } else {
        return None;
    };
    let headers = headers_at(start)?;
    let bias = bias_of(start, headers)?;
    // SAFETY: headers of the object that begins there.
    unsafe { LoadedModule::from_headers(address, bias, null(), headers) }
}

/// What has to be added to addresses of a file whose beginning was loaded at `start`.
fn bias_of(start: usize, ProgramHeaders { headers, count }: ProgramHeaders) -> Option<usize> {
    // SAFETY: `headers_at` has found them readable.
    let header = |index: usize| unsafe { headers.add(index).read_unaligned() };
    let first =
        (0..count.min(MAX_HEADERS)).map(header).find(|load| load.p_type == PT_LOAD && load.p_offset < PAGE as u64)?;
    Some(start.wrapping_sub(first.p_vaddr as usize & !(PAGE - 1)))
}

/// The program headers of an object that begins at `start`, if one does.
fn headers_at(start: usize) -> Option<ProgramHeaders> {
    if start == 0 || !start.is_multiple_of(PAGE) || !memscope_sys::is_readable(start) {
        return None;
    }
    // SAFETY: in a page just found readable; the magic is checked below.
    let header = unsafe { (start as *const libc::Elf64_Ehdr).read_unaligned() };
    let count = usize::from(header.e_phnum);
    let headers = start.wrapping_add(header.e_phoff as usize);
    let length = count * size_of::<libc::Elf64_Phdr>();
    let is_object = header.e_ident.starts_with(b"\x7fELF")
        && usize::from(header.e_phentsize) == size_of::<libc::Elf64_Phdr>()
        && is_readable_within(start, headers.saturating_add(length), headers, length);
    is_object.then_some(ProgramHeaders { headers: headers as *const libc::Elf64_Phdr, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_asking_agree() {
        loader::initialise();
        let vdso = {
            // SAFETY: reads the auxiliary vector.
            let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
            start + 0x10
        };
        for address in [both_ways_of_asking_agree as *const () as usize, libc::qsort as *const () as usize, vdso] {
            let by_mappings = object_by_mappings(address).unwrap();
            assert!(by_mappings.contains(address) && by_mappings.name().is_none());
            assert_ne!(by_mappings.unwind_header, 0);
            assert_eq!(by_mappings.build_id().len(), 20);
            if !loader::can_search() {
                continue;
            }
            let by_search = object_by_search(address).unwrap();
            let range = |module: &LoadedModule| (module.start, module.end, module.segment_start, module.segment_end);
            assert_eq!(range(&by_search), range(&by_mappings));
            assert_eq!((by_search.bias, by_search.unwind_header), (by_mappings.bias, by_mappings.unwind_header));
            assert_eq!(by_search.build_id(), by_mappings.build_id());
            assert!(by_search.is_still_loaded(address));
            assert!(!LoadedModule { bias: by_search.bias + 1, ..by_search }.is_still_loaded(address));
        }
    }

    #[test]
    fn addresses_outside_all_objects_have_no_module() {
        loader::initialise();
        let word = 1u64;
        for address in [&raw const word as usize, 4096] {
            assert!(object_by_mappings(address).is_none());
            assert!(object_by_search(address).is_none());
        }
    }
}

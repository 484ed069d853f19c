//! The ELF objects an address may lie in: found once per lane, kept sorted, defined in the spool when first needed.
use crate::{DefinitionSink, ModuleDefinition};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{NonNull, null};
use core::sync::atomic::{AtomicUsize, Ordering};

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_R: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const MAX_HEADERS: usize = 1024;
const PAGE: usize = 4096;

/// A loaded object. Its pointers hold as long as it is loaded, that is at least until the lane forgets its modules.
#[derive(Clone, Copy)]
pub(super) struct Module {
    start: usize,
    end: usize,
    bias: usize,
    name: *const c_char,
    build_id: *const u8,
    build_id_len: usize,
    /// The lane's number for it plus one; 0 as long as the spool does not know it.
    defined: u32,
    /// `.eh_frame_hdr` (0 if there is none) and the readable segment around it.
    pub(super) unwind_header: usize,
    pub(super) unwind_start: usize,
    pub(super) unwind_end: usize,
}

impl Module {
    fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.end - self.start
    }

    /// Whether all of the range is in the object and can be read.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub(super) fn is_readable(&self, address: usize, length: usize) -> bool {
        is_readable_within(self.start, self.end, address, length)
    }

    /// # Safety
    /// The program headers must be those of an object loaded at `bias`, and `name` its name (or null), valid while it
    /// is loaded.
    unsafe fn from_headers(bias: usize, name: *const c_char, headers: *const libc::Elf64_Phdr, count: usize) -> Module {
        let mut module = Module {
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
            module.start = module.start.min(start & !(PAGE - 1));
            module.end = module.end.max(start.saturating_add(load.p_memsz as usize));
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
        module
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

    fn build_id(&self) -> &[u8] {
        if self.build_id.is_null() {
            return &[];
        }
        // SAFETY: `find_build_id` checked the range, which stays mapped while the object is loaded.
        unsafe { core::slice::from_raw_parts(self.build_id, self.build_id_len) }
    }

    fn name(&self) -> &[u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: the loader's name of the object, a C string that lives as long as the object is loaded.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
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

const PATH_LEN: usize = 4096 + 256;

/// The lane's modules, sorted by address. Zeroed memory is an empty table.
pub(super) struct Modules {
    entries: Option<NonNull<Module>>,
    capacity: usize,
    len: usize,
    last_hit: usize,
    /// Never goes back, so that a number in the spool holds for ever.
    next_id: u32,
    /// Here and not on the stack: the hooked thread may run on a small one.
    path: [u8; PATH_LEN],
}

impl Modules {
    pub(super) const fn new() -> Modules {
        Modules { entries: None, capacity: 0, len: 0, last_hit: 0, next_id: 0, path: [0; PATH_LEN] }
    }

    pub(super) fn forget(&mut self) {
        self.len = 0;
        self.last_hit = 0;
    }

    /// The module that holds `address`, asked of the loader where the lane does not know it yet.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub(super) fn at(&mut self, address: usize) -> Option<&Module> {
        let index = self.index_of(address)?;
        self.entries().get(index)
    }

    /// Number and bias of the module that holds `address`, defined in the spool if it was not.
    pub(super) fn define<S: DefinitionSink>(&mut self, address: usize, sink: &mut S) -> Option<(u32, usize)> {
        let index = self.index_of(address)?;
        let module = *self.entries().get(index)?;
        if module.defined != 0 {
            return Some((module.defined - 1, module.bias));
        }
        let id = self.next_id;
        let defined = id.checked_add(1)?;
        self.next_id = defined;
        if let Some(entry) = self.entries_mut().get_mut(index) {
            entry.defined = defined;
        }
        let path_len = write_path(module.name(), &mut self.path);
        sink.module(&ModuleDefinition {
            id,
            start: module.start as u64,
            end: module.end as u64,
            bias: module.bias as u64,
            path: self.path.get(..path_len).unwrap_or_default(),
            build_id: module.build_id(),
        });
        Some((id, module.bias))
    }

    fn index_of(&mut self, address: usize) -> Option<usize> {
        if self.entries().get(self.last_hit).is_some_and(|module| module.contains(address)) {
            return Some(self.last_hit);
        }
        let after = self.entries().partition_point(|module| module.start <= address);
        let known = after
            .checked_sub(1)
            .filter(|&index| self.entries().get(index).is_some_and(|module| module.contains(address)));
        let index = match known {
            Some(index) => index,
            None => self.insert(after, loaded_object_at(address)?)?,
        };
        self.last_hit = index;
        Some(index)
    }

    fn insert(&mut self, index: usize, module: Module) -> Option<usize> {
        if self.len == self.capacity {
            self.grow()?;
        }
        let entries = self.entries?;
        // SAFETY: `grow` made room for one more; `index` is at most `len`.
        unsafe {
            let at = entries.add(index);
            at.copy_to(at.add(1), self.len - index);
            at.write(module);
        }
        self.len += 1;
        Some(index)
    }

    fn grow(&mut self) -> Option<()> {
        const FIRST_LENGTH: usize = 4 * PAGE;
        let old_length = self.capacity * size_of::<Module>();
        let length = FIRST_LENGTH.max(old_length.next_multiple_of(PAGE) * 2);
        let fresh = memscope_sys::map_anonymous(length).ok()?.cast::<Module>();
        if let Some(old) = self.entries {
            // SAFETY: the new mapping is larger and disjoint; nothing refers to the old one afterwards.
            unsafe {
                fresh.copy_from_nonoverlapping(old, self.len);
                memscope_sys::unmap(old.cast(), old_length);
            }
        }
        self.entries = Some(fresh);
        self.capacity = length / size_of::<Module>();
        Some(())
    }

    fn entries(&self) -> &[Module] {
        match self.entries {
            // SAFETY: the first `len` entries of the lane's own mapping were written by `insert`.
            Some(entries) => unsafe { core::slice::from_raw_parts(entries.as_ptr(), self.len) },
            None => &[],
        }
    }

    fn entries_mut(&mut self) -> &mut [Module] {
        match self.entries {
            // SAFETY: as in `entries`, and the borrow of the lane is exclusive.
            Some(entries) => unsafe { core::slice::from_raw_parts_mut(entries.as_ptr(), self.len) },
            None => &mut [],
        }
    }
}

/// The file behind the loader's `name`, as an absolute path; returns its length.
fn write_path(name: &[u8], path: &mut [u8; PATH_LEN]) -> usize {
    if name.is_empty() {
        return memscope_sys::readlink(c"/proc/self/exe", path).map_or(0, <[u8]>::len);
    }
    if name.starts_with(b"/") {
        return append(path, 0, name);
    }
    if name.starts_with(b"linux-vdso") || name.starts_with(b"linux-gate") {
        return append(path, 0, b"[vdso]");
    }
    // The loader keeps a relative path as it was given; the program may have changed directory since, but rarely has.
    let directory = memscope_sys::readlink(c"/proc/self/cwd", path).map_or(0, <[u8]>::len);
    let slash = append(path, directory, b"/");
    append(path, slash, name)
}

fn append(path: &mut [u8; PATH_LEN], at: usize, text: &[u8]) -> usize {
    let room = path.get_mut(at..).unwrap_or_default();
    let length = text.len().min(room.len());
    for (to, from) in room.iter_mut().zip(text) {
        *to = *from;
    }
    at + length
}

/// `struct dl_find_object` of glibc.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: *const LinkMap,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The public beginning of `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> c_int;

/// `_dl_find_object`, 0 where the C library has none (before glibc 2.35) or `initialise` never ran.
static FIND_OBJECT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn initialise() {
    // SAFETY: a valid name; asked from a constructor, where the loader's functions may be called.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND_OBJECT.store(function as usize, Ordering::Release);
}

#[cold]
pub(super) fn loaded_object_at(address: usize) -> Option<Module> {
    let module = match FIND_OBJECT.load(Ordering::Acquire) {
        0 => object_by_iteration(address),
        // SAFETY: what dlsym returned for `_dl_find_object` is a function of this type.
        function => object_by_search(address, unsafe { core::mem::transmute::<usize, FindObject>(function) }),
    };
    module.filter(|module| module.contains(address))
}

/// Takes no lock, so it is safe wherever a hook may be.
fn object_by_search(address: usize, find_object: FindObject) -> Option<Module> {
    let mut found =
        FoundObject { flags: 0, map_start: 0, map_end: 0, link_map: null(), eh_frame: null(), reserved: [0; 7] };
    // SAFETY: any address may be asked about, and the answer goes into a structure of glibc's own layout.
    if unsafe { find_object(address as *const c_void, &mut found) } != 0 || found.link_map.is_null() {
        return None;
    }
    let (start, end) = (found.map_start, found.map_end);
    if !is_readable_within(start, end, start, size_of::<libc::Elf64_Ehdr>()) {
        return None;
    }
    // SAFETY: just found readable; the first page of an object is its ELF header, and the magic is checked below.
    let header = unsafe { (start as *const libc::Elf64_Ehdr).read_unaligned() };
    let headers = start.wrapping_add(header.e_phoff as usize);
    let count = usize::from(header.e_phnum);
    if !header.e_ident.starts_with(b"\x7fELF")
        || usize::from(header.e_phentsize) != size_of::<libc::Elf64_Phdr>()
        || !is_readable_within(start, end, headers, count * size_of::<libc::Elf64_Phdr>())
    {
        return None;
    }
    // SAFETY: the loader's own link map of an object that is in use by the calling thread's stack; the program headers
    // were found readable.
    unsafe {
        let LinkMap { bias, name } = found.link_map.read();
        Some(Module::from_headers(bias, name, headers as *const libc::Elf64_Phdr, count))
    }
}

struct Wanted {
    address: usize,
    found: Option<Module>,
}

/// Takes the loader's lock for the length of the walk; no allocation happens inside.
fn object_by_iteration(address: usize) -> Option<Module> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, wanted: *mut c_void) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes on the `Wanted` below and valid headers of a loaded object.
        let (wanted, module) = unsafe {
            let info = &*info;
            let count = usize::from(info.dlpi_phnum);
            let bias = info.dlpi_addr as usize;
            (&mut *wanted.cast::<Wanted>(), Module::from_headers(bias, info.dlpi_name, info.dlpi_phdr, count))
        };
        if module.contains(wanted.address) {
            wanted.found = Some(module);
        }
        c_int::from(wanted.found.is_some())
    }
    let mut wanted = Wanted { address, found: None };
    // SAFETY: the callback gets the pointer it expects and does not keep it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut wanted).cast()) };
    wanted.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_asking_the_loader_agree() {
        initialise();
        let function = FIND_OBJECT.load(Ordering::Acquire);
        for address in [both_ways_of_asking_the_loader_agree as *const () as usize, libc::qsort as *const () as usize] {
            let by_iteration = object_by_iteration(address).unwrap();
            assert!(by_iteration.contains(address));
            assert_ne!(by_iteration.unwind_header, 0);
            assert_eq!(by_iteration.build_id().len(), 20);
            if function == 0 {
                continue;
            }
            // SAFETY: as in `loaded_object_at`.
            let find = unsafe { core::mem::transmute::<usize, FindObject>(function) };
            let by_search = object_by_search(address, find).unwrap();
            assert_eq!((by_search.start, by_search.bias), (by_iteration.start, by_iteration.bias));
            assert_eq!(by_search.unwind_header, by_iteration.unwind_header);
            assert_eq!(by_search.build_id(), by_iteration.build_id());
            assert_eq!(by_search.name(), by_iteration.name());
        }
    }

    #[test]
    fn addresses_outside_all_objects_have_no_module() {
        let word = 1u64;
        let mut modules = Modules::new();
        assert!(modules.at(&raw const word as usize).is_none());
        assert!(modules.at(4096).is_none());
    }

    #[test]
    fn names_of_the_loader_become_paths() {
        let mut path = [0; PATH_LEN];
        let exe = std::env::current_exe().unwrap();
        let length = write_path(b"", &mut path);
        assert_eq!(&path[..length], exe.as_os_str().as_encoded_bytes());
        let length = write_path(b"/lib/libc.so.6", &mut path);
        assert_eq!(&path[..length], b"/lib/libc.so.6");
        let length = write_path(b"linux-vdso.so.1", &mut path);
        assert_eq!(&path[..length], b"[vdso]");
        let length = write_path(b"x/libplug.so", &mut path);
        let expected = std::env::current_dir().unwrap().join("x/libplug.so");
        assert_eq!(&path[..length], expected.as_os_str().as_encoded_bytes());
    }
}

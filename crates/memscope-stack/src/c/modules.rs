//! The ELF objects an address may lie in: found once per lane, kept sorted, defined in the spool when first needed.
use super::maps::Maps;
use super::objects::{LoadedModule, loaded_object_at};
use crate::{DefinitionSink, ModuleDefinition};
use core::ptr::NonNull;

const PAGE: usize = 4096;
const PATH_LEN: usize = 4096 + 256;

/// The lane's modules, sorted by address. Zeroed memory is an empty table.
pub(super) struct Modules {
    entries: Option<NonNull<LoadedModule>>,
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
    #[cfg_attr(not(any(target_arch = "x86_64", test)), expect(dead_code))]
    pub(super) fn at(&mut self, address: usize) -> Option<&LoadedModule> {
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
        let path_len = match module.name() {
            Some(name) => write_path(name, &mut self.path),
            None => write_path_at(address, &mut self.path),
        };
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

    /// Where the module that holds `address` is. One that is known already is compared with what the loader has there
    /// now, as far as it can be asked: should an object have been unloaded unseen, nothing of it may be read.
    fn index_of(&mut self, address: usize) -> Option<usize> {
        let index = self.known_index_of(address)?;
        if self.entries().get(index).is_some_and(|module| module.is_still_loaded(address)) {
            return Some(index);
        }
        super::library_unloaded();
        self.forget();
        self.known_index_of(address)
    }

    fn known_index_of(&mut self, address: usize) -> Option<usize> {
        if self.entries().get(self.last_hit).is_some_and(|module| module.contains(address)) {
            return Some(self.last_hit);
        }
        let after = self.entries().partition_point(|module| module.first_address() <= address);
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

    fn insert(&mut self, index: usize, module: LoadedModule) -> Option<usize> {
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
        let old_length = self.capacity * size_of::<LoadedModule>();
        let length = FIRST_LENGTH.max(old_length.next_multiple_of(PAGE) * 2);
        let fresh = memscope_sys::map_own(length).ok()?.cast::<LoadedModule>();
        if let Some(old) = self.entries {
            // SAFETY: the new mapping is larger and disjoint; nothing refers to the old one afterwards.
            unsafe {
                fresh.copy_from_nonoverlapping(old, self.len);
                memscope_sys::unmap_own(old.cast(), old_length);
            }
        }
        self.entries = Some(fresh);
        self.capacity = length / size_of::<LoadedModule>();
        Some(())
    }

    fn entries(&self) -> &[LoadedModule] {
        match self.entries {
            // SAFETY: the first `len` entries of the lane's own mapping were written by `insert`.
            Some(entries) => unsafe { core::slice::from_raw_parts(entries.as_ptr(), self.len) },
            None => &[],
        }
    }

    fn entries_mut(&mut self) -> &mut [LoadedModule] {
        match self.entries {
            // SAFETY: as in `entries`, and the borrow of the lane is exclusive.
            Some(entries) => unsafe { core::slice::from_raw_parts_mut(entries.as_ptr(), self.len) },
            None => &mut [],
        }
    }
}

/// The file mapped at `address`, by the kernel's name; returns its length.
fn write_path_at(address: usize, path: &mut [u8; PATH_LEN]) -> usize {
    const DELETED: &[u8] = b" (deleted)";
    let Some(mut maps) = Maps::open() else { return 0 };
    while let Some((mapping, length)) = maps.next(path) {
        if mapping.contains(address) {
            let is_deleted = path.get(..length).is_some_and(|path| path.ends_with(DELETED));
            return if is_deleted { length - DELETED.len() } else { length };
        }
    }
    0
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let length = write_path_at(names_of_the_loader_become_paths as *const () as usize, &mut path);
        assert_eq!(&path[..length], exe.as_os_str().as_encoded_bytes());
    }
}

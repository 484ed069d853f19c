//! What the loader has loaded, and the symbols of it, without the loader's lock.
//!
//! Why not `dlsym` and its like: they take a lock that another thread holds while it runs constructors, and a
//! constructor may wait for the very thread that asks. Here nothing is locked, allocated or left behind.
//!
//! The loader keeps its objects in a list for debuggers (`_r_debug`), which is public and complete. They are searched in
//! the order the loader itself would take: the global scope, which is not public, is recognised by what is in it.
mod late;
mod memory;
mod symbols;

use crate::arch::{debug_symbol, own_dynamic_section};
use crate::wait_while;
use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use memory::Memory;
use symbols::Tables;

pub use late::{bring_forward, find_without, loader_base};

/// A loaded object: the public beginning of the loader's `struct link_map`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    map: usize,
    bias: usize,
    name: usize,
    dynamic: usize,
}

/// What follows it there: its neighbours in the list.
struct Links {
    next: usize,
    previous: usize,
}

const NEXT: usize = 24;

/// Where a symbol was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub address: usize,
    pub object: Object,
}

impl Object {
    fn at(memory: &mut Memory, map: usize) -> Option<(Object, Links)> {
        let [bias, name, dynamic, next, previous] = memory.read(map)?;
        Some((Object { map, bias, name, dynamic }, Links { next, previous }))
    }

    /// The object that [`Object::id`] stood for, if it is still loaded.
    pub fn of_id(id: usize) -> Option<Object> {
        settled(|memory| Object::linked_at(memory, id))
    }

    /// The object of this map if its neighbours in the list know it.
    fn linked_at(memory: &mut Memory, map: usize) -> Option<Object> {
        let (object, links) = Object::at(memory, map)?;
        let known_as = match links.previous {
            0 => first(memory),
            previous => memory.read(previous.wrapping_add(NEXT)),
        };
        (known_as == Some(map)).then_some(object)
    }

    /// A number that no other loaded object has.
    pub fn id(&self) -> usize {
        self.map
    }

    /// The path it was loaded from, a C string that lives as long as the object is loaded; empty for the program itself.
    pub fn path(&self) -> usize {
        self.name
    }

    /// The address of a symbol of this very object.
    pub fn find(&self, name: &CStr) -> Option<usize> {
        settled(|memory| self.find_with(memory, name))
    }

    fn find_with(&self, memory: &mut Memory, name: &CStr) -> Option<usize> {
        Tables::read(memory, self)?.find(memory, self, name)
    }

    /// Whether its file or, for the linker, it itself is called so.
    fn is_called(&self, memory: &mut Memory, name: &CStr) -> bool {
        let name = name.to_bytes();
        memory.file_name(self.name).is_some_and(|file| memory.is_text(file, name))
            || Tables::read(memory, self)
                .and_then(|tables| tables.so_name())
                .is_some_and(|own| memory.is_text(own, name))
    }

    fn is_ours(&self) -> bool {
        self.dynamic == own_dynamic_section()
    }
}

/// Head of the list.
fn first(memory: &mut Memory) -> Option<usize> {
    memory.read::<usize>(debug_symbol().wrapping_add(8)).filter(|map| *map != 0)
}

/// Searches until the list did not change meanwhile. Not for ever: the thread that changes it may be on the other side of a
/// fork.
fn settled<T>(mut search: impl FnMut(&mut Memory) -> Option<T>) -> Option<T> {
    const ATTEMPTS: u32 = 100;
    const PAUSE_NS: u64 = 100_000;
    let nobody = AtomicU32::new(0);
    let mut attempt = 0;
    loop {
        let mut memory = Memory::careful();
        let found = search(&mut memory);
        attempt += 1;
        if found.is_some() || !memory.is_doubted() || attempt == ATTEMPTS {
            return found;
        }
        wait_while(&nobody, 0, PAUSE_NS);
    }
}

/// The loaded objects in the order they were loaded, those that are out of sight included.
struct Objects {
    next: usize,
    previous: usize,
    left: u32,
}

impl Objects {
    fn begin(memory: &mut Memory) -> Objects {
        const MOST: u32 = 100_000;
        Objects { next: first(memory).unwrap_or(0), previous: 0, left: MOST }
    }

    fn next(&mut self, memory: &mut Memory) -> Option<Object> {
        if self.next == 0 {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let found = Object::at(memory, self.next);
        if found.as_ref().is_none_or(|(_, links)| links.previous != self.previous) {
            // It was taken out of the list when we were already on our way to it.
            memory.doubt();
        }
        let (object, links) = found?;
        (self.previous, self.next) = (self.next, links.next);
        Some(object)
    }
}

/// The objects whose symbols everybody sees, in the order they are searched.
struct GlobalScope {
    list: usize,
    count: usize,
}

impl GlobalScope {
    /// The program's `link_map` holds it somewhere behind its public part, as the address of a list of maps and their
    /// number. The list begins with the program and has us in it, and there is no other such list followed by a number.
    fn find(memory: &mut Memory) -> Option<GlobalScope> {
        /// Where it was found: the same for every search of a process.
        static PLACE: AtomicUsize = AtomicUsize::new(0);
        let program = first(memory)?;
        let place = match PLACE.load(Relaxed) {
            0 => GlobalScope::place(program)?,
            place => place,
        };
        PLACE.store(place, Relaxed);
        let [list, count] = memory.read::<[usize; 2]>(program.checked_add(place)?)?;
        Some(GlobalScope { list, count: count as u32 as usize })
    }

    fn place(program: usize) -> Option<usize> {
        let mut found = None;
        GlobalScope::each_candidate(program, |memory, place, scope| {
            found = scope.is_right(memory, program, &Object::is_ours).then_some(place);
            found.is_some()
        });
        found
    }

    /// Calls `visit` with whatever may be an address and a number, and its place, until it says that this is enough. Read
    /// carefully in any case, because most of what is there are no addresses.
    fn each_candidate(program: usize, mut visit: impl FnMut(&mut Memory, usize, GlobalScope) -> bool) {
        const PUBLIC: usize = 40;
        const SEARCHED: usize = 1600;
        const AT_ONCE: usize = 16;
        const MOST: usize = 100_000;
        let memory = &mut Memory::careful();
        for start in (PUBLIC..SEARCHED).step_by((AT_ONCE - 1) * 8) {
            let Some(words) = memory.read::<[usize; AT_ONCE]>(program.wrapping_add(start)) else { return };
            for (number, pair) in words.windows(2).enumerate() {
                let &[list, count] = pair else { continue };
                let scope = GlobalScope { list, count: count as u32 as usize };
                let may_be = list.is_multiple_of(8) && (2..MOST).contains(&scope.count);
                if may_be && visit(memory, start + number * 8, scope) {
                    return;
                }
            }
        }
    }

    fn is_right(&self, memory: &mut Memory, program: usize, is_member: &dyn Fn(&Object) -> bool) -> bool {
        if memory.read::<usize>(self.list) != Some(program) {
            return false;
        }
        let mut has_member = false;
        for number in 0..self.count {
            let Some(object) = self.object(memory, number) else { return false };
            has_member |= is_member(&object);
        }
        has_member
    }

    fn object(&self, memory: &mut Memory, number: usize) -> Option<Object> {
        let map = memory.read::<usize>(self.list.checked_add(number * 8)?)?;
        Object::linked_at(memory, map)
    }
}

/// The path, as [`Object::path`], of the first object that was loaded so many bytes beyond where it was linked for.
pub fn path_of_bias(bias: usize) -> Option<usize> {
    settled(|memory| {
        let mut objects = Objects::begin(memory);
        while let Some(object) = objects.next(memory) {
            if object.bias == bias {
                return Some(object.name);
            }
        }
        None
    })
}

/// What `dlsym(RTLD_NEXT, name)` would find: the first in the global scope behind our own object.
pub fn find_next(name: &CStr) -> Option<Found> {
    settled(|memory| find_in_global_scope(memory, name, false))
}

/// The same, read in place: to be called while all that is loaded stays loaded, which is so until `dlopen` can have been
/// called.
///
/// # Safety
/// No object is unloaded meanwhile.
pub unsafe fn find_next_at_start(name: &CStr) -> Option<Found> {
    find_in_global_scope(&mut Memory::trusting(), name, false)
}

/// What `dlsym(RTLD_DEFAULT, name)` would find if our own object were not there.
pub fn find_global(name: &CStr) -> Option<Found> {
    settled(|memory| find_in_global_scope(memory, name, true))
}

fn find_in_global_scope(memory: &mut Memory, name: &CStr, before_us: bool) -> Option<Found> {
    let Some(scope) = GlobalScope::find(memory) else {
        // Nearly the same: it has the objects that are out of sight as well.
        return find_in_list(memory, name, before_us);
    };
    let mut passed = before_us;
    for number in 0..scope.count {
        let Some(object) = scope.object(memory, number) else {
            memory.doubt();
            continue;
        };
        if object.is_ours() {
            passed = true;
        } else if passed && let Some(address) = object.find_with(memory, name) {
            return Some(Found { address, object });
        }
    }
    None
}

fn find_in_list(memory: &mut Memory, name: &CStr, before_us: bool) -> Option<Found> {
    let mut objects = Objects::begin(memory);
    let mut passed = before_us;
    while let Some(object) = objects.next(memory) {
        if object.is_ours() {
            passed = true;
        } else if passed && let Some(address) = object.find_with(memory, name) {
            return Some(Found { address, object });
        }
    }
    None
}

/// The first definition in any object but ours, also in those that are out of sight.
pub fn find_anywhere(name: &CStr) -> Option<Found> {
    settled(|memory| find_in_list(memory, name, true))
}

/// The definition in the object of this file or linker's name.
pub fn find_in(library: &CStr, name: &CStr) -> Option<Found> {
    let object = loaded(library)?;
    Some(Found { address: object.find(name)?, object })
}

/// The object of this file or linker's name, if it is loaded.
pub fn loaded(library: &CStr) -> Option<Object> {
    settled(|memory| {
        let mut objects = Objects::begin(memory);
        while let Some(object) = objects.next(memory) {
            if object.is_called(memory, library) {
                return Some(object);
            }
        }
        None
    })
}

/// Tells at next to no cost whether something was loaded since it was last asked. It follows the list from our own object,
/// which stays, and reads in place: an object that goes at that very moment is freed memory, not unmapped memory.
pub struct Watch {
    ours: AtomicUsize,
    seen: AtomicUsize,
}

impl Watch {
    pub const fn new() -> Watch {
        Watch { ours: AtomicUsize::new(0), seen: AtomicUsize::new(0) }
    }

    /// Whether the list behind our own object is another one than before; yes at first.
    pub fn has_changed(&self) -> bool {
        const MOST: u32 = 100_000;
        let ours = match self.ours.load(Relaxed) {
            0 => settled(own_object).map_or(0, |object| object.map),
            ours => ours,
        };
        if ours == 0 {
            return false;
        }
        self.ours.store(ours, Relaxed);
        let (mut map, mut mixed) = (ours, 0usize);
        for _ in 0..MOST {
            mixed = mixed.rotate_left(7) ^ map;
            // SAFETY: the map of a loaded object, or of one that was loaded a moment ago.
            map = unsafe { ((map + NEXT) as *const usize).read_volatile() };
            if map == 0 || !map.is_multiple_of(8) {
                break;
            }
        }
        self.seen.swap(mixed, Relaxed) != mixed
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

fn own_object(memory: &mut Memory) -> Option<Object> {
    let mut objects = Objects::begin(memory);
    while let Some(object) = objects.next(memory) {
        if object.is_ours() {
            return Some(object);
        }
    }
    None
}

#[cfg(test)]
mod tests;

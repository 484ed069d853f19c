//! What a library needs that is loaded into a program that already runs: its place in the global scope, and what would be
//! found if it were not there. All of it is read in place and wants the loader's lock, which a constructor has.
use super::memory::Memory;
use super::symbols::Tables;
use super::{Found, GlobalScope, Object, Objects, first};
use crate::arch::debug_symbol;
use core::ffi::CStr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Release};

/// Where in the global scope preloaded libraries begin: the program itself comes before them.
const BEHIND_PROGRAM: usize = 1;

/// Moves `late`, which were loaded with `RTLD_GLOBAL` and so came to the end of the global scope, to where they would be had
/// they been preloaded, in this order. `false`: the scope was not found, and nothing was changed.
///
/// # Safety
/// The loader's lock is held, and `late` are loaded.
pub unsafe fn bring_forward(late: &[Object]) -> bool {
    let mut memory = Memory::trusting();
    let (Some(program), Some(member)) = (first(&mut memory), late.first()) else { return false };
    let Some(scope) = GlobalScope::only_one_with(program, member) else { return false };
    // SAFETY: the list is the loader's own, as long as it says, and in memory of malloc: the loader wrote to it when the
    // libraries were added. Others read it without a lock, one word at a time.
    let entry = |number: usize| unsafe { &*((scope.list + number * 8) as *const AtomicUsize) };
    let position =
        |object: &Object| (BEHIND_PROGRAM..scope.count).find(|number| entry(*number).load(Acquire) == object.map);
    if late.iter().any(|object| position(object).is_none()) {
        return false;
    }
    for object in late.iter().rev() {
        let Some(position) = position(object) else { continue };
        // From the end: whoever searches meanwhile may find an entry twice, and misses none but ours.
        for number in (BEHIND_PROGRAM + 1..=position).rev() {
            entry(number).store(entry(number - 1).load(Acquire), Release);
        }
        entry(BEHIND_PROGRAM).store(object.map, Release);
    }
    true
}

/// What a search in the global scope, or else in all that is loaded, finds if the objects `without` are left out.
///
/// # Safety
/// The loader's lock is held.
pub unsafe fn find_without(name: &CStr, without: &[Object]) -> Option<Found> {
    let memory = &mut Memory::trusting();
    let program = first(memory)?;
    if let Some(scope) = without.first().and_then(|member| GlobalScope::only_one_with(program, member)) {
        for number in 0..scope.count {
            if let Some(object) = scope.object(memory, number).filter(|object| !without.contains(object))
                && let Some(address) = object.find_with(memory, name)
            {
                return Some(Found { address, object });
            }
        }
    }
    let mut objects = Objects::begin(memory);
    while let Some(object) = objects.next(memory) {
        if !without.contains(&object)
            && let Some(address) = object.find_with(memory, name)
        {
            return Some(Found { address, object });
        }
    }
    None
}

/// By what the loader's own addresses in memory are larger than those in its file.
pub fn loader_base() -> usize {
    const BASE: usize = 32;
    Memory::trusting().read(debug_symbol().wrapping_add(BASE)).unwrap_or(0)
}

impl Object {
    /// The program itself.
    ///
    /// # Safety
    /// The loader's lock is held.
    pub unsafe fn program() -> Option<Object> {
        let memory = &mut Memory::trusting();
        let program = first(memory)?;
        Object::linked_at(memory, program)
    }

    /// By what its addresses in memory are larger than those in its file.
    pub fn bias(&self) -> usize {
        self.bias
    }

    pub fn dynamic_section(&self) -> usize {
        self.dynamic
    }

    /// Calls `visit` with the name and the address of each function it exports.
    ///
    /// # Safety
    /// It is not unloaded meanwhile.
    pub unsafe fn each_function(&self, visit: impl FnMut(&'static CStr, usize)) {
        let memory = &mut Memory::trusting();
        if let Some(tables) = Tables::read(memory, self) {
            // SAFETY: the caller's.
            unsafe { tables.each_function(memory, self, visit) };
        }
    }
}

impl GlobalScope {
    /// The scope, recognised by `member`; `None` also where more than one list looks like it.
    fn only_one_with(program: usize, member: &Object) -> Option<GlobalScope> {
        let (mut found, mut ambiguous): (Option<GlobalScope>, bool) = (None, false);
        GlobalScope::each_candidate(program, |memory, _, scope| {
            if scope.is_right(memory, program, &|object| object == member) {
                ambiguous = found.as_ref().is_some_and(|other| other.list != scope.list);
                found = Some(scope);
            }
            ambiguous
        });
        found.filter(|_| !ambiguous)
    }
}

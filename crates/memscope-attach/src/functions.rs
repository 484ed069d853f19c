//! The functions that are hooked.
use core::ffi::CStr;
use memscope_sys::loader::{self, Object};

/// A function that one of the recording libraries stands in front of.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    name: &'static CStr,
    pub(crate) hook: usize,
    /// What a search finds without the recording libraries; 0 if nothing.
    pub(crate) original: usize,
    /// An allocator of the program's own must stay with its own blocks.
    pub(crate) is_of_allocator: bool,
}

/// Found by name: a table of hashes, where a name is at its hash or in one of the places behind it.
pub(crate) struct Functions {
    places: [Option<Function>; PLACES],
}

/// Several times what there is.
const PLACES: usize = 512;

/// What the recording library exports for its own sake.
const OWN: [&CStr; 2] = [c"msmemscope_api", c"InitInjectionMstx"];

impl Functions {
    /// # Safety
    /// The loader's lock is held.
    pub(crate) unsafe fn of(libraries: &[Object]) -> Functions {
        let mut functions = Functions { places: [None; PLACES] };
        for (number, library) in libraries.iter().enumerate() {
            let add = |name: &'static CStr, hook: usize| {
                if OWN.contains(&name) {
                    return;
                }
                // SAFETY: the caller's.
                let original = unsafe { loader::find_without(name, libraries) }.map_or(0, |found| found.address);
                functions.add(Function { name, hook, original, is_of_allocator: number > 0 });
            };
            // SAFETY: the caller's; the libraries stay loaded.
            unsafe { library.each_function(add) };
        }
        functions
    }

    fn add(&mut self, function: Function) {
        let start = hash(function.name.to_bytes());
        let free = (start..start + PLACES).map(|place| place % PLACES).find(|place| self.at(*place).is_none());
        if let Some(place) = free.and_then(|place| self.places.get_mut(place)) {
            *place = Some(function);
        }
    }

    fn at(&self, place: usize) -> Option<&Function> {
        self.places.get(place)?.as_ref()
    }

    pub(crate) fn find(&self, name: &CStr) -> Option<&Function> {
        let start = hash(name.to_bytes());
        let behind = (start..start + PLACES).map(|place| self.at(place % PLACES));
        behind.map_while(|function| function).find(|function| function.name == name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Function> {
        self.places.iter().flatten()
    }
}

fn hash(name: &[u8]) -> usize {
    name.iter().fold(5381usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(*byte)) % PLACES
}

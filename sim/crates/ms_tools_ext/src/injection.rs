//! Finding the tool and the slots it fills.

use std::env;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::mem;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use sim_boundary::Out;

/// Most slots of a module, index 0 unused.
const SLOTS: usize = 6;

/// The modules of the interface, and how many slots each has (index 0 counted).
#[derive(Clone, Copy)]
pub(crate) enum Module {
    Core = 1,
    Domain = 2,
    Memory = 3,
}

impl Module {
    fn of(number: c_int) -> Option<Self> {
        match number {
            1 => Some(Self::Core),
            2 => Some(Self::Domain),
            3 => Some(Self::Memory),
            _ => None,
        }
    }

    const fn size(self) -> usize {
        match self {
            Self::Core => 5,
            Self::Domain | Self::Memory => 6,
        }
    }

    const fn index(self) -> usize {
        self as usize - 1
    }
}

type Slot = AtomicPtr<c_void>;

static FUNCTIONS: [[Slot; SLOTS]; 3] = [const { [const { Slot::new(ptr::null_mut()) }; SLOTS] }; 3];
/// What a tool sees: pointers to slots, null at 0 and behind the last.
static TABLES: [[Slot; SLOTS + 1]; 3] = [const { [const { Slot::new(ptr::null_mut()) }; SLOTS + 1] }; 3];
static SEARCH: Once = Once::new();

type GetTable = extern "C" fn(c_int, Out<*const Slot>, Out<c_uint>) -> c_int;
type InitInjection = extern "C" fn(GetTable) -> c_int;

extern "C" fn get_table(module: c_int, table: Out<*const Slot>, size: Out<c_uint>) -> c_int {
    let Some(module) = Module::of(module) else { return 1 };
    let entries = &TABLES[module.index()];
    for index in 1..module.size() {
        entries[index].store(FUNCTIONS[module.index()][index].as_ptr().cast(), Ordering::Relaxed);
    }
    let written = table.set(entries.as_ptr()) && size.set(module.size() as c_uint);
    c_int::from(!written)
}

unsafe extern "C" {
    fn dlopen(name: *const std::ffi::c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const std::ffi::c_char) -> *mut c_void;
}

const RTLD_LAZY: c_int = 1;

fn search() {
    let library = match env::var("MSTX_INJECTION_PATH").ok().and_then(|path| CString::new(path).ok()) {
        // SAFETY: a NUL-terminated path; the user asks for that library's initialisers to run.
        Some(path) => match unsafe { dlopen(path.as_ptr(), RTLD_LAZY) } {
            library if library.is_null() => return,
            library => library,
        },
        // The default scope: what was preloaded or loaded globally.
        None => ptr::null_mut(),
    };
    // SAFETY: a library handle from `dlopen` or the default scope, and a NUL-terminated name.
    let function = unsafe { dlsym(library, c"InitInjectionMstx".as_ptr()) };
    if function.is_null() {
        return;
    }
    // SAFETY: a tool that exports this name promises this signature.
    let initialise: InitInjection = unsafe { mem::transmute(function) };
    if initialise(get_table) != 0 {
        FUNCTIONS.iter().flatten().for_each(|slot| slot.store(ptr::null_mut(), Ordering::Release));
    }
}

/// The tool's function for an entry point, if there is a tool and it wants that one.
pub(crate) fn function(module: Module, index: usize) -> Option<*mut c_void> {
    SEARCH.call_once(search);
    let function = FUNCTIONS[module.index()][index].load(Ordering::Acquire);
    (!function.is_null()).then_some(function)
}

//! The functions that programs call. Arguments pass through untouched: what they point to is between program and tool.

use std::ffi::c_void;
use std::mem;

use crate::injection::{Module, function};

/// Declares entry points: module, slot, name, arguments, result when nobody listens.
macro_rules! entry_points {
    ($($(#[$doc:meta])* $module:ident $slot:literal $name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $nobody:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $kind),*) -> $result {
                let Some(function) = function(Module::$module, $slot) else { return $nobody };
                // SAFETY: a tool that fills this slot promises the signature of the entry point.
                let function: extern "C" fn($($kind),*) -> $result = unsafe { mem::transmute(function) };
                function($($argument),*)
            }
        )*
    };
}

type Pointer = *mut c_void;
const NULL: Pointer = std::ptr::null_mut();
type Nothing = ();
const NOTHING: Nothing = ();

entry_points! {
    /// A mark in time.
    Core 1 mstxMarkA(message: Pointer, stream: Pointer) -> Nothing = NOTHING;
    /// The start of a range; its id.
    Core 2 mstxRangeStartA(message: Pointer, stream: Pointer) -> u64 = 0;
    /// The end of a range.
    Core 3 mstxRangeEnd(id: u64) -> Nothing = NOTHING;
    /// Which tool listens.
    Core 4 mstxGetToolId(id: Pointer) -> Nothing = NOTHING;
    /// A named domain.
    Domain 1 mstxDomainCreateA(name: Pointer) -> Pointer = NULL;
    /// The end of a domain.
    Domain 2 mstxDomainDestroy(domain: Pointer) -> Nothing = NOTHING;
    /// A mark within a domain.
    Domain 3 mstxDomainMarkA(domain: Pointer, message: Pointer, stream: Pointer) -> Nothing = NOTHING;
    /// The start of a range within a domain; its id.
    Domain 4 mstxDomainRangeStartA(domain: Pointer, message: Pointer, stream: Pointer) -> u64 = 0;
    /// The end of a range within a domain.
    Domain 5 mstxDomainRangeEnd(domain: Pointer, id: u64) -> Nothing = NOTHING;
    /// A heap of a pool.
    Memory 1 mstxMemHeapRegister(domain: Pointer, heap: Pointer) -> Pointer = NULL;
    /// The end of a heap.
    Memory 2 mstxMemHeapUnregister(domain: Pointer, heap: Pointer) -> Nothing = NOTHING;
    /// Blocks given out by a pool.
    Memory 3 mstxMemRegionsRegister(domain: Pointer, batch: Pointer) -> Nothing = NOTHING;
    /// Blocks given back to a pool.
    Memory 4 mstxMemRegionsUnregister(domain: Pointer, batch: Pointer) -> Nothing = NOTHING;
    /// Access rights of blocks.
    Memory 5 mstxMemPermissionsAssign(domain: Pointer, batch: Pointer) -> Nothing = NOTHING;
}

//! Hooks whose original may throw: an exception passes through the stub, not through Rust.
//!
//! Each architecture has `around!(name(argument …) => began, ended, [directive, personality])`, for up to three arguments. What is in
//! brackets may be left out: the directive that puts a personality function, which is asked when an exception passes, into the unwind
//! table. And `gated!(name => began, ended, gate)`, for what is called so often that it has a gate.
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

use crate::Entry;

pub use arch::call_for_object;

/// What happens after the beginning of such a hook.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Next {
    /// 0: return the token.
    original: usize,
    /// 0: jump to the original.
    token: usize,
}

impl Next {
    pub fn answer(answer: usize) -> Next {
        Next { original: 0, token: answer }
    }

    /// As if we were not there. Where there is no original, 0 is returned.
    pub fn jump(original: usize) -> Next {
        Next { original, token: 0 }
    }

    /// `token`, which is not 0, is handed to what comes after the call.
    pub fn call(original: usize, token: usize) -> Next {
        Next { original, token }
    }
}

/// What comes after the call where nothing is to be done.
///
/// # Safety
/// None; it has the type of the others.
pub unsafe extern "C" fn unchanged(answer: usize, _token: usize, _entry: Entry) -> usize {
    answer
}

/// What a personality function answers that catches nothing (`_URC_CONTINUE_UNWIND`).
#[doc(hidden)]
pub const GO_ON: i32 = 8;

/// Whether a personality function is asked while a handler is searched (`_UA_SEARCH_PHASE`): once for each exception that comes
/// this way, before anything is unwound, and also if there turns out to be no handler.
#[doc(hidden)]
pub fn exception_comes(actions: i32) -> bool {
    const SEARCH_PHASE: i32 = 1;
    actions & SEARCH_PHASE != 0
}

/// A stub, and the proof that both halves take what it passes.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_around {
    ($name:ident($($argument:ident: $type:ty),*) => $began:path) => {
        $crate::typed_around!($name($($argument: $type),*) => $began, $crate::around::unchanged);
    };
    ($name:ident($($argument:ident: $type:ty),*) => $began:path, $ended:path) => {
        $crate::typed_around!(@ $name($($argument: $type),*) => $began, $ended, []);
    };
    ($name:ident($($argument:ident: $type:ty),*) => $began:path, $ended:path, $thrown:path) => {
        unsafe extern "C" fn personality(_: i32, actions: i32, _: u64, _: usize, _: usize) -> i32 {
            if $crate::around::exception_comes(actions) {
                $thrown();
            }
            $crate::around::GO_ON
        }
        // 0x1b: four bytes, relative to where they are.
        $crate::typed_around!(
            @ $name($($argument: $type),*) => $began, $ended, [".cfi_personality 0x1b, {personality}", personality]
        );
    };
    (@ $name:ident($($argument:ident: $type:ty),*) => $began:path, $ended:path, [$($personality:tt)*]) => {
        $( $crate::is_word::<$type>(); )*
        const _: unsafe extern "C" fn($($type,)* $crate::Entry) -> $crate::around::Next = $began;
        const _: unsafe extern "C" fn(usize, usize, $crate::Entry) -> usize = $ended;
        $crate::around!($name($($argument)*) => $began, $ended, [$($personality)*]);
    };
}

/// The same for a function that returns an object and has a gate.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_gated {
    ($name:ident($argument:ident: $type:ty) => $began:path, $ended:path, $gate:path) => {
        $crate::is_word::<$type>();
        const _: unsafe extern "C" fn(usize, $type) -> $crate::around::Next = $began;
        const _: unsafe extern "C" fn(usize) -> usize = $ended;
        const _: &core::sync::atomic::AtomicUsize = &$gate;
        $crate::gated!($name => $began, $ended, $gate);
    };
}

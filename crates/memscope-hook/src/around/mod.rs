//! Hooks whose original may throw: an exception passes through the stub, not through Rust.
//!
//! Each architecture has `around!(name(argument …) => began, ended)`, for up to three arguments.
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

/// A stub, and the proof that both halves take what it passes.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_around {
    ($name:ident($($argument:ident: $type:ty),*) => $began:path) => {
        $crate::typed_around!($name($($argument: $type),*) => $began, $crate::around::unchanged);
    };
    ($name:ident($($argument:ident: $type:ty),*) => $began:path, $ended:path) => {
        $( $crate::is_word::<$type>(); )*
        const _: unsafe extern "C" fn($($type,)* $crate::Entry) -> $crate::around::Next = $began;
        const _: unsafe extern "C" fn(usize, usize, $crate::Entry) -> usize = $ended;
        $crate::around!($name($($argument)*) => $began, $ended);
    };
}

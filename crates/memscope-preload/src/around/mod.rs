//! Hooks whose original may throw.
#[macro_use]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

pub(crate) use arch::call_for_object;

/// What a stub made with `around!` does next.
#[repr(C)]
pub(crate) struct Next {
    /// 0: return the token.
    original: usize,
    /// 0: jump to the original.
    token: usize,
}

impl Next {
    pub(crate) fn answer(answer: usize) -> Next {
        Next { original: 0, token: answer }
    }

    /// As if we were not there. Where there is no original, 0 is returned.
    pub(crate) fn jump(original: usize) -> Next {
        Next { original, token: 0 }
    }

    /// `token`, which is not 0, is handed to what comes after the call.
    pub(crate) fn call(original: usize, token: usize) -> Next {
        Next { original, token }
    }
}

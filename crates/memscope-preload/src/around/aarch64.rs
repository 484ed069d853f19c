//! Hooks of C++ functions: an exception the original throws passes through the stub, not through Rust.
//!
//! Jumps go through x16: code with branch protection takes them for calls only from there.

/// `around!(name => began, ended)`: an exported function of up to three arguments in registers.
///
/// `began(a, b, c, stack, frame)` says what happens ([`super::Next`]): an answer at once, a jump to the original, or a call
/// of it. A call's answer goes through `ended(answer, token, stack, frame)`, unless an exception ends it.
macro_rules! around {
    ($name:ident => $began:path, $ended:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-64]!",
                ".cfi_def_cfa_offset 64",
                ".cfi_offset 29, -64",
                ".cfi_offset 30, -56",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "str x2, [sp, #32]",
                "mov x3, sp",
                "mov x4, sp",
                "bl {began}",
                "cbz x0, 2f",
                "mov x16, x0",
                "mov x10, x1",
                "ldp x0, x1, [sp, #16]",
                "ldr x2, [sp, #32]",
                "cbz x10, 3f",
                "str x10, [sp, #40]",
                "blr x16",
                "ldr x1, [sp, #40]",
                "mov x2, sp",
                "mov x3, sp",
                "bl {ended}",
                ".cfi_remember_state",
                "ldp x29, x30, [sp], #64",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore 29",
                ".cfi_restore 30",
                "ret",
                "2:",
                ".cfi_restore_state",
                ".cfi_remember_state",
                "mov x0, x1",
                "ldp x29, x30, [sp], #64",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore 29",
                ".cfi_restore 30",
                "ret",
                "3:",
                ".cfi_restore_state",
                "ldp x29, x30, [sp], #64",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore 29",
                ".cfi_restore 30",
                "br x16",
                ".cfi_endproc",
                began = sym $began,
                ended = sym $ended,
            )
        }
    };
}

/// Calls a C++ member function that returns an object at `result`, where it then stays: it may point into itself.
///
/// # Safety
/// `function` takes an object's address and nothing else, `this` is one, and `result` has room for what it returns.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_for_object(_function: usize, _this: usize, _result: *mut u8) {
    core::arch::naked_asm!(".cfi_startproc", "mov x16, x0", "mov x8, x2", "mov x0, x1", "br x16", ".cfi_endproc",)
}

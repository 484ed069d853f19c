//! Jumps go through x16: code with branch protection takes them for calls only from there.

#[doc(hidden)]
#[macro_export]
macro_rules! around {
    ($name:ident() => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "x0", "x1", $($rest)*);
    };
    ($name:ident($a:ident) => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "x1", "x2", $($rest)*);
    };
    ($name:ident($a:ident $b:ident) => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "x2", "x3", $($rest)*);
    };
    ($name:ident($a:ident $b:ident $c:ident) => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "x3", "x4", $($rest)*);
    };
    (
        @ $name:ident => $began:path, $ended:path, $stack:literal, $frame:literal, [$($directive:literal, $personality:path)?]
    ) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($directive,)?
                "stp x29, x30, [sp, #-64]!",
                ".cfi_def_cfa_offset 64",
                ".cfi_offset 29, -64",
                ".cfi_offset 30, -56",
                "stp x0, x1, [sp, #16]",
                "str x2, [sp, #32]",
                concat!("mov ", $frame, ", x29"),
                concat!("mov ", $stack, ", sp"),
                "mov x29, sp",
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
                "ldr x3, [sp]",
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
                $( personality = sym $personality, )?
            )
        }
    };
}

/// A function that returns an object at the address in x8: with up to one argument.
#[doc(hidden)]
#[macro_export]
macro_rules! gated {
    ($name:ident => $began:path, $ended:path, $gate:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "adrp x16, {gate}",
                "ldr x16, [x16, :lo12:{gate}]",
                "cbz x16, 2f",
                "br x16",
                "2:",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset 29, -32",
                ".cfi_offset 30, -24",
                "mov x29, sp",
                "stp x8, x0, [sp, #16]",
                "mov x1, x0",
                "mov x0, x8",
                "bl {began}",
                "mov x16, x0",
                "mov x10, x1",
                "ldp x8, x0, [sp, #16]",
                "cbz x10, 3f",
                "blr x16",
                "ldr x0, [sp, #16]",
                ".cfi_remember_state",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore 29",
                ".cfi_restore 30",
                "b {ended}",
                "3:",
                ".cfi_restore_state",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore 29",
                ".cfi_restore 30",
                "br x16",
                ".cfi_endproc",
                gate = sym $gate,
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
pub unsafe extern "C" fn call_for_object(_function: usize, _this: usize, _result: *mut u8) {
    core::arch::naked_asm!(".cfi_startproc", "mov x16, x0", "mov x8, x2", "mov x0, x1", "br x16", ".cfi_endproc",)
}

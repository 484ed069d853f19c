//! The return address is in a register on entry; the stub stores it with the caller's frame pointer, which makes it
//! the first record of the chain the unwinder walks.

/// Arguments that are passed in registers.
pub(super) const ARGUMENT_REGISTERS: usize = 8;

#[doc(hidden)]
#[macro_export]
macro_rules! stub {
    ([$($export:tt)*] $name:ident() => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x0", "x1");
    };
    ([$($export:tt)*] $name:ident($a:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x1", "x2");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x2", "x3");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x3", "x4");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident $d:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x4", "x5");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident $d:ident $e:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x5", "x6");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation, "x6", "x7");
    };
    (@call [$($export:tt)*] $name:ident => $implementation:path, $stack:literal, $frame:literal) => {
        #[unsafe(naked)]
        $($export)*
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset 29, -16",
                ".cfi_offset 30, -8",
                concat!("mov ", $frame, ", x29"),
                concat!("mov ", $stack, ", sp"),
                "mov x29, sp",
                "bl {implementation}",
                "ldp x29, x30, [sp], #16",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                implementation = sym $implementation,
            )
        }
    };
}

/// Calls with one of two numbers as their first argument go to `ours`; all others, and those before `original` is
/// known, on to it: without a frame, and with all registers as they were.
#[doc(hidden)]
#[macro_export]
macro_rules! pass_on {
    ([$($export:tt)*] $name:ident but $first:expr, $second:expr => $ours:path, $original:path) => {
        #[unsafe(naked)]
        $($export)*
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                // A landing place for indirect calls, where the processor asks for one.
                "hint #34",
                "cmp w0, #{first}",
                "b.eq 2f",
                "cmp w0, #{second}",
                "b.eq 2f",
                "adrp x16, {original}",
                "ldr x16, [x16, :lo12:{original}]",
                "cbz x16, 2f",
                "br x16",
                "2: b {ours}",
                ".cfi_endproc",
                first = const $first,
                second = const $second,
                original = sym $original,
                ours = sym $ours,
            )
        }
    };
}

/// Passes on where the arguments are: those of registers, stored for it, and those on the stack.
#[doc(hidden)]
#[macro_export]
macro_rules! variadic {
    ([$($export:tt)*] $name:ident => $implementation:path) => {
        #[unsafe(naked)]
        $($export)*
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "stp x29, x30, [sp, #-80]!",
                ".cfi_def_cfa_offset 80",
                ".cfi_offset 29, -80",
                ".cfi_offset 30, -72",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x0, sp, #16",
                "add x1, sp, #80",
                "bl {implementation}",
                "ldp x29, x30, [sp], #80",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                implementation = sym $implementation,
            )
        }
    };
}

//! Entry stubs: functions that add a frame record's address and the caller's frame pointer to the arguments of their
//! implementation.
//!
//! The return address is in a register on entry; the stub stores it with the caller's frame pointer, which makes it
//! the first record of the chain the unwinder walks. Compiled into both preloaded libraries.

/// `stub!(name(n) => implementation)`: an exported function of `n` arguments; `stub!(static …)`: one that is not.
macro_rules! stub {
    ($name:ident($count:tt) => $implementation:path) => {
        stub!(@ [#[unsafe(no_mangle)]] $name($count) => $implementation);
    };
    (static $name:ident($count:tt) => $implementation:path) => {
        stub!(@ [] $name($count) => $implementation);
    };
    (@ [$($export:tt)*] $name:ident(1) => $implementation:path) => {
        stub!(@call [$($export)*] $name => $implementation, "x1", "x2");
    };
    (@ [$($export:tt)*] $name:ident(2) => $implementation:path) => {
        stub!(@call [$($export)*] $name => $implementation, "x2", "x3");
    };
    (@ [$($export:tt)*] $name:ident(3) => $implementation:path) => {
        stub!(@call [$($export)*] $name => $implementation, "x3", "x4");
    };
    (@ [$($export:tt)*] $name:ident(4) => $implementation:path) => {
        stub!(@call [$($export)*] $name => $implementation, "x4", "x5");
    };
    (@ [$($export:tt)*] $name:ident(6) => $implementation:path) => {
        stub!(@call [$($export)*] $name => $implementation, "x6", "x7");
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

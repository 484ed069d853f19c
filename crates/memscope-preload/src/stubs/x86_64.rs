//! Entry stubs: functions that add the stack and frame pointer on entry to the arguments of their implementation.
//!
//! On entry `rsp` points at the return address and `rbp` is still the caller's: all the unwinder needs, without
//! unwinding through us. Compiled into both preloaded libraries.

/// `stub!(name(n) => implementation)`: an exported function of `n` arguments; `stub!(static …)`: one that is not.
macro_rules! stub {
    ($name:ident($count:tt) => $implementation:path) => {
        stub!(@ [#[unsafe(no_mangle)]] $name($count) => $implementation);
    };
    (static $name:ident($count:tt) => $implementation:path) => {
        stub!(@ [] $name($count) => $implementation);
    };
    (@ [$($export:tt)*] $name:ident(1) => $implementation:path) => {
        stub!(@jump [$($export)*] $name => $implementation, "rsi", "rdx");
    };
    (@ [$($export:tt)*] $name:ident(2) => $implementation:path) => {
        stub!(@jump [$($export)*] $name => $implementation, "rdx", "rcx");
    };
    (@ [$($export:tt)*] $name:ident(3) => $implementation:path) => {
        stub!(@jump [$($export)*] $name => $implementation, "rcx", "r8");
    };
    (@ [$($export:tt)*] $name:ident(4) => $implementation:path) => {
        stub!(@jump [$($export)*] $name => $implementation, "r8", "r9");
    };
    // The two additional arguments fit in registers: jump, and leave no frame.
    (@jump [$($export:tt)*] $name:ident => $implementation:path, $stack:literal, $frame:literal) => {
        #[unsafe(naked)]
        $($export)*
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                concat!("mov ", $stack, ", rsp"),
                concat!("mov ", $frame, ", rbp"),
                "jmp {implementation}",
                ".cfi_endproc",
                implementation = sym $implementation,
            )
        }
    };
    // Six arguments: the additional ones go on the stack, as the seventh and eighth.
    (@ [$($export:tt)*] $name:ident(6) => $implementation:path) => {
        #[unsafe(naked)]
        $($export)*
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mov rax, rsp",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                "call {implementation}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                implementation = sym $implementation,
            )
        }
    };
}

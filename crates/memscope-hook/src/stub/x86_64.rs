//! On entry `rsp` points at the return address and `rbp` is still the caller's: all the unwinder needs, without
//! unwinding through us.

/// Arguments that are passed in registers.
pub(super) const ARGUMENT_REGISTERS: usize = 6;

#[doc(hidden)]
#[macro_export]
macro_rules! stub {
    ([$($export:tt)*] $name:ident() => $implementation:path) => {
        $crate::stub!(@jump [$($export)*] $name => $implementation, "rdi", "rsi");
    };
    ([$($export:tt)*] $name:ident($a:ident) => $implementation:path) => {
        $crate::stub!(@jump [$($export)*] $name => $implementation, "rsi", "rdx");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident) => $implementation:path) => {
        $crate::stub!(@jump [$($export)*] $name => $implementation, "rdx", "rcx");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident) => $implementation:path) => {
        $crate::stub!(@jump [$($export)*] $name => $implementation, "rcx", "r8");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident $d:ident) => $implementation:path) => {
        $crate::stub!(@jump [$($export)*] $name => $implementation, "r8", "r9");
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident $d:ident $e:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation);
    };
    ([$($export:tt)*] $name:ident($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident) => $implementation:path) => {
        $crate::stub!(@call [$($export)*] $name => $implementation);
    };
    // The entry fits in registers: jump, and leave no frame.
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
    // Five or six arguments: the entry has two words and is passed in one piece, on the stack.
    (@call [$($export:tt)*] $name:ident => $implementation:path) => {
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
                "endbr64",
                "cmp edi, {first}",
                "je {ours}",
                "cmp edi, {second}",
                "je {ours}",
                "mov rax, qword ptr [rip + {original}]",
                "test rax, rax",
                "je {ours}",
                "jmp rax",
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
                "endbr64",
                "lea rax, [rsp + 8]",
                "sub rsp, 56",
                ".cfi_adjust_cfa_offset 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "mov rsi, rax",
                "call {implementation}",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                implementation = sym $implementation,
            )
        }
    };
}

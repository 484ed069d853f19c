#[doc(hidden)]
#[macro_export]
macro_rules! around {
    ($name:ident() => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "rdi", "rsi", $($rest)*);
    };
    ($name:ident($a:ident) => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "rsi", "rdx", $($rest)*);
    };
    ($name:ident($a:ident $b:ident) => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "rdx", "rcx", $($rest)*);
    };
    ($name:ident($a:ident $b:ident $c:ident) => $began:path, $ended:path, $($rest:tt)*) => {
        $crate::around!(@ $name => $began, $ended, "rcx", "r8", $($rest)*);
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
                "sub rsp, 40",
                ".cfi_adjust_cfa_offset 40",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                concat!("lea ", $stack, ", [rsp + 40]"),
                concat!("mov ", $frame, ", rbp"),
                "call {began}",
                "test rax, rax",
                "jz 2f",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "test rdx, rdx",
                "jz 3f",
                "mov [rsp + 24], rdx",
                "mov rdx, [rsp + 16]",
                "call rax",
                "mov rdi, rax",
                "mov rsi, [rsp + 24]",
                "lea rdx, [rsp + 40]",
                "mov rcx, rbp",
                "call {ended}",
                ".cfi_remember_state",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                "2:",
                ".cfi_restore_state",
                ".cfi_remember_state",
                "mov rax, rdx",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                "3:",
                ".cfi_restore_state",
                "mov rdx, [rsp + 16]",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "jmp rax",
                ".cfi_endproc",
                began = sym $began,
                ended = sym $ended,
                $( personality = sym $personality, )?
            )
        }
    };
}

/// A function that returns an object at `result`, whose address comes back: with up to one argument.
#[doc(hidden)]
#[macro_export]
macro_rules! gated {
    ($name:ident => $began:path, $ended:path, $gate:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "mov rax, qword ptr [rip + {gate}]",
                "test rax, rax",
                "jz 2f",
                "jmp rax",
                "2:",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "call {began}",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "test rdx, rdx",
                "jz 3f",
                "call rax",
                "mov rdi, rax",
                ".cfi_remember_state",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "jmp {ended}",
                "3:",
                ".cfi_restore_state",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "jmp rax",
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
    core::arch::naked_asm!(".cfi_startproc", "mov rax, rdi", "mov rdi, rdx", "jmp rax", ".cfi_endproc",)
}

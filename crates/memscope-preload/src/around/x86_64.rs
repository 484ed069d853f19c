//! Hooks of C++ functions: an exception the original throws passes through the stub, not through Rust.

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
                "mov rcx, rsp",
                "mov r8, rbp",
                "sub rsp, 40",
                ".cfi_adjust_cfa_offset 40",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
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
    core::arch::naked_asm!(".cfi_startproc", "mov rax, rdi", "mov rdi, rdx", "jmp rax", ".cfi_endproc",)
}

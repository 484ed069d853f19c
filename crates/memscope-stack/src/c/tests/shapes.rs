//! Frames of every kind compilers make, by hand so that their layout is known.
use core::ffi::c_void;

pub(super) type Callback = unsafe extern "C" fn(*mut c_void);
/// Calls the callback with the context; what the parameter does depends on the shape.
pub(super) type Shape = unsafe extern "C" fn(Callback, *mut c_void, usize);

pub(super) const ALL: [Shape; 7] = [plain, large, scratch_fp, frame_pointer, alloca, realigned, twin_of_plain];

/// Two functions of the same code: their frames differ in nothing but return addresses.
macro_rules! twins {
    ($(#[$attribute:meta])* $name:ident, $twin:ident: $($line:literal),* $(,)?) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(_: Callback, _: *mut c_void, _: usize) {
            core::arch::naked_asm!($($line),*)
        }

        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $twin(_: Callback, _: *mut c_void, _: usize) {
            core::arch::naked_asm!($($line),*)
        }
    };
}

twins! {
    /// rsp-based, rbp untouched.
    plain, twin_of_plain:
    ".cfi_startproc",
    "sub rsp, 24",
    ".cfi_def_cfa_offset 32",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 24",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
}

/// Several pages.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn large(_: Callback, _: *mut c_void, _: usize) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 20008",
        ".cfi_def_cfa_offset 20016",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "add rsp, 20008",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
    )
}

/// rsp-based, with rbp saved and used as any register: it holds the parameter.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn scratch_fp(_: Callback, _: *mut c_void, _: usize) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "push rbx",
        ".cfi_def_cfa_offset 24",
        ".cfi_offset rbx, -24",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 32",
        "mov rbp, rdx",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "add rsp, 8",
        ".cfi_def_cfa_offset 24",
        "pop rbx",
        ".cfi_def_cfa_offset 16",
        "pop rbp",
        ".cfi_restore rbp",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
    )
}

/// rbp-based.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn frame_pointer(_: Callback, _: *mut c_void, _: usize) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 32",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

twins! {
    /// rbp-based, the parameter says how many words are on the stack.
    alloca, twin_of_alloca:
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "and rdx, 0xfff",
    "shl rdx, 3",
    "sub rsp, rdx",
    "and rsp, -16",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
}

/// What gcc makes for over-aligned locals: the CFA is kept in memory, rbp is saved where rbp points to.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn realigned(_: Callback, _: *mut c_void, _: usize) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "lea r10, [rsp + 8]",
        ".cfi_def_cfa r10, 0",
        "and rsp, -64",
        "push qword ptr [r10 - 8]",
        "push rbp",
        ".cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00",
        "mov rbp, rsp",
        "push r10",
        ".cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06",
        "sub rsp, 40",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "mov r10, [rbp - 8]",
        ".cfi_def_cfa r10, 0",
        "leave",
        "lea rsp, [r10 - 8]",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Stops with SIGILL at its first instruction, two bytes long.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn illegal() {
    core::arch::naked_asm!(".cfi_startproc", "ud2", "ret", ".cfi_endproc")
}

/// Where [`escape`] comes back to: registers saved on the stack by `with_escape`.
pub(super) type EscapePoint = *mut c_void;

/// Calls the callback; comes back when that returns or when somebody calls `escape` with what is stored in `*point`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn with_escape(_: Callback, _: *mut c_void, _point: *mut EscapePoint) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "push rbx",
        ".cfi_def_cfa_offset 24",
        "push r12",
        ".cfi_def_cfa_offset 32",
        "push r13",
        ".cfi_def_cfa_offset 40",
        "push r14",
        ".cfi_def_cfa_offset 48",
        "push r15",
        ".cfi_def_cfa_offset 56",
        "mov [rdx], rsp",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 64",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "add rsp, 8",
        ".cfi_def_cfa_offset 56",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Leaves all frames up to the `with_escape` that made `point`, as longjmp does.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn escape(_point: EscapePoint) -> ! {
    core::arch::naked_asm!("mov rsp, rdi", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret",)
}

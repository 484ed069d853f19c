//! Entry stubs: the exported functions, which add the stack and frame pointer on entry to the arguments.
//!
//! On entry `rsp` points at the return address and `rbp` is still the caller's: all the unwinder needs, without
//! unwinding through us.

/// Up to three arguments: the two additional ones fit in registers, so the stub jumps and leaves no frame.
macro_rules! jump_stub {
    ($name:ident => $implementation:path, $stack:literal, $frame:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
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
}

/// Six arguments: the additional ones go on the stack, as the seventh and eighth.
macro_rules! call_stub {
    ($name:ident => $implementation:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "lea rax, [rsp]",
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

use crate::{heap, mappings};

jump_stub!(malloc => heap::malloc, "rsi", "rdx");
jump_stub!(free => heap::free, "rsi", "rdx");
jump_stub!(valloc => heap::valloc, "rsi", "rdx");
jump_stub!(pvalloc => heap::pvalloc, "rsi", "rdx");
jump_stub!(calloc => heap::calloc, "rdx", "rcx");
jump_stub!(realloc => heap::realloc, "rdx", "rcx");
jump_stub!(aligned_alloc => heap::aligned_alloc, "rdx", "rcx");
jump_stub!(memalign => heap::memalign, "rdx", "rcx");
jump_stub!(reallocarray => heap::reallocarray, "rcx", "r8");
jump_stub!(posix_memalign => heap::posix_memalign, "rcx", "r8");
jump_stub!(munmap => mappings::munmap, "rdx", "rcx");
call_stub!(mmap => mappings::mmap);
call_stub!(mmap64 => mappings::mmap64);
call_stub!(mremap => mappings::mremap);

/// The word every thread block begins with: its own address.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads the thread block's self pointer.
    unsafe { core::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack)) };
    pointer
}

/// Address of `msmemscope_api`, 0 if the recording library is not in the process.
///
/// A weak reference resolved by the loader: unlike `dlsym` it works in the loader's own first calls of malloc.
pub(crate) fn recorder_symbol() -> usize {
    let address: usize;
    // SAFETY: reads one word of the global offset table, filled by the loader.
    unsafe {
        core::arch::asm!(
            ".weak msmemscope_api",
            "mov {0}, qword ptr [rip + msmemscope_api@GOTPCREL]",
            out(reg) address,
            options(pure, readonly, nostack)
        );
    }
    address
}

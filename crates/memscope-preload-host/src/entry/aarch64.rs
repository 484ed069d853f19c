//! Entry stubs: the exported functions, which add a frame record's address, twice, to the arguments.
//!
//! The return address is in a register on entry; the stub stores it with the caller's frame pointer, which makes it
//! the first record of the chain the unwinder walks.

macro_rules! stub {
    ($name:ident => $implementation:path, $stack:literal, $frame:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset 29, -16",
                ".cfi_offset 30, -8",
                "mov x29, sp",
                concat!("mov ", $stack, ", sp"),
                concat!("mov ", $frame, ", sp"),
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

use crate::{heap, mappings};

stub!(malloc => heap::malloc, "x1", "x2");
stub!(free => heap::free, "x1", "x2");
stub!(valloc => heap::valloc, "x1", "x2");
stub!(pvalloc => heap::pvalloc, "x1", "x2");
stub!(calloc => heap::calloc, "x2", "x3");
stub!(realloc => heap::realloc, "x2", "x3");
stub!(aligned_alloc => heap::aligned_alloc, "x2", "x3");
stub!(memalign => heap::memalign, "x2", "x3");
stub!(reallocarray => heap::reallocarray, "x3", "x4");
stub!(posix_memalign => heap::posix_memalign, "x3", "x4");
stub!(munmap => mappings::munmap, "x2", "x3");
stub!(mmap => mappings::mmap, "x6", "x7");
stub!(mmap64 => mappings::mmap64, "x6", "x7");
stub!(mremap => mappings::mremap, "x6", "x7");

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mrs {0}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack)) };
    pointer
}

/// Address of `msmemscope_api`, 0 if the recording library is not in the process.
pub(crate) fn recorder_symbol() -> usize {
    let address: usize;
    // SAFETY: reads one word of the global offset table, filled by the loader.
    unsafe {
        core::arch::asm!(
            ".weak msmemscope_api",
            "adrp {0}, :got:msmemscope_api",
            "ldr {0}, [{0}, #:got_lo12:msmemscope_api]",
            out(reg) address,
            options(pure, readonly, nostack)
        );
    }
    address
}

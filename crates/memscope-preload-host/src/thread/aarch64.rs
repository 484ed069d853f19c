//! What the loader and the thread library know, read without calling them.

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mrs {0}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack)) };
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
            "adrp {0}, :got:msmemscope_api",
            "ldr {0}, [{0}, #:got_lo12:msmemscope_api]",
            out(reg) address,
            options(pure, readonly, nostack)
        );
    }
    address
}

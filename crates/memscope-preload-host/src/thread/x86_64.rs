//! What the loader and the thread library know, read without calling them.

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

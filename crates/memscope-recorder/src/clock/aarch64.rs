//! The virtual counter: architecturally even, at 25 MHz to 1 GHz.
use core::arch::asm;

pub(super) const SHIFT: u32 = 0;

pub(super) fn is_even() -> bool {
    true
}

/// The kernel itself goes by no other, and hides the errata of some processors by trapping the read.
pub(super) fn is_believed(_current: &[u8], _available: &[u8]) -> bool {
    true
}

/// Whether the kernel's code in the process reads this clock without a system call.
pub(super) fn is_read_by_the_kernels_code(current: &[u8]) -> bool {
    current == b"arch_sys_counter"
}

#[inline(always)]
pub(super) fn read() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter register that Linux makes readable in user space.
    unsafe { asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

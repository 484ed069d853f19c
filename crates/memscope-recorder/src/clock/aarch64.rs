//! The virtual counter: architecturally even, at 25 MHz to 1 GHz.
use core::arch::asm;

pub(super) const SHIFT: u32 = 0;

pub(super) fn is_even() -> bool {
    true
}

#[inline(always)]
pub(super) fn read() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter register that Linux makes readable in user space.
    unsafe { asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

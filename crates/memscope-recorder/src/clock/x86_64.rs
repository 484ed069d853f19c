//! The time stamp counter.
use core::arch::x86_64::{__cpuid, _rdtsc};

pub(super) const SHIFT: u32 = 4;

/// Invariant TSC: leaf 0x8000_0007, EDX bit 8.
pub(super) fn is_even() -> bool {
    const HIGHEST_EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    __cpuid(HIGHEST_EXTENDED).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
}

#[inline(always)]
pub(super) fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; Linux leaves it enabled unless a process asks otherwise.
    unsafe { _rdtsc() }
}

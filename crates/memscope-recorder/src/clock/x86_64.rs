//! The time stamp counter.
use core::arch::x86_64::{__cpuid, _rdtsc};

pub(super) const SHIFT: u32 = 4;

/// Invariant TSC: leaf 0x8000_0007, EDX bit 8.
pub(super) fn is_even() -> bool {
    const HIGHEST_EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    __cpuid(HIGHEST_EXTENDED).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
}

/// Whether the kernel goes by the counter, directly or through a clock of the hypervisor that counts it, and has not given
/// it up: a counter that was found to differ between cores is no longer on the list. Where the kernel does not tell, the
/// counter is not used.
pub(super) fn is_believed(current: &[u8], available: &[u8]) -> bool {
    const COUNTING_IT: [&[u8]; 4] = [b"tsc", b"kvm-clock", b"hyperv_clocksource_tsc_page", b"xen"];
    COUNTING_IT.contains(&current) && available.split(|byte| *byte == b' ').any(|name| name == b"tsc")
}

/// Whether the kernel's code in the process reads this clock without a system call. Those of hypervisors it may have to
/// ask for.
pub(super) fn is_read_by_the_kernels_code(current: &[u8]) -> bool {
    current == b"tsc"
}

#[inline(always)]
pub(super) fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; Linux leaves it enabled unless a process asks otherwise.
    unsafe { _rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_used_only_while_the_kernel_believes_in_it() {
        for (current, available, believed) in [
            ("tsc", "tsc kvm-clock acpi_pm ", true),
            ("kvm-clock", "kvm-clock tsc acpi_pm ", true),
            ("hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page tsc acpi_pm", true),
            // Given up: no longer listed, or left for a slower one.
            ("kvm-clock", "kvm-clock acpi_pm ", false),
            ("hpet", "tsc hpet acpi_pm ", false),
            ("hpet", "hpet acpi_pm ", false),
            ("tsc-early", "tsc-early hpet", false),
            // The kernel does not tell.
            ("", "", false),
        ] {
            assert_eq!(is_believed(current.as_bytes(), available.as_bytes()), believed, "{current}: {available}");
        }
    }
}

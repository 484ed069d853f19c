//! What every preloaded library needs at its root.

/// Panic handler and linking of a preloaded library. Once, in its `lib.rs`.
///
/// A macro and not part of this crate, whose tests have the standard library's handler.
#[macro_export]
macro_rules! preloaded_library {
    () => {
        // `dlsym` and its like: before glibc 2.34 in a library of their own, which not every program has.
        #[link(name = "dl")]
        unsafe extern "C" {}

        /// There is no panic path we know of; if there is one after all, stop where the fault is.
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            loop {
                // SAFETY: an illegal instruction ends the process; it touches no memory.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    core::arch::asm!("ud2");
                    #[cfg(target_arch = "aarch64")]
                    core::arch::asm!("udf #0");
                }
            }
        }
    };
}

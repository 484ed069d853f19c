//! `libmsmemscope_host.so`: the malloc family and anonymous mappings, wrapped.
//!
//! Preloaded only when host memory is asked for, after the recording library, whose C table it calls. It keeps no state
//! but the addresses of the originals, and whether there ever was reserved address space. Each wrapper is a stub that notes where it was entered (for the call stack) and
//! a function of a few lines: take the guard, call the original, report.
#![no_std]

#[path = "../../memscope-preload/src/api_table.rs"]
mod api_table;
#[macro_use]
#[cfg_attr(target_arch = "x86_64", path = "../../memscope-preload/src/stubs/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../../memscope-preload/src/stubs/aarch64.rs")]
mod stubs;

mod exports;
mod heap;
mod mappings;
mod originals;
mod recording;
#[cfg_attr(target_arch = "x86_64", path = "thread/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "thread/aarch64.rs")]
mod thread;

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

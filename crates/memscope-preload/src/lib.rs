//! `libascend_kernel_hook.so`: the recorder, its hooks and its C table, in one preloaded library.
//!
//! The name is not ours to choose: torch_npu and MindSpore report their pools only if a preloaded file is called so.
//! Nothing is decided here. A hook takes the guard, calls the original and hands over what happened.
#![no_std]

#[macro_use]
#[cfg_attr(target_arch = "x86_64", path = "stubs/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "stubs/aarch64.rs")]
mod stubs;

#[macro_use]
mod around;

mod api;
mod api_table;
mod deliberate_lock;
mod hooks;
mod lifecycle;
mod original;

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

//! `tpidr_el0` points at the thread block.
//!
//! A library that is loaded late gets room in the static block only if it asks for no more than the block's own alignment,
//! which is 16 here and not a cache line, as on x86-64.
use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.msmemscope_slot, \"awT\", @nobits",
    ".balign 16",
    ".globl msmemscope_slot",
    ".hidden msmemscope_slot",
    ".type msmemscope_slot, @object",
    ".size msmemscope_slot, 192",
    "msmemscope_slot:",
    ".zero 192",
    ".popsection",
);

#[inline(always)]
pub(super) fn offset() -> isize {
    let offset: isize;
    // SAFETY: reads one word of the global offset table, filled by the loader.
    unsafe {
        asm!(
            "adrp {0}, :gottprel:msmemscope_slot",
            "ldr {0}, [{0}, #:gottprel_lo12:msmemscope_slot]",
            out(reg) offset,
            options(pure, readonly, nostack)
        );
    }
    offset
}

#[inline(always)]
pub(super) fn slot() -> *mut u8 {
    let thread: *mut u8;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {0}, tpidr_el0", out(reg) thread, options(pure, nomem, nostack)) };
    thread.wrapping_offset(offset())
}

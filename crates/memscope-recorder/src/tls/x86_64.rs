//! `fs` points at the thread block; its first word is its own address.
use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.msmemscope_slot, \"awT\", @nobits",
    ".balign 64",
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
        asm!("mov {0}, qword ptr [rip + msmemscope_slot@GOTTPOFF]", out(reg) offset, options(pure, readonly, nostack));
    }
    offset
}

#[inline(always)]
pub(super) fn slot() -> *mut u8 {
    let slot: *mut u8;
    // SAFETY: reads the thread block's self pointer and one word of the global offset table.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[0]",
            "add {0}, qword ptr [rip + msmemscope_slot@GOTTPOFF]",
            out(reg) slot,
            options(pure, readonly, nostack)
        );
    }
    slot
}

//! `libascendcl.so`: the public names of the acl interface.
//!
//! As in recent releases of CANN each is a jump to a function of another library, so that a tool can stand in front of
//! either. A jump rather than a call: no argument needs to be known, and no frame is left on the stack.

use std::arch::naked_asm;

macro_rules! jump {
    ($name:ident, $implementation:ident) => {
        /// See the implementation of the same name.
        ///
        /// # Safety
        /// As the implementation demands of its C caller.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(concat!("jmp ", stringify!($implementation), "@PLT"));
            #[cfg(target_arch = "aarch64")]
            naked_asm!(concat!("b ", stringify!($implementation)));
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/jumps.rs"));

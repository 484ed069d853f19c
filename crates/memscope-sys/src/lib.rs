//! Raw Linux system calls for code that runs inside somebody else's process.
//!
//! Why not libc: its wrappers set `errno` (which a hook must preserve), some of them are the very functions we
//! interpose (`mmap`), and some are cancellation points. A raw call touches nothing but registers.
//!
//! Every function returns the kernel's answer as `Result<usize, Errno>` and never allocates.
#![cfg_attr(not(test), no_std)]

#[cfg_attr(target_arch = "x86_64", path = "arch/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arch/aarch64.rs")]
mod arch;
mod calls;
pub mod loader;
mod own_memory;
pub mod sandbox;
mod sockets;
pub mod vdso;

pub use arch::nr;
pub use calls::*;
pub use own_memory::*;
pub use sockets::*;

/// Issues system call `number`, unless a filter the program has installed would answer it in any other way than by making
/// it: then the answer is [`Errno::SANDBOX`].
///
/// # Safety
/// The arguments must be valid for that call: pointers live and of the right size for as long as the kernel uses them.
#[inline]
pub unsafe fn syscall6(number: usize, arguments: [usize; 6]) -> isize {
    if sandbox::forbids(number, &arguments) {
        return -(Errno::SANDBOX.0 as isize);
    }
    // SAFETY: the caller vouches for the arguments.
    unsafe { arch::syscall6(number, arguments) }
}

/// Issues a system call the program itself has asked for: its filters are its own affair.
///
/// # Safety
/// As for [`syscall6`].
pub unsafe fn unfiltered(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the arguments.
    result(unsafe { arch::syscall6(number, arguments) })
}

/// A kernel error number, positive as in `errno.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const ESRCH: Errno = Errno(3);
    pub const EINTR: Errno = Errno(4);
    pub const EBADF: Errno = Errno(9);
    pub const EAGAIN: Errno = Errno(11);
    pub const ENOMEM: Errno = Errno(12);
    pub const EACCES: Errno = Errno(13);
    pub const EFAULT: Errno = Errno(14);
    pub const EEXIST: Errno = Errno(17);
    pub const ENOTDIR: Errno = Errno(20);
    pub const EINVAL: Errno = Errno(22);
    pub const ENFILE: Errno = Errno(23);
    pub const EMFILE: Errno = Errno(24);
    pub const ENOSPC: Errno = Errno(28);
    pub const ENOSYS: Errno = Errno(38);
    pub const EOPNOTSUPP: Errno = Errno(95);
    /// No answer of the kernel: the call was not made, because a filter of the program forbids it.
    pub const SANDBOX: Errno = Errno(4095);
}

/// Splits the kernel's in-band answer into value or error.
pub(crate) fn result(raw: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&raw) { Err(Errno(-raw as i32)) } else { Ok(raw as usize) }
}

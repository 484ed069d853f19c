//! AArch64: number in `x8`, arguments in `x0` to `x5`, answer in `x0`.
use core::arch::asm;

/// Issues system call `number`.
///
/// # Safety
/// The arguments must be valid for that call: pointers live and of the right size for as long as the kernel uses them.
#[inline]
pub(crate) unsafe fn syscall6(number: usize, a: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; the kernel preserves all other registers.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] as isize => answer,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    answer
}

/// System call numbers of this architecture.
pub mod nr {
    pub const FCNTL: usize = 25;
    pub const FLOCK: usize = 32;
    pub const MKDIRAT: usize = 34;
    pub const UNLINKAT: usize = 35;
    pub const SYMLINKAT: usize = 36;
    pub const STATFS: usize = 43;
    pub const FALLOCATE: usize = 47;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PREAD64: usize = 67;
    pub const PWRITE64: usize = 68;
    pub const READLINKAT: usize = 78;
    pub const FSTAT: usize = 80;
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_YIELD: usize = 124;
    pub const TGKILL: usize = 131;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const GETEUID: usize = 175;
    pub const GETTID: usize = 178;
    pub const MUNMAP: usize = 215;
    pub const MREMAP: usize = 216;
    pub const MMAP: usize = 222;
    pub const MADVISE: usize = 233;
    pub const PRCTL: usize = 167;
    pub const FUTEX: usize = 98;
    pub const PRLIMIT64: usize = 261;
}

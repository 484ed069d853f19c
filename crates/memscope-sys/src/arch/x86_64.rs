//! x86-64: number in `rax`, arguments in `rdi rsi rdx r10 r8 r9`; `rcx` and `r11` are clobbered.
use core::arch::asm;

/// Issues system call `number`.
///
/// # Safety
/// The arguments must be valid for that call: pointers live and of the right size for as long as the kernel uses them.
#[inline]
pub(crate) unsafe fn syscall6(number: usize, a: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; the clobbers are those of the kernel's calling convention.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// System call numbers of this architecture.
pub mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PREAD64: usize = 17;
    pub const PWRITE64: usize = 18;
    pub const SCHED_YIELD: usize = 24;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const FCNTL: usize = 72;
    pub const FLOCK: usize = 73;
    pub const GETEUID: usize = 107;
    pub const GETPPID: usize = 110;
    pub const STATFS: usize = 137;
    pub const GETTID: usize = 186;
    pub const TGKILL: usize = 234;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const UNLINKAT: usize = 263;
    pub const SYMLINKAT: usize = 266;
    pub const READLINKAT: usize = 267;
    pub const FALLOCATE: usize = 285;
    pub const PRCTL: usize = 157;
    pub const FUTEX: usize = 202;
    pub const PRLIMIT64: usize = 302;
}

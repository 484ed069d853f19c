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
    pub const WRITEV: usize = 20;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PREAD64: usize = 17;
    pub const SCHED_YIELD: usize = 24;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDTO: usize = 44;
    pub const RECVMSG: usize = 47;
    pub const SETSOCKOPT: usize = 54;
    pub const GETSOCKOPT: usize = 55;
    pub const FCNTL: usize = 72;
    pub const FTRUNCATE: usize = 77;
    pub const GETPPID: usize = 110;
    pub const SIGALTSTACK: usize = 131;
    pub const MUNLOCK: usize = 150;
    pub const FLOCK: usize = 73;
    pub const GETEUID: usize = 107;
    pub const STATFS: usize = 137;
    pub const GETTID: usize = 186;
    pub const TGKILL: usize = 234;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const FACCESSAT: usize = 269;
    pub const MKDIRAT: usize = 258;
    pub const UNLINKAT: usize = 263;
    pub const SYMLINKAT: usize = 266;
    pub const READLINKAT: usize = 267;
    pub const FALLOCATE: usize = 285;
    pub const PRCTL: usize = 157;
    pub const FUTEX: usize = 202;
    pub const PRLIMIT64: usize = 302;
    pub const PWRITEV2: usize = 328;
    pub const PROCESS_VM_READV: usize = 310;
}

/// The loader's `_r_debug`, 0 if it has none: a weak reference, resolved before any code of ours runs.
pub(crate) fn debug_symbol() -> usize {
    let address: usize;
    // SAFETY: reads one word of the global offset table, filled by the loader.
    unsafe {
        asm!(
            ".weak _r_debug",
            "mov {0}, qword ptr [rip + _r_debug@GOTPCREL]",
            out(reg) address,
            options(pure, readonly, nostack)
        );
    }
    address
}

/// The dynamic section of the object this code is linked into.
pub(crate) fn own_dynamic_section() -> usize {
    let address: usize;
    // SAFETY: computes an address.
    unsafe {
        asm!(".hidden _DYNAMIC", "lea {0}, [rip + _DYNAMIC]", out(reg) address, options(pure, nomem, nostack));
    }
    address
}

/// What the loader passes to a function that chooses an implementation: nothing.
pub(crate) fn resolver_arguments() -> (u64, [u64; 3]) {
    (0, [0; 3])
}

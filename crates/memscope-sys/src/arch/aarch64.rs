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
    pub const FTRUNCATE: usize = 46;
    pub const UNLINKAT: usize = 35;
    pub const SYMLINKAT: usize = 36;
    pub const STATFS: usize = 43;
    pub const FALLOCATE: usize = 47;
    pub const FACCESSAT: usize = 48;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const WRITEV: usize = 66;
    pub const PREAD64: usize = 67;
    pub const READLINKAT: usize = 78;
    pub const FSTAT: usize = 80;
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_YIELD: usize = 124;
    pub const TGKILL: usize = 131;
    pub const SIGALTSTACK: usize = 132;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const GETEUID: usize = 175;
    pub const GETTID: usize = 178;
    pub const SOCKET: usize = 198;
    pub const CONNECT: usize = 203;
    pub const SENDTO: usize = 206;
    pub const SETSOCKOPT: usize = 208;
    pub const GETSOCKOPT: usize = 209;
    pub const RECVMSG: usize = 212;
    pub const MUNMAP: usize = 215;
    pub const MREMAP: usize = 216;
    pub const MMAP: usize = 222;
    pub const MPROTECT: usize = 226;
    pub const MUNLOCK: usize = 229;
    pub const MADVISE: usize = 233;
    pub const PRCTL: usize = 167;
    pub const FUTEX: usize = 98;
    pub const PRLIMIT64: usize = 261;
    pub const PWRITEV2: usize = 287;
    pub const PROCESS_VM_READV: usize = 270;
}

/// The loader's `_r_debug`, 0 if it has none: a weak reference, resolved before any code of ours runs.
pub(crate) fn debug_symbol() -> usize {
    let address: usize;
    // SAFETY: reads one word of the global offset table, filled by the loader.
    unsafe {
        asm!(
            ".weak _r_debug",
            "adrp {0}, :got:_r_debug",
            "ldr {0}, [{0}, #:got_lo12:_r_debug]",
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
        asm!(
            ".hidden _DYNAMIC",
            "adrp {0}, _DYNAMIC",
            "add {0}, {0}, :lo12:_DYNAMIC",
            out(reg) address,
            options(pure, nomem, nostack)
        );
    }
    address
}

/// What the loader passes to a function that chooses an implementation: the processor's abilities, and a list of more.
pub(crate) fn resolver_arguments() -> (u64, [u64; 3]) {
    const ABILITIES: u64 = 16;
    const MORE_ABILITIES: u64 = 26;
    const A_LIST_FOLLOWS: u64 = 1 << 62;
    const LIST_BYTES: u64 = 24;
    let mut bytes = [0u8; 1024];
    let mut length = 0;
    if let Ok(file) = crate::open(c"/proc/self/auxv", crate::O_RDONLY) {
        length = crate::read(file, &mut bytes).unwrap_or(0);
        crate::close(file);
    }
    let (pairs, _) = bytes.get(..length).unwrap_or_default().as_chunks::<16>();
    let value = |wanted: u64| {
        let pairs = pairs.iter().map(|pair| u128::from_le_bytes(*pair));
        pairs.into_iter().find(|pair| *pair as u64 == wanted).map_or(0, |pair| (pair >> 64) as u64)
    };
    (value(ABILITIES) | A_LIST_FOLLOWS, [LIST_BYTES, value(ABILITIES), value(MORE_ABILITIES)])
}

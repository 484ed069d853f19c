//! The handful of calls the recorder makes, typed.
use crate::{Errno, nr, result, sandbox, syscall6, vdso};
use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

const AT_FDCWD: usize = -100isize as usize;

pub const O_RDONLY: usize = 0;
pub const O_WRONLY: usize = 1;
pub const O_RDWR: usize = 2;
pub const O_CREAT: usize = 0o100;
pub const O_EXCL: usize = 0o200;
pub const O_APPEND: usize = 0o2000;
pub const O_NONBLOCK: usize = 0o4000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: usize = 0o400000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: usize = 0o100000;
pub const O_CLOEXEC: usize = 0o2000000;

/// An open file descriptor. Plain number, not owned: the recorder's descriptors live as long as the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fd(pub i32);

/// The identity of an open file, to notice that somebody closed our descriptor and reused its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// Opens `path` with `flags`, creating it with mode 0600 where `O_CREAT` is given.
pub fn open(path: &CStr, flags: usize) -> Result<Fd, Errno> {
    // SAFETY: `path` is a valid C string for the duration of the call.
    let raw = unsafe { syscall6(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags | O_CLOEXEC, 0o600, 0, 0]) };
    result(raw).map(|fd| Fd(fd as i32))
}

/// What may be done with a file, or with a directory: then to execute is to search.
#[derive(Clone, Copy)]
pub enum Access {
    Execute = 1,
    Read = 4,
}

/// Whether the process's real user may do this with `path`, as `exec` leaves it: without the rights of root, if it is another
/// user.
pub fn access(path: &CStr, access: Access) -> Result<(), Errno> {
    // SAFETY: `path` is a valid C string for the duration of the call.
    result(unsafe { syscall6(nr::FACCESSAT, [AT_FDCWD, path.as_ptr() as usize, access as usize, 0, 0, 0]) }).map(drop)
}

/// Creates the directory `path` with mode 0750.
pub fn mkdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is a valid C string for the duration of the call.
    result(unsafe { syscall6(nr::MKDIRAT, [AT_FDCWD, path.as_ptr() as usize, 0o750, 0, 0, 0]) }).map(drop)
}

/// Makes the symbolic link `path`, which leads to `target`.
pub fn symlink(target: &CStr, path: &CStr) -> Result<(), Errno> {
    // SAFETY: both are valid C strings for the duration of the call.
    let raw = unsafe { syscall6(nr::SYMLINKAT, [target.as_ptr() as usize, AT_FDCWD, path.as_ptr() as usize, 0, 0, 0]) };
    result(raw).map(drop)
}

/// Removes the file or link `path`.
pub fn unlink(path: &CStr) {
    // SAFETY: `path` is a valid C string for the duration of the call.
    unsafe { syscall6(nr::UNLINKAT, [AT_FDCWD, path.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// What a path is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystem {
    /// `f_type`: which kind of file system.
    pub kind: u64,
    /// What everybody may use.
    pub free_bytes: u64,
}

/// The file system of an existing path.
pub fn file_system(path: &CStr) -> Result<FileSystem, Errno> {
    // `struct statfs` begins with the words f_type, f_bsize, f_blocks, f_bfree and f_bavail, and is 120 bytes long.
    let mut statfs = [0u64; 32];
    // SAFETY: the path is a C string and the buffer larger than the kernel's structure.
    result(unsafe { syscall6(nr::STATFS, [path.as_ptr() as usize, statfs.as_mut_ptr() as usize, 0, 0, 0, 0]) })?;
    Ok(FileSystem { kind: statfs[0], free_bytes: statfs[4].saturating_mul(statfs[1]) })
}

/// Reads the target of the symbolic link `path` into `buffer`, without a terminating zero.
pub fn readlink<'b>(path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    // SAFETY: path and buffer are valid for the duration of the call.
    let raw = unsafe {
        syscall6(nr::READLINKAT, [AT_FDCWD, path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0])
    };
    let length = result(raw)?;
    Ok(buffer.get(..length).unwrap_or_default())
}

pub fn close(fd: Fd) {
    // SAFETY: closing a descriptor touches no memory; the caller owns the number.
    unsafe { syscall6(nr::CLOSE, [fd.0 as usize, 0, 0, 0, 0, 0]) };
}

/// One `read`; fewer bytes than asked for are not an error.
pub fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `len` bytes into the exclusively borrowed buffer.
    result(unsafe { syscall6(nr::READ, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) })
}

/// One `pread` of as much of `buffer` as there is at `offset`.
pub fn read_at(fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `len` bytes into the exclusively borrowed buffer.
    result(unsafe {
        syscall6(nr::PREAD64, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0])
    })
}

/// A range of bytes to be written. Pointers and not slices, because the bytes may be shared memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Part {
    pub data: *const u8,
    pub length: usize,
}

/// One write of all parts at the end of the file, whatever the descriptor's flags and position, which stays. Refused for
/// what has no end: pipes, sockets, terminals. Linux 4.16.
///
/// # Safety
/// The parts must be readable.
pub unsafe fn append(fd: Fd, parts: &[Part]) -> Result<usize, Errno> {
    const RWF_APPEND: usize = 0x10;
    // SAFETY: the caller vouches for the ranges; a part is an `iovec`. Offset 0 counts for no file.
    result(unsafe { syscall6(nr::PWRITEV2, [fd.0 as usize, parts.as_ptr() as usize, parts.len(), 0, 0, RWF_APPEND]) })
}

/// One `write`; fewer bytes than asked for are not an error.
///
/// # Safety
/// The part must be readable.
pub unsafe fn write(fd: Fd, part: Part) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the range.
    result(unsafe { syscall6(nr::WRITE, [fd.0 as usize, part.data as usize, part.length, 0, 0, 0]) })
}

/// One `writev`; fewer bytes than asked for are not an error.
///
/// # Safety
/// The parts must be readable.
pub unsafe fn write_parts(fd: Fd, parts: &[Part; 2]) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the ranges; a part is an `iovec`.
    result(unsafe { syscall6(nr::WRITEV, [fd.0 as usize, parts.as_ptr() as usize, parts.len(), 0, 0, 0]) })
}

/// Cuts or extends the file to `length`.
pub fn truncate(fd: Fd, length: u64) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    result(unsafe { syscall6(nr::FTRUNCATE, [fd.0 as usize, length as usize, 0, 0, 0, 0]) }).map(drop)
}

/// Reserves `length` bytes at `offset`, so that a later store into a mapping of them cannot meet a full disk.
pub fn fallocate(fd: Fd, offset: u64, length: u64) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    result(unsafe { syscall6(nr::FALLOCATE, [fd.0 as usize, 0, offset as usize, length as usize, 0, 0]) }).map(drop)
}

/// Locks the open file for as long as it is open or mapped anywhere, if nobody else has: `flock`.
pub fn lock(fd: Fd) -> Result<(), Errno> {
    const LOCK_EXCLUSIVE_OR_FAIL: usize = 2 | 4;
    // SAFETY: no memory is involved.
    result(unsafe { syscall6(nr::FLOCK, [fd.0 as usize, LOCK_EXCLUSIVE_OR_FAIL, 0, 0, 0, 0]) }).map(drop)
}

/// Moves `fd` to a free number not below `lowest`, close-on-exec.
pub fn dup_above(fd: Fd, lowest: i32) -> Result<Fd, Errno> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: no memory is involved.
    result(unsafe { syscall6(nr::FCNTL, [fd.0 as usize, F_DUPFD_CLOEXEC, lowest as usize, 0, 0, 0]) })
        .map(|fd| Fd(fd as i32))
}

/// Which file an open descriptor stands for.
pub fn file_id(fd: Fd) -> Result<FileId, Errno> {
    let [device, inode, ..] = status(fd)?;
    Ok(FileId { device, inode })
}

/// How long the file is.
pub fn file_length(fd: Fd) -> Result<u64, Errno> {
    // 48 bytes into `struct stat` on both architectures.
    let [_, _, _, _, _, _, length, ..] = status(fd)?;
    Ok(length)
}

/// `struct stat` begins with st_dev and st_ino on both architectures; 256 bytes hold all of it.
fn status(fd: Fd) -> Result<[u64; 32], Errno> {
    let mut stat = [0u64; 32];
    // SAFETY: the buffer is larger than the kernel's `struct stat`.
    result(unsafe { syscall6(nr::FSTAT, [fd.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) })?;
    Ok(stat)
}

/// A resource limit of `getrlimit`.
#[derive(Clone, Copy)]
pub enum Limit {
    FileSize = 1,
    OpenFiles = 7,
    AddressSpace = 9,
}

/// The soft value of a resource limit; `u64::MAX` is "no limit".
pub fn limit(which: Limit) -> Result<u64, Errno> {
    let mut limit = [0u64; 2];
    // SAFETY: pid 0 is the caller; the old limit is written into two words.
    result(unsafe { syscall6(nr::PRLIMIT64, [0, which as usize, 0, limit.as_mut_ptr() as usize, 0, 0]) })?;
    Ok(limit[0])
}

/// Bytes of a page: some kernels for aarch64 have larger ones than the 4 KiB that our files are laid out in.
#[cfg(target_arch = "x86_64")]
pub(crate) fn page_size() -> usize {
    4096
}

/// As above.
#[cfg(target_arch = "aarch64")]
pub(crate) fn page_size() -> usize {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" {
        fn getauxval(kind: u64) -> u64;
    }
    const AT_PAGESZ: u64 = 6;
    if SIZE.load(Relaxed) == 0 {
        // SAFETY: reads what the kernel gave the process; this is always among it.
        SIZE.store(unsafe { getauxval(AT_PAGESZ) } as usize, Relaxed);
    }
    SIZE.load(Relaxed)
}

/// From the beginning of the page that `start` is in, an address or an offset, as the kernel asks for it: the beginning, and how much
/// longer the range then is.
fn page_of(start: usize, page_size: usize) -> (usize, usize) {
    let before = start & (page_size - 1);
    (start - before, before)
}

const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MAP_NORESERVE: usize = 0x4000;

/// Maps `length` bytes of fresh zeroed private memory.
pub fn map_anonymous(length: usize) -> Result<NonNull<u8>, Errno> {
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let raw = unsafe {
        syscall6(nr::MMAP, [0, length, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE, usize::MAX, 0])
    };
    NonNull::new(result(raw)? as *mut u8).ok_or(Errno::EINVAL)
}

/// The same, but not locked into memory in a program that locks all it maps: pages exist when they are touched.
pub(crate) fn map_unlocked(length: usize) -> Result<NonNull<u8>, Errno> {
    // Pages nobody may touch are not brought in; unlocked they stay out when they may be.
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing; only its protection is changed.
    unsafe {
        let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE;
        let start = result(syscall6(nr::MMAP, [0, length, PROT_NONE, flags, usize::MAX, 0]))?;
        syscall6(nr::MUNLOCK, [start, length, 0, 0, 0, 0]);
        let memory = NonNull::new(start as *mut u8).ok_or(Errno::EINVAL)?;
        if let Err(error) = result(syscall6(nr::MPROTECT, [start, length, PROT_READ_WRITE, 0, 0, 0])) {
            unmap(memory, length);
            return Err(error);
        }
        Ok(memory)
    }
}

/// Maps fresh private memory at `address`, where nothing is mapped. Linux 4.17; before that the kernel may choose another
/// place, which is given back.
pub fn map_anonymous_at(address: NonNull<u8>, length: usize) -> Result<(), Errno> {
    const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    let (wanted, before) = page_of(address.as_ptr() as usize, page_size());
    let length = before + length;
    // SAFETY: a new mapping overlaps nothing, wherever it is.
    unsafe {
        let start = result(syscall6(nr::MMAP, [wanted, length, PROT_READ_WRITE, flags, usize::MAX, 0]))?;
        match NonNull::new(start as *mut u8) {
            Some(_) if start == wanted => Ok(()),
            Some(elsewhere) => {
                unmap(elsewhere, length);
                Err(Errno::EEXIST)
            }
            None => Err(Errno::EINVAL),
        }
    }
}

/// Maps `length` bytes of the file at `offset`, shared, readable and writable.
pub fn map_file(fd: Fd, offset: u64, length: usize) -> Result<NonNull<u8>, Errno> {
    let (offset, before) = page_of(offset as usize, page_size());
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let raw = unsafe { syscall6(nr::MMAP, [0, before + length, PROT_READ_WRITE, MAP_SHARED, fd.0 as usize, offset]) };
    NonNull::new((result(raw)? + before) as *mut u8).ok_or(Errno::EINVAL)
}

/// Unmaps memory that one of the functions above mapped.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(address: NonNull<u8>, length: usize) {
    let (start, before) = page_of(address.as_ptr() as usize, page_size());
    // SAFETY: the caller vouches that the range is ours and unused; what is before it in its page was mapped with it.
    unsafe { syscall6(nr::MUNMAP, [start, before + length, 0, 0, 0, 0]) };
}

/// Asks the kernel to hand a forked child zeroes instead of a copy of this range.
pub fn wipe_on_fork(address: NonNull<u8>, length: usize) -> Result<(), Errno> {
    const MADV_WIPEONFORK: usize = 18;
    advise(address, length, MADV_WIPEONFORK)
}

/// Keeps this range from forked children.
pub fn dont_fork(address: NonNull<u8>, length: usize) -> Result<(), Errno> {
    const MADV_DONTFORK: usize = 10;
    advise(address, length, MADV_DONTFORK)
}

fn advise(address: NonNull<u8>, length: usize, advice: usize) -> Result<(), Errno> {
    let (start, before) = page_of(address.as_ptr() as usize, page_size());
    // SAFETY: what is advised above changes nothing in this process.
    result(unsafe { syscall6(nr::MADVISE, [start, before + length, advice, 0, 0, 0]) }).map(drop)
}

/// Whether the calling thread runs on its alternative signal stack; `None` if the program forbids the question.
pub fn is_on_signal_stack() -> Option<bool> {
    const SS_ONSTACK: u32 = 1;
    let mut stack = [0u64; 3];
    // SAFETY: the kernel writes one `stack_t` of three words; nothing is set.
    let answer = unsafe { syscall6(nr::SIGALTSTACK, [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    let [_, flags, _] = stack;
    (answer == 0).then_some(flags as u32 & SS_ONSTACK != 0)
}

/// 0, which is nobody, if the program forbids the question. So are the next three.
pub fn getpid() -> u32 {
    // SAFETY: no memory is involved; the call itself cannot fail.
    result(unsafe { syscall6(nr::GETPID, [0; 6]) }).map_or(0, |number| number as u32)
}

pub fn geteuid() -> u32 {
    // SAFETY: no memory is involved; the call itself cannot fail.
    result(unsafe { syscall6(nr::GETEUID, [0; 6]) }).map_or(0, |number| number as u32)
}

pub fn getppid() -> u32 {
    // SAFETY: no memory is involved; the call itself cannot fail.
    result(unsafe { syscall6(nr::GETPPID, [0; 6]) }).map_or(0, |number| number as u32)
}

pub fn gettid() -> u32 {
    // SAFETY: no memory is involved; the call itself cannot fail.
    result(unsafe { syscall6(nr::GETTID, [0; 6]) }).map_or(0, |number| number as u32)
}

/// Whether thread `tid` of process `pid` still exists (signal 0 delivers nothing).
pub fn thread_exists(pid: u32, tid: u32) -> bool {
    // SAFETY: no memory is involved and signal 0 has no effect on the thread.
    result(unsafe { syscall6(nr::TGKILL, [pid as usize, tid as usize, 0, 0, 0, 0]) }) != Err(Errno::ESRCH)
}

/// Lets another thread run.
pub fn yield_now() {
    // SAFETY: no memory is involved.
    unsafe { syscall6(nr::SCHED_YIELD, [0; 6]) };
}

/// Which clock to read.
#[derive(Clone, Copy)]
pub enum Clock {
    Realtime = 0,
    Monotonic = 1,
}

/// Nanoseconds of `clock`: by the kernel's own code in the process, or by system call where there is none. Slow (tens or
/// hundreds of ns): where the counter can be had, for calibration only. 0 if the program forbids the system call that
/// would be needed.
pub fn clock_ns(clock: Clock) -> u64 {
    let mut time = [0u64; 2];
    let arguments = [clock as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0];
    if !vdso::answers_alone() && sandbox::forbids(nr::CLOCK_GETTIME, &arguments) {
        return 0;
    }
    if let Some(known) = vdso::time(clock as i32) {
        time = known;
    } else {
        // SAFETY: the kernel writes one `timespec` of two words.
        unsafe { syscall6(nr::CLOCK_GETTIME, arguments) };
    }
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Gives the calling thread a name, of which the kernel keeps 15 bytes.
pub fn name_thread(name: &CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the kernel copies a C string.
    unsafe { syscall6(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// The signals a thread does not take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalMask(u64);

impl SignalMask {
    /// All but those the C library keeps for itself: `setuid` waits until every thread has taken one of them.
    pub const EVERYTHING: SignalMask = SignalMask(!(1 << 31 | 1 << 32 | 1 << 33));
}

/// Sets the calling thread's mask and returns the one it had.
pub fn set_signal_mask(mask: SignalMask) -> SignalMask {
    const SIG_SETMASK: usize = 2;
    let mut before = 0u64;
    // SAFETY: both sets are eight bytes, as the last argument says.
    unsafe {
        let (new, old) = (&raw const mask.0 as usize, &raw mut before as usize);
        syscall6(nr::RT_SIGPROCMASK, [SIG_SETMASK, new, old, 8, 0, 0]);
    }
    SignalMask(before)
}

/// Sleeps while `word` is `value`, until [`wake_all`] or for `nanoseconds` at most. May return early.
pub fn wait_while(word: &AtomicU32, value: u32, nanoseconds: u64) {
    const FUTEX_WAIT_PRIVATE: usize = 128;
    let timeout = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: the word and the `timespec` outlive the call.
    unsafe {
        let (word, timeout) = (word.as_ptr() as usize, &raw const timeout as usize);
        syscall6(nr::FUTEX, [word, FUTEX_WAIT_PRIVATE, value as usize, timeout, 0, 0]);
    }
}

/// Wakes everyone who sleeps in [`wait_while`] on `word`.
pub fn wake_all(word: &AtomicU32) {
    const FUTEX_WAKE_PRIVATE: usize = 129;
    // SAFETY: the kernel uses the address as a name only.
    unsafe { syscall6(nr::FUTEX, [word.as_ptr() as usize, FUTEX_WAKE_PRIVATE, i32::MAX as usize, 0, 0, 0]) };
}

/// Copies memory of this process, as much of it as can be read: a wrong address is an answer and not a fault.
///
/// # Safety
/// `place` has room for `length` bytes.
pub unsafe fn read_own_memory(address: usize, place: *mut u8, length: usize) -> Result<usize, Errno> {
    let (from, to) = ([address, length], [place as usize, length]);
    // SAFETY: one range each; the kernel writes no more than `length` bytes to `place`.
    result(unsafe {
        let (from, to) = (&raw const from as usize, &raw const to as usize);
        syscall6(nr::PROCESS_VM_READV, [getpid() as usize, to, 1, from, 1, 0])
    })
}

/// Whether [`is_readable`] gets an answer: the program may forbid the question.
pub fn knows_what_is_readable() -> bool {
    !sandbox::forbids(nr::RT_SIGPROCMASK, &[usize::MAX, 0, 0, 8, 0, 0])
}

/// Whether eight bytes at `address` can be read, asked of the kernel so that a wrong guess is an answer and not a
/// fault: a deliberately invalid `rt_sigprocmask` reads its set before it rejects the request. `false` if the program
/// forbids the question.
pub fn is_readable(address: usize) -> bool {
    const INVALID_HOW: usize = usize::MAX;
    // SAFETY: with an invalid `how` the kernel copies the set in and then refuses; no signal mask changes.
    let raw = unsafe { syscall6(nr::RT_SIGPROCMASK, [INVALID_HOW, address, 0, 8, 0, 0]) };
    // A null set is not read. Whatever else the answer is (a filter's, say), it is not the one of a set that was read.
    address != 0 && result(raw) == Err(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_with_the_page_it_is_in() {
        assert_eq!(page_of(0x7f00_1000, 4096), (0x7f00_1000, 0));
        assert_eq!(page_of(0x7f01_3000, 0x1_0000), (0x7f01_0000, 0x3000));
        assert_eq!(page_of(0, 0x1_0000), (0, 0));
        let fresh = map_anonymous(1).unwrap();
        assert_eq!(page_of(fresh.as_ptr() as usize, page_size()).1, 0);
        // SAFETY: nobody has seen it.
        unsafe { unmap(fresh, 1) };
    }

    #[test]
    fn readable_tells_mapped_from_unmapped() {
        let word = 1u64;
        assert!(is_readable(&raw const word as usize));
        assert!(!is_readable(8));
        assert!(!is_readable(0));
        let is_unreadable_once_unmapped = || {
            let page = map_anonymous(4096).unwrap();
            assert!(is_readable(page.as_ptr() as usize));
            // SAFETY: nobody else knows the page.
            unsafe { unmap(page, 4096) };
            !is_readable(page.as_ptr() as usize)
        };
        // Another thread may map something there at once, but not each time.
        assert!((0..1000).any(|_| is_unreadable_once_unmapped()));
    }

    #[test]
    fn own_memory_is_copied_as_far_as_it_can_be_read() {
        let page = map_anonymous(4096).unwrap();
        let end = page.as_ptr() as usize + 4096;
        let mut copy = [1u8; 16];
        // SAFETY: the copy has room; nobody else knows the page.
        unsafe {
            page.as_ptr().add(4088).write_bytes(7, 8);
            assert_eq!(read_own_memory(end - 8, copy.as_mut_ptr(), 8), Ok(8));
            assert_eq!(copy, [7, 7, 7, 7, 7, 7, 7, 7, 1, 1, 1, 1, 1, 1, 1, 1]);
            unmap(page, 4096);
            // No page is ever there.
            assert_eq!(read_own_memory(8, copy.as_mut_ptr(), 8), Err(Errno::EFAULT));
        }
    }

    #[test]
    fn a_mask_is_set_and_given_back() {
        let before = set_signal_mask(SignalMask::EVERYTHING);
        let all = set_signal_mask(before);
        // Three are left out, two cannot be blocked.
        assert_eq!(all.0.count_ones(), 59);
        assert_eq!(set_signal_mask(before), before);
    }

    #[test]
    fn a_wait_ends_when_the_word_is_another_or_the_time_is_over() {
        let word = AtomicU32::new(1);
        wait_while(&word, 2, u64::MAX / 2);
        wait_while(&word, 1, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                word.store(3, std::sync::atomic::Ordering::Release);
                wake_all(&word);
            });
            while word.load(std::sync::atomic::Ordering::Acquire) == 1 {
                wait_while(&word, 1, 1_000_000_000);
            }
        });
    }

    #[test]
    fn file_systems_are_told_apart() {
        const PROC: u64 = 0x9fa0;
        assert_eq!(file_system(c"/proc").map(|found| found.kind), Ok(PROC));
        let root = file_system(c"/").unwrap();
        assert!(root.kind != PROC && root.free_bytes > 0);
        assert_eq!(file_system(c"/no/such/path"), Err(Errno::ENOENT));
    }

    #[test]
    fn own_thread_exists_and_an_impossible_one_does_not() {
        assert!(thread_exists(getpid(), gettid()));
        assert!(!thread_exists(getpid(), 0x3fff_ffff));
    }

    #[test]
    fn clocks_agree_with_std() {
        let std = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(clock_ns(Clock::Realtime).abs_diff(std) < 5_000_000_000);
        assert!(clock_ns(Clock::Monotonic) <= clock_ns(Clock::Monotonic));
    }
}

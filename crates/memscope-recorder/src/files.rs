//! A spool file the process keeps open among descriptors that are not its own.
//!
//! Programs close descriptors they did not open (`closefrom`, daemons, shells) and get the same numbers again for files
//! of their own. So a descriptor is parked high, and its identity is checked before and after each write. A stranger under
//! our number means opening our file anew. One that comes in the instant between the look and the write gets bytes of
//! ours at its end: they are taken back, and it is told.
use crate::forks::{self, Which};
use crate::path::Path;
use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use memscope_format::layout::{WINDOW_HEADER_SIZE, WINDOW_PAGE, WindowHeader};
use memscope_sys::{self as sys, Errno, Fd, FileId, Limit, Part};

/// Zeroed memory is a file not yet created.
pub(crate) struct SpoolFile {
    pub(crate) path: Path,
    /// Flags for opening it again; creation was once.
    flags: usize,
    which: Which,
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

/// What an append did to files of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stray {
    TakenBack,
    Left,
}

/// Who answers for what a file grows by.
pub(crate) trait Growth {
    /// Before `bytes` are added; how large the file may be with all that was claimed.
    fn claim(&self, bytes: u64) -> Result<u64, Errno>;

    /// So many of those that were claimed were not added.
    fn release(&self, bytes: u64);

    fn strayed(&self, stray: Stray);
}

impl SpoolFile {
    /// Creates the file at `self.path`, which must not exist.
    pub(crate) fn create(&mut self, which: Which, flags: usize) -> Result<(), Errno> {
        self.flags = flags;
        self.which = which;
        self.keep(park(sys::open(self.path.as_c_str(), flags | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW)?))
    }

    /// Takes a file that somebody else made and opened. It has no path here and cannot be opened again.
    pub(crate) fn adopt(&mut self, which: Which, descriptor: Fd) -> Result<(), Errno> {
        self.which = which;
        self.path.truncate(0);
        self.keep(park(descriptor))
    }

    fn keep(&self, parked: Fd) -> Result<(), Errno> {
        let id = sys::file_id(parked)?;
        self.device.store(id.device, Relaxed);
        self.inode.store(id.inode, Relaxed);
        self.use_from_now_on(parked);
        Ok(())
    }

    fn use_from_now_on(&self, parked: Fd) {
        self.descriptor.store(parked.0, Relaxed);
        forks::remember(self.which, parked, self.id());
    }

    fn id(&self) -> FileId {
        FileId { device: self.device.load(Relaxed), inode: self.inode.load(Relaxed) }
    }

    /// A descriptor that is certainly this file's.
    pub(crate) fn descriptor(&self) -> Result<Fd, Errno> {
        let parked = Fd(self.descriptor.load(Relaxed));
        if sys::file_id(parked) == Ok(self.id()) {
            return Ok(parked);
        }
        self.open_again()
    }

    #[cold]
    fn open_again(&self) -> Result<Fd, Errno> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            let low = sys::open(self.path.as_c_str(), self.flags)?;
            if !self.is_at(low, self.id()) {
                sys::close(low);
                return Err(Errno::ENOENT);
            }
            let parked = park(low);
            // Unless it was taken from us at once; then it is not ours to close either.
            if self.is_at(parked, self.id()) {
                self.use_from_now_on(parked);
                return Ok(parked);
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Appends a spool block by one `write`. A short one leaves a torn one, which readers recognise, and is made again.
    ///
    /// # Safety
    /// The parts are a sealed header and a payload that is readable and has a window's header, nobody else's, before it.
    pub(crate) unsafe fn append(&self, spool_block: &[Part; 2], mut strayed: impl FnMut(Stray)) -> Result<(), Errno> {
        const TRIES: usize = 8;
        let length = spool_block.iter().map(|part| part.length).sum();
        let mut last = Errno::EAGAIN;
        let ours = self.id();
        for _ in 0..TRIES {
            let descriptor = self.descriptor()?;
            // A signal handler has forked, and this is the child: what is here now is another file.
            if self.id() != ours {
                return Err(Errno::EBADF);
            }
            // SAFETY: the caller vouches for the parts.
            let written = unsafe {
                match sys::append(descriptor, spool_block) {
                    // Before Linux 4.16; our own descriptor appends anyway.
                    Err(Errno::ENOSYS | Errno::EOPNOTSUPP) => sys::write_parts(descriptor, spool_block),
                    // Of all writes a program that sandboxes itself allows the plainest.
                    Err(Errno::SANDBOX) => write_from_window(descriptor, spool_block),
                    answer => answer,
                }
            };
            if self.is_at(descriptor, ours) {
                match written {
                    Ok(whole) if whole == length => return Ok(()),
                    Ok(_) => last = Errno::EAGAIN,
                    Err(Errno::EINTR) => last = Errno::EINTR,
                    Err(error) => return Err(error),
                }
            } else if let Ok(stray @ 1..) = written
                && self.id() == ours
            {
                // SAFETY: the same parts.
                if let Some(stray) = unsafe { take_back(descriptor, spool_block, stray) } {
                    strayed(stray);
                }
            }
        }
        Err(last)
    }

    /// A descriptor of the file, which is then at least `size` bytes long, all of them there to be stored to. It grows by
    /// zeroes that are written: if a stranger gets them instead, they can be taken back.
    ///
    /// Threads that grow it at once make it longer than each of them needs; what each adds is claimed from `growth`.
    pub(crate) fn grow_to(&self, size: u64, growth: &impl Growth) -> Result<Fd, Errno> {
        /// A signal or a stranger at each of so many attempts is not one in passing.
        const TRIES: usize = 64;
        const PARTS: usize = 16;
        static ZEROES: [u8; WINDOW_PAGE] = [0; WINDOW_PAGE];
        let ours = self.id();
        for _ in 0..TRIES {
            let descriptor = self.descriptor()?;
            let length = sys::file_length(descriptor)?;
            if !self.is_at(descriptor, ours) {
                continue;
            }
            if length >= size {
                return Ok(descriptor);
            }
            let missing = (size - length).min((PARTS * WINDOW_PAGE) as u64) as usize;
            let largest = growth.claim(missing as u64)?;
            SpoolFile::may_grow_to(largest).inspect_err(|_| growth.release(missing as u64))?;
            let piece = |number: usize| Part {
                data: ZEROES.as_ptr(),
                length: missing.saturating_sub(number * WINDOW_PAGE).min(WINDOW_PAGE),
            };
            let zeroes: [Part; PARTS] = core::array::from_fn(piece);
            // SAFETY: the parts are of the page above.
            let written = unsafe {
                match sys::append(descriptor, &zeroes) {
                    // Before Linux 4.16, or where the program forbids it.
                    Err(Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::SANDBOX) => {
                        SpoolFile::may_grow_to(growth.claim(size - length - missing as u64)?)?;
                        return sys::fallocate(descriptor, 0, size).map(|()| descriptor);
                    }
                    answer => answer,
                }
            };
            let is_ours = self.is_at(descriptor, ours);
            growth.release(missing as u64 - written.map_or(0, |written| if is_ours { written as u64 } else { 0 }));
            if !is_ours {
                if let Ok(stray @ 1..) = written
                    // SAFETY: as above.
                    && unsafe { cut_off(descriptor, &zeroes, stray) } == Some(true)
                {
                    growth.strayed(Stray::TakenBack);
                }
                continue;
            }
            match written {
                Ok(0) => return Err(Errno::ENOSPC),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Maps a range of the file, which is long enough.
    pub(crate) fn map(&self, offset: u64, length: usize, growth: &impl Growth) -> Result<NonNull<u8>, Errno> {
        const TRIES: usize = 8;
        let ours = self.id();
        for _ in 0..TRIES {
            let descriptor = self.grow_to(offset + length as u64, growth)?;
            let memory = sys::map_file(descriptor, offset, length)?;
            if self.is_at(descriptor, ours) {
                return Ok(memory);
            }
            // It may be a stranger's, and shorter: untouched, that does no harm.
            // SAFETY: nobody has seen the mapping.
            unsafe { sys::unmap(memory, length) };
        }
        Err(Errno::EAGAIN)
    }

    fn is_at(&self, descriptor: Fd, ours: FileId) -> bool {
        sys::file_id(descriptor) == Ok(ours)
    }

    /// Whether the file may grow to `size`: beyond the process's own limit a write would raise SIGXFSZ in it.
    pub(crate) fn may_grow_to(size: u64) -> Result<(), Errno> {
        if size <= sys::limit(Limit::FileSize)? { Ok(()) } else { Err(Errno::ENOSPC) }
    }
}

/// Writes a spool block as one range: the window it is in, with the checksum in its header for the moment.
///
/// # Safety
/// As for [`SpoolFile::append`].
#[cold]
unsafe fn write_from_window(descriptor: Fd, [header, payload]: &[Part; 2]) -> Result<usize, Errno> {
    const CHECKSUM: usize = core::mem::offset_of!(WindowHeader, checksum);
    // SAFETY: the caller vouches for the header before the payload; both headers are as long, and aligned as it is.
    unsafe {
        let window = payload.data.sub(WINDOW_HEADER_SIZE).cast_mut();
        let place = window.add(CHECKSUM).cast::<u64>();
        let kept = place.read();
        place.write(header.data.add(CHECKSUM).cast::<u64>().read_unaligned());
        let written = sys::write(descriptor, Part { data: window, length: header.length + payload.length });
        place.write(kept);
        written
    }
}

/// Closes a descriptor that a forked child has from its parent, if it still is that file.
pub(crate) fn close_inherited((descriptor, file): (Fd, FileId)) {
    if descriptor.0 > 0 && sys::file_id(descriptor) == Ok(file) {
        sys::close(descriptor);
    }
}

/// Cuts `length` bytes off the end of the file behind a descriptor, if they are the first of `spool_block`. `None`: it
/// has none of them, the stranger came only after the write.
///
/// # Safety
/// The parts must be readable.
#[cold]
unsafe fn take_back(descriptor: Fd, spool_block: &[Part; 2], length: usize) -> Option<Stray> {
    // SAFETY: passed on.
    unsafe {
        match cut_off(descriptor, spool_block, length) {
            Some(true) => Some(Stray::TakenBack),
            Some(false) => Some(Stray::Left),
            None => {
                let file = open_again(descriptor).ok()?;
                let held = holds(file, spool_block, length);
                sys::close(file);
                held.then_some(Stray::Left)
            }
        }
    }
}

/// Cuts the first `length` bytes of `spool_block` off the end of the file behind a descriptor; whether that went well,
/// `None` if they are not there.
///
/// # Safety
/// The parts must be readable.
unsafe fn cut_off(descriptor: Fd, spool_block: &[Part], length: usize) -> Option<bool> {
    // A pipe or a socket, which cannot be opened, would have refused the write.
    let file = open_again(descriptor).ok()?;
    // SAFETY: passed on.
    let start = unsafe { begins_at(file, spool_block, length) };
    let cut = start.map(|start| sys::truncate(file, start).is_ok());
    sys::close(file);
    cut
}

/// A way to the file behind a descriptor that no one else can change under us, with a position of its own.
fn open_again(descriptor: Fd) -> Result<Fd, Errno> {
    let mut name = [0u8; 32];
    descriptor_path(descriptor, &mut name).and_then(|path| sys::open(path, sys::O_RDWR)).map(park)
}

/// Whether the header of `spool_block` is somewhere in the last bytes of the file, twice as many as were written.
///
/// # Safety
/// The parts must be readable.
unsafe fn holds(file: Fd, spool_block: &[Part; 2], length: usize) -> bool {
    let [header, _] = spool_block;
    // SAFETY: the caller vouches for the part.
    let header = unsafe { core::slice::from_raw_parts(header.data, header.length) };
    let Ok(end) = sys::file_length(file) else { return false };
    let mut bytes = [0u8; 512];
    let mut at = end.saturating_sub(2 * length as u64);
    while let Ok(read) = sys::read_at(file, &mut bytes, at)
        && read >= header.len()
    {
        let read_bytes = bytes.get(..read).unwrap_or_default();
        if read_bytes.windows(header.len().max(1)).any(|window| window == header) {
            return true;
        }
        // The header may lie across two pieces.
        at += (read - header.len() + 1) as u64;
    }
    false
}

/// Where the file's last `length` bytes begin, if they are the first of `spool_block`.
///
/// # Safety
/// The parts must be readable.
unsafe fn begins_at(file: Fd, spool_block: &[Part], length: usize) -> Option<u64> {
    let start = sys::file_length(file).ok()?.checked_sub(length as u64)?;
    let mut bytes = [0u8; 512];
    let mut at = start;
    let mut left = length;
    for part in spool_block {
        let mut compared = 0;
        while compared < part.length && left > 0 {
            let most = bytes.len().min(part.length - compared).min(left);
            let read = sys::read_at(file, bytes.get_mut(..most)?, at).ok().filter(|read| *read > 0)?;
            // SAFETY: the caller vouches for the part.
            let ours = unsafe { core::slice::from_raw_parts(part.data.add(compared), read) };
            if bytes.get(..read)? != ours {
                return None;
            }
            (compared, at, left) = (compared + read, at + read as u64, left - read);
        }
    }
    (left == 0).then_some(start)
}

/// `/proc/self/fd/<n>`.
fn descriptor_path(descriptor: Fd, buffer: &mut [u8; 32]) -> Result<&CStr, Errno> {
    const DIRECTORY: &[u8] = b"/proc/self/fd/";
    let mut digits = [0u8; 10];
    let mut rest = descriptor.0.unsigned_abs();
    let mut first = digits.len();
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        (first, rest) = (place, rest / 10);
        if rest == 0 {
            break;
        }
    }
    let name = DIRECTORY.iter().chain(digits.iter().skip(first));
    for (to, from) in buffer.iter_mut().zip(name) {
        *to = *from;
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| Errno::EINVAL)
}

/// Moves a fresh descriptor out of the range programs use and scan.
fn park(low: Fd) -> Fd {
    const OUT_OF_THE_WAY: u64 = 900;
    const FROM_THE_END: u64 = 16;
    /// Never the same number twice in a row: what was somebody else's in between would look as if it had stayed ours.
    const NUMBERS: u32 = 64;
    static TURN: AtomicU32 = AtomicU32::new(0);
    let limit = sys::limit(Limit::OpenFiles).unwrap_or(0);
    let wanted = OUT_OF_THE_WAY + u64::from(TURN.fetch_add(1, Relaxed) % NUMBERS);
    let floor = wanted.min(limit.saturating_sub(FROM_THE_END));
    match sys::dup_above(low, floor as i32) {
        Ok(high) => {
            sys::close(low);
            high
        }
        Err(_) => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_descriptor_has_its_path() {
        let mut buffer = [0; 32];
        assert_eq!(descriptor_path(Fd(0), &mut buffer), Ok(c"/proc/self/fd/0"));
        let mut buffer = [0; 32];
        assert_eq!(descriptor_path(Fd(i32::MAX), &mut buffer), Ok(c"/proc/self/fd/2147483647"));
    }

    #[test]
    fn bytes_that_went_astray_are_taken_back_and_others_stay() {
        let path = std::env::temp_dir().join(format!("memscope-stray-{}", std::process::id()));
        fs::write(&path, "theirs").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let descriptor = Fd(file.as_raw_fd());
        let bytes: Vec<u8> = (0..3000u32).map(|number| number as u8).collect();
        let (header, payload) = bytes.split_at(64);
        let spool_block = [header, payload].map(|part| Part { data: part.as_ptr(), length: part.len() });
        // SAFETY: the parts are of the vector.
        unsafe {
            assert_eq!(sys::append(descriptor, &spool_block), Ok(3000));
            assert_eq!(fs::metadata(&path).unwrap().len(), 3006);
            assert_eq!(take_back(descriptor, &spool_block, 3000), Some(Stray::TakenBack));
            assert_eq!(fs::read(&path).unwrap(), b"theirs");
            assert_eq!(take_back(descriptor, &spool_block, 3), None);
            assert_eq!(fs::read(&path).unwrap(), b"theirs");
            assert_eq!(sys::append(descriptor, &spool_block), Ok(3000));
            fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap();
            assert_eq!(take_back(descriptor, &spool_block, 3000), Some(Stray::Left));
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_has_no_end_refuses_bytes_of_ours() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let spool_block = [b"abc", b"def"].map(|part| Part { data: part.as_ptr(), length: part.len() });
        // SAFETY: the parts are literals.
        assert!(unsafe { sys::append(Fd(writer.as_raw_fd()), &spool_block) }.is_err());
    }
}

//! A spool file the process keeps open among descriptors that are not its own.
//!
//! Programs close descriptors they did not open (`closefrom`, daemons, shells) and get the same numbers again for files
//! of their own. So a descriptor is parked high, and before each use its identity is checked: a stranger under our
//! number means opening our file anew, never writing into theirs.
use crate::names::Path;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use memscope_sys::{self as sys, Errno, Fd, FileId, Limit};

/// Zeroed memory is a file not yet created.
pub(crate) struct SpoolFile {
    pub(crate) path: Path,
    /// Flags for opening it again; creation was once.
    flags: usize,
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl SpoolFile {
    /// Creates the file at `self.path`, which must not exist.
    pub(crate) fn create(&mut self, flags: usize) -> Result<(), Errno> {
        self.flags = flags;
        let parked = park(sys::open(self.path.as_c_str(), flags | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW)?);
        let id = sys::file_id(parked)?;
        self.device.store(id.device, Relaxed);
        self.inode.store(id.inode, Relaxed);
        self.descriptor.store(parked.0, Relaxed);
        Ok(())
    }

    /// A descriptor that is certainly this file's.
    pub(crate) fn descriptor(&self) -> Result<Fd, Errno> {
        let ours = FileId { device: self.device.load(Relaxed), inode: self.inode.load(Relaxed) };
        let parked = Fd(self.descriptor.load(Relaxed));
        if sys::file_id(parked) == Ok(ours) {
            return Ok(parked);
        }
        let again = park(sys::open(self.path.as_c_str(), self.flags)?);
        if sys::file_id(again) != Ok(ours) {
            sys::close(again);
            return Err(Errno::ENOENT);
        }
        self.descriptor.store(again.0, Relaxed);
        Ok(again)
    }

    /// Whether the file may grow to `size`: beyond the process's own limit a write would raise SIGXFSZ in it.
    pub(crate) fn may_grow_to(size: u64) -> Result<(), Errno> {
        if size <= sys::limit(Limit::FileSize)? { Ok(()) } else { Err(Errno::ENOSPC) }
    }
}

/// Moves a fresh descriptor out of the range programs use and scan.
fn park(low: Fd) -> Fd {
    const OUT_OF_THE_WAY: u64 = 900;
    const FROM_THE_END: u64 = 16;
    let limit = sys::limit(Limit::OpenFiles).unwrap_or(0);
    let floor = OUT_OF_THE_WAY.min(limit.saturating_sub(FROM_THE_END));
    match sys::dup_above(low, floor as i32) {
        Ok(high) => {
            sys::close(low);
            high
        }
        Err(_) => low,
    }
}

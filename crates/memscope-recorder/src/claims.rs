//! How large the files of a process are, counting what threads are about to write: the user's limit and that of the system
//! hold for all of them together.
use crate::process;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use memscope_format::layout::PROCESS_HEADER_SIZE;

/// Bytes that are in the files or claimed by a thread that writes them now. Zeroed memory is no file.
///
/// Whoever claims adds first and then looks at both: of two who come at once at least one sees the other. Who jumps out of a
/// write leaves his claim behind, and the limit is reached a little early.
pub(crate) struct Claims {
    spool: AtomicU64,
    /// Behind the process header.
    windows: AtomicU64,
}

/// The user's limit.
pub(crate) struct OverCap;

impl Claims {
    /// The size of the spool with `bytes` more.
    pub(crate) fn claim_spool(&self, bytes: u64) -> Result<u64, OverCap> {
        let size = self.spool.fetch_add(bytes, SeqCst) + bytes;
        if exceeds_cap(size + self.windows.load(SeqCst)) {
            self.release_spool(bytes);
            return Err(OverCap);
        }
        Ok(size)
    }

    /// Of a claim that nothing was written for.
    pub(crate) fn release_spool(&self, bytes: u64) {
        self.spool.fetch_sub(bytes, SeqCst);
    }

    /// The size of the windows' file with `bytes` more.
    pub(crate) fn claim_windows(&self, bytes: u64) -> Result<u64, OverCap> {
        let size = self.windows.fetch_add(bytes, SeqCst) + bytes;
        if exceeds_cap(size + self.spool.load(SeqCst)) {
            self.release_windows(bytes);
            return Err(OverCap);
        }
        Ok(PROCESS_HEADER_SIZE as u64 + size)
    }

    pub(crate) fn release_windows(&self, bytes: u64) {
        self.windows.fetch_sub(bytes, SeqCst);
    }
}

fn exceeds_cap(bytes: u64) -> bool {
    let cap = process::config().size_cap;
    cap != 0 && PROCESS_HEADER_SIZE as u64 + bytes > cap
}

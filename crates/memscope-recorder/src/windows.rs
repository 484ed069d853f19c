//! The windows of a process: pieces of one file, handed to lanes and taken back when they move to larger ones.
use crate::files::{Growth, Stray};
use crate::process::Process;
use crate::slot;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, compiler_fence};
use memscope_format::layout::{
    LARGEST_WINDOW, PROCESS_HEADER_SIZE, StopReason, WINDOW_PAGE, WindowHeader, notes, window_bytes,
};
use memscope_sys::{self as sys, Errno};

/// A mapped window, nobody's but its holder's.
pub(crate) struct Window {
    /// Where it begins in the file, counted behind the process header.
    pub(crate) page: u32,
    pub(crate) size: u32,
    pub(crate) memory: *mut WindowHeader,
}

const SIZES: usize = LARGEST_WINDOW as usize + 1;
/// More windows of a size than this that nobody has are left where they are in the file.
const MOST_FREE: usize = 256;

/// Windows nobody has, by size: their pages plus one, 0 for none. Zeroed memory is none.
pub(crate) struct FreeWindows([[AtomicU32; MOST_FREE]; SIZES]);

impl FreeWindows {
    fn take(&self, size: u32) -> Option<u32> {
        let places = self.0.get(size as usize)?;
        let taken = places.iter().find_map(|place| match place.load(Relaxed) {
            0 => None,
            page => place.compare_exchange(page, 0, AcqRel, Relaxed).ok(),
        });
        taken.map(|page| page - 1)
    }

    fn put(&self, size: u32, page: u32) {
        let places = self.0.get(size as usize).map_or([].as_slice(), |places| places.as_slice());
        for place in places {
            if place.load(Relaxed) == 0 && place.compare_exchange(0, page + 1, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }
}

impl Process {
    /// The smallest window, for a new lane; ends the recording if it does not fit under the user's limit.
    ///
    /// The largest where the output may go away: then a window is all that is left.
    pub(crate) fn take_first_window(&self) -> Option<Window> {
        let elsewhere = self.header().notes.load(Relaxed) & notes::WINDOWS_ELSEWHERE != 0;
        match self.take_window(if elsewhere { LARGEST_WINDOW } else { 0 }) {
            Ok(window) => Some(window),
            Err(WindowError::OverCap) => {
                self.stop(StopReason::SizeCap, Errno(0));
                None
            }
            Err(WindowError::System) => None,
        }
    }

    /// Maps a window of that size, its place in the file reserved.
    pub(crate) fn take_window(&self, size: u32) -> Result<Window, WindowError> {
        if self.is_stopped() {
            return Err(WindowError::System);
        }
        let page = match self.free_windows.take(size) {
            Some(page) => page,
            None => {
                let pages = 1 << size;
                self.header().window_pages.fetch_add(pages, AcqRel)
            }
        };
        self.map_window(page, size).map_err(|error| {
            self.free_windows.put(size, page);
            if error == OVER_CAP { WindowError::OverCap } else { WindowError::System }
        })
    }

    fn map_window(&self, page: u32, size: u32) -> Result<Window, Errno> {
        let offset = PROCESS_HEADER_SIZE as u64 + u64::from(page) * WINDOW_PAGE as u64;
        let length = window_bytes(size);
        if !sys::has_room_for(length) {
            return Err(Errno::ENOMEM);
        }
        let memory = self.files().windows.map(offset, length, self)?;
        // A child would keep it for nothing. If the kernel refuses, it does.
        let _ = sys::dont_fork(memory, length);
        let slot = slot::current();
        // SAFETY: the slot is the thread's own.
        unsafe {
            (*slot).coming_length = length;
            compiler_fence(SeqCst);
            (*slot).coming = memory.as_ptr() as usize;
            compiler_fence(SeqCst);
        }
        Ok(Window { page, size, memory: memory.as_ptr().cast() })
    }

    /// Takes back a window that nobody uses any more.
    pub(crate) fn give_back(&self, window: Window) {
        let Window { page, size, memory } = window;
        if let Some(memory) = NonNull::new(memory) {
            // SAFETY: the window was its holder's alone.
            unsafe { sys::unmap(memory.cast(), window_bytes(size)) };
        }
        self.free_windows.put(size, page);
    }
}

/// No answer of the kernel: the user's limit forbids that the file grows.
const OVER_CAP: Errno = Errno(0);

impl Growth for Process {
    fn claim(&self, bytes: u64) -> Result<u64, Errno> {
        self.claims.claim_windows(bytes).map_err(|_| OVER_CAP)
    }

    fn release(&self, bytes: u64) {
        self.claims.release_windows(bytes);
    }

    fn strayed(&self, stray: Stray) {
        Process::strayed(self, stray);
    }
}

/// Why there is no window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WindowError {
    /// The user's limit.
    OverCap,
    System,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_window_is_handed_out_once_and_by_its_size() {
        let free = FreeWindows([const { [const { AtomicU32::new(0) }; MOST_FREE] }; SIZES]);
        assert_eq!(free.take(0), None);
        free.put(0, 0);
        free.put(0, 7);
        free.put(6, 64);
        assert_eq!((free.take(0), free.take(0), free.take(0)), (Some(0), Some(7), None));
        assert_eq!((free.take(5), free.take(6), free.take(6)), (None, Some(64), None));
        // No such size.
        free.put(7, 1);
        assert_eq!(free.take(7), None);
        for page in 0..2 * MOST_FREE as u32 {
            free.put(1, page);
        }
        assert_eq!(core::iter::from_fn(|| free.take(1)).count(), MOST_FREE);
    }
}

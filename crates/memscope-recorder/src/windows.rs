//! The windows of a process: pieces of one file, handed to lanes and taken back when they move to larger ones.
use crate::files::{Growth, Stray};
use crate::process::Process;
use crate::slot;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use memscope_format::layout::{
    LARGEST_WINDOW, PROCESS_HEADER_SIZE, StopReason, WINDOW_PAGE, WindowHeader, notes, window_bytes,
};
use memscope_sys::{self as sys, Errno};

/// A mapped window, nobody's but its holder's.
pub(crate) struct Window {
    pub(crate) place: Place,
    pub(crate) memory: *mut WindowHeader,
    /// The mapping has others in it, and stays.
    pub(crate) is_shared: bool,
}

/// Where a window is in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Where it begins, counted behind the process header.
    pub(crate) page: u32,
    pub(crate) size: u32,
    /// Whose file it is: a child that a handler forks goes on with what its parent was about.
    pub(crate) home: u32,
}

const SIZES: usize = LARGEST_WINDOW as usize + 1;
/// More windows of a size than this that nobody has are left where they are in the file.
const MOST_FREE: usize = 256;

/// Windows nobody has, by size. Zeroed memory is none.
///
/// ```text
///  63        32 31            0
/// ┌────────────┬───────────────┐
/// │ process    │ page plus one │
/// └────────────┴───────────────┘
/// ```
pub(crate) struct FreeWindows([[AtomicU64; MOST_FREE]; SIZES]);

impl FreeWindows {
    /// Of this process: what is of another, a forked child has put here in the middle of its parent's work.
    fn take(&self, size: u32, home: u32) -> Option<Place> {
        let places = self.0.get(size as usize)?;
        let taken = places.iter().find_map(|place| match place.load(Relaxed) {
            0 => None,
            free => place.compare_exchange(free, 0, AcqRel, Relaxed).ok().filter(|free| (free >> 32) as u32 == home),
        });
        taken.map(|free| Place { page: free as u32 - 1, size, home })
    }

    fn put(&self, Place { page, size, home }: Place) {
        let free = u64::from(home) << 32 | u64::from(page + 1);
        let places = self.0.get(size as usize).map_or([].as_slice(), |places| places.as_slice());
        for place in places {
            if place.load(Relaxed) == 0 && place.compare_exchange(0, free, AcqRel, Relaxed).is_ok() {
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
        let home = self.home();
        let place = self.free_windows.take(size, home).unwrap_or_else(|| self.new_place(size, home));
        self.map_window(place).map_err(|error| {
            self.free_windows.put(place);
            if error == OVER_CAP { WindowError::OverCap } else { WindowError::System }
        })
    }

    fn new_place(&self, size: u32, home: u32) -> Place {
        Place { page: self.header().window_pages.fetch_add(1 << size, AcqRel), size, home }
    }

    fn map_window(&self, place: Place) -> Result<Window, Errno> {
        let length = window_bytes(place.size);
        let memory = self.map_at(place.page, length)?.as_ptr();
        slot::note_coming(memory, length);
        Ok(Window { place, memory: memory.cast(), is_shared: false })
    }

    /// Maps as much of the file as a window of that size takes, which nobody has had, and says where it is.
    pub(crate) fn map_pages(&self, size: u32) -> Result<(Place, NonNull<u8>), Errno> {
        let place = self.new_place(size, self.home());
        let memory = self.map_at(place.page, window_bytes(size)).inspect_err(|_| self.free_windows.put(place))?;
        Ok((place, memory))
    }

    fn map_at(&self, page: u32, length: usize) -> Result<NonNull<u8>, Errno> {
        let offset = PROCESS_HEADER_SIZE as u64 + u64::from(page) * WINDOW_PAGE as u64;
        if !sys::has_room_for(length) {
            return Err(Errno::ENOMEM);
        }
        let memory = self.files().windows.map(offset, length, self)?;
        // A child would keep it for nothing. If the kernel refuses, it does.
        let _ = sys::dont_fork(memory, length);
        Ok(memory)
    }

    /// Takes back a window that nobody uses any more.
    pub(crate) fn give_back(&self, window: Window) {
        let Window { place, memory, is_shared } = window;
        if !is_shared && let Some(memory) = NonNull::new(memory) {
            // SAFETY: the window was its holder's alone.
            unsafe { sys::unmap(memory.cast(), window_bytes(place.size)) };
        }
        self.free_windows.put(place);
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

    const HOME: u32 = 77;

    fn place(size: u32, page: u32) -> Place {
        Place { page, size, home: HOME }
    }

    fn none_free() -> FreeWindows {
        FreeWindows([const { [const { AtomicU64::new(0) }; MOST_FREE] }; SIZES])
    }

    #[test]
    fn a_free_window_is_handed_out_once_and_by_its_size() {
        let free = none_free();
        let take = |size| free.take(size, HOME).map(|place| place.page);
        assert_eq!(take(0), None);
        for (size, page) in [(0, 0), (0, 7), (6, 64)] {
            free.put(place(size, page));
        }
        assert_eq!((take(0), take(0), take(0)), (Some(0), Some(7), None));
        assert_eq!((take(5), take(6), take(6)), (None, Some(64), None));
        // No such size.
        free.put(place(7, 1));
        assert_eq!(take(7), None);
        for page in 0..2 * MOST_FREE as u32 {
            free.put(place(1, page));
        }
        assert_eq!(core::iter::from_fn(|| take(1)).count(), MOST_FREE);
    }

    #[test]
    fn a_window_in_the_file_of_another_process_is_not_handed_out() {
        let free = none_free();
        free.put(Place { home: HOME + 1, ..place(2, 5) });
        free.put(place(2, 9));
        assert_eq!((free.take(2, HOME), free.take(2, HOME)), (Some(place(2, 9)), None));
        assert_eq!(free.take(2, HOME + 1), None);
    }
}

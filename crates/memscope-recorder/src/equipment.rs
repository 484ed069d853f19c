//! What a lane works with: its first window, and the tables of stacks and names where they are asked for.
//!
//! A process may have some 65,000 mappings, of which each thread's stack takes two. So what the lanes of a process with many threads
//! need is mapped for many at once, and they keep to small windows: such a process leaves none of its mappings to us.
use crate::process::Process;
use crate::slot;
use crate::windows::{Place, Window};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use memscope_format::layout::{LARGEST_WINDOW, WINDOW_PAGE};
use memscope_sys as sys;

/// Lanes whose windows and tables are mapped one by one.
const ALONE: u32 = 1024;
/// Lanes that are equipped by one batch: as much of the file as the largest window.
const LANES: usize = 1 << LARGEST_WINDOW;
const BATCHES: usize = 1 << 14;

/// Nobody's but its holder's.
pub(crate) struct Equipment {
    pub(crate) window: Window,
    /// Zeroed; null if none were asked for.
    pub(crate) tables: *mut u8,
}

/// In zeroed memory.
pub(crate) struct Batches {
    /// How many pieces of batches were handed out.
    taken: AtomicU32,
    batches: [Batch; BATCHES],
}

struct Batch {
    /// Somebody maps it, or has.
    is_claimed: AtomicBool,
    /// Where the first window is in the file.
    page: AtomicU32,
    tables: AtomicPtr<u8>,
    /// Null until all of it is there.
    windows: AtomicPtr<u8>,
}

impl Process {
    /// Whether the process has so many threads that what is mapped for each has to be little.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lane_count.load(Relaxed) >= ALONE
    }

    /// What a new lane needs, with tables of so many bytes, 0 for none. `None` if it is not to be had.
    pub(crate) fn take_equipment(&self, table_bytes: usize) -> Option<Equipment> {
        let of_batch = if self.is_crowded() { self.take_of_batch(table_bytes) } else { None };
        of_batch.or_else(|| self.take_alone(table_bytes))
    }

    fn take_alone(&self, table_bytes: usize) -> Option<Equipment> {
        let tables = match table_bytes {
            0 => ptr::null_mut(),
            bytes => sys::map_own(bytes).ok()?.as_ptr(),
        };
        let window = self.take_first_window();
        if window.is_none() {
            give_back_tables(tables, table_bytes);
        }
        Some(Equipment { window: window?, tables })
    }

    /// Of what nobody has used. A piece of a batch is not given back but for the page of its window.
    pub(crate) fn give_back_equipment(&self, Equipment { window, tables }: Equipment, table_bytes: usize) {
        if !window.is_shared {
            give_back_tables(tables, table_bytes);
        }
        self.give_back(window);
    }

    /// `None` where there is no batch to be had, or somebody maps it just now: nobody waits for it.
    #[cold]
    fn take_of_batch(&self, table_bytes: usize) -> Option<Equipment> {
        let home = self.home();
        let taken = self.batches.taken.fetch_add(1, Relaxed) as usize;
        let (batch, piece) = (self.batches.batches.get(taken / LANES)?, taken % LANES);
        let mut windows = batch.windows.load(Acquire);
        if windows.is_null() {
            if batch.is_claimed.swap(true, AcqRel) {
                return None;
            }
            windows = self.map_batch(batch, table_bytes)?;
        }
        let tables = batch.tables.load(Relaxed);
        // SAFETY: the batch has as many windows and tables, and the piece is handed out once.
        let (memory, tables) = unsafe {
            let tables = if tables.is_null() { tables } else { tables.add(piece * table_bytes) };
            (windows.add(piece * WINDOW_PAGE), tables)
        };
        slot::note_coming(memory, WINDOW_PAGE);
        let place = Place { page: batch.page.load(Relaxed) + piece as u32, size: 0, home };
        Some(Equipment { window: Window { place, memory: memory.cast(), is_shared: true }, tables })
    }

    fn map_batch(&self, batch: &Batch, table_bytes: usize) -> Option<*mut u8> {
        let tables = match table_bytes {
            0 => ptr::null_mut(),
            bytes => sys::map_own(bytes * LANES).ok()?.as_ptr(),
        };
        let Ok((place, windows)) = self.map_pages(LARGEST_WINDOW) else {
            give_back_tables(tables, table_bytes * LANES);
            return None;
        };
        batch.page.store(place.page, Relaxed);
        batch.tables.store(tables, Relaxed);
        batch.windows.store(windows.as_ptr(), Release);
        Some(windows.as_ptr())
    }
}

fn give_back_tables(tables: *mut u8, bytes: usize) {
    if let Some(tables) = NonNull::new(tables) {
        // SAFETY: mapped here, and nobody has used them.
        unsafe { sys::unmap_own(tables, bytes) };
    }
}

//! Anonymous memory of this process alone: a forked child gives it back.
//!
//! What threads of the parent worked with is of no use to a child, which has none of them. All such mappings are written
//! down here, so that the child, which finds this list as its parent left it, can unmap them.
use crate::{Errno, calls};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};

/// More mappings than this stay in a child.
const CAPACITY: usize = 16 * 1024;

struct Mapping {
    /// 0: free. Taken by whoever exchanges it for `TAKEN`.
    address: AtomicUsize,
    length: AtomicUsize,
}

const TAKEN: usize = 1;

static MAPPINGS: [Mapping; CAPACITY] =
    [const { Mapping { address: AtomicUsize::new(0), length: AtomicUsize::new(0) } }; CAPACITY];
/// How many places were ever used.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);
/// The program wants all its future memory in core.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// The program called `mlockall` for what it maps from now on: our reservations are not among what it meant.
pub fn future_is_locked(locked: bool) {
    LOCKED.store(locked, Relaxed);
}

/// Maps `length` bytes of fresh zeroed private memory that [`unmap_inherited`] gives back in a forked child.
pub fn map_own(length: usize) -> Result<NonNull<u8>, Errno> {
    if !has_room_for(length) {
        return Err(Errno::ENOMEM);
    }
    let memory = if LOCKED.load(Relaxed) { calls::map_unlocked(length)? } else { calls::map_anonymous(length)? };
    let fresh = HIGHEST.load(Relaxed);
    let place = if fresh < CAPACITY { HIGHEST.fetch_add(1, Relaxed) } else { 0 };
    let (reused, unused) = MAPPINGS.split_at(place.min(CAPACITY));
    for mapping in unused.iter().chain(reused) {
        if mapping.address.load(Relaxed) == 0 && mapping.address.compare_exchange(0, TAKEN, Acquire, Relaxed).is_ok() {
            mapping.length.store(length, Relaxed);
            mapping.address.store(memory.as_ptr() as usize, Release);
            break;
        }
    }
    Ok(memory)
}

/// Whether `length` bytes may be mapped without coming close to the program's limit of address space: what is left there is
/// the program's own.
pub fn has_room_for(length: usize) -> bool {
    const MARGIN: u64 = 32 << 20;
    match calls::limit(calls::Limit::AddressSpace) {
        Ok(u64::MAX) => true,
        Ok(limit) => {
            let left = mapped_pages().map_or(0, |pages| limit.saturating_sub(pages * calls::page_size() as u64));
            left >= length as u64 + MARGIN.min(limit / 8)
        }
        // Who may not ask is not told that there is a limit.
        Err(_) => true,
    }
}

/// Pages of address space the process has, the first number in `/proc/self/statm`.
fn mapped_pages() -> Option<u64> {
    let file = calls::open(c"/proc/self/statm", calls::O_RDONLY).ok()?;
    let mut text = [0u8; 64];
    let read = calls::read(file, &mut text);
    calls::close(file);
    let digits = text.get(..read.ok()?)?.iter().map_while(|byte| byte.checked_sub(b'0').filter(|digit| *digit < 10));
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit)))
}

/// Unmaps what [`map_own`] mapped.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap_own(memory: NonNull<u8>, length: usize) {
    let address = memory.as_ptr() as usize;
    let used = MAPPINGS.get(..HIGHEST.load(Relaxed).min(CAPACITY)).unwrap_or_default();
    // Taken off the list first: the next mapping may get the same address.
    if let Some(mapping) = used.iter().find(|mapping| mapping.address.load(Acquire) == address) {
        mapping.address.store(0, Release);
    }
    // SAFETY: the caller vouches that the range is ours and unused.
    unsafe { calls::unmap(memory, length) };
}

/// In a forked child: unmaps what its parent mapped with [`map_own`].
///
/// # Safety
/// Nothing may use any of it any more, and no thread of the child has mapped anything yet.
pub unsafe fn unmap_inherited() {
    for mapping in MAPPINGS.get(..HIGHEST.swap(0, Relaxed).min(CAPACITY)).unwrap_or_default() {
        let address = mapping.address.swap(0, Acquire);
        if address != TAKEN
            && let Some(memory) = NonNull::new(address as *mut u8)
        {
            // SAFETY: a mapping of ours; the caller vouches that it is unused.
            unsafe { calls::unmap(memory, mapping.length.load(Relaxed)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_mapped_goes_and_what_was_unmapped_is_left_alone() {
        let [kept, given_back] = [3 * 4096, 4096].map(|length| map_own(length).unwrap());
        // SAFETY: nobody else knows the ranges; this is the one test of the list.
        unsafe {
            kept.add(8192).write(1);
            unmap_own(given_back, 4096);
            let stranger = calls::map_anonymous(4096).unwrap();
            unmap_inherited();
            assert!(!calls::is_readable(kept.as_ptr() as usize) && !calls::is_readable(kept.as_ptr() as usize + 8192));
            assert!(calls::is_readable(stranger.as_ptr() as usize));
            future_is_locked(true);
            let unlocked = map_own(8192).unwrap();
            assert_eq!(unlocked.add(4096).read(), 0);
            unlocked.write(7);
            future_is_locked(false);
            unmap_own(unlocked, 8192);
        }
    }
}

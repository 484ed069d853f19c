//! Objects that a lane has found in the kernel's list of mappings, for the other lanes of the process.
//!
//! Where the loader cannot be asked (before glibc 2.35) that list is all there is, and it is long: two lines for each thread. If each
//! of twenty thousand threads read it for each object on its stack, they would do nothing else.
//!
//! A few entries without locks. One is written by whoever makes its version odd; a reader believes what it has copied if the version
//! was even and stayed the same. A writer that dies in between costs one entry.
use super::objects::{LoadedModule, WORDS};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize, fence};

/// More than programs have on their stacks; further ones take the places of the first.
const CAPACITY: usize = 256;

struct Entry {
    version: AtomicU32,
    /// The unload epoch in which it was found.
    epoch: AtomicU32,
    words: [AtomicUsize; WORDS],
}

static ENTRIES: [Entry; CAPACITY] = [const {
    Entry { version: AtomicU32::new(0), epoch: AtomicU32::new(0), words: [const { AtomicUsize::new(0) }; WORDS] }
}; CAPACITY];
/// How many were written so far.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// The object at `address`, if it is known since the epoch began.
pub(super) fn find(address: usize, epoch: u32) -> Option<LoadedModule> {
    let entries = ENTRIES.iter().take(WRITTEN.load(Acquire));
    entries.filter_map(|entry| entry.read(epoch)).find(|module| module.contains(address))
}

/// Keeps what was found in that epoch.
pub(super) fn keep(module: &LoadedModule, epoch: u32) {
    let place = WRITTEN.fetch_add(1, AcqRel);
    let Some(entry) = ENTRIES.get(place % CAPACITY) else { return };
    let version = entry.version.load(Acquire);
    let is_ours = version.is_multiple_of(2)
        && entry.version.compare_exchange(version, version.wrapping_add(1), AcqRel, Relaxed).is_ok();
    if !is_ours {
        return;
    }
    fence(Release);
    entry.epoch.store(epoch, Relaxed);
    for (to, from) in entry.words.iter().zip(module.words()) {
        to.store(from, Relaxed);
    }
    entry.version.store(version.wrapping_add(2), Release);
}

impl Entry {
    fn read(&self, epoch: u32) -> Option<LoadedModule> {
        let version = self.version.load(Acquire);
        // 0: it was never written.
        if version == 0 || !version.is_multiple_of(2) || self.epoch.load(Relaxed) != epoch {
            return None;
        }
        let mut words = [0; WORDS];
        for (to, from) in words.iter_mut().zip(&self.words) {
            *to = from.load(Relaxed);
        }
        fence(Acquire);
        (self.version.load(Relaxed) == version).then(|| LoadedModule::from_words(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(start: usize) -> LoadedModule {
        let mut words = [7; WORDS];
        [words[0], words[1]] = [start, start + 100];
        LoadedModule::from_words(words)
    }

    #[test]
    fn an_object_is_found_by_its_addresses_in_the_epoch_in_which_it_was_kept() {
        for number in 0..3 {
            keep(&module(0x1000 * (number + 1)), 5);
        }
        assert_eq!(find(0x2010, 5).map(|module| module.words()), Some(module(0x2000).words()));
        assert!(find(0x2010, 6).is_none() && find(0x1064, 5).is_none());
        // Others take their places in the end, and none is torn meanwhile.
        std::thread::scope(|scope| {
            for thread in 1..4 {
                scope.spawn(move || {
                    for number in 0..2000 {
                        let start = (thread << 32) + number * 0x1000;
                        keep(&module(start), 7);
                        if let Some(found) = find(start, 7) {
                            assert_eq!(found.words(), module(start).words());
                        }
                    }
                });
            }
        });
        assert!(find(0x2010, 5).is_none());
    }
}

//! Deaths of code objects, counted: the proof that the code object at an address is the one that was there.
//!
//! Up to 3.11 nothing in a code object tells it from its successor at the same address but all of its parts, and to look at
//! those takes six cache lines a frame. Whatever frees a code object calls the destructor in its type. That is ours: it counts,
//! notes when code of this address died, and goes on to the interpreter's. The code that was seen at an address is still there
//! unless code of that address has died since.
//!
//! Loads and stores may be relaxed: a thread finds other code at an address in a frame that was entered after the code was
//! made, which was after the death of the old one was noted, and all of that under the interpreter lock.
use super::interpreter::load;
use super::layout::TYPE_DESTRUCTOR;
use crate::tables::hash;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

type Destructor = unsafe extern "C" fn(*mut c_void);

/// A moment, by the number of deaths before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct DeathCount(u64);

impl DeathCount {
    /// Any moment while deaths are not counted.
    pub(super) const UNKNOWN: DeathCount = DeathCount(0);
    /// No moment at all.
    pub(super) const NEVER: DeathCount = DeathCount(u64::MAX);

    /// Whether code that was at `address` at this moment may have died since. Who asks has a frame that runs code there.
    #[inline]
    pub(super) fn may_precede_death_at(self, address: usize) -> bool {
        LEDGER.has_death_since(self, address)
    }
}

const PLACES: usize = 512;

struct Ledger {
    /// Deaths so far and one: no moment is 0.
    present: AtomicU64,
    /// `present` after the last death, by hash of the address.
    last_deaths: [AtomicU64; PLACES],
}

static LEDGER: Ledger = Ledger::new();

impl Ledger {
    const fn new() -> Ledger {
        Ledger { present: AtomicU64::new(1), last_deaths: [const { AtomicU64::new(0) }; PLACES] }
    }

    #[inline]
    fn now(&self) -> DeathCount {
        DeathCount(self.present.load(Ordering::Relaxed))
    }

    #[inline]
    fn note_death_at(&self, address: usize) {
        let now = self.present.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(last) = self.place_of(address) {
            last.store(now, Ordering::Relaxed);
        }
    }

    #[inline]
    fn has_death_since(&self, moment: DeathCount, address: usize) -> bool {
        let died = self.place_of(address).is_none_or(|last| last.load(Ordering::Relaxed) > moment.0);
        moment == DeathCount::UNKNOWN || died
    }

    #[inline]
    fn place_of(&self, address: usize) -> Option<&AtomicU64> {
        self.last_deaths.get((hash(address as u64) >> (u64::BITS - PLACES.ilog2())) as usize)
    }
}

/// The interpreter's own, once there is a watch.
static DESTRUCTOR: AtomicUsize = AtomicUsize::new(0);

/// The destructor of code objects that are watched.
///
/// # Safety
/// That of the interpreter's own.
unsafe extern "C" fn note_death(code: *mut c_void) {
    LEDGER.note_death_at(code as usize);
    // Who has this function from the type sees what was stored before it was put there.
    fence(Ordering::Acquire);
    let own = DESTRUCTOR.load(Ordering::Relaxed);
    // SAFETY: `DeathWatch::begin` took it from the type before it put this function there.
    unsafe { core::mem::transmute::<usize, Destructor>(own)(code) }
}

/// Whether the code objects of an interpreter are watched.
pub(super) struct DeathWatch {
    has_begun: AtomicBool,
    /// What the type has for its destructor as long as deaths are counted, 0 if they are not.
    destructor: AtomicUsize,
}

impl DeathWatch {
    pub(super) const fn new() -> DeathWatch {
        DeathWatch { has_begun: AtomicBool::new(false), destructor: AtomicUsize::new(0) }
    }

    /// Begins to count deaths, the first time.
    ///
    /// # Safety
    /// `code_type` must be the type of code objects of an interpreter that is initialised: no relocation touches it any more, and
    /// as types count their references it can be written to. This library must never be unloaded.
    #[cold]
    pub(super) unsafe fn begin(&self, code_type: usize) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: the caller's; the field is aligned, and who reads it meanwhile finds the one or the other.
        let destructor = unsafe { AtomicUsize::from_ptr((code_type + TYPE_DESTRUCTOR) as *mut usize) };
        let own = destructor.load(Ordering::Relaxed);
        if own != 0 {
            let ours = note_death as *const () as usize;
            DESTRUCTOR.store(own, Ordering::Relaxed);
            destructor.store(ours, Ordering::Release);
            self.destructor.store(ours, Ordering::Release);
        }
    }

    /// The present moment; unknown from the time on when another destructor was found in the type, which need not call ours.
    ///
    /// # Safety
    /// `code_type` must be as for [`DeathWatch::begin`].
    #[inline]
    pub(super) unsafe fn now(&self, code_type: usize) -> DeathCount {
        let ours = self.destructor.load(Ordering::Acquire);
        if ours == 0 {
            return DeathCount::UNKNOWN;
        }
        // SAFETY: the caller's.
        if unsafe { load::<usize>(code_type, TYPE_DESTRUCTOR) } != ours {
            self.destructor.store(0, Ordering::Relaxed);
            return DeathCount::UNKNOWN;
        }
        LEDGER.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_seen_at_its_address_by_all_who_were_there_before() {
        let ledger = Ledger::new();
        let addresses: Vec<usize> = (0..10_000).map(|number| 0x7f00_0000_0000 + number * 176).collect();
        let first = ledger.now();
        assert!(!addresses.iter().any(|address| ledger.has_death_since(first, *address)));
        for dead in &addresses[..100] {
            let before = ledger.now();
            ledger.note_death_at(*dead);
            let after = ledger.now();
            assert!(ledger.has_death_since(first, *dead) && ledger.has_death_since(before, *dead));
            assert!(!ledger.has_death_since(after, *dead));
            let others = addresses.iter().filter(|address| ledger.has_death_since(before, **address)).count();
            assert!(others < addresses.len() / 100, "{others}");
        }
        assert!(addresses[..100].iter().all(|address| ledger.has_death_since(first, *address)));
    }

    #[test]
    fn of_an_unknown_moment_nothing_is_known() {
        assert!(Ledger::new().has_death_since(DeathCount::UNKNOWN, 0x7f00_0000_0000));
    }
}

//! The lanes of a process by number: places that are made as they are needed and stay.
use crate::lane::Lane;
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use memscope_sys as sys;

/// Lanes that lie in the process's own memory. Most programs never have more threads at once.
const FIRST: usize = 512;
/// Each further piece doubles them all: 2^20 lanes, more than a kernel gives a process threads by default.
const PIECES: usize = 11;

/// In zeroed memory.
pub(crate) struct Lanes([UnsafeCell<Lane>; FIRST]);

/// The pieces behind the first, null until they are needed. A forked child keeps them: their memory is zeroed there, too.
static PIECE: [AtomicPtr<Lane>; PIECES] = [const { AtomicPtr::new(ptr::null_mut()) }; PIECES];

/// Where a lane lies: in which piece, counted from the first behind [`Lanes`], and where in it. Piece 0 begins with lane `FIRST` and has
/// as many, each further one has twice those of the piece before it.
fn place_of(number: usize) -> Option<(usize, usize)> {
    let piece = (number / FIRST).checked_ilog2()? as usize;
    Some((piece, number - (FIRST << piece)))
}

impl Lanes {
    /// The lane of that number; its owner says whether it is one.
    pub(crate) fn get(&self, number: u32) -> Option<NonNull<Lane>> {
        let Some((piece, at)) = place_of(number as usize) else {
            return NonNull::new(self.0.get(number as usize)?.get());
        };
        let lanes = NonNull::new(PIECE.get(piece)?.load(Acquire))?;
        // SAFETY: the piece has more lanes than that, and stays mapped.
        Some(unsafe { lanes.add(at) })
    }

    /// The same for a number that nobody has had: the place is made if there is none. `None` if it cannot be.
    pub(crate) fn make(&self, number: u32) -> Option<NonNull<Lane>> {
        self.get(number).or_else(|| {
            let (piece, at) = place_of(number as usize)?;
            let lanes = map_piece(PIECE.get(piece)?, FIRST << piece)?;
            // SAFETY: as above.
            Some(unsafe { lanes.add(at) })
        })
    }

    /// The number of a lane, which is one of the first `count`.
    pub(crate) fn number_of(&self, lane: *const Lane, count: u32) -> Option<u32> {
        (0..count).find(|number| self.get(*number).is_some_and(|place| ptr::eq(place.as_ptr(), lane)))
    }
}

/// Maps a piece, unless somebody else was faster.
#[cold]
fn map_piece(piece: &AtomicPtr<Lane>, lanes: usize) -> Option<NonNull<Lane>> {
    let bytes = (lanes * size_of::<Lane>()).next_multiple_of(4096);
    if !sys::has_room_for(bytes) {
        return None;
    }
    let fresh = sys::map_anonymous(bytes).ok()?;
    // Without this a child would write into its parent's windows.
    let wiped = sys::wipe_on_fork(fresh, bytes);
    let kept = match wiped {
        Ok(()) => piece.compare_exchange(ptr::null_mut(), fresh.as_ptr().cast(), AcqRel, Acquire),
        Err(_) => Err(ptr::null_mut()),
    };
    match kept {
        Ok(_) => Some(fresh.cast()),
        Err(others) => {
            // SAFETY: nobody has seen the mapping.
            unsafe { sys::unmap(fresh, bytes) };
            NonNull::new(others)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own_and_the_pieces_have_no_gap() {
        assert_eq!((place_of(0), place_of(FIRST - 1)), (None, None));
        let mut expected = (0, 0);
        for number in FIRST..8 * FIRST {
            let place = place_of(number).unwrap();
            assert_eq!(place, expected, "{number}");
            expected = if place.1 + 1 == FIRST << place.0 { (place.0 + 1, 0) } else { (place.0, place.1 + 1) };
        }
        let last = (FIRST << PIECES) - 1;
        assert_eq!(place_of(last), Some((PIECES - 1, (FIRST << (PIECES - 1)) - 1)));
        assert_eq!(place_of(last + 1).map(|(piece, _)| piece), Some(PIECES));
    }

    #[test]
    fn a_lane_is_found_again_by_number_and_by_place() {
        // SAFETY: zeroed lanes are lanes without an owner.
        let lanes: Box<Lanes> = unsafe { Box::new_zeroed().assume_init() };
        let count = FIRST as u32 * 3;
        assert!(lanes.get(count - 1).is_none());
        for number in [0, FIRST as u32 - 1, FIRST as u32, count - 1] {
            let lane = lanes.make(number).unwrap();
            assert_eq!(lanes.get(number), Some(lane));
            assert_eq!(lanes.make(number), Some(lane));
            assert_eq!(lanes.number_of(lane.as_ptr(), count), Some(number));
        }
        assert!(lanes.make((FIRST << PIECES) as u32).is_none());
    }
}

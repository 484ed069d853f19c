//! Which frame comes below which: a function calls the same few others, so the frame of a new node is mostly one that
//! was seen below the same parent's frame before.
//!
//! Encoder and decoder keep the same memory, from the beginning of a generation on, and a frame that is in it costs the
//! node's one byte instead of six.
use core::mem::size_of;

/// Frames remembered below one: the usual one and the one before it.
const WAYS: usize = 2;
const SETS: usize = 256;

/// Zeroed memory remembers nothing.
#[derive(Clone, Debug)]
#[repr(transparent)]
pub(crate) struct Followers([[Packed; WAYS]; SETS]);

/// A C frame in one word; 0 is none. Module 0 counts as 1, so that no frame is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
struct Packed(u64);

const OFFSET_BITS: u32 = 40;

impl Packed {
    /// `None` for a frame that does not fit, of which there are none but in a damaged file.
    #[inline]
    fn new(module: u32, offset: u64) -> Option<Packed> {
        let fits = offset >> OFFSET_BITS == 0 && module < (1 << (64 - OFFSET_BITS)) - 1;
        fits.then(|| Packed(u64::from(module + 1) << OFFSET_BITS | offset))
    }

    #[cfg(any(test, feature = "decode"))]
    fn unpack(self) -> Option<(u32, u64)> {
        let module = ((self.0 >> OFFSET_BITS) as u32).checked_sub(1)?;
        Some((module, self.0 & ((1 << OFFSET_BITS) - 1)))
    }
}

impl Followers {
    pub(crate) const fn new() -> Followers {
        Followers([[Packed(0); WAYS]; SETS])
    }

    /// Back to where a generation begins.
    pub(crate) fn forget(&mut self) {
        for set in &mut self.0 {
            *set = [Packed(0); WAYS];
        }
    }

    /// Notes that frame `next` came below `above`; tells at which place it was known.
    #[inline]
    pub(crate) fn note(&mut self, above: (u32, u64), next: (u32, u64)) -> Option<u8> {
        let packed = Packed::new(next.0, next.1)?;
        let set = self.set(above)?;
        let [first, second] = *set;
        if first == packed {
            return Some(0);
        }
        *set = [packed, first];
        (second == packed).then_some(1)
    }

    /// The frame at a place [`Followers::note`] told; the frame is then noted too.
    #[cfg(any(test, feature = "decode"))]
    pub(crate) fn follow(&mut self, above: (u32, u64), place: u8) -> Option<(u32, u64)> {
        let frame = self.set(above)?.get(usize::from(place))?.unpack()?;
        self.note(above, frame);
        Some(frame)
    }

    #[inline]
    fn set(&mut self, (module, offset): (u32, u64)) -> Option<&mut [Packed; WAYS]> {
        let mixed = (offset ^ u64::from(module) << OFFSET_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0.get_mut((mixed >> 56) as usize)
    }
}

// One byte of the hash is the set.
const _: () = assert!(SETS == 256 && size_of::<Followers>() == SETS * WAYS * 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_newest_followers_are_known_and_what_is_forgotten_is_not() {
        let mut followers = Followers::new();
        let (above, a, b, c) = ((1, 100), (0, 0), (2, 7), (3, (1 << 40) - 1));
        assert_eq!([a, b, a, a, c].map(|frame| followers.note(above, frame)), [None, None, Some(1), Some(0), None]);
        assert_eq!(followers.follow(above, 1), Some(a));
        assert_eq!(followers.follow(above, 1), Some(c));
        assert_eq!(followers.follow((9, 9), 0), None);
        followers.forget();
        assert_eq!(followers.note(above, a), None);
    }

    #[test]
    fn frames_that_do_not_fit_are_never_known() {
        let mut followers = Followers::new();
        for frame in [(0, 1 << 40), (u32::MAX, 3), ((1 << 24) - 1, 3)] {
            assert_eq!([followers.note((0, 0), frame), followers.note((0, 0), frame)], [None, None]);
        }
    }
}

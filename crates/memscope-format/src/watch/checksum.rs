//! The checksum that watched blocks have always had: 64 bits, table driven, shifting to the right, with the constant of ECMA-182 as it
//! is and not mirrored. So it is none of the known CRC-64.
//!
//! Sixteen bytes a round, one table for each: no load waits for the one before it, which makes it several times as fast as
//! byte by byte.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

const POLYNOMIAL: u64 = 0x42F0_E1EB_A9EA_3693;
const SLICES: usize = 16;

type Tables = [[u64; 256]; SLICES];

/// `tables[k][b]` is what byte `b` comes to when `k` more bytes follow it. Made when they are first needed: most programs watch nothing, and the
/// recording library is to stay small.
struct Once {
    state: AtomicU8,
    tables: UnsafeCell<Tables>,
}

const NEW: u8 = 0;
const MAKING: u8 = 1;
const MADE: u8 = 2;

// SAFETY: written by the one thread that turned the state from `NEW`, and read by others only once it is `MADE`.
unsafe impl Sync for Once {}

static ONCE: Once = Once { state: AtomicU8::new(NEW), tables: UnsafeCell::new([[0; 256]; SLICES]) };

/// `None` while another thread makes them: nobody waits for it.
#[inline]
fn tables() -> Option<&'static Tables> {
    if ONCE.state.load(Acquire) != MADE && !make_tables() {
        return None;
    }
    // SAFETY: nobody writes them any more.
    Some(unsafe { &*ONCE.tables.get() })
}

#[cold]
#[inline(never)]
fn make_tables() -> bool {
    if ONCE.state.compare_exchange(NEW, MAKING, AcqRel, Acquire).is_err() {
        return ONCE.state.load(Acquire) == MADE;
    }
    // SAFETY: the exchange made them ours alone.
    let tables = unsafe { &mut *ONCE.tables.get() };
    for (byte, _) in (0u64..).zip([(); 256]) {
        let mut state = byte;
        for table in tables.iter_mut() {
            state = eight_steps(state);
            if let Some(place) = table.get_mut(byte as usize) {
                *place = state;
            }
        }
    }
    ONCE.state.store(MADE, Release);
    true
}

/// A byte's worth, without a table.
fn eight_steps(state: u64) -> u64 {
    (0..8).fold(state, |state, _| if state & 1 == 1 { (state >> 1) ^ POLYNOMIAL } else { state >> 1 })
}

/// Of bytes that come piece by piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    state: u64,
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum::new()
    }
}

impl Checksum {
    pub const fn new() -> Checksum {
        Checksum { state: u64::MAX }
    }

    pub fn of(bytes: &[u8]) -> u64 {
        let mut checksum = Checksum::new();
        checksum.update(bytes);
        checksum.value()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        let Some([t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15]) = tables() else {
            self.state = bytes.iter().fold(self.state, |state, byte| eight_steps(state ^ u64::from(*byte)));
            return;
        };
        /// Byte `number` of a word, as a place in a table: always within.
        #[inline(always)]
        fn look(table: &[u64; 256], word: u64, number: u32) -> u64 {
            let place = (word >> (8 * number)) as u8;
            // SAFETY: the table has a place for every byte.
            unsafe { *table.get_unchecked(place as usize) }
        }
        let mut state = self.state;
        let (rounds, rest) = bytes.as_chunks::<SLICES>();
        for round in rounds {
            let (Some(low), Some(high)) = (round.first_chunk::<8>(), round.last_chunk::<8>()) else { continue };
            let (low, high) = (state ^ u64::from_le_bytes(*low), u64::from_le_bytes(*high));
            let of_low = [t15, t14, t13, t12, t11, t10, t9, t8];
            let of_high = [t7, t6, t5, t4, t3, t2, t1, t0];
            state = 0;
            for (number, (low_table, high_table)) in (0..).zip(of_low.into_iter().zip(of_high)) {
                state ^= look(low_table, low, number) ^ look(high_table, high, number);
            }
        }
        for byte in rest {
            state = look(t0, state ^ u64::from(*byte), 0) ^ (state >> 8);
        }
        self.state = state;
    }

    pub fn value(self) -> u64 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit_by_bit(bytes: &[u8]) -> u64 {
        !bytes.iter().fold(u64::MAX, |state, byte| eight_steps(state ^ u64::from(*byte)))
    }

    #[test]
    fn vectors_are_those_of_the_existing_tool() {
        let ones: Vec<u8> = std::iter::repeat_n(1.0f32.to_le_bytes(), 4).flatten().collect();
        let vectors: [(&[u8], &str); 4] = [
            (b"123456789", "b86883e6fa710a9f"),
            (b"", "0000000000000000"),
            (&[0; 16], "f1a9d99093e793c0"),
            (&ones, "f9ce89fa031f989f"),
        ];
        for (bytes, expected) in vectors {
            assert_eq!(format!("{:016x}", Checksum::of(bytes)), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_have_the_checksum_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in any::<prop::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut pieces = Checksum::new();
            pieces.update(first);
            pieces.update(second);
            prop_assert_eq!(pieces.value(), bit_by_bit(&bytes));
            prop_assert_eq!(Checksum::of(&bytes), bit_by_bit(&bytes));
        }
    }
}

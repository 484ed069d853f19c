//! Reading what another thread may take away.
use crate::{Errno, is_readable, knows_what_is_readable, read_own_memory};
use core::mem::MaybeUninit;

const PAGE: usize = 4096;

/// How the loader's structures are read.
pub(super) struct Memory {
    /// Nothing of it can go away: it is read in place.
    trusting: bool,
    /// What was read does not fit together: it is being changed.
    doubted: bool,
}

impl Memory {
    pub(super) const fn trusting() -> Memory {
        Memory { trusting: true, doubted: false }
    }

    /// The kernel copies everything: an address that is nobody's any more is an answer and not a fault. To ask first whether
    /// it can be read would not do, for another thread may get its turn between the two.
    pub(super) const fn careful() -> Memory {
        Memory { trusting: false, doubted: false }
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    pub(super) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// The `T` at `address`: an integer, or an array of them.
    pub(super) fn read<T: Copy>(&mut self, address: usize) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the place is as large as what is copied, and every pattern of bits is an integer.
        unsafe {
            self.copy(address, value.as_mut_ptr().cast(), size_of::<T>())?;
            Some(value.assume_init())
        }
    }

    /// # Safety
    /// `place` has room for `length` bytes.
    unsafe fn copy(&self, address: usize, place: *mut u8, length: usize) -> Option<()> {
        let end = address.checked_add(length)?;
        if address < PAGE {
            return None;
        }
        if !self.trusting {
            // SAFETY: the caller's.
            match unsafe { read_own_memory(address, place, length) } {
                Ok(copied) => return (copied == length).then_some(()),
                Err(Errno::EFAULT) => return None,
                // A kernel or a sandbox without the call. Now it is better to ask first than not to ask at all.
                Err(_) if is_readable(address) && is_readable((end - 1) & !(PAGE - 1)) => {}
                // Nobody may be asked. What the loader lists is there, but for the moment in which it is unloaded; to find nothing
                // would make the program's own call fail.
                Err(Errno::SANDBOX) if !knows_what_is_readable() => {}
                Err(_) => return None,
            }
        }
        // SAFETY: it can be read, and the caller has the room for it.
        unsafe { (address as *const u8).copy_to_nonoverlapping(place, length) };
        Some(())
    }

    /// Whether the C string at `address` is `text`.
    pub(super) fn is_text(&mut self, address: usize, text: &[u8]) -> bool {
        let mut at = address;
        let mut rest = text;
        loop {
            let (piece, length) = self.piece(at);
            let piece = piece.get(..length).unwrap_or_default();
            if let Some(same) = piece.get(..=rest.len()) {
                return same.split_last() == Some((&0, rest));
            }
            match rest.strip_prefix(piece) {
                Some(later) if !piece.is_empty() => rest = later,
                _ => return false,
            }
            at = at.wrapping_add(length);
        }
    }

    /// Where the last component of the path at `address` begins.
    pub(super) fn file_name(&mut self, address: usize) -> Option<usize> {
        const LONGEST: usize = 4096;
        let (mut at, mut name) = (address, address);
        while at - address < LONGEST {
            let (piece, length) = self.piece(at);
            if length == 0 {
                return None;
            }
            for byte in piece.get(..length)? {
                at += 1;
                match byte {
                    0 => return Some(name),
                    b'/' => name = at,
                    _ => {}
                }
            }
        }
        None
    }

    /// Some bytes of a text: no more than are on the page, where the text may end.
    fn piece(&mut self, address: usize) -> ([u8; PIECE], usize) {
        let mut piece = [0; PIECE];
        let length = (PAGE - address % PAGE).min(PIECE);
        // SAFETY: the piece is not smaller than that.
        let copied = unsafe { self.copy(address, piece.as_mut_ptr(), length) };
        (piece, if copied.is_some() { length } else { 0 })
    }
}

const PIECE: usize = 64;

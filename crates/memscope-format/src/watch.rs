//! Watched blocks: the words of their records, the checksum of their bytes, and the pieces of `watch.spool`, where bytes are kept.
mod checksum;
#[cfg(any(test, feature = "decode"))]
mod contents;

pub use checksum::Checksum;
#[cfg(any(test, feature = "decode"))]
pub use contents::Contents;

use crate::choices::choices;
use crate::layout::WINDOW_HEADER_SIZE;

/// Beside the spool's other files; it is made when bytes are kept for the first time.
pub const CONTENTS_FILE: &str = "watch.spool";

/// Bits of a watch.
pub mod watch_flags {
    /// Bytes are kept, not only their checksum.
    pub const FULL_CONTENT: u8 = 1;
    /// Every launch waits for its end: `ASCEND_LAUNCH_BLOCKING=1`.
    pub const BLOCKING: u8 = 2;
    /// All outputs are watched because the operator has none of the number that was asked for.
    pub const NO_SUCH_OUTPUT: u8 = 4;
}

choices! {
    /// Who chose the block.
    WatchOrigin {
        /// It is an output of the start operator.
        StartOperator = 0,
        /// The program, by a call.
        Program = 1,
    }
    /// Whose beginning and end the block is looked at.
    WatchSource {
        AtbOperator = 0,
        AtbKernel = 1,
        Aten = 2,
        /// A kernel as the runtime launches it.
        Kernel = 3,
    }
    /// What an operator may do with a block. In order: of several the last counts.
    GivenFor {
        /// It was not given the block.
        Nothing = 0,
        Reading = 1,
        /// It was given the block, and does not say what for.
        Unknown = 2,
        Writing = 3,
    }
    /// Why a block is no longer watched.
    WatchEnding {
        EndOperator = 0,
        Removed = 1,
        /// It was looked at as often as was asked for.
        LooksUsedUp = 2,
        Freed = 3,
        Resized = 4,
        Unreadable = 5,
    }
    /// What could not be done as it was asked for.
    WatchTrouble {
        /// There are as many watched blocks as there can be.
        TooManyBlocks = 0,
        /// Bytes are not kept any more, only checksums: as many as `--watch-max-bytes` allows were, which is the value.
        Budget = 1,
        /// The same because the disk is full or about to be; the value is the error number.
        DiskFull = 2,
        /// The same because the file cannot be made; the value is the error number.
        NoFile = 3,
        /// The start operator has no output to watch.
        NoOutputs = 4,
        /// A graph was being captured at an end of an operator: nothing was looked at; the value is how many blocks were not.
        Captured = 5,
    }
}

/// The header of a piece of a content, in front of its bytes:
///
/// ```text
///  0 u32 magic    4 u32 watch    8 u64 content   16 u64 offset of the piece in the content
/// 24 u64 length of the piece    32 u64 length of the content   40 16 zeroes   56 u64 checksum, as of a spool block
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceHeader {
    pub watch: u32,
    /// Contents are numbered from 1 in the order in which they are begun.
    pub content: u64,
    pub offset: u64,
    pub length: u64,
    pub total: u64,
}

pub const PIECE_MAGIC: u32 = u32::from_le_bytes(*b"msmb");
/// Longer ones are none.
pub const LONGEST_PIECE: usize = 1 << 20;

impl PieceHeader {
    pub const SIZE: usize = WINDOW_HEADER_SIZE;

    /// Without its checksum; [`crate::layout::seal`] adds it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let words =
            [u64::from(PIECE_MAGIC) | u64::from(self.watch) << 32, self.content, self.offset, self.length, self.total];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[cfg(any(test, feature = "decode"))]
    fn decode(bytes: &[u8; Self::SIZE]) -> Option<PieceHeader> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let first = word(0)?;
        let header = PieceHeader {
            watch: (first >> 32) as u32,
            content: word(8)?,
            offset: word(16)?,
            length: word(24)?,
            total: word(32)?,
        };
        let fits = header.offset.checked_add(header.length).is_some_and(|end| end <= header.total);
        let is_piece = first as u32 == PIECE_MAGIC && header.length <= LONGEST_PIECE as u64;
        (is_piece && fits && header.content != 0).then_some(header)
    }
}

//! Unwind rows, one word each: what `.eh_frame` says for one address, reduced to what stack walking needs. That is where the
//! canonical frame address is, and where the caller's frame pointer was saved.

/// How to find the canonical frame address (the stack pointer before the call that made this frame).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cfa {
    Sp {
        offset: i32,
    },
    Fp {
        offset: i32,
    },
    /// What lies at stack pointer + `offset`, plus `add`.
    AtSp {
        offset: i32,
        add: u8,
    },
    /// What lies at frame pointer + `offset`, plus `add`: gcc's realigned frames.
    AtFp {
        offset: i32,
        add: u8,
    },
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SavedFp {
    /// Still in the register.
    Same,
    AtCfa(i32),
    AtFp(i32),
    AtSp(i32),
}

/// ```text
///  63            32 31           5 4   3 2     1     0
/// ┌────────────────┬──────────────┬─────┬───┬─────┬────┐
/// │ CFA offset     │ fp offset    │ fp  │ 1 │deref│base│   a row that can be stepped over; base: 0 sp, 1 fp;
/// └────────────────┴──────────────┴─────┴───┴─────┴────┘   with deref the offset is 24 bits and 8 bits of `add`
///   0 in all other bits                   0   kind         kind: 0 unknown, 1 end of stack, 2 signal frame
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Row(u64);

const FP_BASED: u64 = 1;
const DEREF: u64 = 1 << 1;
const STEPPABLE: u64 = 1 << 2;
const SAVED_SHIFT: u32 = 3;
const SAVED_MASK: u64 = 3;

impl Row {
    /// Nothing usable is known about the address: the walk ends there.
    pub(super) const UNKNOWN: Row = Row(0);
    /// The outermost frame of a thread.
    pub(super) const END: Row = Row(1);
    /// The kernel's signal trampoline: the interrupted registers lie on the stack.
    pub(super) const SIGNAL: Row = Row(2);

    /// `UNKNOWN` where an offset does not fit.
    pub(super) fn new(cfa: Cfa, saved: SavedFp) -> Row {
        let (kind, offset) = match cfa {
            Cfa::Sp { offset } => (0, Some(offset)),
            Cfa::Fp { offset } => (FP_BASED, Some(offset)),
            Cfa::AtSp { offset, add } => (DEREF, with_add(offset, add)),
            Cfa::AtFp { offset, add } => (DEREF | FP_BASED, with_add(offset, add)),
        };
        let (saved_kind, saved_offset) = match saved {
            SavedFp::Same => (0, 0),
            SavedFp::AtCfa(offset) => (1, offset),
            SavedFp::AtFp(offset) => (2, offset),
            SavedFp::AtSp(offset) => (3, offset),
        };
        let Some(offset) = offset else { return Row::UNKNOWN };
        if saved_offset.abs() >= 1 << 26 {
            return Row::UNKNOWN;
        }
        let low = (saved_offset as u32) << 5 | saved_kind << SAVED_SHIFT;
        Row(u64::from(offset as u32) << 32 | u64::from(low) | STEPPABLE | kind)
    }

    /// As it is kept.
    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn from_word(word: u64) -> Row {
        Row(word)
    }

    #[inline]
    pub(super) fn is_steppable(self) -> bool {
        self.0 & STEPPABLE != 0
    }

    #[inline]
    pub(super) fn is_fp_based(self) -> bool {
        self.0 & FP_BASED != 0
    }

    #[inline]
    pub(super) fn is_deref(self) -> bool {
        self.0 & DEREF != 0
    }

    /// Offset from the base register to the CFA; of a row without deref.
    #[inline]
    pub(super) fn cfa_offset(self) -> isize {
        (self.0 as i64 >> 32) as isize
    }

    /// Offset from the base register to the word that holds the CFA, and what to add to it; of a row with deref.
    pub(super) fn cfa_word(self) -> (isize, usize) {
        let field = self.cfa_offset();
        (field >> 8, field as u8 as usize)
    }

    /// The caller's frame pointer is still in the register.
    #[inline]
    pub(super) fn keeps_fp(self) -> bool {
        self.0 & (SAVED_MASK << SAVED_SHIFT) == 0
    }

    /// The next frame follows from the stack pointer alone: no frame pointer, no word in memory.
    #[inline]
    pub(super) fn needs_sp_only(self) -> bool {
        self.0 & (FP_BASED | DEREF | 2 << SAVED_SHIFT) == 0
    }

    /// What is added to the base of the saved frame pointer's address.
    #[inline]
    pub(super) fn saved_offset(self) -> isize {
        (self.0 as i32 >> 5) as isize
    }

    /// What nearly all rows are: steppable, CFA relative to a register, frame pointer kept or saved relative to the CFA.
    #[inline]
    pub(super) fn is_simple(self) -> bool {
        self.0 & (STEPPABLE | DEREF | 2 << SAVED_SHIFT) == STEPPABLE
    }

    #[inline]
    pub(super) fn saved_fp(self) -> SavedFp {
        let offset = self.saved_offset() as i32;
        match self.0 >> SAVED_SHIFT & SAVED_MASK {
            0 => SavedFp::Same,
            1 => SavedFp::AtCfa(offset),
            2 => SavedFp::AtFp(offset),
            _ => SavedFp::AtSp(offset),
        }
    }
}

fn with_add(offset: i32, add: u8) -> Option<i32> {
    (offset.abs() < 1 << 23).then_some(offset << 8 | i32::from(add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_what_they_were_made_of() {
        let saved = [SavedFp::Same, SavedFp::AtCfa(-16), SavedFp::AtFp(0), SavedFp::AtSp(1 << 20)];
        for saved in saved {
            for offset in [8, -8, 1 << 24, i32::MAX] {
                let row = Row::new(Cfa::Sp { offset }, saved);
                assert!(row.is_steppable() && !row.is_fp_based() && !row.is_deref());
                assert_eq!((row.cfa_offset(), row.saved_fp()), (offset as isize, saved));
                assert!(Row::new(Cfa::Fp { offset }, saved).is_fp_based());
            }
            for (offset, add) in [(-8, 0), (-4096, 16), (1 << 22, 255)] {
                let row = Row::new(Cfa::AtFp { offset, add }, saved);
                assert!(row.is_steppable() && row.is_fp_based() && row.is_deref());
                assert_eq!(row.cfa_word(), (offset as isize, usize::from(add)));
                assert_eq!(row.saved_fp(), saved);
            }
        }
        for row in [Row::UNKNOWN, Row::END, Row::SIGNAL] {
            assert!(!row.is_steppable());
        }
    }

    #[test]
    fn offsets_that_do_not_fit_give_no_row() {
        assert!(Row::new(Cfa::AtFp { offset: 1 << 23, add: 0 }, SavedFp::Same) == Row::UNKNOWN);
        assert!(Row::new(Cfa::Sp { offset: 8 }, SavedFp::AtCfa(-(1 << 26))) == Row::UNKNOWN);
    }
}

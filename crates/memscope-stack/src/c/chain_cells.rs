//! What a chain is made of, as it lies in memory: 16 bytes a piece, whose meaning depends on where in the chain it is.
use super::last_stack::{Word, WordKind};
use crate::NodeId;

/// Cells of all chains together; the oldest chains give way.
pub(super) const CAPACITY: usize = 1 << 16;
/// Frames of a chain at most, its joint among them.
pub(super) const MOST_FRAMES: usize = 64;
/// Frames further out than a joint, at most.
pub(super) const MOST_OUTER_FRAMES: usize = 1 << (u32::BITS - JOINT_SHIFT);

/// A piece of a chain, to be read and written through the view that its position in the chain calls for:
///
/// ```text
///                   low            high          value
///                 ┌──────────────┬─────────────┬───────────────────────────┐
///  Head           │ next chain   │ lengths     │ slot of innermost frame   │
///  SecondHead     │ other chain  │             │ frame pointer of that     │
///  ThirdHead      │              │             │ frame pointer of joint    │
///                 ├──────────────┼─────────────┼───────────────────────────┤
///  Link, …        │ offset, kind │ node        │ contents of the word      │   the joint, then inwards
///                 ├──────────────┼─────────────┼───────────────────────────┤
///  FrameFp, …     │              │ which frame │ its frame pointer         │
///                 └──────────────┴─────────────┴───────────────────────────┘
/// ```
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Cell {
    low: u32,
    high: u32,
    value: usize,
}

impl Cell {
    pub(super) const EMPTY: Cell = Cell { low: 0, high: 0, value: 0 };
}

/// The first cell of a chain.
pub(super) struct Head {
    /// The chain that came after it last time.
    pub(super) next: Position,
    pub(super) lengths: Lengths,
    /// Of its innermost frame.
    pub(super) slot: usize,
}

impl Head {
    #[inline(always)]
    pub(super) fn of(cell: &Cell) -> Head {
        Head { next: Position(cell.low), lengths: Lengths(cell.high), slot: cell.value }
    }

    #[inline(always)]
    pub(super) fn cell(self) -> Cell {
        Cell { low: self.next.0, high: self.lengths.0, value: self.slot }
    }
}

/// The second one.
pub(super) struct SecondHead {
    /// The chain that came after it before `Head::next` did.
    pub(super) other: Position,
    pub(super) innermost_fp: usize,
}

impl SecondHead {
    #[inline(always)]
    pub(super) fn of(cell: &Cell) -> SecondHead {
        SecondHead { other: Position(cell.low), innermost_fp: cell.value }
    }

    #[inline(always)]
    pub(super) fn cell(self) -> Cell {
        Cell { low: self.other.0, high: 0, value: self.innermost_fp }
    }
}

/// The third one.
pub(super) struct ThirdHead {
    pub(super) joint_fp: usize,
}

impl ThirdHead {
    #[inline(always)]
    pub(super) fn of(cell: &Cell) -> ThirdHead {
        ThirdHead { joint_fp: cell.value }
    }

    #[inline(always)]
    pub(super) fn cell(self) -> Cell {
        Cell { value: self.joint_fp, ..Cell::EMPTY }
    }
}

/// A word to be compared: where a frame returns to, or what else must be unchanged.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) offset_and_kind: OffsetAndKind,
    /// Of a frame.
    pub(super) node: NodeId,
    pub(super) value: usize,
}

impl Link {
    #[inline(always)]
    pub(super) fn of(cell: &Cell) -> Link {
        Link { offset_and_kind: OffsetAndKind(cell.low), node: NodeId(cell.high), value: cell.value }
    }

    #[inline(always)]
    pub(super) fn cell(self) -> Cell {
        Cell { low: self.offset_and_kind.0, high: self.node.0, value: self.value }
    }

    #[inline(always)]
    pub(super) fn kind(&self) -> WordKind {
        self.offset_and_kind.kind()
    }

    /// In a chain whose innermost frame is at `slot`.
    #[inline(always)]
    pub(super) fn word(&self, slot: usize) -> Word {
        Word { address: slot + self.offset_and_kind.offset(), value: self.value }
    }
}

/// The frame pointer of a frame that needs it.
pub(super) struct FrameFp {
    /// How many frames further in than the joint.
    pub(super) frame: usize,
    pub(super) fp: usize,
}

impl FrameFp {
    #[inline(always)]
    pub(super) fn of(cell: &Cell) -> FrameFp {
        FrameFp { frame: cell.high as usize, fp: cell.value }
    }

    #[inline(always)]
    pub(super) fn cell(self) -> Cell {
        Cell { low: 0, high: self.frame as u32, value: self.fp }
    }
}

/// Bytes from the slot of the innermost frame; the low bits, which a multiple of 8 leaves free, are the kind of word.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct OffsetAndKind(u32);

impl OffsetAndKind {
    const KIND: u32 = 7;

    /// `None` if the offset is not a multiple of 8 or too large.
    pub(super) fn new(offset: usize, kind: WordKind) -> Option<OffsetAndKind> {
        let offset = u32::try_from(offset).ok().filter(|offset| offset & Self::KIND == 0)?;
        Some(OffsetAndKind(offset | kind.bits()))
    }

    #[inline(always)]
    pub(super) fn offset(self) -> usize {
        (self.0 & !Self::KIND) as usize
    }

    #[inline(always)]
    pub(super) fn kind(self) -> WordKind {
        WordKind::from_bits(self.0 & Self::KIND)
    }
}

/// How much of what a chain has.
///
/// ```text
///  31     22 21   15 14     7 6      0
/// ┌─────────┬───────┬────────┬────────┐
/// │  joint  │  fps  │ checks │ frames │   frames: with the joint; joint: how many frames there are further out
/// └─────────┴───────┴────────┴────────┘
/// ```
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Lengths(u32);

const CHECKS_SHIFT: u32 = 7;
const FPS_SHIFT: u32 = 15;
const JOINT_SHIFT: u32 = 22;
/// Bits of a number of frames.
const FRAMES_MASK: u32 = 0x7f;
const CHECKS_MASK: u32 = 0xff;

impl Lengths {
    pub(super) fn new(frames: usize, checks: usize, fps: usize, joint: usize) -> Lengths {
        const { assert!(MOST_FRAMES <= FRAMES_MASK as usize && 2 * MOST_FRAMES <= CHECKS_MASK as usize) };
        Lengths((joint << JOINT_SHIFT | fps << FPS_SHIFT | checks << CHECKS_SHIFT | frames) as u32)
    }

    #[inline(always)]
    pub(super) fn frames(self) -> usize {
        (self.0 & FRAMES_MASK) as usize
    }

    #[inline(always)]
    pub(super) fn links(self) -> usize {
        self.frames() + (self.0 >> CHECKS_SHIFT & CHECKS_MASK) as usize
    }

    #[inline(always)]
    pub(super) fn fps(self) -> usize {
        (self.0 >> FPS_SHIFT & FRAMES_MASK) as usize
    }

    #[inline(always)]
    pub(super) fn joint(self) -> usize {
        (self.0 >> JOINT_SHIFT) as usize
    }
}

/// Where in the ring a chain is, and when it was written: one more than the number of cells before its first. Never given
/// twice, up to where positions begin anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub(super) struct Position(u32);

impl Position {
    pub(super) const NONE: Position = Position(0);

    /// Of a chain that is written behind so many cells.
    pub(super) fn behind(cells: u32) -> Position {
        Position(cells + 1)
    }

    /// The last one a chain among the first so many cells can have.
    pub(super) fn last_of(cells: u32) -> Position {
        Position(cells)
    }

    /// Which cell is its first.
    #[inline(always)]
    pub(super) fn head(self) -> usize {
        self.0.wrapping_sub(1) as usize % CAPACITY
    }

    /// Which cell is its second; a chain does not go round the end of the ring.
    #[inline(always)]
    pub(super) fn second(self) -> usize {
        self.0 as usize % CAPACITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_read_what_they_wrote() {
        let lengths = Lengths::new(MOST_FRAMES, 2 * MOST_FRAMES, MOST_FRAMES, MOST_OUTER_FRAMES - 1);
        let head = Head::of(&Head { next: Position(u32::MAX), lengths, slot: usize::MAX - 7 }.cell());
        assert_eq!((head.next, head.slot), (Position(u32::MAX), usize::MAX - 7));
        let Head { lengths, .. } = head;
        assert_eq!((lengths.frames(), lengths.links(), lengths.fps()), (MOST_FRAMES, 3 * MOST_FRAMES, MOST_FRAMES));
        assert_eq!(lengths.joint(), MOST_OUTER_FRAMES - 1);
        let second = SecondHead::of(&SecondHead { other: Position(5), innermost_fp: usize::MAX }.cell());
        assert_eq!((second.other, second.innermost_fp), (Position(5), usize::MAX));
        assert_eq!(ThirdHead::of(&ThirdHead { joint_fp: 9 }.cell()).joint_fp, 9);
        let fp = FrameFp::of(&FrameFp { frame: MOST_FRAMES - 1, fp: 11 }.cell());
        assert_eq!((fp.frame, fp.fp), (MOST_FRAMES - 1, 11));
        for kind in [WordKind::FRAME, WordKind::of_frame(true), WordKind::CHECK] {
            let offset_and_kind = OffsetAndKind::new(u32::MAX as usize - 7, kind).unwrap();
            let link = Link::of(&Link { offset_and_kind, node: NodeId(u32::MAX), value: 13 }.cell());
            let Word { address, value } = link.word(16);
            assert_eq!((address, value, link.node), (u32::MAX as usize + 9, 13, NodeId(u32::MAX)));
            assert!(link.kind() == kind);
        }
    }

    #[test]
    fn words_too_far_out_or_between_two_are_in_no_chain() {
        for offset in [4, 1 << 32, usize::MAX] {
            assert!(OffsetAndKind::new(offset, WordKind::FRAME).is_none());
        }
    }
}

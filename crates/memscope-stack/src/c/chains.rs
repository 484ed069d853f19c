//! Runs of frames that came before: what a program puts again and again on top of the frames it stays in.
//!
//! A program's loop allocates from the same places, with frames entered and left in between: too different from the
//! last stack to be compared with that, but the same as some time ago. So the frames unwound for a stack, and the one
//! they were put on (the joint), are kept as a chain. When they come again the chain is compared with the stack instead of
//! unwinding it. The two chains that came after the last one are tried first, and the newer of them is also fetched into the
//! cache early: the program has used that for itself in between. If it is neither, a few frames are unwound and looked up.
//! Chains with the same innermost frames are told apart by where the stack first differs from one of them, and how: that
//! is looked up in turn.
//!
//! It is sound for the reason that the last stack may be compared (see `last_stack`): neighbours in a chain state facts
//! that stay true, and the chain has all words they depend on, compared from the innermost frame outwards. The nodes
//! are right because the joint must have the node it had then.
//!
//! Only what comes a second time is kept: a large program's start runs through hundreds of thousands of stacks once.
use super::arch::{self, Frame};
use super::chain_cells::{
    CAPACITY, Cell, FrameFp, Head, Lengths, Link, MOST_FRAMES, MOST_OUTER_FRAMES, OffsetAndKind, Position, SecondHead,
    ThirdHead,
};
use super::last_stack::{KnownFrame, LastStack, Word, WordKind};
use crate::NodeId;
use crate::tables::{Entry, Sets, hash};

/// Bytes of a cache line.
const LINE: usize = 64;
const CELLS_PER_LINE: usize = LINE / size_of::<Cell>();
/// What precedes the frames of a chain.
const HEADS: usize = 3;
/// Those, and for each frame its return address, two checks and its frame pointer.
const MOST_CELLS: usize = HEADS + 4 * MOST_FRAMES;

/// Zeroed memory is empty. A cell does not go across two cache lines, nor does a set of candidates.
#[repr(C, align(64))]
pub(super) struct Chains {
    /// A ring.
    cells: [Cell; CAPACITY],
    index: Sets<Candidate, 4096, 4, 16>,
    /// Cells written so far: where in the ring the next chain begins.
    written: u32,
    /// Chains up to this position are gone.
    gone: Position,
    /// The chain that was followed last, `NONE` if the last stack was none.
    latest: Position,
}

/// A stack as it was noted: worth a chain when it comes again.
#[derive(Clone, Copy)]
struct Candidate {
    node: NodeId,
    /// `NONE` if it came only once.
    chain: Position,
}

// SAFETY: integers; no stack has the node 0.
unsafe impl Entry for Candidate {}

impl Chains {
    pub(super) const fn new() -> Chains {
        Chains {
            cells: [Cell::EMPTY; CAPACITY],
            index: Sets::new(),
            written: 0,
            gone: Position::NONE,
            latest: Position::NONE,
        }
    }

    pub(super) fn forget(&mut self) {
        self.gone = Position::last_of(self.written);
    }

    /// A chain that came after the last one if it is on the stack, whose innermost frame is `first`.
    #[inline]
    pub(super) fn next(&self, first: &Frame) -> Option<Chain<'_>> {
        let next = self.head(self.latest)?.next;
        self.compare(next, first).ok().or_else(|| self.other_next(first))
    }

    #[inline(never)]
    fn other_next(&self, first: &Frame) -> Option<Chain<'_>> {
        let SecondHead { other, .. } = SecondHead::of(self.cells.get(self.latest.second())?);
        self.compare(other, first).ok()
    }

    /// The chain of that key if it is on the stack, whose innermost frame is `first`; else the key by which to go on.
    #[inline]
    pub(super) fn find(&self, key: ChainKey, first: &Frame) -> Result<Chain<'_>, Option<ChainKey>> {
        let mut nearest = None;
        let candidates = self.index.get(key.0);
        if let Some([candidate, ..]) = candidates {
            self.prefetch(candidate.chain);
        }
        for candidate in candidates.into_iter().flatten() {
            match self.compare(candidate.chain, first) {
                Ok(chain) => return Ok(chain),
                Err(None) => {}
                Err(Some(difference)) => nearest = Some(difference),
            }
        }
        Err(nearest.and_then(|difference: Difference| difference.key_after(key)))
    }

    /// Has the first cells of a chain fetched, all at once and not one after the other.
    #[inline(always)]
    fn prefetch(&self, position: Position) {
        let head = self.cells.as_ptr().wrapping_add(position.head());
        for line in 0..10 {
            arch::prefetch(head.wrapping_add(line * CELLS_PER_LINE).cast());
        }
    }

    #[inline(always)]
    fn head(&self, position: Position) -> Option<Head> {
        if position > self.gone { self.cells.get(position.head()).map(Head::of) } else { None }
    }

    /// The chain at `position` if it is still there, and on the stack. If its innermost frame is, the error is where the
    /// stack differs.
    #[inline(always)]
    pub(super) fn compare(&self, position: Position, first: &Frame) -> Result<Chain<'_>, Option<Difference<'_>>> {
        let head = self.head(position).ok_or(None)?;
        if head.slot != first.slot {
            return Err(None);
        }
        let chain = self.read(position, head).ok_or(None)?;
        let (innermost, outer) = chain.links.split_last().ok_or(None)?;
        let innermost = Link::of(innermost);
        if innermost.value != first.return_address || innermost.kind().needs_fp() && chain.innermost_fp != first.fp {
            return Err(None);
        }
        let slot = first.slot;
        let is_on_stack = |cell: &Cell| Link::of(cell).word(slot).holds();
        // Four at a time, for this loop is what stacks that change cost most.
        let (outermost, fours) = outer.as_rchunks::<4>();
        for (same, four) in fours.iter().rev().enumerate() {
            let [a, b, c, d] = four;
            if !(is_on_stack(d) && is_on_stack(c) && is_on_stack(b) && is_on_stack(a)) {
                return Err(Some(Difference { slot, same: 1 + same * 4, within: four }));
            }
        }
        if !outermost.iter().rev().all(is_on_stack) {
            return Err(Some(Difference { slot, same: 1 + fours.len() * 4, within: outermost }));
        }
        Ok(chain)
    }

    #[inline(always)]
    fn read(&self, position: Position, head: Head) -> Option<Chain<'_>> {
        let Head { lengths, slot, .. } = head;
        let (heads, rest) = self.cells.get(position.second()..)?.split_at_checked(HEADS - 1)?;
        let (links, rest) = rest.split_at_checked(lengths.links())?;
        let [second, third] = heads else { return None };
        Some(Chain {
            position,
            slot,
            innermost_fp: SecondHead::of(second).innermost_fp,
            joint_fp: ThirdHead::of(third).joint_fp,
            links,
            fps: rest.get(..lengths.fps())?,
            lengths,
        })
    }

    /// The chain at `position`, on the stack or not.
    pub(super) fn at(&self, position: Position) -> Option<Chain<'_>> {
        self.read(position, self.head(position)?)
    }

    /// To be called when the stack just captured was the chain at `position`.
    #[inline]
    pub(super) fn followed(&mut self, position: Position) {
        if self.latest > self.gone
            && let Some([first, second, ..]) = self.cells.get_mut(self.latest.head()..)
            && let head = Head::of(first)
            && head.next != position
        {
            *second = SecondHead { other: head.next, ..SecondHead::of(second) }.cell();
            *first = Head { next: position, ..head }.cell();
        }
        self.latest = position;
        if let Some(Head { next, .. }) = self.head(position) {
            self.prefetch(next);
        }
    }

    /// To be called when the stack just captured was no chain; its `count` innermost frames are new, the others stayed.
    /// Keeps the new ones as a chain if they came before, with those of the chain they are on.
    #[inline]
    pub(super) fn note(&mut self, key: ChainKey, count: usize, stack: &LastStack) {
        let Some(candidates) = self.index.get(key.0) else { return };
        let node = stack.innermost();
        let kept = if candidates.iter().all(|candidate| candidate.node != node) {
            self.index.insert(key.0, Candidate { node, chain: Position::NONE });
            None
        } else {
            stack.len().checked_sub(count + 1).and_then(|joint| {
                // On another chain it would need that one to be put first, each time: better it has those frames, too.
                let further = stack.settled_before(joint).filter(|further| stack.len() - further <= MOST_FRAMES);
                self.keep(key, further.unwrap_or(joint), stack)
            })
        };
        match kept {
            Some(position) => self.followed(position),
            None => self.latest = Position::NONE,
        }
    }

    /// The position of the chain, all frames further in than `joint`; `None` if it cannot be kept.
    #[cold]
    fn keep(&mut self, key: ChainKey, joint: usize, stack: &LastStack) -> Option<Position> {
        if stack.len() - joint > MOST_FRAMES || joint >= MOST_OUTER_FRAMES {
            return None;
        }
        if self.written > u32::MAX - 2 * CAPACITY as u32 {
            // Positions would come round: begin anew.
            (self.written, self.gone) = (0, Position::NONE);
            self.index.forget();
            self.cells.fill(Cell::EMPTY);
            return None;
        }
        // A chain does not go round the end.
        let left = CAPACITY - self.written as usize % CAPACITY;
        let begin = if left < MOST_CELLS { self.written + left as u32 } else { self.written };
        self.gone = self.gone.max(Position::last_of((begin + MOST_CELLS as u32).saturating_sub(CAPACITY as u32)));
        let at = begin as usize % CAPACITY;
        let (lengths, end) = self.write(at + HEADS, joint, stack)?;
        let innermost = stack.known(stack.len() - 1);
        let head = Head { next: Position::NONE, lengths, slot: innermost.slot };
        let innermost_fp = innermost.fp.unwrap_or_default();
        let second = SecondHead { other: Position::NONE, innermost_fp };
        let third = ThirdHead { joint_fp: stack.known(joint).fp.unwrap_or_default() };
        self.cells.get_mut(at..at + HEADS)?.copy_from_slice(&[head.cell(), second.cell(), third.cell()]);
        self.written = begin + (end - at) as u32;
        let node = stack.innermost();
        let candidate = self.index.get_mut(key.0)?.iter_mut().find(|candidate| candidate.node == node)?;
        candidate.chain = Position::behind(begin);
        Some(candidate.chain)
    }

    /// Writes all cells of a chain but the first ones, and gives its lengths and where they end. `None` if a word lies where
    /// none should.
    fn write(&mut self, begin: usize, joint: usize, stack: &LastStack) -> Option<(Lengths, usize)> {
        let innermost = stack.slot(stack.len() - 1);
        let mut at = begin;
        let mut push = |cell: Cell| {
            *self.cells.get_mut(at)? = cell;
            at += 1;
            Some(())
        };
        let packed = |address: usize, kind: WordKind| OffsetAndKind::new(address.checked_sub(innermost)?, kind);
        let (mut checks, mut fps) = (0, 0);
        for index in joint..stack.len() {
            let KnownFrame { slot, return_address, node, fp } = stack.known(index);
            let kind = WordKind::of_frame(fp.is_some());
            push(Link { offset_and_kind: packed(slot, kind)?, node, value: return_address }.cell())?;
            for check in stack.checks_of(index) {
                let offset_and_kind = packed(check.address, WordKind::CHECK)?;
                push(Link { offset_and_kind, node: NodeId::NONE, value: check.value }.cell())?;
                checks += 1;
            }
        }
        for (frame, index) in (joint..stack.len()).enumerate() {
            if let Some(fp) = stack.known(index).fp {
                push(FrameFp { frame, fp }.cell())?;
                fps += 1;
            }
        }
        Some((Lengths::new(stack.len() - joint, checks, fps, joint), at))
    }
}

/// A chain that is on the stack.
pub(super) struct Chain<'a> {
    position: Position,
    /// Of the innermost frame.
    slot: usize,
    innermost_fp: usize,
    joint_fp: usize,
    lengths: Lengths,
    /// To be read as `Link`s.
    links: &'a [Cell],
    /// To be read as `FrameFp`s.
    fps: &'a [Cell],
}

impl Chain<'_> {
    #[inline]
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// The node of its innermost frame.
    #[inline]
    pub(super) fn node(&self) -> NodeId {
        self.links.last().map_or(NodeId::NONE, |cell| Link::of(cell).node)
    }

    /// Whether one of its frames, but the joint, is `frame`.
    pub(super) fn has(&self, frame: &Frame) -> bool {
        self.outward_from(frame).is_some()
    }

    /// The node of `frame`, if it is one of its frames but the joint, and how many frames there are from it outwards up to the joint.
    #[inline]
    pub(super) fn outward_from(&self, frame: &Frame) -> Option<(NodeId, usize)> {
        let mut frames = self.len();
        for link in self.links.iter().skip(1).rev().map(Link::of) {
            let Word { address, value } = link.word(self.slot);
            if address >= frame.slot {
                let is_it = address == frame.slot && value == frame.return_address && link.kind().is_frame();
                return is_it.then_some((link.node, frames));
            }
            frames -= usize::from(link.kind().is_frame());
        }
        None
    }

    /// Frames of the chain besides its joint.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.lengths.frames() - 1
    }

    /// The frame the chain was put on, which is on the stack as well, and how many there were further out.
    #[inline]
    pub(super) fn joint(&self) -> (KnownFrame, usize) {
        let joint = Link::of(self.links.first().unwrap_or(&Cell::EMPTY));
        let Word { address: slot, value: return_address } = joint.word(self.slot);
        let fp = if joint.kind().needs_fp() { Some(self.joint_fp) } else { None };
        (KnownFrame { slot, return_address, node: joint.node, fp }, self.lengths.joint())
    }

    /// Puts the chain on the `base` outermost frames of `stack`, the innermost of which is the joint.
    #[inline]
    pub(super) fn put_on(&self, base: usize, stack: &mut LastStack) -> NodeId {
        stack.settle(base);
        let mut rebuild = stack.rebuild(base, self.len());
        let joint = rebuild.len() - 1;
        for link in self.links.iter().skip(1).map(Link::of) {
            rebuild.push_word(link.word(self.slot), link.kind(), link.node);
        }
        for FrameFp { frame, fp } in self.fps.iter().map(FrameFp::of) {
            rebuild.set_fp(joint + frame, fp);
        }
        rebuild.finish()
    }
}

/// A chain of which only the inner frames are on the stack.
pub(super) struct Difference<'a> {
    slot: usize,
    /// So many links, at least, are the same.
    same: usize,
    /// Among these links are some that are not.
    within: &'a [Cell],
}

impl Difference<'_> {
    /// Where the stack differs first, and how, as a key that goes on from `key`. `None` if that is among the frames the key
    /// is made of.
    #[inline]
    fn key_after(&self, key: ChainKey) -> Option<ChainKey> {
        if self.same <= ChainKey::FRAMES {
            return None;
        }
        let words = self.within.iter().rev().map(|cell| Link::of(cell).word(self.slot));
        let first = words.into_iter().find(|word| !word.holds())?;
        Some(key.with(first.address).with(first.contents()))
    }
}

/// The innermost frames of a stack, by which its chain is looked up: a hash.
#[derive(Clone, Copy)]
pub(super) struct ChainKey(u64);

impl ChainKey {
    /// So many of them, if there are as many. Few have to be unwound before the chain is found, but enough to tell chains
    /// apart.
    pub(super) const FRAMES: usize = 3;

    #[inline]
    pub(super) fn new(first: &Frame) -> ChainKey {
        ChainKey(first.slot as u64).with(first.return_address)
    }

    #[inline]
    pub(super) fn with(self, return_address: usize) -> ChainKey {
        ChainKey(hash(self.0.rotate_left(7) ^ return_address as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that stand for a stack, the innermost frame at the lowest address.
    struct Stack {
        words: Vec<usize>,
        last: Box<LastStack>,
    }

    impl Stack {
        fn new() -> Stack {
            Stack { words: (0..4096).map(|word| 0x1000 + word).collect(), last: Box::new(LastStack::new()) }
        }

        /// Puts a frame at each of the `slots`, given from the outermost inwards with their nodes, on the `base` outermost
        /// ones.
        fn put(&mut self, base: usize, slots: &[(usize, u32)]) -> Frame {
            let mut rebuild = self.last.rebuild(base, slots.len());
            for &(slot, node) in slots {
                rebuild.push_word(word(&self.words, slot), WordKind::FRAME, NodeId(node));
            }
            rebuild.finish();
            let innermost = self.last.known(self.last.len() - 1);
            let KnownFrame { slot, return_address, .. } = innermost;
            Frame { slot, return_address, sp: slot + 8, fp: 0 }
        }
    }

    fn word(words: &[usize], at: usize) -> Word {
        Word { address: &raw const words[at] as usize, value: words[at] }
    }

    fn chains() -> Box<Chains> {
        // SAFETY: zeroed memory is empty.
        unsafe { Box::<Chains>::new_zeroed().assume_init() }
    }

    fn key(first: &Frame) -> ChainKey {
        ChainKey::new(first).with(first.return_address)
    }

    #[test]
    fn a_chain_is_kept_when_it_comes_again_and_found_while_it_is_on_the_stack() {
        let (mut stack, mut chains) = (Stack::new(), chains());
        stack.put(0, &[(100, 1), (90, 2)]);
        let first = stack.put(2, &[(80, 3), (70, 4), (60, 5)]);
        chains.note(key(&first), 3, &stack.last);
        assert!(chains.find(key(&first), &first).is_err(), "it came once");
        chains.note(key(&first), 3, &stack.last);
        let chain = chains.find(key(&first), &first).ok().unwrap();
        assert_eq!(chain.len(), 3);
        let (joint, index) = chain.joint();
        assert_eq!((joint.node, joint.slot, index), (NodeId(2), word(&stack.words, 90).address, 1));
        // Keys share places of the index, now and then: what is found is looked at all the same.
        let strangers = (1..=64).filter(|number| chains.find(key(&first).with(*number), &first).is_ok()).count();
        assert!(strangers < 16, "{strangers} of 64 other keys find it");

        for changed in [90, 80, 70] {
            stack.words[changed] += 1;
            assert!(chains.find(key(&first), &first).is_err());
            stack.words[changed] -= 1;
        }
        stack.words[85] += 1;
        let chain = chains.find(key(&first), &first).ok().unwrap();

        stack.put(2, &[(50, 9)]);
        assert_eq!(chain.put_on(2, &mut stack.last), NodeId(5));
        let nodes: Vec<_> = (0..stack.last.len()).map(|index| stack.last.node(index).0).collect();
        assert_eq!(nodes, [1, 2, 3, 4, 5]);
        chains.forget();
        assert!(chains.find(key(&first), &first).is_err());
    }

    #[test]
    fn a_chain_on_another_one_reaches_to_what_that_stands_on() {
        let (mut stack, mut chains) = (Stack::new(), chains());
        stack.put(0, &[(1000, 1), (990, 2)]);
        let lower = stack.put(2, &[(980, 3), (970, 4)]);
        chains.note(key(&lower), 2, &stack.last);
        chains.note(key(&lower), 2, &stack.last);
        // As far as there is room in a chain.
        for (frames, joint) in [(1, 1), (MOST_FRAMES - 3, 1), (MOST_FRAMES - 2, 3)] {
            chains.find(key(&lower), &lower).ok().unwrap().put_on(2, &mut stack.last);
            let slots: Vec<_> = (960 - frames..960).rev().map(|slot| (slot, slot as u32)).collect();
            let upper = stack.put(4, &slots);
            chains.note(key(&upper), frames, &stack.last);
            chains.note(key(&upper), frames, &stack.last);
            let chain = chains.find(key(&upper), &upper).ok().unwrap();
            assert_eq!((chain.joint().1, chain.len()), (joint, 3 + frames - joint), "{frames} frames");
        }
    }

    #[test]
    fn what_came_after_a_chain_is_expected_to_come_again() {
        let (mut stack, mut chains) = (Stack::new(), chains());
        stack.put(0, &[(100, 1)]);
        let firsts = [60, 40].map(|slot| {
            let first = stack.put(1, &[(slot, slot as u32)]);
            chains.note(key(&first), 1, &stack.last);
            chains.note(key(&first), 1, &stack.last);
            first
        });
        for first in firsts.iter().chain(&firsts) {
            let position = chains.find(key(first), first).ok().unwrap().position();
            chains.followed(position);
        }
        for _ in 0..3 {
            for [expected, other] in [[&firsts[0], &firsts[1]], [&firsts[1], &firsts[0]]] {
                assert!(chains.next(other).is_none());
                let position = chains.next(expected).unwrap().position();
                chains.followed(position);
            }
        }
    }

    #[test]
    fn the_oldest_chains_give_way() {
        let (mut stack, mut chains) = (Stack::new(), chains());
        // Positions come round on the way.
        chains.written = u32::MAX - 5 * CAPACITY as u32;
        stack.put(0, &[(4000, 1)]);
        let mut kept = Vec::new();
        for round in 0..12_000 {
            // Which frames a stack has follows from its innermost one.
            let innermost = round * 13 % 3000;
            let frames = (0..1 + innermost % 60).rev();
            let slots: Vec<_> = frames.map(|frame| (innermost + frame, (2 + innermost * 64 + frame) as u32)).collect();
            let first = stack.put(1, &slots);
            chains.note(key(&first), slots.len(), &stack.last);
            chains.note(key(&first), slots.len(), &stack.last);
            kept.push((first, slots));
            if round % 100 == 99 {
                let recent = kept.iter().rev().take(2900).filter(|(first, slots)| {
                    let Ok(chain) = chains.find(key(first), first) else { return false };
                    assert_eq!(chain.put_on(1, &mut stack.last), NodeId(slots.last().unwrap().1));
                    true
                });
                let found = recent.count();
                assert!(found < 2200 && (found > 900 || round < 1000 || chains.written < CAPACITY as u32), "{found}");
            }
        }
        assert!(chains.written < 1 << 30, "positions began anew");
    }
}

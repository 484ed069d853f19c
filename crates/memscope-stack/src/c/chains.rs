//! Runs of frames that came before: what a program puts again and again on top of the frames it stays in.
//!
//! A program's loop allocates from the same places, with frames entered and left in between: too different from the
//! last stack to be compared with that, but the same as some time ago. So the frames unwound for a stack, and the one
//! they were put on (the joint), are kept as a chain. When they come again the chain is compared with the stack instead of
//! unwinding it. First is tried what came after the last chain the last two times, one of which is also fetched into the
//! cache early: the program has used that for itself in between. If it is neither, a few frames are unwound and looked up.
//! Chains with the same innermost frames are told apart by where the stack first differs from one of them, and how: that
//! is looked up in turn.
//!
//! It is sound for the reason that the last stack may be compared (see `remembered`): neighbours in a chain state facts
//! that stay true, and the chain has all words they depend on, compared from the innermost frame outwards. The nodes
//! are right because the joint must have the node it had then.
//!
//! Only what comes a second time is kept: a large program's start runs through hundreds of thousands of stacks once.
use super::arch::{self, Frame};
use super::remembered::{Known, Remembered, Word};
use crate::NodeId;

/// Links of all chains together; the oldest chains give way.
const CAPACITY: usize = 1 << 16;
const SPOTS: usize = 1 << SPOT_BITS;
const SPOT_BITS: u32 = 12;
/// So many spots for the first stacks that are noted, so that a short thread touches few pages.
const FIRST_SPOTS: usize = 64;
const FIRST_NOTED: usize = 16;
/// Chains that may share a key, or keys a spot.
const WAYS: usize = 4;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Frames of a chain at most, its joint among them.
const MOST_FRAMES: usize = 64;
/// Frames further out than a joint, at most.
const MOST_OUTER_FRAMES: usize = 1 << (u32::BITS - JOINT_SHIFT);
/// What precedes the frames of a chain.
const HEADS: usize = 3;
/// Those, and for each frame its return address, two checks and its frame pointer.
const MOST_LINKS: usize = HEADS + 4 * MOST_FRAMES;

/// Zeroed memory is empty. A link does not go across two cache lines, nor does a spot.
#[repr(C, align(64))]
pub(super) struct Chains {
    links: [Link; CAPACITY],
    index: [[Candidate; WAYS]; SPOTS],
    /// Links written so far: where in the ring the next chain begins. A chain's position is that after its first link.
    written: u32,
    /// Chains up to this position are gone.
    gone: u32,
    /// The position of the chain that was followed last, 0 if the last stack was none.
    latest: u32,
    /// Stacks noted so far.
    noted: usize,
    /// Which spots are in use besides the first ones. Stacks noted before that changed are noted again.
    further_spots: usize,
}

/// What came last time.
#[derive(Clone, Copy)]
struct Candidate {
    node: NodeId,
    /// The position of its chain; 0 if it came only once.
    chain: u32,
}

/// One of
/// - the head of a chain: which chain came after it last time, its lengths, and the slot of its innermost frame;
/// - the second link of a chain: which other chain came after it before that, and the frame pointer of its innermost frame;
/// - the third: the frame pointer of the joint;
/// - a frame, or a word besides, to be compared: where, and its contents. First the joint, then inwards;
/// - the frame pointer of a frame that needs it: which one, from the joint on, and its contents.
#[derive(Clone, Copy)]
#[repr(C)]
struct Link {
    /// Bytes from the slot of the innermost frame; the low bits, which a multiple of 8 leaves free, are the kind. Of the
    /// first two links the position of a chain.
    place: u32,
    node: NodeId,
    value: usize,
}

const KIND: u32 = 7;
const FRAME: u32 = 0;
const FRAME_WITH_FP: u32 = 1;
const CHECK: u32 = 2;

impl Chains {
    pub(super) const fn new() -> Chains {
        Chains {
            written: 0,
            gone: 0,
            latest: 0,
            noted: 0,
            further_spots: 0,
            index: [[Candidate::NONE; WAYS]; SPOTS],
            links: [Link::NONE; CAPACITY],
        }
    }

    pub(super) fn forget(&mut self) {
        self.gone = self.written;
    }

    #[inline]
    fn spot(&self, key: Key) -> usize {
        key.spot() & (self.further_spots | (FIRST_SPOTS - 1))
    }

    /// A chain that came after the last one if it is on the stack, whose innermost frame is `first`.
    #[inline]
    pub(super) fn next(&self, first: &Frame) -> Option<Chain<'_>> {
        let next = self.head(self.latest)?.place;
        self.compare(next, first).ok().or_else(|| self.other_next(first))
    }

    #[inline(never)]
    fn other_next(&self, first: &Frame) -> Option<Chain<'_>> {
        let other = self.links.get(self.latest as usize % CAPACITY)?.place;
        self.compare(other, first).ok()
    }

    /// The chain of that key if it is on the stack, whose innermost frame is `first`; else the key by which to go on.
    #[inline]
    pub(super) fn find(&self, key: Key, first: &Frame) -> Result<Chain<'_>, Option<Key>> {
        let mut nearest = None;
        if let Some([candidate, ..]) = self.index.get(self.spot(key)) {
            self.prefetch(candidate.chain);
        }
        for candidate in self.index.get(self.spot(key)).into_iter().flatten() {
            match self.compare(candidate.chain, first) {
                Ok(chain) => return Ok(chain),
                Err(None) => {}
                Err(Some(difference)) => nearest = Some(difference),
            }
        }
        Err(nearest.and_then(|difference: Difference| difference.key_after(key)))
    }

    /// Has the first links of a chain fetched, all at once and not one after the other.
    #[inline(always)]
    fn prefetch(&self, position: u32) {
        const PER_LINE: usize = LINE / size_of::<Link>();
        let head = self.links.as_ptr().wrapping_add(position.wrapping_sub(1) as usize % CAPACITY);
        for line in 0..10 {
            arch::prefetch(head.wrapping_add(line * PER_LINE).cast());
        }
    }

    #[inline]
    fn head(&self, position: u32) -> Option<&Link> {
        if position > self.gone { self.links.get((position - 1) as usize % CAPACITY) } else { None }
    }

    /// The chain at `position` if it is still there, and on the stack. If its innermost frame is, the error is where the
    /// stack differs.
    #[inline(always)]
    pub(super) fn compare(&self, position: u32, first: &Frame) -> Result<Chain<'_>, Option<Difference<'_>>> {
        let head = self.head(position).ok_or(None)?;
        if head.value != first.slot {
            return Err(None);
        }
        let chain = self.read(position, head).ok_or(None)?;
        let (innermost, outer) = chain.links.split_last().ok_or(None)?;
        if innermost.value != first.return_address || innermost.needs_fp() && chain.innermost_fp != first.fp {
            return Err(None);
        }
        let slot = first.slot;
        let is_on_stack = |link: &Link| link.word(slot).holds();
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
    fn read<'a>(&'a self, position: u32, head: &Link) -> Option<Chain<'a>> {
        let lengths = Lengths::of(head);
        let (heads, rest) = self.links.get(position as usize % CAPACITY..)?.split_at_checked(HEADS - 1)?;
        let (links, rest) = rest.split_at_checked(lengths.links())?;
        let [second, third] = heads else { return None };
        Some(Chain {
            position,
            slot: head.value,
            innermost_fp: second.value,
            joint_fp: third.value,
            links,
            fps: rest.get(..lengths.fps)?,
            lengths,
        })
    }

    /// The chain at `position`, on the stack or not.
    pub(super) fn at(&self, position: u32) -> Option<Chain<'_>> {
        self.read(position, self.head(position)?)
    }

    /// Told that the stack just captured was the chain at `position`.
    #[inline]
    pub(super) fn followed(&mut self, position: u32) {
        if self.latest > self.gone
            && let Some([next, other, ..]) = self.links.get_mut((self.latest - 1) as usize % CAPACITY..)
            && next.place != position
        {
            other.place = next.place;
            next.place = position;
        }
        self.latest = position;
        if let Some(head) = self.head(position) {
            let next = head.place.wrapping_sub(1) as usize % CAPACITY;
            arch::prefetch(self.links.as_ptr().wrapping_add(next).cast());
            arch::prefetch(self.links.as_ptr().wrapping_add(next + LINE / size_of::<Link>()).cast());
        }
    }

    /// Told a stack that was no chain, of which the `count` innermost frames are new and the others stayed. Keeps the new
    /// ones as a chain if they came before.
    #[inline]
    pub(super) fn note(&mut self, key: Key, count: usize, stack: &Remembered) {
        let spot = self.spot(key);
        let Some(candidates) = self.index.get_mut(spot) else { return };
        let node = stack.innermost();
        let kept = if candidates.iter().all(|candidate| candidate.node != node) {
            let [a, b, c, _] = *candidates;
            *candidates = [Candidate { node, chain: 0 }, a, b, c];
            self.noted += 1;
            if self.noted == FIRST_NOTED {
                self.further_spots = SPOTS - 1;
            }
            None
        } else {
            stack.len().checked_sub(count + 1).and_then(|joint| self.keep(key, joint, stack))
        };
        match kept {
            Some(position) => self.followed(position),
            None => self.latest = 0,
        }
    }

    /// The position of the chain, all frames further in than `joint`; `None` if it cannot be kept.
    #[cold]
    fn keep(&mut self, key: Key, joint: usize, stack: &Remembered) -> Option<u32> {
        if stack.len() - joint > MOST_FRAMES || joint >= MOST_OUTER_FRAMES {
            return None;
        }
        if self.written > u32::MAX - 2 * CAPACITY as u32 {
            // Positions would come round: begin anew.
            (self.written, self.gone) = (0, 0);
            self.index.fill([Candidate::NONE; WAYS]);
            self.links.fill(Link::NONE);
            return None;
        }
        // A chain does not go round the end.
        let left = CAPACITY - self.written as usize % CAPACITY;
        let begin = if left < MOST_LINKS { self.written + left as u32 } else { self.written };
        self.gone = self.gone.max((begin + MOST_LINKS as u32).saturating_sub(CAPACITY as u32));
        let at = begin as usize % CAPACITY;
        let (head, end) = self.write(at + HEADS, joint, stack)?;
        let fp_of = |index: usize| Link { value: stack.known(index).fp.unwrap_or_default(), ..Link::NONE };
        let heads = [head, fp_of(stack.len() - 1), fp_of(joint)];
        self.links.get_mut(at..at + HEADS)?.copy_from_slice(&heads);
        self.written = begin + (end - at) as u32;
        let node = stack.innermost();
        let spot = self.spot(key);
        let candidate = self.index.get_mut(spot)?.iter_mut().find(|candidate| candidate.node == node)?;
        candidate.chain = begin + 1;
        Some(candidate.chain)
    }

    /// Writes all links of a chain but the first ones, and gives its head and where they end. `None` if a word lies where
    /// none should.
    fn write(&mut self, begin: usize, joint: usize, stack: &Remembered) -> Option<(Link, usize)> {
        let innermost = stack.slot(stack.len() - 1);
        let mut at = begin;
        let mut push = |link: Link| {
            *self.links.get_mut(at)? = link;
            at += 1;
            Some(())
        };
        let place =
            |address: usize| u32::try_from(address.checked_sub(innermost)?).ok().filter(|place| place & KIND == 0);
        let mut lengths = Lengths { frames: stack.len() - joint, checks: 0, fps: 0, joint };
        for index in joint..stack.len() {
            let Known { slot, return_address, node, fp } = stack.known(index);
            let kind = if fp.is_some() { FRAME_WITH_FP } else { FRAME };
            push(Link { place: place(slot)? | kind, node, value: return_address })?;
            for check in stack.checks_of(index) {
                push(Link { place: place(check.address)? | CHECK, node: NodeId::NONE, value: check.value })?;
                lengths.checks += 1;
            }
        }
        let fps = (joint..stack.len()).filter_map(|index| Some((index - joint, stack.known(index).fp?)));
        for (frame, fp) in fps {
            push(Link { place: 0, node: NodeId(frame as u32), value: fp })?;
            lengths.fps += 1;
        }
        Some((Link { place: 0, node: lengths.packed(), value: innermost }, at))
    }
}

/// A chain that is on the stack.
pub(super) struct Chain<'a> {
    position: u32,
    /// Of the innermost frame.
    slot: usize,
    innermost_fp: usize,
    joint_fp: usize,
    lengths: Lengths,
    links: &'a [Link],
    fps: &'a [Link],
}

impl Chain<'_> {
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.position
    }

    /// The node of its innermost frame.
    #[inline]
    pub(super) fn node(&self) -> NodeId {
        self.links.last().unwrap_or(&Link::NONE).node
    }

    /// Whether one of its frames, but the joint, is `frame`.
    pub(super) fn has(&self, frame: &Frame) -> bool {
        let mut outer = self.links.iter().skip(1).rev().skip_while(|link| link.address(self.slot) < frame.slot);
        outer.next().is_some_and(|link| {
            link.address(self.slot) == frame.slot && link.value == frame.return_address && !link.is_check()
        })
    }

    /// Frames of the chain besides its joint.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.lengths.frames - 1
    }

    /// The frame the chain was put on, which is on the stack as well, and how many there were further out.
    #[inline]
    pub(super) fn joint(&self) -> (Known, usize) {
        let joint = self.links.first().unwrap_or(&Link::NONE);
        let fp = if joint.needs_fp() { Some(self.joint_fp) } else { None };
        let known = Known { slot: joint.address(self.slot), return_address: joint.value, node: joint.node, fp };
        (known, self.lengths.joint)
    }

    /// Puts the chain on the `base` outermost frames of `stack`, the innermost of which is the joint.
    #[inline]
    pub(super) fn put_on(&self, base: usize, stack: &mut Remembered) -> NodeId {
        let base = stack.reserve(base, self.len());
        let mut rebuild = stack.rebuild(base);
        for link in self.links.iter().skip(1) {
            rebuild.push_either(stack, link.word(self.slot), link.node, link.needs_fp(), !link.is_check());
        }
        for fp in self.fps {
            rebuild.set_fp(stack, base - 1 + fp.node.0 as usize, fp.value);
        }
        rebuild.finish(stack)
    }
}

/// A chain of which only the inner frames are on the stack.
pub(super) struct Difference<'a> {
    slot: usize,
    /// So many links, at least, are the same.
    same: usize,
    /// Among these are some that are not.
    within: &'a [Link],
}

impl Difference<'_> {
    /// Where the stack differs first, and how, as a key that goes on from `key`. `None` if that is among the frames the key
    /// is made of.
    #[inline]
    fn key_after(&self, key: Key) -> Option<Key> {
        if self.same <= Key::FRAMES {
            return None;
        }
        let first = self.within.iter().rev().map(|link| link.word(self.slot)).find(|word| !word.holds())?;
        Some(key.with(first.address).with(first.contents()))
    }
}

/// The innermost frames of a stack, by which its chain is looked up.
#[derive(Clone, Copy)]
pub(super) struct Key(u64);

impl Key {
    /// So many of them, if there are as many. Few have to be unwound before the chain is found, but enough to tell chains
    /// apart.
    pub(super) const FRAMES: usize = 3;

    #[inline]
    pub(super) fn new(first: &Frame) -> Key {
        Key(first.slot as u64).with(first.return_address)
    }

    #[inline]
    pub(super) fn with(self, return_address: usize) -> Key {
        Key((self.0.rotate_left(7) ^ return_address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[inline]
    fn spot(self) -> usize {
        (self.0 >> (u64::BITS - SPOT_BITS)) as usize
    }
}

impl Candidate {
    const NONE: Candidate = Candidate { node: NodeId::NONE, chain: 0 };
}

impl Link {
    const NONE: Link = Link { place: 0, node: NodeId::NONE, value: 0 };

    #[inline]
    fn address(&self, slot: usize) -> usize {
        slot + (self.place & !KIND) as usize
    }

    /// In a chain whose innermost frame is at `slot`.
    #[inline]
    fn word(&self, slot: usize) -> Word {
        Word { address: self.address(slot), value: self.value }
    }

    #[inline]
    fn needs_fp(&self) -> bool {
        self.place & KIND == FRAME_WITH_FP
    }

    #[inline]
    fn is_check(&self) -> bool {
        self.place & KIND == CHECK
    }
}

/// ```text
///  31     22 21   15 14     7 6      0
/// ┌─────────┬───────┬────────┬────────┐
/// │  joint  │  fps  │ checks │ frames │
/// └─────────┴───────┴────────┴────────┘
/// ```
struct Lengths {
    /// With the joint.
    frames: usize,
    checks: usize,
    fps: usize,
    /// How many frames there are further out than the joint.
    joint: usize,
}

const FPS_SHIFT: u32 = 15;
const CHECKS_SHIFT: u32 = 7;
const JOINT_SHIFT: u32 = 22;
/// Bits of a number of frames.
const FRAMES_MASK: usize = 0x7f;
const CHECKS_MASK: usize = 0xff;

impl Lengths {
    #[inline]
    fn of(head: &Link) -> Lengths {
        let packed = head.node.0 as usize;
        Lengths {
            frames: packed & FRAMES_MASK,
            checks: packed >> CHECKS_SHIFT & CHECKS_MASK,
            fps: packed >> FPS_SHIFT & FRAMES_MASK,
            joint: packed >> JOINT_SHIFT,
        }
    }

    #[inline]
    fn links(&self) -> usize {
        self.frames + self.checks
    }

    fn packed(&self) -> NodeId {
        const { assert!(MOST_FRAMES <= FRAMES_MASK && 2 * MOST_FRAMES <= CHECKS_MASK) };
        let Lengths { frames, checks, fps, joint } = *self;
        NodeId((joint << JOINT_SHIFT | fps << FPS_SHIFT | checks << CHECKS_SHIFT | frames) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that stand for a stack, the innermost frame at the lowest address.
    struct Stack {
        words: Vec<usize>,
        remembered: Box<Remembered>,
    }

    impl Stack {
        fn new() -> Stack {
            Stack { words: (0..4096).map(|word| 0x1000 + word).collect(), remembered: Box::new(Remembered::new()) }
        }

        /// Puts a frame at each of the `slots`, given from the outermost inwards with their nodes, on the `base` outermost
        /// ones.
        fn put(&mut self, base: usize, slots: &[(usize, u32)]) -> Frame {
            let mut rebuild = self.remembered.rebuild(base);
            for &(slot, node) in slots {
                rebuild.push_frame(&mut self.remembered, word(&self.words, slot), NodeId(node), false);
            }
            rebuild.finish(&mut self.remembered);
            let innermost = self.remembered.known(self.remembered.len() - 1);
            let Known { slot, return_address, .. } = innermost;
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

    fn key(first: &Frame) -> Key {
        Key::new(first).with(first.return_address)
    }

    #[test]
    fn a_chain_is_kept_when_it_comes_again_and_found_while_it_is_on_the_stack() {
        let (mut stack, mut chains) = (Stack::new(), chains());
        stack.put(0, &[(100, 1), (90, 2)]);
        let first = stack.put(2, &[(80, 3), (70, 4), (60, 5)]);
        chains.note(key(&first), 3, &stack.remembered);
        assert!(chains.find(key(&first), &first).is_err(), "it came once");
        chains.note(key(&first), 3, &stack.remembered);
        let chain = chains.find(key(&first), &first).ok().unwrap();
        assert_eq!(chain.len(), 3);
        let (joint, index) = chain.joint();
        assert_eq!((joint.node, joint.slot, index), (NodeId(2), word(&stack.words, 90).address, 1));
        assert!(chains.find(key(&first).with(1), &first).is_err());

        for changed in [90, 80, 70] {
            stack.words[changed] += 1;
            assert!(chains.find(key(&first), &first).is_err());
            stack.words[changed] -= 1;
        }
        stack.words[85] += 1;
        let chain = chains.find(key(&first), &first).ok().unwrap();

        stack.put(2, &[(50, 9)]);
        assert_eq!(chain.put_on(2, &mut stack.remembered), NodeId(5));
        let nodes: Vec<_> = (0..stack.remembered.len()).map(|index| stack.remembered.node(index).0).collect();
        assert_eq!(nodes, [1, 2, 3, 4, 5]);
        chains.forget();
        assert!(chains.find(key(&first), &first).is_err());
    }

    #[test]
    fn what_came_after_a_chain_is_expected_to_come_again() {
        let (mut stack, mut chains) = (Stack::new(), chains());
        stack.put(0, &[(100, 1)]);
        let firsts = [60, 40].map(|slot| {
            let first = stack.put(1, &[(slot, slot as u32)]);
            chains.note(key(&first), 1, &stack.remembered);
            chains.note(key(&first), 1, &stack.remembered);
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
            chains.note(key(&first), slots.len(), &stack.remembered);
            chains.note(key(&first), slots.len(), &stack.remembered);
            kept.push((first, slots));
            if round % 100 == 99 {
                let recent = kept.iter().rev().take(2900).filter(|(first, slots)| {
                    let Ok(chain) = chains.find(key(first), first) else { return false };
                    assert_eq!(chain.put_on(1, &mut stack.remembered), NodeId(slots.last().unwrap().1));
                    true
                });
                let found = recent.count();
                assert!(found < 2200 && (found > 900 || round < 1000 || chains.written < CAPACITY as u32), "{found}");
            }
        }
        assert!(chains.written < 1 << 30, "positions began anew");
    }
}

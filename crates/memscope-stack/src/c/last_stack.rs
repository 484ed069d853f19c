//! The lane's last stack, to unwind and intern only what changed since.
//!
//! # Why comparing is enough
//!
//! Going outwards, frame `i + 1` is followed by frame `i` (the outermost is 0). For a return address the unwind row is
//! fixed (within an unload epoch, after which everything is forgotten), so where frame `i`'s return address lies
//! depends only on frame `i + 1`'s slot, return address, its frame pointer if the row is based on that
//! ([`UnwindRule::uses_fp`]), and one word of memory if the row reads its CFA from there ([`UnwindRule::slot_word`]). Frame `i`'s
//! frame pointer is that of `i + 1` or the contents of [`UnwindRule::fp_word`]. So each remembered pair of neighbours states
//! a fact that stays true whatever the program does: "*if* frame `i + 1` is on the stack with this slot, return
//! address and (where needed) frame pointer, and these words have these contents, *then* frame `i` is next, with
//! this slot, return address and (where needed) frame pointer".
//!
//! Hence: a frame just unwound that equals a remembered one, and words that compare equal from there outwards, prove
//! the remembered outer frames by induction, no matter how old they are, whether their activations are the same, and
//! what was on the stack in between (returns, longjmp, another coroutine). Each word is compared only after all it
//! depends on, so it is known to be part of the live stack when it is read. A difference ends the proof; frames
//! are unwound again from the last proven one.
//!
//! The frame pointer is needed at a frame if its row uses it, or if it leaves it alone and the next outer frame needs
//! it. Where it is not needed it may differ (it is then any other register to the program), and what is remembered of
//! it is not used.
//!
//! Only one stack is remembered whole. What came further back is in `chains`.
use super::arch::{Frame, Rule, UnwindRule};
use crate::NodeId;

/// Frames remembered at most; [`super::MAX_DEPTH`] and the slack fit in with room to grow before frames are dropped.
pub(super) const CAPACITY: usize = 1536;
/// A frame can need two words to be unchanged besides its return address.
const WORDS_CAPACITY: usize = 3 * CAPACITY;
/// So many more than necessary are dropped at once where the stack outgrows the capacity.
const DROP_AHEAD: usize = 128;

/// A word that must be on the stack.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct Word {
    pub(super) address: usize,
    pub(super) value: usize,
}

/// What a word is besides one to be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct WordKind(u32);

impl WordKind {
    /// The return address of a frame.
    pub(super) const FRAME: WordKind = WordKind(0);
    /// The same, of a frame whose frame pointer is needed.
    const FRAME_WITH_FP: WordKind = WordKind(1);
    /// What must be unchanged for the last frame to follow from the next one.
    pub(super) const CHECK: WordKind = WordKind(2);

    #[inline(always)]
    pub(super) fn of_frame(needs_fp: bool) -> WordKind {
        if needs_fp { WordKind::FRAME_WITH_FP } else { WordKind::FRAME }
    }

    #[inline(always)]
    pub(super) fn is_frame(self) -> bool {
        self != WordKind::CHECK
    }

    #[inline(always)]
    pub(super) fn needs_fp(self) -> bool {
        self == WordKind::FRAME_WITH_FP
    }

    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(super) fn from_bits(bits: u32) -> WordKind {
        WordKind(bits)
    }
}

/// A frame as it is kept here.
#[derive(Clone, Copy)]
struct StoredFrame {
    node: NodeId,
    /// Where its return address is among the words.
    word: u16,
    /// Not 0: then its frame pointer is among the frame pointers.
    needs_fp: u16,
}

/// All there is to know about a frame.
pub(super) struct KnownFrame {
    pub(super) slot: usize,
    pub(super) return_address: usize,
    pub(super) node: NodeId,
    /// If it is needed.
    pub(super) fp: Option<usize>,
}

/// Zeroed memory is an empty stack. Every address in it was read through the lane's `StackMemory` since that last
/// began a new range.
pub(super) struct LastStack {
    len: usize,
    words_len: usize,
    /// Where the last search ended: the next one mostly ends nearby.
    hint: usize,
    /// So many of the outermost frames were here before a chain was put on them last. A hint: frames come and go.
    settled: usize,
    /// Frame 0 is the outermost of the stack, not just of what was unwound: its row says so, or `end`.
    is_complete: bool,
    /// The node of frame 0 has no parent.
    is_rooted: bool,
    /// Where the return address of frame 0 lies if that is what ends the stack, else 0; and what it is.
    end: Word,
    /// All that is compared, from the outermost inwards: the return address of each frame, followed by what else must be
    /// unchanged for it to follow from the next. In one row, so that comparing is one loop.
    words: [Word; WORDS_CAPACITY],
    frames: [StoredFrame; CAPACITY],
    fps: [usize; CAPACITY],
}

impl LastStack {
    pub(super) const fn new() -> LastStack {
        LastStack {
            len: 0,
            words_len: 0,
            hint: 0,
            settled: 0,
            is_complete: false,
            is_rooted: false,
            end: Word { address: 0, value: 0 },
            words: [Word { address: 0, value: 0 }; WORDS_CAPACITY],
            frames: [StoredFrame { node: NodeId::NONE, word: 0, needs_fp: 0 }; CAPACITY],
            fps: [0; CAPACITY],
        }
    }

    pub(super) fn forget(&mut self) {
        self.len = 0;
        self.words_len = 0;
        self.hint = 0;
        self.is_complete = false;
        self.is_rooted = false;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The innermost frame that was here before a chain was put here last, if there may be one further out than frame `index`.
    pub(super) fn settled_before(&self, index: usize) -> Option<usize> {
        self.settled.checked_sub(1).filter(|settled| *settled < index)
    }

    /// A chain is put on the `base` outermost frames.
    pub(super) fn settle(&mut self, base: usize) {
        self.settled = base;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    #[inline]
    pub(super) fn node(&self, index: usize) -> NodeId {
        self.frame(index).node
    }

    /// The node of the whole stack.
    pub(super) fn innermost(&self) -> NodeId {
        if self.len > 0 { self.node(self.len - 1) } else { NodeId::NONE }
    }

    #[inline]
    pub(super) fn slot(&self, index: usize) -> usize {
        self.word(self.frame(index).word as usize).address
    }

    pub(super) fn known(&self, index: usize) -> KnownFrame {
        let &Word { address: slot, value: return_address } = self.word(self.frame(index).word as usize);
        let fp = if self.needs_fp(index) { self.fps.get(index).copied() } else { None };
        KnownFrame { slot, return_address, node: self.node(index), fp }
    }

    /// What must be unchanged for frame `index` to follow from the one further in, besides its return address.
    pub(super) fn checks_of(&self, index: usize) -> &[Word] {
        let to = if index + 1 < self.len { self.frame(index + 1).word as usize } else { self.words_len };
        self.words.get(self.frame(index).word as usize + 1..to).unwrap_or_default()
    }

    /// Whether `frame` is the innermost one.
    #[inline]
    pub(super) fn ends_with(&self, frame: &Frame) -> bool {
        self.len > 0 && self.is_at(self.len - 1, frame.slot, frame.return_address, frame.fp)
    }

    /// The remembered frame from which everything outer follows as it does from `frame`.
    #[inline]
    pub(super) fn find(&mut self, frame: &Frame) -> Option<usize> {
        // Slots fall with the index; `after` becomes the number of frames whose slot is not below the wanted one.
        let mut after = self.hint;
        while after < self.len && self.slot(after) >= frame.slot {
            after += 1;
        }
        self.hint = after;
        self.find_outwards(frame)
    }

    /// The same, for a frame further out than the last one looked for.
    #[inline]
    pub(super) fn find_outwards(&mut self, frame: &Frame) -> Option<usize> {
        let mut after = self.hint;
        while after > 0 && self.slot(after - 1) < frame.slot {
            after -= 1;
        }
        self.hint = after;
        let index = after.checked_sub(1)?;
        self.is_at(index, frame.slot, frame.return_address, frame.fp).then_some(index)
    }

    /// Whether a frame is remembered at `index`, with the same node.
    #[inline]
    pub(super) fn has(&self, known: &KnownFrame, index: usize) -> bool {
        index < self.len
            && self.node(index) == known.node
            && self.needs_fp(index) == known.fp.is_some()
            && self.is_at(index, known.slot, known.return_address, known.fp.unwrap_or_default())
    }

    #[inline]
    fn is_at(&self, index: usize, slot: usize, return_address: usize, fp: usize) -> bool {
        let word = self.word(self.frame(index).word as usize);
        word.address == slot
            && word.value == return_address
            && (!self.needs_fp(index) || self.fps.get(index) == Some(&fp))
    }

    /// Whether the frame next to `index` outwards, if there is one, is still what it was. No proof, but a hint at one.
    #[inline]
    pub(super) fn goes_on_as_before(&self, index: usize) -> bool {
        index == 0 || self.word(self.frame(index - 1).word as usize).holds()
    }

    /// Compares outwards from frame `from`, which must have been found, down to `to`.
    #[inline]
    pub(super) fn verify(&self, from: usize, to: usize) -> bool {
        let compared = self.frame(to).word as usize..self.frame(from).word as usize;
        debug_assert!(compared.start <= compared.end && compared.end <= WORDS_CAPACITY);
        // SAFETY: as in `word`; words are in the order of their frames.
        let words = unsafe { self.words.get_unchecked(compared) };
        // Four at a time, for this loop is what stacks of a loop cost most.
        let (outermost, fours) = words.as_rchunks::<4>();
        fours.iter().rev().all(|[a, b, c, d]| d.holds() && c.holds() && b.holds() && a.holds())
            && outermost.iter().rev().all(Word::holds)
    }

    /// How far a comparison outwards from frame `from` would get.
    pub(super) fn last_proven(&self, from: usize) -> usize {
        let mut proven = from;
        while proven > 0 {
            let words = self.frame(proven - 1).word as usize..self.frame(proven).word as usize;
            if !words.rev().all(|word| self.word(word).holds()) {
                break;
            }
            proven -= 1;
        }
        proven
    }

    /// Begins to replace all but the `base` outermost frames by up to `count` others. Those furthest out are dropped where
    /// they would not fit.
    #[inline]
    pub(super) fn rebuild(&mut self, base: usize, count: usize) -> Rebuild<'_> {
        let base = if base + count <= CAPACITY { base } else { self.drop_outermost(base, count) };
        let (old_len, was_rooted) = (self.len, self.is_rooted);
        self.len = base;
        let (words, parent, is_unchanged) = match base.checked_sub(1) {
            None => {
                (self.is_rooted, self.is_complete) = (true, false);
                (0, NodeId::NONE, was_rooted)
            }
            Some(innermost) => {
                let &StoredFrame { node, word, .. } = self.frame(innermost);
                (word as usize + 1, node, true)
            }
        };
        self.words_len = words;
        Rebuild { stack: self, at: base, end: base + count, words, parent, old_len, is_unchanged }
    }

    #[cold]
    fn drop_outermost(&mut self, base: usize, count: usize) -> usize {
        let drop = (base + count - CAPACITY + DROP_AHEAD).min(base);
        let kept = self.len.min(CAPACITY) - drop;
        let words_dropped = if kept > 0 { self.frame(drop).word } else { self.words_len as u16 };
        drop_front(&mut self.words, words_dropped as usize, self.words_len);
        self.words_len = self.words_len.saturating_sub(words_dropped as usize);
        drop_front(&mut self.frames, drop, drop + kept);
        drop_front(&mut self.fps, drop, drop + kept);
        for frame in self.frames.iter_mut().take(kept) {
            frame.word = frame.word.wrapping_sub(words_dropped);
        }
        self.len = kept;
        self.hint = 0;
        self.is_complete = false;
        self.is_rooted = false;
        base - drop
    }

    /// Drops all but the `base` outermost frames, of which there is at least one.
    #[inline]
    pub(super) fn truncate(&mut self, base: usize) {
        self.len = base;
        self.words_len = self.frame(base - 1).word as usize + 1;
        self.hint = base;
    }

    /// Frame 0 is the outermost because of its return address.
    pub(super) fn set_complete(&mut self) {
        self.is_complete = true;
        self.end = Word { address: 0, value: 0 };
    }

    /// Frame 0 is the outermost because `slot`, found by `rule`, holds no address to return to.
    pub(super) fn set_complete_at(&mut self, slot: usize, return_address: usize, rule: Rule) {
        // A frame that finds its slot by a word in memory would need a check of that too; none begins a stack.
        self.is_complete = !rule.finds_slot_in_memory();
        self.end = Word { address: slot, value: return_address };
    }

    /// To be asked of a complete stack all of which was verified.
    #[inline]
    pub(super) fn ends_as_before(&self) -> bool {
        self.end.address == 0 || self.end.holds()
    }

    /// Pushes what must be unchanged for frame `at - 1` to follow from `frame`, which will be `at`, besides its slot and
    /// return address. Returns how many words there are then, and whether the frame pointer is needed at `frame`, which is
    /// kept in that case.
    #[inline(never)]
    fn push_checks(&mut self, at: usize, words: usize, frame: &UnwoundFrame) -> (usize, bool) {
        let rule = frame.rule;
        let mut words = words;
        let mut needs_fp = rule.uses_fp();
        if let Some(outer) = at.checked_sub(1) {
            let outer_slot = self.slot(outer);
            if self.needs_fp(outer) {
                if rule.keeps_fp() {
                    needs_fp = true;
                } else {
                    let address = rule.fp_word(frame.slot, frame.fp, outer_slot);
                    let value = self.fps.get(outer).copied().unwrap_or_default();
                    words = self.push_word(words, Word { address, value });
                }
            }
            // Compared before the one above, being later: where the frame pointer was saved depends on the slot.
            if let Some((address, value)) = rule.slot_word(frame.slot, frame.fp, outer_slot) {
                words = self.push_word(words, Word { address, value });
            }
        }
        if needs_fp && let Some(kept) = self.fps.get_mut(at) {
            *kept = frame.fp;
        }
        (words, needs_fp)
    }

    /// Returns how many words there are then.
    #[inline]
    fn push_word(&mut self, words: usize, word: Word) -> usize {
        debug_assert!(words < WORDS_CAPACITY);
        // SAFETY: no frame has more than two checks, so that there is room for the words of as many frames as there may be.
        unsafe { *self.words.get_unchecked_mut(words) = word };
        words + 1
    }

    #[inline]
    fn needs_fp(&self, index: usize) -> bool {
        self.frame(index).needs_fp != 0
    }

    #[inline]
    fn return_address(&self, index: usize) -> usize {
        self.word(self.frame(index).word as usize).value
    }

    #[inline]
    fn frame(&self, index: usize) -> &StoredFrame {
        debug_assert!(index < CAPACITY);
        // SAFETY: indices are below `len` or those of a `Rebuild`, which are below CAPACITY.
        unsafe { self.frames.get_unchecked(index) }
    }

    #[inline]
    fn word(&self, index: usize) -> &Word {
        debug_assert!(index < WORDS_CAPACITY);
        // SAFETY: indices are those of frames' words or between them; `Rebuild` keeps them within the array.
        unsafe { self.words.get_unchecked(index) }
    }
}

impl Word {
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.contents() == self.value
    }

    /// What there is on the stack.
    #[inline]
    pub(super) fn contents(&self) -> usize {
        // SAFETY: remembered addresses were readable when read and belong to the stack the thread is running on, whose
        // pages stay mapped.
        unsafe { (self.address as *const usize).read_volatile() }
    }
}

/// Frames being put on top of those that stay, from the outermost inwards. [`LastStack::rebuild`] has made room for them.
pub(super) struct Rebuild<'a> {
    stack: &'a mut LastStack,
    at: usize,
    /// Where the room for frames ends.
    end: usize,
    words: usize,
    parent: NodeId,
    old_len: usize,
    /// All frames so far are what they were, so that their nodes are too.
    is_unchanged: bool,
}

impl Rebuild<'_> {
    /// Frames there are by now.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn parent(&self) -> NodeId {
        self.parent
    }

    /// The node of the next frame if that returns to the same address, after the same outer frames, as before.
    #[inline]
    pub(super) fn unchanged_node(&mut self, return_address: usize) -> Option<NodeId> {
        self.is_unchanged &= self.at < self.old_len
            // Not written over yet.
            && self.stack.frame(self.at).word as usize >= self.words
            && self.stack.return_address(self.at) == return_address;
        self.is_unchanged.then(|| self.stack.node(self.at))
    }

    /// A frame just unwound.
    #[inline]
    pub(super) fn push(&mut self, frame: &UnwoundFrame, node: NodeId) {
        let mut needs_fp = false;
        // Nearly all frames need no more than their slot.
        if !frame.rule.needs_slot_only() || self.at > 0 && self.stack.needs_fp(self.at - 1) {
            // By value: in registers, as long as nobody has a reference to `self`.
            (self.words, needs_fp) = self.stack.push_checks(self.at, self.words, frame);
        }
        let word = Word { address: frame.slot, value: frame.return_address };
        self.push_word(word, WordKind::of_frame(needs_fp), node);
    }

    /// A frame with its node, or a check, behind which there must come a frame. Without a branch on which of them it is: no
    /// processor could predict it.
    #[inline]
    pub(super) fn push_word(&mut self, word: Word, kind: WordKind, node: NodeId) {
        debug_assert!(self.at < self.end);
        // For a check that of the next frame, which will be written over it.
        let frame = StoredFrame { node, word: self.words as u16, needs_fp: kind.needs_fp().into() };
        // SAFETY: there is room for all frames of this rebuild; its callers are `CStack::intern` and `Chain::put_on`, who
        // push as many frames as they said.
        unsafe { *self.stack.frames.get_unchecked_mut(self.at) = frame };
        self.words = self.stack.push_word(self.words, word);
        self.at += usize::from(kind.is_frame());
        self.parent = node;
    }

    /// The frame pointer of a frame that needs it, which may be pushed later.
    #[inline]
    pub(super) fn set_fp(&mut self, index: usize, fp: usize) {
        if let Some(kept) = self.stack.fps.get_mut(index) {
            *kept = fp;
        }
    }

    /// Ends with the innermost frame, whose node it gives.
    #[inline]
    pub(super) fn finish(self) -> NodeId {
        self.stack.len = self.at;
        self.stack.words_len = self.words;
        self.stack.hint = self.at;
        self.parent
    }
}

/// A frame just unwound, and the rule by which the next one was.
#[derive(Clone, Copy)]
pub(super) struct UnwoundFrame {
    pub(super) slot: usize,
    pub(super) return_address: usize,
    pub(super) fp: usize,
    pub(super) rule: Rule,
}

/// Moves what is at `from` and behind it, up to `end`, to the front. Item by item: the standard library's way has a panic in it.
#[cold]
fn drop_front<T: Copy>(items: &mut [T], from: usize, end: usize) {
    for at in from..end {
        if let Some(item) = items.get(at).copied()
            && let Some(to) = items.get_mut(at - from)
        {
            *to = item;
        }
    }
}

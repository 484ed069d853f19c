//! The lane's last stack, to unwind and intern only what changed since.
//!
//! # Why comparing is enough
//!
//! Going outwards, frame `i + 1` is followed by frame `i` (the outermost is 0). For a return address the unwind row is
//! fixed (within an unload epoch, after which everything is forgotten), so where frame `i`'s return address lies
//! depends only on frame `i + 1`'s slot, return address, its frame pointer if the row is based on that
//! ([`Rule::uses_fp`]), and one word of memory if the row reads its CFA from there ([`Rule::slot_word`]). Frame `i`'s
//! frame pointer is that of `i + 1` or the contents of [`Rule::fp_word`]. So each remembered pair of neighbours states
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
use super::arch::{Frame, Rule};
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

#[derive(Clone, Copy)]
struct Place {
    node: NodeId,
    /// Where its return address is among the words.
    word: u16,
    /// Not 0: then its frame pointer is among the frame pointers.
    needs_fp: u16,
}

/// All there is to know about a frame.
pub(super) struct Known {
    pub(super) slot: usize,
    pub(super) return_address: usize,
    pub(super) node: NodeId,
    /// If it is needed.
    pub(super) fp: Option<usize>,
}

/// Zeroed memory is an empty stack. Every address in it was read through the lane's `StackMemory` since that last
/// began a new range.
pub(super) struct Remembered {
    len: usize,
    words_len: usize,
    /// Where the last search ended: the next one mostly ends nearby.
    hint: usize,
    /// Frame 0 is the outermost of the stack, not just of what was unwound: its row says so, or `end`.
    is_complete: bool,
    /// The node of frame 0 has no parent.
    is_rooted: bool,
    /// Where the return address of frame 0 lies if that is what ends the stack, else 0; and what it is.
    end: Word,
    /// All that is compared, from the outermost inwards: the return address of each frame, followed by what else must be
    /// unchanged for it to follow from the next. In one row, so that comparing is one loop.
    words: [Word; WORDS_CAPACITY],
    places: [Place; CAPACITY],
    fps: [usize; CAPACITY],
}

impl Remembered {
    pub(super) const fn new() -> Remembered {
        Remembered {
            len: 0,
            words_len: 0,
            hint: 0,
            is_complete: false,
            is_rooted: false,
            end: Word { address: 0, value: 0 },
            words: [Word { address: 0, value: 0 }; WORDS_CAPACITY],
            places: [Place { node: NodeId::NONE, word: 0, needs_fp: 0 }; CAPACITY],
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

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    #[inline]
    pub(super) fn node(&self, index: usize) -> NodeId {
        self.place(index).node
    }

    /// The node of the whole stack.
    pub(super) fn innermost(&self) -> NodeId {
        if self.len > 0 { self.node(self.len - 1) } else { NodeId::NONE }
    }

    #[inline]
    pub(super) fn slot(&self, index: usize) -> usize {
        self.word(self.place(index).word as usize).address
    }

    pub(super) fn known(&self, index: usize) -> Known {
        let &Word { address: slot, value: return_address } = self.word(self.place(index).word as usize);
        let fp = if self.needs_fp(index) { self.fps.get(index).copied() } else { None };
        Known { slot, return_address, node: self.node(index), fp }
    }

    /// What must be unchanged for frame `index` to follow from the one further in, besides its return address.
    pub(super) fn checks_of(&self, index: usize) -> &[Word] {
        let to = if index + 1 < self.len { self.place(index + 1).word as usize } else { self.words_len };
        self.words.get(self.place(index).word as usize + 1..to).unwrap_or_default()
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
    pub(super) fn has(&self, known: &Known, index: usize) -> bool {
        index < self.len
            && self.node(index) == known.node
            && self.needs_fp(index) == known.fp.is_some()
            && self.is_at(index, known.slot, known.return_address, known.fp.unwrap_or_default())
    }

    #[inline]
    fn is_at(&self, index: usize, slot: usize, return_address: usize, fp: usize) -> bool {
        let word = self.word(self.place(index).word as usize);
        word.address == slot
            && word.value == return_address
            && (!self.needs_fp(index) || self.fps.get(index) == Some(&fp))
    }

    /// Whether the frame next to `index` outwards, if there is one, is still what it was. No proof, but a hint at one.
    #[inline]
    pub(super) fn goes_on_as_before(&self, index: usize) -> bool {
        index == 0 || self.word(self.place(index - 1).word as usize).holds()
    }

    /// Compares outwards from frame `from`, which must have been found, down to `to`.
    #[inline]
    pub(super) fn verify(&self, from: usize, to: usize) -> bool {
        let compared = self.place(to).word as usize..self.place(from).word as usize;
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
            let words = self.place(proven - 1).word as usize..self.place(proven).word as usize;
            if !words.rev().all(|word| self.word(word).holds()) {
                break;
            }
            proven -= 1;
        }
        proven
    }

    /// Makes room for `count` frames on top of the `base` outermost ones, dropping those furthest out if they do not
    /// fit. Returns what is left of `base`.
    #[inline]
    pub(super) fn reserve(&mut self, base: usize, count: usize) -> usize {
        if base + count <= CAPACITY { base } else { self.drop_outermost(base, count) }
    }

    #[cold]
    fn drop_outermost(&mut self, base: usize, count: usize) -> usize {
        let drop = (base + count - CAPACITY + DROP_AHEAD).min(base);
        let kept = self.len.min(CAPACITY) - drop;
        let words_dropped = if kept > 0 { self.place(drop).word } else { self.words_len as u16 };
        drop_front(&mut self.words, words_dropped as usize, self.words_len);
        self.words_len = self.words_len.saturating_sub(words_dropped as usize);
        drop_front(&mut self.places, drop, drop + kept);
        drop_front(&mut self.fps, drop, drop + kept);
        for place in self.places.iter_mut().take(kept) {
            place.word = place.word.wrapping_sub(words_dropped);
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
        self.words_len = self.place(base - 1).word as usize + 1;
        self.hint = base;
    }

    /// Begins to replace all but the `base` outermost frames.
    #[inline]
    pub(super) fn rebuild(&mut self, base: usize) -> Rebuild {
        let (old_len, was_rooted) = (self.len, self.is_rooted);
        self.len = base;
        let Some(innermost) = base.checked_sub(1) else {
            (self.words_len, self.is_rooted, self.is_complete) = (0, true, false);
            return Rebuild { at: 0, words: 0, parent: NodeId::NONE, old_len, is_unchanged: was_rooted };
        };
        let Place { node: parent, word, .. } = *self.place(innermost);
        self.words_len = word as usize + 1;
        Rebuild { at: base, words: self.words_len, parent, old_len, is_unchanged: true }
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

    #[inline]
    fn needs_fp(&self, index: usize) -> bool {
        self.place(index).needs_fp != 0
    }

    #[inline]
    fn return_address(&self, index: usize) -> usize {
        self.word(self.place(index).word as usize).value
    }

    #[inline]
    fn place(&self, index: usize) -> &Place {
        debug_assert!(index < CAPACITY);
        // SAFETY: indices are below `len` or where `reserve` made room, hence below CAPACITY; kept by `capture`.
        unsafe { self.places.get_unchecked(index) }
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

/// Frames being put on top of those that stay, from the outermost inwards.
pub(super) struct Rebuild {
    at: usize,
    words: usize,
    parent: NodeId,
    old_len: usize,
    /// All frames so far are what they were, so that their nodes are too.
    is_unchanged: bool,
}

impl Rebuild {
    #[inline]
    pub(super) fn parent(&self) -> NodeId {
        self.parent
    }

    /// The node of the next frame if that returns to the same address, after the same outer frames, as before.
    #[inline]
    pub(super) fn unchanged_node(&mut self, stack: &Remembered, return_address: usize) -> Option<NodeId> {
        self.is_unchanged &= self.at < self.old_len
            // Not written over yet.
            && stack.place(self.at).word as usize >= self.words
            && stack.return_address(self.at) == return_address;
        self.is_unchanged.then(|| stack.node(self.at))
    }

    /// A frame just unwound.
    #[inline]
    pub(super) fn push(&mut self, stack: &mut Remembered, fresh: &Fresh, node: NodeId) {
        let mut needs_fp = false;
        // Nearly all frames need no more than their slot.
        if !fresh.rule.needs_slot_only() || self.at > 0 && stack.needs_fp(self.at - 1) {
            needs_fp = push_checks(self, stack, fresh);
        }
        self.push_frame(stack, Word { address: fresh.slot, value: fresh.return_address }, node, needs_fp);
    }

    #[inline]
    pub(super) fn push_frame(&mut self, stack: &mut Remembered, word: Word, node: NodeId, needs_fp: bool) {
        self.push_word(stack, word, node, needs_fp);
        self.at += 1;
        self.parent = node;
    }

    /// A word that must be unchanged for the last frame to follow from the next one.
    #[inline]
    fn push_check(&mut self, stack: &mut Remembered, word: Word) {
        self.push_word(stack, word, NodeId::NONE, false);
    }

    /// A frame of a chain, with its node, or a check. Without a branch, for which it is no processor could foresee.
    #[inline]
    pub(super) fn push_either(
        &mut self,
        stack: &mut Remembered,
        word: Word,
        node: NodeId,
        needs_fp: bool,
        is_frame: bool,
    ) {
        self.push_word(stack, word, node, needs_fp);
        self.at += usize::from(is_frame);
        self.parent = node;
    }

    /// Of a check the place is that of the next frame, which will be written over it: there always is one.
    #[inline]
    fn push_word(&mut self, stack: &mut Remembered, word: Word, node: NodeId, needs_fp: bool) {
        debug_assert!(self.at < CAPACITY && self.words < WORDS_CAPACITY);
        // SAFETY: `reserve` made room for all frames of this rebuild, none of which has more than two checks; kept by
        // `CStack::intern` and `Chain::put_on`.
        unsafe {
            *stack.words.get_unchecked_mut(self.words) = word;
            let place = Place { node, word: self.words as u16, needs_fp: needs_fp.into() };
            *stack.places.get_unchecked_mut(self.at) = place;
        }
        self.words += 1;
    }

    /// The frame pointer of a frame that needs it, which may be pushed later.
    #[inline]
    pub(super) fn set_fp(&self, stack: &mut Remembered, index: usize, fp: usize) {
        if let Some(place) = stack.fps.get_mut(index) {
            *place = fp;
        }
    }

    /// Ends with the innermost frame, whose node it gives.
    #[inline]
    pub(super) fn finish(self, stack: &mut Remembered) -> NodeId {
        stack.len = self.at;
        stack.words_len = self.words;
        stack.hint = self.at;
        self.parent
    }
}

/// Pushes what must be unchanged for the last frame to follow from `fresh`, besides its slot and return address; tells
/// whether the frame pointer is needed at `fresh`, and keeps it then.
#[inline(never)]
fn push_checks(rebuild: &mut Rebuild, stack: &mut Remembered, fresh: &Fresh) -> bool {
    let rule = fresh.rule;
    let mut needs_fp = rule.uses_fp();
    if let Some(outer) = rebuild.at.checked_sub(1) {
        let outer_slot = stack.slot(outer);
        if stack.needs_fp(outer) {
            if rule.keeps_fp() {
                needs_fp = true;
            } else {
                let address = rule.fp_word(fresh.slot, fresh.fp, outer_slot);
                let value = stack.fps.get(outer).copied().unwrap_or_default();
                rebuild.push_check(stack, Word { address, value });
            }
        }
        // Compared before the one above, being later: where the frame pointer was saved depends on the slot.
        if let Some((address, value)) = rule.slot_word(fresh.slot, fresh.fp, outer_slot) {
            rebuild.push_check(stack, Word { address, value });
        }
    }
    if needs_fp {
        rebuild.set_fp(stack, rebuild.at, fresh.fp);
    }
    needs_fp
}

/// A frame just unwound, and the rule by which the next one was.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
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
            && let Some(place) = items.get_mut(at - from)
        {
            *place = item;
        }
    }
}

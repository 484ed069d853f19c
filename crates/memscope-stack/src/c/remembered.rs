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
//! Rejected: remembering several stacks and trying each. Loops that alternate between call sites get faster (a third),
//! walks up and down a call tree slower (a tenth to a third), interpreters do not care.
use super::arch::{Frame, Rule};
use crate::NodeId;

/// Frames remembered at most; [`super::MAX_DEPTH`] and the slack fit in with room to grow before frames are dropped.
pub(super) const CAPACITY: usize = 1536;
const CHECKS_CAPACITY: usize = 2 * CAPACITY;
/// So many more than necessary are dropped at once where the stack outgrows the capacity.
const DROP_AHEAD: usize = 128;

/// What is compared for every frame.
#[derive(Clone, Copy)]
struct Place {
    slot: usize,
    return_address: usize,
}

#[derive(Clone, Copy)]
struct Details {
    fp: usize,
    rule: Rule,
    /// Number of checks that belong to frames further out than this one.
    checks_before: u32,
    node: NodeId,
    needs_fp: bool,
}

/// A word besides the return addresses that must be unchanged for `frame` to follow from the frame before it.
#[derive(Clone, Copy)]
struct Check {
    address: usize,
    value: usize,
    frame: usize,
}

/// Zeroed memory is an empty stack. Every address in it was read through the lane's `StackMemory` since that last
/// began a new range.
pub(super) struct Remembered {
    len: usize,
    checks_len: usize,
    /// Where the last search ended: the next one mostly ends nearby.
    hint: usize,
    /// Frame 0 is the outermost of the stack, not just of what was unwound: its row says so, or `end`.
    is_complete: bool,
    /// Where the return address of frame 0 lies if that is what ends the stack, else 0; and what it is.
    end: Place,
    /// The node of frame 0 has no parent.
    is_rooted: bool,
    places: [Place; CAPACITY],
    details: [Details; CAPACITY],
    checks: [Check; CHECKS_CAPACITY],
}

impl Remembered {
    pub(super) const fn new() -> Remembered {
        let details = Details { fp: 0, rule: Rule::NONE, checks_before: 0, node: NodeId::NONE, needs_fp: false };
        Remembered {
            len: 0,
            checks_len: 0,
            hint: 0,
            is_complete: false,
            is_rooted: false,
            end: Place { slot: 0, return_address: 0 },
            places: [Place { slot: 0, return_address: 0 }; CAPACITY],
            details: [details; CAPACITY],
            checks: [Check { address: 0, value: 0, frame: 0 }; CHECKS_CAPACITY],
        }
    }

    pub(super) fn forget(&mut self) {
        self.len = 0;
        self.checks_len = 0;
        self.hint = 0;
        self.is_complete = false;
        self.is_rooted = false;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    #[inline]
    pub(super) fn node(&self, index: usize) -> NodeId {
        self.details(index).node
    }

    /// The frame next to `index` outwards, given the frame pointer at `index` and a way to read the stack.
    pub(super) fn outer_of(&self, index: usize, fp: usize, read: impl FnOnce(usize) -> usize) -> (usize, usize, usize) {
        let (place, outer) = (self.place(index), self.place(index.saturating_sub(1)));
        let rule = self.details(index).rule;
        let outer_fp = if rule.keeps_fp() { fp } else { read(rule.fp_word(place.slot, fp, outer.slot)) };
        (outer.slot, outer.return_address, outer_fp)
    }

    pub(super) fn rule(&self, index: usize) -> Rule {
        self.details(index).rule
    }

    /// The remembered frame from which everything outer follows as it does from `frame`.
    #[inline]
    pub(super) fn find(&mut self, frame: &Frame) -> Option<usize> {
        // Slots fall with the index; `after` becomes the number of frames whose slot is not below the wanted one.
        let mut after = self.hint;
        while after < self.len && self.place(after).slot >= frame.slot {
            after += 1;
        }
        self.hint = after;
        self.find_outwards(frame)
    }

    /// The same, for a frame further out than the last one looked for.
    #[inline]
    pub(super) fn find_outwards(&mut self, frame: &Frame) -> Option<usize> {
        let mut after = self.hint;
        while after > 0 && self.place(after - 1).slot < frame.slot {
            after -= 1;
        }
        self.hint = after;
        let index = after.checked_sub(1)?;
        let place = self.place(index);
        if place.slot != frame.slot || place.return_address != frame.return_address {
            return None;
        }
        let details = self.details(index);
        (!details.needs_fp || details.fp == frame.fp).then_some(index)
    }

    /// Whether the frame next to `index` outwards, if there is one, is still what it was. No proof, but a hint at one.
    #[inline]
    pub(super) fn goes_on_as_before(&self, index: usize) -> bool {
        index == 0 || self.place(index - 1).holds()
    }

    /// Compares outwards from frame `from`, which must have been found, down to `to`; returns the last proven frame.
    #[inline]
    pub(super) fn verify(&self, from: usize, to: usize) -> usize {
        let mut proven = from;
        let mut checks = self.details(from).checks_before as usize;
        while proven > to {
            // Frames without checks of their own, in one tight loop.
            let checked = if checks > 0 { (self.check(checks - 1).frame + 1).max(to) } else { to };
            while proven > checked {
                if !self.place(proven - 1).holds() {
                    return proven;
                }
                proven -= 1;
            }
            if proven == to {
                break;
            }
            while checks > 0 && self.check(checks - 1).frame == proven - 1 {
                if !self.check(checks - 1).holds() {
                    return proven;
                }
                checks -= 1;
            }
            if !self.place(proven - 1).holds() {
                return proven;
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
        self.places.copy_within(drop..drop + kept, 0);
        self.details.copy_within(drop..drop + kept, 0);
        let checks_dropped = self.checks.iter().take(self.checks_len).take_while(|check| check.frame < drop).count();
        self.checks.copy_within(checks_dropped..self.checks_len, 0);
        self.checks_len -= checks_dropped;
        for check in self.checks.iter_mut().take(self.checks_len) {
            check.frame -= drop;
        }
        for details in self.details.iter_mut().take(kept) {
            details.checks_before = details.checks_before.saturating_sub(checks_dropped as u32);
        }
        self.len = kept;
        self.hint = 0;
        self.is_complete = false;
        self.is_rooted = false;
        base - drop
    }

    /// Begins to replace all but the `base` outermost frames.
    pub(super) fn rebuild(&mut self, base: usize) -> Rebuild {
        let rebuild = Rebuild {
            at: base,
            parent: if base > 0 { self.node(base - 1) } else { NodeId::NONE },
            old_len: self.len,
            is_unchanged: base > 0 || self.is_rooted,
        };
        self.checks_len = if base > 0 { self.details(base - 1).checks_before as usize } else { 0 };
        if base == 0 {
            self.is_rooted = true;
            self.is_complete = false;
        }
        self.len = base;
        rebuild
    }

    /// Frame 0 is the outermost because of its return address.
    pub(super) fn set_complete(&mut self) {
        self.is_complete = true;
        self.end = Place { slot: 0, return_address: 0 };
    }

    /// Frame 0 is the outermost because `slot` holds no address to return to.
    pub(super) fn set_complete_at(&mut self, slot: usize, return_address: usize) {
        // A frame that finds its slot by a word in memory would need a check of that too; none begins a stack.
        self.is_complete = self.len > 0 && !self.details(0).rule.finds_slot_in_memory();
        self.end = Place { slot, return_address };
    }

    /// To be asked of a complete stack all of which was verified.
    #[inline]
    pub(super) fn ends_as_before(&self) -> bool {
        self.end.slot == 0 || self.end.holds()
    }

    fn push_check(&mut self, address: usize, value: usize, frame: usize) {
        // Two checks a frame at most, so the table is large enough.
        if let Some(check) = self.checks.get_mut(self.checks_len) {
            *check = Check { address, value, frame };
            self.checks_len += 1;
        }
    }

    #[inline]
    fn place(&self, index: usize) -> &Place {
        debug_assert!(index < CAPACITY);
        // SAFETY: indices are below `len` or where `reserve` made room, hence below CAPACITY; kept by `capture`.
        unsafe { self.places.get_unchecked(index) }
    }

    #[inline]
    fn details(&self, index: usize) -> &Details {
        debug_assert!(index < CAPACITY);
        // SAFETY: as in `place`.
        unsafe { self.details.get_unchecked(index) }
    }

    #[inline]
    fn check(&self, index: usize) -> &Check {
        debug_assert!(index < CHECKS_CAPACITY);
        // SAFETY: indices are below `checks_len`, which `push_check` keeps within the array.
        unsafe { self.checks.get_unchecked(index) }
    }
}

impl Place {
    #[inline]
    fn holds(&self) -> bool {
        // SAFETY: remembered addresses were readable when read and belong to the stack the thread is running on, whose
        // pages stay mapped.
        unsafe { (self.slot as *const usize).read_volatile() == self.return_address }
    }
}

impl Check {
    #[inline]
    fn holds(&self) -> bool {
        // SAFETY: as in `Place::holds`.
        unsafe { (self.address as *const usize).read_volatile() == self.value }
    }
}

/// Frames being put on top of those that stay, from the outermost inwards.
pub(super) struct Rebuild {
    at: usize,
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
        self.is_unchanged &= self.at < self.old_len && stack.place(self.at).return_address == return_address;
        self.is_unchanged.then(|| stack.node(self.at))
    }

    #[inline]
    pub(super) fn push(&mut self, stack: &mut Remembered, fresh: &Fresh, node: NodeId) {
        let at = self.at;
        let rule = fresh.rule;
        let mut needs_fp = false;
        // Nearly all frames need no more than their slot.
        if !rule.needs_slot_only() || at > 0 && stack.details(at - 1).needs_fp {
            needs_fp = push_checks(stack, fresh, at);
        }
        let checks_before = stack.checks_len as u32;
        debug_assert!(at < CAPACITY);
        // SAFETY: `reserve` made room for all frames of this rebuild; kept by `CStack::intern`.
        unsafe {
            *stack.places.get_unchecked_mut(at) = Place { slot: fresh.slot, return_address: fresh.return_address };
            *stack.details.get_unchecked_mut(at) = Details { fp: fresh.fp, rule, checks_before, node, needs_fp };
        }
        self.at = at + 1;
        self.parent = node;
    }

    /// Ends with the innermost frame, whose node it gives.
    #[inline]
    pub(super) fn finish(self, stack: &mut Remembered) -> NodeId {
        stack.len = self.at;
        stack.hint = self.at;
        self.parent
    }
}

/// Notes what must be unchanged for the frame at `at - 1` to follow from `fresh`, besides its slot and return address; tells
/// whether the frame pointer is needed at `fresh`.
#[inline(never)]
fn push_checks(stack: &mut Remembered, fresh: &Fresh, at: usize) -> bool {
    let rule = fresh.rule;
    let mut needs_fp = rule.uses_fp();
    if at > 0 {
        let outer = stack.details(at - 1);
        let (outer_needs_fp, outer_fp) = (outer.needs_fp, outer.fp);
        let outer_slot = stack.place(at - 1).slot;
        if outer_needs_fp {
            if rule.keeps_fp() {
                needs_fp = true;
            } else {
                stack.push_check(rule.fp_word(fresh.slot, fresh.fp, outer_slot), outer_fp, at - 1);
            }
        }
        // Compared before the one above, being later: where the frame pointer was saved depends on the slot.
        if let Some((address, value)) = rule.slot_word(fresh.slot, fresh.fp, outer_slot) {
            stack.push_check(address, value, at - 1);
        }
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

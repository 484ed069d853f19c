//! Native frames: the calling thread's own stack, without frame pointers, without symbols, without allocation.
//!
//! Four things make it cheap. Unwind tables are interpreted once per return address (`cfi`) and kept as one word in
//! a process-wide cache (`row_table`). Only frames that changed since the lane's last stack are unwound, the others are
//! compared (`last_stack`, which also says why that is sound). Stacks are nodes of the lane's prefix tree, so only
//! changed frames are looked up in it. Changed frames that came before are not even unwound or looked up but compared
//! too (`chains`).
//!
//! # What is kept, and when it is forgotten
//!
//! | | holds | library unloaded, start over | tree full | other thread | other stack | signal crossed | fork |
//! |---|---|---|---|---|---|---|---|
//! | last stack, pending chain | words of the stack, nodes | forgotten | forgotten | forgotten | forgotten | forgotten | – |
//! | chains | words of the stack, nodes | forgotten | forgotten | forgotten | forgotten | | – |
//! | stack memory | what is readable | forgotten | | forgotten | begins anew | may begin anew | – |
//! | near rows | address → row | forgotten | | | | | – |
//! | modules | addresses, numbers in the spool | forgotten | | | | | – |
//! | rows of the process | address, epoch → row | not found any more | | | | | kept |
//! | tree | frames → nodes | forgotten | forgotten | | | | – |
//! | Python frames | frames, nodes | forgotten | nodes | | | | – |
//! | Python code | addresses, numbers in the spool | forgotten | | | | | – |
//!
//! * *Library unloaded*: the same address may mean another function. Noticed by the epoch at the next capture; one that
//!   finds a module gone in its midst begins an epoch itself, and asks for its modules anew. *Start over* are those cases in
//!   which it is not known what a lane has: a jump out of the recorder (found by [`find_frame`]), a definition that was lost.
//! * *Tree full*: what keeps nodes forgets them, so that no node from before is ever referred to again.
//! * *Other thread*: another thread has the lane. Its stack is elsewhere, and may even have the same addresses.
//! * *Other stack*: the stack pointer is not near what is known to be readable (coroutines, alternate signal stacks); what
//!   was remembered may be unmapped.
//! * *Signal crossed*: frames outside a handler are unwound but lie in no order, so that they are not remembered.
//! * *Fork*: a child's lanes are new (–), but the process's rows are of code that it has as well.
//! * A jump (`longjmp`, an exception) is no event: whatever is remembered is compared before it is believed. So is what is
//!   kept of Python frames when another thread has the lane.
//!
//! The first four columns are a function each: [`CStack::forget`], [`CStack::forget_nodes`], [`CStack::change_thread`] and
//! `leave_stack`; the recorder's `Stacks` has the first three for the tree and Python as well. (What the writer knows of
//! frames that followed each other is no matter of stacks, but of the generation: it begins anew with each.)
//!
//! # The caller's duties
//!
//! One [`CStack`] per lane; [`library_unloaded`] after every `dlclose` that may have unmapped something, unless
//! [`notices_unloads`]; [`CStack::forget`] together with `Tree::forget` when [`unload_epoch`] differs from what it was at the
//! lane's last capture; [`CStack::forget_nodes`] with `Tree::forget` when the tree is full; [`CStack::change_thread`] when
//! another thread takes over the lane.
mod arch;
#[cfg(target_arch = "x86_64")]
mod cfi;
mod chain_cells;
mod chains;
mod known_objects;
mod last_stack;
mod loader;
mod maps;
mod memory;
mod modules;
#[cfg(target_arch = "x86_64")]
mod near_rows;
mod objects;
#[cfg(target_arch = "x86_64")]
mod row;
#[cfg(target_arch = "x86_64")]
mod row_table;
mod search;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use crate::tree::{FrameKey, Interned, NO_EPOCH, Tree};
use crate::{DefinitionSink, Frame as FrameDefinition, NodeId};
use arch::{Current, Frame, NearRows, Processor, Rule, Step, UnwindRule};
use chain_cells::Position;
use chains::{Chain, ChainKey, Chains};
use core::sync::atomic::{AtomicU64, Ordering};
use last_stack::{LastStack, UnwoundFrame};
use memory::StackMemory;
use modules::Modules;
pub use search::{Search, find_frame};

/// Most frames a capture can be asked for.
pub const MAX_DEPTH: usize = 1000;
const MAX_UNWOUND: usize = MAX_DEPTH + MAX_SLACK;
const MAX_SLACK: usize = 128;
/// No function begins in the first page: an address there ends the stack.
const LOWEST_CODE: usize = 4096;

/// The unload epoch in the low half: after a library was unloaded, an address may belong to another function than before.
/// In the high half how many unloads the loader had counted then. In one word, so that nobody sees the new count with the
/// old epoch.
static EPOCH: AtomicU64 = AtomicU64::new(0);
const COUNTED_SHIFT: u32 = 32;

/// Process-wide, once, from a constructor: takes what needs the loader's locks. Without it captures work too, but ask
/// the kernel about addresses the lane has not seen, and unloaded libraries are noticed only through [`library_unloaded`].
pub fn initialise() {
    loader::initialise();
}

/// Whether unloaded libraries are noticed without [`library_unloaded`].
pub fn notices_unloads() -> bool {
    loader::counts_unloads()
}

/// Process-wide: a library was unloaded, unwind rows of its addresses hold no more. To be called after it was unmapped;
/// threads that capture at the same time finish with what held when they began.
pub fn library_unloaded() {
    begin_epoch(EPOCH.load(Ordering::Acquire));
}

/// Changes with every unloaded library.
#[inline]
pub fn unload_epoch() -> u32 {
    let epoch = EPOCH.load(Ordering::Acquire);
    if (epoch >> COUNTED_SHIFT) as u32 == loader::unloads_in_one_namespace() { epoch as u32 } else { next_epoch(epoch) }
}

/// The epoch if the loader has counted unloads since `epoch`, or if there is more to count.
#[cold]
fn next_epoch(epoch: u64) -> u32 {
    if (epoch >> COUNTED_SHIFT) as u32 == loader::unloads() { epoch as u32 } else { begin_epoch(epoch) }
}

/// Begins another epoch than `before`, if nobody else has, with what the loader has counted by now.
#[cold]
fn begin_epoch(before: u64) -> u32 {
    let mut before = before;
    loop {
        let counted = loader::unloads();
        let next = (before as u32 + 1) % NO_EPOCH;
        Current::epoch_begins(next);
        let begun = u64::from(counted) << COUNTED_SHIFT | u64::from(next);
        match EPOCH.compare_exchange(before, begun, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return next,
            Err(other) if (other >> COUNTED_SHIFT) as u32 == counted => return other as u32,
            // A thread that was slower, or faster: its epoch is no more than one of those that were needed.
            Err(other) => before = other,
        }
    }
}

/// Captures the native stacks of one thread at a time. Zeroed memory is a valid empty one.
pub struct CStack {
    last: LastStack,
    memory: StackMemory,
    modules: Modules,
    near_rows: NearRows,
    chains: Chains,
    /// The last stack goes on with this chain.
    pending: Pending,
    /// How many stacks in a row were not the predicted ones.
    mispredicted: usize,
    /// Frames of the capture under way, innermost first.
    unwound: [UnwoundFrame; MAX_UNWOUND],
    /// Captures that were chains.
    #[cfg(test)]
    followed: usize,
}

/// A chain that is on top of the remembered frames, but not put there yet: mostly the next stack is a chain too, on one of
/// the frames further out, and nobody asks for the frames of this one.
struct Pending {
    position: Position,
    slot: usize,
    return_address: usize,
}

impl Pending {
    const NONE: Pending = Pending { position: Position::NONE, slot: 0, return_address: 0 };
}

impl Default for CStack {
    fn default() -> Self {
        CStack::new()
    }
}

impl CStack {
    pub const fn new() -> CStack {
        let unwound = UnwoundFrame { slot: 0, return_address: 0, fp: 0, rule: Rule::NONE };
        CStack {
            last: LastStack::new(),
            memory: StackMemory::new(),
            modules: Modules::new(),
            near_rows: NearRows::new(),
            chains: Chains::new(),
            pending: Pending::NONE,
            mispredicted: 0,
            unwound: [unwound; MAX_UNWOUND],
            #[cfg(test)]
            followed: 0,
        }
    }

    /// A library was unloaded, or it is not known what the lane has: forgets all that was learnt.
    pub fn forget(&mut self) {
        self.change_thread();
        self.modules.forget();
        self.near_rows.forget();
    }

    /// Another thread has the lane: forgets what was learnt about the stack. Modules and rows are the process's and stay.
    pub fn change_thread(&mut self) {
        self.leave_stack();
        self.memory.forget();
    }

    /// The tree was forgotten: so are the nodes here.
    pub fn forget_nodes(&mut self) {
        self.forget_last();
        self.chains.forget();
    }

    /// The thread runs on another stack: what is remembered may not be read any more. `memory` knows.
    fn leave_stack(&mut self) {
        self.forget_last();
        self.chains.forget();
    }

    /// Forgets the last stack only: the next capture unwinds every frame.
    pub fn forget_last(&mut self) {
        self.pending = Pending::NONE;
        self.last.forget();
    }

    /// The node of the innermost frame, `NONE` if nothing could be unwound. The `depth` innermost frames (1 to
    /// [`MAX_DEPTH`]) are right, or the complete stack if that is shorter; outer ones may be of another time.
    ///
    /// # Safety
    /// `sp` and `fp` must be the calling thread's stack pointer at entry of a function that has not returned yet (on
    /// x86-64 `*sp` is its return address; on aarch64 `sp` is the address of a frame record made there: the caller's
    /// x29, then the return address) and the frame pointer register at that moment. If the lane belonged to another
    /// thread before, `change_thread` must have been called, and `forget` if a library was unloaded.
    #[inline]
    pub unsafe fn capture<S: DefinitionSink>(
        &mut self,
        sp: usize,
        fp: usize,
        depth: usize,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        let depth = depth.clamp(1, MAX_DEPTH);
        if !self.memory.enter(sp) {
            self.leave_stack();
        }
        let Some(frame) = Current::entry(sp, fp, &mut self.memory) else { return NodeId::NONE };
        if self.pending.position != Position::NONE {
            if frame.slot == self.pending.slot
                && frame.return_address == self.pending.return_address
                && let Some(node) = self.follow_again(&frame, depth)
            {
                return node;
            }
        } else if self.last.ends_with(&frame) {
            let innermost = self.last.len() - 1;
            if self.is_proven(innermost, depth) {
                return self.last.node(innermost);
            }
        }
        match self.follow_next(&frame, depth) {
            Some(node) => node,
            None => self.find_or_unwind(&frame, depth, tree, sink),
        }
    }

    /// The part of the last stack that begins with the hook entered at `sp`, which has been at work since before that capture;
    /// `None` if it is not known. Unlike a capture it leaves what is remembered, and expected next, as it is.
    ///
    /// # Safety
    /// As for [`CStack::capture`].
    #[inline]
    pub unsafe fn outward_from(&mut self, sp: usize, fp: usize, depth: usize) -> Option<NodeId> {
        let depth = depth.clamp(1, MAX_DEPTH);
        let frame = Current::entry(sp, fp, &mut self.memory)?;
        match self.chains.at(self.pending.position) {
            Some(chain) => {
                let (node, frames) = chain.outward_from(&frame)?;
                let wanted = depth.saturating_sub(frames).max(1);
                is_proven(&self.last, self.last.len().checked_sub(1)?, wanted).then_some(node)
            }
            None => {
                let index = self.last.find(&frame)?;
                self.is_proven(index, depth).then(|| self.last.node(index))
            }
        }
    }

    #[inline(always)]
    fn is_proven(&self, index: usize, depth: usize) -> bool {
        is_proven(&self.last, index, depth)
    }

    /// Puts the pending chain on the remembered frames.
    #[inline(never)]
    fn put_pending(&mut self) {
        put_pending(&mut self.pending, &self.chains, &mut self.last);
    }

    /// The stack if what is new of it is a chain that was kept: one of the two that came after the last one.
    #[inline(never)]
    fn follow_next(&mut self, first: &Frame, depth: usize) -> Option<NodeId> {
        /// After so many in a row only one in as many is tried: there are programs that cannot be predicted.
        const PATIENCE: usize = 16;
        self.mispredicted += 1;
        if self.mispredicted > PATIENCE && !self.mispredicted.is_multiple_of(PATIENCE) {
            return None;
        }
        let chain = self.chains.next(first)?;
        let (node, position) = (chain.node(), chain.position());
        if !follow(&chain, &mut self.pending, &self.chains, &mut self.last, depth) {
            return None;
        }
        self.mispredicted = 0;
        self.followed(position, first);
        Some(node)
    }

    /// The stack if it is the same as the last one, which was a chain. What comes twice is worth being put on the remembered
    /// frames.
    #[inline(never)]
    fn follow_again(&mut self, first: &Frame, depth: usize) -> Option<NodeId> {
        let chain = self.chains.compare(self.pending.position, first).ok()?;
        let node = chain.node();
        if !follow(&chain, &mut self.pending, &self.chains, &mut self.last, depth) {
            return None;
        }
        self.put_pending();
        Some(node)
    }

    /// The same for that of a key, which becomes the key by which to keep what is none.
    #[inline]
    fn follow_key(&mut self, first: &Frame, key: &mut ChainKey, depth: usize) -> Option<NodeId> {
        /// Chains are told apart by so many differences beyond their innermost frames.
        const MOST_DIFFERENCES: usize = 3;
        for _ in 0..=MOST_DIFFERENCES {
            match self.chains.find(*key, first) {
                Ok(chain) => {
                    let (node, position) = (chain.node(), chain.position());
                    if !follow(&chain, &mut self.pending, &self.chains, &mut self.last, depth) {
                        return None;
                    }
                    self.followed(position, first);
                    return Some(node);
                }
                Err(Some(further)) => *key = further,
                Err(None) => break,
            }
        }
        None
    }

    #[inline(always)]
    fn followed(&mut self, position: Position, first: &Frame) {
        #[cfg(test)]
        {
            self.followed += 1;
        }
        self.pending = Pending { position, slot: first.slot, return_address: first.return_address };
        self.chains.followed(position);
    }

    /// The stack if it is a part of the last one or some chain, else unwound. Out of the way of what is more frequent in a
    /// loop.
    #[inline(never)]
    fn find_or_unwind<S: DefinitionSink>(
        &mut self,
        first: &Frame,
        depth: usize,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        if first.slot > self.pending.slot && self.chains.at(self.pending.position).is_some_and(|chain| chain.has(first))
        {
            self.put_pending();
        }
        if let Some(index) = self.last.find(first)
            && self.is_proven(index, depth)
        {
            return self.last.node(index);
        }
        let mut key = self.key(first);
        // A signal among the frames of the key may have led to another stack.
        if !self.memory.enter(first.slot) {
            self.leave_stack();
        }
        match self.follow_key(first, &mut key, depth) {
            Some(node) => node,
            None => self.unwind(first, key, depth, tree, sink),
        }
    }

    /// Unwinds the innermost frames to look a chain up by.
    #[inline]
    fn key(&mut self, first: &Frame) -> ChainKey {
        let Frame { slot, return_address, sp, fp } = *first;
        let mut frame = Frame { slot, return_address, sp, fp };
        let mut key = ChainKey::new(first);
        let epoch = unload_epoch();
        for _ in 1..ChainKey::FRAMES {
            let (step, _, outer) =
                Current::step(frame, &mut self.memory, &mut self.modules, &mut self.near_rows, epoch);
            if step != Step::Outer {
                break;
            }
            frame = outer;
            key = key.with(frame.return_address);
        }
        key
    }

    /// Unwinds the stack up to frames that stayed.
    #[inline(never)]
    fn unwind<S: DefinitionSink>(
        &mut self,
        first: &Frame,
        key: ChainKey,
        depth: usize,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        self.put_pending();
        // Field by field, here and below: a frame copied as a whole goes through memory, in wider pieces than it was
        // written in, which stalls (measured: twice the time per frame).
        let Frame { slot, return_address, sp, fp } = *first;
        let mut frame = Frame { slot, return_address, sp, fp };
        let epoch = unload_epoch();
        // Some frames more than asked for, so that a stack that gets shallower need not be unwound again.
        let limit = depth + (depth / 4).clamp(32, MAX_SLACK);
        let mut count = 0;
        let mut base = 0;
        let mut end = Step::Outer;
        let mut crosses_signal = false;
        let mut rule = Rule::NONE;
        // Up to here the stack is known to go on as before, but not further.
        let mut tried = 0;
        while count < limit && Current::code_address(frame.return_address) >= LOWEST_CODE {
            // A single frame that is as it was, below others than before, is not worth the proof.
            if !crosses_signal
                && frame.slot > tried
                && let Some(index) = self.last.find_outwards(&frame)
                && self.last.goes_on_as_before(index)
            {
                let wanted = depth.saturating_sub(count).max(1);
                if self.is_proven(index, wanted) {
                    base = index + 1;
                    break;
                }
                tried = self.last.slot(self.last.last_proven(index));
            }
            let mut unwound =
                UnwoundFrame { slot: frame.slot, return_address: frame.return_address, fp: frame.fp, rule: Rule::NONE };
            if crosses_signal && frame.is_interrupted() {
                // Stopped at an instruction, not behind a call: one higher, as behind a call of one byte, so that readers
                // may treat all frames alike.
                unwound.return_address += 1;
            }
            (end, rule, frame) = Current::step(frame, &mut self.memory, &mut self.modules, &mut self.near_rows, epoch);
            unwound.rule = rule;
            count = self.push_unwound(unwound, count);
            if end != Step::Outer {
                if end != Step::Interrupted {
                    break;
                }
                crosses_signal = true;
            }
        }
        let node = self.intern(base, count, tree, sink);
        if crosses_signal || node == NodeId::NONE {
            // Frames outside a signal may lie on another stack, in no order: not worth remembering.
            self.last.forget();
        } else if base == 0 && matches!(end, Step::End | Step::Unknown) {
            self.last.set_complete();
        } else if base == 0 && Current::code_address(frame.return_address) < LOWEST_CODE {
            self.last.set_complete_at(frame.slot, frame.return_address, rule);
        } else if base > 0 {
            self.chains.note(key, count, &self.last);
        }
        node
    }

    #[inline]
    fn push_unwound(&mut self, frame: UnwoundFrame, count: usize) -> usize {
        match self.unwound.get_mut(count) {
            Some(next) => {
                *next = frame;
                count + 1
            }
            None => count,
        }
    }

    /// Puts the `count` unwound frames on top of the `base` outermost remembered ones, giving them nodes from the
    /// outermost inwards.
    #[inline]
    fn intern<S: DefinitionSink>(&mut self, base: usize, count: usize, tree: &mut Tree, sink: &mut S) -> NodeId {
        let mut rebuild = self.last.rebuild(base, count);
        for frame in self.unwound.get(..count).unwrap_or_default().iter().rev() {
            let node = match rebuild.unchanged_node(frame.return_address) {
                Some(node) => node,
                None => {
                    let parent = rebuild.parent();
                    let address = Current::code_address(frame.return_address);
                    match tree.intern(parent, FrameKey::c(address)) {
                        Interned::Known(node) => node,
                        Interned::New(node) => {
                            define_node(node, parent, address, &mut self.modules, sink);
                            node
                        }
                        Interned::Full => return NodeId::NONE,
                    }
                }
            };
            rebuild.push(frame, node);
        }
        rebuild.finish()
    }
}

/// Whether the `depth` frames outwards from `index`, or all there are, are still what they were.
#[inline(never)]
fn is_proven(last: &LastStack, index: usize, depth: usize) -> bool {
    let outermost = (index + 1).saturating_sub(depth);
    let goes_on = || index + 1 >= depth || last.is_complete() && last.ends_as_before();
    last.verify(index, outermost) && goes_on()
}

/// Whether the stack goes on outwards from `chain`, which is on it, with frames of the last stack. Those further in are
/// forgotten then.
#[inline(always)]
fn follow(chain: &Chain, pending: &mut Pending, chains: &Chains, last: &mut LastStack, depth: usize) -> bool {
    let (joint, index) = chain.joint();
    if index >= last.len() {
        put_pending(pending, chains, last);
    }
    let wanted = depth.saturating_sub(chain.len()).max(1);
    let goes_on = last.has(&joint, index) && is_proven(last, index, wanted);
    if goes_on {
        last.truncate(index + 1);
    }
    goes_on
}

#[inline(never)]
fn put_pending(pending: &mut Pending, chains: &Chains, last: &mut LastStack) {
    if let Some(chain) = chains.at(pending.position) {
        chain.put_on(last.len(), last);
    }
    *pending = Pending::NONE;
}

#[cold]
fn define_node<S: DefinitionSink>(node: NodeId, parent: NodeId, address: usize, modules: &mut Modules, sink: &mut S) {
    // The call is in the module; a return address may be one past its end.
    let frame = match modules.define(address - 1, sink) {
        Some((module, bias)) => FrameDefinition::C { module, offset: address.wrapping_sub(bias) as u64 },
        None => FrameDefinition::Unknown { address: address as u64 },
    };
    sink.node(node, parent, frame);
}

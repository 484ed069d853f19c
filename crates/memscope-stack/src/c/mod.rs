//! Native frames: the calling thread's own stack, without frame pointers, without symbols, without allocation.
//!
//! Three things make it cheap. Unwind tables are interpreted once per return address (`cfi`) and kept as one word in
//! a process-wide cache (`rows`). Only frames that changed since the lane's last stack are unwound, the others are
//! compared (`remembered`, which also says why that is sound). Stacks are nodes of the lane's prefix tree, so only
//! changed frames are looked up in it.
//!
//! The caller's duties: one [`CStack`] per lane; [`library_unloaded`] after every `dlclose` that may have unmapped
//! something; [`CStack::forget`] together with `Tree::forget` when [`unload_epoch`] differs from what it was at the
//! lane's last capture, and when another thread takes over the lane.
mod arch;
#[cfg(target_arch = "x86_64")]
mod cfi;
mod memory;
mod modules;
mod remembered;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use crate::tree::{FrameKey, Interned, Tree};
use crate::{DefinitionSink, Frame as FrameDefinition, NodeId};
use arch::{Frame, Link, Step};
use core::sync::atomic::{AtomicU32, Ordering};
use memory::StackMemory;
use modules::Modules;
use remembered::{Fresh, Remembered};

/// Most frames a capture can be asked for.
pub const MAX_DEPTH: usize = 1000;
const MAX_UNWOUND: usize = MAX_DEPTH + MAX_SLACK;
const MAX_SLACK: usize = 128;
/// No function begins in the first page: an address there ends the stack.
const LOWEST_CODE: usize = 4096;

/// Counts unloaded libraries: after one, an address may belong to another function than before.
static UNLOADS: AtomicU32 = AtomicU32::new(0);

/// Process-wide, once, from a constructor: takes what needs `dlsym`. Without it captures work too, but ask
/// `dl_iterate_phdr`, which takes the loader's lock, about addresses the lane has not seen.
pub fn initialise() {
    modules::initialise();
}

/// Process-wide: a library was unloaded, unwind rows of its addresses hold no more. To be called after it was unmapped;
/// threads that capture at the same time finish with what held when they began.
pub fn library_unloaded() {
    let epoch = UNLOADS.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    arch::epoch_began(epoch);
}

/// Changes with every unloaded library.
#[inline]
pub fn unload_epoch() -> u32 {
    UNLOADS.load(Ordering::Acquire)
}

/// Captures the native stacks of one thread at a time. Zeroed memory is a valid empty one.
pub struct CStack {
    remembered: Remembered,
    memory: StackMemory,
    modules: Modules,
    /// Frames of the capture under way, innermost first.
    fresh: [Fresh; MAX_UNWOUND],
}

impl Default for CStack {
    fn default() -> Self {
        CStack::new()
    }
}

impl CStack {
    pub const fn new() -> CStack {
        let fresh = Fresh { slot: 0, return_address: 0, fp: 0, link: Link::NONE, is_interrupted: false };
        CStack {
            remembered: Remembered::new(),
            memory: StackMemory::new(),
            modules: Modules::new(),
            fresh: [fresh; MAX_UNWOUND],
        }
    }

    /// Drops all that was learnt: the last stack, what is readable, which modules the spool knows.
    pub fn forget(&mut self) {
        self.remembered.forget();
        self.memory.forget();
        self.modules.forget();
    }

    /// Drops the last stack only: the next capture unwinds every frame.
    pub fn forget_last(&mut self) {
        self.remembered.forget();
    }

    /// The node of the innermost frame, `NONE` if nothing could be unwound. The `depth` innermost frames (1 to
    /// [`MAX_DEPTH`]) are right, or the complete stack if that is shorter; outer ones may be of another time.
    ///
    /// # Safety
    /// `sp` and `fp` must be the calling thread's stack pointer at entry of a function that has not returned yet (on
    /// x86-64 `*sp` is its return address; on aarch64 `sp` is the address of a frame record made there: the caller's
    /// x29, then the return address) and the frame pointer register at that moment. If the lane belonged to another
    /// thread before, or a library was unloaded, `forget` must have been called.
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
            self.remembered.forget();
        }
        let Some(frame) = arch::entry(sp, fp, &mut self.memory) else { return NodeId::NONE };
        // The whole stack is as it was, or shorter: nothing to unwind.
        if let Some(index) = self.remembered.find(&frame)
            && self.is_proven(index, depth)
        {
            return self.remembered.node(index);
        }
        self.capture_changed(frame, depth, tree, sink)
    }

    /// Whether the `depth` frames outwards from `index`, or all there are, are still what is remembered.
    #[inline]
    fn is_proven(&self, index: usize, depth: usize) -> bool {
        let outermost = (index + 1).saturating_sub(depth);
        if index + 1 < depth && !self.remembered.is_complete() {
            return false;
        }
        self.remembered.verify(index, outermost) == outermost
            && (index + 1 >= depth || self.remembered.ends_as_before())
    }

    fn capture_changed<S: DefinitionSink>(
        &mut self,
        mut frame: Frame,
        depth: usize,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        let epoch = unload_epoch();
        // Some frames more than asked for, so that a stack that gets shallower need not be unwound again.
        let limit = depth + (depth / 4).clamp(32, MAX_SLACK);
        let mut count = 0;
        let mut base = 0;
        let mut is_complete = false;
        let mut crosses_signal = false;
        while count < limit && arch::code_address(frame.return_address) >= LOWEST_CODE {
            if !crosses_signal && let Some(index) = self.remembered.find(&frame) {
                let wanted = depth.saturating_sub(count).max(1);
                if self.is_proven(index, wanted) {
                    base = index + 1;
                    break;
                }
                let outermost = (index + 1).saturating_sub(wanted);
                let proven = self.remembered.verify(index, outermost);
                frame = self.take_over(index, proven, frame, &mut count);
            }
            let step = arch::step(&frame, &mut self.memory, &mut self.modules, epoch);
            let link = if let Step::Outer(_, link) = &step { *link } else { Link::NONE };
            self.push_fresh(&frame, link, &mut count);
            match step {
                Step::Outer(outer, _) => frame = outer,
                Step::Interrupted(outer) => {
                    crosses_signal = true;
                    frame = outer;
                }
                Step::End => {
                    is_complete = true;
                    break;
                }
                Step::Lost => break,
            }
        }
        let has_end_word = arch::code_address(frame.return_address) < LOWEST_CODE;
        let node = self.intern(base, count, crosses_signal, tree, sink);
        if base == 0 && is_complete {
            self.remembered.set_complete();
        } else if has_end_word {
            self.remembered.set_complete_at(frame.slot, frame.return_address);
        }
        // Frames outside a signal may lie on another stack, in no order: not worth remembering.
        if crosses_signal || node == NodeId::NONE {
            self.remembered.forget();
        }
        node
    }

    /// Moves the proven frames `proven + 1..=index` into `fresh`, because further out the stack has changed, and gives
    /// the frame `proven` to go on from. Their frame pointers are found anew: the remembered ones hold only where
    /// they are needed.
    #[cold]
    fn take_over(&mut self, index: usize, proven: usize, mut frame: Frame, count: &mut usize) -> Frame {
        for taken in (proven + 1..=index).rev() {
            let link = self.remembered.link(taken);
            self.push_fresh(&frame, link, count);
            let (slot, return_address) = self.remembered.slot_and_return_address(taken - 1);
            let fp = match link.fp_word {
                0 => frame.fp,
                word => self.memory.read(word).unwrap_or_default(),
            };
            frame = Frame { slot, return_address, sp: slot + size_of::<usize>(), fp, is_interrupted: false };
        }
        frame
    }

    #[inline]
    fn push_fresh(&mut self, frame: &Frame, link: Link, count: &mut usize) {
        if let Some(fresh) = self.fresh.get_mut(*count) {
            *fresh = Fresh {
                slot: frame.slot,
                return_address: frame.return_address,
                fp: frame.fp,
                link,
                is_interrupted: frame.is_interrupted,
            };
            *count += 1;
        }
    }

    /// Puts the `count` fresh frames on top of the `base` outermost remembered ones, giving them nodes from the
    /// outermost inwards.
    fn intern<S: DefinitionSink>(
        &mut self,
        base: usize,
        count: usize,
        crosses_signal: bool,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        let base = self.remembered.reserve(base, count);
        let mut rebuild = self.remembered.rebuild(base);
        if crosses_signal {
            rebuild.distrust();
        }
        for fresh in self.fresh.iter().take(count).rev() {
            let node = match rebuild.unchanged_node(&self.remembered, fresh.return_address) {
                Some(node) => node,
                None => {
                    let parent = rebuild.parent();
                    let address = arch::code_address(fresh.return_address) + usize::from(fresh.is_interrupted);
                    match tree.intern(parent, FrameKey::c(address)) {
                        Interned::Known(node) => node,
                        Interned::New(node) => {
                            sink_node(node, parent, address, &mut self.modules, sink);
                            node
                        }
                        Interned::Full => return NodeId::NONE,
                    }
                }
            };
            rebuild.push(&mut self.remembered, fresh, node);
        }
        rebuild.parent()
    }
}

/// An interrupted frame is at an instruction, not behind a call: its address is one higher, as for a call of one byte,
/// so that readers may treat all frames alike.
#[cold]
fn sink_node<S: DefinitionSink>(node: NodeId, parent: NodeId, address: usize, modules: &mut Modules, sink: &mut S) {
    let frame = match modules.define(address - 1, sink) {
        Some((module, bias)) => FrameDefinition::C { module, offset: address.wrapping_sub(bias) as u64 },
        None => FrameDefinition::Unknown { address: address as u64 },
    };
    sink.node(node, parent, frame);
}

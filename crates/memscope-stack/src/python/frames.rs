//! Walking a thread's frames, and recognising what has not changed since the last time.
//!
//! The lane remembers its last stack as an array, the outermost frame first. A capture follows the chain of frames from
//! the innermost one. Where a frame is found in the array, the walk goes on in lockstep with it, downwards in the
//! array and outwards in the chain, comparing each frame with what is remembered. At the end, frames that were not
//! found are put on top of those that were, and nodes are looked up from the outermost change upwards.
//!
//! Why this is right. Two things hold between captures: (1) a remembered frame has the contents (code and position)
//! that its node stands for, and (2) its node is the child of the node below it, or of none at the bottom. A capture
//! compares, for each of the `depth` innermost frames, the address of the frame, the address of its code and its position
//! with what is remembered at that place, and makes sure that the code is the one remembered
//! ([`KnownCode::is_still_there`]), each time; nothing is skipped because something else was equal. What differs is read
//! anew, and every node from there upwards is looked up again, so that (1) and (2) hold afterwards and the answer stands for
//! exactly the frames that are there. The walk may stop when it has compared `depth` frames and is still in lockstep: below,
//! the array may be out of date, but only there, and what is below `depth` is cut off by whoever reads the stack. When those
//! frames come within `depth` again they are compared like all others.
use super::code::{CodeTable, KnownCode, Scratch, Witness};
use super::deaths::DeathCount;
use super::interpreter::{Interpreter, interpreter, is_plausible};
use super::layout::{Layout, PYTHON_3_9, PYTHON_3_10, PYTHON_3_11, PYTHON_3_12};
use crate::tree::{FrameKey, Interned, NodeId, Tree};
use crate::{DefinitionSink, Frame};
use core::ptr::NonNull;

/// Frames remembered, and followed at most in one capture.
const CAPACITY: usize = 4096;
const DEEPEST: usize = 1000;
/// How far from the innermost remembered frame to look for a frame; missing one costs time only.
const SEARCHED: usize = 64;
/// The number of the code of a frame that is no Python function: where C code entered the interpreter, or not set up yet.
const NO_CODE: u32 = u32::MAX;

/// One line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct RememberedFrame {
    frame: usize,
    position: usize,
    code: KnownCode,
    node: NodeId,
}

impl RememberedFrame {
    fn has_function_at(&self, code: usize) -> bool {
        self.code.address == code && code != 0 && self.code.id != NO_CODE
    }
}

/// Calls a function of a layout with the offsets as constants, which takes half as many loads, and as a function of its own, whose
/// loop has all registers. Published layouts are no constants.
macro_rules! with_constants {
    ($layout:expr, $function:ident($($name:ident: $type:ty),*) -> $result:ty) => {{
        macro_rules! with {
            ($constant:expr) => {{
                #[inline(never)]
                unsafe fn with_constants($($name: $type),*) -> $result {
                    // SAFETY: passed on.
                    unsafe { $function(&$constant, $($name),*) }
                }
                // SAFETY: passed on.
                unsafe { with_constants($($name),*) }
            }};
        }
        match $layout.version {
            0x0309 => with!(PYTHON_3_9),
            0x030a => with!(PYTHON_3_10),
            0x030b => with!(PYTHON_3_11),
            0x030c => with!(PYTHON_3_12),
            // SAFETY: passed on.
            _ => unsafe { $function($layout, $($name),*) },
        }
    }};
}

#[repr(C)]
struct Memory {
    remembered: [RememberedFrame; CAPACITY],
    /// The frames of the current walk, innermost first.
    walked: [usize; CAPACITY],
    scratch: Scratch,
}

/// The Python stack of one lane. All zero bytes are a valid, empty one.
pub struct PythonStack {
    /// Mapped with the first Python frame; pages that are not used cost nothing.
    memory: Option<NonNull<Memory>>,
    /// Number of remembered frames.
    length: usize,
    /// The highest `length` so far: above it, memory was never touched.
    touched: usize,
    /// The moment at which the code of all remembered frames was there, or never. Unknown, which is now, if it is asked for its
    /// number instead.
    all_seen: DeathCount,
    codes: CodeTable,
}

/// How far a walk has come.
struct Trail {
    /// The frame to look at next, 0 after the outermost.
    frame: usize,
    /// Frames behind us, all of them noted in `Memory::walked`.
    count: usize,
    /// Those of them that are Python functions.
    python_frames: usize,
}

/// A part of a walk in lockstep.
struct Stretch {
    /// The frame to look at next, 0 after the outermost.
    frame: usize,
    /// Python functions among the frames of the walk so far.
    python_frames: usize,
    /// RememberedFrame frames not compared yet: the one to compare next is the last of them.
    left: usize,
}

/// How the frames of a walk relate to the remembered ones.
struct Walk {
    /// This many of the outermost remembered frames are still in place.
    kept: usize,
    /// This many of the innermost walked frames go on top of them.
    fresh: usize,
    /// The lowest kept frame whose contents changed, `usize::MAX` for none.
    changed: usize,
}

impl PythonStack {
    /// An empty stack; takes memory with the first Python frame.
    pub const fn new() -> PythonStack {
        PythonStack { memory: None, length: 0, touched: 0, all_seen: DeathCount::UNKNOWN, codes: CodeTable::new() }
    }

    /// The node of the innermost Python frame, `NONE` if this thread runs no Python (or an unknown one). `depth`, 1 to
    /// 1000, is how many of the innermost frames are wanted: that many have the right ancestors.
    ///
    /// # Safety
    /// The caller must be in C code of the thread that this lane belongs to, called from Python or not, and must use
    /// the same `tree` and `sink` each time.
    #[inline]
    pub unsafe fn capture<S: DefinitionSink>(&mut self, depth: usize, tree: &mut Tree, sink: &mut S) -> NodeId {
        let Some(interpreter) = interpreter() else { return NodeId::NONE };
        let innermost = interpreter.current_frame();
        if innermost == 0 {
            return NodeId::NONE;
        }
        // SAFETY: `innermost` is this thread's innermost frame, which stands still while its C code runs.
        unsafe { self.capture_from(interpreter, innermost, depth, tree, sink) }
    }

    /// Forgets the last stack and all code, but not which numbers were given to code: whatever comes again is defined
    /// again.
    pub fn forget(&mut self) {
        if let Some(memory) = self.memory {
            // SAFETY: mapped whole and used by this lane alone; zero bytes are a frame that is never unchanged.
            unsafe { (&raw mut (*memory.as_ptr()).remembered).cast::<RememberedFrame>().write_bytes(0, self.touched) };
        }
        self.forget_nodes();
        self.codes.forget();
    }

    /// Forgets which nodes frames have, but not what they run.
    pub fn forget_nodes(&mut self) {
        self.length = 0;
    }

    /// # Safety
    /// `innermost` must be implausible or the first of a chain of frames that stands still.
    #[inline(always)]
    unsafe fn capture_from<S: DefinitionSink>(
        &mut self,
        interpreter: &Interpreter,
        innermost: usize,
        depth: usize,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        // SAFETY: passed on.
        unsafe {
            match self.unchanged_node(interpreter, innermost, depth) {
                Some(node) => node,
                None => self.capture_changed(interpreter, innermost, depth, tree, sink),
            }
        }
    }

    /// The node of the innermost frame if the stack is as remembered from the innermost frame to the outermost, as it is in most
    /// captures: Python functions that allocate do so more than once.
    ///
    /// # Safety
    /// As for `capture_from`.
    #[inline(always)]
    unsafe fn unchanged_node(&self, interpreter: &Interpreter, innermost: usize, depth: usize) -> Option<NodeId> {
        let layout = &interpreter.layout;
        if self.length > depth || self.all_seen != interpreter.now() {
            return None;
        }
        // SAFETY: mapped whole, zeroed, and used by this lane alone.
        let remembered = unsafe { (*self.memory?.as_ptr()).remembered.get(..self.length)? };
        // SAFETY: passed on.
        let is_unchanged =
            with_constants!(layout, is_whole_stack(remembered: &[RememberedFrame], innermost: usize) -> bool);
        if is_unchanged { remembered.last().map(|innermost| innermost.node) } else { None }
    }

    /// # Safety
    /// As for `capture_from`.
    #[inline(never)]
    unsafe fn capture_changed<S: DefinitionSink>(
        &mut self,
        interpreter: &Interpreter,
        innermost: usize,
        depth: usize,
        tree: &mut Tree,
        sink: &mut S,
    ) -> NodeId {
        let depth = depth.clamp(1, DEEPEST);
        if self.memory.is_none() {
            // SAFETY: one of its frames is at hand; the library is preloaded.
            unsafe { interpreter.watch_code() };
        }
        let Some(memory) = self.memory() else { return NodeId::NONE };
        let witness = &mut Witness::new(interpreter);
        // SAFETY: mapped whole, zeroed, and used by this lane alone.
        let memory = unsafe { &mut *memory.as_ptr() };
        // SAFETY: the caller's.
        let mut walk = unsafe { self.walk(innermost, depth, memory, witness, sink) };
        if walk.kept + walk.fresh > CAPACITY {
            // Frames below `depth` have piled up: forget them all and take the innermost ones alone.
            self.length = 0;
            // SAFETY: the caller's.
            walk = unsafe { self.walk(innermost, depth, memory, witness, sink) };
        }
        let Memory { remembered, walked, scratch } = memory;
        let length = walk.kept + walk.fresh;
        let new = remembered.get_mut(walk.kept..length).unwrap_or_default();
        let frames = walked.get(..walk.fresh).unwrap_or_default();
        for (entry, frame) in new.iter_mut().zip(frames.iter().rev()) {
            entry.frame = *frame;
            // SAFETY: a frame of the chain.
            unsafe {
                if !is_unchanged(&interpreter.layout, entry, witness) {
                    self.refresh(entry, witness, scratch, sink);
                }
            }
        }
        self.length = length;
        self.touched = self.touched.max(length);
        let is_known = |entry: &RememberedFrame| entry.code.id == NO_CODE || entry.code.is_known_to(witness);
        let all_known = length <= depth && remembered.get(..length).unwrap_or_default().iter().all(is_known);
        self.all_seen = if all_known { witness.now } else { DeathCount::NEVER };
        let first = walk.changed.min(walk.kept);
        let mut node = match first.checked_sub(1).and_then(|below| remembered.get(below)) {
            Some(below) => below.node,
            None => NodeId::NONE,
        };
        for (at, entry) in (first..).zip(remembered.get_mut(first..length).unwrap_or_default()) {
            if entry.code.id != NO_CODE {
                let instruction = interpreter.layout.instruction(entry.code.address, entry.position);
                match tree.intern(node, FrameKey::python(entry.code.id, instruction)) {
                    Interned::Known(id) => node = id,
                    Interned::New(id) => {
                        sink.node(id, node, Frame::Python { code: entry.code.id, instruction });
                        node = id;
                    }
                    Interned::Full => {
                        // What is above has no nodes: only what is below may be relied on next time.
                        self.length = at;
                        return NodeId::NONE;
                    }
                }
            }
            entry.node = node;
        }
        match length.checked_sub(1).and_then(|top| remembered.get(top)) {
            Some(top) => top.node,
            None => NodeId::NONE,
        }
    }

    /// Follows the chain from `innermost`, compares what is remembered and brings it up to date where it is kept.
    ///
    /// # Safety
    /// As for `capture_from`.
    #[inline]
    unsafe fn walk<S: DefinitionSink>(
        &mut self,
        innermost: usize,
        depth: usize,
        memory: &mut Memory,
        witness: &mut Witness<'_>,
        sink: &mut S,
    ) -> Walk {
        // Out of lockstep go further than asked for: lockstep will do next time, as long as returns stay within that.
        let enough = depth * 2 + 16;
        let interpreter = witness.interpreter;
        let mut trail = Trail { frame: innermost, count: 0, python_frames: 0 };
        // A chain that has become a ring ends the walk by the count.
        while is_plausible(trail.frame) && trail.python_frames < enough && trail.count < CAPACITY {
            if let Some(found) = find(&memory.remembered, self.length, trail.frame) {
                let fresh = trail.count;
                // SAFETY: the caller's.
                if let Some(changed) = unsafe { self.lockstep(&mut trail, found, depth, memory, witness, sink) } {
                    return Walk { kept: found + 1, fresh, changed };
                }
                continue;
            }
            // SAFETY: a frame of the chain.
            unsafe {
                let is_python = !interpreter.layout.is_entry(trail.frame);
                trail.step(interpreter, is_python, &mut memory.walked);
            }
        }
        Walk { kept: 0, fresh: trail.count, changed: usize::MAX }
    }

    /// Compares the frames from `trail` outwards with the remembered ones from number `found` downwards. Answers the
    /// lowest one whose contents changed if they are the same frames down to the outermost, or for `depth` frames; if
    /// not, the trail has moved on by at least one frame and nothing is kept of what was remembered.
    ///
    /// # Safety
    /// As for `capture_from`; frame number `found` must be the one at the trail.
    #[inline]
    unsafe fn lockstep<S: DefinitionSink>(
        &mut self,
        trail: &mut Trail,
        found: usize,
        depth: usize,
        memory: &mut Memory,
        witness: &mut Witness<'_>,
        sink: &mut S,
    ) -> Option<usize> {
        let mut changed = usize::MAX;
        let Memory { remembered, walked, scratch } = memory;
        let mut stretch = Stretch { frame: trail.frame, python_frames: trail.python_frames, left: found + 1 };
        let layout = &witness.interpreter.layout;
        loop {
            // SAFETY: the caller's; `left` frames are remembered.
            stretch = with_constants!(
                layout,
                compare(remembered: &mut [RememberedFrame; CAPACITY], stretch: Stretch, depth: usize, witness: &mut Witness<'_>) -> Stretch
            );
            if stretch.python_frames >= depth {
                return Some(changed);
            }
            let Some(at) = stretch.left.checked_sub(1) else {
                if stretch.frame == 0 {
                    return Some(changed);
                }
                break;
            };
            let entry = remembered.get_mut(at)?;
            if entry.frame != stretch.frame {
                break;
            }
            // If lockstep is lost further out, all nodes above are looked up anyway.
            // SAFETY: a frame of the chain.
            unsafe { self.refresh(entry, witness, scratch, sink) };
            changed = at;
            // SAFETY: as before.
            unsafe { stretch.pass(layout, entry) };
            if stretch.python_frames >= depth {
                return Some(changed);
            }
        }
        // The frames that were found are the remembered ones; they stay behind us as walked.
        let passed = remembered.get(stretch.left..=found)?.iter().rev();
        for (entry, slot) in passed.zip(walked.get_mut(trail.count..)?) {
            *slot = entry.frame;
            trail.count += 1;
        }
        (trail.frame, trail.python_frames) = (stretch.frame, stretch.python_frames);
        None
    }

    /// Reads what `entry.frame` is doing now.
    ///
    /// # Safety
    /// `entry.frame` must be a frame of the current thread.
    #[inline(never)]
    unsafe fn refresh<S: DefinitionSink>(
        &mut self,
        entry: &mut RememberedFrame,
        witness: &mut Witness<'_>,
        scratch: &mut Scratch,
        sink: &mut S,
    ) {
        let layout = &witness.interpreter.layout;
        // SAFETY: the caller's; a frame keeps what it calls its code alive.
        unsafe {
            let code = layout.code_of(entry.frame);
            entry.position = layout.position_of(entry.frame);
            if layout.is_entry(entry.frame) {
                // Frames of this kind have a code (or None) of their own that no function shares, so that the
                // address alone tells them next time.
                entry.code = KnownCode::no_function(code, NO_CODE);
            } else if !entry.has_function_at(code) || !entry.code.is_still_there(layout, witness) {
                let known = self.codes.identify(code, witness, scratch, sink);
                // Not set up yet, or half destroyed: there may be a function at this address next time. 0 never
                // counts as unchanged.
                entry.code = known.unwrap_or(KnownCode::no_function(0, NO_CODE));
            }
        }
    }

    #[inline(always)]
    pub(super) fn codes(&mut self) -> &mut CodeTable {
        &mut self.codes
    }

    /// The code object at `code`, defined if need be.
    ///
    /// # Safety
    /// As for [`CodeTable::identify`].
    pub(super) unsafe fn identify<S: DefinitionSink>(
        &mut self,
        code: usize,
        witness: &Witness<'_>,
        sink: &mut S,
    ) -> Option<KnownCode> {
        // SAFETY: mapped whole, zeroed, and used by this lane alone; the rest is the caller's.
        unsafe {
            let memory = self.memory()?.as_ptr();
            self.codes.identify(code, witness, &mut (*memory).scratch, sink)
        }
    }

    /// Notes the Python functions this thread is in, the innermost first; says how many.
    ///
    /// # Safety
    /// The caller must be in C code of the thread that this lane belongs to.
    pub(super) unsafe fn note_frames(&mut self, interpreter: &Interpreter) -> usize {
        let Some(memory) = self.memory() else { return 0 };
        let (mut frame, mut count, mut steps) = (interpreter.current_frame(), 0, 0);
        // A chain that has become a ring ends by the count.
        while is_plausible(frame) && count < CAPACITY && steps < 2 * CAPACITY {
            // SAFETY: a frame of the chain; the memory is mapped whole and used by this lane alone.
            unsafe {
                if !interpreter.layout.is_entry(frame)
                    && let Some(place) = (*memory.as_ptr()).walked.get_mut(count)
                {
                    *place = frame;
                    count += 1;
                }
                frame = interpreter.layout.previous_of(frame);
            }
            steps += 1;
        }
        count
    }

    /// One of those that were noted last.
    pub(super) fn noted_frame(&self, number: usize) -> Option<usize> {
        // SAFETY: mapped whole and used by this lane alone.
        unsafe { (*self.memory?.as_ptr()).walked.get(number).copied() }
    }

    #[inline]
    fn memory(&mut self) -> Option<NonNull<Memory>> {
        if self.memory.is_none() {
            self.memory = memscope_sys::map_own(size_of::<Memory>()).ok().map(NonNull::cast);
        }
        self.memory
    }
}

impl Default for PythonStack {
    fn default() -> Self {
        PythonStack::new()
    }
}

impl Trail {
    /// Notes the frame and goes on to its caller.
    ///
    /// # Safety
    /// `self.frame` must be a frame of the current thread.
    #[inline]
    unsafe fn step(&mut self, interpreter: &Interpreter, is_python: bool, walked: &mut [usize; CAPACITY]) {
        let Some(slot) = walked.get_mut(self.count) else { return };
        *slot = self.frame;
        self.count += 1;
        self.python_frames += usize::from(is_python);
        // SAFETY: the caller's.
        self.frame = unsafe { interpreter.layout.previous_of(self.frame) };
    }
}

/// The number of the remembered frame at address `frame`, looked for from the innermost one.
#[inline]
fn find(remembered: &[RememberedFrame; CAPACITY], length: usize, frame: usize) -> Option<usize> {
    let searched = remembered.get(..length)?.iter().enumerate().rev().take(SEARCHED);
    searched.into_iter().find(|(_, entry)| entry.frame == frame).map(|(at, _)| at)
}

impl Stretch {
    /// Goes on to the caller of `entry.frame`, which is the frame at hand.
    ///
    /// # Safety
    /// `self.frame` must be a frame of the current thread.
    #[inline(always)]
    unsafe fn pass(&mut self, layout: &Layout, entry: &RememberedFrame) {
        self.left -= 1;
        self.python_frames += usize::from(entry.code.id != NO_CODE);
        // SAFETY: the caller's.
        self.frame = unsafe { layout.previous_of(self.frame) };
    }
}

/// Follows the chain while its frames are those remembered and unchanged, up to `depth`.
///
/// # Safety
/// As for `capture_from`.
#[inline(always)]
unsafe fn compare(
    layout: &Layout,
    remembered: &mut [RememberedFrame; CAPACITY],
    stretch: Stretch,
    depth: usize,
    witness: &mut Witness<'_>,
) -> Stretch {
    // Not in `stretch`, which is in memory: all of the loop is in registers.
    let Stretch { mut frame, mut python_frames, mut left } = stretch;
    let entries = remembered.get_mut(..left).unwrap_or_default();
    for entry in entries.iter_mut().rev() {
        // SAFETY: a frame of the chain once it is the remembered one.
        unsafe {
            if entry.frame != frame || python_frames >= depth || !is_unchanged(layout, entry, witness) {
                break;
            }
            frame = layout.previous_of(frame);
        }
        python_frames += usize::from(entry.code.id != NO_CODE);
        left -= 1;
    }
    Stretch { frame, python_frames, left }
}

/// Whether the chain from `innermost` outwards is what is remembered, to its end. The code must have been there at this moment
/// unless code has numbers; where one has none, the answer is no.
///
/// # Safety
/// As for `capture_from`.
#[inline(always)]
unsafe fn is_whole_stack(layout: &Layout, remembered: &[RememberedFrame], innermost: usize) -> bool {
    let mut frame = innermost;
    for entry in remembered.iter().rev() {
        // SAFETY: a frame of the chain once it is the remembered one; see `is_unchanged`.
        unsafe {
            if entry.frame != frame
                || !is_in_place(layout, entry)
                || layout.code_version.is_some() && entry.code.id != NO_CODE && !entry.code.has_its_number(layout)
            {
                return false;
            }
            frame = layout.previous_of(frame);
        }
    }
    frame == 0
}

/// Whether the frame of `entry` is where it was, in code at the address of the code it was in.
///
/// # Safety
/// `entry.frame` must be a frame of the current thread.
#[inline(always)]
unsafe fn is_in_place(layout: &Layout, entry: &RememberedFrame) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let code = layout.code_of(entry.frame);
        let elsewhere = (code ^ entry.code.address) | (layout.position_of(entry.frame) ^ entry.position);
        elsewhere == 0 && code != 0
    }
}

/// Whether the frame of `entry` is where it was, in the code it was in.
///
/// # Safety
/// `entry.frame` must be a frame of the current thread, and a code in `entry` must have been identified as one.
#[inline(always)]
unsafe fn is_unchanged(layout: &Layout, entry: &mut RememberedFrame, witness: &mut Witness<'_>) -> bool {
    // SAFETY: the caller's. `code` was a code object when it was remembered and is what this frame runs now, if it is not in
    // its destructor (3.11 drops a frame's code before it unlinks the frame); the only other things that frames call their
    // code are None and the code of entry frames, which are never freed.
    unsafe { is_in_place(layout, entry) && (entry.code.id == NO_CODE || entry.code.is_still_there(layout, witness)) }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;

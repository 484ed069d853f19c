//! The table of stacks of a file: each frame once, below its caller.
use super::cells::{Column, RowCells, number};
use crate::rows::REFERENCE;
use memscope_model::{NodeId, StackId, Stacks};
use rustc_hash::FxHashMap;

/// Frames by their numbers, and the stacks that rows named so far.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    frames: FxHashMap<u64, FrameBelow>,
    texts: Vec<String>,
    /// By the innermost frames of both parts.
    stacks: FxHashMap<InnermostFrames, Option<StackId>>,
    /// Frames on the way to one that is known.
    unknown: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct FrameBelow {
    /// Always a smaller number: so that each way to the outermost frame ends.
    caller: u64,
    /// Its place among the texts.
    text: usize,
    /// Once a stack needed it.
    known: Option<KnownFrame>,
}

/// A frame as the trace knows it.
#[derive(Clone, Copy, Debug)]
struct KnownFrame {
    node: NodeId,
    /// Frames from it outwards, itself among them.
    depth: usize,
}

/// Stacks of more frames are cut: made-up tables must not take for ever.
const MOST_FRAMES: usize = 1024;

/// The frames that a row names; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct InnermostFrames {
    pub(crate) python: u64,
    pub(crate) c: u64,
}

impl FrameTable {
    /// Takes in a row of the table. One that makes no sense is left out, and stacks that need it are missing.
    pub(crate) fn read(&mut self, cells: &RowCells<'_>) {
        let Some(id) = cells.get(Column::Id).number().filter(|id| *id > 0) else { return };
        let caller = match cells.get(Column::Caller) {
            cell if cell.is_empty() => 0,
            cell => cell.number().unwrap_or(u64::MAX),
        };
        if caller >= id {
            return;
        }
        let frame = cells.get(Column::Frame).bytes();
        let text = match frame_number(&frame).and_then(|same| self.frames.get(&same)) {
            Some(same) => same.text,
            None => {
                self.texts.push(String::from_utf8_lossy(&frame).into_owned());
                self.texts.len() - 1
            }
        };
        self.frames.insert(id, FrameBelow { caller, text, known: None });
    }

    /// The stack of these frames; `None` if one is not in the table.
    pub(crate) fn stack(&mut self, innermost: InnermostFrames, stacks: &mut Stacks) -> Option<StackId> {
        if let Some(known) = self.stacks.get(&innermost) {
            return *known;
        }
        let c = self.part(innermost.c, stacks);
        let python = self.part(innermost.python, stacks);
        let stack = c.zip(python).map(|(c, python)| stacks.stack(c, python));
        self.stacks.insert(innermost, stack);
        stack
    }

    /// One part of a stack, from its innermost frame outwards. Stacks share most of their frames, so each is looked up once.
    fn part(&mut self, innermost: u64, stacks: &mut Stacks) -> Option<NodeId> {
        let mut at = innermost;
        self.unknown.clear();
        let mut caller = loop {
            if at == 0 {
                break KnownFrame { node: NodeId::NONE, depth: 0 };
            }
            let frame = self.frames.get(&at)?;
            if let Some(known) = frame.known {
                break known;
            }
            self.unknown.push(at);
            at = frame.caller;
            if self.unknown.len() == MOST_FRAMES {
                break KnownFrame { node: NodeId::NONE, depth: 0 };
            }
        };
        if caller.depth + self.unknown.len() > MOST_FRAMES {
            return Some(self.cut(innermost, stacks));
        }
        // What was cut off has no place among others' frames.
        let is_whole = at == 0 || caller.depth > 0;
        while let Some(id) = self.unknown.pop() {
            let frame = self.frames.get_mut(&id)?;
            let node = stacks.intern_text(&self.texts[frame.text], caller.node);
            caller = KnownFrame { node, depth: caller.depth + 1 };
            if is_whole {
                frame.known = Some(caller);
            }
        }
        Some(caller.node)
    }

    /// The innermost frames of what is too deep.
    fn cut(&mut self, innermost: u64, stacks: &mut Stacks) -> NodeId {
        let mut at = innermost;
        let mut texts = Vec::with_capacity(MOST_FRAMES);
        while let Some(frame) = self.frames.get(&at).filter(|_| texts.len() < MOST_FRAMES) {
            texts.push(frame.text);
            at = frame.caller;
        }
        texts.iter().rev().fold(NodeId::NONE, |caller, text| stacks.intern_text(&self.texts[*text], caller))
    }
}

/// `#<number>`.
pub(crate) fn frame_number(cell: &[u8]) -> Option<u64> {
    let digits = cell.strip_prefix(&[REFERENCE])?;
    digits.iter().all(u8::is_ascii_digit).then(|| number(digits))?
}

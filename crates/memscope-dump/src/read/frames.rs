//! The table of stacks of a file: each frame once, below its caller.
use super::cells::{Column, RowCells, number};
use crate::rows::REFERENCE;
use memscope_model::{StackId, Stacks};
use rustc_hash::FxHashMap;

/// Frames by their numbers, and the stacks that rows named so far.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    frames: FxHashMap<u64, FrameBelow>,
    texts: Vec<String>,
    /// By the innermost frames of both parts.
    stacks: FxHashMap<InnermostFrames, Option<StackId>>,
}

#[derive(Clone, Copy, Debug)]
struct FrameBelow {
    /// Always a smaller number: so that each way to the outermost frame ends.
    caller: u64,
    /// Its place among the texts.
    text: usize,
}

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
        self.frames.insert(id, FrameBelow { caller, text });
    }

    /// The stack of these frames; `None` if one is not in the table.
    pub(crate) fn stack(&mut self, innermost: InnermostFrames, stacks: &mut Stacks) -> Option<StackId> {
        if let Some(known) = self.stacks.get(&innermost) {
            return *known;
        }
        let stack = self.is_whole(innermost.python) && self.is_whole(innermost.c);
        let stack = stack.then(|| stacks.intern_texts(self.way(innermost.c), self.way(innermost.python)));
        self.stacks.insert(innermost, stack);
        stack
    }

    /// From a frame outwards.
    fn way(&self, innermost: u64) -> impl Iterator<Item = &str> {
        let mut at = innermost;
        std::iter::from_fn(move || {
            let frame = self.frames.get(&at)?;
            at = frame.caller;
            Some(self.texts[frame.text].as_str())
        })
    }

    /// As far as a stack is looked at: made-up tables must not take for ever.
    fn is_whole(&self, innermost: u64) -> bool {
        const MOST_FRAMES: usize = 1024;
        let mut at = innermost;
        for _ in 0..MOST_FRAMES {
            match self.frames.get(&at) {
                Some(frame) => at = frame.caller,
                None => return at == 0,
            }
        }
        true
    }
}

/// `#<number>`.
pub(crate) fn frame_number(cell: &[u8]) -> Option<u64> {
    let digits = cell.strip_prefix(&[REFERENCE])?;
    digits.iter().all(u8::is_ascii_digit).then(|| number(digits))?
}

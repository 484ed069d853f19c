//! The table of stacks of one file: a tree in which each line of a stack is once below its caller, and each text once.
//!
//! Whole stacks, each once, would still be most of the files: a program that imports much comes to each allocation by
//! another way, and the ways differ in a few frames of a hundred (pandas: 100,000 distinct stacks with 1.5 GB of text,
//! and 10 MB as a tree).
use crate::error::ExportError;
use crate::rows::{FrameCell, FrameRow, StackCells};
use crate::stack_text::{Line, StackTexts};
use memscope_model::{NodeId, StackId, Stacks};
use rustc_hash::FxHashMap;

/// Gives rows of the table numbers, from 1 in the order in which they are needed.
#[derive(Default)]
pub(crate) struct StackTable {
    /// By caller's row and line.
    rows: FxHashMap<(u32, u32), u32>,
    /// Rows of the model's nodes, 0 if unknown.
    of_node: Vec<u32>,
    /// The row that has a text, by its number; 0 if none has it yet.
    of_text: Vec<u32>,
    /// Nodes on the way to one that has a row.
    way: Vec<NodeId>,
}

/// Takes the rows of a table, each before the first that refers to it.
pub(crate) type FrameSink<'w> = dyn FnMut(&FrameRow<'_>) -> Result<(), ExportError> + 'w;

impl StackTable {
    /// The cells of a stack. Rows that are not in the table yet are written first.
    pub(crate) fn cells(
        &mut self,
        stack: StackId,
        stacks: &Stacks,
        texts: &mut StackTexts<'_>,
        write: &mut FrameSink<'_>,
    ) -> Result<StackCells<'static>, ExportError> {
        let python = self.row(stacks.python_node(stack), stacks, texts, write)?;
        let c = self.row(stacks.c_node(stack), stacks, texts, write)?;
        Ok(StackCells::Table { python, c })
    }

    fn row(
        &mut self,
        innermost: NodeId,
        stacks: &Stacks,
        texts: &mut StackTexts<'_>,
        write: &mut FrameSink<'_>,
    ) -> Result<u32, ExportError> {
        let mut row = self.known(innermost);
        if row != 0 || innermost == NodeId::NONE {
            return Ok(row);
        }
        let mut at = innermost;
        while row == 0
            && let Some((_, caller)) = stacks.node(at)
        {
            self.way.push(at);
            at = caller;
            row = self.known(at);
        }
        while let Some(node) = self.way.pop() {
            let Some((frame, _)) = stacks.node(node) else { continue };
            for place in texts.lines(frame, stacks).rev() {
                row = self.line_row(row, texts.line(place), texts, write)?;
            }
            *slot(&mut self.of_node, node.0) = row;
        }
        Ok(row)
    }

    /// The row of a line below its caller's.
    fn line_row(
        &mut self,
        caller: u32,
        line: Line,
        texts: &StackTexts<'_>,
        write: &mut FrameSink<'_>,
    ) -> Result<u32, ExportError> {
        let next = self.rows.len() as u32 + 1;
        let row = *self.rows.entry((caller, line.0)).or_insert(next);
        if row == next {
            let frame = match slot(&mut self.of_text, line.0) {
                first @ 0 => {
                    *first = row;
                    FrameCell::Text(texts.text(line))
                }
                named => FrameCell::SameAs(*named),
            };
            write(&FrameRow { id: row, caller, frame })?;
        }
        Ok(row)
    }

    fn known(&self, node: NodeId) -> u32 {
        self.of_node.get(node.0 as usize).copied().unwrap_or(0)
    }
}

fn slot(places: &mut Vec<u32>, number: u32) -> &mut u32 {
    let at = number as usize;
    if at >= places.len() {
        places.resize(at + 1, 0);
    }
    &mut places[at]
}

//! Traces read piece by piece.
use super::choice::Choice;
use super::columns::{BlockCollector, BlockColumns, EventCollector, EventColumns, LeftBlocks, LiveBlocks};
use crate::views::merged::Naming;
use memscope_model::{ModelError, StackId, Status, TraceSource};
use memscope_symbols::Symbolizer;
use rustc_hash::FxHashMap;

/// The events of a process.
pub struct EventReader {
    trace: Box<dyn TraceSource + Send>,
    choice: Choice,
    is_over: bool,
}

impl EventReader {
    pub(super) fn new(trace: Box<dyn TraceSource + Send>, choice: Choice) -> EventReader {
        EventReader { trace, choice, is_over: false }
    }

    /// Goes on for a few thousand events, and adds to `columns` those that are wanted. After [`Status::Over`] nothing comes.
    pub fn step(&mut self, columns: &mut EventColumns) -> Result<Status, ModelError> {
        if self.is_over {
            return Ok(Status::Over);
        }
        let status = self.trace.step(&mut [&mut EventCollector { choice: &self.choice, columns }]);
        self.is_over = !matches!(status, Ok(Status::More));
        status
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&self, stack: u32, names: &mut StackNames) -> Vec<String> {
        names.of(stack, &*self.trace)
    }
}

/// The blocks of a process.
pub struct BlockReader {
    trace: Box<dyn TraceSource + Send>,
    choice: Choice,
    live: LiveBlocks,
    /// When the trace is over.
    left: Option<LeftBlocks>,
}

impl BlockReader {
    pub(super) fn new(trace: Box<dyn TraceSource + Send>, choice: Choice) -> BlockReader {
        BlockReader { trace, choice, live: LiveBlocks::default(), left: None }
    }

    /// Goes on for a few thousand events, and adds to `columns` the blocks that ended, and were wanted. At last come those that
    /// did not; [`Status::Over`] when they are there, too.
    pub fn step(&mut self, columns: &mut BlockColumns) -> Result<Status, ModelError> {
        const LEFT_A_STEP: usize = 1 << 12;
        let before = columns.len();
        let Some(left) = &mut self.left else {
            let mut collector = BlockCollector { choice: &self.choice, live: &mut self.live, columns };
            if self.trace.step(&mut [&mut collector])? == Status::Over {
                self.left = Some(std::mem::take(&mut self.live).into_left());
            }
            return Ok(Status::More);
        };
        left.drain(columns, LEFT_A_STEP);
        Ok(if columns.len() == before { Status::Over } else { Status::More })
    }

    /// As [`EventReader::stack`].
    pub fn stack(&self, stack: u32, names: &mut StackNames) -> Vec<String> {
        names.of(stack, &*self.trace)
    }
}

/// The names of stacks, kept: symbols are expensive.
#[derive(Default)]
pub struct StackNames {
    symbolizer: Symbolizer,
    known: FxHashMap<u32, Vec<String>>,
}

impl StackNames {
    fn of(&mut self, stack: u32, trace: &dyn TraceSource) -> Vec<String> {
        let StackNames { symbolizer, known } = self;
        let name = || {
            let mut naming = Naming::new(trace.stacks(), symbolizer);
            let frames = naming.merged(StackId(stack));
            frames.iter().rev().map(|frame| naming.names.text(*frame)).collect()
        };
        known.entry(stack).or_insert_with(name).clone()
    }
}

//! Events and blocks as columns: one number each in every column, texts by their place in a list.
use super::choice::Choice;
use super::words::{NO_CODE, device_code, event_code, note_words, pool_code, type_code};
use memscope_dump::rows::{Event, RANGE_END_PREFIX};
use memscope_model::{
    Action, Block, BlockEvent, Moment, Name, NoteEvent, NoteKind, OwnerId, Selection, State, StepId, StepSource,
    TraceEvent, TraceSink,
};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

/// Texts that columns refer to, each once; 0 is none.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    texts: Vec<String>,
    places: FxHashMap<String, u32>,
    /// By number of the owner, and of the name of an operator or kernel.
    of_owners: FxHashMap<OwnerId, u32>,
    of_names: FxHashMap<u32, u32>,
}

impl Texts {
    pub fn get(&self, place: u32) -> Option<&str> {
        self.texts.get((place as usize).checked_sub(1)?).map(String::as_str)
    }

    pub fn all(&self) -> &[String] {
        &self.texts
    }

    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        self.texts.push(text.to_owned());
        let place = self.texts.len() as u32;
        self.places.insert(text.to_owned(), place);
        place
    }

    fn of_owner(&mut self, owner: OwnerId, state: &State<'_>) -> u32 {
        if owner == OwnerId::NONE {
            return 0;
        }
        if let Some(place) = self.of_owners.get(&owner) {
            return *place;
        }
        let place = state.owners.name(owner).map_or(0, |text| self.place(text));
        self.of_owners.insert(owner, place);
        place
    }

    fn of_name(&mut self, name: Option<Name<'_>>) -> u32 {
        let Some(name) = name else { return 0 };
        if let Some(place) = self.of_names.get(&name.id.0) {
            return *place;
        }
        let place = self.place(name.text);
        self.of_names.insert(name.id.0, place);
        place
    }
}

/// Numbers of steps from where among them something happened: 0 outside of all.
pub fn step_numbers(steps: &[StepId], source: Option<StepSource>) -> Vec<u32> {
    let number = |step: &StepId| source.and_then(|source| source.number(*step)).unwrap_or(0);
    steps.iter().map(number).collect()
}

/// Some events of one process, in their order.
#[derive(Clone, Debug, Default)]
pub struct EventColumns {
    pub id: Vec<u64>,
    /// Nanoseconds since the epoch.
    pub time: Vec<u64>,
    pub thread: Vec<u32>,
    /// Codes of [`super::words`].
    pub event: Vec<u8>,
    pub event_type: Vec<u8>,
    pub device: Vec<i32>,
    pub pool: Vec<u8>,
    pub step: Vec<StepId>,
    /// The number of the block that begins, ends or is accessed; 0 if it is about none.
    pub block: Vec<u64>,
    pub address: Vec<u64>,
    pub size: Vec<u64>,
    /// Live bytes of the block's pool after the event.
    pub used: Vec<u64>,
    /// The number of the call stack; 0 is none.
    pub stack: Vec<u32>,
    /// Places in [`EventColumns::texts`].
    pub name: Vec<u32>,
    pub owner: Vec<u32>,
    pub texts: Texts,
    /// What makes steps, if that was known when the last of them happened.
    pub step_source: Option<StepSource>,
}

/// What differs from one kind of event to the next.
#[derive(Default)]
struct Particulars {
    pool: u8,
    block: u64,
    address: u64,
    size: u64,
    used: u64,
    name: u32,
    owner: u32,
}

impl EventColumns {
    pub fn len(&self) -> usize {
        self.id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    #[inline]
    fn push(&mut self, at: &Moment, (event, event_type): (u8, u8), device: i32, of: &Particulars) {
        self.id.push(at.event);
        self.time.push(at.time.0);
        self.thread.push(at.thread);
        self.event.push(event);
        self.event_type.push(event_type);
        self.device.push(device);
        self.pool.push(of.pool);
        self.step.push(at.step);
        self.block.push(of.block);
        self.address.push(of.address);
        self.size.push(of.size);
        self.used.push(of.used);
        self.stack.push(at.stack.0);
        self.name.push(of.name);
        self.owner.push(of.owner);
    }

    #[inline]
    fn push_memory(&mut self, event: &BlockEvent, state: &State<'_>) {
        let block = &event.block;
        let kind = match event.action {
            Action::Malloc => Event::Malloc,
            Action::Free => Event::Free,
        };
        let pool = pool_code(block.pool);
        let of = Particulars {
            pool,
            block: block.id.0,
            address: block.address,
            size: block.size,
            used: event.used,
            name: 0,
            owner: self.texts.of_owner(block.owner, state),
        };
        self.push(&event.at, (event_code(kind), pool), device_code(block.device), &of);
    }

    fn push_note(&mut self, note: &NoteEvent<'_>, words: (u8, u8)) {
        let texts = &mut self.texts;
        let named = |name: u32| Particulars { pool: NO_CODE, name, ..Particulars::default() };
        let of = match &note.kind {
            NoteKind::Step(number) => named(texts.place(&number.to_string())),
            NoteKind::Mark(text) | NoteKind::RangeStart { text, .. } => named(texts.place(text)),
            NoteKind::RangeEnd { text: Some(text), .. } => named(texts.place(text)),
            NoteKind::RangeEnd { id, text: None } => named(texts.place(&format!("{RANGE_END_PREFIX}{id}"))),
            NoteKind::OutOfMemory { call, size, .. } => Particulars { size: *size, ..named(texts.place(call.name())) },
            NoteKind::LiveAtRefusal { pool, address, size, .. } => {
                Particulars { pool: pool_code(*pool), address: *address, size: *size, ..named(0) }
            }
            NoteKind::Snapshot { name, memory } => Particulars { used: memory.allocated, ..named(texts.place(name)) },
            NoteKind::Kernel { name, .. } | NoteKind::AtenOperator { name, .. } | NoteKind::AtbKernel { name, .. } => {
                named(texts.of_name(*name))
            }
            NoteKind::AtbOperator { operator, .. } => named(texts.of_name(operator.name)),
            NoteKind::Access(access) => Particulars {
                block: access.block.map_or(0, |block| block.block.0),
                address: access.address.0,
                size: access.size,
                ..named(texts.of_name(access.name))
            },
            _ => named(0),
        };
        self.push(&note.at, words, device_code(note.device), &of);
    }
}

/// Adds what is wanted of a trace to columns.
pub(super) struct EventCollector<'c> {
    pub(super) choice: &'c Choice,
    pub(super) columns: &'c mut EventColumns,
}

impl TraceSink for EventCollector<'_> {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        match event {
            TraceEvent::Alive(_) if self.choice.only_new => {}
            TraceEvent::Memory(event) | TraceEvent::Alive(event) => {
                let kind = if event.action == Action::Malloc { Event::Malloc } else { Event::Free };
                if self.choice.wants_memory(event, kind) {
                    self.columns.push_memory(event, state);
                }
            }
            TraceEvent::Note(note) => {
                if let Some((kind, event_type)) = note_words(&note.kind)
                    && self.choice.wants_note(note, kind)
                {
                    self.columns.push_note(note, (event_code(kind), type_code(event_type)));
                }
            }
            _ => {}
        }
        self.columns.step_source = state.steps.source();
        ControlFlow::Continue(())
    }
}

/// Some blocks of one process, in the order in which they ended; those that did not at last.
#[derive(Clone, Debug, Default)]
pub struct BlockColumns {
    pub id: Vec<u64>,
    pub device: Vec<i32>,
    pub pool: Vec<u8>,
    pub address: Vec<u64>,
    pub size: Vec<u64>,
    /// When it was allocated and freed, in nanoseconds since the epoch; 0 if it was not.
    pub made: Vec<u64>,
    pub freed: Vec<u64>,
    pub thread: Vec<u32>,
    pub made_step: Vec<StepId>,
    /// Of no meaning where it was not freed.
    pub freed_step: Vec<StepId>,
    /// Of the allocation.
    pub stack: Vec<u32>,
    pub owner: Vec<u32>,
    pub texts: Texts,
    pub step_source: Option<StepSource>,
}

impl BlockColumns {
    pub fn len(&self) -> usize {
        self.id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    fn push(&mut self, block: &Block, owner: u32, freed: Option<&Moment>) {
        self.id.push(block.id.0);
        self.device.push(device_code(block.device));
        self.pool.push(pool_code(block.pool));
        self.address.push(block.address);
        self.size.push(block.size);
        self.made.push(block.made.time.0);
        self.freed.push(freed.map_or(0, |at| at.time.0));
        self.thread.push(block.made.thread);
        self.made_step.push(block.made.step);
        self.freed_step.push(freed.map_or(StepId(0), |at| at.step));
        self.stack.push(block.made.stack.0);
        self.owner.push(owner);
    }
}

/// The blocks that were made and wanted and are alive. What is kept of each grows with them.
#[derive(Debug, Default)]
pub(super) struct LiveBlocks {
    blocks: FxHashMap<u64, Block>,
    owners: FxHashMap<OwnerId, String>,
}

impl LiveBlocks {
    /// The trace is over: those that are left, in the order in which they were made.
    pub(super) fn into_left(self) -> LeftBlocks {
        let mut blocks: Vec<Block> = self.blocks.into_values().collect();
        blocks.sort_unstable_by_key(|block| block.id);
        LeftBlocks { blocks: blocks.into_iter(), owners: self.owners }
    }
}

/// Blocks that never ended.
#[derive(Debug)]
pub(super) struct LeftBlocks {
    blocks: std::vec::IntoIter<Block>,
    owners: FxHashMap<OwnerId, String>,
}

impl LeftBlocks {
    pub(super) fn drain(&mut self, columns: &mut BlockColumns, count: usize) {
        for block in self.blocks.by_ref().take(count) {
            let owner = self.owners.get(&block.owner).map_or(0, |text| columns.texts.place(text));
            columns.push(&block, owner, None);
        }
    }
}

/// Adds blocks to columns when they end.
pub(super) struct BlockCollector<'c> {
    pub(super) choice: &'c Choice,
    pub(super) live: &'c mut LiveBlocks,
    pub(super) columns: &'c mut BlockColumns,
}

impl TraceSink for BlockCollector<'_> {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        self.columns.step_source = state.steps.source();
        let event = match event {
            TraceEvent::Memory(event) => event,
            TraceEvent::Alive(event) if !self.choice.only_new => event,
            _ => return ControlFlow::Continue(()),
        };
        match event.action {
            Action::Malloc => {
                let is_of_files = event.selection != Selection::NotChosen;
                if is_of_files && self.choice.wants_block(event, &event.block.made) {
                    let owner = event.block.owner;
                    if let Some(text) = state.owners.name(owner) {
                        self.live.owners.entry(owner).or_insert_with(|| text.to_owned());
                    }
                    self.live.blocks.insert(event.block.id.0, event.block);
                }
            }
            Action::Free => {
                if let Some(block) = self.live.blocks.remove(&event.block.id.0) {
                    let owner = self.columns.texts.of_owner(event.block.owner, state);
                    self.columns.push(&block, owner, Some(&event.at));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

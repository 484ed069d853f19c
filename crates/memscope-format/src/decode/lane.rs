//! One lane's records, in the order they were written.
use super::fields::{Tail, execution_line, names, tensor};
use super::records::{self, LaneRecord, Record};
use super::spool::{BlockLocation, Spool, SpoolBlock};
use super::{Damage, Definition, Event, EventKind, SpoolError};
use crate::encode::{Deltas, NodeDeltas};
use crate::record::{PhysicalDevice, StackRef, TaskLogLine};
use std::ops::Range;

/// A position in a lane. Holds one spool block in memory; goes on after [`Spool::refresh`].
#[derive(Debug)]
pub struct LaneCursor {
    lane: u32,
    /// The generation at hand, 0 before the first.
    generation: u32,
    /// Whether the spool block at hand is complete: it came from `events.spool`, so nothing can be added to it.
    complete: bool,
    payload: Vec<u8>,
    at: usize,
    /// Payload bytes of the generations before.
    earlier_bytes: u64,
    last: Deltas,
    last_node: Box<NodeDeltas>,
    thread: u32,
    /// The rest of a record of executions.
    batch: Option<Batch>,
    /// The last path of the generation at hand.
    path: Vec<u8>,
    damage: Vec<Damage>,
    unknown_records: u64,
}

/// Lines of a task log that are not handed out yet.
#[derive(Clone, Debug)]
struct Batch {
    ticks: u64,
    device: PhysicalDevice,
    streams: bool,
    /// Where they are in the payload.
    lines: Range<usize>,
    last: TaskLogLine,
}

impl LaneCursor {
    pub fn new(lane: u32) -> LaneCursor {
        LaneCursor {
            lane,
            generation: 0,
            complete: true,
            payload: Vec::new(),
            at: 0,
            earlier_bytes: 0,
            last: Deltas::at(0),
            last_node: Box::default(),
            thread: 0,
            batch: None,
            path: Vec::new(),
            damage: Vec::new(),
            unknown_records: 0,
        }
    }

    pub fn lane(&self) -> u32 {
        self.lane
    }

    /// Payload bytes read so far.
    pub fn consumed(&self) -> u64 {
        self.earlier_bytes + self.at as u64
    }

    /// What this cursor could not read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Records of types this version does not know.
    pub fn unknown_records(&self) -> u64 {
        self.unknown_records
    }

    /// The next event, after handing over the definitions before it; `None` at the end of what is recorded so far.
    pub fn next_event(
        &mut self,
        spool: &Spool,
        define: &mut dyn FnMut(Definition<'_>),
    ) -> Result<Option<Event>, SpoolError> {
        loop {
            if let Some(event) = self.next_execution() {
                return Ok(Some(event));
            }
            while let Some(rest) = self.payload.get(self.at..).filter(|rest| !rest.is_empty()) {
                let Ok((ticks, record, length)) = records::read(rest, &mut self.last, &mut self.last_node) else {
                    self.give_up();
                    break;
                };
                self.at += length;
                match record {
                    Record::Event { stack, kind, tail } => {
                        if !matches!(tail, Tail::Nothing) && !define_tail(tail, &mut self.path, define) {
                            self.at -= length;
                            self.give_up();
                            break;
                        }
                        return Ok(Some(Event { ticks, thread: self.thread, stack, kind }));
                    }
                    Record::Definition(definition) => define(definition),
                    Record::Lane { record: LaneRecord::Thread { thread }, .. } => self.thread = thread,
                    Record::Lane { record: LaneRecord::Executions { device }, tail } => {
                        let Tail::Lines { streams, lines } = tail else { continue };
                        let lines = self.at - lines.len()..self.at;
                        self.batch = Some(Batch { ticks, device, streams, lines, last: TaskLogLine::default() });
                        if let Some(event) = self.next_execution() {
                            return Ok(Some(event));
                        }
                    }
                    Record::Unknown => self.unknown_records += 1,
                }
            }
            if !self.load_more(spool)? {
                return Ok(None);
            }
        }
    }

    /// The next line of the record of executions at hand.
    fn next_execution(&mut self) -> Option<Event> {
        let batch = self.batch.as_mut()?;
        let bytes = self.payload.get(batch.lines.clone()).filter(|bytes| !bytes.is_empty());
        match bytes.map(|bytes| execution_line(bytes, batch.streams, batch.last)) {
            Some(Ok((line, length))) => {
                batch.lines.start += length;
                batch.last = line;
                let kind = EventKind::Execution { device: batch.device, streams: batch.streams, line };
                Some(Event { ticks: batch.ticks, thread: self.thread, stack: StackRef::NONE, kind })
            }
            Some(Err(_)) => {
                let (lane, generation, offset) = (self.lane, self.generation, batch.lines.start);
                self.damage.push(Damage::Record { lane, generation, offset });
                self.batch = None;
                None
            }
            None => {
                self.batch = None;
                None
            }
        }
    }

    /// The record at hand is none: what follows it in the spool block cannot be read either.
    #[cold]
    fn give_up(&mut self) {
        self.damage.push(Damage::Record { lane: self.lane, generation: self.generation, offset: self.at });
        self.at = self.payload.len();
        self.complete = true;
    }

    /// Loads what follows the bytes at hand: more of the same generation, or the next one.
    fn load_more(&mut self, spool: &Spool) -> Result<bool, SpoolError> {
        let Some(lane) = spool.lane(self.lane) else { return Ok(false) };
        let from = if self.complete { self.generation.checked_add(1) } else { Some(self.generation) };
        let Some(from) = from else { return Ok(false) };
        let block = lane.blocks.range(from..).next().map(|(_, block)| *block);
        let Some(block) = block.or(lane.window.filter(|window| window.generation >= from)) else {
            return Ok(false);
        };
        let same = block.generation == self.generation;
        if same && block.committed <= self.at {
            if matches!(block.location, BlockLocation::Events(_)) {
                self.complete = true;
                return self.load_more(spool);
            }
            return Ok(false);
        }
        self.load(spool, &block, same, lane.window)
    }

    fn load(
        &mut self,
        spool: &Spool,
        block: &SpoolBlock,
        same: bool,
        window: Option<SpoolBlock>,
    ) -> Result<bool, SpoolError> {
        let complete = matches!(block.location, BlockLocation::Events(_));
        let mut header = *block;
        if !spool.payload(block, &mut self.payload)? {
            if !complete {
                // The live window moved on and could not be appended.
                self.payload.truncate(self.at);
                return Ok(false);
            }
            // A torn spool block is replaced by the window that still holds the same generation. Only full windows are
            // appended, so the generation is complete all the same.
            let kept = window.filter(|window| window.generation == block.generation);
            match kept {
                Some(kept) if spool.payload(&kept, &mut self.payload)? => header = kept,
                _ => {
                    self.damage.push(Damage::Checksum { lane: self.lane, generation: block.generation });
                    self.payload.clear();
                }
            }
        }
        self.complete = complete;
        if !same {
            self.generation = header.generation;
            self.earlier_bytes += self.at as u64;
            self.at = 0;
            self.last = Deltas::at(header.base_ticks);
            self.last_node.forget();
            self.path.clear();
            self.thread = header.thread;
        }
        Ok(true)
    }
}

/// Hands over what an event has besides its fields; `false` if it makes no sense. `path` is the last one of the generation.
fn define_tail(tail: Tail<'_>, path: &mut Vec<u8>, define: &mut dyn FnMut(Definition<'_>)) -> bool {
    let definition = match tail {
        Tail::Nothing | Tail::Lines { .. } => return true,
        Tail::Label(text) => Ok(Definition::Text { text }),
        Tail::Operator(bytes) => names(bytes, true, path),
        Tail::Kernel(bytes) => names(bytes, false, path),
        Tail::Tensor(bytes) => tensor(bytes).map(Definition::Tensor),
    };
    definition.map(define).is_ok()
}

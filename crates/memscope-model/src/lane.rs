//! One lane of the spool: where it stands, and what its numbers mean.
use crate::python_calls::is_of_calls;
use crate::stacks::{NodeId, Part};
use crate::{Code, CodeId, Frame, Module, ModuleId, StackId, Stacks, StreamHandle};
use memscope_format::decode::{Definition, Event, FrameRecord, LaneCursor, Spool, SpoolError, StackRef, TensorShape};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A lane being read, with its next event at hand.
pub(crate) struct Lane {
    cursor: LaneCursor,
    definitions: Definitions,
    /// The time of the newest event. A window has no checksum, so damage can make its clock run backwards; the merge
    /// needs it not to.
    ticks: u64,
    /// Bytes read when [`Lane::take_bytes`] was last called.
    reported_bytes: u64,
    /// Events read ahead of their turn.
    ahead: VecDeque<Event>,
    /// In a loop the next stack is the last one.
    last_stack: (StackRef, Result<StackId, StackId>),
}

impl Lane {
    pub(crate) fn new(number: u32) -> Lane {
        Lane {
            cursor: LaneCursor::new(number),
            definitions: Definitions::default(),
            ticks: 0,
            reported_bytes: 0,
            ahead: VecDeque::new(),
            last_stack: (StackRef::NONE, Ok(StackId::NONE)),
        }
    }

    /// Puts the next event into `event`, after its definitions were taken in; tells whether there is one. In place,
    /// because an event is seven words and this happens millions of times.
    #[inline(always)]
    pub(crate) fn advance(
        &mut self,
        spool: &Spool,
        stacks: &mut Stacks,
        event: &mut Event,
    ) -> Result<bool, SpoolError> {
        if let Some(next) = self.ahead.pop_front() {
            *event = next;
            return Ok(true);
        }
        let Lane { cursor, definitions, .. } = self;
        let next = next_of_trace(cursor, spool, &mut |definition| definitions.take_in(definition, stacks))?;
        if !definitions.forgotten.is_empty() {
            // No event before this one is left.
            definitions.forgotten = Vec::new();
        }
        let Some(next) = next else { return Ok(false) };
        *event = next;
        self.ticks = self.ticks.max(event.ticks);
        event.ticks = self.ticks;
        Ok(true)
    }

    /// Event number `index` after the one at hand, read ahead if need be.
    pub(crate) fn peek(
        &mut self,
        index: usize,
        spool: &Spool,
        stacks: &mut Stacks,
    ) -> Result<Option<Event>, SpoolError> {
        while self.ahead.len() <= index {
            let Lane { cursor, definitions, .. } = self;
            let next = next_of_trace(cursor, spool, &mut |definition| definitions.take_in(definition, stacks))?;
            let Some(mut event) = next else { return Ok(None) };
            self.ticks = self.ticks.max(event.ticks);
            event.ticks = self.ticks;
            self.ahead.push_back(event);
        }
        Ok(self.ahead.get(index).copied())
    }

    /// Takes an event that [`Lane::peek`] showed out of the order.
    pub(crate) fn take(&mut self, index: usize) -> Option<Event> {
        self.ahead.remove(index)
    }

    /// The stack that an event of this lane refers to; `Err` with what is left of it if definitions are lost.
    #[inline(always)]
    pub(crate) fn stack(&mut self, stack: StackRef, stacks: &mut Stacks) -> Result<StackId, StackId> {
        if stack == StackRef::NONE {
            return Ok(StackId::NONE);
        }
        if stack == self.last_stack.0 {
            return self.last_stack.1;
        }
        let c = self.definitions.part(stack.c, stacks, Part::C);
        let python = self.definitions.part(stack.python, stacks, Part::Python);
        let found = stacks.stack(c.unwrap_or(NodeId::NONE), python.unwrap_or(NodeId::NONE));
        let answer = if c.is_some() && python.is_some() { Ok(found) } else { Err(found) };
        self.last_stack = (stack, answer);
        answer
    }

    /// The text of the newest mark or range start.
    pub(crate) fn text(&self) -> &str {
        &self.definitions.text
    }

    /// Path and name of the newest operator or kernel of ATB, where they are known.
    pub(crate) fn atb_names(&self) -> (Option<&str>, Option<&str>) {
        (self.definitions.atb_path.as_deref(), self.definitions.atb_name.as_deref())
    }

    /// The stream of operators that begin now, if it is known.
    pub(crate) fn stream(&self) -> Option<StreamHandle> {
        self.definitions.stream
    }

    /// What an operator of Aten is called that goes by this number.
    pub(crate) fn aten_name(&self, number: u32) -> Option<&str> {
        self.definitions.aten_names.get(&number).map(String::as_str)
    }

    /// What the program calls a label or a function that goes by this number.
    pub(crate) fn label_name(&self, number: u32) -> Option<&str> {
        self.definitions.label_names.get(&number).map(String::as_str)
    }

    /// The tensor of the newest access.
    pub(crate) fn tensor(&self) -> &TensorShape {
        &self.definitions.tensor
    }

    #[inline]
    pub(crate) fn has_shared_definitions(&self) -> bool {
        self.definitions.shared.is_some()
    }

    /// The definitions for all lanes that this one had since the last call.
    pub(crate) fn take_shared_definitions(&mut self) -> SharedDefinitions {
        self.definitions.shared.take().map_or_else(SharedDefinitions::default, |shared| *shared)
    }

    /// How many bytes of the spool were read since the last call.
    pub(crate) fn take_bytes(&mut self) -> u64 {
        let consumed = self.cursor.consumed();
        consumed - std::mem::replace(&mut self.reported_bytes, consumed)
    }

    pub(crate) fn cursor(&self) -> &LaneCursor {
        &self.cursor
    }
}

/// The next event of the trace. Calls of Python functions are none: they are many, and nothing else depends on them, so that
/// they are read apart ([`crate::PythonCalls`]).
#[inline(always)]
fn next_of_trace(
    cursor: &mut LaneCursor,
    spool: &Spool,
    define: &mut dyn FnMut(Definition<'_>),
) -> Result<Option<Event>, SpoolError> {
    loop {
        let next = cursor.next_event(spool, define)?;
        if !next.is_some_and(|event| is_of_calls(event.kind)) {
            return Ok(next);
        }
    }
}

/// What the lane's definitions said so far, in terms of the process-wide [`Stacks`].
#[derive(Default)]
struct Definitions {
    nodes: Nodes,
    /// Nodes that only events read ahead of their turn refer to.
    forgotten: Vec<Nodes>,
    modules: FxHashMap<u32, ModuleId>,
    codes: FxHashMap<u32, CodeId>,
    /// The frames of the part being resolved.
    frames: Vec<Frame>,
    /// Of the newest event that has one.
    text: String,
    atb_path: Option<String>,
    atb_name: Option<String>,
    stream: Option<StreamHandle>,
    aten_names: FxHashMap<u32, String>,
    label_names: FxHashMap<u32, String>,
    tensor: TensorShape,
    /// Rare; a word to look at for each event.
    shared: Option<Box<SharedDefinitions>>,
}

/// Definitions in one lane that count for all lanes.
#[derive(Default)]
pub(crate) struct SharedDefinitions {
    pub(crate) visible_devices: Option<String>,
    /// By their hashes.
    pub(crate) kernel_names: Vec<(u64, String)>,
}

#[derive(Clone, Copy)]
struct LaneNode {
    parent: u32,
    frame: Frame,
    /// The process-wide node of the same frames; found when the first event asks.
    known: Option<NodeId>,
}

/// Nodes by number, since the lane's definitions were last forgotten.
#[derive(Default)]
struct Nodes {
    /// The number of the first.
    first: u32,
    /// Numbers are dense unless spool blocks are missing, so this holds nearly all of them; `None` for one that is in
    /// no spool block that could be read.
    dense: Vec<Option<LaneNode>>,
    /// Nodes whose number is so far ahead that the bytes seen do not justify the memory up to it.
    distant: FxHashMap<u32, LaneNode>,
    defined: usize,
}

impl Nodes {
    #[inline]
    fn define(&mut self, id: u32, node: LaneNode) {
        if self.defined == 0 {
            self.first = id;
        }
        self.defined += 1;
        if self.index(id) == self.dense.len() {
            self.dense.push(Some(node));
        } else {
            self.define_out_of_order(id, node);
        }
    }

    #[cold]
    fn define_out_of_order(&mut self, id: u32, node: LaneNode) {
        // Enough for a gap of a few missing blocks, yet never more memory than a multiple of what was read.
        const FREE_GAP: usize = 1 << 20;
        let index = self.index(id);
        if (self.dense.len()..self.defined * 2 + FREE_GAP).contains(&index) {
            self.dense.resize(index + 1, None);
        }
        match self.dense.get_mut(index) {
            Some(place) => *place = Some(node),
            None => {
                self.distant.insert(id, node);
            }
        }
    }

    /// Out of range for a number before the first.
    #[inline]
    fn index(&self, id: u32) -> usize {
        id.wrapping_sub(self.first) as usize
    }

    fn get_mut(&mut self, id: u32) -> Option<&mut LaneNode> {
        let index = self.index(id);
        match self.dense.get_mut(index) {
            Some(Some(node)) => Some(node),
            // A distant node stays where it is when the dense ones grow past it.
            _ => self.distant.get_mut(&id),
        }
    }

    #[inline]
    fn get(&self, id: u32) -> Option<&LaneNode> {
        match self.dense.get(self.index(id)) {
            Some(Some(node)) => Some(node),
            _ => self.distant.get(&id),
        }
    }
}

impl Definitions {
    fn take_in(&mut self, definition: Definition<'_>, stacks: &mut Stacks) {
        match definition {
            Definition::Module { id, start, end, bias, build_id, path } => {
                let module = Module {
                    path: PathBuf::from(OsStr::from_bytes(path)),
                    build_id: build_id.to_vec(),
                    start,
                    end,
                    bias,
                };
                self.modules.insert(id, stacks.intern_module(module));
            }
            Definition::Code { id, python_version, first_line, file, function, line_table } => {
                let code = Code {
                    python_version,
                    first_line,
                    file: text(file),
                    function: text(function),
                    line_table: line_table.to_vec(),
                };
                self.codes.insert(id, stacks.intern_code(code));
            }
            Definition::Node { id, parent, frame } => {
                let frame = match frame {
                    FrameRecord::C { module, offset } => {
                        let known = self.modules.get(&module).copied();
                        let module = known.unwrap_or_else(|| stacks.intern_module(Module::default()));
                        Frame::C { module, offset }
                    }
                    FrameRecord::Unknown { address } => Frame::Unknown { address },
                    FrameRecord::Python { code, instruction } => {
                        let known = self.codes.get(&code).copied();
                        let code = known.unwrap_or_else(|| stacks.intern_code(Code::default()));
                        Frame::Python { code, instruction }
                    }
                };
                self.nodes.define(id, LaneNode { parent, frame, known: None });
            }
            Definition::Forget {} => {
                self.forgotten.push(std::mem::take(&mut self.nodes));
            }
            Definition::Text { text: bytes, .. } => self.text = text(bytes),
            Definition::VisibleDevices { text: bytes } => {
                self.shared.get_or_insert_default().visible_devices = Some(text(bytes));
            }
            Definition::KernelName { hash, text: bytes } => {
                self.shared.get_or_insert_default().kernel_names.push((hash, text(bytes)));
            }
            Definition::AtenName { id, text: bytes } => {
                self.aten_names.insert(id, text(bytes));
            }
            Definition::Stream { handle } => self.stream = StreamHandle::known(handle),
            Definition::LabelName { id, text: bytes } => {
                self.label_names.insert(id, text(bytes));
            }
            Definition::AtbNames { path, name } => {
                let known = |bytes: &[u8]| (!bytes.is_empty()).then(|| text(bytes));
                (self.atb_path, self.atb_name) = (known(path), known(name));
            }
            Definition::Tensor(shape) => self.tensor = shape,
            // Of calls.
            Definition::CallName { .. } => {}
        }
    }

    #[inline(always)]
    fn node(&self, id: u32) -> Option<&LaneNode> {
        self.nodes.get(id).or_else(|| self.forgotten.iter().rev().find_map(|nodes| nodes.get(id)))
    }

    /// The process-wide node for node `id` as the innermost of a part; `None` if its definition is lost.
    #[inline]
    fn part(&mut self, id: u32, stacks: &mut Stacks, part: Part) -> Option<NodeId> {
        if id == 0 {
            return Some(NodeId::NONE);
        }
        match self.nodes.dense.get(self.nodes.index(id)) {
            Some(Some(LaneNode { known: Some(known), .. })) => Some(*known),
            _ => self.resolve(id, stacks, part),
        }
    }

    #[cold]
    fn resolve(&mut self, id: u32, stacks: &mut Stacks, part: Part) -> Option<NodeId> {
        if let Some(known) = self.node(id)?.known {
            return Some(known);
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        self.walk(id, stacks.depth(part), &mut frames, part);
        let known = stacks.intern(&frames);
        self.frames = frames;
        let mut all = std::iter::once(&mut self.nodes).chain(&mut self.forgotten);
        if let Some(node) = all.find_map(|nodes| nodes.get_mut(id)) {
            node.known = Some(known);
        }
        Some(known)
    }

    /// The frames from `innermost` outwards, as many as count, up to the first that is lost. Ends, because the
    /// decoder lets a node hang only below an older one.
    fn walk(&self, innermost: u32, depth: usize, frames: &mut Vec<Frame>, part: Part) {
        let mut at = innermost;
        while at != 0 && frames.len() < depth {
            let Some(node) = self.node(at).filter(|node| Part::of(&node.frame) == part) else { break };
            frames.push(node.frame);
            at = node.parent;
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memscope_testkit::SpoolBuilder;

    const EACH: u32 = 1000;

    /// Stacks of up to a hundred frames; the lane forgets its nodes after every thousand.
    fn forgetful(rounds: u32) -> (tempfile::TempDir, Spool) {
        let mut builder = SpoolBuilder::new();
        let lane = builder.lane(1);
        builder.module(lane, 0, 0x1000, b"/usr/bin/program", b"");
        for round in 0..rounds {
            for index in 0..EACH {
                let (id, parent) = (round * EACH + index + 1, if index % 100 == 0 { 0 } else { round * EACH + index });
                builder.c_node(lane, id, parent, 0, u64::from(index) * 16);
                builder.alloc(lane, u64::from(id), 0x5000 + u64::from(id) * 16, 8, id);
            }
            builder.forget(lane);
        }
        let directory = tempfile::tempdir().unwrap();
        builder.write(directory.path()).unwrap();
        let spool = Spool::open(&directory.path().join("spool")).unwrap();
        (directory, spool)
    }

    #[test]
    fn what_the_lane_forgot_takes_no_memory() {
        let (_directory, spool) = forgetful(50);
        let (mut lane, mut stacks) = (Lane::new(0), Stacks::new(100, 100));
        let mut event = Event { ticks: 0, thread: 0, stack: StackRef::NONE, kind: NOTHING };
        let (mut events, mut most) = (0, 0);
        while lane.advance(&spool, &mut stacks, &mut event).unwrap() {
            let stack = lane.stack(event.stack, &mut stacks);
            assert_eq!(stack.map(|stack| stacks.c_frames(stack).count()), Ok((events as usize % 100) + 1));
            events += 1;
            let kept = std::iter::once(&lane.definitions.nodes).chain(&lane.definitions.forgotten);
            most = most.max(kept.map(|nodes| nodes.dense.len() + nodes.distant.len()).sum::<usize>());
        }
        assert_eq!((events, most), (50 * EACH, EACH as usize));
    }

    #[test]
    fn events_read_ahead_keep_what_they_refer_to() {
        let (_directory, spool) = forgetful(3);
        let (mut lane, mut stacks) = (Lane::new(0), Stacks::new(100, 100));
        let mut event = Event { ticks: 0, thread: 0, stack: StackRef::NONE, kind: NOTHING };
        assert!(lane.peek(2 * EACH as usize + 7, &spool, &mut stacks).unwrap().is_some());
        let mut events = 0;
        while lane.advance(&spool, &mut stacks, &mut event).unwrap() {
            assert!(lane.stack(event.stack, &mut stacks).is_ok(), "event {events}");
            events += 1;
        }
        assert_eq!(events, 3 * EACH);
        assert!(lane.definitions.forgotten.is_empty());
    }

    const NOTHING: memscope_format::decode::EventKind =
        memscope_format::decode::EventKind::HostFree { address: crate::HostAddr(0) };
}

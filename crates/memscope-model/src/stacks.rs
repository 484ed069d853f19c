//! The distinct stacks of a process, whichever lane they came from.
use rustc_hash::FxHashMap;
use std::path::PathBuf;

/// A call stack: a C part, a Python part, or both. 0 is "no stack".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StackId(pub u32);

impl StackId {
    pub const NONE: StackId = StackId(0);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleId(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CodeId(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Frame {
    /// A return address as in the module's file.
    C { module: ModuleId, offset: u64 },
    /// A return address outside all modules.
    Unknown { address: u64 },
    /// Byte offset of the running instruction.
    Python { code: CodeId, instruction: u32 },
    /// A frame as a file spelled it, in whichever language.
    Text(TextId),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TextId(pub u32);

/// A loaded ELF object. One whose definition is lost has an empty path.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Module {
    /// Not always text.
    pub path: PathBuf,
    /// Empty if the file has none.
    pub build_id: Vec<u8>,
    /// Run-time address of the first and one past the last mapped byte.
    pub start: u64,
    pub end: u64,
    /// Run-time address minus address in the file.
    pub bias: u64,
}

/// A Python code object. One whose definition is lost has an empty file and function.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Code {
    /// `PY_VERSION_HEX >> 16`: says how `line_table` is encoded.
    pub python_version: u16,
    pub first_line: u32,
    pub file: String,
    pub function: String,
    pub line_table: Vec<u8>,
}

/// A node of the tree of frames: its frame was called from `parent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    parent: NodeId,
    frame: Frame,
}

/// The number of a frame below its callers, from 1 in the order in which they are seen; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u32);

impl NodeId {
    pub const NONE: NodeId = NodeId(0);
}

/// The innermost nodes of a stack's two parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Parts {
    c: NodeId,
    python: NodeId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    C,
    Python,
}

impl Part {
    /// Where a recorded frame belongs.
    pub(crate) fn of(frame: &Frame) -> Part {
        match frame {
            Frame::Python { .. } => Part::Python,
            Frame::C { .. } | Frame::Unknown { .. } | Frame::Text(_) => Part::C,
        }
    }
}

/// All stacks, modules and code objects seen so far. Ids stay valid while the [`crate::Process`] lives.
#[derive(Debug)]
pub struct Stacks {
    /// Node `n` is at `n - 1`.
    nodes: Vec<Node>,
    node_ids: FxHashMap<Node, NodeId>,
    /// Stack `s` is at `s - 1`.
    stacks: Vec<Parts>,
    stack_ids: FxHashMap<Parts, StackId>,
    modules: Vec<Module>,
    module_ids: FxHashMap<(PathBuf, Vec<u8>, u64), ModuleId>,
    codes: Vec<Code>,
    code_ids: FxHashMap<Code, CodeId>,
    texts: Vec<String>,
    text_ids: FxHashMap<String, TextId>,
    c_depth: usize,
    python_depth: usize,
}

/// The most frames a part can have, whatever the settings say: a deep recursion names the same few functions again
/// and again, and a made-up spool must not cost more than its size.
const MOST_FRAMES: usize = 1024;

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks::new(MOST_FRAMES, MOST_FRAMES)
    }
}

impl Stacks {
    pub(crate) fn new(c_depth: usize, python_depth: usize) -> Stacks {
        Stacks {
            nodes: Vec::new(),
            node_ids: FxHashMap::default(),
            stacks: Vec::new(),
            stack_ids: FxHashMap::default(),
            modules: Vec::new(),
            module_ids: FxHashMap::default(),
            codes: Vec::new(),
            code_ids: FxHashMap::default(),
            texts: Vec::new(),
            text_ids: FxHashMap::default(),
            c_depth: c_depth.min(MOST_FRAMES),
            python_depth: python_depth.min(MOST_FRAMES),
        }
    }

    /// The most frames of a part. Those beyond are dropped when a stack is seen rather than where it is shown, so that
    /// stacks that differ only in them are one stack to every report.
    pub(crate) fn depth(&self, part: Part) -> usize {
        match part {
            Part::C => self.c_depth,
            Part::Python => self.python_depth,
        }
    }

    /// The most Python frames a stack can have: one that has as many may have had more.
    pub fn python_depth(&self) -> usize {
        self.python_depth
    }

    /// As [`Stacks::python_depth`], of native frames.
    pub fn c_depth(&self) -> usize {
        self.c_depth
    }

    /// The native frames, innermost first, no more than were asked to be recorded.
    pub fn c_frames(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        self.frames(self.parts(stack).c)
    }

    /// The Python frames, innermost first, no more than were asked to be recorded.
    pub fn python_frames(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        self.frames(self.parts(stack).python)
    }

    /// The innermost native node of a stack.
    pub fn c_node(&self, stack: StackId) -> NodeId {
        self.parts(stack).c
    }

    /// The innermost Python node of a stack.
    pub fn python_node(&self, stack: StackId) -> NodeId {
        self.parts(stack).python
    }

    /// A node's frame and its caller's node; a caller's number is always the smaller one.
    pub fn node(&self, node: NodeId) -> Option<(Frame, NodeId)> {
        let node = self.nodes.get((node.0 as usize).checked_sub(1)?)?;
        Some((node.frame, node.parent))
    }

    /// How many stacks there are; their ids are 1 to this number.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// The module of a frame of these stacks.
    ///
    /// # Panics
    /// If the id is of another process.
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    /// The code object of a frame of these stacks.
    ///
    /// # Panics
    /// If the id is of another process.
    pub fn code(&self, id: CodeId) -> &Code {
        &self.codes[id.0 as usize]
    }

    /// A frame as a file spelled it.
    ///
    /// # Panics
    /// If the id is of another trace.
    pub fn text(&self, id: TextId) -> &str {
        &self.texts[id.0 as usize]
    }

    /// The stack of the given texts of frames, innermost first.
    pub fn intern_texts<'t>(
        &mut self,
        c: impl Iterator<Item = &'t str>,
        python: impl Iterator<Item = &'t str>,
    ) -> StackId {
        let c: Vec<Frame> = c.take(MOST_FRAMES).map(|text| self.text_frame(text)).collect();
        let python: Vec<Frame> = python.take(MOST_FRAMES).map(|text| self.text_frame(text)).collect();
        let (c, python) = (self.intern(&c), self.intern(&python));
        self.stack(c, python)
    }

    /// The node of a frame that is a text, below that of its caller.
    pub fn intern_text(&mut self, text: &str, caller: NodeId) -> NodeId {
        let frame = self.text_frame(text);
        self.intern_below(caller, frame)
    }

    fn text_frame(&mut self, text: &str) -> Frame {
        if let Some(id) = self.text_ids.get(text) {
            return Frame::Text(*id);
        }
        let id = TextId(self.texts.len() as u32);
        self.texts.push(text.to_owned());
        self.text_ids.insert(text.to_owned(), id);
        Frame::Text(id)
    }

    pub(crate) fn intern_module(&mut self, module: Module) -> ModuleId {
        let Stacks { modules, module_ids, .. } = self;
        let key = (module.path.clone(), module.build_id.clone(), module.bias);
        *module_ids.entry(key).or_insert_with(|| {
            modules.push(module);
            ModuleId((modules.len() - 1) as u32)
        })
    }

    pub(crate) fn intern_code(&mut self, code: Code) -> CodeId {
        let Stacks { codes, code_ids, .. } = self;
        *code_ids.entry(code).or_insert_with_key(|code| {
            codes.push(code.clone());
            CodeId((codes.len() - 1) as u32)
        })
    }

    /// The node of the given frames, innermost first.
    pub(crate) fn intern(&mut self, frames: &[Frame]) -> NodeId {
        frames.iter().rev().fold(NodeId::NONE, |parent, frame| self.intern_below(parent, *frame))
    }

    #[inline]
    fn intern_below(&mut self, parent: NodeId, frame: Frame) -> NodeId {
        let Stacks { nodes, node_ids, .. } = self;
        let node = Node { parent, frame };
        *node_ids.entry(node).or_insert_with(|| {
            nodes.push(node);
            NodeId(nodes.len() as u32)
        })
    }

    /// The stack of two parts.
    pub fn stack(&mut self, c: NodeId, python: NodeId) -> StackId {
        let parts = Parts { c, python };
        if parts == Parts::default() {
            return StackId::NONE;
        }
        let Stacks { stacks, stack_ids, .. } = self;
        *stack_ids.entry(parts).or_insert_with(|| {
            stacks.push(parts);
            StackId(stacks.len() as u32)
        })
    }

    fn parts(&self, stack: StackId) -> Parts {
        let index = (stack.0 as usize).checked_sub(1);
        index.and_then(|index| self.stacks.get(index)).copied().unwrap_or_default()
    }

    fn frames(&self, innermost: NodeId) -> impl Iterator<Item = Frame> + '_ {
        let mut at = innermost;
        std::iter::from_fn(move || {
            let (frame, caller) = self.node(at)?;
            at = caller;
            Some(frame)
        })
    }
}

//! The distinct stacks of a process, whichever lane they came from.
use rustc_hash::FxHashMap;

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
}

/// A loaded ELF object. One whose definition is lost has an empty path.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Module {
    pub path: String,
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

/// A node of the tree of frames: its frame was called from `parent`, 0 being nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    parent: u32,
    frame: Frame,
}

/// The innermost nodes of a stack's two parts, 0 for a part it does not have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Parts {
    c: u32,
    python: u32,
}

/// All stacks, modules and code objects met so far. Ids stay valid while the [`crate::Process`] lives.
#[derive(Debug)]
pub struct Stacks {
    /// Node `n` is at `n - 1`.
    nodes: Vec<Node>,
    node_ids: FxHashMap<Node, u32>,
    /// Stack `s` is at `s - 1`.
    stacks: Vec<Parts>,
    stack_ids: FxHashMap<Parts, StackId>,
    modules: Vec<Module>,
    module_ids: FxHashMap<(String, Vec<u8>, u64), ModuleId>,
    codes: Vec<Code>,
    code_ids: FxHashMap<Code, CodeId>,
    c_depth: usize,
    python_depth: usize,
}

/// The most frames a part can have, whatever the settings say: a deep recursion names the same few functions again
/// and again, and a made-up spool must not cost more than its size.
const MOST_FRAMES: usize = 1024;

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
            c_depth: c_depth.min(MOST_FRAMES),
            python_depth: python_depth.min(MOST_FRAMES),
        }
    }

    /// No part has more frames than this.
    pub(crate) fn deepest(&self) -> usize {
        self.c_depth.max(self.python_depth)
    }

    /// The native frames, innermost first, no more than were asked to be recorded.
    pub fn c_frames(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        self.frames(self.parts(stack).c)
    }

    /// The Python frames, innermost first, no more than were asked to be recorded.
    pub fn python_frames(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        self.frames(self.parts(stack).python)
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

    /// The stack of the given frames, innermost first. Frames beyond the recorded depths are dropped here rather than
    /// where they are shown, so that stacks that differ only in them are one stack to every report.
    pub(crate) fn intern(&mut self, c: &[Frame], python: &[Frame]) -> StackId {
        let c = &c[..c.len().min(self.c_depth)];
        let python = &python[..python.len().min(self.python_depth)];
        let parts = Parts { c: self.intern_frames(c), python: self.intern_frames(python) };
        if parts == Parts::default() {
            return StackId::NONE;
        }
        let Stacks { stacks, stack_ids, .. } = self;
        *stack_ids.entry(parts).or_insert_with(|| {
            stacks.push(parts);
            StackId(stacks.len() as u32)
        })
    }

    fn intern_frames(&mut self, frames: &[Frame]) -> u32 {
        let Stacks { nodes, node_ids, .. } = self;
        frames.iter().rev().fold(0, |parent, frame| {
            let node = Node { parent, frame: *frame };
            *node_ids.entry(node).or_insert_with(|| {
                nodes.push(node);
                nodes.len() as u32
            })
        })
    }

    fn parts(&self, stack: StackId) -> Parts {
        let index = (stack.0 as usize).checked_sub(1);
        index.and_then(|index| self.stacks.get(index)).copied().unwrap_or_default()
    }

    fn frames(&self, innermost: u32) -> impl Iterator<Item = Frame> + '_ {
        let mut at = innermost;
        std::iter::from_fn(move || {
            let node = self.nodes.get((at as usize).checked_sub(1)?)?;
            at = node.parent;
            Some(node.frame)
        })
    }
}

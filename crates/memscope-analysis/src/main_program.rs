//! When a Python program's own code has ended.
//!
//! The interpreter says it nowhere, and frees have no stacks. But allocations do: while the program runs, the outermost
//! Python frame of its first thread is the code of the main module (or of `runpy`, which runs it for `python -m`). What
//! that thread allocates later it allocates without a Python frame, or below another one (`atexit`, `threading`): taking
//! the interpreter apart begins with a copy of the built-in names (`finalize_modules`), before modules lose what they
//! hold. So the main program has ended before the first allocation of its thread that does not show it, after the last
//! that does. Frees between the two are taken as the program's own, with one exception.
//!
//! A main module in which no function is defined is not part of a reference cycle: it goes before that copy is made. For it
//! there is an earlier sign. The blocks in which the main module was compiled, the last that the thread allocated without a
//! Python frame before the module's code ran, are freed as soon as that code has ended.
//!
//! Frees of device memory have stacks, so they tell as much as allocations do: those without a Python frame, on the first
//! thread, are of the interpreter that gives back what modules held. Where no host memory was recorded nothing else shows it.
//!
//! A program that only has Python inside (a debugger, a server) runs modules, too, and goes on: see [`MainProgram::goes_on`].
use memscope_model::{Action, BlockEvent, BlockId, Frame, NodeId, Pool, StackId, Stacks};
use rustc_hash::FxHashSet;

/// Follows the first thread of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct MainProgram {
    thread: Option<u32>,
    /// By node of Python frames: what is known of the way to its root.
    ways: Vec<Way>,
    /// The main module's code has shown itself.
    began: bool,
    /// Blocks allocated without a Python frame since the newest allocation with one, until the main module's code runs:
    /// those in which it was compiled.
    compiled_in: FxHashSet<BlockId>,
    /// Allocations of the thread that showed the main module, and those since that did not.
    inside: u64,
    since: u64,
}

/// Taking the interpreter apart takes some hundred allocations, and below five thousand of a program with pandas and scipy.
const MOST_AT_THE_END: u64 = 5000;

/// Where a node's outermost caller is, and how many frames there are from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Way {
    #[default]
    Unknown,
    FromMain(u16),
    FromElsewhere(u16),
}

impl MainProgram {
    /// Whether the event shows its thread in the main program, or out of it; `None` if it does not tell.
    pub(crate) fn shows(&mut self, event: &BlockEvent, stacks: &Stacks) -> Option<bool> {
        let thread = *self.thread.get_or_insert(event.at.thread);
        if event.at.thread != thread || event.synthetic {
            return None;
        }
        if event.action == Action::Free && event.block.pool == Pool::Host {
            // Also before: a program without any Python would fill the set with all it ever allocates.
            let compiled_in = self.compiled_in.remove(&event.block.id);
            return (self.began && compiled_in).then_some(false);
        }
        let depth = stacks.python_depth();
        let inside = match self.way(event.at.stack, stacks) {
            // Its outermost frames were not recorded: of so deep a stack, once the program runs, they are the program's.
            Way::FromMain(length) | Way::FromElsewhere(length) if usize::from(length) >= depth => self.began,
            Way::FromMain(_) => true,
            Way::FromElsewhere(_) | Way::Unknown => false,
        };
        if event.action == Action::Malloc {
            (self.inside, self.since) =
                if inside { (self.inside + 1, 0) } else { (self.inside, self.since + u64::from(self.began)) };
        }
        match (self.began, inside) {
            (false, true) => self.began = true,
            (false, false) if event.block.pool != Pool::Host => {}
            (false, false) if stacks.python_node(event.at.stack) == NodeId::NONE => {
                self.compiled_in.insert(event.block.id);
            }
            (false, false) => self.compiled_in.clear(),
            (true, _) => {}
        }
        Some(inside)
    }

    /// Since its main module was seen last the thread has done more than an interpreter does that takes itself apart, and more
    /// than below that module: what ran there was not the program.
    pub(crate) fn goes_on(&self) -> bool {
        self.since > self.inside.max(MOST_AT_THE_END)
    }

    fn way(&mut self, stack: StackId, stacks: &Stacks) -> Way {
        let mut node = stacks.python_node(stack);
        let mut below = Vec::new();
        // Up to the root, or to a node that is known.
        let mut way = Way::Unknown;
        while let Some((frame, caller)) = stacks.node(node) {
            let index = node.0 as usize;
            if let Some(known) = self.ways.get(index).filter(|way| **way != Way::Unknown) {
                way = *known;
                break;
            }
            if caller == NodeId::NONE && runs_main(frame, stacks) {
                way = Way::FromMain(0);
            }
            below.push(index);
            node = caller;
        }
        for index in below.into_iter().rev() {
            way = match way {
                Way::FromMain(length) => Way::FromMain(length.saturating_add(1)),
                Way::FromElsewhere(length) => Way::FromElsewhere(length.saturating_add(1)),
                Way::Unknown => Way::FromElsewhere(1),
            };
            if index >= self.ways.len() {
                self.ways.resize(index + 1, Way::Unknown);
            }
            self.ways[index] = way;
        }
        way
    }
}

/// Whether the main program's code is in this frame, if the frame is the outermost. The interpreter's first modules are
/// outermost too, before there is an import machinery.
fn runs_main(frame: Frame, stacks: &Stacks) -> bool {
    let (file, function) = match frame {
        Frame::Python { code, .. } => (stacks.code(code).file.as_str(), stacks.code(code).function.as_str()),
        // `file(line): function`
        Frame::Text(text) => stacks.text(text).rsplit_once(": ").unwrap_or_default(),
        Frame::C { .. } | Frame::Unknown { .. } => return false,
    };
    match function {
        "<module>" => !file.starts_with("<frozen "),
        "_run_module_as_main" => true,
        _ => false,
    }
}

//! One stack of both languages, without the interpreter's own frames.
//!
//! A recorded stack has two parts. In the native part one function of the interpreter stands where Python code runs
//! ([`super::role::evaluates_python`]), and the Python frames belong in its place:
//!
//! ```text
//! native   main  run_file  EVAL  call  EVAL  THPEngine_run_backward  at::empty  malloc
//! Python                   train       step
//! merged   main            train       step  THPEngine_run_backward  at::empty  malloc
//! ```
//!
//! Up to 3.10 each call of that function is one Python frame. Since 3.11 a Python function that calls another one stays in the
//! same call of it, so there are fewer of them than Python frames, and which frames belong to which call was not recorded. It
//! does not matter as long as only the interpreter's own code lies between two calls, since that is dropped: all Python frames
//! then come one after the other. It is known, too, where there are as many calls as frames. Only where native code of others
//! calls back into Python, and Python functions call each other besides, is the place of that code unknown: there all Python
//! frames are put outside of the innermost native ones, and the native ones between them are left out.
use super::names::{FrameId, Language, Names};
use super::role::Role;
use memscope_model::{NodeId, StackId, Stacks};
use memscope_symbols::Symbolizer;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Names the stacks of one trace. Stacks have most of their frames in common, so what was found is kept.
pub struct Naming<'a> {
    stacks: &'a Stacks,
    symbolizer: &'a mut Symbolizer,
    pub names: Names,
    merged: FxHashMap<StackId, Rc<[FrameId]>>,
    /// By innermost node: the Python frames, innermost first.
    python: FxHashMap<NodeId, Rc<[FrameId]>>,
    /// By the innermost node that runs Python code: the native frames outside of it.
    outside: FxHashMap<NodeId, Rc<Outside>>,
}

/// Native frames outside of the innermost call that runs Python code, without the interpreter's own.
#[derive(Debug, Default)]
struct Outside {
    /// Between that call and the next outer one, and so on; one fewer than there are such calls.
    between: Vec<Vec<FrameId>>,
    /// Outside of all of them, in a program that has Python built in. A part that was cut off does not reach them.
    outermost: Vec<FrameId>,
}

impl<'a> Naming<'a> {
    pub fn new(stacks: &'a Stacks, symbolizer: &'a mut Symbolizer) -> Naming<'a> {
        let (merged, python, outside) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Naming { stacks, symbolizer, names: Names::default(), merged, python, outside }
    }

    /// The frames of a stack, outermost first. Of several wrappers that hand on memory to each other the outermost stands for
    /// all; callers that were not recorded have a frame that says so.
    pub fn merged(&mut self, stack: StackId) -> Rc<[FrameId]> {
        if let Some(known) = self.merged.get(&stack) {
            return Rc::clone(known);
        }
        let (native, python) = (self.stacks.c_node(stack), self.stacks.python_node(stack));
        let python = self.python(python);
        let joined = if python.is_empty() { self.native(native) } else { self.joined(native, &python) };
        let is_wrapper = |frame: &&FrameId| self.names.function_of(**frame).role == Role::Wrapper;
        let wrappers = joined.iter().take_while(is_wrapper).count().min(joined.len().saturating_sub(1));
        let frames: Rc<[FrameId]> = joined[wrappers.saturating_sub(1)..].iter().rev().copied().collect();
        self.merged.insert(stack, Rc::clone(&frames));
        frames
    }

    /// The import machinery belongs to the interpreter, even if it is written in Python.
    fn python(&mut self, innermost: NodeId) -> Rc<[FrameId]> {
        if let Some(known) = self.python.get(&innermost) {
            return Rc::clone(known);
        }
        let mut frames = Vec::new();
        let (mut node, mut depth) = (innermost, 0);
        while let Some((frame, caller)) = self.stacks.node(node) {
            frames.extend_from_slice(self.names.of(Language::Python, frame, self.stacks, self.symbolizer));
            (node, depth) = (caller, depth + 1);
        }
        let is_import = |frame: &FrameId| self.names.function_of(*frame).role == Role::Import;
        if !frames.iter().all(is_import) {
            frames.retain(|frame| !is_import(frame));
        }
        // The user's script has no caller, however deep the stack is.
        let begins = frames.last().is_some_and(|frame| {
            let function = self.names.function_of(*frame);
            function.role == Role::Own && function.name == "<module>"
        });
        if depth > 0 && depth >= self.stacks.python_depth() && !begins {
            frames.push(self.names.cut_off());
        }
        let frames: Rc<[FrameId]> = frames.into();
        self.python.insert(innermost, Rc::clone(&frames));
        frames
    }

    /// A stack of native code alone, innermost first.
    fn native(&mut self, innermost: NodeId) -> Vec<FrameId> {
        let mut frames = Vec::new();
        let (mut node, mut depth) = (innermost, 0);
        while let Some((frame, caller)) = self.stacks.node(node) {
            frames.extend_from_slice(self.names.of(Language::Native, frame, self.stacks, self.symbolizer));
            (node, depth) = (caller, depth + 1);
        }
        frames.retain(|frame| self.names.function_of(*frame).role != Role::Outset);
        if depth > 0 && depth >= self.stacks.c_depth() {
            frames.push(self.names.cut_off());
        }
        frames
    }

    /// Both parts as one, innermost first.
    fn joined(&mut self, native: NodeId, python: &[FrameId]) -> Vec<FrameId> {
        let (innermost, evaluation) = self.run(native);
        // Where Python code does not show in the native part that was cut off, or the interpreter has no names.
        let outside = if evaluation == NodeId::NONE { Rc::default() } else { self.outside(evaluation) };
        let calls = outside.between.len() + 1;
        if python.len() == calls && outside.between.iter().any(|run| !run.is_empty()) {
            let runs = outside.between.iter().chain([&outside.outermost]);
            let interleaved = python.iter().zip(runs).flat_map(|(frame, run)| std::iter::once(frame).chain(run));
            return innermost.iter().chain(interleaved).copied().collect();
        }
        [&innermost[..], python, &outside.outermost].concat()
    }

    fn outside(&mut self, evaluation: NodeId) -> Rc<Outside> {
        if let Some(known) = self.outside.get(&evaluation) {
            return Rc::clone(known);
        }
        let mut outside = Outside::default();
        let mut node = self.stacks.node(evaluation).map_or(NodeId::NONE, |(_, caller)| caller);
        loop {
            let (frames, next) = self.run(node);
            if next == NodeId::NONE {
                outside.outermost = if self.is_complete(node) { frames } else { Vec::new() };
                break;
            }
            outside.between.push(frames);
            node = self.stacks.node(next).map_or(NodeId::NONE, |(_, caller)| caller);
        }
        let outside = Rc::new(outside);
        self.outside.insert(evaluation, Rc::clone(&outside));
        outside
    }

    /// The native frames from a node outwards up to the next call that runs Python code, without the interpreter's own, and
    /// the node of that call.
    fn run(&mut self, mut node: NodeId) -> (Vec<FrameId>, NodeId) {
        let mut run = Vec::new();
        while let Some((frame, caller)) = self.stacks.node(node) {
            let frames: Vec<FrameId> = self.names.of(Language::Native, frame, self.stacks, self.symbolizer).to_vec();
            for frame in frames {
                let function = self.names.function_of(frame);
                if function.evaluates_python {
                    return (run, node);
                }
                let dropped =
                    matches!(function.role, Role::Outset | Role::Interpreter) || is_of_interpreter(&function.name);
                if !dropped {
                    run.push(frame);
                }
            }
            node = caller;
        }
        (run, NodeId::NONE)
    }

    /// Whether the stack reaches the beginning of its thread.
    fn is_complete(&mut self, mut node: NodeId) -> bool {
        let mut last = None;
        while let Some((frame, caller)) = self.stacks.node(node) {
            (last, node) = (Some(frame), caller);
        }
        let Some(frame) = last else { return false };
        let outermost = self.names.of(Language::Native, frame, self.stacks, self.symbolizer).last().copied();
        outermost.is_some_and(|frame| self.names.function_of(frame).role == Role::Outset)
    }
}

/// Python's allocators are wrappers by name, and the interpreter's all the same.
fn is_of_interpreter(name: &str) -> bool {
    ["PyMem_", "PyObject_", "_PyMem_", "_PyObject_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Innermost first, as recorded: native frames by name, `X!` of the interpreter's object, `EVAL` runs Python.
    fn joined(native: &[&str], python: &[&str]) -> Vec<String> {
        let native: Vec<String> = native
            .iter()
            .map(|name| match (*name, name.strip_suffix('!')) {
                ("EVAL", _) => "_PyEval_EvalFrameDefault+0x1 (libpython3.11.so+0x10)".to_owned(),
                (_, Some(name)) => format!("{name}+0x1 (libpython3.11.so+0x20)"),
                _ => format!("{name}+0x1 (prog+0x30)"),
            })
            .collect();
        let python: Vec<String> = python
            .iter()
            .map(|name| match *name {
                "IMPORT" => "<frozen importlib._bootstrap>(1): _find_and_load".to_owned(),
                name => format!("a.py(1): {name}"),
            })
            .collect();
        let mut stacks = Stacks::default();
        let stack = stacks.intern_texts(native.iter().map(String::as_str), python.iter().map(String::as_str));
        let mut symbolizer = Symbolizer::new();
        let mut naming = Naming::new(&stacks, &mut symbolizer);
        let frames = naming.merged(stack);
        frames.iter().rev().map(|frame| naming.names.function_of(*frame).name.clone()).collect()
    }

    #[test]
    fn python_frames_take_the_place_of_the_function_that_runs_them() {
        assert_eq!(
            joined(
                &["malloc", "at::add", "EVAL", "call!", "EVAL", "Py_RunMain!", "main", "_start"],
                &["step", "train"]
            ),
            ["malloc", "at::add", "step", "train", "main"]
        );
    }

    #[test]
    fn python_functions_that_call_each_other_within_one_call_stay_together() {
        assert_eq!(joined(&["malloc", "EVAL", "main", "_start"], &["c", "b", "a"]), ["malloc", "c", "b", "a", "main"]);
        assert_eq!(
            joined(&["malloc", "EVAL", "call!", "EVAL", "run!", "_start"], &["c", "b", "a"]),
            ["malloc", "c", "b", "a"]
        );
    }

    #[test]
    fn native_code_that_calls_back_stands_between_the_frames_it_stands_between() {
        assert_eq!(joined(&["m", "EVAL", "sort", "EVAL", "_start"], &["key", "main"]), ["m", "key", "sort", "main"]);
    }

    #[test]
    fn where_the_place_of_native_code_is_unknown_python_is_outside_of_the_innermost() {
        assert_eq!(joined(&["m", "EVAL", "sort", "EVAL", "_start"], &["key", "f", "main"]), ["m", "key", "f", "main"]);
    }

    #[test]
    fn parts_that_were_cut_off_do_not_reach_the_outside() {
        assert_eq!(joined(&["m", "EVAL", "sort"], &["key", "f", "main"]), ["m", "key", "f", "main"]);
        assert_eq!(joined(&["m", "at::empty"], &["f", "main"]), ["m", "at::empty", "f", "main"]);
    }

    #[test]
    fn wrappers_that_call_each_other_are_one() {
        assert_eq!(joined(&["malloc", "xmalloc", "xstrdup", "parse", "main"], &[]), ["xstrdup", "parse", "main"]);
        assert_eq!(joined(&["malloc", "xmalloc"], &[]), ["malloc", "xmalloc"]);
    }

    #[test]
    fn one_language_alone_is_as_it_is_but_for_what_comes_before_main() {
        assert_eq!(joined(&["m", "list_resize!", "main", "_start"], &[]), ["m", "list_resize", "main"]);
        assert_eq!(joined(&[], &["f", "main"]), ["f", "main"]);
    }

    #[test]
    fn the_import_machinery_is_left_out_unless_there_is_nothing_else() {
        assert_eq!(joined(&["m"], &["IMPORT", "module", "IMPORT", "IMPORT", "main"]), ["m", "module", "main"]);
        assert_eq!(joined(&[], &["IMPORT", "IMPORT"]), ["_find_and_load", "_find_and_load"]);
    }
}

//! Whether an event belongs to the import of installed code: modules bring memory with them once, for seconds on end, and
//! the first part of a run would look like nothing but growth.
use crate::python_code::{is_import_machinery, is_installed};
use memscope_model::{Frame, NodeId, StackId, Stacks};

/// What is known of the Python frames seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Imports {
    /// By node.
    doings: Vec<Option<Doing>>,
}

/// What a thread is doing in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// The program's work.
    Running,
    /// Python finds, reads and compiles a module.
    Loading,
    /// An installed module's own code runs for the first time, or what it calls.
    FirstRun,
}

impl Imports {
    #[inline]
    pub(super) fn contain(&mut self, stack: StackId, stacks: &Stacks) -> bool {
        let node = stacks.python_node(stack);
        match self.doings.get(node.0 as usize) {
            Some(Some(doing)) => *doing != Doing::Running,
            _ => self.look(node, stacks) != Doing::Running,
        }
    }

    #[cold]
    fn look(&mut self, mut node: NodeId, stacks: &Stacks) -> Doing {
        let mut doing = Doing::Running;
        let mut below = Vec::new();
        while let Some((frame, caller)) = stacks.node(node) {
            if let Some(Some(known)) = self.doings.get(node.0 as usize) {
                doing = *known;
                break;
            }
            below.push((node, frame));
            node = caller;
        }
        for (node, frame) in below.into_iter().rev() {
            doing = called(doing, frame, stacks);
            let index = node.0 as usize;
            if index >= self.doings.len() {
                self.doings.resize(index + 1, None);
            }
            self.doings[index] = Some(doing);
        }
        doing
    }
}

/// What is done in a frame whose caller does `caller`.
fn called(caller: Doing, frame: Frame, stacks: &Stacks) -> Doing {
    let (file, function) = match frame {
        Frame::Python { code, .. } => (stacks.code(code).file.as_str(), stacks.code(code).function.as_str()),
        // `file(line): function`
        Frame::Text(text) => stacks.text(text).rsplit_once(": ").unwrap_or_default(),
        Frame::C { .. } | Frame::Unknown { .. } => return caller,
    };
    if is_import_machinery(file) {
        return Doing::Loading;
    }
    match (caller, function) {
        // A program may do all its work in a module of its own that it only imports.
        (Doing::Loading, "<module>") if !is_installed(file) => Doing::Running,
        (Doing::Loading, "<module>") => Doing::FirstRun,
        (doing, _) => doing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: &str = "/me/train.py(9): <module>";
    const IMPORT: &str = "<frozen importlib._bootstrap>(1178): _find_and_load";
    const TORCH: &str = "/v/lib/python3.11/site-packages/torch/__init__.py(5): <module>";
    const DATACLASS: &str = "/v/lib/python3.11/dataclasses.py(433): _create_fn";
    const OWN_MODULE: &str = "/me/job.py(3): <module>";
    const OWN: &str = "/me/job.py(1): step";

    fn contain(frames: &[&str]) -> bool {
        let mut stacks = Stacks::default();
        let stack = stacks.intern_texts(std::iter::empty(), frames.iter().rev().copied());
        let mut imports = Imports::default();
        assert_eq!(
            imports.contain(stack, &stacks),
            imports.contain(stack, &stacks),
            "the second answer is a remembered one"
        );
        imports.contain(stack, &stacks)
    }

    #[test]
    fn modules_that_are_loaded_or_run_for_the_first_time_are_imported() {
        for frames in [&[MAIN, IMPORT][..], &[MAIN, IMPORT, TORCH], &[MAIN, IMPORT, TORCH, DATACLASS], &[OWN, IMPORT]] {
            assert!(contain(frames), "{frames:?}");
        }
    }

    #[test]
    fn the_programs_own_work_is_no_import_wherever_it_is_done() {
        for frames in [&[][..], &[MAIN], &[MAIN, OWN], &[MAIN, DATACLASS], &[MAIN, IMPORT, OWN_MODULE, OWN], &[TORCH]] {
            assert!(!contain(frames), "{frames:?}");
        }
    }

    #[test]
    fn a_caller_that_is_known_already_decides_for_what_it_calls() {
        let mut stacks = Stacks::default();
        let outer = stacks.intern_texts(std::iter::empty(), [TORCH, IMPORT, MAIN].into_iter());
        let inner = stacks.intern_texts(std::iter::empty(), [DATACLASS, TORCH, IMPORT, MAIN].into_iter());
        let mut imports = Imports::default();
        assert!(imports.contain(outer, &stacks) && imports.contain(inner, &stacks));
    }
}

//! A stack as one line a person can act on: the line of code that asked for the memory, and who called it.
use memscope_model::{Frame, StackId, Stacks};
use memscope_symbols::{Symbolizer, python_line, render_python};
use std::path::Path;

/// How many frames a line names.
const SHOWN: usize = 3;

/// Names stacks of one process.
pub(crate) struct CallSites<'a> {
    pub(crate) stacks: &'a Stacks,
    pub(crate) symbolizer: &'a mut Symbolizer,
}

impl CallSites<'_> {
    /// The Python frames where there are any: that is the code the user wrote. Else the C frames, without the ones that
    /// only hand memory on.
    pub(crate) fn name(&mut self, stack: StackId) -> String {
        let python: Vec<String> = self.stacks.python_frames(stack).take(SHOWN).map(|f| self.python_frame(f)).collect();
        if !python.is_empty() {
            return python.join(" < ");
        }
        let mut frames = Vec::new();
        for frame in self.stacks.c_frames(stack) {
            let reached_main = self.push_c_frame(frame, &mut frames);
            if reached_main || frames.len() >= SHOWN {
                break;
            }
        }
        frames.truncate(SHOWN);
        if frames.is_empty() { "(no call stack)".to_owned() } else { frames.join(" < ") }
    }

    fn python_frame(&self, frame: Frame) -> String {
        match frame {
            Frame::Python { code, instruction } => {
                let code = self.stacks.code(code);
                let line = python_line(code.python_version, code.first_line, &code.line_table, instruction);
                render_python(&code.file, line, &code.function)
            }
            _ => "?".to_owned(),
        }
    }

    /// Pushes the frame's functions, inlined ones first, without those that only hand memory on; tells whether the last
    /// is `main`, below which there is nothing of the user's.
    fn push_c_frame(&mut self, frame: Frame, shown: &mut Vec<String>) -> bool {
        let Frame::C { module, offset } = frame else {
            shown.push("?".to_owned());
            return false;
        };
        let module = self.stacks.module(module);
        let file_name = module.path.rsplit('/').next().unwrap_or("?");
        let frames = self.symbolizer.c_frames(Path::new(&module.path), &module.build_id, offset);
        if frames.is_empty() {
            shown.push(format!("{file_name}+{offset:#x}"));
            return false;
        }
        for frame in frames {
            let function = frame.function.as_deref().unwrap_or("?");
            if shown.is_empty() && hands_memory_on(function) {
                continue;
            }
            shown.push(match (&frame.file, frame.line) {
                (Some(file), Some(line)) => format!("{function} at {file}:{line}"),
                _ => format!("{function} ({file_name})"),
            });
        }
        frames.last().is_some_and(|frame| frame.function.as_deref() == Some("main"))
    }
}

/// Functions whose whole business is to get memory for their caller: naming them explains nothing.
fn hands_memory_on(function: &str) -> bool {
    const NAMES: [&str; 8] = [
        "operator new",
        "operator new[]",
        "strdup",
        "__strdup",
        "xmalloc",
        "__rdl_alloc",
        "__rust_alloc",
        "__rustc::__rust_alloc",
    ];
    const PREFIXES: [&str; 9] = [
        "std::allocator",
        "std::__new_allocator",
        "__gnu_cxx::new_allocator",
        "std::_Vector_base",
        "alloc::alloc::",
        "alloc::raw_vec::",
        "<alloc::alloc::Global",
        "_PyMem_Raw",
        "PyMem_Raw",
    ];
    NAMES.contains(&function) || PREFIXES.iter().any(|prefix| function.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_get_memory_for_others_are_passed_over() {
        for passed in ["operator new", "std::allocator_traits<int>::allocate", "alloc::raw_vec::finish_grow"] {
            assert!(hands_memory_on(passed), "{passed}");
        }
        for named in ["main", "operator newline", "std::vector<int>::push_back", "parse_header"] {
            assert!(!hands_memory_on(named), "{named}");
        }
    }
}

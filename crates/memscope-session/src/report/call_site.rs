//! A stack as one line a person can act on: the line of code that asked for the memory, and who called it.
use memscope_model::{Frame, StackId, Stacks};
use memscope_symbols::{Symbolizer, python_line, render_python};
use std::ffi::OsStr;

/// How many frames a line names.
const SHOWN: usize = 3;

/// Names stacks of one process.
pub(super) struct CallSites<'a> {
    pub stacks: &'a Stacks,
    pub symbolizer: &'a mut Symbolizer,
}

impl CallSites<'_> {
    /// The Python frames where there are any, one the user wrote among them. Else the C frames, without the ones that only
    /// hand memory on.
    pub(super) fn name(&mut self, stack: StackId) -> String {
        let python: Vec<Frame> = self.stacks.python_frames(stack).collect();
        if !python.is_empty() {
            return self.python_frames(&python);
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

    /// The innermost frames. Where those are all a library's, the last one named is the nearest that is not: the line to
    /// change.
    fn python_frames(&self, frames: &[Frame]) -> String {
        let is_own = |frame: &Frame| match frame {
            Frame::Python { code, .. } => !is_of_library(&self.stacks.code(*code).file),
            // Begins with the file.
            Frame::Text(text) => !is_of_library(self.stacks.text(*text)),
            _ => false,
        };
        let mut named: Vec<String> = frames.iter().take(SHOWN).map(|frame| self.python_frame(*frame)).collect();
        if let Some(own) = frames.iter().position(is_own).filter(|own| *own >= SHOWN)
            && let Some(last) = named.last_mut()
        {
            *last = format!("… < {}", self.python_frame(frames[own]));
        }
        named.join(" < ")
    }

    fn python_frame(&self, frame: Frame) -> String {
        match frame {
            Frame::Python { code, instruction } => {
                let code = self.stacks.code(code);
                let line = python_line(code.python_version, code.first_line, &code.line_table, instruction);
                render_python(&code.file, line, &code.function)
            }
            Frame::Text(text) => self.stacks.text(text).to_owned(),
            _ => "?".to_owned(),
        }
    }

    /// Pushes the frame's functions, inlined ones first, without those that only hand memory on; tells whether the last
    /// is `main`, below which there is nothing of the user's.
    fn push_c_frame(&mut self, frame: Frame, shown: &mut Vec<String>) -> bool {
        let (module, offset) = match frame {
            Frame::C { module, offset } => (module, offset),
            Frame::Text(text) => {
                shown.push(self.stacks.text(text).to_owned());
                return false;
            }
            _ => {
                shown.push("?".to_owned());
                return false;
            }
        };
        let module = self.stacks.module(module);
        let file_name = module.path.file_name().unwrap_or(OsStr::new("?")).to_string_lossy();
        let frames = self.symbolizer.c_frames(&module.path, &module.build_id, offset);
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

/// Code that was installed, not written for this program: packages, Python's own modules, those inside the interpreter.
fn is_of_library(file: &str) -> bool {
    let mut folders = file.split('/').peekable();
    while let Some(folder) = folders.next() {
        let in_python =
            |next: &&str| next.strip_prefix("python").is_some_and(|version| version.starts_with(['2', '3']));
        match folder {
            "site-packages" | "dist-packages" => return true,
            "lib" | "lib64" if folders.peek().is_some_and(in_python) => return true,
            _ => {}
        }
    }
    file.starts_with("<frozen ")
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
    fn installed_code_is_told_from_the_users() {
        for library in [
            "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "/usr/lib64/python3.9/json/decoder.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert!(is_of_library(library), "{library}");
        }
        for own in
            ["train.py", "/home/me/python/lib/train.py", "/home/lib/my_site-packages/a.py", "<string>", "<stdin>", ""]
        {
            assert!(!is_of_library(own), "{own}");
        }
    }

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

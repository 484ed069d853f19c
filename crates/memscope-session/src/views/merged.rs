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
use memscope_model::{StackId, Stacks};
use memscope_symbols::Symbolizer;

/// The frames of a stack, outermost first. Of several wrappers that hand on memory to each other the outermost stands for all;
/// callers that were not recorded have a frame that says so.
pub fn merged(stack: StackId, stacks: &Stacks, names: &mut Names, symbolizer: &mut Symbolizer) -> Vec<FrameId> {
    let mut python = Vec::new();
    let mut depth = 0;
    for frame in stacks.python_frames(stack) {
        depth += 1;
        python.extend_from_slice(names.of(Language::Python, frame, stacks, symbolizer));
    }
    let python_is_cut = depth >= stacks.python_depth();
    let mut native = Vec::new();
    let mut depth = 0;
    for frame in stacks.c_frames(stack) {
        depth += 1;
        native.extend_from_slice(names.of(Language::Native, frame, stacks, symbolizer));
    }
    let native_is_cut = depth >= stacks.c_depth();
    let joined = join(&native, &python, names);
    let is_wrapper = |frame: &&FrameId| names.function_of(**frame).role == Role::Wrapper;
    let wrappers = joined.iter().take_while(is_wrapper).count().min(joined.len().saturating_sub(1));
    let mut frames: Vec<FrameId> = joined[wrappers.saturating_sub(1)..].to_vec();
    // Python frames reach as far as native ones, and say more.
    if if python.is_empty() { native_is_cut && !native.is_empty() } else { python_is_cut } {
        frames.push(names.cut_off());
    }
    frames.reverse();
    frames
}

/// Both parts and the answer innermost first.
fn join(native: &[FrameId], python: &[FrameId], names: &Names) -> Vec<FrameId> {
    let role = |frame: &FrameId| names.function_of(*frame).role;
    let python = without_imports(python, names);
    if python.is_empty() {
        return native.iter().copied().filter(|frame| role(frame) != Role::Outset).collect();
    }
    let runs: Vec<&[FrameId]> = native.split(|frame| names.function_of(*frame).evaluates_python).collect();
    let of_others = |run: &[FrameId]| -> Vec<FrameId> {
        let dropped = |frame: &FrameId| {
            let function = names.function_of(*frame);
            function.role == Role::Outset || function.role == Role::Interpreter || is_of_interpreter(&function.name)
        };
        run.iter().copied().filter(|frame| !dropped(frame)).collect()
    };
    let runs: Vec<Vec<FrameId>> = runs.into_iter().map(of_others).collect();
    let (innermost, outer) = runs.split_first().map_or((&[][..], &[][..]), |(first, rest)| (&first[..], rest));
    let Some((outermost, between)) = outer.split_last() else {
        // Python code does not show in the native part: it was cut off, or the interpreter has no names.
        return [innermost, &python].concat();
    };
    // Frames outside of all Python code, of a program that has Python built in. A part that was cut off does not reach them.
    let complete = native.last().is_some_and(|frame| role(frame) == Role::Outset);
    let outermost = if complete { &outermost[..] } else { &[] };
    if python.len() == outer.len() && between.iter().any(|run| !run.is_empty()) {
        let outwards = python.iter().zip(between.iter().map(Vec::as_slice).chain([outermost]));
        let interleaved = outwards.flat_map(|(frame, run)| std::iter::once(frame).chain(run));
        return innermost.iter().chain(interleaved).copied().collect();
    }
    [innermost, &python, outermost].concat()
}

/// Python's allocators are wrappers by name, and the interpreter's all the same.
fn is_of_interpreter(name: &str) -> bool {
    name.starts_with("PyMem_")
        || name.starts_with("PyObject_")
        || name.starts_with("_PyMem_")
        || name.starts_with("_PyObject_")
}

/// The machinery between `import` and the module's code belongs to the interpreter, even if it is written in Python.
fn without_imports(python: &[FrameId], names: &Names) -> Vec<FrameId> {
    let is_import = |frame: &FrameId| names.function_of(*frame).role == Role::Import;
    if python.iter().all(is_import) {
        return python.to_vec();
    }
    python.iter().copied().filter(|frame| !is_import(frame)).collect()
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
        let mut names = Names::default();
        let mut frames = merged(stack, &stacks, &mut names, &mut Symbolizer::new());
        frames.reverse();
        frames.iter().map(|frame| names.function_of(*frame).name.clone()).collect()
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

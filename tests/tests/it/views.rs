//! `top`, `tree`, `flamegraph` and `diff` on recordings of real programs.
use memscope_tests::{Workshop, command, finish, python};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Keeps 100 blocks until the interpreter ends, and gives 50 back before.
const KEEPER: &str = "
kept = []
def fill(count):
    for _ in range(count):
        kept.append(bytearray(100_000))
def work():
    return len([bytearray(100_000) for _ in range(50)])
fill(100)
work()
";

fn told(command: &mut Command) -> String {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("the command can be started"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A recording of the script, `program.py` in a directory of that name, with both stacks, and the summary.
fn recorded(workshop: &Workshop, script: &str, name: &str) -> (PathBuf, String) {
    let (file, output) = (workshop.directory(name).join("program.py"), workshop.path(&format!("{name}-output")));
    std::fs::write(&file, script).unwrap();
    let python = python();
    let mut command = command();
    command.args(["--device=cpu", "--call-stack=c,python", "--data-format=none", "-o"]).arg(&output).arg("--");
    command.arg(python.get_program()).args(python.get_args()).arg(&file);
    let summary = told(&mut command);
    (output, summary)
}

fn shown(words: &[&str], paths: &[&Path]) -> String {
    told(command().args(words).args(paths))
}

/// Bytes of the row that names `site`.
fn row<'t>(text: &'t str, site: &str) -> &'t str {
    text.lines().find(|line| line.contains(site)).unwrap_or_else(|| panic!("{site} is not in\n{text}"))
}

#[test]
fn what_a_module_holds_until_the_interpreter_ends_is_alive_when_main_returned() {
    let workshop = Workshop::new();
    let (output, summary) = recorded(&workshop, KEEPER, "keeper");
    let list = summary.split("alive when main returned").nth(1).unwrap_or_else(|| panic!("{summary}"));
    assert!(row(list, "program.py(5): fill").contains("9.5 MiB"), "{summary}");
    assert!(!list.contains("): work"), "{summary}");
    let top = shown(&["top", "--at=main"], &[&output]);
    assert!(row(&top, "program.py: fill").contains("9.5 MiB"), "{top}");
    let end = shown(&["top", "--at=end"], &[&output]);
    assert!(!end.contains("): fill"), "{end}");
}

#[test]
fn both_languages_are_one_stack_without_the_interpreter() {
    let workshop = Workshop::new();
    // `sorted` is native code that calls back.
    let script = "
def key(value):
    kept.append(bytearray(300_000))
    return value
kept = []
def main():
    return sorted([2, 1], key=key)
main()
";
    let (output, _) = recorded(&workshop, script, "callback");
    let lines = shown(&["flamegraph", "--format=collapsed", "-o", "-"], &[&output]);
    let line = row(&lines, "): key ");
    let frames: Vec<&str> = line.split(';').map(|frame| frame.rsplit(": ").next().unwrap()).collect();
    assert_eq!(frames[..2], ["<module>", "main"], "{line}");
    assert!(frames.last().unwrap().starts_with("key 6"), "{line}");
    for line in lines.lines().filter(|line| line.contains("program.py")) {
        assert!(!line.contains("_PyEval_EvalFrameDefault") && !line.contains("importlib"), "{line}");
    }
}

#[test]
fn a_difference_of_two_runs_names_the_line_that_grew() {
    let workshop = Workshop::new();
    let (before, _) = recorded(&workshop, KEEPER, "before");
    // Elsewhere, and one line further down.
    let script = KEEPER.replace("kept = []", "\nkept = []").replace("fill(100)", "fill(300)");
    let (after, _) = recorded(&workshop, &script, "after");
    let text = shown(&["diff", "--at=main"], &[&before, &after]);
    let first = text.lines().find(|line| line.trim_start().starts_with(['+', '-'])).unwrap();
    assert!(first.contains("9.5 MiB → 28.6 MiB") && first.contains("program.py(6): fill"), "{text}");
}

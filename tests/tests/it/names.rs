//! Programs whose names and arguments a terminal would obey, and what the command prints of them.
use memscope_tests::{Workshop, command, finish};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Output, Stdio};

/// Sets the terminal's title, paints, forges a line; and one that turns the direction of writing.
const NAMES: [&str; 2] = ["evil\u{1b}]0;owned\u{7}\u{1b}[31m<b>", "evil\u{202e}fdp.exe\u{2066}\u{9b}31m"];
const ARGUMENT: &str = "argument\u{1b}[2J\r\n[msmemscope] forged\u{85}\u{200f}";

fn run(words: &[&OsStr]) -> Output {
    let mut command = command();
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the command can be started"))
}

/// What was printed, which is text, ends of lines, and nothing else.
fn clean(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| std::str::from_utf8(bytes).expect("it is UTF-8")).concat();
    let is_obeyed = |character: char| {
        let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        character != '\n' && character.is_control() || turns
    };
    assert!(!text.contains(is_obeyed), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("[msmemscope] forged")), "{text}");
    text
}

#[test]
fn a_programs_name_and_arguments_are_shown_and_never_obeyed() {
    for name in NAMES {
        let workshop = Workshop::new();
        let program = workshop.path(name);
        fs::copy(workshop.compile("heap_calls.c"), &program).unwrap();
        let output = workshop.path(&format!("output{name}"));
        let (output, program) = (output.as_os_str(), program.as_os_str());
        let words = ["--device=cpu", "--call-stack=c", "-o"].map(OsStr::new);
        let recorded = run(&[&words[..], &[output, "--".as_ref(), program, ARGUMENT.as_ref()]].concat());
        assert!(recorded.status.success(), "{recorded:?}");
        let mut told = vec![clean(&recorded)];
        for view in
            [&["info"][..], &["analyze"], &["top"], &["tree", "--min=0"], &["export"], &["export", "--format=db"]]
        {
            let options: Vec<&OsStr> = view[1..].iter().map(OsStr::new).collect();
            let shown = run(&[&[OsStr::new(view[0]), output], &options[..]].concat());
            assert!(shown.status.success(), "{view:?}: {shown:?}");
            told.push(clean(&shown));
        }
        let escaped = name.escape_debug().to_string();
        // The report after the run, what reads the recording, and what draws the tree of calls.
        for text in [&told[0], &told[1], &told[3]] {
            assert!(text.contains(&escaped), "{escaped}: {text}");
        }
        // Recorded as it was: files for programs have the name itself.
        let document: serde_json::Value =
            serde_json::from_slice(&run(&["top".as_ref(), output, "--json".as_ref()]).stdout).expect("a document");
        let command = document["of"]["command"].as_str().expect("a command");
        assert!(command.contains(name) && command.ends_with(ARGUMENT), "{command:?}");
    }
}

#[test]
fn what_is_typed_and_not_there_is_shown_and_never_obeyed() {
    let missing = OsString::from("no\u{1b}[31mfile\u{202e}");
    let not_text = OsStr::from_bytes(b"no\x1b[31m\xff\x9b");
    for command in ["info", "analyze", "top", "tree", "export", "diff", "--"] {
        for typed in [missing.as_os_str(), not_text] {
            let refused = run(&[command.as_ref(), typed]);
            let told = clean(&refused);
            assert!(!refused.status.success() && told.contains("no\\u{1b}[31m"), "{command} {typed:?}: {told}");
        }
    }
}

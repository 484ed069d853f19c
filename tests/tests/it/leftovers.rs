//! What is in the output after runs of all endings: recordings and files with names that a listing shows.
use memscope_tests::{Workshop, command, finish};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(all_below(&entry.path()));
        }
    }
    found
}

/// Nothing that `ls` does not show, and nothing empty that is not the recorder's own.
fn assert_no_leftovers(ending: &str, output: &Path) {
    let files = all_below(output);
    assert!(files.iter().any(|path| path.ends_with("spool")), "{ending}: nothing was recorded: {files:?}");
    let is_hidden = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with('.');
    assert_eq!(files.iter().filter(is_hidden).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{ending}");
    let is_of_run = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("run_");
    for file in files.iter().filter(is_of_run) {
        assert!(file.metadata().unwrap().len() > 0, "{ending}: {} says nothing", file.display());
    }
}

/// A shell under the command, both in a group of their own.
fn run(output: &Path, script: &str) -> Output {
    let mut command = command();
    command.arg("--device=cpu").arg("-o").arg(output).args(["--", "sh", "-c", script]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the command can be started"))
}

#[test]
fn however_a_run_ends_nothing_hidden_is_left_behind() {
    for (ending, is_seen_by_command) in [
        ("ls / >/dev/null; exit 0", true),
        ("exit 3", true),
        ("ls / >/dev/null; kill -KILL $$", true),
        ("ls / >/dev/null; kill -TERM $$", true),
        // As a terminal does it when Ctrl-C is pressed.
        ("ls / >/dev/null; kill -INT 0", true),
        ("trap '' INT; kill -INT 0; ls / >/dev/null", true),
        ("kill -TERM $PPID; ls / >/dev/null", true),
        ("kill -KILL $PPID; ls / >/dev/null", false),
    ] {
        let workshop = Workshop::new();
        let output = workshop.path("output");
        let ended = run(&output, ending);
        assert_no_leftovers(ending, &output);
        let has_end = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().contains(".end_");
        let ends: Vec<PathBuf> = all_below(&output).into_iter().filter(has_end).collect();
        assert_eq!(ends.len(), usize::from(is_seen_by_command), "{ending}: {ends:?} {ended:?}");
        for end in ends {
            let text = fs::read_to_string(&end).unwrap();
            assert!(
                text.starts_with("process ") && (text.contains("exited") || text.contains("killed by SIG")),
                "{text}"
            );
        }
    }
}

#[test]
fn a_child_that_outlives_the_program_leaves_nothing_hidden_either() {
    let workshop = Workshop::new();
    let (output, fifo) = (workshop.path("output"), workshop.path("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo_text = fifo.display();
    let child = format!("read line <{fifo_text}; ls /; echo done >{fifo_text}");
    let ended = run(&output, &format!("setsid sh -c '{child}' >/dev/null 2>&1 </dev/null & exit 0"));
    assert!(ended.status.success(), "{ended:?}");
    assert_no_leftovers("the child goes on", &output);
    fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"go\n").unwrap();
    let mut told = String::new();
    fs::File::open(&fifo).unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "done\n");
    assert_no_leftovers("the child has ended", &output);
}

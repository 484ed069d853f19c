//! What the command tells after the run of a real program.
use memscope_tests::{Recording, Workshop, command, finish};
use std::process::{Command, Stdio};

/// The summary after `programs/<source>` ran under the command.
fn summary_of(source: &str) -> String {
    let workshop = Workshop::new();
    let program = workshop.compile(source);
    let mut command = command();
    command.arg("--device=cpu").arg("-o").arg(workshop.path("output")).arg("--").arg(&program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("the command can be started"));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_heap_that_was_not_seen_is_admitted() {
    const ADMITTED: &str = "the heap of this program was not seen: it has an allocator of its own";
    let own = summary_of("own_malloc.c");
    assert!(own.contains(ADMITTED), "{own}");
    for ordinary in ["heap_calls.c", "mappings.c"] {
        let text = summary_of(ordinary);
        assert!(text.contains("1 process recorded") && !text.contains(ADMITTED), "{text}");
    }
}

#[test]
fn the_peak_of_a_program_that_reserves_terabytes_is_what_it_made_usable() {
    let text = summary_of("reservations.c");
    let line = text.lines().find(|line| line.contains("cpu HOST: peak ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("peak 14.") && line.contains(" MiB after"), "{line}");
    assert!(line.contains("at most 4.0 TiB of address space reserved and not usable"), "{line}");
}

#[test]
fn a_child_with_address_sanitizer_runs_as_ever_and_is_recorded() {
    let workshop = Workshop::new();
    let program = workshop.compile_as("frames.c", "frames", &["-fsanitize=address"]);
    let run = |command: &mut Command| {
        command.args(["sh", "-c", "\"$1\"; exit $?", "sh"]).arg(&program).env("ASAN_OPTIONS", "detect_leaks=0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the command can be started"))
    };
    let bare = run(&mut Command::new("env"));
    let output = workshop.path("output");
    let recorded = run(command().args(["--device=cpu", "--call-stack=c", "-o"]).arg(&output).arg("--"));
    assert_eq!((bare.status, &bare.stdout), (recorded.status, &recorded.stdout), "{recorded:?}");
    let recording = Recording::open(&output, recorded);
    let [process] = recording.of("frames")[..] else { panic!("{:?}", recording.commands()) };
    let [event] = process.allocations(31337)[..] else { panic!("one allocation") };
    assert_eq!(process.functions(event.at.stack)[..2], ["inner", "middle"]);
}

//! What the command tells after the run of a real program.
use memscope_tests::{Workshop, command, finish};
use std::process::Stdio;

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

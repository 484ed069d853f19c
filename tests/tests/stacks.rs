//! Call stacks of real runs.
use memscope_model::ProcessState;
use memscope_tests::{Workshop, python, python_minor};
use std::collections::HashMap;
use std::process::Command;

#[test]
fn native_frames_lie_in_the_functions_that_the_linker_put_there() {
    let workshop = Workshop::new();
    let program = workshop.compile("frames.c");
    let listing = Command::new("nm").arg("-S").arg(&program).output().expect("nm of binutils is installed");
    let listing = String::from_utf8(listing.stdout).unwrap();
    let mut functions = HashMap::new();
    for line in listing.lines() {
        if let [address, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let start = u64::from_str_radix(address, 16).unwrap();
            // A return address may be the first byte behind a function.
            functions.insert(name.to_owned(), start + 1..=start + u64::from_str_radix(size, 16).unwrap());
        }
    }
    let recording = workshop.run_both(&workshop.recorder().c_stacks(24), || Command::new(&program));
    let process = recording.only().assert_sound();
    let [event] = process.allocations(31337)[..] else { panic!("one allocation") };
    let frames = process.native_frames(event.stack);
    for (frame, function) in frames.iter().zip(["inner", "middle", "outer", "main"]) {
        assert_eq!(frame.0, program.display().to_string());
        assert!(functions[function].contains(&frame.2), "{:#x} is not in {function} {functions:?}", frame.2);
    }
    assert!(frames.len() >= 6, "main is called by libc, and that by _start: {frames:?}");
    // Through code of libc, which has no frame pointers.
    for event in process.allocations(31338) {
        let frames = process.native_frames(event.stack);
        assert!(functions["compare"].contains(&frames[0].2));
        assert!(frames[1].0.contains("libc"), "{frames:?}");
        assert!(
            frames.iter().any(|frame| frame.0.ends_with("/frames") && functions["main"].contains(&frame.2)),
            "{frames:?}"
        );
    }
}

#[test]
fn the_depth_of_native_stacks_is_kept() {
    let workshop = Workshop::new();
    let program = workshop.compile("frames.c");
    let recording = workshop.run_both(&workshop.recorder().c_stacks(2), || Command::new(&program));
    let process = recording.only().assert_sound();
    assert_eq!(process.functions(process.allocations(31337)[0].stack), ["inner", "middle"]);
}

fn python_script(workshop: &Workshop, script: &str) -> Command {
    let mut command = python();
    command.arg(workshop.script(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn python_allocations_have_their_python_and_native_stack() {
    let workshop = Workshop::new();
    let recorder = workshop.recorder().c_stacks(32).python_stacks(32);
    let recording = workshop.run_both(&recorder, || python_script(&workshop, "stacks.py"));
    let process = recording.only().assert_sound();
    // A bytearray has one byte more than asked for, a bytes object its header, too.
    let large = |least: u64| {
        let found = process.events.iter().filter(|event| (least..least + 100).contains(&event.size));
        found.cloned().find(|event| event.action == memscope_model::Action::Malloc).expect("the allocation is recorded")
    };
    let named = |stack| {
        let frames = process.python_frames(stack).into_iter();
        frames.map(|(file, function, line)| format!("{file}:{}:{function}", line.unwrap_or(0))).collect::<Vec<_>>()
    };
    let event = large(3_000_001);
    // A code object knows its qualified name since 3.11; since 3.12 a comprehension has no frame of its own.
    let (comprehension, fill) = match python_minor() {
        ..=10 => (Some("stacks.py:17:<listcomp>"), "fill"),
        11 => (Some("stacks.py:17:middle.<locals>.<listcomp>"), "Holder.fill"),
        _ => (None, "Holder.fill"),
    };
    let outer = ["stacks.py:17:middle".to_owned(), format!("stacks.py:23:{fill}"), "stacks.py:37:<module>".to_owned()];
    let expected = ["stacks.py:12:innermost"].into_iter().chain(comprehension).map(str::to_owned).chain(outer);
    assert_eq!(named(event.stack), expected.collect::<Vec<_>>());
    let natives = process.functions(event.stack);
    assert!(natives.iter().any(|name| name.contains("PyByteArray") || name.contains("bytearray")), "{natives:?}");
    let event = large(5_000_001);
    assert_eq!(named(event.stack), [&format!("stacks.py:22:{fill}"), "stacks.py:37:<module>"]);
    for number in 0..4 {
        let events = process.allocations(700_000 + number);
        assert_eq!(events.len(), 200);
        for event in &events {
            assert_eq!(event.thread, events[0].thread);
            let frames = named(event.stack);
            assert_eq!(frames[..2], ["stacks.py:29:without_the_lock", "stacks.py:33:worker"], "{frames:?}");
            assert!(frames[2].starts_with("threading.py:"), "{frames:?}");
        }
        assert_ne!(events[0].thread, process.info.pid);
    }
}

#[test]
fn python_one_liners_run_as_ever() {
    let workshop = Workshop::new();
    let recorder = workshop.recorder().c_stacks(16).python_stacks(16);
    let recording = workshop.run_both(&recorder, || {
        let mut command = python();
        command.args(["-c", "import sys; print(sum(map(len, [bytearray(4_000_000)] * 3))); sys.exit(4)"]);
        command
    });
    let process = recording.only().assert_sound();
    let [event] = process.allocations(4_000_001)[..] else { panic!("one allocation") };
    assert_eq!(process.python_frames(event.stack), [("<string>".to_owned(), "<module>".to_owned(), Some(1))]);
    assert_eq!((recording.output.status.code(), process.info.state), (Some(4), ProcessState::Ended));
}

#[test]
fn python_threads_and_forked_workers_are_recorded() {
    let workshop = Workshop::new();
    let recorder = workshop.recorder().c_stacks(16).python_stacks(16);
    let recording = workshop.run_both(&recorder, || python_script(&workshop, "children.py"));
    let [parent, workers @ ..] = recording.processes.as_slice() else { panic!("nothing recorded") };
    parent.assert_sound();
    assert_eq!(workers.len(), 3, "{:?}", recording.commands());
    for number in 0..8 {
        assert_eq!(parent.tally(2_000_101 + number), (1, 1, 0));
    }
    for number in 0..12 {
        let tallies: Vec<_> = workers.iter().map(|worker| worker.tally(2_000_001 + number)).collect();
        assert_eq!(tallies.iter().filter(|tally| **tally == (1, 1, 0)).count(), 1, "number {number}: {tallies:?}");
        assert_eq!(parent.tally(2_000_001 + number), (0, 0, 0));
    }
    for worker in workers {
        worker.assert_sound_child();
        assert_eq!(worker.info.parent_pid, parent.info.pid);
        let made_here = (0..12).flat_map(|number| worker.allocations(2_000_001 + number));
        for event in made_here {
            let frames = worker.python_frames(event.stack);
            assert_eq!((frames[0].1.as_str(), frames[0].2), ("work", Some(7)), "{frames:?}");
        }
    }
}

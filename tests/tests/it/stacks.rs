//! Call stacks of real runs.
use memscope_format::decode::{Definition, LaneCursor, Spool};
use memscope_model::{Action, ProcessState};
use memscope_tests::{Workshop, python, python_minor};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    let frames = process.native_frames(event.at.stack);
    for (frame, function) in frames.iter().zip(["inner", "middle", "outer", "main"]) {
        assert_eq!(frame.0, program);
        assert!(functions[function].contains(&frame.2), "{:#x} is not in {function} {functions:?}", frame.2);
    }
    assert!(frames.len() >= 6, "main is called by libc, and that by _start: {frames:?}");
    // Through code of libc, which has no frame pointers.
    for event in process.allocations(31338) {
        let frames = process.native_frames(event.at.stack);
        assert!(functions["compare"].contains(&frames[0].2));
        assert!(frames[1].0.to_string_lossy().contains("libc"), "{frames:?}");
        assert!(
            frames.iter().any(|frame| frame.0.ends_with("frames") && functions["main"].contains(&frame.2)),
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
    assert_eq!(process.functions(process.allocations(31337)[0].at.stack), ["inner", "middle"]);
}

/// Each round has more frames than a lane has nodes for.
#[test]
fn stacks_are_the_same_when_all_were_forgotten_in_between() {
    const DEPTH: u32 = 17;
    const ROUNDS: usize = 2;
    let workshop = Workshop::new();
    let program = workshop.compile("many_ways.c");
    let recording = workshop.run_both(&workshop.recorder().c_stacks(24), || {
        let mut command = Command::new(&program);
        command.args([DEPTH.to_string(), ROUNDS.to_string()]);
        command
    });
    let process = recording.only().assert_sound();
    let mut rounds = HashMap::new();
    for event in process.events.iter().filter(|event| event.action == Action::Malloc) {
        *rounds.entry((event.block.size, event.at.stack)).or_insert(0) += 1;
    }
    let ways = 1 << DEPTH;
    let in_all_rounds = rounds.iter().filter(|((way, _), rounds)| *way <= ways && **rounds == ROUNDS);
    let stacks: HashMap<_, _> = in_all_rounds.map(|(&(way, stack), _)| (stack, way)).collect();
    assert_eq!(stacks.len() as u64, ways, "a stack for each way");
    let last = stacks.into_iter().find(|(_, way)| *way == ways).unwrap().0;
    let expected = [&["right"; DEPTH as usize][..], &["left", "main"]].concat();
    assert_eq!(process.functions(last)[..expected.len()], expected);
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
        let found = process.events.iter().filter(|event| (least..least + 100).contains(&event.block.size));
        found.cloned().find(|event| event.action == Action::Malloc).expect("the allocation is recorded")
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
    assert_eq!(named(event.at.stack), expected.collect::<Vec<_>>());
    let natives = process.functions(event.at.stack);
    assert!(natives.iter().any(|name| name.contains("PyByteArray") || name.contains("bytearray")), "{natives:?}");
    let event = large(5_000_001);
    assert_eq!(named(event.at.stack), [&format!("stacks.py:22:{fill}"), "stacks.py:37:<module>"]);
    for number in 0..4 {
        let events = process.allocations(700_000 + number);
        assert_eq!(events.len(), 200);
        for event in &events {
            assert_eq!(event.at.thread, events[0].at.thread);
            let frames = named(event.at.stack);
            assert_eq!(frames[..2], ["stacks.py:29:without_the_lock", "stacks.py:33:worker"], "{frames:?}");
            assert!(frames[2].starts_with("threading.py:"), "{frames:?}");
        }
        assert_ne!(events[0].at.thread, process.info.pid);
    }
}

/// One interpreter of each release of Python whose stacks can be read, as far as they are here: on the path, and those that
/// pyenv has installed.
fn interpreters() -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> = (9..=14).map(|minor| PathBuf::from(format!("python3.{minor}"))).collect();
    candidates.push("python3".into());
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    if let Ok(versions) = std::fs::read_dir(home.join(".pyenv/versions")) {
        candidates.extend(versions.flatten().map(|version| version.path().join("bin/python3")));
    }
    let mut found = BTreeMap::new();
    for candidate in candidates {
        let script = "import sys, sysconfig; print(sys.implementation.name, sysconfig.get_config_var('Py_GIL_DISABLED') \
                      or 0, sys.version_info.minor, sys.executable)";
        let Ok(answer) = Command::new(candidate).args(["-c", script]).output() else { continue };
        let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
        if let ["cpython", "0", minor, path] = *answer.split_whitespace().collect::<Vec<_>>()
            && let Ok(minor @ 9..=14) = minor.parse::<u32>()
        {
            found.entry(minor).or_insert_with(|| PathBuf::from(path));
        }
    }
    assert!(!found.is_empty(), "no CPython 3.9 to 3.14 found");
    found.into_values().collect()
}

#[test]
fn python_code_made_anew_at_an_old_address_is_told_from_the_old() {
    for python in interpreters() {
        let workshop = Workshop::new();
        let recorder = workshop.recorder().python_stacks(16);
        let recording = workshop.run_both(&recorder, || {
            let mut command = Command::new(&python);
            command.arg(workshop.script("remade_code.py")).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        });
        let process = recording.only().assert_sound();
        let mut wrong = Vec::new();
        for number in 0..50 {
            // A bytearray has one byte more than asked for.
            let stacks = [900_001, 910_001, 920_001].map(|size| {
                let [event] = process.allocations(size + number)[..] else {
                    panic!("one allocation of {size}+{number}")
                };
                process.python_frames(event.at.stack).swap_remove(0)
            });
            let [named, filed, lined] = stacks;
            let expected = (format!("name_{number:03}"), format!("file_{number:03}.py"), Some(101 + number as u32));
            let found = (named.1, filed.0, lined.2);
            if found != expected || filed.1 != "twin" || lined.1 != "lines" {
                wrong.push((expected, found));
            }
        }
        assert!(wrong.is_empty(), "{}: {} wrong, such as {:?}", python.display(), wrong.len(), wrong.last());
    }
}

#[test]
fn python_that_is_loaded_late_has_stacks_from_then_on() {
    let mut tested = 0;
    for python in interpreters() {
        // Debian has it in a folder of the architecture.
        let script = "import os, sysconfig as s; v = s.get_config_var; \
                      places = [os.path.join(v('LIBDIR'), part, v('INSTSONAME')) for part in ('', v('MULTIARCH') or '')]; \
                      print(next(filter(os.path.exists, places), ''))";
        let answer = Command::new(&python).args(["-c", script]).output().expect("it ran a moment ago");
        let library = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim_end());
        if library.extension().is_some_and(|extension| extension == "a") || !library.exists() {
            continue;
        }
        tested += 1;
        let workshop = Workshop::new();
        let program = workshop.compile("embed.c");
        let home = python.parent().and_then(Path::parent).expect("an interpreter is in a bin directory").to_owned();
        let recorder = workshop.recorder().c_stacks(8).python_stacks(16);
        let recording = workshop.run_both(&recorder, || {
            let mut command = Command::new(&program);
            command.arg(&library).arg(workshop.script("embedded.py"));
            command.env("PYTHONHOME", &home).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        });
        assert_eq!(recording.stdout(), "3\n");
        let process = recording.only().assert_sound();
        let events = process.allocations(3_000_001);
        assert_eq!(events.len(), 3, "{}", library.display());
        for event in events {
            let frames = process.python_frames(event.at.stack);
            assert_eq!(frames[0], ("<string>".to_owned(), "innermost".to_owned(), Some(2)), "{frames:?}");
            assert_eq!(frames.last().map(|frame| frame.1.as_str()), Some("<module>"), "{frames:?}");
        }
        assert_ne!(process.info.python_version, 0, "the header says so too");
        assert_eq!(process.allocations(32000).len(), 1000);
    }
    assert_ne!(tested, 0, "no interpreter with a shared library found");
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
    assert_eq!(process.python_frames(event.at.stack), [("<string>".to_owned(), "<module>".to_owned(), Some(1))]);
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
            let frames = worker.python_frames(event.at.stack);
            assert_eq!((frames[0].1.as_str(), frames[0].2), ("work", Some(7)), "{frames:?}");
        }
    }
}

#[test]
fn functions_of_a_program_whose_path_is_no_text_are_named() {
    let workshop = Workshop::new();
    let built = workshop.compile("frames.c");
    // Latin-1, as old archives have it.
    let program = workshop.directory("named").join(OsStr::from_bytes(b"fr\xe4mes \xff"));
    // Not copied: a child of another test that is just being started would have it open for writing.
    std::fs::rename(&built, &program).unwrap();
    let recording = workshop.run_both(&workshop.recorder().c_stacks(2), || Command::new(&program));
    let process = recording.only().assert_sound();
    assert_eq!(process.functions(process.allocations(31337)[0].at.stack), ["inner", "middle"]);
    assert_eq!(process.info.executable, program);
}

#[test]
fn nodes_that_are_forgotten_are_never_referred_to_again() {
    let workshop = Workshop::new();
    let program = workshop.compile("many_ways.c");
    let recording = workshop.run_both(&workshop.recorder().c_stacks(24), || {
        let mut command = Command::new(&program);
        command.args(["17", "2"]);
        command
    });
    let process = recording.only().assert_sound();
    let spool = Spool::open(&process.directory.join("spool")).unwrap();
    for lane in spool.lanes() {
        let (defined, forgettings, most) = (Cell::new(0..0u32), Cell::new(0), Cell::new(0));
        let mut define = |definition: Definition<'_>| match definition {
            Definition::Node { id, parent, .. } => {
                let range = defined.take();
                let first = if range.is_empty() { id } else { range.start };
                assert!(parent == 0 || parent >= first, "node {id} hangs below {parent}, which was forgotten");
                most.set(most.get().max(id - first + 1));
                defined.set(first..id + 1);
            }
            Definition::Forget {} => {
                defined.set(0..0);
                forgettings.set(forgettings.get() + 1);
            }
            _ => {}
        };
        let mut cursor = LaneCursor::new(lane);
        while let Some(event) = cursor.next_event(&spool, &mut define).unwrap() {
            let range = defined.take();
            assert!(event.stack.c == 0 || range.contains(&event.stack.c), "{event:?} was forgotten: {range:?}");
            defined.set(range);
        }
        assert!(forgettings.get() >= 1 && most.get() < 1 << 18, "{forgettings:?} {most:?}");
    }
}

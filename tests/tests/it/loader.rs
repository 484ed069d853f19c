//! Libraries that are loaded and unloaded.
use memscope_tests::{Recorded, Workshop};
use std::path::PathBuf;
use std::process::Command;

#[test]
fn libraries_at_one_address_after_another_are_told_apart() {
    let workshop = Workshop::new();
    let program = workshop.compile("plugin_host.c");
    let library = |name: &str, function: &str, base: u32| {
        let definitions = [
            format!("-DFUNCTION={function}"),
            format!("-DLOADED={}", base + 1),
            format!("-DCALLED={}", base + 2),
            format!("-DUNLOADED={}", base + 3),
        ];
        let flags: Vec<&str> = definitions.iter().map(String::as_str).collect();
        workshop.compile_library("plugin.c", name, &flags)
    };
    // Names of one length: the two files have the same layout and so take the same place.
    let first = library("libone.so", "work_of_one", 7400);
    let second = library("libtwo.so", "work_of_two", 7500);
    let recording = workshop.run_both(&workshop.recorder().c_stacks(16), || {
        let mut command = Command::new(&program);
        command.arg(&first).arg(&second);
        command
    });
    assert_eq!(recording.stdout(), "at one address\n");
    let process = recording.only().assert_sound();
    assert_eq!((process.tally(7401), process.tally(7501)), ((2, 0, 2), (1, 0, 1)), "from the constructors");
    assert_eq!((process.tally(7403), process.tally(7503)), ((2, 2, 0), (1, 1, 0)), "from the destructors");
    assert_eq!((process.tally(7402), process.tally(7502)), ((6, 0, 6), (3, 0, 3)));
    for (size, function, path) in [(7402, "work_of_one", &first), (7502, "work_of_two", &second)] {
        for event in process.allocations(size) {
            assert_eq!(process.functions(event.at.stack)[..4], [function, "plugin_work", "use", "main"]);
            assert_eq!(process.native_frames(event.at.stack)[0].0, *path);
        }
    }
}

/// Three libraries, each with an own function that has blocks of an own size allocated. The first has `room` bytes, and the
/// others fit in where it was.
fn replacements(workshop: &Workshop, room: usize) -> Vec<(u64, &'static str, PathBuf)> {
    [(7601, "work_of_first", room), (7602, "work_of_other", room / 4 + 1), (7603, "work_of_third", room / 4 + 1)]
        .map(|(size, function, room)| {
            let [function_is, size_is, room_is] =
                [format!("-DFUNCTION={function}"), format!("-DSIZE={size}"), format!("-DROOM={room}")];
            let flags = [&*function_is, &*size_is, &*room_is];
            (size, function, workshop.compile_library("replacement.c", &format!("lib{function}.so"), &flags))
        })
        .into()
}

/// Runs `replaced` and asserts that every block is known to be of its own library's function.
fn assert_replacements_are_told_apart(way: &str, room: usize, older_libc: bool) {
    let workshop = Workshop::new();
    let program = workshop.compile("replaced.c");
    let libraries = replacements(&workshop, room);
    let mut recorder = workshop.recorder().c_stacks(16);
    if older_libc {
        recorder = recorder.preload_after(&without_search(&workshop));
    }
    let recording = workshop.run_both(&recorder, || {
        let mut command = Command::new(&program);
        command.arg(way).args(libraries.iter().map(|(_, _, path)| path));
        command
    });
    let process = recording.only().assert_sound();
    for (size, function, path) in &libraries {
        let allocations = process.allocations(*size);
        assert_eq!(allocations.len(), 20);
        for event in allocations {
            assert_eq!(process.functions(event.at.stack)[..4], [function, "plugin_work", "use", "main"]);
            assert_eq!(process.native_frames(event.at.stack)[0].0, path.display().to_string());
        }
    }
}

/// A library that hides `_dl_find_object`.
fn without_search(workshop: &Workshop) -> PathBuf {
    workshop.compile_library("no_search.c", "libno_search.so", &["-Wl,--defsym=_dl_find_object=0"])
}

#[test]
fn libraries_unloaded_out_of_sight_are_told_apart_from_those_that_take_their_place() {
    assert_replacements_are_told_apart("hidden", 1, false);
}

#[test]
fn a_library_within_the_place_of_one_unloaded_out_of_sight_does_no_harm() {
    assert_replacements_are_told_apart("hidden", 8 << 20, false);
}

#[test]
fn libraries_in_namespaces_of_their_own_are_told_apart() {
    assert_replacements_are_told_apart("namespace", 1, false);
    assert_replacements_are_told_apart("namespace", 8 << 20, false);
}

#[test]
fn libraries_in_the_place_of_conversion_modules_are_told_apart() {
    assert_replacements_are_told_apart("conversions", 1, false);
}

#[test]
fn libraries_are_told_apart_without_the_search_of_newer_c_libraries() {
    for way in ["hidden", "namespace", "conversions"] {
        assert_replacements_are_told_apart(way, 1, true);
        assert_replacements_are_told_apart(way, 8 << 20, true);
    }
}

#[test]
fn children_of_a_process_that_throws_and_loads_do_not_hang() {
    for older_libc in [false, true] {
        let workshop = Workshop::new();
        let program = workshop.compile("forks_of_loaders.cpp");
        let library = workshop.compile_library(
            "replacement.c",
            "libloaded.so",
            &["-DFUNCTION=work_of_loaded", "-DSIZE=6002", "-DROOM=1"],
        );
        let mut recorder = workshop.recorder().c_stacks(30);
        if older_libc {
            recorder = recorder.preload_after(&without_search(&workshop));
        }
        let recording = workshop.run_both(&recorder, || {
            let mut command = Command::new(&program);
            command.arg(&library).arg(if older_libc { "iterate" } else { "throw" });
            command
        });
        assert_eq!(recording.stdout(), "40 children ended\n");
        let children: Vec<_> = recording.processes.iter().filter(|process| process.alive(6001) == 1).collect();
        assert_eq!(children.len(), 40);
        let frames = |child: &Recorded| child.native_frames(child.allocations(6001)[0].at.stack);
        let first = children[0];
        let functions = first.functions(first.allocations(6001)[0].at.stack);
        assert_eq!(functions[..7], [["in_the_child"; 6].as_slice(), &["main"]].concat());
        assert!(children.iter().all(|child| frames(child) == frames(first)));
    }
}

#[test]
fn code_in_a_segment_far_from_the_others_is_known() {
    for older_libc in [false, true] {
        for linked in
            [["-no-pie", "-Wl,--section-start=.far=0x2000000"], ["-pie", "-Wl,--section-start=.far=0x2000000"]]
        {
            let workshop = Workshop::new();
            let program = workshop.compile_as("gap.c", "gap", &linked);
            let mut recorder = workshop.recorder().c_stacks(16);
            if older_libc {
                recorder = recorder.preload_after(&without_search(&workshop));
            }
            let recording = workshop.run_both(&recorder, || Command::new(&program));
            let process = recording.only().assert_sound();
            for (size, functions) in [(6101, &["far_away", "nearby", "main"][..]), (6102, &["main"])] {
                let allocations = process.allocations(size);
                assert_eq!(allocations.len(), 5);
                for event in allocations {
                    assert_eq!(process.functions(event.at.stack)[..functions.len()], *functions);
                    assert_eq!(process.native_frames(event.at.stack)[0].0, program.display().to_string());
                }
            }
        }
    }
}

#[test]
fn a_function_of_the_c_library_that_the_program_replaced_is_not_called_before_it_is_ready() {
    let workshop = Workshop::new();
    let program = workshop.compile_as("unready.c", "unready", &["-rdynamic"]);
    let recording = workshop.run_both(&workshop.recorder().c_stacks(16), || Command::new(&program));
    assert_eq!(recording.stdout(), "objects\n");
    let process = recording.only().assert_sound();
    assert_eq!(process.tally(7000), (2, 2, 0));
    assert_eq!(process.functions(process.allocations(7000)[0].at.stack)[..2], ["allocate", "begin"]);
}

//! Libraries that are loaded and unloaded.
use memscope_tests::Workshop;
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
            assert_eq!(process.functions(event.stack)[..4], [function, "plugin_work", "use", "main"]);
            assert_eq!(process.native_frames(event.stack)[0].0, *path);
        }
    }
}

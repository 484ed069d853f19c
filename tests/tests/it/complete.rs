//! Whatever an independent counter sees is in the recording, no more and no less.
use memscope_format::decode::EventKind;
use memscope_tests::{Recorded, Workshop, python};
use std::fs;
use std::path::Path;
use std::process::Command;

/// `own_calls`: how many allocations of the recorder itself may pass the counter, each with its free.
fn assert_counts(process: &Recorded, counts: &Path, own_calls: u64) {
    let counts = fs::read(counts).unwrap();
    let count = |index: usize| u64::from_le_bytes(counts[index * 8..][..8].try_into().unwrap());
    let (mut begun, mut ended, mut bytes) = (0, 0, 0);
    for event in &process.raw {
        match event.kind {
            EventKind::HostAlloc { size, .. } => (begun, bytes) = (begun + 1, bytes + size),
            EventKind::HostFree { .. } => ended += 1,
            _ => {}
        }
    }
    let (recorded, counted) = ((begun, ended, bytes), (count(0), count(1), count(2)));
    if own_calls == 0 {
        assert_eq!(recorded, counted, "recorded and counted: blocks, frees, bytes");
    }
    let own = counted.0 - recorded.0;
    assert!(own <= own_calls && counted.1 - recorded.1 == own, "recorded {recorded:?}, counted {counted:?}");
}

fn run_counted(c_depth: u32, python_depth: u32, command: impl Fn(&Workshop) -> Command) -> u64 {
    let workshop = Workshop::new();
    let counter = workshop.compile_library("counter.c", "libcounter.so", &[]);
    let counts = workshop.path("counts");
    fs::write(&counts, [0; 4096]).unwrap();
    let recorder = workshop.recorder().c_stacks(c_depth).python_stacks(python_depth).preload_after(&counter);
    let mut command = command(&workshop);
    command.env("COUNTER_FILE", &counts);
    let recording = workshop.run(&recorder, command);
    assert!(recording.output.status.success(), "{:?}", recording.output);
    let process = recording.only().assert_sound();
    assert_counts(process, &counts, recorder.most_own_allocations());
    process.raw.len() as u64
}

#[test]
fn threads_libraries_and_the_time_before_main_are_recorded_completely() {
    for c_depth in [0, 24] {
        let events = run_counted(c_depth, 0, |workshop| {
            let program = workshop.compile("counted.cpp");
            let plugin = ["-DFUNCTION=work", "-DLOADED=11", "-DCALLED=22", "-DUNLOADED=33"];
            let library = workshop.compile_library("plugin.c", "libplugin.so", &plugin);
            let mut command = Command::new(program);
            command.arg(library);
            command
        });
        assert!(events > 400_000, "{events}");
    }
}

#[test]
fn python_with_large_libraries_is_recorded_completely() {
    for (c_depth, python_depth) in [(0, 0), (16, 0), (16, 16)] {
        let events = run_counted(c_depth, python_depth, |_| {
            let mut command = python();
            command
                .args(["-c", "import json,ssl,sqlite3,asyncio,decimal,xml.dom.minidom,unittest,multiprocessing.pool"]);
            command
        });
        assert!(events > 10_000, "{events}");
    }
}

//! Hooks of the device's libraries in awkward places. What they record in earnest is tested with a simulated CANN
//! (`tests/frameworks`); here a library of a few functions will do.
use memscope_format::decode::EventKind;
use memscope_format::record::{Space, SpaceDevice};
use memscope_model::Device;
use memscope_tests::{Recorded, Workshop};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library under a file name, and the options to link with it.
fn cann(workshop: &Workshop, name: &str) -> Vec<String> {
    let path = workshop.compile_library("cann.c", name, &[&format!("-Wl,-soname,{name}")]);
    let directory = path.parent().map(|path| path.display().to_string()).unwrap_or_default();
    vec![path.display().to_string(), format!("-Wl,-rpath,{directory}")]
}

fn plugin(workshop: &Workshop, name: &str, flags: &[String]) -> PathBuf {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    workshop.compile_library("cann_user.c", name, &flags)
}

fn linked(workshop: &Workshop) -> PathBuf {
    let flags = [cann(workshop, "libascend_hal.so"), vec!["-Wl,--no-as-needed".to_owned()]].concat();
    let flags: Vec<&str> = flags.iter().rev().map(String::as_str).collect();
    workshop.compile_as("devices.c", "devices", &flags)
}

fn command(program: &Path, arguments: &[&Path]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn driver_allocations(process: &Recorded) -> usize {
    let is_one = |kind: &EventKind| matches!(kind, EventKind::DeviceAlloc { space: Space::Driver, size: 4096, .. });
    process.raw.iter().filter(|event| is_one(&event.kind)).count()
}

#[test]
fn a_constructor_may_wait_for_a_thread_that_uses_the_device() {
    let workshop = Workshop::new();
    let program = workshop.compile("devices.c");
    let flags = [cann(&workshop, "libascend_hal.so"), vec!["-DIN_CONSTRUCTOR".to_owned()]].concat();
    let plugin = plugin(&workshop, "libwaits.so", &flags);
    let recorder = workshop.recorder().setting("npu", "1").setting("level", "3").setting("events", "15");
    let recording = workshop.run_both(&recorder, || command(&program, &["load".as_ref(), &plugin]));
    // From the constructor, and when it is used.
    assert_eq!(recording.stdout(), "allocated 0 launched 4711 freed 0\n".repeat(2));
    assert_eq!(driver_allocations(recording.only().assert_sound()), 2);
}

#[test]
fn originals_are_found_in_a_library_of_any_name_that_is_out_of_sight() {
    let workshop = Workshop::new();
    let program = workshop.compile("devices.c");
    let plugin = plugin(&workshop, "libuser.so", &cann(&workshop, "libruntime_camodel.so"));
    let recording = workshop.run_both(&workshop.recorder(), || command(&program, &["load".as_ref(), &plugin]));
    assert_eq!(recording.stdout(), "allocated 0 launched 4711 freed 0\n");
    assert_eq!(driver_allocations(recording.only().assert_sound()), 1);
}

#[test]
fn originals_of_a_library_that_was_unloaded_are_looked_for_again() {
    let workshop = Workshop::new();
    let program = workshop.compile("devices.c");
    // Loaded in turn, they lie at different places: the filler takes the place of the first.
    let first = plugin(&workshop, "libfirst.so", &cann(&workshop, "libascend_hal.so"));
    let filler = workshop.compile_library(
        "plugin.c",
        "libfiller.so",
        &["-DFUNCTION=fill", "-DLOADED=1", "-DCALLED=2", "-DUNLOADED=3"],
    );
    let second = plugin(&workshop, "libsecond.so", &cann(&workshop, "libruntime_camodel.so"));
    let libraries = ["load".as_ref(), first.as_path(), &filler, &second, &first];
    let recording = workshop.run_both(&workshop.recorder(), || command(&program, &libraries));
    assert_eq!(recording.stdout(), "allocated 0 launched 4711 freed 0\n".repeat(3));
    assert_eq!(driver_allocations(recording.only()), 3);
}

#[test]
fn a_forked_child_tells_its_devices_and_pools_itself() {
    let workshop = Workshop::new();
    let program = linked(&workshop);
    let recording = workshop.run_both(&workshop.recorder(), || {
        let mut command = command(&program, &["fork".as_ref()]);
        command.env("ASCEND_RT_VISIBLE_DEVICES", "3,5");
        command
    });
    assert_eq!(recording.processes.len(), 2);
    for process in &recording.processes {
        let totals = process.raw.iter().filter_map(|event| match event.kind {
            EventKind::PoolTotal { device, total, .. } => Some((device, total)),
            _ => None,
        });
        assert_eq!(totals.collect::<Vec<_>>(), [(SpaceDevice(0), 1 << 20)]);
        let on_device = process.events.iter().filter(|event| event.block.device != Device::Cpu);
        assert_eq!(on_device.map(|event| event.block.device).collect::<Vec<_>>(), [Device::Npu(3)]);
    }
}

#[test]
fn signals_may_come_while_a_free_of_device_memory_starts_the_recording() {
    let workshop = Workshop::new();
    let program = linked(&workshop);
    let recording = workshop.run_both(&workshop.recorder(), || command(&program, &["interrupted".as_ref()]));
    assert_eq!(recording.processes.len(), 21);
}

#[test]
fn a_child_forked_while_a_profiler_is_registered_launches_kernels() {
    let workshop = Workshop::new();
    let program = linked(&workshop);
    let recorder = workshop.recorder().setting("npu", "1").setting("level", "2").setting("events", "15");
    let recording = workshop.run_both(&recorder, || command(&program, &["profiler".as_ref()]));
    assert_eq!(recording.output.status.code(), Some(0));
}

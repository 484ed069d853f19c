//! The files of an export: where they are, who may read them, and that they appear whole or not at all.
use crate::export::insight;
use crate::export::recording::{Recording, csv_rows, db_rows};
use memscope_dump::{Brand, DumpEvents, ExportError, ExportOptions, Format, Room, export_process};
use memscope_model::Process;
use memscope_symbols::Symbolizer;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn two_blocks() -> Recording {
    Recording::new(|spool| {
        spool.config("utc=3600;c=0;py=0;cpu=1;npu=0;dump=3;dir=/data/out");
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x1000, 64, 0).alloc(lane, 20, 0x2000, 32, 0).free(lane, 30, 0x1000, 0);
    })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_and_permissions_are_those_of_the_manual() {
    for (format, brand, name) in [
        (Format::Csv, Brand::MsMemScope, "memscope_dump_20251203091122.csv"),
        (Format::Db, Brand::MsMemScope, "memscope_dump_20251203091122.db"),
        (Format::Csv, Brand::MsLeaks, "leaks_dump_20251203091122.csv"),
        (Format::Db, Brand::MsLeaks, "leaks_dump_20251203091122.db"),
    ] {
        let recording = two_blocks();
        let (exported, _) = recording.try_export(format, brand, DumpEvents::ALL).unwrap();
        let (dump, config) = (recording.dump(name), recording.directory.join("config.json"));
        assert_eq!(exported.files, [dump.clone(), config.clone()]);
        assert_eq!(names(dump.parent().unwrap()), [name], "nothing is left next to it");
        assert_eq!(names(&recording.directory), ["config.json", "device_cpu", "spool"]);
        assert_eq!((mode(&dump), mode(&config)), (0o600, 0o640));
        assert_eq!((mode(dump.parent().unwrap()), mode(&recording.directory.join("device_cpu"))), (0o750, 0o750));
        let config: serde_json::Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        assert_eq!((&config["outputDir"], &config["collectCpu"]), (&"/data/out".into(), &true.into()));
    }
}

#[test]
fn the_old_name_has_its_own_table() {
    let recording = two_blocks();
    recording.try_export(Format::Db, Brand::MsLeaks, DumpEvents::ALL).unwrap();
    let path = recording.dump("leaks_dump_20251203091122.db");
    assert_eq!(db_rows(&path, "leaks_dump").len(), 3);
    insight::assert_viewable(&path);
}

#[test]
fn no_files_are_none_but_the_configuration_and_the_observer_sees_all() {
    let recording = two_blocks();
    let (exported, seen) = recording.export(Format::NoFiles);
    assert_eq!(exported.files, [recording.directory.join("config.json")]);
    assert_eq!((exported.rows, seen.len(), exported.outcome.events), (0, 3, 3));
    assert_eq!(names(&recording.directory), ["config.json", "spool"]);
}

#[test]
fn a_second_export_replaces_the_first() {
    for format in [Format::Csv, Format::Db] {
        let recording = two_blocks();
        let (first, _) = recording.export(format);
        let before = fs::read(&first.files[0]).unwrap();
        fs::write(&first.files[0], b"changed").unwrap();
        let (second, _) = recording.export(format);
        assert_eq!(first.files, second.files);
        assert_eq!(fs::read(&second.files[0]).unwrap(), before);
        assert_eq!(names(first.files[0].parent().unwrap()).len(), 1);
    }
}

#[test]
fn a_cancelled_export_leaves_the_earlier_file_alone() {
    for format in [Format::Csv, Format::Db] {
        let recording = two_blocks();
        let (first, _) = recording.export(format);
        let before = fs::read(&first.files[0]).unwrap();
        let mut process = Process::open(&recording.directory).unwrap();
        let (room, mut symbolizer) = (Room::default(), Symbolizer::new());
        let options = ExportOptions {
            cancel: Some(&AtomicBool::new(true)),
            ..ExportOptions::quiet(format, &room, &mut symbolizer)
        };
        let error = export_process(&mut process, &recording.directory, options, &mut []).unwrap_err();
        assert!(matches!(error, ExportError::Cancelled));
        assert_eq!(names(first.files[0].parent().unwrap()).len(), 1);
        assert_eq!(fs::read(&first.files[0]).unwrap(), before);
    }
}

#[test]
fn an_output_that_cannot_be_created_is_named_and_costs_no_event() {
    for format in [Format::Csv, Format::Db] {
        let recording = two_blocks();
        let (_, all) = two_blocks().export(format);
        fs::write(recording.directory.join("device_cpu"), b"in the way").unwrap();
        let (exported, events) = recording.export(format);
        let [failure] = &exported.failures[..] else { panic!("{:?}", exported.failures) };
        let failure = failure.to_string();
        assert!(failure.contains("device_cpu") && failure.contains("exists"), "{failure}");
        assert_eq!((events.len() as u64, exported.outcome.events), (all.len() as u64, all.len() as u64));
        assert!(!exported.outcome.interrupted);
        assert_eq!(names(&recording.directory), ["config.json", "device_cpu", "spool"]);
    }
}

#[test]
fn a_link_under_the_temporary_name_is_not_followed() {
    let recording = two_blocks();
    let dump = recording.dump("memscope_dump_20251203091122.csv");
    let victim = recording.directory.join("victim");
    fs::write(&victim, b"precious").unwrap();
    fs::create_dir_all(dump.parent().unwrap()).unwrap();
    symlink(&victim, dump.with_file_name(".memscope_dump_20251203091122.csv.partial")).unwrap();
    recording.export(Format::Csv);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&dump).unwrap().is_file());
}

#[test]
fn a_recording_without_events_makes_no_dump_but_tells_its_configuration() {
    let recording = Recording::new(|spool| {
        spool.lane(31);
    });
    for format in [Format::Csv, Format::Db] {
        let (exported, _) = recording.export(format);
        assert_eq!(exported.files, [recording.directory.join("config.json")]);
        assert_eq!(exported.rows, 0);
    }
    assert_eq!(names(&recording.directory), ["config.json", "spool"]);
}

#[test]
fn only_the_events_asked_for_become_rows_and_the_observer_sees_all() {
    for (events, kinds) in
        [(DumpEvents::ALLOC, vec!["MALLOC", "MALLOC"]), (DumpEvents::FREE, vec!["FREE"]), (DumpEvents::NONE, vec![])]
    {
        let recording = two_blocks();
        let (exported, seen) = recording.try_export(Format::Csv, Brand::MsMemScope, events).unwrap();
        assert_eq!((exported.rows, seen.len(), exported.outcome.events), (kinds.len() as u64, 3, 3));
        if !kinds.is_empty() {
            let rows = csv_rows(&exported.files[0]);
            assert_eq!(rows[1..].iter().map(|row| row[1].as_str()).collect::<Vec<_>>(), kinds);
        }
    }
}

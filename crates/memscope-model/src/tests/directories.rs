use crate::{ModelError, Process, find_processes, survey_processes};
use memscope_testkit::{EPOCH, SpoolBuilder};
use std::fs;

#[test]
fn processes_are_found_in_order_of_start_and_foreign_things_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let place = |name: &str| root.path().join(name);
    for (name, start, run) in [("a_ascend", 30, 1), ("b_ascend", 10, 2), ("c_ascend", 20, 1)] {
        SpoolBuilder::new().process(1, run).started_at(EPOCH.later_by(start).0).write(&place(name)).unwrap();
    }
    fs::create_dir_all(place("foreign").join("spool")).unwrap();
    fs::write(place("file"), "text").unwrap();
    let all = find_processes(root.path(), None).unwrap();
    assert_eq!(all, [place("b_ascend"), place("c_ascend"), place("a_ascend")]);
    assert_eq!(find_processes(root.path(), Some(1)).unwrap(), [place("c_ascend"), place("a_ascend")]);
    assert_eq!(find_processes(root.path(), Some(3)).unwrap(), Vec::<std::path::PathBuf>::new());
    // A process directory and a spool directory are found where they are.
    assert_eq!(find_processes(&place("a_ascend"), None).unwrap(), [place("a_ascend")]);
    let spool = place("a_ascend").join("spool");
    assert_eq!(find_processes(&spool, None).unwrap(), std::slice::from_ref(&spool));
    Process::open(&spool).unwrap();
}

#[test]
fn an_unreadable_recording_is_reported_and_does_not_hide_the_others() {
    let root = tempfile::tempdir().unwrap();
    let (good, bad) = (root.path().join("good"), root.path().join("bad"));
    fs::create_dir_all(bad.join("spool")).unwrap();
    fs::write(bad.join("spool/windows.spool"), "short").unwrap();
    assert!(matches!(find_processes(root.path(), None), Err(ModelError::Spool(_))));
    SpoolBuilder::new().write(&good).unwrap();
    assert_eq!(find_processes(root.path(), None).unwrap(), std::slice::from_ref(&good));
    let found = survey_processes(root.path(), Some(1)).unwrap();
    assert_eq!(found.processes, [good]);
    assert_eq!(found.unreadable[0].0, bad);
}

#[test]
fn places_without_a_recording_say_so() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    assert!(matches!(find_processes(&missing, None), Err(ModelError::Directory { path, .. }) if path == missing));
    let error = Process::open(root.path()).unwrap_err().to_string();
    assert!(error.contains("spool/windows.spool"), "{error}");
}

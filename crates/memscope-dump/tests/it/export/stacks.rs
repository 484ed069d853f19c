//! Call stacks beside the rows: the same as in them, once.
use crate::export::insight;
use crate::export::recording::{Cells, Recording, csv_rows, db_rows};
use memscope_dump::{Brand, DumpEvents, Format, StackForm};
use memscope_testkit::{Space, SpoolBuilder};
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

const CSV: &str = "memscope_dump_20251203091122.csv";
const STACKS: &str = "memscope_stacks_20251203091122.csv";
const DB: &str = "memscope_dump_20251203091122.db";

fn in_table(build: impl FnOnce(&mut SpoolBuilder)) -> Recording {
    Recording { stacks: None, ..Recording::new(build) }
}

fn two_ways(spool: &mut SpoolBuilder) {
    spool.config("c=20;py=20;cpu=1;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(32);
    spool.code(lane, 0, "train.py", "step", 7).python_node(lane, 1, 0, 0, 0);
    spool.unknown_node(lane, 2, 0, 0x10).unknown_node(lane, 3, 2, 0x20).unknown_node(lane, 4, 2, 0x30);
    spool.both(lane, 5, 3, 1).both(lane, 6, 4, 1);
    spool.alloc(lane, 10, 0x5000, 64, 5).alloc(lane, 20, 0x6000, 64, 6).alloc(lane, 30, 0x7000, 64, 5);
    spool.device_alloc(lane, 40, Space::Driver, 0, 0x9000, 64, 7, 5);
}

/// The texts of stacks by their cells, as the document says to read them.
fn stacks_of_csv(path: &Path) -> HashMap<String, String> {
    let rows = csv_rows(path);
    assert_eq!(rows[0], ["ID", "Caller", "Frame"]);
    let mut frames: HashMap<String, String> = HashMap::new();
    let mut stacks: HashMap<String, String> = HashMap::new();
    for row in &rows[1..] {
        let cell = format!("#{}", row[0]);
        let frame = frames.get(&row[2]).unwrap_or(&row[2]).clone();
        let stack = match row[1].as_str() {
            "" => frame.clone(),
            caller => format!("{frame}\n{}", stacks[&format!("#{caller}")]),
        };
        frames.insert(cell.clone(), frame);
        assert_eq!(stacks.insert(cell, stack), None, "a number is given once");
    }
    let mut texts: Vec<&String> = stacks.values().collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), stacks.len(), "a stack is there once");
    stacks
}

fn stacks_of_db(path: &Path) -> HashMap<String, String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT '#' || ID, \"Call Stack\" FROM memscope_stack_texts").unwrap();
    statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

fn written_out(mut rows: Vec<Cells>, stacks: &HashMap<String, String>) -> Vec<Cells> {
    for row in &mut rows {
        for cell in [10, 11] {
            if !row[cell].is_empty() {
                row[cell] = stacks[&row[cell]].clone();
            }
        }
    }
    rows
}

#[test]
fn rows_of_the_host_refer_to_the_table_and_those_of_devices_have_their_stacks() {
    let recording = in_table(two_ways);
    let (exported, _) = recording.export(Format::Csv);
    let cells = |path: &Path| -> Vec<[String; 2]> {
        csv_rows(path)[1..].iter().map(|row| [row[10].clone(), row[11].clone()]).collect()
    };
    assert_eq!(cells(&recording.dump(CSV)), [["#1", "#3"], ["#1", "#4"], ["#1", "#3"]]);
    let table = "ID,Caller,Frame\n1,,\"train.py: step\"\n2,,\"[0x10]\"\n3,2,\"[0x20]\"\n4,2,\"[0x30]\"\n";
    assert_eq!(fs::read_to_string(recording.dump(STACKS)).unwrap(), table);
    assert_eq!(cells(&recording.device_dump("0", CSV)), [["train.py: step", "[0x20]\n[0x10]"]]);
    assert!(!recording.device_dump("0", STACKS).exists());
    let expected = [
        recording.dump(CSV),
        recording.dump(STACKS),
        recording.device_dump("0", CSV),
        recording.directory.join("config.json"),
    ];
    assert_eq!(exported.files, expected);
}

#[test]
fn the_option_decides_for_all_files() {
    let all = |form| {
        let recording = Recording { stacks: Some(form), ..in_table(two_ways) };
        recording.export(Format::Csv);
        [recording.dump(STACKS).exists(), recording.device_dump("0", STACKS).exists()]
    };
    assert_eq!(all(StackForm::Table), [true, true]);
    assert_eq!(all(StackForm::Inline), [false, false]);
}

#[test]
fn a_table_of_an_earlier_export_does_not_stay_beside_rows_that_have_no_use_for_it() {
    let recording = in_table(two_ways);
    recording.export(Format::Csv);
    assert!(recording.dump(STACKS).exists());
    let inline = Recording { stacks: Some(StackForm::Inline), ..recording };
    inline.export(Format::Csv);
    assert!(inline.dump(CSV).exists() && !inline.dump(STACKS).exists());
}

#[test]
fn under_the_old_name_the_table_has_it_too() {
    let recording = in_table(two_ways);
    recording.try_export(Format::Csv, Brand::MsLeaks, DumpEvents::ALL).unwrap();
    assert!(recording.dump("leaks_stacks_20251203091122.csv").exists());
    recording.try_export(Format::Db, Brand::MsLeaks, DumpEvents::ALL).unwrap();
    let path = recording.dump("leaks_dump_20251203091122.db");
    insight::assert_viewable(&path);
    let connection = Connection::open(&path).unwrap();
    let count = |name: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {name}"), (), |row| row.get(0)).unwrap()
    };
    assert_eq!((count("leaks_stacks"), count("leaks_stack_texts"), count("leaks_alive")), (4, 4, 3));
}

#[test]
fn without_stacks_there_is_no_table() {
    let recording = in_table(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x5000, 64, 0).free(lane, 20, 0x5000, 0);
    });
    recording.export(Format::Csv);
    recording.export(Format::Db);
    assert!(!recording.dump(STACKS).exists());
    let connection = Connection::open(recording.dump(DB)).unwrap();
    let stacks = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'memscope_stack%'";
    assert_eq!(connection.query_row(stacks, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// A tree of frames from few addresses and lines, so that texts come again in it; then events of its nodes.
fn random_tree(spool: &mut SpoolBuilder, nodes: &[(u8, u8, bool)], events: &[u8]) {
    spool.config("c=9;py=9;cpu=1;npu=0;dir=/tmp");
    let lane = spool.lane(31);
    spool.code(lane, 0, "a,b.py", "f\"g\"", 3).code(lane, 1, "c.py", "#1", 3);
    let (mut native, mut python) = (vec![0], vec![0]);
    for (at, (parent, frame, is_python)) in nodes.iter().enumerate() {
        let node = at as u32 + 1;
        let callers = if *is_python { &mut python } else { &mut native };
        let parent = callers[usize::from(*parent) % callers.len()];
        if *is_python {
            spool.python_node(lane, node, parent, u32::from(frame % 2), u32::from(frame % 3) * 2);
        } else {
            spool.unknown_node(lane, node, parent, u64::from(frame % 5));
        }
        callers.push(node);
    }
    let mut both = nodes.len() as u32;
    for (at, pick) in events.iter().enumerate() {
        both += 1;
        let (c, p) = (native[usize::from(*pick) % native.len()], python[usize::from(pick / 3) % python.len()]);
        spool.both(lane, both, c, p);
        spool.alloc(lane, at as u64, 0x1000 + at as u64 * 64, 8, both);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(48)))]
    #[test]
    fn what_rows_refer_to_is_what_they_would_have_said(
        nodes in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 1..40),
        events in proptest::collection::vec(any::<u8>(), 2..40),
    ) {
        let recording = in_table(|spool| random_tree(spool, &nodes, &events));
        recording.export(Format::Csv);
        recording.export(Format::Db);
        insight::assert_viewable(&recording.dump(DB));
        let has_table = recording.dump(STACKS).exists();
        let of_csv = if has_table { stacks_of_csv(&recording.dump(STACKS)) } else { HashMap::new() };
        let of_db = if has_table { stacks_of_db(&recording.dump(DB)) } else { HashMap::new() };
        prop_assert_eq!(&of_csv, &of_db);
        let csv = written_out(csv_rows(&recording.dump(CSV)).split_off(1), &of_csv);
        let db = written_out(db_rows(&recording.dump(DB), "memscope_dump"), &of_db);
        let inline = Recording { stacks: Some(StackForm::Inline), ..recording };
        inline.export(Format::Csv);
        let expected = csv_rows(&inline.dump(CSV)).split_off(1);
        prop_assert_eq!(&csv, &expected);
        prop_assert_eq!(&db, &expected);
    }
}

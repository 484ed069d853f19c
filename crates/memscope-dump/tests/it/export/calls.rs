//! Calls of Python functions as files and as a table.
use crate::export::insight;
use crate::export::recording::Recording;
use memscope_dump::{Brand, DumpEvents, Format};
use memscope_testkit::{Extended, Space, SpoolBuilder};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

const HEADER: &str = "FuncInfo,StartTime(ns),EndTime(ns),Thread Id,Process Id\n";
const DB: &str = "memscope_dump_20251203091122.db";

/// Two threads; in one a call was there before, in the other one has not ended.
fn two_threads(spool: &mut SpoolBuilder) {
    spool.config("c=0;py=0;cpu=1;npu=ffffffff;events=31;dump=31;dir=/tmp").calls_traced();
    for thread in [32, 33] {
        let lane = spool.lane(thread);
        spool.code(lane, 0, "/a,b.py", "main", 1).code(lane, 1, "/train.py", "say \"x\"", 9);
        spool.record(lane, 10, &Extended::CallsBegin {});
        if thread == 32 {
            spool.record(lane, 10, &Extended::CallFound { code: 0 });
        }
        spool.record(lane, 20, &Extended::Call { code: 1 });
        spool.record(lane, 30, &Extended::CallEnd {});
        match thread {
            32 => spool.record(lane, 40, &Extended::CallEnd {}),
            _ => spool.record(lane, 40, &Extended::Call { code: 0 }),
        };
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn table(path: &Path, table: &str) -> Vec<(String, String, String, u32, u32)> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY rowid")).unwrap();
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn each_thread_has_a_file() {
    let recording = Recording::new(two_threads);
    let (exported, _) = recording.export(Format::Csv);
    let files = ["python_trace_32_20251203091122.csv", "python_trace_33_20251203091122.csv"];
    // No row of memory, no file of it.
    assert_eq!(names(&recording.directory.join("device_cpu/dump")), files);
    assert_eq!(exported.files.len(), 3);
    let text = |name: &str| fs::read_to_string(recording.dump(name)).unwrap();
    let first = "\"/train.py(9): say \"\"x\"\"\",1700000000000000020,1700000000000000030,32,31\n\
                 \"start: /a,b.py(1): main\",N/A,1700000000000000040,32,31\n";
    assert_eq!(text(files[0]), [HEADER, first].concat());
    let second = "\"/train.py(9): say \"\"x\"\"\",1700000000000000020,1700000000000000030,33,31\n\
                  \"stop: /a,b.py(1): main\",1700000000000000040,N/A,33,31\n";
    assert_eq!(text(files[1]), [HEADER, second].concat());
}

#[test]
fn a_number_that_a_second_thread_is_given_goes_on_in_the_same_file() {
    let recording = Recording::new(|spool| {
        two_threads(spool);
        let lane = spool.lane(32);
        spool.code(lane, 0, "/late.py", "late", 3);
        spool.record(lane, 50, &Extended::Call { code: 0 }).record(lane, 60, &Extended::CallEnd {});
    });
    recording.export(Format::Csv);
    let text = fs::read_to_string(recording.dump("python_trace_32_20251203091122.csv")).unwrap();
    assert!(
        text.ends_with(
            "N/A,1700000000000000040,32,31\n/late.py(3): late,1700000000000000050,1700000000000000060,32,31\n"
        )
    );
    assert_eq!(text.matches("FuncInfo").count(), 1);
}

#[test]
fn a_database_has_them_beside_the_rows_of_the_lowest_device() {
    let recording = Recording::new(|spool| {
        two_threads(spool);
        let lane = spool.lane(34);
        for device in [3, 1] {
            spool.region(lane, 1, Space::PtaCaching, device, 0x12c0_4120_2400 + u64::from(device) * 4096, 1536);
            spool.device_free(lane, 5, Space::PtaCaching, 0x12c0_4120_2400 + u64::from(device) * 4096, 0);
        }
    });
    let (exported, _) = recording.export(Format::Db);
    assert_eq!(exported.problems, Vec::new());
    let path = recording.device_dump("1", DB);
    // One that has not ended, and one that began before.
    let unfinished = serde_json::json!({ "python_trace rows not drawable (end N/A or end<=start)": 2 });
    insight::assert_viewable_but_for(&path, &unfinished);
    let rows = table(&path, "python_trace_31");
    let (start, end) = ("1700000000000000020".to_owned(), "1700000000000000030".to_owned());
    let step = "/train.py(9): say \"x\"".to_owned();
    assert_eq!(rows[0], (step.clone(), start.clone(), end.clone(), 32, 31));
    assert_eq!(rows[1].0, "start: /a,b.py(1): main");
    assert_eq!((rows[1].1.as_str(), rows[1].2.as_str()), ("N/A", "1700000000000000040"));
    assert_eq!(rows[2], (step, start, end, 33, 31));
    assert_eq!((rows[3].1.as_str(), rows[3].2.as_str(), rows.len()), ("1700000000000000040", "N/A", 4));
    let others = Connection::open(recording.device_dump("3", DB)).unwrap();
    let tables: u32 = others
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'python_trace%'", (), |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 0);
}

/// The viewer refuses a file with a table of calls in which none has both its times.
#[test]
fn without_a_call_that_began_and_ended_there_is_no_table() {
    let recording = Recording::new(|spool| {
        spool.config("c=0;py=0;cpu=1;npu=0;events=31;dump=31;dir=/tmp").calls_traced();
        let lane = spool.lane(32);
        spool.code(lane, 0, "/a.py", "main", 1).alloc(lane, 5, 0x5000, 64, 0).free(lane, 6, 0x5000, 0);
        spool.record(lane, 10, &Extended::CallsBegin {}).record(lane, 10, &Extended::CallFound { code: 0 });
        spool.record(lane, 20, &Extended::Call { code: 0 });
    });
    recording.export(Format::Db);
    insight::assert_viewable(&recording.dump(DB));
    let connection = Connection::open(recording.dump(DB)).unwrap();
    assert!(connection.prepare("SELECT * FROM python_trace_31").is_err());
}

#[test]
fn the_old_name_of_the_tool_has_its_own_table() {
    let recording = Recording::new(two_threads);
    recording.try_export(Format::Db, Brand::MsLeaks, DumpEvents::ALL).unwrap();
    assert_eq!(table(&recording.dump("leaks_dump_20251203091122.db"), "python_trace").len(), 4);
}

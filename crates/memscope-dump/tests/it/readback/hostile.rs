//! Files that are damaged, foreign or made to do harm.
use crate::readback::summary::summary;
use memscope_dump::open;
use memscope_model::{Damage, ModelError, Outcome, RowPlace, Status};
use proptest::prelude::*;
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HEADER: &str =
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)";
const GOOD: &str = "1,MALLOC,HOST,N/A,101,1,1,cpu,0x10,\"{allocation_id:1,size:8}\",,";

struct Dump {
    root: TempDir,
    path: PathBuf,
}

fn dump(name: &str, contents: &[u8]) -> Dump {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(name);
    fs::write(&path, contents).unwrap();
    Dump { root, path }
}

/// The whole file, or the reason why not.
fn read(path: &Path) -> Result<Outcome, ModelError> {
    let mut source = open(path)?;
    while source.step(&mut [])? == Status::More {}
    Ok(source.outcome())
}

fn refused(path: &Path) -> String {
    read(path).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn bad_rows_are_skipped_counted_and_named_by_their_line() {
    let bad = [
        "x,MALLOC,HOST,N/A,101,1,1,cpu,0x10,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,soon,1,1,cpu,0x10,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,101,1,-1,cpu,0x10,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,101,1,1,gpu,0x10,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,101,1,1,70000,0x10,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,101,1,1,cpu,0xg,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,101,1,1,cpu,N/A,\"{size:8}\",,",
        "2,MALLOC,HOST,N/A,101,1,1,cpu,0x10,\"{size:8\",,",
        "2,MALLOC,HOST,N/A,101,1,1,cpu,0x10,\"{}\",,",
        "2,MALLOC,HOST,N/A,101,1,1,cpu,0x10,\"{size:99999999999999999999}\",,",
        "2,MALLOC,PTA,N/A,101,1,1,0,0x10,\"{size:8,total:18446744073709551615}\",,",
        "2,SYSTEM,STEP,first,101,1,1,0,N/A,,,",
        "2,M\u{1}LLOC,HOST,N/A,101,1,1,cpu,0x10,\"{size:8}\",,",
        "2,,,,,,,,,,,",
        "nothing of the kind",
    ];
    let mut text = format!("{HEADER}\n{GOOD}\n{}\n", bad.join("\n")).into_bytes();
    text.extend_from_slice(
        b"3,MALLOC,HOST,\xff\xfe,101,1,1,cpu,0x10,\"{size:8,owner:\xff}\",\xff,\n3,\xff,HOST,,,,,,,,,\n",
    );
    let dump = dump("memscope_dump_1.csv", &text);
    let outcome = read(&dump.path).unwrap();
    // Texts that are no UTF-8 are taken for what they can be.
    assert_eq!((outcome.mallocs, outcome.unknown_records), (2, 0));
    let lines: Vec<u64> = outcome
        .damage
        .iter()
        .map(|damage| match damage {
            Damage::Row { file, row: RowPlace::Line(line), why } if *file == dump.path && !why.is_empty() => *line,
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: Vec<u64> = (3..3 + bad.len() as u64).chain([4 + bad.len() as u64]).collect();
    assert_eq!(lines, expected);
}

#[test]
fn of_very_many_bad_rows_the_first_are_named_and_the_rest_counted() {
    let text = format!("{HEADER}\n{}{GOOD}\n", "rubbish\n".repeat(5000));
    let outcome = read(&dump("memscope_dump_1.csv", text.as_bytes()).path).unwrap();
    assert_eq!(outcome.mallocs, 1);
    let named = outcome.damage.len() as u64 - 1;
    let Some(Damage::MoreRows { number, .. }) = outcome.damage.last() else { panic!("{:?}", outcome.damage.last()) };
    assert_eq!(named + number, 5000);
}

#[test]
fn numbers_no_memory_can_have_are_counted_and_do_not_overflow() {
    let most = u64::MAX;
    let rows: String = (0..4)
        .map(|id| format!("{id},MALLOC,HAL,N/A,{most},1,1,0,{most},\"{{allocation_id:{id},size:{most}}}\",,\n"))
        .collect();
    let outcome = read(&dump("memscope_dump_1.csv", format!("{HEADER}\n{rows}").as_bytes()).path).unwrap();
    assert_eq!((outcome.implausible_events, outcome.mallocs), (4, 0));
}

fn database(sql: &str) -> Dump {
    let dump = dump("memscope_dump_1.db", b"");
    Connection::open(&dump.path).unwrap().execute_batch(sql).unwrap();
    dump
}

fn table(rows: &str) -> String {
    let columns: Vec<String> = HEADER.split(',').map(|column| format!("\"{column}\"")).collect();
    format!("CREATE TABLE memscope_dump ({}); INSERT INTO memscope_dump VALUES {rows};", columns.join(","))
}

const GOOD_VALUES: &str =
    "(1,'MALLOC','HOST_PINNED','N/A',101,1,1,'cpu','0x10','{\"allocation_id\":\"1\",\"size\":\"8\"}','','')";

#[test]
fn bad_rows_of_a_database_are_named_by_their_number() {
    let bad = [
        "(NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)",
        "(1.5,'MALLOC','HOST','N/A',101,1,1,'cpu','0x10','{\"size\":\"8\"}','','')",
        "(1,'MALLOC','HOST','N/A','soon',1,1,'cpu','0x10','{\"size\":\"8\"}','','')",
        "(1,'MALLOC','HOST','N/A',-5,1,1,'cpu','0x10','{\"size\":\"8\"}','','')",
        "(1,'MALLOC','HOST','N/A',101,1,1,'cpu','0x10',x'ff00','','')",
        "(1,2,3,4,5,1,7,8,9,10,11,12)",
    ];
    // As blobs, texts are texts; numbers may be texts and the other way round.
    let odd = "(x'39',CAST('MALLOC' AS BLOB),'HOST',7,'103','1','1',0,16,'{\"size\":8}',5,NULL)";
    let dump = database(&table(&format!("{GOOD_VALUES},{},{odd}", bad.join(","))));
    let outcome = read(&dump.path).unwrap();
    assert_eq!(outcome.mallocs, 2, "{:?}", outcome.damage);
    let rows: Vec<i64> = outcome
        .damage
        .iter()
        .map(|damage| match damage {
            Damage::Row { row: RowPlace::RowId(row), .. } => *row,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(rows, (2..2 + bad.len() as i64).collect::<Vec<_>>());
}

#[test]
fn what_is_no_dump_is_refused_in_one_clear_line() {
    let root = tempfile::tempdir().unwrap();
    assert!(refused(&dump("memscope_dump_1.csv", b"").path).ends_with("it is empty"));
    assert!(refused(&dump("memscope_dump_1.db", b"").path).ends_with("it is empty"));
    assert!(refused(&dump("x.db", &[0; 5000]).path).contains("no column"));
    let other = database("CREATE TABLE books (title TEXT)");
    assert!(
        refused(&other.path).ends_with("neither a table memscope_dump nor a table leaks_dump"),
        "{}",
        refused(&other.path)
    );
    let other = database("CREATE TABLE memscope_dump (title TEXT)");
    assert!(refused(&other.path).ends_with("no column \"Event\""), "{}", refused(&other.path));
    let view = database("CREATE TABLE t (a); CREATE VIEW memscope_dump AS SELECT * FROM t");
    assert!(refused(&view.path).contains("neither a table"), "{}", refused(&view.path));
    let without_rowid = database(&format!(
        "CREATE TABLE memscope_dump ({}, PRIMARY KEY (\"ID\")) WITHOUT ROWID",
        HEADER.split(',').map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(",")
    ));
    assert!(refused(&without_rowid.path).contains("rowid"), "{}", refused(&without_rowid.path));
    let pipe = root.path().join("memscope_dump_1.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(refused(&pipe).ends_with("not a regular file"), "{}", refused(&pipe));
}

#[test]
fn of_a_truncated_database_the_intact_rows_are_read() {
    let rows: Vec<String> = (1..4000)
        .map(|id| {
            format!("({id},'MALLOC','HAL','N/A',{id},1,1,'0','0x{id:x}','{{\"allocation_id\":\"{id}\",\"size\":\"8\"}}','','')")
        })
        .collect();
    let whole = database(&table(&rows.join(",")));
    let bytes = fs::read(&whole.path).unwrap();
    for length in [100, 4000, bytes.len() / 2, bytes.len() - 4096] {
        let cut = dump("memscope_dump_1.db", &bytes[..length]);
        match read(&cut.path) {
            Ok(outcome) => assert!(!outcome.damage.is_empty() || outcome.mallocs == 3999, "{length}"),
            Err(error) => assert!(error.to_string().contains("memscope_dump_1.db"), "{error}"),
        }
    }
    let torn: Vec<u8> =
        bytes.iter().enumerate().map(|(at, byte)| if at / 4096 % 7 == 5 { 0xee } else { *byte }).collect();
    let torn = dump("memscope_dump_1.db", &torn);
    let outcome = read(&torn.path);
    assert!(outcome.is_err() || outcome.is_ok_and(|outcome| !outcome.damage.is_empty()));
}

#[test]
fn a_locked_database_is_told_as_such() {
    let dump = database(&table(&[GOOD_VALUES; 500].join(",")));
    let writer = Connection::open(&dump.path).unwrap();
    // A change that does not fit the writer's memory, so that it begins to write.
    writer.execute_batch("PRAGMA cache_size = 1; BEGIN EXCLUSIVE; UPDATE memscope_dump SET \"ID\" = 2;").unwrap();
    let journal = dump.root.path().join("memscope_dump_1.db-journal");
    assert!(journal.metadata().unwrap().len() > 0);
    let error = refused(&dump.path);
    assert!(error.contains("another program is writing to it"), "{error}");
    writer.execute_batch("ROLLBACK").unwrap();
    drop(writer);
    assert_eq!(read(&dump.path).unwrap().mallocs, 500);
}

#[test]
fn a_pass_can_be_broken_off_and_begun_again() {
    let rows: String = (1..20_000)
        .map(|id| format!("{id},MALLOC,HOST,N/A,{id},1,1,cpu,0x10,\"{{allocation_id:{id},size:8}}\",,\n"))
        .collect();
    let dump = dump("memscope_dump_1.csv", format!("{HEADER}\n{rows}").as_bytes());
    let mut source = open(&dump.path).unwrap();
    let mut count = 0;
    let mut some = |_: &memscope_model::TraceEvent<'_>, _: &memscope_model::State<'_>| {
        count += 1;
        if count == 10_000 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    };
    let outcome = source.run(&mut [&mut some], &mut |_| {}).unwrap();
    assert_eq!((outcome.interrupted, outcome.events), (true, 10_000));
    let mut fractions = Vec::new();
    let outcome = source.run(&mut [], &mut |fraction| fractions.push(fraction)).unwrap();
    assert_eq!((outcome.interrupted, outcome.events), (false, 19_999));
    assert!(fractions.is_sorted() && fractions.last() == Some(&1.0), "{fractions:?}");
    assert_eq!(summary(&mut *source).1.events, 19_999);
}

/// Bytes that look like a csv, more or less.
fn csv_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        Just(GOOD.as_bytes().to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b",".to_vec()),
        Just(b"1,MSTX,Mark,\"a\"b\",5,1,1,0,N/A,,,\n".to_vec()),
        Just(b"2,ACCESS,READ,x,5,1,1,0,0x1,\"{type:ATB,shape:[1,2}\",,\n".to_vec()),
        Just(b"{\"size\":\"".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..30),
    ];
    proptest::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_behind_a_header_are_read_without_harm(bytes in csv_bytes()) {
        let mut text = format!("{HEADER}\n").into_bytes();
        text.extend_from_slice(&bytes);
        let dump = dump("memscope_dump_1.csv", &text);
        if let Err(why) = read(&dump.path) {
            // Pieces of rows may make rows of two processes.
            prop_assert!(why.to_string().contains("processes"), "{why}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000), database in any::<bool>()) {
        let mut all = if database { b"SQLite format 3\0".to_vec() } else { Vec::new() };
        all.extend_from_slice(&bytes);
        let _ = read(&dump("memscope_dump_1.db", &all).path);
    }

    #[test]
    fn any_damage_to_a_database_is_survived(damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let sound = database(&table(&[GOOD_VALUES; 20].join(",")));
        let mut bytes = fs::read(&sound.path).unwrap();
        for (at, value) in damage {
            let length = bytes.len();
            bytes[at.index(length)] = value;
        }
        let _ = read(&dump("memscope_dump_1.db", &bytes).path);
    }

    #[test]
    fn any_cells_of_a_database_are_read_without_harm(cells in proptest::collection::vec(cells(), 1..20)) {
        let rows: Vec<String> = cells.iter().map(|cells| format!("({})", cells.join(","))).collect();
        let dump = database(&table(&rows.join(",")));
        read(&dump.path).unwrap();
    }
}

/// Twelve values of any kind, mostly near the truth.
fn cells() -> impl Strategy<Value = Vec<String>> {
    let good =
        ["1", "'MALLOC'", "'PTA'", "'N/A'", "101", "1", "1", "'0'", "'0x10'", "'{\"size\":\"8\"}'", "''", "'#1'"];
    let any = prop_oneof![
        Just("NULL".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f32>()
            .prop_filter("SQL has no word for it", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        proptest::collection::vec(any::<u8>(), 0..20)
            .prop_map(|bytes| format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())),
        proptest::sample::select(vec![
            "'FREE'",
            "'ACCESS'",
            "'MSTX'",
            "'Range_end'",
            "'{\"type\":\"ATB\"}'",
            "'KERNEL_LAUNCH'"
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(proptest::option::weighted(0.2, any), 12).prop_map(move |odd| {
        odd.into_iter().zip(good).map(|(odd, good)| odd.unwrap_or_else(|| good.to_owned())).collect()
    })
}

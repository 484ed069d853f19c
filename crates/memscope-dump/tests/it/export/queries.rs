//! The queries of docs/files.md, as they stand there, against databases and what the model knows.
use crate::export::recording::Recording;
use memscope_dump::{Brand, DumpEvents, Format};
use memscope_model::{Outcome, Pool};
use memscope_testkit::SpoolBuilder;
use rusqlite::Connection;
use std::collections::HashMap;

const DB: &str = "memscope_dump_20251203091122.db";

/// The SQL that follows a heading or a line of the document.
fn documented(after: &str) -> String {
    let document = include_str!("../../../../../docs/files.md");
    let (_, rest) = document.split_once(after).unwrap_or_else(|| panic!("docs/files.md does not say {after:?}"));
    let (_, query) = rest.split_once("```sql\n").unwrap();
    query.split_once("```").unwrap().0.to_owned()
}

fn many_blocks(spool: &mut SpoolBuilder) {
    spool.config("c=20;py=0;cpu=1;npu=0;dir=/tmp");
    let lane = spool.lane(31);
    for node in 1..=7 {
        spool.unknown_node(lane, node, node - 1, 0x100 + u64::from(node));
    }
    // Addresses come again, every third block stays.
    for number in 0..3000u32 {
        let (ticks, address) = (u64::from(number) * 10, 0x1000 + u64::from(number % 400) * 0x1000);
        spool.alloc(lane, ticks, address, u64::from(number) + 1, number % 7 + 1);
        if number % 3 > 0 || number < 2600 {
            spool.free(lane, ticks + 5, address, 0);
        }
    }
}

/// Size and address of what is alive, by the model.
fn alive(outcome: &Outcome) -> Vec<(i64, String)> {
    let mut blocks: Vec<(i64, String)> =
        outcome.live_blocks().map(|block| (block.size as i64, format!("{:#018x}", block.address))).collect();
    blocks.sort();
    blocks
}

#[test]
fn what_is_not_freed_is_what_the_model_has_alive() {
    let recording = Recording { stacks: None, ..Recording::new(many_blocks) };
    let (exported, _) = recording.export(Format::Db);
    let connection = Connection::open(recording.dump(DB)).unwrap();
    let mut statement = connection.prepare(&documented("### What is not freed?")).unwrap();
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    assert_eq!((columns[0].as_str(), columns[4].as_str()), ("Size", "Ptr"));
    let mut told: Vec<(i64, String)> =
        statement.query_map((), |row| Ok((row.get(0)?, row.get(4)?))).unwrap().map(Result::unwrap).collect();
    assert!(told.is_sorted_by(|a, b| a.0 >= b.0));
    told.sort();
    assert_eq!(told, alive(&exported.outcome));
    assert!(told.len() > 100);
}

#[test]
fn stacks_of_what_is_not_freed_are_written_out_and_their_sums_right() {
    let recording = Recording { stacks: None, ..Recording::new(many_blocks) };
    let (exported, _) = recording.export(Format::Db);
    let connection = Connection::open(recording.dump(DB)).unwrap();
    let mut statement = connection.prepare(&documented("By call stack, written out")).unwrap();
    let told: HashMap<String, (i64, i64)> = statement
        .query_map((), |row| Ok((row.get(2)?, (row.get(0)?, row.get(1)?))))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut expected: HashMap<String, (i64, i64)> = HashMap::new();
    for block in exported.outcome.live_blocks() {
        assert_eq!(block.pool, Pool::Host);
        // Block `n` was allocated below `(n - 1) % 7 + 1` frames.
        let depth = (block.id.0 - 1) % 7 + 1;
        let frames: Vec<String> = (1..=depth).rev().map(|frame| format!("[{:#x}]", 0x100 + frame)).collect();
        let sums = expected.entry(frames.join("\n")).or_default();
        *sums = (sums.0 + block.size as i64, sums.1 + 1);
    }
    assert_eq!(told, expected);
}

#[test]
fn what_was_freed_is_not_alive_though_frees_were_not_asked_for() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x5000, 8, 0).free(lane, 20, 0x5000, 0).alloc(lane, 30, 0x6000, 9, 0);
    });
    recording.try_export(Format::Db, Brand::MsMemScope, DumpEvents::ALLOC).unwrap();
    let connection = Connection::open(recording.dump(DB)).unwrap();
    let mut statement = connection.prepare(&documented("### What is not freed?")).unwrap();
    let told: Vec<i64> = statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(told, [9]);
}

#[test]
fn the_life_of_an_address_is_told_in_its_order() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x7f31_c000_0b60, 8, 0).alloc(lane, 15, 0x6000, 9, 0);
        spool.free(lane, 20, 0x7f31_c000_0b60, 0).alloc(lane, 30, 0x7f31_c000_0b60, 9, 0);
    });
    recording.export(Format::Db);
    let connection = Connection::open(recording.dump(DB)).unwrap();
    let mut statement = connection.prepare(&documented("The life of an address:")).unwrap();
    let told: Vec<String> = statement.query_map((), |row| row.get(2)).unwrap().map(Result::unwrap).collect();
    assert_eq!(told, ["MALLOC", "FREE", "MALLOC"]);
}

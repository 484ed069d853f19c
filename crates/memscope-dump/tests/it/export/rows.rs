//! The rows of an export, read back.
use crate::export::insight;
use crate::export::recording::{Cells, Recording, attribute, csv_rows, db_rows};
use memscope_dump::{Brand, DumpEvents, Format, Problem};
use memscope_model::{Action, BlockEvent, Origin};
use memscope_testkit::{EPOCH, LaneNumber, SpoolBuilder};
use proptest::prelude::*;
use std::fs;

const CSV: &str = "memscope_dump_20251203091122.csv";
const DB: &str = "memscope_dump_20251203091122.db";

#[test]
fn the_csv_of_a_small_recording_is_this_text() {
    let recording = Recording::new(|spool| {
        spool.config("c=20;py=20;dir=/tmp");
        let lane = spool.lane(32);
        spool.module(lane, 0, 0x1000_0000, b"/no/such/library.so", b"");
        spool.c_node(lane, 1, 0, 0, 0x42).unknown_node(lane, 2, 1, 0x7f01);
        spool.code(lane, 0, "train.py", "Net.forward", 7).python_node(lane, 3, 0, 0, 0).both(lane, 4, 2, 3);
        spool.alloc(lane, 10, 0x5000, 64, 4).map(lane, 20, 0x7f00_0000_0000, 8192, 1);
        spool.free(lane, 30, 0x5000, 0).alloc(lane, 30, 0x5000, 10, 0).unmap(lane, 50, 0x7f00_0000_0000, 8192, 0);
    });
    recording.export(Format::Csv);
    let expected = "\
ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)
0,MALLOC,HOST,N/A,1700000000000000010,31,32,cpu,0x0000000000005000,\"{allocation_id:1,addr:0x0000000000005000,size:64,total:64}\",\"train.py: Net.forward\",\"[0x7f01]
library.so+0x42\"
1,MALLOC,HOST,N/A,1700000000000000020,31,32,cpu,0x00007f0000000000,\"{allocation_id:2,addr:0x00007f0000000000,size:8192,total:8256,alloc_type:mmap}\",,\"library.so+0x42\"
2,FREE,HOST,N/A,1700000000000000030,31,32,cpu,0x0000000000005000,\"{allocation_id:1,addr:0x0000000000005000,size:64,total:8192}\",,
3,MALLOC,HOST,N/A,1700000000000000031,31,32,cpu,0x0000000000005000,\"{allocation_id:3,addr:0x0000000000005000,size:10,total:8202}\",,
4,FREE,HOST,N/A,1700000000000000050,31,32,cpu,0x00007f0000000000,\"{allocation_id:2,addr:0x00007f0000000000,size:8192,total:10}\",,
";
    assert_eq!(fs::read_to_string(recording.dump(CSV)).unwrap(), expected);
}

#[test]
fn names_may_hold_quotes_commas_and_line_breaks() {
    let recording = Recording::new(|spool| {
        spool.config("c=20;py=20;dir=/tmp");
        let lane = spool.lane(32);
        spool.module(lane, 0, 0x1000_0000, b"/no/a\"b,c\nd.so", b"");
        spool.code(lane, 0, "/x/\"a\",\n\0b.py", "<lambda>,\r\"", 7);
        spool.c_node(lane, 1, 0, 0, 0x42).python_node(lane, 2, 0, 0, 0).both(lane, 3, 1, 2);
        spool.alloc(lane, 10, 0x5000, 64, 3).free(lane, 20, 0x5000, 1);
    });
    let (exported, _) = recording.export(Format::Csv);
    recording.export(Format::Db);
    let rows = csv_rows(&recording.dump(CSV));
    assert_eq!(rows[1][10], "/x/\"a\",\\n\\u{0}b.py: <lambda>,\\r\"");
    assert_eq!(rows[1][11], "a\"b,c\\nd.so+0x42");
    assert_eq!(rows[2][11], rows[1][11]);
    assert_eq!(db_rows(&recording.dump(DB), "memscope_dump"), rows[1..]);
    insight::assert_viewable(&recording.dump(DB));
    assert_eq!(exported.problems.len(), 1, "the module is missing: {:?}", exported.problems);
}

#[test]
fn a_single_allocation_is_viewable_with_the_start_of_the_recording() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x5000, 64, 0);
    });
    let (exported, _) = recording.export(Format::Db);
    insight::assert_viewable(&recording.dump(DB));
    let rows = db_rows(&recording.dump(DB), "memscope_dump");
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0][1].as_str(), exported.rows), ("MALLOC", 1));
    assert_eq!(rows[1][1..9], ["SYSTEM", "START_TRACE", "N/A", &EPOCH.0.to_string(), "31", "31", "N/A", "N/A"]);
}

#[test]
fn what_a_viewer_would_drop_is_in_a_table_of_its_own_and_is_reported() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x5000, 0, 0).free(lane, 20, 0x5000, 0).free(lane, 30, 0x6000, 0);
        spool.alloc(lane, 40, 0x7000, 64, 0).free(lane, 50, 0x7000, 0);
        // An allocator that hands out the start of its own mapping.
        spool.map(lane, 60, 0x10_0000, 4096, 0).alloc(lane, 70, 0x10_0000, 16, 0).free(lane, 80, 0x10_0000, 0);
    });
    let (exported, events) = recording.export(Format::Db);
    recording.export(Format::Csv);
    insight::assert_viewable(&recording.dump(DB));
    let ids =
        |table: &str| db_rows(&recording.dump(DB), table).into_iter().map(|row| row[0].clone()).collect::<Cells>();
    assert_eq!(ids("memscope_dump"), ["3", "4", "5"]);
    assert_eq!(ids("memscope_unpaired"), ["0", "1", "2", "6", "7"]);
    assert_eq!((exported.rows, events.len(), csv_rows(&recording.dump(CSV)).len()), (8, 8, 9));
    assert_eq!(exported.problems.len(), 1);
    let problem = exported.problems[0].to_string();
    assert!(problem.contains("5 rows are in table memscope_unpaired") && problem.contains("3 of blocks"), "{problem}");
}

#[test]
fn a_database_without_a_single_block_keeps_its_rows_and_says_that_it_cannot_be_viewed() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.free(lane, 30, 0x6000, 0);
    });
    let (exported, _) = recording.export(Format::Db);
    assert_eq!(db_rows(&recording.dump(DB), "memscope_unpaired").len(), 1);
    assert!(matches!(exported.problems.last(), Some(Problem::NothingToShow { .. })), "{:?}", exported.problems);
}

#[test]
fn allocations_alone_are_viewable_too() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x5000, 8, 0).free(lane, 20, 0x5000, 0).alloc(lane, 30, 0x5000, 9, 0);
        spool.alloc(lane, 40, 0x6000, 8, 0);
    });
    recording.try_export(Format::Db, Brand::MsMemScope, DumpEvents::ALLOC).unwrap();
    insight::assert_viewable(&recording.dump(DB));
    assert_eq!(db_rows(&recording.dump(DB), "memscope_dump").len(), 2);
    assert_eq!(db_rows(&recording.dump(DB), "memscope_unpaired").len(), 1);
}

#[test]
fn a_block_freed_and_allocated_in_one_moment_keeps_its_order() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 5, 0x5000, 8, 0);
        for size in 1..2000 {
            spool.free(lane, 5, 0x5000, 0).alloc(lane, 5, 0x5000, size, 0);
        }
    });
    recording.export(Format::Db);
    insight::assert_viewable(&recording.dump(DB));
    let times: Vec<u64> =
        db_rows(&recording.dump(DB), "memscope_dump").iter().map(|row| row[4].parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b));
}

#[test]
fn what_only_keeps_the_books_right_is_marked_as_shadow() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 5, 0x5000, 8, 0).alloc(lane, 6, 0x5000, 9, 0);
        spool.map(lane, 7, 0x10_0000, 8192, 0).unmap(lane, 8, 0x10_0000, 4096, 0);
    });
    recording.export(Format::Csv);
    recording.export(Format::Db);
    insight::assert_viewable(&recording.dump(DB));
    let rows = csv_rows(&recording.dump(CSV));
    let shadows: Vec<(&str, Option<&str>)> =
        rows[1..].iter().map(|row| (row[1].as_str(), attribute(&row[9], "shadow"))).collect();
    let expected = [
        ("MALLOC", None),
        ("FREE", Some("true")),
        ("MALLOC", None),
        ("MALLOC", None),
        ("FREE", None),
        ("MALLOC", Some("true")),
    ];
    assert_eq!(shadows, expected);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { slot: u8, size: u16 },
    Free { slot: u8 },
    Map { page: u8, pages: u8 },
    Unmap { page: u8, pages: u8 },
}

fn step() -> impl Strategy<Value = (u8, u8, u8, Step)> {
    let step = prop_oneof![
        4 => (0..20u8, prop_oneof![Just(0u16), any::<u16>()]).prop_map(|(slot, size)| Step::Alloc { slot, size }),
        4 => (0..20u8).prop_map(|slot| Step::Free { slot }),
        1 => (0..20u8, 1..6u8).prop_map(|(page, pages)| Step::Map { page, pages }),
        1 => (0..20u8, 1..6u8).prop_map(|(page, pages)| Step::Unmap { page, pages }),
    ];
    (0..3u8, 0..5u8, 0..4u8, step)
}

fn record(spool: &mut SpoolBuilder, steps: &[(u8, u8, u8, Step)]) {
    const HEAP: u64 = 0x10_0000;
    spool.config("c=20;py=20;dir=/tmp");
    let lanes: Vec<LaneNumber> = (0..3).map(|thread| spool.lane(100 + thread)).collect();
    for lane in &lanes {
        spool.code(*lane, 0, "a,b.py", "f\"g\"", 3).python_node(*lane, 1, 0, 0, 0);
        spool.unknown_node(*lane, 2, 0, 0x99).both(*lane, 3, 2, 1);
    }
    let mut ticks = 0;
    for (lane, wait, node, step) in steps {
        ticks += u64::from(*wait);
        let (lane, node) = (lanes[usize::from(*lane)], u32::from(*node));
        match *step {
            Step::Alloc { slot, size } => spool.alloc(lane, ticks, HEAP + u64::from(slot) * 4096, size.into(), node),
            Step::Free { slot } => spool.free(lane, ticks, HEAP + u64::from(slot) * 4096, node),
            Step::Map { page, pages } => {
                spool.map(lane, ticks, HEAP + u64::from(page) * 4096, u64::from(pages) * 4096, node)
            }
            Step::Unmap { page, pages } => {
                spool.unmap(lane, ticks, HEAP + u64::from(page) * 4096, u64::from(pages) * 4096, node)
            }
        };
    }
}

fn assert_row_tells_event(row: &[String], event: &BlockEvent) {
    let number = |key: &str| attribute(&row[9], key).unwrap().parse::<u64>().unwrap();
    let action = match event.action {
        Action::Malloc => "MALLOC",
        Action::Free => "FREE",
    };
    assert_eq!(row[..4], [event.at.event.to_string().as_str(), action, "HOST", "N/A"]);
    assert_eq!(row[5..9], ["31", &event.at.thread.to_string(), "cpu", &format!("{:#018x}", event.block.address)]);
    assert_eq!(
        (number("allocation_id"), number("size"), number("total")),
        (event.block.id.0, event.block.size, event.used)
    );
    assert_eq!(attribute(&row[9], "addr"), Some(row[8].as_str()));
    let mapped = event.block.origin == Origin::Mapping && event.action == Action::Malloc;
    assert_eq!(attribute(&row[9], "alloc_type"), mapped.then_some("mmap"));
    assert_eq!(attribute(&row[9], "shadow"), event.synthetic.then_some("true"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(64)))]
    #[test]
    fn both_formats_tell_every_event_and_the_sums_are_right(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let recording = Recording::new(|spool| record(spool, &steps));
        let (exported, events) = recording.export(Format::Csv);
        let (from_db, _) = recording.export(Format::Db);
        prop_assert_eq!((exported.rows, from_db.rows), (events.len() as u64, events.len() as u64));
        if events.is_empty() {
            return Ok(());
        }
        let rows = csv_rows(&recording.dump(CSV));
        prop_assert_eq!(rows.len(), events.len() + 1);
        for (row, event) in rows[1..].iter().zip(&events) {
            assert_row_tells_event(row, event);
        }
        prop_assert!(rows[1..].is_sorted_by(|a, b| a[4] < b[4]));

        let mut live = 0i64;
        for row in &rows[1..] {
            let size: i64 = attribute(&row[9], "size").unwrap().parse().unwrap();
            live += if row[1] == "MALLOC" { size } else { -size };
            prop_assert_eq!(attribute(&row[9], "total").unwrap(), live.to_string());
        }
        let left: u64 = exported.outcome.live_blocks().map(|block| block.size).sum();
        prop_assert_eq!(live as u64, left);

        let path = recording.dump(DB);
        let paired = db_rows(&path, "memscope_dump");
        let has_blocks = paired.iter().any(|row| row[1] == "MALLOC");
        if has_blocks {
            insight::assert_viewable(&path);
        }
        let mut together: Vec<Cells> = paired.into_iter().filter(|row| row[1] != "SYSTEM").collect();
        if together.len() < events.len() {
            together.extend(db_rows(&path, "memscope_unpaired"));
        }
        together.sort_by_key(|row| row[0].parse::<u64>().unwrap());
        prop_assert_eq!(together, rows[1..].to_vec());
    }
}

//! Operators of Aten and their accesses as rows.
use crate::export::insight;
use crate::export::recording::{Recording, csv_rows, db_rows};
use memscope_dump::Format;
use memscope_model::{Annotations, BlockId, Inefficiencies};
use memscope_testkit::{AccessMode, Space, SpoolBuilder};
use std::fs;

const CSV: &str = "memscope_dump_20251203091122.csv";
const DB: &str = "memscope_dump_20251203091122.db";

/// An operator that calls another: a view of a block is read, and a block written that it allocated.
fn addition(spool: &mut SpoolBuilder) {
    spool.config("c=20;py=0;cpu=1;npu=ffffffff;level=3;events=15;dump=15;dir=/tmp");
    let lane = spool.lane(32);
    spool.unknown_node(lane, 1, 0, 0x7f01);
    spool.aten_name(lane, 0, "aten::add.Tensor").aten_name(lane, 1, "aten::empty.memory_format");
    spool.region(lane, 1, Space::PtaCaching, 0, 0x12c0_4120_2400, 1536);
    spool.aten_start(lane, 2, 1, 0, 0, 1);
    spool.aten_access(lane, 3, AccessMode::Read, 0, 0, (0x12c0_4120_2600, 24), 0x12c0_4120_2400, &[2, 3]);
    spool.aten_start(lane, 4, 2, 0, 1, 0).region(lane, 5, Space::PtaCaching, 0, 0x12c0_4120_2a00, 512);
    spool.aten_end(lane, 6, 2);
    spool.aten_access(lane, 7, AccessMode::Write, 0, 0, (0x12c0_4120_2a00, 4), 0x12c0_4120_2a00, &[]);
    spool.aten_end(lane, 8, 1);
    // A name that nobody defined.
    spool.aten_start(lane, 9, 3, 0, 7, 0).aten_end(lane, 10, 3);
    spool.device_free(lane, 11, Space::PtaCaching, 0x12c0_4120_2400, 0);
}

#[test]
fn the_csv_of_an_operator_is_as_the_existing_tool_writes_it() {
    let recording = Recording::new(addition);
    recording.export(Format::Csv);
    let text = fs::read_to_string(recording.device_dump("0", CSV)).unwrap();
    let rows: Vec<&str> = text.lines().skip(2).collect();
    let expected = [
        "1,OP_LAUNCH,ATEN_START,aten::add.Tensor,1700000000000000002,31,32,0,N/A,,,\"[0x7f01]\"",
        "2,ACCESS,READ,aten::add.Tensor,1700000000000000003,31,32,0,0x000012c041202600,\"{allocation_id:1,\
         addr:0x000012c041202600,size:24,type:PTA,dtype:torch.float32,shape:torch.Size([2, 3])}\",,",
        "3,OP_LAUNCH,ATEN_START,aten::empty.memory_format,1700000000000000004,31,32,0,N/A,,,",
        "4,MALLOC,PTA,N/A,1700000000000000005,31,32,0,0x000012c041202a00,\"{allocation_id:2,addr:0x000012c041202a00,\
         size:512,used:2048,owner:PTA}\",,",
        "5,OP_LAUNCH,ATEN_END,aten::empty.memory_format,1700000000000000006,31,32,0,N/A,,,",
        "6,ACCESS,WRITE,aten::add.Tensor,1700000000000000007,31,32,0,0x000012c041202a00,\"{allocation_id:2,\
         addr:0x000012c041202a00,size:4,type:PTA,dtype:torch.float32,shape:torch.Size([])}\",,",
        "7,OP_LAUNCH,ATEN_END,aten::add.Tensor,1700000000000000008,31,32,0,N/A,,,",
        "8,OP_LAUNCH,ATEN_START,N/A,1700000000000000009,31,32,0,N/A,,,",
        "9,OP_LAUNCH,ATEN_END,N/A,1700000000000000010,31,32,0,N/A,,,",
    ];
    assert_eq!(rows[..expected.len()], expected);
}

#[test]
fn the_database_says_the_same() {
    let recording = Recording::new(addition);
    recording.export(Format::Csv);
    let (exported, _) = recording.export(Format::Db);
    assert_eq!(exported.problems, Vec::new());
    let path = recording.device_dump("0", DB);
    insight::assert_viewable(&path);
    let mut rows = db_rows(&path, "memscope_dump");
    let access = rows.iter_mut().find(|row| row[1] == "ACCESS").unwrap();
    // There an access goes by the address of its block.
    assert_eq!(access[8], "0x000012c041202400");
    access[8] = "0x000012c041202600".to_owned();
    assert_eq!(rows, csv_rows(&recording.device_dump("0", CSV))[1..]);
}

#[test]
fn what_an_earlier_pass_found_of_a_block_is_in_the_row_of_its_allocation() {
    let mut recording = Recording::new(addition);
    let mut annotations = Annotations::default();
    for found in [Inefficiencies::LATE_DEALLOCATION, Inefficiencies::EARLY_ALLOCATION] {
        annotations.add_inefficiencies(BlockId(1), found);
    }
    recording.annotations = Some(annotations);
    recording.export(Format::Csv);
    let (exported, _) = recording.export(Format::Db);
    assert_eq!(exported.problems, Vec::new());
    let csv = csv_rows(&recording.device_dump("0", CSV));
    let found: Vec<&String> = csv.iter().map(|row| &row[9]).filter(|cell| cell.contains("inefficient")).collect();
    let expected = "{allocation_id:1,addr:0x000012c041202400,size:1536,used:1536,owner:PTA,\
                    inefficient_type:early_allocation,late_deallocation}";
    assert_eq!(found, [expected]);
    let path = recording.device_dump("0", DB);
    insight::assert_viewable(&path);
    assert_eq!(db_rows(&path, "memscope_dump")[0][9], expected);
}

//! Operators and kernels of ATB, and accesses, as rows.
use crate::export::insight;
use crate::export::recording::{Cells, Recording, csv_rows, db_rows};
use memscope_dump::{Brand, DumpEvents, Format};
use memscope_testkit::{AccessMode, Phase, Space, SpoolBuilder, TensorOwner};
use std::fs;

const CSV: &str = "memscope_dump_20251203091122.csv";
const DB: &str = "memscope_dump_20251203091122.db";

/// An operator of one kernel: an input within a block of the driver, an output at the beginning of ATB's own.
fn inference(spool: &mut SpoolBuilder) {
    spool.config("c=20;py=0;cpu=1;npu=ffffffff;level=3;events=15;dump=15;dir=/tmp");
    let lane = spool.lane(32);
    spool.unknown_node(lane, 1, 0, 0x7f01);
    spool.device_alloc(lane, 1, Space::Driver, 0, 0x12c0_4140_0000, 2 << 20, 7, 0);
    spool.heap(lane, 2, Space::Atb, 0, 0x12c0_4141_0000, 4096).region(lane, 3, Space::Atb, 0, 0x12c0_4141_0000, 512);
    spool.operator_start(lane, 4, 1, 0, (0x12c0_4141_0000, 4096), "0_31/0/2_Linear", "Linear", 1);
    let operator = TensorOwner::AtbOperator;
    spool.access(lane, 5, AccessMode::Unknown, operator, 0, (0x12c0_4140_0200, 24), &[2, 6]);
    spool.access(lane, 6, AccessMode::Write, operator, 0, (0x12c0_4141_0000, 8), &[4]);
    spool.kernel(lane, 7, Phase::Start, 0, "0_31/0/2_Linear/0_MatMul/before");
    spool.access(lane, 8, AccessMode::Read, TensorOwner::AtbKernel, 0, (0x9000, 8), &[]);
    spool.kernel(lane, 9, Phase::End, 0, "0_31/0/2_Linear/0_MatMul/after").operator_end(lane, 10, 1);
    spool.operator_start(lane, 11, 2, 0, (0, 0), "", "", 0).operator_end(lane, 12, 2);
    spool.device_free(lane, 13, Space::Atb, 0x12c0_4141_0000, 0).heap_end(lane, 14, Space::Atb, 0x12c0_4141_0000);
    spool.device_free(lane, 15, Space::Driver, 0x12c0_4140_0000, 0);
}

#[test]
fn the_csv_of_an_operator_is_this_text() {
    let recording = Recording::new(inference);
    recording.export(Format::Csv);
    let text = fs::read_to_string(recording.device_dump("0", CSV)).unwrap();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let linear = "\"{path:0_31/0/2_Linear,workspace_ptr:0x000012c041410000,workspace_size:4096}\"";
    let expected = [
        "0,MALLOC,HAL,N/A,1700000000000000001,31,32,0,0x000012c041400000,\"{allocation_id:1,addr:0x000012c041400000,\
         size:2097152,used:2097152,owner:CANN@RUNTIME,page_type:normal,alloc_type:alloc}\",,"
            .to_owned(),
        "1,MALLOC,ATB,N/A,1700000000000000003,31,32,0,0x000012c041410000,\"{allocation_id:2,addr:0x000012c041410000,\
         size:512,used:512,total:4096,owner:ATB}\",,"
            .to_owned(),
        format!("2,OP_LAUNCH,ATB_START,Linear,1700000000000000004,31,32,0,N/A,{linear},,\"[0x7f01]\""),
        "3,ACCESS,UNKNOWN,Linear,1700000000000000005,31,32,0,0x000012c041400200,\"{allocation_id:1,\
         addr:0x000012c041400200,size:24,type:ATB,dtype:ACL_FLOAT16,format:ACL_FORMAT_ND,shape:[2,6]}\",,"
            .to_owned(),
        "4,ACCESS,WRITE,Linear,1700000000000000006,31,32,0,0x000012c041410000,\"{allocation_id:2,\
         addr:0x000012c041410000,size:8,type:ATB,dtype:ACL_FLOAT16,format:ACL_FORMAT_ND,shape:[4]}\",,"
            .to_owned(),
        "5,KERNEL_LAUNCH,KERNEL_START,0_MatMul,1700000000000000007,31,32,0,N/A,\
         \"{path:0_31/0/2_Linear/0_MatMul/before}\",,"
            .to_owned(),
        "6,ACCESS,READ,0_MatMul,1700000000000000008,31,32,0,0x0000000000009000,\"{addr:0x0000000000009000,size:8,\
         type:ATB,dtype:TENSOR_DTYPE_FLOAT16,format:TENSOR_FORMAT_ND,shape:[]}\",,"
            .to_owned(),
        "7,KERNEL_LAUNCH,KERNEL_END,0_MatMul,1700000000000000009,31,32,0,N/A,\
         \"{path:0_31/0/2_Linear/0_MatMul/after}\",,"
            .to_owned(),
        format!("8,OP_LAUNCH,ATB_END,Linear,1700000000000000010,31,32,0,N/A,{linear},,"),
        "9,OP_LAUNCH,ATB_START,N/A,1700000000000000011,31,32,0,N/A,\
         \"{path:N/A,workspace_ptr:0x0000000000000000,workspace_size:0}\",,"
            .to_owned(),
        "10,OP_LAUNCH,ATB_END,N/A,1700000000000000012,31,32,0,N/A,\
         \"{path:N/A,workspace_ptr:0x0000000000000000,workspace_size:0}\",,"
            .to_owned(),
    ];
    assert_eq!(rows[..expected.len()], expected);
    assert_eq!(rows.len(), expected.len() + 2);
}

/// A row of a database as it is in the csv, where accesses go by their own address.
fn with_own_pointer(mut row: Cells) -> Cells {
    if row[1] == "ACCESS" {
        let (_, address) = row[9].split_once("addr:").unwrap();
        row[8] = address.split(',').next().unwrap().to_owned();
    }
    row
}

#[test]
fn in_the_database_an_access_goes_by_the_address_of_its_block() {
    let recording = Recording::new(inference);
    recording.export(Format::Csv);
    let (exported, _) = recording.export(Format::Db);
    assert_eq!(exported.problems, Vec::new());
    let path = recording.device_dump("0", DB);
    insight::assert_viewable(&path);
    let rows = db_rows(&path, "memscope_dump");
    let accesses: Vec<&str> = rows.iter().filter(|row| row[1] == "ACCESS").map(|row| row[8].as_str()).collect();
    assert_eq!(accesses, ["0x000012c041400000", "0x000012c041410000", "0x0000000000009000"]);
    let rows: Vec<Cells> = rows.into_iter().map(with_own_pointer).collect();
    assert_eq!(rows, csv_rows(&recording.device_dump("0", CSV))[1..]);
}

fn events_of(settings: &str, dump: u8) -> Vec<String> {
    let recording = Recording::new(|spool| {
        inference(spool);
        spool.config(settings);
    });
    recording.try_export(Format::Csv, Brand::MsMemScope, DumpEvents::from_bits(dump)).unwrap();
    let rows = csv_rows(&recording.device_dump("0", CSV));
    let mut types: Vec<String> = rows[1..].iter().map(|row| row[2].clone()).collect();
    types.dedup();
    types
}

#[test]
fn only_what_was_asked_for_becomes_rows() {
    assert_eq!(events_of("level=1;dir=/tmp", 15)[2..7], ["ATB_START", "UNKNOWN", "WRITE", "READ", "ATB_END"]);
    assert_eq!(events_of("level=2;dir=/tmp", 7), ["HAL", "ATB", "KERNEL_START", "KERNEL_END", "ATB", "HAL"]);
    assert_eq!(events_of("level=3;dir=/tmp", 3), ["HAL", "ATB", "HAL"]);
    assert_eq!(events_of("level=3;dir=/tmp", 11), ["HAL", "ATB", "UNKNOWN", "WRITE", "READ", "ATB", "HAL"]);
}

//! Launches and executions of kernels, as rows.
use crate::export::insight;
use crate::export::recording::{Recording, csv_rows, db_rows};
use memscope_dump::{Brand, DumpEvents, Format};
use memscope_testkit::{Space, SpoolBuilder, SystemKind, TaskLogLine};
use std::fs;

const CSV: &str = "memscope_dump_20251203091122.csv";
const DB: &str = "memscope_dump_20251203091122.db";

/// Two kernels, one of them of a name that needs quotes, and a launch the runtime said nothing about.
fn two_kernels(spool: &mut SpoolBuilder) {
    let (lane, log) = (spool.lane(32), spool.lane(33));
    spool.device_clock(log, 0, 0, 0, 1_000_000);
    spool.kernel_name(lane, 1, "MatMulV2").kernel_name(lane, 2, "Add,\"f16\"");
    spool.system(lane, 1, SystemKind::SetDevice, 0).device_alloc(lane, 5, Space::Driver, 0, 0x1000, 64, 0, 0);
    spool.launch(lane, 10).task(lane, 12, 0, 3, 9, 1).launch(lane, 20).task(lane, 22, 0, 3, 10, 2).launch(lane, 50);
    let line = |task, end, counter| TaskLogLine { stream: 3, task, unit: 0, end, counter };
    spool.executions(
        log,
        90,
        0,
        true,
        &[line(9, false, 15), line(9, true, 30), line(10, false, 31), line(10, true, 40)],
    );
}

#[test]
fn the_csv_of_kernels_is_this_text() {
    let recording = Recording::new(two_kernels);
    let (exported, _) = recording.export(Format::Csv);
    let expected = r#"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)
0,MALLOC,HAL,N/A,1700000000000000005,31,32,0,0x0000000000001000,"{allocation_id:1,addr:0x0000000000001000,size:64,used:64,owner:CANN@SLOG,page_type:normal,alloc_type:alloc}",,
1,KERNEL_LAUNCH,KERNEL_LAUNCH,MatMulV2,1700000000000000010,31,32,0,N/A,"{streamId:3,taskId:9}",,
2,KERNEL_LAUNCH,KERNEL_EXECUTE_START,MatMulV2,1700000000000000015,31,32,0,N/A,"{streamId:3,taskId:9}",,
3,KERNEL_LAUNCH,KERNEL_LAUNCH,"Add,""f16""",1700000000000000020,31,32,0,N/A,"{streamId:3,taskId:10}",,
4,KERNEL_LAUNCH,KERNEL_EXECUTE_END,MatMulV2,1700000000000000030,31,32,0,N/A,"{streamId:3,taskId:9}",,
5,KERNEL_LAUNCH,KERNEL_EXECUTE_START,"Add,""f16""",1700000000000000031,31,32,0,N/A,"{streamId:3,taskId:10}",,
6,KERNEL_LAUNCH,KERNEL_EXECUTE_END,"Add,""f16""",1700000000000000040,31,32,0,N/A,"{streamId:3,taskId:10}",,
7,KERNEL_LAUNCH,KERNEL_LAUNCH,N/A,1700000000000000050,31,32,0,N/A,,,
"#;
    assert_eq!(fs::read_to_string(recording.device_dump("0", CSV)).unwrap(), expected);
    assert_eq!((exported.rows, exported.outcome.kernels.launches), (8, 3));
}

#[test]
fn a_database_has_the_same_rows_and_the_viewer_takes_it() {
    let recording = Recording::new(two_kernels);
    recording.export(Format::Csv);
    recording.export(Format::Db);
    let db = recording.device_dump("0", DB);
    insight::assert_viewable(&db);
    assert_eq!(db_rows(&db, "memscope_dump"), csv_rows(&recording.device_dump("0", CSV))[1..]);
}

#[test]
fn launches_that_were_not_asked_for_are_no_rows() {
    let recording = Recording::new(two_kernels);
    let wanted = DumpEvents::from_bits(3);
    recording.try_export(Format::Csv, Brand::MsMemScope, wanted).unwrap();
    let rows = csv_rows(&recording.device_dump("0", CSV));
    assert_eq!(rows.iter().map(|row| row[1].as_str()).collect::<Vec<_>>(), ["Event", "MALLOC"]);
}

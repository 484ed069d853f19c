//! Device memory, pools, marks and chosen times, as rows.
use crate::export::insight;
use crate::export::recording::{Cells, Recording, attribute, csv_rows, db_rows};
use memscope_dump::{Brand, DumpEvents, Format, SampledUsage};
use memscope_model::Device;
use memscope_testkit::{HOST_DEVICE, Space, SpoolBuilder, SystemKind};
use std::fs;

const CSV: &str = "memscope_dump_20251203091122.csv";
const DB: &str = "memscope_dump_20251203091122.db";

/// A short training: set up, one step with a block of each pool, out of memory, end.
fn training(spool: &mut SpoolBuilder) {
    spool.config("c=20;py=0;cpu=1;npu=ffffffff;dump=3;dir=/tmp");
    let lane = spool.lane(32);
    spool.unknown_node(lane, 1, 0, 0x7f01);
    spool.system(lane, 1, SystemKind::AclInit, 0).system(lane, 2, SystemKind::SetDevice, 0);
    spool.device_alloc(lane, 3, Space::Driver, 0, 0x12c0_4140_0000, 2 << 20, 7 | 1 << 8, 1);
    spool.device_alloc(lane, 4, Space::DriverHandle, 0, 0x77, 20 << 20, 33, 0);
    spool.device_alloc(lane, 5, Space::Registered, HOST_DEVICE, 0x7f00_0000_0000, 4096, 0, 0);
    spool.range_start(lane, 6, 1, "step start");
    spool.pool_total(lane, 7, Space::PtaCaching, 0, 20 << 20);
    spool.region(lane, 8, Space::PtaCaching, 0, 0x12c0_4140_0200, 1536);
    spool.region(lane, 9, Space::PtaWorkspace, 0, 0x12c0_4150_0000, 1 << 20);
    spool.region(lane, 10, Space::MindSpore, 0, 0x12c0_4160_0000, 512);
    spool.pool_total(lane, 11, Space::MindSpore, 0, 1 << 30).region(lane, 12, Space::Atb, 0, 0x12c0_4170_0000, 64);
    spool.mark(lane, 13, "loss \"0.5\", ok").device_free(lane, 14, Space::PtaCaching, 0x12c0_4140_0200, 0);
    spool.range_end(lane, 15, 1).system(lane, 16, SystemKind::Step, 1);
    spool.out_of_memory(lane, 17, Space::Driver, 0, 1 << 40, 0x403, 1);
    spool.device_free(lane, 18, Space::Driver, 0x12c0_4140_0000, 0).system(lane, 19, SystemKind::AclFinalize, 0);
}

#[test]
fn the_csv_of_a_device_is_this_text() {
    let recording = Recording::new(training);
    recording.export(Format::Csv);
    let expected = r#"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)
0,SYSTEM,ACL_INIT,N/A,1700000000000000001,31,32,N/A,N/A,,,
1,MALLOC,HAL,N/A,1700000000000000003,31,32,0,0x000012c041400000,"{allocation_id:1,addr:0x000012c041400000,size:2097152,used:2097152,owner:CANN@RUNTIME,page_type:huge,alloc_type:alloc}",,"[0x7f01]"
2,MALLOC,HAL,N/A,1700000000000000004,31,32,0,0x0000000000000077,"{allocation_id:2,addr:0x0000000000000077,size:20971520,used:23068672,owner:CANN@APP,page_type:normal,alloc_type:create}",,
4,MSTX,Range_start,"step start",1700000000000000006,31,32,0,N/A,,,
5,MALLOC,PTA,N/A,1700000000000000008,31,32,0,0x000012c041400200,"{allocation_id:4,addr:0x000012c041400200,size:1536,used:1536,total:20971520,owner:PTA}",,
6,MALLOC,PTA_WORKSPACE,N/A,1700000000000000009,31,32,0,0x000012c041500000,"{allocation_id:5,addr:0x000012c041500000,size:1048576,used:1048576,owner:PTA_WORKSPACE}",,
7,MALLOC,MINDSPORE,N/A,1700000000000000010,31,32,0,0x000012c041600000,"{allocation_id:6,addr:0x000012c041600000,size:512,used:512,total:1073741824,owner:MINDSPORE}",,
8,MALLOC,ATB,N/A,1700000000000000012,31,32,0,0x000012c041700000,"{allocation_id:7,addr:0x000012c041700000,size:64,used:64,owner:ATB}",,
9,MSTX,Mark,"loss ""0.5"", ok",1700000000000000013,31,32,0,N/A,,,
10,FREE,PTA,N/A,1700000000000000014,31,32,0,0x000012c041400200,"{allocation_id:4,addr:0x000012c041400200,size:1536,used:0,total:20971520}",,
11,MSTX,Range_end,"step start",1700000000000000015,31,32,0,N/A,,,
12,SYSTEM,STEP,1,1700000000000000016,31,32,0,N/A,,,
13,SNAPSHOT,SNAPSHOT,OOM_Snapshot,1700000000000000017,31,32,0,N/A,"{reserved:20971520,max_reserved:20971520,allocated:0,max_allocated:1536,reserved_rate:0.000000}",,"[0x7f01]"
14,OOM_DETAIL,OOM_TRIGGER,OOM_Trigger,1700000000000000018,31,32,0,N/A,"{func:halMemAlloc,req_size:1099511627776,flag:1027}",,"[0x7f01]"
15,FREE,HAL,N/A,1700000000000000019,31,32,0,0x000012c041400000,"{allocation_id:1,addr:0x000012c041400000,size:2097152,used:20971520}",,
16,SYSTEM,ACL_FINI,N/A,1700000000000000020,31,32,N/A,N/A,,,
17,SNAPSHOT,SNAPSHOT,OOM_Snapshot_After,1700000000000000021,31,32,0,N/A,"{reserved:20971520,max_reserved:20971520,allocated:0,max_allocated:1536,reserved_rate:0.000000}",,
"#;
    assert_eq!(fs::read_to_string(recording.device_dump("0", CSV)).unwrap(), expected);
    let host = fs::read_to_string(recording.dump(CSV)).unwrap();
    let rows: Vec<&str> = host.lines().skip(1).collect();
    assert_eq!(
        rows,
        [
            "0,SYSTEM,ACL_INIT,N/A,1700000000000000001,31,32,N/A,N/A,,,",
            "3,MALLOC,HOST,N/A,1700000000000000005,31,32,cpu,0x00007f0000000000,\
             \"{allocation_id:3,addr:0x00007f0000000000,size:4096,pinned:true,used:4096}\",,",
            "16,SYSTEM,ACL_FINI,N/A,1700000000000000020,31,32,N/A,N/A,,,",
        ]
    );
}

#[test]
fn the_database_of_a_device_is_viewable_and_says_the_same() {
    let recording = Recording::new(training);
    recording.export(Format::Csv);
    let (exported, _) = recording.export(Format::Db);
    assert_eq!(exported.problems, Vec::new());
    for device in ["0", "cpu"] {
        let path = recording.device_dump(device, DB);
        insight::assert_viewable(&path);
        let csv = csv_rows(&recording.device_dump(device, CSV));
        assert_eq!(db_rows(&path, "memscope_dump"), csv[1..]);
    }
}

#[test]
fn marks_become_rows_whatever_memory_events_were_asked_for() {
    let recording = Recording::new(training);
    let (exported, seen) = recording.try_export(Format::Csv, Brand::MsMemScope, DumpEvents::NONE).unwrap();
    let rows = csv_rows(&recording.device_dump("0", CSV));
    assert!(rows[1..].iter().all(|row| row[1] != "MALLOC" && row[1] != "FREE"));
    assert_eq!((rows.len() - 1, exported.rows, seen.len()), (9, 9, 9));
}

/// What a refusal says where its lists are asked for: blocks of the refused device alone, with where they were allocated.
#[test]
fn the_newest_and_largest_blocks_of_the_device_follow_a_refusal_if_asked_for() {
    let recording = Recording::new(|spool| {
        spool.config("c=20;cpu=1;npu=ffffffff;dump=3;analysis=8;oomk=2;dir=/tmp");
        let lane = spool.lane(32);
        spool.unknown_node(lane, 1, 0, 0x7f01).unknown_node(lane, 2, 0, 0x7f02).unknown_node(lane, 3, 0, 0x7f03);
        spool.device_alloc(lane, 3, Space::Driver, 0, 0x1000, 30, 0, 1);
        spool.range_start(lane, 4, 1, "step start");
        spool.device_alloc(lane, 5, Space::PtaCaching, 0, 0x2000, 10, 0, 2);
        spool.device_alloc(lane, 6, Space::PtaCaching, 0, 0x3000, 20, 0, 2);
        spool.device_alloc(lane, 7, Space::Driver, 1, 0x4000, 500, 0, 2);
        spool.range_end(lane, 8, 1).out_of_memory(lane, 9, Space::Driver, 0, 1 << 40, 0x403, 3);
        // The books are as they were: no lists again.
        spool.out_of_memory(lane, 10, Space::Driver, 0, 1 << 40, 0x403, 3);
        spool.device_free(lane, 11, Space::PtaCaching, 0x3000, 0).out_of_memory(lane, 12, Space::Driver, 0, 7, 0, 3);
        spool.device_alloc(lane, 13, Space::Driver, 0, 0x5000, 7, 0, 1);
    });
    recording.export(Format::Csv);
    let rows = csv_rows(&recording.device_dump("0", CSV));
    let told: Vec<String> = rows[1..]
        .iter()
        .filter(|row| row[1] == "OOM_DETAIL" || row[1] == "SNAPSHOT")
        .map(|row| match &row[2][..] {
            "SNAPSHOT" => format!("{} {}", row[3], attribute(&row[9], "allocated").unwrap()),
            _ => format!("{} {} {} {}", row[2], row[3], row[9], row[11]),
        })
        .collect();
    let at = |time: u64| 1_700_000_000_000_000_000 + time;
    let [first, second, third] = [
        format!("{{pool:HAL,ptr:0x0000000000001000,size:30,timestamp:{}}} [0x7f01]", at(3)),
        format!("{{pool:PTA,ptr:0x0000000000002000,size:10,timestamp:{},step:1}} [0x7f02]", at(5)),
        format!("{{pool:PTA,ptr:0x0000000000003000,size:20,timestamp:{},step:1}} [0x7f02]", at(6)),
    ];
    let trigger = |size: u64, flag: u64| {
        format!("OOM_TRIGGER OOM_Trigger {{func:halMemAlloc,req_size:{size},flag:{flag}}} [0x7f03]")
    };
    let newest = |block: &str| format!("OOM_RECENT_ALLOC OOM_RecentAlloc {block}");
    let largest = |block: &str| format!("OOM_TOP_ALLOC OOM_TopAlloc {block}");
    assert_eq!(
        told,
        [
            "OOM_Snapshot 30".to_owned(),
            trigger(1 << 40, 0x403),
            newest(&third),
            newest(&second),
            largest(&first),
            largest(&third),
            "OOM_Snapshot 30".to_owned(),
            trigger(1 << 40, 0x403),
            "OOM_Snapshot 10".to_owned(),
            trigger(7, 0),
            newest(&second),
            newest(&first),
            largest(&first),
            largest(&second),
            "OOM_Snapshot_After 10".to_owned(),
        ]
    );
}

fn brief(rows: &[Cells]) -> Vec<String> {
    let shadow = |row: &Cells| attribute(&row[9], "shadow").map_or("", |_| " shadow");
    rows[1..].iter().map(|row| format!("{} {} {}{}", row[1], row[2], &row[4][16..], shadow(row))).collect()
}

#[test]
fn deferred_tracing_begins_with_what_is_alive_and_ends_what_it_told() {
    let recording = Recording::new(|spool| {
        spool.config("mode=1;dir=/tmp");
        let lane = spool.lane(32);
        let caching = Space::PtaCaching;
        spool.region(lane, 10, caching, 0, 0x100, 1).region(lane, 11, caching, 0, 0x200, 2);
        spool.device_free(lane, 12, caching, 0x100, 0).mark(lane, 13, "before");
        spool.system(lane, 20, SystemKind::StartTrace, 0).region(lane, 21, caching, 0, 0x300, 3);
        spool.system(lane, 30, SystemKind::StopTrace, 0).device_free(lane, 31, caching, 0x200, 0);
        spool.region(lane, 32, caching, 0, 0x400, 4);
    });
    recording.export(Format::Csv);
    let expected = [
        "SYSTEM START_TRACE 020",
        "MALLOC PTA 021 shadow",
        "MALLOC PTA 022",
        "SYSTEM STOP_TRACE 030",
        "FREE PTA 031 shadow",
    ];
    assert_eq!(brief(&csv_rows(&recording.device_dump("0", CSV))), expected);
    let (_, seen) = recording.export(Format::Db);
    insight::assert_viewable(&recording.device_dump("0", DB));
    assert_eq!(seen.len(), 6, "whoever sums up is given all, once");
}

#[test]
fn rows_of_chosen_steps_only() {
    let recording = Recording::new(|spool| {
        spool.config("mode=0;steps=2;dir=/tmp");
        let lane = spool.lane(32);
        for step in 1..4u64 {
            spool.range_start(lane, step * 100, step, "step start");
            spool.region(lane, step * 100 + 1, Space::Atb, 3, step << 8, 10).range_end(lane, step * 100 + 2, step);
        }
    });
    recording.export(Format::Csv);
    let rows = csv_rows(&recording.device_dump("3", CSV));
    assert_eq!(brief(&rows), ["MSTX Range_start 200", "MALLOC ATB 201", "MSTX Range_end 202"]);
}

#[test]
fn a_device_not_asked_for_has_no_file() {
    let recording = Recording::new(|spool| {
        spool.config("cpu=0;npu=2;dir=/tmp");
        let lane = spool.lane(32);
        for device in 0..3 {
            spool.region(lane, 1 + u64::from(device), Space::Atb, device, 0x100, 10);
            spool.device_free(lane, 10, Space::Atb, 0x100, 0);
        }
        spool.alloc(lane, 20, 0x10, 5, 0);
    });
    recording.export(Format::Csv);
    assert!(recording.device_dump("1", CSV).exists());
    for device in ["0", "2", "cpu"] {
        assert!(!recording.directory.join(format!("device_{device}")).exists());
    }
}

#[test]
fn each_of_32_devices_has_books_and_a_file_of_its_own() {
    let record = |devices: &'static str| {
        Recording::new(move |spool| {
            spool.config(devices);
            let lane = spool.lane(32);
            for device in 0..32 {
                let size = 1000 + u64::from(device);
                spool.device_alloc(lane, 1, Space::Driver, device, 0x1000 * size, size, 0, 0);
                spool.pool_total(lane, 2, Space::PtaCaching, device, 4 * size);
                spool.region(lane, 3, Space::PtaCaching, device, 0x1000 * size, size / 2);
            }
        })
    };
    let all = record("cpu=0;npu=ffffffff;dir=/tmp");
    all.export(Format::Csv);
    for device in 0..32u64 {
        let rows = csv_rows(&all.device_dump(&device.to_string(), CSV));
        let size = 1000 + device;
        // The first row is the header.
        let number = |row: usize, key| attribute(&rows[row][9], key).and_then(|text| text.parse::<u64>().ok());
        assert_eq!((number(1, "size"), number(1, "used")), (Some(size), Some(size)), "device {device}");
        assert_eq!((number(2, "used"), number(2, "total")), (Some(size / 2), Some(4 * size)), "device {device}");
    }
    let two = record("cpu=0;npu=80000004;dir=/tmp");
    two.export(Format::Csv);
    let exists = |device: u32| two.directory.join(format!("device_{device}")).exists();
    assert_eq!((0..32).filter(|device| exists(*device)).collect::<Vec<_>>(), [2, 31]);
}

#[test]
fn a_pinned_block_at_the_address_of_its_heap_block_does_not_disturb_the_viewer() {
    let recording = Recording::new(|spool| {
        let lane = spool.lane(32);
        spool.alloc(lane, 1, 0x5000, 100, 0);
        spool.device_alloc(lane, 2, Space::Registered, HOST_DEVICE, 0x5000, 100, 0, 0);
        spool.device_free(lane, 3, Space::Registered, 0x5000, 0).free(lane, 4, 0x5000, 0);
    });
    recording.export(Format::Db);
    insight::assert_viewable(&recording.dump(DB));
    assert_eq!(db_rows(&recording.dump(DB), "memscope_unpaired").len(), 2);
}

#[test]
fn sampled_usage_stands_behind_the_books_in_rows_of_device_memory_only() {
    let mut recording = Recording::new(training);
    // Samples begin between the first two rows of device memory; the process is not listed until later.
    recording.usage = Some(Box::new(|device, time| {
        let after = |nanosecond: u8| time.0 >= 1_700_000_000_000_000_000 + u64::from(nanosecond);
        match device {
            Device::Npu(0) => SampledUsage {
                process_used: after(8).then_some(5000),
                device_used: after(4).then_some(7 << 20),
                device_total: Some(16 << 20),
            },
            Device::Cpu => SampledUsage { process_used: Some(4321), ..SampledUsage::default() },
            other => panic!("{other}"),
        }
    }));
    recording.export(Format::Csv);
    let rows = csv_rows(&recording.device_dump("0", CSV));
    let attributes = |id: &str| rows.iter().find(|row| row[0] == id).map(|row| row[9].clone()).unwrap();
    assert!(attributes("1").contains("used:2097152,owner:"), "{}", attributes("1"));
    assert!(attributes("2").contains("used:23068672,device_used:7340032,owner:"), "{}", attributes("2"));
    let both = "process_used:5000,device_used:7340032";
    assert!(attributes("5").contains(&format!("total:20971520,{both},owner:PTA")), "{}", attributes("5"));
    assert!(attributes("15").contains(&format!("used:20971520,{both}}}")), "{}", attributes("15"));
    let snapshot = "reserved:20971520,max_reserved:20971520,allocated:0,max_allocated:1536,total:16777216,free:9437184,\
                    device_rate:43.750000,reserved_rate:0.000000";
    assert_eq!(attributes("13"), format!("{{{snapshot}}}"));
    let with_usage = rows.iter().filter(|row| row[9].contains("device_used")).count();
    let of_memory = rows.iter().filter(|row| row[1] == "MALLOC" || row[1] == "FREE").count();
    assert_eq!(with_usage, of_memory - 1);
    let host_rows = csv_rows(&recording.dump(CSV));
    let pinned = host_rows.iter().filter(|row| row[9].contains("pinned:true"));
    assert!(pinned.clone().count() > 0 && pinned.clone().all(|row| row[9].contains("process_used:4321")));
    assert_eq!(host_rows.iter().filter(|row| row[9].contains("process_used")).count(), pinned.count());
    assert!(host_rows.iter().all(|row| !row[9].contains("device_used")));
    recording.export(Format::Db);
    let rows = db_rows(&recording.device_dump("0", DB), "memscope_dump");
    assert!(rows.iter().any(|row| row[9].contains(both)));
}

#[test]
fn where_tracing_begins_each_file_says_how_much_of_its_own_device_is_free() {
    let mut recording = Recording::new(|spool| {
        spool.config("c=0;py=0;cpu=1;npu=ffffffff;dump=3;mode=1;dir=/tmp");
        let lane = spool.lane(32);
        spool.device_alloc(lane, 1, Space::Driver, 1, 0x1000, 4096, 0, 0).alloc(lane, 2, 0x5000, 100, 0);
        spool.system(lane, 3, SystemKind::StartTrace, 0);
        spool.device_alloc(lane, 4, Space::Driver, 2, 0x2000, 4096, 0, 0);
        spool.device_alloc(lane, 5, Space::Driver, 3, 0x3000, 4096, 0, 0);
    });
    recording.usage = Some(Box::new(|device, _| match device {
        Device::Npu(3) => SampledUsage { device_used: Some(1), ..SampledUsage::default() },
        Device::Npu(number) => SampledUsage {
            device_used: Some(u64::from(number) * 10),
            device_total: Some(100),
            ..SampledUsage::default()
        },
        _ => SampledUsage::default(),
    }));
    recording.export(Format::Csv);
    let begins = |device: &str| {
        let rows = csv_rows(&recording.device_dump(device, CSV));
        rows.iter().find(|row| row[2] == "START_TRACE").map(|row| row[9].clone()).unwrap()
    };
    assert_eq!(["1", "2", "3", "cpu"].map(begins), ["{free:90,total:100}", "{free:80,total:100}", "", ""]);
}

#[test]
fn a_snapshot_the_program_asks_for_has_its_name_also_outside_the_traced_time() {
    let recording = Recording::new(|spool| {
        spool.config("c=0;py=0;cpu=0;npu=ffffffff;dump=3;mode=1;dir=/tmp");
        let lane = spool.lane(32);
        spool.region(lane, 1, Space::PtaCaching, 0, 0x1000, 300).pool_total(lane, 2, Space::PtaCaching, 0, 400);
        spool.snapshot(lane, 3, 0, "load, weights");
    });
    recording.export(Format::Csv);
    let rows = csv_rows(&recording.device_dump("0", CSV));
    let attributes = "{reserved:400,max_reserved:400,allocated:300,max_allocated:300,reserved_rate:75.000000}";
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1][1..4], ["SNAPSHOT", "SNAPSHOT", "load, weights"]);
    assert_eq!((rows[1][7].as_str(), rows[1][9].as_str()), ("0", attributes));
}

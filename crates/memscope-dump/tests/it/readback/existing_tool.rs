//! Files of the existing tool, written by hand from what is known of them.
use crate::readback::summary::summary;
use memscope_dump::{open, sources};
use memscope_model::{Action, BlockEvent, Device, Origin, Outcome, Pool, State, TraceEvent, TraceSource};
use rusqlite::Connection;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HEADER: &str =
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)";

/// A block is written when it ends, with all its accesses; rows of no device come last, in every file.
const OF_DEVICE: &str = r#"4,MALLOC,PTA,N/A,1764753084000000400,31,35,0,0x000012c041202400,"{allocation_id:2,addr:0x000012c041202400,size:1536,used:1536,total:20971520,owner:PTA@weight@ops,inefficient_type:early_allocation,late_deallocation}","train.py(10): step
<frozen runpy>(88): _run_code","libtorch_npu.so(+0x1) [0x7f01]"
6,ACCESS,WRITE,torch._ops.aten.add.Tensor,1764753084000000600,31,35,0,0x000012c041202400,"{allocation_id:2,addr:0x000012c041202400,size:24,type:PTA,dtype:torch.float32,shape:torch.Size([2, 3])}",,
9,FREE,PTA,N/A,1764753084000000900,31,35,0,0x000012c041202400,"{allocation_id:2,addr:0x000012c041202400,size:1536,used:0,total:20971520}","NA",
3,MSTX,Range_start,"step start",1764753084000000300,31,35,0,N/A,,,
5,MSTX,Mark,"loss "0.5", ok",1764753084000000500,31,35,0,N/A,,,
10,MSTX,Range_end,"Range end from id 1",1764753084000001000,31,35,0,N/A,,,
7,KERNEL_LAUNCH,KERNEL_LAUNCH,MatMulV2,1764753084000000700,31,35,0,N/A,"{streamId:3,taskId:9}",,
8,OP_LAUNCH,ATEN_START,torch._ops.aten.add.Tensor,1764753084000000800,31,35,0,N/A,,,
1,MALLOC,HAL,N/A,1764753084000000100,31,31,0,0x000012c041400000,"{allocation_id:1,addr:0x000012c041400000,size:2097152,used:2097152,process_used:210763776,device_used:3221225472,owner:CANN@RUNTIME,page_type:huge,alloc_type:alloc}",,
13,FREE,HAL,N/A,1764753084000001300,31,31,0,0x000012c041400000,"{allocation_id:1,addr:0x000012c041400000,size:2097152,shadow:true}",,
11,MALLOC,PTA,N/A,1764753084000001100,31,35,0,0x000012c041500000,"{allocation_id:4,addr:0x000012c041500000,size:512,used:512,total:20971520,owner:PTA_WORKSPACE}",,
12,SNAPSHOT,SNAPSHOT,OOM_Snapshot,1764753084000001200,31,31,0,N/A,"{reserved:1,max_reserved:2,allocated:3,max_allocated:4,total:10,free:5,device_rate:50.000000,reserved_rate:100.000000}",,
15,OOM_DETAIL,OOM_TOP_ALLOC,OOM_TopAlloc,1764753084000001250,31,31,0,N/A,"{pool:PTA,ptr:0x000012c041500000,size:512,timestamp:1}",,
16,OOM_DETAIL,OOM_ELSE,OOM_Else,1764753084000001260,31,31,0,N/A,"{pool:PTA}",,
0,SYSTEM,ACL_INIT,N/A,1764753084000000000,31,31,N/A,N/A,,,
14,SYSTEM,STOP_TRACE,N/A,1764753084000001400,31,31,N/A,N/A,,,
"#;

const OF_HOST: &str = r#"2,MALLOC,HOST,N/A,1764753084000000200,31,31,cpu,0x00007f0000000000,"{allocation_id:3,addr:0x00007f0000000000,size:4096,pinned:true,used:4096,process_used:1}",,
0,SYSTEM,ACL_INIT,N/A,1764753084000000000,31,31,N/A,N/A,,,
14,SYSTEM,STOP_TRACE,N/A,1764753084000001400,31,31,N/A,N/A,,,
"#;

struct Output {
    _root: TempDir,
    directory: PathBuf,
}

/// A process directory of today's generation.
fn output(files: &[(&str, &str)]) -> Output {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("msmemscope_31_20251203091122_ascend");
    for (device, rows) in files {
        let dump = directory.join(format!("device_{device}/dump"));
        fs::create_dir_all(&dump).unwrap();
        fs::write(dump.join("memscope_dump_20251203091122.csv"), format!("{HEADER}\n{rows}")).unwrap();
    }
    Output { _root: root, directory }
}

fn memory(source: &mut dyn TraceSource) -> (Vec<BlockEvent>, Outcome) {
    let mut events = Vec::new();
    let mut keep = |event: &TraceEvent<'_>, _: &State<'_>| {
        if let TraceEvent::Memory(event) = event {
            events.push(**event);
        }
        ControlFlow::Continue(())
    };
    let outcome = source.run(&mut [&mut keep], &mut |_| {}).unwrap();
    (events, outcome)
}

fn assert_is_the_run(source: &mut dyn TraceSource) {
    assert_eq!(source.info().pid, 31);
    let (seen, outcome) = summary(source);
    assert_eq!(outcome.damage, []);
    let told: Vec<String> = seen.events.iter().map(|event| event.replace("1764753084000", "")).collect();
    let expected = [
        "0 000000 N/A thread 31 step StepId(0) AclInit stack ([], [])",
        "1 000100 Malloc block 1 0 HAL Driver(DriverTraits { module: 7, page: Huge }) at 0x12c041400000 size 2097152 \
         owner Some(\"CANN@RUNTIME\") thread 31 step StepId(0) stack ([], []) used 2097152 reserved None matched true \
         synthetic false",
        "2 000200 Malloc block 3 cpu HOST pinned Registered at 0x7f0000000000 size 4096 owner None thread 31 step \
         StepId(0) stack ([], []) used 4096 reserved None matched true synthetic false",
        "3 000300 0 thread 35 step StepId(1) range \"step start\" stack ([], [])",
        "4 000400 Malloc block 2 0 PTA Region at 0x12c041202400 size 1536 owner Some(\"PTA@weight@ops\") thread 35 step \
         StepId(1) stack ([\"train.py(10): step\", \"<frozen runpy>(88): _run_code\"], \
         [\"libtorch_npu.so(+0x1) [0x7f01]\"]) used 1536 reserved Some(20971520) matched true synthetic false",
        "5 000500 0 thread 35 step StepId(1) Mark(\"loss \\\"0.5\\\", ok\") stack ([], [])",
        "6 000600 0 thread 35 step StepId(1) Access(Access { mode: Write, owner: Aten, name: \
         Some(\"torch._ops.aten.add.Tensor\"), address: DevAddr(20616935646208), size: 24, block: Some(AccessedBlock { block: \
         BlockId(2), address: DevAddr(20616935646208), device: Npu(0) }), dtype: 6, format: -1, dimensions: [2, 3] }) by \
         Some(\"torch._ops.aten.add.Tensor\") stack ([], [])",
        "7 000700 0 thread 35 step StepId(1) Kernel { phase: Launch, name: Some(\"MatMulV2\"), stream: Some(3), task: \
         Some(9) } stack ([], [])",
        "8 000800 0 thread 35 step StepId(1) AtenOperator { phase: Start, name: Some(\"torch._ops.aten.add.Tensor\"), stream: None } stack \
         ([], [])",
        "9 000900 Free block 2 0 PTA Region at 0x12c041202400 size 1536 owner Some(\"PTA@weight@ops\") thread 35 step \
         StepId(1) stack ([], []) used 0 reserved Some(20971520) matched true synthetic false",
        "10 001000 0 thread 35 step StepId(1) end of range Some(\"step start\") stack ([], [])",
        "11 001100 Malloc block 4 0 PTA_WORKSPACE Region at 0x12c041500000 size 512 owner Some(\"PTA_WORKSPACE\") thread \
         35 step StepId(0) stack ([], []) used 512 reserved Some(20971520) matched true synthetic false",
        "12 001200 0 thread 31 step StepId(0) Snapshot { name: \"OOM_Snapshot\", memory: SnapshotMemory { reserved: 1, \
         max_reserved: 2, allocated: 3, max_allocated: 4, of_device: None } } stack ([], [])",
        "13 001250 0 thread 31 step StepId(0) LiveAtRefusal { list: Largest, pool: PtaCaching, address: 20616938782720, size: \
         512, made: TimestampNs(1), step: None } stack ([], [])",
        "14 001300 Free block 1 0 HAL Driver(DriverTraits { module: 7, page: Huge }) at 0x12c041400000 size 2097152 owner \
         Some(\"CANN@RUNTIME\") thread 31 step StepId(0) stack ([], []) used 0 reserved None matched true synthetic true",
        "15 001400 N/A thread 31 step StepId(0) StopTrace stack ([], [])",
    ];
    for (told, expected) in told.iter().zip(expected) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.len(), expected.len());
    // A kind of event this version does not have.
    assert_eq!(outcome.unknown_records, 1);
}

#[test]
fn csv_files_of_a_process_are_one_trace_in_the_order_of_time() {
    let output = output(&[("0", OF_DEVICE), ("cpu", OF_HOST)]);
    assert_is_the_run(&mut *open(&output.directory).unwrap());
    // An analysis of the existing tool writes the file anew, with other line ends.
    let path = output.directory.join("device_0/dump/memscope_dump_20251203091122.csv");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = String::new();
    let mut quoted = false;
    for line in text.split_inclusive('\n') {
        quoted ^= line.matches('"').count() % 2 == 1;
        lines.push_str(&if quoted { line.to_owned() } else { line.replace('\n', "\r\n") });
    }
    fs::write(path, format!("\u{feff}{lines}")).unwrap();
    assert_is_the_run(&mut *open(&output.directory).unwrap());
}

/// As the existing tool turns a csv row into one of a database: all attributes are strings, quotes stay.
fn to_database(path: &Path, table: &str, csv: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    let columns: Vec<String> = HEADER.split(',').map(|column| format!("\"{column}\"")).collect();
    connection.execute(&format!("CREATE TABLE {table} ({})", columns.join(",")), ()).unwrap();
    let header = format!("{HEADER}\n");
    // The quotes of this mark are for the test of csv files.
    let rows = (header + csv).replace("\"loss \"0.5\", ok\"", "\"loss \"\"0.5\"\", ok\"");
    for record in csv::Reader::from_reader(rows.as_bytes()).records() {
        let record = record.unwrap();
        let mut cells: Vec<String> = record.iter().map(str::to_owned).collect();
        cells[9] = json(&cells[9]);
        for quoted in [10, 11] {
            if !cells[quoted].is_empty() {
                cells[quoted] = format!("\"{}\"", cells[quoted]);
            }
        }
        if cells[1] == "MSTX" {
            cells[3] = format!("\"{}\"", cells[3]);
        }
        let places: Vec<String> = (1..=12).map(|place| format!("?{place}")).collect();
        let insert = format!("INSERT INTO {table} VALUES ({})", places.join(","));
        connection.execute(&insert, rusqlite::params_from_iter(cells)).unwrap();
    }
}

/// Keys end at a colon, values at the last comma before the next one.
fn json(attributes: &str) -> String {
    let Some(inside) = attributes.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return "{}".to_owned();
    };
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let mut rest = inside;
    while let Some((key, behind)) = rest.split_once(':') {
        let end = match behind.find(':') {
            Some(colon) => behind[..colon].rfind(',').unwrap(),
            None => behind.len(),
        };
        pairs.push((key, &behind[..end]));
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
    format!("{{{}}}", pairs.join(","))
}

#[test]
fn databases_of_both_names_say_the_same_as_csv_files() {
    for (brand, table) in [("msmemscope", "memscope_dump"), ("msleaks", "leaks_dump")] {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join(format!("{brand}_31_20251203091122_ascend"));
        for (device, rows) in [("0", OF_DEVICE), ("cpu", OF_HOST)] {
            let dump = directory.join(format!("device_{device}/dump"));
            fs::create_dir_all(&dump).unwrap();
            to_database(&dump.join(format!("{table}_20251203091122.db")), table, rows);
        }
        assert_is_the_run(&mut *open(&directory).unwrap());
        // Reading leaves nothing behind.
        let dump = directory.join("device_0/dump");
        assert_eq!(fs::read_dir(dump).unwrap().count(), 1);
    }
}

#[test]
fn a_database_that_is_still_written_to_is_read_with_its_journal() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("memscope_dump_1.db");
    to_database(&path, "memscope_dump", OF_HOST);
    let writer = Connection::open(&path).unwrap();
    writer.execute("INSERT INTO memscope_dump SELECT * FROM memscope_dump WHERE \"Event\" = 'MALLOC'", ()).unwrap();
    assert!(root.path().join("memscope_dump_1.db-wal").metadata().unwrap().len() > 0);
    let (events, _) = memory(&mut *open(&path).unwrap());
    // The same number twice: the second ends the first.
    assert_eq!(
        events.iter().map(|event| event.action).collect::<Vec<_>>(),
        [Action::Malloc, Action::Free, Action::Malloc]
    );
    drop(writer);
}

#[test]
fn the_first_generation_has_columns_of_its_own_and_blocks_without_numbers() {
    let root = tempfile::tempdir().unwrap();
    let dump = root.path().join("leaksDumpResults/dump");
    fs::create_dir_all(&dump).unwrap();
    let rows = "\
Record Index,Timestamp(us),Event,Event Type,Process Id,Thread Id,Device Id,Kernel Index,Flag,Addr,Size(byte),Total Allocated(byte),Total Reserved(byte)
1,1000,MALLOC,PTA,7,7,0,0,0,20616577024,512,512,2097152
2,1000,MALLOC,HAL,7,7,host,0,0,140000000,64,N/A,N/A
3,1001,MALLOC,PTA,8,9,1,0,0,20616577024,100,100,2097152
4,1002,FREE,PTA,7,7,0,0,0,20616577024,512,0,2097152
5,1003,MALLOC,PTA,7,7,0,0,0,20616577024,256,256,2097152
6,1004,MALLOC,PTA,7,7,0,0,0,20616577024,128,384,2097152
";
    fs::write(dump.join("leaks_dump_20250210120000.csv"), rows).unwrap();
    let mut found = sources(root.path()).unwrap().found;
    assert_eq!(found.iter().map(|source| source.trace.info().pid).collect::<Vec<_>>(), [7, 8]);
    let (events, outcome) = memory(&mut *found[0].trace);
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.at.time.0, event.action, event.block.size, event.used, event.reserved, event.synthetic))
        .collect();
    let (malloc, free, reserved) = (Action::Malloc, Action::Free, Some(2_097_152));
    assert_eq!(
        told,
        [
            (1_000_000, malloc, 512, 512, reserved, false),
            (1_000_000, malloc, 64, 64, None, false),
            (1_002_000, free, 512, 0, reserved, false),
            (1_003_000, malloc, 256, 256, reserved, false),
            // Nobody saw the free.
            (1_004_000, free, 256, 0, reserved, true),
            (1_004_000, malloc, 128, 128, reserved, false),
        ]
    );
    assert_eq!((events[1].block.device, events[1].block.pool), (Device::Cpu, Pool::Pinned));
    assert_eq!((outcome.replaced_blocks, outcome.damage.len()), (1, 0));
    let (of_other, _) = memory(&mut *found[1].trace);
    assert_eq!((of_other.len(), of_other[0].block.device), (1, Device::Npu(1)));
}

#[test]
fn the_second_generation_has_other_words_and_attributes() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("leaks_dump_20250410120000.csv");
    let header = "ID,Event,Event Type,Name,Timestamp(us),Process Id,Thread Id,Device Id,Ptr,Attr";
    let rows = "\
1,SYSTEM,acl init,N/A,1000,7,7,N/A,N/A,
2,MALLOC,HAL,N/A,1001,7,7,0,20616577024,\"{addr:20616577024,size:1024,owner:CANN@HCCL@mine,MID:3}\"
3,MALLOC,PTA_WORKSPACE,N/A,1002,7,7,0,20626577024,\"{addr:20626577024,size:10,owner:,total:100,used:10}\"
4,FREE,HAL,N/A,1003,7,7,0,20616577024,\"{addr:20616577024,size:1024}\"
";
    fs::write(&path, format!("{header}\n{rows}")).unwrap();
    let (events, outcome) = memory(&mut *open(&path).unwrap());
    let told: Vec<_> =
        events.iter().map(|event| (event.action, event.block.id.0, event.block.pool, event.used)).collect();
    let (malloc, free) = (Action::Malloc, Action::Free);
    assert_eq!(told, [(malloc, 1, Pool::Hal, 1024), (malloc, 2, Pool::PtaWorkspace, 10), (free, 1, Pool::Hal, 0)]);
    assert!(matches!(events[0].block.origin, Origin::Driver(traits) if traits.module == 3));
    assert_eq!(events[1].reserved, Some(100));
    assert_eq!((outcome.notes, outcome.first_time.0, outcome.damage.len()), (1, 1_000_000, 0));
}

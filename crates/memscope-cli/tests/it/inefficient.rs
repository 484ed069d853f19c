//! `analyze … inefficient`, on recordings made to order and the files made of them.
use memscope_testkit::{AccessMode, LaneNumber, Space, SpoolBuilder};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;
const PROCESS: &str = "msmemscope_31_20251203091122_ascend";

/// Writes a program's doings one after the other.
struct Script<'s> {
    spool: &'s mut SpoolBuilder,
    lane: LaneNumber,
    ticks: u64,
    operators: u64,
}

impl Script<'_> {
    fn tick(&mut self) -> u64 {
        self.ticks += 1000;
        self.ticks
    }

    /// An operator, by the number of its name, with what it does.
    fn operator(&mut self, name: u32, inside: impl FnOnce(&mut Self)) {
        self.operators += 1;
        let (sequence, ticks) = (self.operators, self.tick());
        self.spool.aten_start(self.lane, ticks, sequence, 0, name, 0);
        inside(self);
        let ticks = self.tick();
        self.spool.aten_end(self.lane, ticks, sequence);
    }

    fn malloc(&mut self, block: u64, mib: u64, node: u32) {
        let ticks = self.tick();
        self.spool.device_alloc(self.lane, ticks, Space::PtaCaching, 0, block << 32, mib * MIB, 0, node);
    }

    fn free(&mut self, block: u64) {
        let ticks = self.tick();
        self.spool.device_free(self.lane, ticks, Space::PtaCaching, block << 32, 0);
    }

    fn access(&mut self, block: u64, name: u32) {
        let ticks = self.tick();
        let address = block << 32;
        self.spool.aten_access(self.lane, ticks, AccessMode::Read, name, 0, (address + 64, 4), address, &[1]);
    }
}

/// Block 2 of four is allocated early, freed late, and idle between, while five operators pass. It is late when block 4 makes
/// the peak.
fn training(spool: &mut SpoolBuilder, analysis: u8) {
    spool.config(&format!("c=0;py=20;cpu=0;npu=ffffffff;level=3;events=15;dump=15;analysis={analysis};dir=/tmp"));
    let lane = spool.lane(31);
    spool.code(lane, 0, "/me/train.py", "weights", 7).code(lane, 1, "/me/train.py", "step", 40);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 0, 1, 0);
    spool.aten_name(lane, 0, "aten::empty").aten_name(lane, 1, "aten::add").aten_name(lane, 2, "aten::relu");
    let (ticks, operators) = (1_000_000, 0);
    let mut script = Script { spool, lane, ticks, operators };
    script.malloc(1, 1, 1);
    script.operator(0, |script| script.malloc(2, 4, 2));
    script.operator(1, |script| script.access(1, 1));
    script.free(1);
    script.operator(2, |script| script.malloc(3, 2, 1));
    script.operator(1, |script| script.access(2, 1));
    for _ in 0..5 {
        script.operator(2, |_| {});
    }
    script.operator(1, |script| script.access(2, 1));
    script.operator(0, |script| script.malloc(4, 1, 1));
    script.free(2);
}

fn recorded(build: impl FnOnce(&mut SpoolBuilder)) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    spool.process(31, 1).command("/usr/bin/python3", "python3 train.py");
    build(&mut spool);
    spool.write(&root.path().join(PROCESS)).unwrap();
    root
}

fn run(words: &[&str], path: &Path) -> Output {
    let (command, options) = words.split_first().unwrap();
    Command::new(env!("CARGO_BIN_EXE_msmemscope")).arg(command).arg(path).args(options).output().unwrap()
}

fn told(words: &[&str], path: &Path) -> String {
    let output = run(words, path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn report(path: &Path, options: &[&str]) -> Value {
    let words = [&["analyze", "inefficient", "--json"], options].concat();
    let mut document: Value = serde_json::from_str(&told(&words, path)).unwrap();
    assert_eq!(document["schema"], 1);
    document["processes"][0]["inefficient"].take()
}

/// The file of device 0 that an export makes.
fn exported(root: &Path, format: &str) -> PathBuf {
    let output = run(&["export", &format!("--data-format={format}")], root);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    root.join(PROCESS).join("device_0/dump").join(format!("memscope_dump_20251203091122.{format}"))
}

/// Status and message of a mistake.
fn refused(words: &[&str], path: &Path) -> (Option<i32>, String) {
    let output = run(words, path);
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8(output.stderr).unwrap().trim().to_owned())
}

#[test]
fn the_report_says_what_it_cost_where_and_what_of_it_was_there_at_the_peak() {
    let root = recorded(|spool| training(spool, 4));
    let found = report(root.path(), &[]);
    let list = found["inefficient"].as_array().unwrap();
    let brief: Vec<String> = list
        .iter()
        .map(|one| format!("{} {} {} {}", one["type"], one["byte_operators"], one["bytes_at_peak"], one["site"]))
        .collect();
    let site = "\"/me/train.py: step\"";
    assert_eq!(
        brief,
        [
            format!("\"early_allocation\" {} 0 {site}", 2 * 4 * MIB),
            format!("\"late_deallocation\" {} {} {site}", 4 * MIB, 4 * MIB)
        ]
    );
    assert_eq!(list[0]["operator"], "aten::empty");
    assert_eq!((&list[0]["worst"]["from"], &list[0]["worst"]["to"]), (&"aten::empty".into(), &"aten::add".into()));
    assert_eq!((&list[1]["worst"]["to"], &list[1]["worst"]["address"]), (&Value::Null, &"0x200000000".into()));
    assert_eq!((&found["operators"], &found["accesses"]), (&11.into(), &3.into()));
    let pool = &found["pools"][0];
    assert_eq!((&pool["peak_bytes"], &pool["bytes_at_peak"]), (&(7 * MIB).into(), &(4 * MIB).into()));
    let idle = report(root.path(), &["--idle-threshold=4", "--inefficient-type=temporary_idleness"]);
    let list = idle["inefficient"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["byte_operators"]), (1, &(5 * 4 * MIB).into()));
    assert_eq!(report(root.path(), &["--mem-size=5M"])["inefficient"], Value::Array(Vec::new()));
}

#[test]
fn a_person_reads_the_same_and_also_after_a_run() {
    let root = recorded(|spool| training(spool, 4));
    let expected = [
        "inefficient memory: 2 findings in 11 operators and 3 accesses, by bytes × operators:",
        "  npu 0 PTA: of the peak of 7.0 MiB, 4.0 MiB (57.1 %) were held for nothing",
        "  early_allocation npu 0 PTA: 4.0 MiB in 1 block",
        "      /me/train.py: step",
        "      4.0 MiB at 0x200000000 was allocated by aten::empty and first used by aten::add, 2 operators later",
        "  late_deallocation npu 0 PTA: 4.0 MiB in 1 block, 4.0 MiB at the peak",
        "      /me/train.py: step",
        "      4.0 MiB at 0x200000000 was last used by aten::add and freed outside of operators, 1 operator later",
    ];
    let text = told(&["analyze", "inefficient"], root.path());
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
    let info = told(&["info"], root.path());
    for line in expected {
        assert!(info.lines().any(|other| other.trim() == line.trim()), "{line}\n{info}");
    }
    let other = recorded(|spool| training(spool, 1));
    assert!(!told(&["info"], other.path()).contains("inefficient"));
}

#[test]
fn spool_csv_and_database_end_in_the_same_report() {
    let root = recorded(|spool| training(spool, 4));
    let options = ["--idle-threshold=4"];
    let of_spool = report(root.path(), &options);
    for format in ["csv", "db"] {
        assert_eq!(report(&exported(root.path(), format), &options), of_spool, "{format}");
    }
}

#[test]
fn a_run_that_was_asked_for_it_has_it_in_its_rows() {
    let cell = "size:4194304,used:5242880,owner:PTA,inefficient_type:early_allocation,late_deallocation}";
    let root = recorded(|spool| training(spool, 4));
    let text = fs::read_to_string(exported(root.path(), "csv")).unwrap();
    assert_eq!((text.matches("inefficient").count(), text.matches(cell).count()), (1, 1), "{text}");
    // Another one only if its export is.
    let other = recorded(|spool| training(spool, 1));
    let path = exported(other.path(), "csv");
    assert!(!fs::read_to_string(&path).unwrap().contains("inefficient"));
    let output = run(&["export", "--analysis=inefficient"], other.path());
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stderr).contains("inefficient memory: 2 findings")
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn results_are_added_to_a_file_and_earlier_ones_stay() {
    let root = recorded(|spool| training(spool, 1));
    for format in ["csv", "db"] {
        let file = exported(root.path(), format);
        let before = fs::read(&file).unwrap();
        let write = |options: &[&str]| {
            let output = run(&[&["analyze", "inefficient", "--write"], options].concat(), &file);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stderr).unwrap()
        };
        assert!(write(&["--inefficient-type=late_deallocation"]).contains("a row of "));
        assert!(write(&["--idle-threshold=4"]).contains("a row of "));
        assert!(write(&[]).contains("says all of it already"));
        let after = fs::read(&file).unwrap();
        let added = match format {
            "csv" => ",inefficient_type:late_deallocation,early_allocation,temporary_idleness",
            _ => ",\"inefficient_type\":\"late_deallocation,early_allocation,temporary_idleness\"",
        };
        let text = String::from_utf8_lossy(&after);
        assert_eq!(text.matches(added).count(), 1, "{format}");
        if format == "csv" {
            assert_eq!(text.replace(added, "").into_bytes(), before);
        }
        // What it was added to is still the same trace.
        assert_eq!(report(&file, &[]), report(root.path(), &[]));
    }
}

/// As the existing tool writes them: a block when it ends, with all its accesses, then the rest; two threads, one operator
/// inside another. Block 2 is early, because block 1 is freed by thread 36 meanwhile, and an access to a view of it comes
/// after three operators; block 3, at the address of block 1, is used by the operator that allocates it.
const EXISTING_TOOL: &str = r#"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)
1,MALLOC,PTA,N/A,1764753084000000100,31,35,0,0x000012c041200000,"{allocation_id:1,addr:0x000012c041200000,size:512,used:512,total:20971520,owner:PTA@ops}",,
6,FREE,PTA,N/A,1764753084000000600,31,36,0,0x000012c041200000,"{allocation_id:1,addr:0x000012c041200000,size:512,used:1024,total:20971520}",,
8,MALLOC,PTA,N/A,1764753084000000800,31,35,0,0x000012c041200000,"{allocation_id:3,addr:0x000012c041200000,size:256,used:1280,total:20971520,owner:PTA@ops}",,
9,ACCESS,WRITE,torch._ops.aten.addmm.default,1764753084000000900,31,35,0,0x000012c041200000,"{allocation_id:3,addr:0x000012c041200000,size:24,type:PTA,dtype:torch.float32,shape:torch.Size([2, 3])}",,
21,FREE,PTA,N/A,1764753084000002100,31,35,0,0x000012c041200000,"{allocation_id:3,addr:0x000012c041200000,size:256,shadow:true}",,
3,MALLOC,PTA,N/A,1764753084000000300,31,35,0,0x000012c041202400,"{allocation_id:2,addr:0x000012c041202400,size:1024,used:1536,total:20971520,owner:PTA@weight@ops}",,
13,ACCESS,READ,torch._ops.aten.mm.default,1764753084000001300,31,35,0,0x000012c041202440,"{allocation_id:2,addr:0x000012c041202440,size:24,type:PTA,dtype:torch.float32,shape:torch.Size([2, 3])}",,
20,ACCESS,READ,torch._ops.aten.mm.default,1764753084000002000,31,36,0,0x000012c041202400,"{allocation_id:2,addr:0x000012c041202400,size:24,type:PTA,dtype:torch.float32,shape:torch.Size([2, 3])}",,
2,OP_LAUNCH,ATEN_START,torch._ops.aten.empty.memory_format,1764753084000000200,31,35,0,N/A,,,
4,OP_LAUNCH,ATEN_END,torch._ops.aten.empty.memory_format,1764753084000000400,31,35,0,N/A,,,
5,OP_LAUNCH,ATEN_START,torch._ops.aten.linear.default,1764753084000000500,31,35,0,N/A,,,
7,OP_LAUNCH,ATEN_START,torch._ops.aten.addmm.default,1764753084000000700,31,35,0,N/A,,,
10,OP_LAUNCH,ATEN_END,torch._ops.aten.addmm.default,1764753084000001000,31,35,0,N/A,,,
11,OP_LAUNCH,ATEN_END,torch._ops.aten.linear.default,1764753084000001100,31,35,0,N/A,,,
12,OP_LAUNCH,ATEN_START,torch._ops.aten.mm.default,1764753084000001200,31,35,0,N/A,,,
14,OP_LAUNCH,ATEN_END,torch._ops.aten.mm.default,1764753084000001400,31,35,0,N/A,,,
15,OP_LAUNCH,ATEN_START,torch._ops.aten.relu.default,1764753084000001500,31,35,0,N/A,,,
16,OP_LAUNCH,ATEN_START,torch._ops.aten.relu.default,1764753084000001600,31,36,0,N/A,,,
17,OP_LAUNCH,ATEN_END,torch._ops.aten.relu.default,1764753084000001700,31,36,0,N/A,,,
18,OP_LAUNCH,ATEN_END,torch._ops.aten.relu.default,1764753084000001800,31,35,0,N/A,,,
19,OP_LAUNCH,ATEN_START,torch._ops.aten.mm.default,1764753084000001900,31,36,0,N/A,,,
22,OP_LAUNCH,ATEN_END,torch._ops.aten.mm.default,1764753084000002200,31,36,0,N/A,,,
"#;

/// All attributes are strings, and there is no key.
fn to_database(path: &Path, csv: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    let mut lines = csv.lines();
    let columns: Vec<String> = lines.next().unwrap().split(',').map(|name| format!("\"{name}\"")).collect();
    connection.execute(&format!("CREATE TABLE memscope_dump ({})", columns.join(",")), ()).unwrap();
    for line in lines {
        let mut parts = line.split('"');
        let mut cells: Vec<String> = parts.next().unwrap().split(',').map(str::to_owned).collect();
        cells.truncate(9);
        let attributes = parts.next().unwrap_or("{}").trim_matches(['{', '}']).replace("], ", "],");
        let mut pairs: Vec<String> = Vec::new();
        for part in attributes.split(',') {
            match part.split_once(':') {
                Some((key, value)) => pairs.push(format!("\"{key}\":\"{value}\"")),
                // A shape has commas.
                None => {
                    if let Some(last) = pairs.last_mut() {
                        last.insert_str(last.len() - 1, &format!(",{part}"));
                    }
                }
            }
        }
        cells.extend([format!("{{{}}}", pairs.join(",")), String::new(), String::new()]);
        let insert = "INSERT INTO memscope_dump VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)";
        connection.execute(insert, rusqlite::params_from_iter(cells)).unwrap();
    }
}

#[test]
fn files_of_the_existing_tool_are_judged_and_added_to_as_they_are() {
    let root = tempfile::tempdir().unwrap();
    let (csv, db) = (root.path().join("memscope_dump_1.csv"), root.path().join("memscope_dump_1.db"));
    fs::write(&csv, EXISTING_TOOL).unwrap();
    to_database(&db, EXISTING_TOOL);
    for file in [&csv, &db] {
        let found = report(file, &["--idle-threshold=1"]);
        assert_eq!((&found["operators"], &found["accesses"]), (&6.into(), &3.into()));
        let list = found["inefficient"].as_array().unwrap();
        let brief: Vec<(&str, u64, u64, &str)> = list
            .iter()
            .map(|one| {
                let worst = &one["worst"];
                let number = |value: &Value| value.as_u64().unwrap();
                let (block, operators) = (number(&worst["allocation_id"]), number(&worst["operators"]));
                (one["type"].as_str().unwrap(), block, operators, worst["to"].as_str().unwrap())
            })
            .collect();
        let mm = "torch._ops.aten.mm.default";
        assert_eq!(brief, [("temporary_idleness", 2, 2, mm), ("early_allocation", 2, 1, mm)]);
        assert_eq!(list[1]["owner"], "PTA@weight@ops");
        let output = run(&["analyze", "inefficient", "--idle-threshold=1", "--write"], file);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let expected = EXISTING_TOOL
        .replace("owner:PTA@weight@ops}", "owner:PTA@weight@ops,inefficient_type:early_allocation,temporary_idleness}");
    assert_eq!(fs::read_to_string(&csv).unwrap(), expected);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    assert_eq!(report(&csv, &[]), report(&db, &[]));
}

#[test]
fn what_was_to_fail_fails() {
    let root = recorded(|spool| training(spool, 4));
    let status = |options: &[&str]| {
        run(&[&["analyze", "inefficient", "--fail-on=inefficient"], options].concat(), root.path()).status.code()
    };
    assert_eq!((status(&[]), status(&["--mem-size=5M"])), (Some(1), Some(0)));
}

#[test]
fn mistakes_are_told_in_a_line_and_nothing_is_written() {
    let root = recorded(|spool| training(spool, 4));
    let (status, why) = refused(&["analyze", "inefficient", "--write"], root.path());
    assert_eq!(status, Some(2));
    assert!(why.contains("is a directory; name a csv or db file"), "{why}");
    let csv = exported(root.path(), "csv");
    let before = fs::read(&csv).unwrap();
    for (words, expected) in [
        (&["analyze", "--write"][..], "--write adds what inefficient finds"),
        (&["analyze", "leaks", "inefficient", "--write"], "--write adds what inefficient finds"),
        (&["analyze", "inefficient", "--idle-threshold=0"], "out of range"),
        (&["analyze", "inefficient", "--mem-size=-1"], "not a number"),
        (&["analyze", "inefficient", "--inefficient-type=early"], "early_allocation, late_deallocation"),
        (&["top", "--mem-size=1"], "does not belong to 'top'"),
    ] {
        let (status, why) = refused(words, &csv);
        assert_eq!((status, why.lines().count()), (Some(2), 1), "{words:?}: {why}");
        assert!(why.contains(expected), "{words:?}: {why}");
    }
    assert_eq!(fs::read(&csv).unwrap(), before);

    // Without operators, and without accesses.
    let text = String::from_utf8(before).unwrap();
    for (left_out, what) in [("OP_LAUNCH", "no operator is in it"), ("ACCESS", "no access to a block")] {
        let rest: String = text.split_inclusive('\n').filter(|row| !row.contains(&format!(",{left_out},"))).collect();
        fs::write(&csv, &rest).unwrap();
        for words in [&["analyze", "inefficient"][..], &["analyze", "inefficient", "--write"]] {
            let (status, why) = refused(words, &csv);
            assert_eq!((status, why.lines().count()), (Some(2), 1), "{why}");
            assert!(why.contains(what) && why.contains("--analysis=inefficient records what it needs"), "{why}");
        }
        assert_eq!(fs::read_to_string(&csv).unwrap(), rest);
    }
    let foreign = root.path().join("notes.csv");
    fs::write(&foreign, "a,b\n1,2\n").unwrap();
    let (status, why) = refused(&["analyze", "inefficient", "--write"], &foreign);
    assert_eq!((status, why.contains("is no dump of memory events")), (Some(2), true), "{why}");
}

//! What a path may hold, and which of it is read.
use crate::readback::summary::summary;
use memscope_dump::{open, sources};
use memscope_model::TraceSource;
use memscope_testkit::SpoolBuilder;
use rusqlite::Connection;
use std::fs;
use std::path::Path;

const HEADER: &str =
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)";

fn write(path: &Path, rows: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{HEADER}\n{rows}")).unwrap();
}

fn malloc(id: u64, process: u32) -> String {
    format!("{id},MALLOC,HOST,N/A,{},{process},1,cpu,0x10,\"{{allocation_id:{id},size:8}}\",,\n", 100 + id)
}

fn recording(directory: &Path, process: u32) {
    let mut spool = SpoolBuilder::new();
    spool.process(process, 1);
    let lane = spool.lane(process);
    spool.alloc(lane, 1, 0x10, 5, 0);
    spool.write(directory).unwrap();
}

fn pids(path: &Path) -> Vec<u32> {
    sources(path).unwrap().found.iter().map(|source| source.trace.info().pid).collect()
}

#[test]
fn a_directory_may_hold_recordings_and_files_of_many_processes_and_a_recording_comes_before_its_files() {
    let root = tempfile::tempdir().unwrap();
    let of = |name: &str| root.path().join(name);
    recording(&of("msmemscope_1_20251203091122_ascend"), 1);
    write(&of("msmemscope_1_20251203091122_ascend/device_cpu/dump/memscope_dump_20251203091122.csv"), &malloc(1, 1));
    // Of a process that has files of both forms, one is enough.
    write(&of("msleaks_2_20251203091122_ascend/device_cpu/dump/leaks_dump_20251203091122.csv"), &malloc(1, 2));
    write(&of("msleaks_2_20251203091122_ascend/device_cpu/dump/leaks_dump_20251203091122.db"), "");
    write(&of("loose/memscope_dump_3.csv"), &(malloc(1, 3) + &malloc(2, 4) + &malloc(3, 3)));
    // No dumps by their names.
    for other in ["msmemscope_1_20251203091122_ascend/compare/memory_compare_1.csv", "memscope_dump_x.csv", "notes.csv"]
    {
        write(&of(other), "");
    }
    assert_eq!(pids(root.path()), [1, 3, 4, 2]);
    assert_eq!(pids(&of("msleaks_2_20251203091122_ascend")), [2]);
    assert_eq!(pids(&of("loose/memscope_dump_3.csv")), [3, 4]);
    assert!(open(root.path()).map(|_| ()).unwrap_err().to_string().contains("4 processes"));
    let mut spool = open(&of("msmemscope_1_20251203091122_ascend")).unwrap();
    assert_eq!(summary(&mut *spool).1.live_blocks().map(|block| block.size).sum::<u64>(), 5);
    let of_three = &mut sources(&of("loose")).unwrap().found[0];
    assert_eq!(summary(&mut *of_three.trace).1.events, 2);
}

#[test]
fn files_are_read_where_the_recording_cannot_be() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("msmemscope_1_20251203091122_ascend");
    recording(&directory, 1);
    write(&directory.join("device_cpu/dump/memscope_dump_20251203091122.csv"), &malloc(1, 1));
    fs::write(directory.join("spool/windows.spool"), b"gone").unwrap();
    let mut sources = sources(root.path()).unwrap();
    assert_eq!((sources.found.len(), sources.unreadable.len()), (1, 1));
    assert_eq!(summary(&mut *sources.found[0].trace).1.live_blocks().map(|block| block.size).sum::<u64>(), 8);
}

#[test]
fn a_path_that_holds_nothing_is_told_what_it_should() {
    let root = tempfile::tempdir().unwrap();
    let error = open(root.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("neither a recording nor a dump") && error.contains("memscope_dump_*.csv"), "{error}");
    let error = open(&root.path().join("gone")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("/gone: No such file"), "{error}");
}

#[test]
fn one_bad_file_of_a_process_costs_no_other() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("msmemscope_1_20251203091122_ascend");
    write(&directory.join("device_cpu/dump/memscope_dump_1.csv"), &malloc(1, 1));
    fs::create_dir_all(directory.join("device_0/dump")).unwrap();
    fs::write(directory.join("device_0/dump/memscope_dump_1.csv"), b"").unwrap();
    let (_, outcome) = summary(&mut *open(&directory).unwrap());
    assert_eq!((outcome.events, outcome.damage.len()), (1, 1));
    assert!(format!("{:?}", outcome.damage[0]).contains("it is empty"), "{:?}", outcome.damage);
}

/// Rows whose stacks are told once, in a file or table of their own.
const NUMBERED: &str = r##"1,MALLOC,HOST,N/A,101,1,1,cpu,0x10,"{allocation_id:1,size:8}",#2,#6
2,MALLOC,HOST,N/A,102,1,1,cpu,0x20,"{allocation_id:2,size:8}",,"#4"
3,MALLOC,HOST,N/A,103,1,1,cpu,0x30,"{allocation_id:3,size:8}",,"#8"
4,MALLOC,HOST,N/A,104,1,1,cpu,0x40,"{allocation_id:4,size:8}",,"main
_start"
"##;

fn assert_stacks(source: &mut dyn TraceSource) {
    let (seen, outcome) = summary(source);
    let stack = |event: &String| event[event.find("stack ").unwrap() + 6..event.find(" used").unwrap()].to_owned();
    let stacks: Vec<String> = seen.events.iter().map(stack).collect();
    let main = r#"([], ["main", "_start"])"#;
    let both = r#"(["a.py(1): f", "b.py(2): g"], ["main", "main", "_start"])"#;
    assert_eq!(stacks, [both, main, "([], [])", main]);
    assert_eq!(source.stacks().len(), 2);
    // One is not in the file.
    assert_eq!((outcome.events_without_stack, outcome.damage), (1, Vec::new()));
}

#[test]
fn stacks_may_be_told_once_beside_the_rows() {
    let root = tempfile::tempdir().unwrap();
    for brand in ["memscope", "leaks"] {
        let path = root.path().join(format!("{brand}_dump_1.csv"));
        write(&path, NUMBERED);
        // A frame below its caller; 5 has a caller that is none, and 8 hangs below it.
        let stacks = "ID,Caller,Frame\n1,,b.py(2): g\n2,1,\"a.py(1): f\"\n3,,_start\n4,3,main\n6,4,#4\n5,5,x\n8,5,y\n";
        fs::write(root.path().join(format!("{brand}_stacks_1.csv")), stacks).unwrap();
        assert_stacks(&mut *open(&path).unwrap());

        let path = root.path().join(format!("{brand}_dump_1.db"));
        let connection = Connection::open(&path).unwrap();
        let columns: Vec<String> = HEADER.split(',').map(|column| format!("\"{column}\"")).collect();
        let stack_columns = "\"ID\" INTEGER PRIMARY KEY, \"Caller\" INTEGER, \"Frame\" TEXT";
        connection
            .execute_batch(&format!(
                "CREATE TABLE {brand}_dump ({}); CREATE TABLE {brand}_stacks ({stack_columns});
                 INSERT INTO {brand}_stacks VALUES (1, NULL, 'b.py(2): g'), (2, 1, 'a.py(1): f'), (3, NULL, '_start'),
                 (4, 3, 'main'), (6, 4, '#4'), (5, 5, 'x'), (8, 5, 'y');",
                columns.join(",")
            ))
            .unwrap();
        for record in csv::ReaderBuilder::new().has_headers(false).from_reader(NUMBERED.as_bytes()).records() {
            let places: Vec<String> = (1..=12).map(|place| format!("?{place}")).collect();
            let insert = format!("INSERT INTO {brand}_dump VALUES ({})", places.join(","));
            connection.execute(&insert, rusqlite::params_from_iter(record.unwrap().iter())).unwrap();
        }
        drop(connection);
        assert_stacks(&mut *open(&path).unwrap());
    }
}

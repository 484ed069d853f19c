//! Results are added to files that are there, and nothing else in them changes.
use memscope_dump::{AnnotateError, BlockFindings, FileAsRead, annotate};
use memscope_model::{Annotations, BlockId, Inefficiencies};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const EARLY: Inefficiencies = Inefficiencies::EARLY_ALLOCATION;
const LATE: Inefficiencies = Inefficiencies::LATE_DEALLOCATION;
const IDLE: Inefficiencies = Inefficiencies::TEMPORARY_IDLENESS;

/// Odd line ends, a column nobody knows, a text with a quote that is not closed, rows that are none, and no end of line at
/// the end. `[…]` is what is added; the first block is found early and late, the second idle, the third nothing.
const ROWS: &str = concat!(
    "\u{feff}ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Novelty,Call Stack(Python),Call Stack(C)\r\n",
    "1,MALLOC,PTA,N/A,1764753084000000400,31,35,0,0x1000,\"{allocation_id:1,size:1536,owner:PTA@a,b[,inefficient_type:early_allocation,late_deallocation]}\",x,\"a.py(1): f\nb.py(2): g\",\r\n",
    "2,ACCESS,WRITE,add,1764753084000000600,31,35,0,0x1000,\"{allocation_id:1,addr:0x1000,size:24,type:PTA,dtype:torch.float32,shape:torch.Size([2, 3])}\",,,\n",
    "3,MSTX,Mark,\"loss \"0.5\", ok\",1764753084000000500,31,35,0,N/A,,,,\n",
    "\n",
    "no row at all\r\n",
    "4,MALLOC,HAL,N/A,1764753084000000700,31,35,0,0x2000,\"{allocation_id:2,size:512,inefficient_type:early_allocation[,temporary_idleness],page_type:huge}\",,,\n",
    "5,MALLOC,PTA,N/A,1764753084000000800,31,35,0,0x3000,\"{\"\"allocation_id\"\":\"\"3\"\",\"\"size\"\":\"\"7\"\"}\",,,\n",
    "6,MALLOC,PTA,N/A,1764753084000000810,31,35,0,0x3000,\"{\"\"allocation_id\"\":\"\"4\"\",\"\"size\"\":\"\"7\"\"[,\"\"inefficient_type\"\":\"\"temporary_idleness\"\"]}\",,,\n",
    "7,FREE,PTA,N/A,1764753084000000900,31,35,0,0x1000,\"{allocation_id:1,size:1536}\",,,",
);

fn before() -> String {
    let mut text = String::new();
    let mut rest = ROWS;
    while let Some((kept, behind)) = rest.split_once("[,") {
        text.push_str(kept);
        rest = behind.split_once(']').unwrap().1;
    }
    text + rest
}

fn after() -> String {
    ROWS.replace("[,", ",")
        .replace("late_deallocation]", "late_deallocation")
        .replace("idleness]", "idleness")
        .replace("idleness\"\"]", "idleness\"\"")
}

fn findings(process: Option<u32>) -> BlockFindings {
    let mut annotations = Annotations::default();
    for (block, found) in [(1, EARLY), (1, LATE), (2, IDLE), (2, EARLY), (4, IDLE), (99, LATE)] {
        annotations.add_inefficiencies(BlockId(block), found);
    }
    let mut findings = BlockFindings::default();
    findings.add(process, annotations);
    findings
}

struct Fixture {
    root: TempDir,
    path: PathBuf,
}

fn csv() -> Fixture {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("memscope_dump_20251203091122.csv");
    fs::write(&path, before()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Fixture { root, path }
}

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_csv_is_byte_for_byte_as_it_was_but_for_what_was_found() {
    let fixture = csv();
    let file = FileAsRead::begin(&fixture.path).unwrap();
    assert_eq!(annotate(&file, &findings(None)).unwrap(), 3);
    assert_eq!(fs::read_to_string(&fixture.path).unwrap(), after());
    assert_eq!(fs::metadata(&fixture.path).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(files(fixture.root.path()).len(), 1);
    // A second time there is nothing to add.
    let file = FileAsRead::begin(&fixture.path).unwrap();
    assert_eq!(annotate(&file, &findings(Some(31))).unwrap(), 0);
    assert_eq!(fs::read_to_string(&fixture.path).unwrap(), after());
}

#[test]
fn rows_of_another_process_are_not_meant() {
    let fixture = csv();
    let file = FileAsRead::begin(&fixture.path).unwrap();
    assert_eq!(annotate(&file, &findings(Some(32))).unwrap(), 0);
    assert_eq!(fs::read_to_string(&fixture.path).unwrap(), before());
}

#[test]
fn a_link_leads_to_the_file_and_stays_a_link() {
    let fixture = csv();
    let link = fixture.root.path().join("link.csv");
    symlink(&fixture.path, &link).unwrap();
    assert_eq!(annotate(&FileAsRead::begin(&link).unwrap(), &findings(None)).unwrap(), 3);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&fixture.path).unwrap(), after());
}

#[test]
fn a_file_that_was_changed_vanished_or_cannot_be_replaced_is_left_alone() {
    let fixture = csv();
    let file = FileAsRead::begin(&fixture.path).unwrap();
    let more = before() + "\n8,FREE,PTA,N/A,1764753084000000950,31,35,0,0x2000,\"{allocation_id:2}\",,,\n";
    fs::write(&fixture.path, &more).unwrap();
    let error = annotate(&file, &findings(None)).unwrap_err();
    assert!(matches!(error, AnnotateError::Changed { .. }), "{error}");
    assert_eq!(fs::read_to_string(&fixture.path).unwrap(), more);
    // Nothing can be made beside it.
    let file = FileAsRead::begin(&fixture.path).unwrap();
    let partial = fixture.root.path().join(".memscope_dump_20251203091122.csv.partial");
    fs::create_dir_all(partial.join("in the way")).unwrap();
    let error = annotate(&file, &findings(None)).unwrap_err().to_string();
    assert!(error.starts_with("cannot write ") && error.ends_with("; it is as it was"), "{error}");
    assert_eq!(fs::read_to_string(&fixture.path).unwrap(), more);
    fs::remove_file(&fixture.path).unwrap();
    let error = annotate(&file, &findings(None)).unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
    assert!(FileAsRead::begin(&fixture.path).is_err());
}

#[test]
fn a_file_whose_blocks_have_no_numbers_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("leaks_dump_20250410120000.csv");
    let text = "ID,Event,Event Type,Name,Timestamp(us),Process Id,Thread Id,Device Id,Ptr,Attr\n\
                2,MALLOC,HAL,N/A,1001,7,7,0,20616577024,\"{addr:20616577024,size:1024}\"\n";
    fs::write(&path, text).unwrap();
    let error = annotate(&FileAsRead::begin(&path).unwrap(), &findings(None)).unwrap_err();
    assert!(matches!(error, AnnotateError::NoNumbers { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// With a table and a column of others, a trigger that must not run, and the journal of the existing tool.
fn database(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection
        .execute_batch(
            r#"CREATE TABLE memscope_dump ("ID" INTEGER, "Event" TEXT, "Event Type" TEXT, "Name" TEXT,
                 "Timestamp(ns)" INTEGER, "Process Id" INTEGER, "Thread Id" INTEGER, "Device Id" TEXT, "Ptr" TEXT,
                 "Attr" TEXT, "Call Stack(Python)" TEXT, "Call Stack(C)" TEXT, "depth" REAL);
               CREATE TABLE memory_block (a INTEGER, b BLOB);
               INSERT INTO memory_block VALUES (1, x'00ff');
               INSERT INTO memscope_dump VALUES
                 (1,'MALLOC','PTA','N/A',1,31,35,'0','0x1','{"allocation_id":"1","size":"1","owner":"PTA@a,b"}','','',0.5),
                 (2,'ACCESS','READ','add',2,31,35,'0','0x1','{"allocation_id":"1","type":"PTA"}','','',NULL),
                 (3,'MALLOC','PTA','N/A',3,31,35,'0','0x2','{"allocation_id":"2","inefficient_type":"early_allocation"}',NULL,'',7),
                 (4,'MALLOC','PTA','N/A',4,31,35,'0','0x3','{"allocation_id":"3"}','','',7),
                 (5,'SYSTEM','ACL_INIT','N/A',5,31,35,'N/A','N/A','{}','','',7);
               CREATE TRIGGER noisy AFTER UPDATE ON memscope_dump BEGIN DELETE FROM memory_block; END;"#,
        )
        .unwrap();
    connection
}

fn contents(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut contents = Vec::new();
    for table in ["memscope_dump", "memory_block", "sqlite_schema"] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells: Vec<String> = (0..columns).map(|at| format!("{:?}", row.get_ref(at).unwrap())).collect();
            contents.push(cells.join("|"));
        }
    }
    contents
}

#[test]
fn a_database_has_the_same_rows_and_tables_but_for_what_was_found() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("memscope_dump_1.db");
    drop(database(&path));
    let before = contents(&path);
    assert_eq!(annotate(&FileAsRead::begin(&path).unwrap(), &findings(None)).unwrap(), 2);
    let after = contents(&path);
    let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    assert_eq!((changed, before.len()), (vec![0, 2], after.len()));
    let attributes = |number: i64| -> String {
        let connection = Connection::open(&path).unwrap();
        connection
            .query_row("SELECT \"Attr\" FROM memscope_dump WHERE \"ID\" = ?1", [number], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(
        attributes(1),
        r#"{"allocation_id":"1","size":"1","owner":"PTA@a,b","inefficient_type":"early_allocation,late_deallocation"}"#
    );
    assert_eq!(attributes(3), r#"{"allocation_id":"2","inefficient_type":"early_allocation,temporary_idleness"}"#);
    assert_eq!(files(root.path()), ["memscope_dump_1.db"]);
    assert_eq!(annotate(&FileAsRead::begin(&path).unwrap(), &findings(None)).unwrap(), 0);
}

#[test]
fn a_database_that_another_program_writes_to_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("memscope_dump_1.db");
    drop(database(&path));
    let before = contents(&path);
    let file = FileAsRead::begin(&path).unwrap();
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = annotate(&file, &findings(None)).unwrap_err();
    assert!(matches!(error, AnnotateError::Busy { .. }), "{error}");
    drop(writer);
    assert_eq!(contents(&path), before);
}

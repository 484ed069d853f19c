//! What MindStudio Insight needs of a database, as rules: a file that breaks one is refused by it, or shown wrong
//! without a word. With `INSIGHT_CHECK` naming a checker program, that is asked too.
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const FIXED_COLUMNS: [&str; 12] = [
    "ID",
    "Event",
    "Event Type",
    "Name",
    "Timestamp(ns)",
    "Process Id",
    "Thread Id",
    "Device Id",
    "Ptr",
    "Attr",
    "Call Stack(Python)",
    "Call Stack(C)",
];

pub(crate) fn assert_viewable(path: &Path) {
    assert_viewable_but_for(path, &serde_json::json!({}));
}

/// The same where the viewer leaves out what is in the file, in the words of its acceptance check.
pub(crate) fn assert_viewable_but_for(path: &Path, left_out: &serde_json::Value) {
    assert_file(path);
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let table = assert_tables(&connection);
    assert_times_and_devices(&connection, &table);
    assert_blocks(&connection, &table);
    drop(connection);
    if let Some(checker) = std::env::var_os("INSIGHT_CHECK") {
        assert_checker_agrees(Path::new(&checker), path, left_out);
    }
}

fn assert_file(path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let digits = name
        .strip_prefix("memscope_dump_")
        .or(name.strip_prefix("leaks_dump_"))
        .and_then(|rest| rest.strip_suffix(".db"))
        .unwrap_or_else(|| panic!("{name} is not recognised"));
    assert!(!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()), "{name} is not recognised");
    let file = path.symlink_metadata().unwrap();
    assert!(file.is_file() && file.len() <= 20 << 30);
    assert_ne!(file.mode() & 0o200, 0, "the viewer writes into the file");
    assert_ne!(path.parent().unwrap().metadata().unwrap().mode() & 0o200, 0, "and next to it");
    for companion in ["-wal", "-shm", "-journal"] {
        let mut other = path.as_os_str().to_owned();
        other.push(companion);
        assert!(!Path::new(&other).exists(), "{companion} is left: users copy the one file");
    }
}

fn assert_tables(connection: &Connection) -> String {
    let mut statement = connection.prepare("SELECT name, type FROM sqlite_master").unwrap();
    let objects: HashMap<String, String> =
        statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    for reserved in ["memory_allocation", "memory_block", "status_info"] {
        assert!(!objects.contains_key(reserved), "{reserved} is the viewer's own");
    }
    for name in objects.keys().filter(|name| name.starts_with("python_trace")) {
        let rows: i64 = connection.query_row(&format!("SELECT count(*) FROM {name}"), (), |row| row.get(0)).unwrap();
        assert!(rows > 0, "an empty {name} makes the import fail");
    }
    let table = if objects.contains_key("memscope_dump") { "memscope_dump" } else { "leaks_dump" };
    assert_eq!(objects.get(table).map(String::as_str), Some("table"), "{objects:?}");
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid").unwrap();
    let columns: Vec<String> = statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(columns, FIXED_COLUMNS, "columns are read by position");
    table.to_owned()
}

fn assert_times_and_devices(connection: &Connection, table: &str) {
    let mut statement = connection.prepare(&format!("SELECT \"Timestamp(ns)\" FROM {table}")).unwrap();
    let times: BTreeSet<i64> = statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(times.len() >= 2, "one timestamp makes no time range");
    assert!(times.first().unwrap() > &0 && times.last().unwrap() < &i64::MAX);
    let on_device: i64 = connection
        .query_row(&format!("SELECT count(*) FROM {table} WHERE \"Device Id\" NOT IN ('N/A', '', 'host')"), (), |row| {
            row.get(0)
        })
        .unwrap();
    assert!(on_device > 0, "no row has a device");
}

/// Pairs the rows as the viewer does: in the order of its own query, by device, pool and address text.
fn assert_blocks(connection: &Connection, table: &str) {
    let query = format!("SELECT * FROM {table} ORDER BY \"Timestamp(ns)\"");
    let mut statement = connection.prepare(&query).unwrap();
    let mut rows = statement.query(()).unwrap();
    let mut live: HashMap<(String, String, String), i64> = HashMap::new();
    let mut blocks: HashMap<String, String> = HashMap::new();
    while let Some(row) = rows.next().unwrap() {
        let text = |column: usize| row.get::<_, String>(column).unwrap();
        for integer in [0, 4, 5, 6] {
            row.get::<_, i64>(integer).unwrap();
        }
        let (event, attributes) = (text(1), text(9));
        let json: serde_json::Value = serde_json::from_str(&attributes).unwrap();
        assert_eq!(json.as_object().unwrap().len(), attributes.matches("\":\"").count(), "not compact: {attributes}");
        assert!(json.as_object().unwrap().values().all(serde_json::Value::is_string), "{attributes}");
        if event == "ACCESS" {
            // The viewer drops an access that goes by another address than its block does.
            let block = json.get("allocation_id").and_then(|block| blocks.get(block.as_str()?));
            assert!(block.is_none_or(|pointer| *pointer == text(8)), "{attributes}");
            continue;
        }
        if event != "MALLOC" && event != "FREE" {
            assert_eq!(text(8), "N/A");
            continue;
        }
        blocks.insert(json["allocation_id"].as_str().unwrap().to_owned(), text(8));
        const KNOWN_POOLS: [&str; 6] = ["PTA", "MINDSPORE", "ATB", "HAL", "PTA_WORKSPACE", "HOST_PINNED"];
        assert!(KNOWN_POOLS.contains(&text(2).as_str()), "a click on this pool is an error: {}", text(2));
        let pointer = text(8);
        assert!(pointer.len() == 18 && pointer.starts_with("0x") && pointer == pointer.to_lowercase(), "{pointer}");
        let size: i64 = json["size"].as_str().unwrap().parse().unwrap();
        assert!(size > 0, "an event of no bytes is dropped: {attributes}");
        let key = (text(7), text(2), pointer);
        match event.as_str() {
            "MALLOC" => assert_eq!(live.insert(key, size), None, "allocated twice: {attributes}"),
            _ => assert_eq!(live.remove(&key), Some(size), "freed without allocation, or another size: {attributes}"),
        }
    }
}

fn assert_checker_agrees(checker: &Path, path: &Path, left_out: &serde_json::Value) {
    let output = Command::new("python3").arg(checker).args(["--strict", "--json"]).arg(path).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["verdict"], "ACCEPTED", "{report:#}");
    assert_eq!(&report["dropped"], left_out, "{report:#}");
    assert_eq!(report["warnings"], serde_json::json!([]), "{report:#}");
    let nothing = serde_json::json!({});
    assert_eq!(output.status.success(), *left_out == nothing, "{report:#}");
}

//! `analyze … leaks` on recordings of real programs, and on the files made of them.
use memscope_tests::{Workshop, command, finish, python};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn ran(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the command can be started"))
}

fn told(command: &mut Command) -> String {
    let output = ran(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `analyze` says of the one process at `path`, its leaks beside what they stand on.
fn leaks(path: &Path) -> serde_json::Value {
    let text = told(command().arg("analyze").arg(path).args(["leaks", "--json"]));
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 1);
    let leaks = document["leaks"].take();
    let processes = document["processes"].as_array_mut().unwrap();
    assert_eq!(processes.len(), 1, "{text}");
    let mut of_process = processes[0]["leaks"].take();
    of_process["leaks"] = leaks;
    of_process
}

/// Function, verdict, bytes, blocks, first and last step.
type Row = (String, String, u64, u64, u64, u64);

/// The call sites in functions of these names.
fn verdicts(leaks: &serde_json::Value, functions: &[&str]) -> Vec<Row> {
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let told = |leak: &serde_json::Value| {
        let site = leak["site"].as_str()?;
        let function = functions.iter().find(|function| site.contains(**function))?;
        Some((
            function.to_string(),
            leak["verdict"].as_str().unwrap().to_owned(),
            number(&leak["bytes"]),
            number(&leak["blocks"]),
            number(&leak["first_step"]),
            number(&leak["last_step"]),
        ))
    };
    leaks["leaks"].as_array().unwrap().iter().filter_map(told).collect()
}

fn expected(rows: &[(&str, &str, u64, u64, u64, u64)]) -> Vec<Row> {
    let owned =
        |row: &(&str, &str, u64, u64, u64, u64)| (row.0.to_owned(), row.1.to_owned(), row.2, row.3, row.4, row.5);
    rows.iter().map(owned).collect()
}

const FUNCTIONS: [&str; 4] = ["keep_buffer", "append", "make_table", "fetch_batch"];

fn recorded_program(workshop: &Workshop, options: &[&str], steps: &str) -> PathBuf {
    let (program, output) = (workshop.compile("leaking_steps.c"), workshop.path("output"));
    let mut command = command();
    command.args(["--device=cpu", "--call-stack=c"]).args(options).arg("-o").arg(&output);
    told(command.arg("--").arg(program).arg(steps));
    output
}

#[test]
fn a_program_with_steps_has_a_verdict_for_each_line_the_same_from_spool_csv_and_db() {
    let workshop = Workshop::new();
    let output = recorded_program(&workshop, &[], "40");
    let of_spool = leaks(&output);
    let rows = [
        ("keep_buffer", "grows", 4_000_000, 40, 1, 40),
        ("append", "grows", 2_000_000, 1, 40, 40),
        ("make_table", "kept", 300_000, 1, 1, 1),
        ("fetch_batch", "carried", 200_000, 1, 40, 40),
    ];
    assert_eq!(verdicts(&of_spool, &FUNCTIONS), expected(&rows));
    let keep = &of_spool["leaks"][0];
    assert_eq!(keep["per_step"], serde_json::json!(vec![100_000; 40]));
    assert_eq!((keep["device"].as_str(), keep["pool"].as_str()), (Some("cpu"), Some("HOST")));
    assert_eq!(keep["growth"]["bytes_per_step"], 100_000.0);
    assert_eq!(keep["addresses"].as_array().unwrap().len(), 16);

    told(command().arg("export").arg(&output).args(["--format=db", "-o"]).arg(workshop.path("db")));
    let find = |directory: &Path, ending: &str| {
        let pattern = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("memscope_dump") && name.ends_with(ending)
        };
        files(directory).into_iter().find(pattern).unwrap_or_else(|| panic!("no {ending} in {directory:?}"))
    };
    for file in [find(&output, ".csv"), find(&workshop.path("db"), ".db")] {
        let of_file = leaks(&file);
        assert_eq!(verdicts(&of_file, &FUNCTIONS), expected(&rows), "{file:?}");
        for field in ["per_step", "live_per_step", "growth", "addresses", "sizes", "steps"] {
            assert_eq!(of_file["leaks"][0][field], keep[field], "{field} of {file:?}");
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { waiting.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn the_report_of_a_run_and_the_exit_status_tell_what_grows() {
    let workshop = Workshop::new();
    let output = recorded_program(&workshop, &["--data-format=none"], "40");
    let info = told(command().arg("info").arg(&output));
    assert!(info.contains("leaks: 2 call sites grow, over 40 steps"), "{info}");
    let text = told(command().arg("analyze").arg(&output).arg("leaks"));
    let first = text.lines().skip_while(|line| !line.contains("grows ")).nth(1).unwrap_or_default();
    assert!(first.contains("keep_buffer"), "{text}");
    assert!(text.contains("total: 5.7 MiB in 41 blocks"), "{text}");
    let failed = ran(command().arg("analyze").arg(&output).arg("--fail-on=leaks"));
    assert_eq!(failed.status.code(), Some(1));
}

#[test]
fn few_steps_and_none_are_told_as_such() {
    let workshop = Workshop::new();
    let output = recorded_program(&workshop, &["--data-format=none"], "2");
    let found = leaks(&output);
    assert_eq!(found["steps"], serde_json::json!({ "begun": 3, "ended": 2, "per_place": 1 }));
    assert_eq!(found["too_short"], true);
    assert_eq!(verdicts(&found, &["keep_buffer"]), expected(&[("keep_buffer", "kept", 200_000, 2, 1, 2)]));
    let text = told(command().arg("analyze").arg(&output).args(["leaks", "--fail-on=leaks"]));
    assert!(text.contains("2 steps ended: too few to tell what grows"), "{text}");

    let without = Workshop::new();
    let output = recorded_program(&without, &["--data-format=none"], "0");
    let found = leaks(&output);
    assert_eq!(found["steps"], serde_json::Value::Null);
    let kept: Vec<_> = verdicts(&found, &["keep_buffer", "make_table"]);
    let bytes: Vec<(&str, u64, u64)> = kept.iter().map(|row| (row.0.as_str(), row.2, row.3)).collect();
    assert!(bytes.contains(&("keep_buffer", 4_000_000, 40)) && bytes.contains(&("make_table", 300_000, 1)), "{kept:?}");
}

/// Marks steps through the recorder's table, as a program without the Python package does.
const STEPS: &str = "
import ctypes, gc
class Table(ctypes.Structure):
    _fields_ = [('size', ctypes.c_uint32), ('version', ctypes.c_uint32), ('ours', ctypes.c_void_p * 9),
                ('start', ctypes.CFUNCTYPE(None)), ('stop', ctypes.CFUNCTYPE(None)), ('step', ctypes.CFUNCTYPE(None))]
find = ctypes.CDLL(None).msmemscope_api
find.restype = ctypes.POINTER(Table)
step = find().contents.step
class Node: pass
kept, callbacks = [], []
";
const ROUND: &str = "
for number in range(30):
    buffer = bytearray(1 << 20)
    keep()
    step()
";

fn leaks_of_script(way: &str) -> serde_json::Value {
    let workshop = Workshop::new();
    let (file, output) = (workshop.path("program.py"), workshop.path("output"));
    std::fs::write(&file, format!("{STEPS}{way}{ROUND}")).unwrap();
    let python = python();
    let mut command = command();
    command.args(["--device=cpu", "--call-stack=python", "--data-format=none", "-o"]).arg(&output).arg("--");
    told(command.arg(python.get_program()).args(python.get_args()).arg(&file));
    leaks(&output)
}

#[test]
fn the_line_that_keeps_memory_is_named_first_however_it_does() {
    let ways = [
        ("list", "def keep():\n    kept.append(bytearray(4 << 20))\n"),
        ("closure", "def keep():\n    data = bytearray(4 << 20)\n    callbacks.append(lambda: data)\n"),
        (
            "cycle",
            "gc.disable()\ndef keep():\n    node = Node()\n    node.data = bytearray(4 << 20)\n    node.itself = node\n",
        ),
    ];
    for (name, way) in ways {
        let found = leaks_of_script(way);
        assert_eq!(found["until_main_returned"], true, "{name}");
        let first = &found["leaks"][0];
        let site = first["site"].as_str().unwrap_or_default();
        let line = 1 + format!("{STEPS}{way}").lines().position(|line| line.contains("4 << 20")).unwrap();
        assert!(site.ends_with(&format!("program.py({line}): keep")), "{name}: {site}");
        assert_eq!((first["verdict"].as_str(), first["first_step"].as_u64()), (Some("grows"), Some(1)), "{name}");
        let growing = found["leaks"].as_array().unwrap().iter().filter(|leak| leak["verdict"] == "grows").count();
        assert_eq!(growing, 1, "{name}: {found}");
    }
}

#[test]
fn a_script_that_gives_everything_back_has_nothing_that_grows() {
    let way = "
cache, history, average = {}, [], [bytearray(1 << 18)]
def keep():
    if number < 12:
        cache[number] = bytearray(1 << 18)
    history.append(number * 0.5)
    average[0] = bytearray(1 << 18)
";
    let found = leaks_of_script(way);
    let growing: Vec<_> = found["leaks"].as_array().unwrap().iter().filter(|leak| leak["verdict"] == "grows").collect();
    assert!(growing.is_empty(), "{growing:?}");
    let verdict = |line: &str| {
        let at = 1 + format!("{STEPS}{way}{ROUND}").lines().position(|text| text.contains(line)).unwrap();
        let of_line = |leak: &&serde_json::Value| {
            let site = leak["site"].as_str().unwrap_or_default();
            site.contains(&format!("program.py({at})")) && leak["bytes"].as_u64() > Some(1 << 17)
        };
        let leak = found["leaks"].as_array().unwrap().iter().find(of_line);
        leak.map(|leak| leak["verdict"].as_str().unwrap().to_owned())
    };
    assert_eq!(verdict("cache[number]").as_deref(), Some("kept"));
    assert_eq!(verdict("average[0] =").as_deref(), Some("carried"));
    assert_eq!(verdict("buffer =").as_deref(), Some("carried"));
}

#[test]
fn inputs_that_say_nothing_about_leaks_are_refused_in_a_line() {
    let workshop = Workshop::new();
    let output = recorded_program(&workshop, &["--data-format=none"], "0");
    let refused = |words: &[&str], path: &Path| {
        let output = ran(command().arg("analyze").arg(path).args(words));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len(), message.lines().count()), (Some(2), 0, 1), "{message}");
        message
    };
    let message = refused(&["leaks", "--mstx-info=test"], &output);
    assert!(message.contains("there are 0 marks \"test\""), "{message}");
    assert!(refused(&["leaks", "--start-index=1"], &output).contains("--mstx-info"));
    assert!(refused(&["leaks", "--mstx-info="], &output).contains("--mstx-info"));
    let header = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n";
    let file = workshop.path("memscope_dump_1.csv");
    std::fs::write(&file, format!("{header}1,MSTX,Mark,\"test\",5,31,31,0,N/A,,,\n")).unwrap();
    assert!(refused(&["leaks"], &file).contains("--events=alloc,free"));
}

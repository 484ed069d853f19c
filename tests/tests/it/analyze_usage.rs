//! `analyze fluctuation` and `analyze decompose` on the recording of a real program, and on the files made of it.
use memscope_tests::{Workshop, command, finish};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
const STEPS: u64 = 6;

/// What a command printed, and what it said.
fn told(command: &mut Command) -> (String, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("the command can be started"));
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), messages)
}

/// The recording of `phases`, and the report of its run.
fn recorded(workshop: &Workshop, options: &[&str]) -> (PathBuf, String) {
    let program = workshop.compile_as("phases.c", "phases", &["-ldl"]);
    let output = workshop.path("output");
    let mut record = command();
    record.args(["--device=cpu", "--call-stack=c", "--data-format=none"]).args(options).arg("-o").arg(&output);
    let (_, messages) = told(record.arg("--").arg(program));
    (output, messages)
}

/// What the analyses say of the one process at a path, without times: files do not say when recording began.
fn analyzed(path: &Path) -> Value {
    let (text, _) =
        told(command().arg("analyze").arg(path).args(["fluctuation", "decompose", "--at=step:4", "--json"]));
    let document: Value = serde_json::from_str(&text).unwrap();
    let process = &document["processes"][0];
    let mut both = serde_json::json!([process["fluctuation"], process["decompose"]]);
    without_times(&mut both);
    both
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !name.ends_with("after_ns"));
            members.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

fn host(report: &Value) -> &Value {
    let pools = report[0]["pools"].as_array().unwrap();
    pools.iter().find(|pool| pool["pool"] == "HOST").unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn steps_of_a_program_are_as_high_as_what_they_take_and_end_with_what_they_keep() {
    let workshop = Workshop::new();
    let (recording, report) = recorded(&workshop, &[]);
    assert!(report.contains("fluctuation within steps") && report.contains("MinGap"), "{report}");
    let analyzed = analyzed(&recording);
    let host = host(&analyzed);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} of {host}"));
    let steps = host["per_step"].as_array().unwrap();
    // What comes after the last call of step() is the program's end, and no step.
    let numbers: Vec<u64> = steps.iter().map(|step| number(&step["step"])).collect();
    assert_eq!(numbers, (1..=STEPS).collect::<Vec<_>>());
    for step in &steps[1..] {
        let kept = if step["step"] == 4 { MIB } else { 0 };
        assert_eq!(number(&step["max_bytes"]) - number(&step["begin_bytes"]), 6 * MIB, "{step}");
        assert_eq!(number(&step["min_bytes"]), number(&step["begin_bytes"]), "{step}");
        assert_eq!(number(&step["end_bytes"]) - number(&step["begin_bytes"]), kept, "{step}");
    }
    assert_eq!(host["balance"]["most_grown"], serde_json::json!({ "step": 4, "bytes": MIB }));
    // What is held all the time grew in the fourth: the later steps vary least.
    assert_eq!((&host["min_gap"]["step"], &host["max_gap"]["step"]), (&2.into(), &5.into()));
    let sites = host["peak"]["sites"].as_array().unwrap();
    let bytes_of = |function: &str| -> u64 {
        let named =
            |site: &&Value| site["frames"].as_array().unwrap().iter().any(|frame| frame.to_string().contains(function));
        sites.iter().filter(named).map(|site| number(&site["bytes"])).sum()
    };
    assert_eq!((bytes_of("work at"), bytes_of("keep at")), (6 * MIB, MIB), "{sites:?}");
}

#[test]
fn what_a_program_holds_is_told_by_what_made_it_and_sums_up() {
    let workshop = Workshop::new();
    let (recording, report) = recorded(&workshop, &["--analysis=decompose"]);
    assert!(report.contains("decomposition of process") && report.contains("unlabelled"), "{report}");
    let analyzed = analyzed(&recording);
    let cpu = &analyzed[1]["devices"][0];
    assert_eq!(cpu["device"], "cpu");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} of {cpu}"));
    let moments = cpu["steps"].as_array().unwrap().iter().chain([&cpu["peak"], &cpu["at"]]);
    for pool in moments.flat_map(|moment| moment["pools"].as_array().unwrap()) {
        let owners = pool["owners"].as_array().unwrap();
        assert_eq!(owners.iter().map(|owner| number(&owner["bytes"])).sum::<u64>(), number(&pool["bytes"]));
        assert!(owners.iter().all(|owner| owner["owner"].is_null() && owner["origin"].is_string()), "{pool}");
    }
    let of = |moment: &Value, origin: &str| {
        let owners = moment["pools"][0]["owners"].as_array().unwrap();
        owners.iter().filter(|owner| owner["origin"] == origin).map(|owner| number(&owner["bytes"])).sum::<u64>()
    };
    // The fourth step ends with what the third ended with and the block it keeps.
    let (third, fourth) = (&cpu["steps"][2], &cpu["steps"][3]);
    assert_eq!(of(fourth, "heap") - of(third, "heap"), MIB);
    assert_eq!(of(fourth, "mapping"), of(third, "mapping"));
    assert!(of(third, "mapping") >= 16 * MIB && of(third, "heap") >= 8 * MIB, "{third}");
    assert_eq!(of(&cpu["at"], "heap"), of(fourth, "heap"));
    // The peak is within a step that comes after it.
    assert_eq!(of(&cpu["peak"], "heap") - of(fourth, "heap"), 6 * MIB);
}

#[test]
fn the_recording_and_its_files_say_the_same() {
    let workshop = Workshop::new();
    let (recording, _) = recorded(&workshop, &[]);
    let expected = analyzed(&recording);
    for format in ["csv", "db"] {
        let files = workshop.path(format);
        told(command().arg("export").arg(&recording).arg(format!("--format={format}")).arg("--output").arg(&files));
        assert_eq!(analyzed(&files), expected, "{format}");
    }
}

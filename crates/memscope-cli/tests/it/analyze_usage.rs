//! `analyze fluctuation` and `analyze decompose` on recordings made to order, and on the files exported from them.

use crate::command_line::{refused, text};
use memscope_testkit::{Space, SpoolBuilder, SystemKind};
use serde_json::Value;
use std::path::Path;

const MIB: u64 = 1 << 20;
const RUNTIME: u32 = 7;
const HCCL: u32 = 3;

/// A training of four steps on an NPU: a segment of 64 MiB of the driver's memory, of which 20 MiB are a model, and each step
/// takes 8 and 4 MiB for a while; the third keeps 1 MiB. Beside it memory of HCCL, and of the host.
fn training(root: &Path, analysis: u8) {
    let mut spool = SpoolBuilder::new();
    spool.process(31, 1).command("/usr/bin/python3", "python3 train.py");
    spool.config(&format!("c=0;py=20;cpu=1;npu=ffffffff;analysis={analysis:x};dir=/tmp"));
    let lane = spool.lane(31);
    spool.system(lane, 0, SystemKind::AclInit, 0);
    spool.code(lane, 0, "/me/train.py", "<module>", 1).code(lane, 1, "/me/train.py", "step", 7);
    spool.code(lane, 2, "/me/train.py", "load", 3);
    for (node, parent, code) in [(1, 0, 0), (2, 1, 1), (3, 1, 2)] {
        spool.python_node(lane, node, parent, code, 0);
    }
    let (driver, pta, second) = (Space::Driver, Space::PtaCaching, 1_000_000_000);
    spool.alloc(lane, second / 2, 0x100_0000, 3 * MIB, 3).map(lane, second / 2 + 1, 0x7f00_0000_0000, MIB, 0);
    spool.device_alloc(lane, second, driver, 0, 0x1_0000_0000, 64 * MIB, RUNTIME, 3);
    spool.device_alloc(lane, second + 1, driver, 0, 0x3_0000_0000, 16 * MIB, HCCL, 0);
    spool.pool_total(lane, second + 2, pta, 0, 64 * MIB);
    spool.device_alloc(lane, second + 3, pta, 0, 0x1_0000_0000, 20 * MIB, 0, 3);
    for step in 1..=4u64 {
        let time = (1 + step) * second;
        spool.range_start(lane, time, step, "step start");
        spool.device_alloc(lane, time + 10, pta, 0, 0x1_0200_0000, 8 * MIB, 0, 2);
        spool.device_alloc(lane, time + 20, pta, 0, 0x1_0300_0000, 4 * MIB, 0, 2);
        spool.device_free(lane, time + 30, pta, 0x1_0200_0000, 0).device_free(lane, time + 40, pta, 0x1_0300_0000, 0);
        if step == 3 {
            spool.device_alloc(lane, time + 50, pta, 0, 0x1_0380_0000, MIB, 0, 2);
        }
        spool.range_end(lane, time + second / 2, step);
    }
    spool.system(lane, 6 * second, SystemKind::AclFinalize, 0);
    spool.write(&root.join("msmemscope_31_20251203091122_ascend")).unwrap();
}

const LEAKS: u8 = 1;
const DECOMPOSE: u8 = 2;

fn recorded(analysis: u8) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    training(root.path(), analysis);
    root
}

fn path(root: &tempfile::TempDir) -> &str {
    root.path().to_str().unwrap()
}

/// What is said of one pool or device, from its heading to the next.
fn section<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    let mut lines = text.lines().skip_while(|line| *line != heading).peekable();
    assert!(lines.peek().is_some(), "{heading} is not in\n{text}");
    let is_within = |line: &&str| line.starts_with(' ') || line.starts_with("Min") || line.starts_with("Max");
    lines.skip(1).take_while(is_within).collect()
}

#[test]
fn fluctuation_is_told_pool_by_pool_as_users_know_it() {
    let root = recorded(LEAKS);
    let told = text(&["analyze", path(&root), "fluctuation"]);
    assert_eq!(
        told.lines().take(2).collect::<Vec<_>>(),
        ["process 31 python3 train.py", "fluctuation within steps of process 31, from the second on:"]
    );
    assert_eq!(
        section(&told, "npu 0 PTA memory:"),
        [
            "                         MinAlloc/MaxAlloc(%)     MinAllocMem(MB)          StepId",
            "MinGap                   62.5000                  20.0000                  2",
            "MaxGap                   63.6364                  21.0000                  4",
            "  of 3 steps, 1 ended with more than they began with (step 3 by most, 1.0 MiB), 0 with less",
            "  peak: 33.0 MiB in 4 blocks after 5.000 s, in step 4; 64.0 MiB reserved, 31.0 MiB (48.4%) of it unused",
            "      33.0 MiB 100.0%      4 blocks  PTA",
            "  by call site:",
            "      20.0 MiB  60.6%       1 block  /me/train.py: load < /me/train.py: <module>",
            "      13.0 MiB  39.4%      3 blocks  /me/train.py: step < /me/train.py: <module>",
            "  most unused: 20.0 MiB after 1.000 s: 64.0 MiB reserved, 44.0 MiB (68.8%) of it unused",
            "  most unused within a step, from the second on: 44.0 MiB, in step 2",
            "  (how large a single request would still have fitted is not known: pools do not tell how their free memory is cut)",
            "  over time:",
            "  from      0.805 s         0 B to   20.0 MiB in use; up to 64.0 MiB reserved, 44.0 MiB unused",
            "  from      1.611 s    20.0 MiB to   32.0 MiB in use; up to 64.0 MiB reserved, 44.0 MiB unused",
            "  from      4.027 s    21.0 MiB to   21.0 MiB in use; up to 64.0 MiB reserved, 43.0 MiB unused",
            "  from      4.832 s    21.0 MiB to   33.0 MiB in use; up to 64.0 MiB reserved, 43.0 MiB unused",
            "  from      5.637 s    21.0 MiB to   21.0 MiB in use; up to 64.0 MiB reserved, 43.0 MiB unused",
        ]
    );
}

#[test]
fn a_device_is_decomposed_without_counting_anything_twice() {
    let root = recorded(LEAKS);
    let told = text(&["analyze", path(&root), "decompose"]);
    assert_eq!(
        section(&told, "decomposition of process 31, npu 0 at the peak (after 5.000 s, in step 4):"),
        [
            "  of 80.0 MiB from the driver, pools took 64.0 MiB (80.0%); 16.0 MiB (20.0%) is not theirs",
            "  HAL: 80.0 MiB in 2 blocks",
            "    80.0 MiB 100.0%      2 blocks  CANN",
            "    64.0 MiB  80.0%       1 block    RUNTIME",
            "    16.0 MiB  20.0%       1 block    HCCL",
            "  PTA: 33.0 MiB in 4 blocks, 64.0 MiB reserved",
            "    33.0 MiB 100.0%      4 blocks  PTA",
        ]
    );
    assert_eq!(
        section(&told, "npu 0 at the ends of steps:"),
        [
            "      step 1      step 2      step 3      step 4",
            "    64.0 MiB    64.0 MiB    64.0 MiB    64.0 MiB  HAL CANN@RUNTIME",
            "    20.0 MiB    20.0 MiB    21.0 MiB    21.0 MiB  PTA",
            "    16.0 MiB    16.0 MiB    16.0 MiB    16.0 MiB  HAL CANN@HCCL",
        ]
    );
    assert_eq!(
        section(&told, "decomposition of process 31, cpu at the peak (after 0.500 s):"),
        [
            "  HOST: 4.0 MiB in 2 blocks",
            "     4.0 MiB 100.0%      2 blocks  unlabelled",
            "     3.0 MiB  75.0%       1 block    heap",
            "     1.0 MiB  25.0%       1 block    mapping",
        ]
    );
}

#[test]
fn any_moment_can_be_decomposed() {
    let root = recorded(LEAKS);
    for (at, heading, used) in [
        ("step:2", "at the end of step 2 (after 3.500 s):", "20.0 MiB in 1 block"),
        ("step:3", "at the end of step 3 (after 4.500 s):", "21.0 MiB in 2 blocks"),
        ("1.5", "at 1.500 s:", "20.0 MiB in 1 block"),
        ("end", "at the end (after 6.000 s):", "21.0 MiB in 2 blocks"),
    ] {
        let told = text(&["analyze", path(&root), "decompose", &format!("--at={at}")]);
        let lines = section(&told, &format!("decomposition of process 31, npu 0 {heading}"));
        assert!(lines.contains(&format!("  PTA: {used}, 64.0 MiB reserved").as_str()), "{told}");
    }
    refused(&["analyze", path(&root), "decompose", "--at=step:9"], &["never came to step 9", "4 steps"]);
    refused(&["analyze", path(&root), "decompose", "--at=total"], &["no moment", "step:N"]);
    refused(&["analyze", path(&root), "decompose", "--at=peak,end"], &["--at takes two values in 'diff' only"]);
}

#[test]
fn recordings_and_their_files_say_the_same() {
    let root = recorded(LEAKS);
    let of = |path: &str| -> Value {
        let words = ["analyze", path, "fluctuation", "decompose", "--at=step:2", "--json"];
        let document: Value = serde_json::from_str(&text(&words)).unwrap();
        assert_eq!(document["schema"], 1);
        let process = &document["processes"][0];
        serde_json::json!([process["fluctuation"], process["decompose"]])
    };
    let recording = of(path(&root));
    let pools = recording[0]["pools"].as_array().unwrap();
    assert_eq!((pools.len(), &pools[2]["min_gap"]["ratio"]), (3, &62.5.into()));
    assert_eq!(pools[2]["per_step"].as_array().unwrap().len(), 4);
    assert_eq!(pools[2]["balance"]["most_grown"], serde_json::json!({ "step": 3, "bytes": MIB }));
    let npu = &recording[1]["devices"][1];
    assert_eq!((&npu["at"]["driver_bytes"], &npu["at"]["pool_bytes"]), (&(80 * MIB).into(), &(64 * MIB).into()));
    assert_eq!(npu["steps"][2]["pools"][1]["owners"][0]["bytes"], 21 * MIB);
    for format in ["csv", "db"] {
        let files = tempfile::tempdir().unwrap();
        text(&["export", path(&root), &format!("--format={format}"), "--output", path(&files)]);
        assert_eq!(of(path(&files)), recording, "{format}");
    }
}

/// Files do not say when recording began, and give each row a time of its own.
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

#[test]
fn so_they_do_where_blocks_are_replaced_or_cut_and_tracing_starts_and_stops() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    spool.config("cpu=1;npu=ffffffff;mode=1;dir=/tmp");
    let lane = spool.lane(1);
    let (workspace, ms) = (Space::PtaWorkspace, 1_000_000);
    // Alive when tracing starts.
    spool.alloc(lane, ms, 0x1000, 5 * MIB, 0).map(lane, 2 * ms, 0x7f00_0000_0000, 8 * MIB, 0);
    spool.region(lane, 3 * ms, workspace, 0, 0x10_0000, 2 * MIB);
    spool.system(lane, 10 * ms, SystemKind::StartTrace, 0);
    for step in 1..=4u64 {
        let time = (20 + 10 * step) * ms;
        spool.range_start(lane, time, step, "step start");
        // A workspace is told anew at each use, and a mapping becomes smaller from its middle.
        spool.region(lane, time + ms, workspace, 0, 0x10_0000, (2 + step) * MIB);
        spool.unmap(lane, time + 2 * ms, 0x7f00_0010_0000 + step * MIB, MIB, 0);
        if step == 3 {
            spool.system(lane, time + 3 * ms, SystemKind::StopTrace, 0).alloc(
                lane,
                time + 4 * ms,
                0x2_0000_0000,
                MIB,
                0,
            );
            spool.system(lane, time + 5 * ms, SystemKind::StartTrace, 0);
        }
        spool.range_end(lane, time + 8 * ms, step);
    }
    spool.write(&root.path().join("msmemscope_1_20251203091122_ascend")).unwrap();
    let of = |path: &str| -> Value {
        let words = ["analyze", path, "fluctuation", "decompose", "--json"];
        let document: Value = serde_json::from_str(&text(&words)).unwrap();
        let process = &document["processes"][0];
        let mut both = serde_json::json!([process["fluctuation"], process["decompose"]]);
        without_times(&mut both);
        both
    };
    let recording = of(path(&root));
    let step = &recording[0]["pools"][1]["per_step"][1];
    assert_eq!((&step["min_bytes"], &step["max_bytes"]), (&(3 * MIB).into(), &(4 * MIB).into()), "{recording:#}");
    for format in ["csv", "db"] {
        let files = tempfile::tempdir().unwrap();
        text(&["export", path(&root), &format!("--format={format}"), "--output", path(&files)]);
        assert_eq!(of(path(&files)), recording, "{format}");
    }
}

#[test]
fn the_report_of_a_run_has_fluctuation_with_leaks_and_the_decomposition_if_asked_for() {
    let told = text(&["info", path(&recorded(LEAKS))]);
    let tables = told.split("fluctuation within steps of process 31").nth(1).unwrap();
    assert!(tables.contains("npu 0 PTA memory:") && tables.contains("MinGap                   62.5000"), "{told}");
    // What stays level is no news.
    assert!(!tables.contains("HAL memory") && !told.contains("decomposition"), "{told}");
    let told = text(&["info", path(&recorded(DECOMPOSE))]);
    assert!(told.contains("decomposition of process 31, npu 0 at the peak") && !told.contains("MinGap"), "{told}");
}

#[test]
fn without_steps_it_is_said_what_is_compared_instead() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 0, 0x1000, MIB, 0).alloc(lane, 500_000, 0x2000_0000, MIB, 0).free(lane, 500_100, 0x2000_0000, 0);
    spool.free(lane, 1_000_000, 0x1000, 0);
    spool.write(&root.path().join("msmemscope_1_20251203091122_ascend")).unwrap();
    let told = text(&["analyze", path(&root), "fluctuation"]);
    assert!(told.contains("because there are no steps"), "{told}");
    assert!(told.contains("After(s)") && told.contains("MinGap                   50.0000"), "{told}");
    refused(&["analyze", path(&root), "decompose", "--at=step:1"], &["it has no steps"]);
    refused(&["analyze", path(&root), "decompose", "--at=main"], &["when main returned is not known"]);
}

#[test]
fn a_recording_without_memory_says_so() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.mark(lane, 1, "hello");
    spool.write(&root.path().join("msmemscope_1_20251203091122_ascend")).unwrap();
    for analysis in ["fluctuation", "decompose"] {
        refused(&["analyze", path(&root), analysis], &["there is no allocation in it", "--events=alloc,free"]);
    }
}

//! `top`, `tree`, `flamegraph` and `diff` on recordings made to order.

use crate::command_line::{refused, run, text};
use memscope_testkit::{LaneNumber, Space, SpoolBuilder, SystemKind};
use std::path::Path;

const TORCH: &str = "/opt/lib/python3.11/site-packages/torch/nn.py";
const MIB: u64 = 1 << 20;

/// A training: 20 MiB of a model, `kept` MiB kept by each of two steps, 5 MiB given back by each; and a larger pool of a
/// device.
fn training(root: &Path, pid: u32, kept: u64) {
    let mut spool = SpoolBuilder::new();
    spool
        .process(pid, 1)
        .command("/usr/bin/python3", "python3 train.py")
        .config("c=0;py=20;cpu=1;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(pid);
    spool.code(lane, 0, "/me/train.py", "<module>", 1).code(lane, 1, "/me/train.py", "step", 7);
    spool.code(lane, 2, TORCH, "Linear.forward", 70).code(lane, 3, "/me/train.py", "load", 3);
    for (node, parent, code) in [(1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 1, 3)] {
        spool.python_node(lane, node, parent, code, 0);
    }
    spool.alloc(lane, 1_000_000_000, 0x100_0000, 20 * MIB, 4);
    spool.device_alloc(lane, 1_100_000_000, Space::PtaCaching, 2, 0x1000, 40 * MIB, 0, 4);
    for step in 1..=2u64 {
        let time = step * 2_000_000_000;
        spool.alloc(lane, time, 0x10_0000_0000 * step, kept * MIB, 2);
        spool.alloc(lane, time + 1, 0x5000_0000, 5 * MIB, 3).free(lane, time + 2, 0x5000_0000, 0);
        spool.system(lane, time + 3, SystemKind::Step, step);
    }
    spool.write(&root.join(format!("msmemscope_{pid}_20251203091122_ascend"))).unwrap();
}

fn recorded(kept: u64) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    training(root.path(), 31, kept);
    root
}

fn path(root: &tempfile::TempDir) -> &str {
    root.path().to_str().unwrap()
}

#[test]
fn top_lists_functions_and_call_sites() {
    let root = recorded(1);
    assert_eq!(
        text(&["top", path(&root), "--device=cpu"]),
        "process 31 python3 train.py, cpu HOST at the peak (after 4.000 s): 27.0 MiB in 4 blocks
  inclusive            own           function
   27.0 MiB 100.0%        0 B   0.0%  /me/train.py: <module>
   20.0 MiB  74.1%   20.0 MiB  74.1%  /me/train.py: load
    7.0 MiB  25.9%    2.0 MiB   7.4%  /me/train.py: step
    5.0 MiB  18.5%    5.0 MiB  18.5%  /opt/lib/python3.11/site-packages/torch/nn.py: Linear.forward

by call site:
    20.0 MiB  74.1%       1 block  /me/train.py: load < /me/train.py: <module>
     7.0 MiB  25.9%      3 blocks  /me/train.py: step < /me/train.py: <module> \\
[/opt/lib/python3.11/site-packages/torch/nn.py: Linear.forward]
"
        .replace("\\\n", "")
    );
    let own = text(&["top", path(&root), "--pool=host", "--sort", "own", "--rows=2"]);
    let order: Vec<&str> = own.lines().skip(2).take(2).map(|line| line.rsplit(": ").next().unwrap()).collect();
    assert_eq!(order, ["load", "Linear.forward"], "{own}");
}

#[test]
fn the_pool_with_the_highest_peak_is_shown_unless_another_is_chosen() {
    let root = recorded(1);
    assert!(
        text(&["top", path(&root)])
            .starts_with("process 31 python3 train.py, npu 2 PTA at the peak (after 1.100 s): 40.0 MiB")
    );
    assert!(text(&["top", path(&root), "--device=npu:2"]).contains(", npu 2 PTA at"));
    refused(&["top", path(&root), "--device=npu:3"], &["no event of npu 3", "cpu HOST, npu 2 PTA"]);
    refused(&["top", path(&root), "--pool=ATB"], &["no event of ATB"]);
}

#[test]
fn every_moment_can_be_asked_about() {
    let root = recorded(1);
    let total = |at: &str| {
        let text = text(&["top", path(&root), "--device=cpu", &format!("--at={at}")]);
        text.lines().next().unwrap().split("cpu HOST ").nth(1).unwrap().to_owned()
    };
    assert_eq!(total("end"), "at the end (after 4.000 s): 22.0 MiB in 3 blocks");
    assert_eq!(total("step:1"), "at the end of step 1 (after 2.000 s): 21.0 MiB in 2 blocks");
    assert_eq!(total("step:2"), "at the end of step 2 (after 4.000 s): 22.0 MiB in 3 blocks");
    assert_eq!(total("1.5"), "at 1.500 s: 20.0 MiB in 1 block");
    assert_eq!(total("1500ms"), "at 1.500 s: 20.0 MiB in 1 block");
    assert_eq!(total("total"), "allocated in all: 32.0 MiB in 5 blocks");
    refused(&["top", path(&root), "--at=step:9"], &["never came to step 9", "3 steps"]);
    refused(&["top", path(&root), "--at=yesterday"], &["bad value 'yesterday' for --at", "peak, end"]);
}

#[test]
fn the_tree_shows_who_called_whom() {
    let root = recorded(1);
    assert_eq!(
        text(&["tree", path(&root), "--device=cpu", "--min=10"]),
        "process 31 python3 train.py, cpu HOST at the peak (after 4.000 s): 27.0 MiB in 4 blocks
   27.0 MiB 100.0%  all
   27.0 MiB 100.0%  /me/train.py: <module>
   20.0 MiB  74.1%    /me/train.py: load
    7.0 MiB  25.9%    /me/train.py: step
    5.0 MiB  18.5%    /opt/lib/python3.11/site-packages/torch/nn.py: Linear.forward
"
    );
}

#[test]
fn diff_ranks_what_grew_between_runs_processes_and_moments() {
    let (before, after) = (recorded(1), recorded(4));
    let told = text(&["diff", path(&before), path(&after), "--device=cpu"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[2], "difference: +6.0 MiB", "{told}");
    assert_eq!(
        lines[3],
        "    +6.0 MiB     +0 blocks     7.0 MiB → 13.0 MiB    /me/train.py: step < /me/train.py: <module>"
    );
    assert_eq!(lines.len(), 4, "{told}");
    let moments = text(&["diff", path(&after), "--at=step:1,step:2", "--device=cpu"]);
    assert!(moments.contains("    +4.0 MiB      +1 block     4.0 MiB → 8.0 MiB     /me/train.py: step"), "{moments}");
    training(before.path(), 32, 7);
    let processes = text(&["diff", path(&before), "--pid=32,31", "--device=cpu"]);
    assert!(processes.contains("difference: -12.0 MiB"), "{processes}");
    refused(&["diff", path(&before)], &["two directories", "only one was given"]);
    refused(&["diff", path(&before), "--pid=32,99"], &["process 99", "31, 32"]);
    refused(&["top", path(&before), "--at=peak,end"], &["'diff' only"]);
}

#[test]
fn json_has_the_same_numbers() {
    let root = recorded(1);
    let top: serde_json::Value = serde_json::from_str(&text(&["top", path(&root), "--device=cpu", "--json"])).unwrap();
    assert_eq!((&top["schema"], &top["of"]["bytes"]), (&1.into(), &(27 * MIB).into()));
    assert_eq!(top["functions"][1]["function"], "load");
    assert_eq!(top["functions"][1]["own"]["bytes"], 20 * MIB);
    assert_eq!(top["sites"][1]["via"]["function"], "Linear.forward");
    let tree: serde_json::Value =
        serde_json::from_str(&text(&["tree", path(&root), "--device=cpu", "--json"])).unwrap();
    assert_eq!(tree["tree"]["children"][0]["children"][0]["function"], "load");
    let diff: serde_json::Value =
        serde_json::from_str(&text(&["diff", path(&root), "--at=1.5,end", "--json", "--device=cpu"])).unwrap();
    assert_eq!((&diff["bytes"], &diff["sites"][0]["bytes"]), (&(2 * MIB).into(), &(2 * MIB).into()));
}

#[test]
fn a_flame_graph_is_written_in_each_format() {
    let root = recorded(1);
    let file = root.path().join("graph.svg");
    let output = run(&["flamegraph", path(&root), "--device=cpu", "-o", file.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.contains("Linear.forward") && svg.ends_with("</svg>\n"));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2, "nothing is left beside it");
    assert_eq!(
        text(&["flamegraph", path(&root), "--device=cpu", "--format=collapsed", "-o", "-"]),
        "/me/train.py: <module>;/me/train.py: load 20971520\n\
         /me/train.py: <module>;/me/train.py: step 2097152\n\
         /me/train.py: <module>;/me/train.py: step;/opt/lib/python3.11/site-packages/torch/nn.py: Linear.forward 5242880\n"
    );
    let speedscope = text(&["--format", "speedscope", "flamegraph", path(&root), "--device=cpu", "--output=-"]);
    let speedscope: serde_json::Value = serde_json::from_str(&speedscope).unwrap();
    assert_eq!(speedscope["profiles"][0]["unit"], "bytes");
    assert_eq!(speedscope["profiles"][0]["endValue"], 27 * MIB);
    refused(
        &["flamegraph", path(&root), "--format=csv"],
        &["bad value 'csv' for --format", "svg, collapsed, speedscope"],
    );
    let svg = text(&["diff", path(&root), "--at=1.5,end", "--device=cpu", "--svg", "-o", "-"]);
    assert!(svg.contains("class=\"frame grown"), "{svg}");
}

#[test]
fn without_stacks_one_is_told_how_to_get_them() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(4711);
    spool.alloc(lane, 1, 0x5000, 64, 0);
    spool.write(&root.path().join("msmemscope_4711_20251203091122_ascend")).unwrap();
    let output = run(&["top", path(&root)]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("(no call stack)") && !text.contains("function"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--call-stack=c,python"));
    let empty = tempfile::tempdir().unwrap();
    refused(&["top", path(&empty)], &["there is no recording in"]);
}

#[test]
fn a_mistyped_command_is_not_run_as_a_program() {
    let root = recorded(1);
    refused(&["tpo", path(&root)], &["no command 'tpo'", "did you mean 'top'", "msmemscope -- 'tpo'"]);
    refused(
        &["leaks", path(&root)],
        &["'leaks' is an analysis", "msmemscope analyze ", " leaks. ", "msmemscope -- 'leaks'"],
    );
    refused(&["flamegrap", "--at=end", path(&root)], &["did you mean 'flamegraph'"]);
    refused(&["top", "/nowhere"], &["'/nowhere' is no directory", "with -- before it"]);
    refused(
        &["--at=peak", "true"],
        &["--at belongs to a command that reads a recording", "top, tree, flamegraph, diff"],
    );
    // Without a recording behind it, it is a program like any other.
    let output = run(&["tpo", "/"]);
    assert_eq!(output.status.code(), Some(127), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_modules_hold_until_the_interpreter_ends_is_told() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    spool.process(31, 1).command("/usr/bin/python3", "python3 train.py").config("c=0;py=20;cpu=1;dir=/tmp");
    let lane = spool.lane(31);
    spool.code(lane, 0, "/me/train.py", "<module>", 1).code(lane, 1, "/me/train.py", "fill", 7);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
    let shown = |spool: &mut SpoolBuilder, lane: LaneNumber| {
        spool.alloc(lane, 10, 0x1000_0000, 9 * MIB, 2);
        spool.alloc(lane, 20, 0x2000_0000, 3 * MIB, 2).free(lane, 30, 0x2000_0000, 0);
        // The interpreter takes itself apart.
        spool.alloc(lane, 40, 0x3000_0000, 4096, 0).free(lane, 50, 0x1000_0000, 0).free(lane, 60, 0x3000_0000, 0);
    };
    shown(&mut spool, lane);
    spool.write(&root.path().join("msmemscope_31_20251203091122_ascend")).unwrap();
    let info = text(&["info", path(&root)]);
    assert!(
        info.contains("alive when main returned of process 31, cpu HOST: 9.0 MiB in 1 block; at the end 0 B"),
        "{info}"
    );
    // A larger process beside it that knows no such moment.
    let mut other = SpoolBuilder::new();
    other.process(32, 1).command("/usr/bin/sort", "sort");
    let lane = other.lane(32);
    other.alloc(lane, 1, 0x1000_0000, 90 * MIB, 0);
    other.write(&root.path().join("msmemscope_32_20251203091122_ascend")).unwrap();
    assert!(text(&["top", path(&root)]).starts_with("process 32 sort"));
    let top = text(&["top", path(&root), "--at=main"]);
    assert!(
        top.starts_with("process 31 python3 train.py, cpu HOST when main returned (after 0.000 s): 9.0 MiB"),
        "{top}"
    );
}

#[test]
fn dump_files_tell_the_same_as_the_recording() {
    let root = recorded(1);
    let functions = |path: &str, at: &str| {
        let top = text(&["top", path, "--device=cpu", "--json", &format!("--at={at}")]);
        let top: serde_json::Value = serde_json::from_str(&top).unwrap();
        (top["of"]["bytes"].clone(), top["functions"].clone(), top["sites"].clone())
    };
    for (format, ending) in [("csv", ".csv"), ("db", ".db")] {
        assert!(run(&["export", path(&root), "--format", format, "-q"]).status.success());
        let dump = root.path().join("msmemscope_31_20251203091122_ascend/device_cpu/dump");
        let file = std::fs::read_dir(&dump)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|file| {
                let name = file.file_name().unwrap().to_string_lossy();
                name.contains("_dump_") && name.ends_with(ending)
            })
            .unwrap();
        for at in ["peak", "end", "main"] {
            assert_eq!(functions(file.to_str().unwrap(), at), functions(path(&root), at), "{format} {at}");
        }
    }
    let text_file = root.path().join("notes.txt");
    std::fs::write(&text_file, "x\n").unwrap();
    refused(&["top", text_file.to_str().unwrap()], &["notes.txt"]);
}

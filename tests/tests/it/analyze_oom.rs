//! What is said of real programs that ran out of memory.
use memscope_tests::{Recording, Workshop, command, finish, python, root_for};
use serde_json::Value;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io};

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the command can be started"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What `analyze` says of everything at `path`, of the one process that was refused memory or killed.
fn analyzed(path: &Path) -> Value {
    let output = run(command().arg("analyze").arg(path).args(["oom:3", "--json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let processes = document["processes"].as_array().expect("a list").clone();
    let is_told = |process: &&Value| process["oom"]["count"] != 0 || !process["oom"]["killed"].is_null();
    let told: Vec<&Value> = processes.iter().filter(is_told).collect();
    assert_eq!(told.len(), 1, "{processes:#?}");
    told[0]["oom"].clone()
}

fn first_frame(site: &Value) -> &str {
    site["frames"][0].as_str().unwrap_or("")
}

/// The same of the csv or db files of a run, and of nothing else.
fn of_files(output: &Path) -> Value {
    for entry in fs::read_dir(output).expect("the output is there").flatten() {
        let spool = entry.path().join("spool");
        if spool.is_dir() {
            fs::rename(&spool, entry.path().join("spool_aside")).expect("it is ours");
        }
    }
    analyzed(output)
}

/// Without what a row has no place for to the nanosecond, or at all.
fn timeless(mut oom: Value) -> Value {
    fn forget(value: &mut Value) {
        match value {
            Value::Object(object) => {
                let is_kept =
                    |key: &str| !key.ends_with("_ns") && !["history", "stack", "via", "handled"].contains(&key);
                object.retain(|key, _| is_kept(key));
                object.values_mut().for_each(forget);
            }
            Value::Array(array) => array.iter_mut().for_each(forget),
            _ => {}
        }
    }
    forget(&mut oom);
    oom
}

#[test]
fn each_function_that_refuses_host_memory_is_told_with_size_and_call_site() {
    let workshop = Workshop::new();
    let program = workshop.compile("exhausted.c");
    for format in ["csv", "db"] {
        let output = workshop.path(format);
        let recorded = run(command()
            .args(["--device=cpu", "--call-stack=c", "--analysis=oom:3"])
            .arg(format!("--data-format={format}"))
            .arg("-o")
            .arg(&output)
            .arg("--")
            .arg(&program)
            .arg("limit"));
        assert_eq!(
            (recorded.status.code(), text(&recorded.stderr).contains("none lost")),
            (Some(0), true),
            "{recorded:?}"
        );
        let blocks: u64 = text(&recorded.stdout).split(' ').next().unwrap().parse().unwrap();
        let found = analyzed(&output);
        let ooms = found["ooms"].as_array().unwrap();
        let calls: Vec<&str> = ooms.iter().map(|oom| oom["call"].as_str().unwrap()).collect();
        let expected = [
            "malloc",
            "malloc",
            "calloc",
            "calloc",
            "realloc",
            "reallocarray",
            "posix_memalign",
            "aligned_alloc",
            "memalign",
            "valloc",
            "pvalloc",
            "mmap",
            "mremap",
        ];
        assert_eq!(calls, expected);
        let size = |number: u64| (1u64 << 40) + (number << 20);
        let sizes: Vec<u64> = ooms.iter().map(|oom| oom["bytes"].as_u64().unwrap()).collect();
        let expected: Vec<u64> = [4 << 20, size(0), size(1), u64::MAX].into_iter().chain((2..11).map(size)).collect();
        assert_eq!(sizes, expected);
        let first = &ooms[0];
        assert!(first_frame(&first["site"]).starts_with("fill at "), "{first:#}");
        assert!(ooms[1..].iter().all(|oom| first_frame(&oom["site"]).starts_with("main at ")), "{ooms:#?}");
        let host = &first["pools"][0];
        assert_eq!((host["pool"].as_str(), host["used"].as_u64()), (Some("HOST"), Some(blocks * (4 << 20))));
        assert!(first_frame(&host["sites"][0]).starts_with("fill at "), "{host:#}");
        assert_eq!(
            (host["largest"].as_array().unwrap().len(), host["newest"][0]["bytes"].as_u64()),
            (3, Some(4 << 20))
        );
        assert!(!host["history"].as_array().unwrap().is_empty());
        assert_eq!((first["then"].as_str(), ooms[12]["then"].as_str()), (Some("refused_again"), Some("given_less")));
        // What the run itself says, in words.
        let told = text(&recorded.stderr);
        assert_eq!(told.matches("OUT OF MEMORY in process").count(), 13, "{told}");
        assert!(told.contains("cpu refused 4.0 MiB after ") && told.contains("largest blocks of cpu HOST:"), "{told}");
        assert_eq!(timeless(of_files(&output)), timeless(found), "{format}");
    }
}

#[test]
fn the_rows_of_a_refusal_are_snapshots_the_request_and_the_blocks_that_were_alive() {
    let workshop = Workshop::new();
    let program = workshop.compile("exhausted.c");
    let output = workshop.path("output");
    let recorded = run(command()
        .args(["--device=cpu", "--call-stack=c", "--analysis=oom:2", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .arg("abort"));
    assert_eq!(recorded.status.signal(), Some(6), "{recorded:?}");
    let recording = Recording::open(&output, recorded);
    let dumps = recording.only().directory.join("device_cpu/dump");
    let file =
        fs::read_dir(dumps).unwrap().flatten().find(|file| file.file_name().to_string_lossy().contains("_dump_"));
    let rows = fs::read_to_string(file.unwrap().path()).unwrap();
    let kinds: Vec<String> = rows
        .lines()
        .map(|row| row.split(',').skip(1).take(3).collect::<Vec<_>>().join(","))
        .skip_while(|kind| !kind.starts_with("SNAPSHOT"))
        .collect();
    assert_eq!(
        kinds,
        [
            "SNAPSHOT,SNAPSHOT,OOM_Snapshot",
            "OOM_DETAIL,OOM_TRIGGER,OOM_Trigger",
            "OOM_DETAIL,OOM_RECENT_ALLOC,OOM_RecentAlloc",
            "OOM_DETAIL,OOM_RECENT_ALLOC,OOM_RecentAlloc",
            "OOM_DETAIL,OOM_TOP_ALLOC,OOM_TopAlloc",
            "OOM_DETAIL,OOM_TOP_ALLOC,OOM_TopAlloc",
            "SNAPSHOT,SNAPSHOT,OOM_Snapshot_After",
        ]
    );
}

#[test]
fn a_program_that_dies_right_after_has_its_report_all_the_same() {
    let workshop = Workshop::new();
    let program = workshop.compile("exhausted.c");
    for (how, signal) in [("abort", 6), ("kill", 9)] {
        let output = workshop.path(how);
        let recorded =
            run(command().args(["--device=cpu", "--call-stack=c", "-o"]).arg(&output).arg("--").arg(&program).arg(how));
        assert_eq!(recorded.status.signal(), Some(signal), "{recorded:?}");
        let told = text(&recorded.stderr);
        assert!(told.contains("cpu refused 4.0 MiB after ") && !told.contains("killed by the kernel"), "{told}");
        let found = analyzed(&output);
        assert_eq!((found["count"].as_u64(), found["ooms"][0]["then"].as_str()), (Some(1), Some("asked_no_more")));
        assert!(found["killed"].is_null(), "nobody but itself: {found:#}");
        assert!(first_frame(&found["ooms"][0]["pools"][0]["sites"][0]).starts_with("fill at "), "{found:#}");
    }
}

#[test]
fn the_memory_error_of_python_is_told_with_its_line() {
    let workshop = Workshop::new();
    let output = workshop.path("output");
    let script = workshop.script("exhausted.py");
    let interpreter = python();
    let recorded = run(command()
        .args(["--device=cpu", "--call-stack=python,c", "-o"])
        .arg(&output)
        .arg("--")
        .arg(interpreter.get_program())
        .arg(&script));
    assert!(recorded.status.success(), "{recorded:?}");
    let blocks: u64 = text(&recorded.stdout).trim().parse().unwrap();
    let found = analyzed(&output);
    let ooms = found["ooms"].as_array().unwrap();
    // An arena that Python was refused in between and did without is none of these.
    let large: Vec<&Value> = ooms.iter().filter(|oom| oom["bytes"].as_u64().unwrap() >= 16 << 20).collect();
    let lines: Vec<&str> = large.iter().map(|oom| first_frame(&oom["site"])).collect();
    assert!(lines[0].ends_with("exhausted.py(11): keep_until_refused"), "{lines:?}");
    assert!(lines[1].ends_with("exhausted.py(15): ask_for_too_much"), "{lines:?}");
    assert_eq!(lines.len(), 2);
    for oom in large {
        let holder = &oom["pools"][0]["sites"][0];
        assert!(first_frame(holder).ends_with("exhausted.py(11): keep_until_refused"), "{holder:#}");
        assert!(holder["bytes"].as_u64().unwrap() >= blocks * (16 << 20), "{holder:#}");
    }
}

/// A control group of this test, with a limit of memory; gone when dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Below the group of this process: `None`, and said so, where that cannot be had.
    fn new(limit: u64) -> Option<ControlGroup> {
        let made = ControlGroup::try_new(limit);
        if let Err(why) = &made {
            let _ = writeln!(io::stderr(), "SKIPPED a_process_that_the_kernel_killed: no control group: {why}");
        }
        made.ok()
    }

    fn try_new(limit: u64) -> io::Result<ControlGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let path_of = |controller: &str| {
            groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let (of, path) = (fields.next()?, fields.next()?);
                of.split(',').any(|of| of == controller).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let name = format!("msmemscope_test_{}", std::process::id());
        let (directory, file) = match (path_of("memory"), path_of("")) {
            (Some(path), _) => (Path::new("/sys/fs/cgroup/memory").join(path), "memory.limit_in_bytes"),
            (None, Some(path)) => (Path::new("/sys/fs/cgroup").join(path), "memory.max"),
            (None, None) => return Err(io::Error::other("no controller of memory")),
        };
        let group = directory.join(name);
        fs::create_dir(&group)?;
        let group = ControlGroup(group);
        fs::write(group.0.join(file), limit.to_string())?;
        Ok(group)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Empty as soon as its last process is waited for; the kernel may take a moment for the rest.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_that_the_kernel_killed_for_want_of_memory_is_told_with_what_it_held() {
    if !root_for("make a control group") {
        return;
    }
    let Some(group) = ControlGroup::new(96 << 20) else { return };
    let workshop = Workshop::new();
    let program = workshop.compile("exhausted.c");
    let output = workshop.path("output");
    let staged = command();
    // The shell goes into the group, and becomes the command.
    let recorded = run(Command::new("sh")
        .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
        .arg(&group.0)
        .arg(staged.get_program())
        .args(["--device=cpu", "--call-stack=c", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .arg("hoard"));
    let told = text(&recorded.stderr);
    assert_eq!(recorded.status.signal(), Some(9), "{recorded:?}");
    assert!(told.contains("killed by the kernel for want of memory"), "{told}");
    let found = analyzed(&output);
    let killed = &found["killed"];
    // The log of the kernel is not there for everybody.
    assert!(["certain", "likely"].contains(&killed["certainty"].as_str().unwrap()), "{killed:#}");
    assert_eq!(killed["killed"].as_u64(), Some(1));
    let host = &killed["pools"][0];
    assert!(first_frame(&host["sites"][0]).starts_with("hoard at "), "{host:#}");
    assert!(host["used"].as_u64().unwrap() >= 64 << 20, "{host:#}");
    // `info` says the same later.
    let info = run(command().arg("info").arg(&output));
    assert!(text(&info.stdout).contains("killed by the kernel for want of memory"), "{}", text(&info.stdout));
}

#[test]
fn analyze_fails_on_an_out_of_memory_only_if_there_was_one_that_the_program_did_not_survive() {
    let workshop = Workshop::new();
    let exhausted = workshop.compile("exhausted.c");
    let ordinary = workshop.compile("frames.c");
    // What a program provokes, handles and ends well with is told, but is not what is to be failed on.
    for (program, argument, status) in [(&exhausted, "abort", 1), (&ordinary, "", 0), (&exhausted, "limit", 0)] {
        let output = workshop.path(&format!("output{argument}"));
        run(command().args(["--device=cpu", "-o"]).arg(&output).arg("--").arg(program).arg(argument));
        let analyzed = run(command().arg("analyze").arg(&output).arg("--fail-on=oom"));
        assert_eq!(analyzed.status.code(), Some(status), "{analyzed:?}");
    }
}

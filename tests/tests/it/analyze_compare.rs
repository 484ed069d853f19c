//! `--compare` on recordings of a real program, and on files as the existing tool writes them.
use memscope_tests::{Workshop, command, finish};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

const HEADINGS: [&str; 2] =
    [",,,Base,Compare", "Event,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)"];

fn run(words: &[&str]) -> Output {
    let mut command = command();
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the command can be started"))
}

struct Compared {
    text: String,
    messages: String,
    /// Of the one file that was written, without its headings.
    rows: Vec<String>,
}

fn compared(workshop: &Workshop, words: &[&str]) -> Compared {
    let output_dir = tempfile_in(workshop);
    let output = format!("--output={}", output_dir.display());
    let done = run(&[&["--compare", &output], words].concat());
    let messages = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{words:?}: {messages}");
    let files: Vec<PathBuf> =
        fs::read_dir(output_dir.join("compare")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let name = files[0].file_name().unwrap().to_str().unwrap();
    let time = name.strip_prefix("memory_compare_").and_then(|name| name.strip_suffix(".csv")).unwrap();
    assert!(time.len() == 14 && time.bytes().all(|byte| byte.is_ascii_digit()), "{name}");
    let written = fs::read_to_string(&files[0]).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines[..2], HEADINGS);
    let rows = lines[2..].iter().map(|line| (*line).to_owned()).collect();
    Compared { text: String::from_utf8_lossy(&done.stdout).into_owned(), messages, rows }
}

/// A directory that was not there before.
fn tempfile_in(workshop: &Workshop) -> PathBuf {
    (0..).map(|number| workshop.path(&format!("compared-{number}"))).find(|path| !path.exists()).unwrap()
}

/// One line, status 2, and nothing was written.
fn refused(workshop: &Workshop, words: &[&str], parts: &[&str]) {
    let output_dir = tempfile_in(workshop);
    let output = format!("--output={}", output_dir.display());
    let done = run(&[&["--compare", &output], words].concat());
    let messages = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{words:?}: {messages}");
    assert_eq!(messages.lines().count(), 1, "{words:?}: {messages}");
    assert!(done.stdout.is_empty() && !output_dir.exists(), "{words:?}");
    for part in parts {
        assert!(messages.contains(part), "{words:?}: {part} is missing in {messages}");
    }
}

fn input(paths: &[&Path]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("--input={}", paths.join(","))
}

/// Records `training` and exports it in both forms besides; the recording, the csv and the db.
fn trained(workshop: &Workshop, name: &str, arguments: [&str; 2]) -> [PathBuf; 3] {
    let library = workshop.compile_library("cann.c", "libascend_hal.so", &["-Wl,-soname,libascend_hal.so"]);
    let directory = library.parent().unwrap().display().to_string();
    let (library, search) = (library.display().to_string(), format!("-Wl,-rpath,{directory}"));
    let program = workshop.compile_as("training.c", "training", &[&library, &search, "-ldl"]);
    let recording = workshop.path(name);
    let mut record = command();
    record.args(["--level=kernel", "--call-stack=c", "--data-format=none", "-o"]).arg(&recording).arg("--");
    record.arg(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(record.spawn().unwrap());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let exports = ["csv", "db"].map(|format| {
        let directory = workshop.path(&format!("{name}-{format}"));
        let (format, output) = (format!("--format={format}"), format!("--output={}", directory.display()));
        let done = run(&["export", recording.to_str().unwrap(), &format, &output]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        directory
    });
    let [csv, db] = exports;
    [recording, csv, db]
}

/// What three kernels of a step take, the second of which keeps so much.
fn of_step(kept: i64) -> [i64; 3] {
    [4096, 8192 + kept, -12288]
}

#[test]
fn a_recorded_program_is_compared_with_another_run_of_it_whatever_form_it_has() {
    let workshop = Workshop::new();
    let base = trained(&workshop, "base", ["4", "0"]);
    let more = trained(&workshop, "more", ["5", "65536"]);
    let expected: Vec<String> = (1..=5)
        .flat_map(|step| (0..3).map(move |kernel| (step, kernel)))
        .map(|(step, kernel)| {
            // What was there before is the first kernel's.
            let before = if (step, kernel) == (1, 0) { 1 << 20 } else { 0 };
            let compared = before + of_step(if step >= 3 { 65536 } else { 0 })[kernel];
            let base = before + of_step(0)[kernel];
            match step {
                5 => format!("KERNEL_LAUNCH,N/A,0,N/A,{compared},{compared}"),
                _ => format!("KERNEL_LAUNCH,N/A,0,{base},{compared},{}", compared - base),
            }
        })
        .collect();
    for one in &base {
        for other in &more {
            let found = compared(&workshop, &[&input(&[one, other]), "--level=kernel"]);
            assert_eq!(found.rows, expected, "{one:?} {other:?}");
            assert!(found.text.contains("difference: +192.0 KiB"), "{}", found.text);
            assert!(
                found.text.contains("12 → 15, 12 together, 0 only in the base, 3 only in the compared"),
                "{}",
                found.text
            );
            let site =
                found.text.lines().find(|line| line.contains("< keep at ")).unwrap_or_else(|| panic!("{}", found.text));
            assert!(site.contains("+192.0 KiB") && site.contains("+3 blocks"), "{site}");
            assert!(found.messages.contains("written: "), "{}", found.messages);
        }
    }
}

#[test]
fn two_steps_of_one_run_are_compared() {
    let workshop = Workshop::new();
    for form in trained(&workshop, "run", ["4", "1024"]) {
        let found = compared(&workshop, &[&input(&[&form]), "--level=kernel", "--steps=2,3", "--json"]);
        assert_eq!(
            found.rows,
            [
                "KERNEL_LAUNCH,N/A,0,4096,4096,0",
                "KERNEL_LAUNCH,N/A,0,8192,9216,1024",
                "KERNEL_LAUNCH,N/A,0,-12288,-12288,0"
            ]
        );
        let json = found.text.split_whitespace().collect::<String>();
        for part in
            ["\"schema\":1", "\"step\":2", "\"step\":3", "\"bytes\":{\"base\":0,\"compared\":1024,\"difference\":1024}"]
        {
            assert!(json.contains(part), "{part} is missing in {}", found.text);
        }
        refused(&workshop, &[&input(&[&form]), "--level=kernel", "--steps=2,9"], &["step 9", "5 steps"]);
        refused(&workshop, &[&input(&[&form]), "--level=kernel", "--steps=2"], &["--steps=BASE,COMPARE"]);
        refused(&workshop, &[&input(&[&form]), "--level=op", "--steps=2,3"], &["no operator in step 2"]);
    }
}

const COLUMNS: &str =
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)";

/// Rows of a file of the existing tool, whose blocks are written when they end.
struct Dump {
    rows: Vec<String>,
    time: u64,
}

impl Dump {
    fn new() -> Dump {
        Dump { rows: Vec::new(), time: 1_764_753_084_000_000_000 }
    }

    fn row(&mut self, event: &str, kind: &str, name: &str, pointer: &str, rest: &str) -> &mut Dump {
        self.time += 100;
        let id = self.rows.len();
        self.rows.push(format!("{id},{event},{kind},{name},{},31,35,0,{pointer},{rest}", self.time));
        self
    }

    fn operator(&mut self, kind: &str, name: &str) -> &mut Dump {
        self.row("OP_LAUNCH", kind, name, "N/A", ",,")
    }

    fn memory(&mut self, event: &str, block: u64, size: u64, owner: &str) -> &mut Dump {
        let (pointer, stack) = (
            format!("0x{:016x}", 0x12c0_0000_0000 + block * 0x1000),
            "train.py(10): step, \"\"quoted\"\"\n<frozen runpy>(88): _run_code",
        );
        let rest = format!(
            "\"{{allocation_id:{block},addr:{pointer},size:{size},used:{size},total:20971520,owner:{owner}}}\",\"{stack}\",\"libtorch_npu.so(+0x1) [0x7f01]\""
        );
        self.row(event, "PTA", "N/A", &pointer, &rest)
    }

    fn write(&self, file: &Path, order: impl Fn(usize, usize) -> usize) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let number = self.rows.len();
        let rows: Vec<&str> = (0..number).map(|at| self.rows[order(at, number)].as_str()).collect();
        fs::write(file, format!("{COLUMNS}\n{}\n", rows.join("\n"))).unwrap();
    }
}

#[test]
fn files_of_the_existing_tool_are_compared_with_their_stacks_and_in_any_order() {
    let workshop = Workshop::new();
    let mut base = Dump::new();
    base.operator("ATB_START", "Linear")
        .memory("MALLOC", 1, 512, "PTA@weight")
        .operator("ATEN_START", "aten::add.Tensor");
    base.memory("MALLOC", 2, 100, "PTA")
        .operator("ATEN_END", "aten::add.Tensor")
        .memory("FREE", 2, 100, "PTA")
        .operator("ATB_END", "Linear");
    base.operator("ATB_START", "\"Gone, \"\"quoted\"\"\"").operator("ATB_END", "\"Gone, \"\"quoted\"\"\"");
    let mut other = Dump::new();
    // Without its start, which was before the step.
    other.operator("ATEN_END", "aten::early").operator("ATB_START", "Linear").memory("MALLOC", 7, 4096, "PTA@weight");
    other
        .operator("ATEN_START", "aten::add.Tensor")
        .memory("MALLOC", 8, 100, "PTA")
        .operator("ATEN_END", "aten::add.Tensor")
        .operator("ATB_END", "Linear");
    let (file, directory) = (workshop.path("base.csv"), workshop.path("other"));
    base.write(&file, |at, _| at);
    let process = directory.join("msmemscope_77_20251203091122_ascend");
    other.write(&process.join("device_0/dump/memscope_dump_20251203091122.csv"), |at, number| number - 1 - at);
    // A symbolic link is as good as a file.
    let link = workshop.path("link.csv");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for base in [&file, &link] {
        let found = compared(&workshop, &[&input(&[base, &directory])]);
        assert_eq!(
            found.rows,
            [
                "OP_LAUNCH,aten::early,0,N/A,0,0",
                "OP_LAUNCH,aten::add.Tensor,0,100,100,0",
                "OP_LAUNCH,Linear,0,512,4196,3684",
                "OP_LAUNCH,\"Gone, \"\"quoted\"\"\",0,0,N/A,0"
            ]
        );
        for part in ["PTA@weight", "512 B → 4.0 KiB", "by call site:", "train.py(10): step"] {
            assert!(found.text.contains(part), "{part} is missing in\n{}", found.text);
        }
    }
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    let workshop = Workshop::new();
    let [recording, csv, db] = trained(&workshop, "run", ["2", "0"]);
    let both = input(&[&recording, &csv]);
    refused(&workshop, &[&both], &["no operator in", "--level=op"]);
    refused(&workshop, &[&both, "--level="], &["--level=op"]);
    refused(&workshop, &[&input(&[&recording])], &["two inputs"]);
    refused(&workshop, &[&input(&[&recording, &csv, &db])], &["more than two paths"]);
    refused(&workshop, &[], &["--compare needs --input"]);
    let missing = workshop.path("missing");
    refused(&workshop, &[&input(&[&recording, &missing])], &["no such file or directory"]);
    let foreign = workshop.path("foreign.csv");
    fs::write(&foreign, "a,b\n1,2\n").unwrap();
    refused(&workshop, &[&input(&[&recording, &foreign]), "--level=kernel"], &["foreign.csv"]);
    let empty = workshop.directory("empty");
    refused(&workshop, &[&input(&[&empty, &csv]), "--level=kernel"], &["neither a recording nor a csv or db file"]);
    // A database of which a page is missing, or more.
    let whole = find(&db, "db");
    let contents = fs::read(&whole).unwrap();
    for length in [contents.len() / 2, contents.len() - 16384, 5000, 100] {
        fs::write(&whole, &contents[..length]).unwrap();
        refused(&workshop, &[&input(&[&recording, &db]), "--level=kernel"], &["memscope_dump_"]);
    }
}

/// The only file of that kind below a directory.
fn find(directory: &Path, extension: &str) -> PathBuf {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => waiting.push(path),
                Some(found) if found == extension => return path,
                _ => {}
            }
        }
    }
    panic!("no .{extension} in {}", directory.display());
}

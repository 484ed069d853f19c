//! A recording in which every text is hostile, and everything that the command prints of it.
//!
//! A view that is new has to be added to [`views`]: the list is over the table of sub-commands and that of analyses.
use memscope_cli::options::{SUB_COMMANDS, SubCommand};
use memscope_session::analyze::ANALYSES;
use memscope_testkit::watch::{GivenFor, WatchOrigin, WatchSource};
use memscope_testkit::{
    AccessMode, DevAddr, Extended, LabelLevel, LogicalDevice, Phase, Space, SpoolBuilder, StackRef, StopReason,
    SystemKind,
};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;
/// Sets a terminal's title, clears it, paints, goes back in the line, begins a forged one, and turns the direction of writing;
/// C1 has a control sequence of one character.
const OBEYED: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31m<b>\u{8}\r\n[msmemscope] forged\t\u{7f}\u{9b}31m\u{85}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}";

/// A text that is told from the others, and that no terminal should be given.
fn evil(tag: &str) -> String {
    format!("{tag}{OBEYED}")
}

fn is_obeyed(character: char) -> bool {
    let number = u32::from(character);
    let is_control = number < 0x20 || (0x7f..=0x9f).contains(&number);
    let turns = [0x61c, 0x200e, 0x200f, 0x2028, 0x2029].contains(&number)
        || (0x202a..=0x202e).contains(&number)
        || (0x2066..=0x2069).contains(&number);
    is_control && character != '\n' || turns
}

/// Nothing but text and ends of lines, and no line of anybody else's making.
fn assert_clean(what: &dyn std::fmt::Debug, bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("{what:?}: not UTF-8"));
    if let Some(at) = text.find(is_obeyed) {
        let around: String = text[..at].chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("{what:?}: {:?} after {around:?}", text[at..].chars().next());
    }
    assert!(!text.lines().any(|line| line.starts_with("[msmemscope] forged")), "{what:?}: {text}");
    text
}

/// Two steps of a training on the host and a device that ends out of memory, with a watched block, in an output directory
/// whose name is hostile, too.
fn recorded(root: &Path) -> PathBuf {
    let output = root.join(evil("output"));
    let mut spool = SpoolBuilder::new();
    spool
        .process(31, 1)
        .command(&format!("/usr/{}", evil("program")), &format!("{} {}", evil("program"), evil("argument")));
    let watch = evil("watchset").replace(';', ",");
    spool.config(&format!(
        "c=20;py=20;cpu=1;npu=ffffffff;level=3;events=15;dump=15;analysis=15;watch={watch};dir=/tmp/{}",
        evil("dir")
    ));
    spool.stopped(StopReason::WriteFailed, 28);
    let lane = spool.lane(31);
    spool.lose(lane, 3);
    spool.visible_devices(lane, &evil("visible"));
    spool.module(lane, 0, 0x10_0000, format!("/usr/lib/{}", evil("module")).as_bytes(), b"\x01");
    spool.c_node(lane, 9, 0, 0, 0x42);
    spool.code(lane, 0, &format!("/me/{}.py", evil("file")), &evil("outer"), 1);
    spool.code(lane, 1, &format!("/me/{}.py", evil("file")), &evil("inner"), 40);
    spool.code(lane, 2, &format!("/v/site-packages/torch/{}.py", evil("library")), &evil("forward"), 40);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0).python_node(lane, 3, 2, 2, 0);
    spool.aten_name(lane, 0, &evil("aten::empty")).aten_name(lane, 1, &evil("aten::add"));
    spool.kernel_name(lane, 1, &evil("kernel"));
    spool.label_name(lane, 1, &evil("label")).call_name(lane, 1, &evil("call"), &evil("callowner"));
    spool.alloc(lane, 900, 0x90_0000, MIB, 9);
    let look = |spool: &mut SpoolBuilder, ticks: u64, checksum: u64| {
        let record = Extended::WatchLook { watch: 1, given: GivenFor::Nothing, checksum, content: 0 };
        spool.record(lane, ticks, &record);
    };
    for step in 1..=4u64 {
        let ticks = step * 1_000_000;
        spool.range_start(lane, ticks, step, "step start");
        spool.mark(lane, ticks + 1, &evil("mark")).range_start(lane, ticks + 2, 100 + step, &evil("range"));
        spool.snapshot(lane, ticks + 3, 0, &evil("snapshot"));
        spool.label_start(lane, ticks + 4, LabelLevel::User, 1);
        spool.aten_start(lane, ticks + 5, step, 0, 0, 2);
        spool.alloc(lane, ticks + 6, 0x1000_0000 * step, MIB, 3);
        spool.device_alloc(lane, ticks + 7, Space::PtaCaching, 0, step << 32, 4 * MIB, 0, 2);
        spool.aten_end(lane, ticks + 9, step);
        spool.label_end(lane, ticks + 10, LabelLevel::User, 1);
        if step == 1 {
            let begin = Extended::WatchBegin {
                watch: 1,
                origin: WatchOrigin::Program,
                flags: 0,
                device: LogicalDevice(0),
                address: DevAddr(step << 32),
                size: 64,
                output: 0,
                checksum: 1,
                content: 0,
                stack: StackRef::NONE,
                name: evil("watched").as_bytes().to_vec().leak(),
            };
            spool.record(lane, ticks + 11, &begin);
        }
        for (later, phase) in [(12, Phase::Start), (14, Phase::End)] {
            let name: &[u8] = if phase == Phase::Start { evil("watcher").into_bytes().leak() } else { b"" };
            let (source, stack) = (WatchSource::Aten, StackRef { c: 0, python: 2 });
            let moment = Extended::WatchMoment { source, phase, operator: step, kernel: 0, stack, name };
            spool.record(lane, ticks + later, &moment);
            look(&mut spool, ticks + later + 1, step * 100 + later);
        }
        spool.device_alloc(lane, ticks + 19, Space::PtaCaching, 0, (step << 32) + (2 << 30), step * MIB, 0, 1);
        spool.launch(lane, ticks + 20).task(lane, ticks + 21, 0, 5, step as u32, 1);
        for number in 0..4 {
            let begin = ticks + 30 + 5 * number;
            spool.aten_start(lane, begin, 100 * step + number, 0, 1, 1);
            match number {
                2 => spool.device_alloc(
                    lane,
                    begin + 1,
                    Space::PtaCaching,
                    0,
                    (step << 32) + (1 << 30),
                    step * MIB,
                    0,
                    1,
                ),
                _ => spool.aten_access(
                    lane,
                    begin + 1,
                    AccessMode::Write,
                    1,
                    0,
                    ((step << 32) + 64, 4),
                    step << 32,
                    &[1],
                ),
            };
            spool.aten_end(lane, begin + 2, 100 * step + number);
        }
        spool.operator_start(lane, ticks + 60, step, 0, (0, 0), &evil("atbpath"), &evil("atb"), 2);
        spool.kernel(lane, ticks + 61, Phase::Start, 0, &evil("atbkernel")).kernel(
            lane,
            ticks + 62,
            Phase::End,
            0,
            &evil("atbkernel"),
        );
        spool.operator_end(lane, ticks + 63, step);
        spool.range_end(lane, ticks + 90, 100 + step).range_end(lane, ticks + 100, step);
        spool.system(lane, ticks + 101, SystemKind::Step, step);
    }
    spool.out_of_memory(lane, 9_000_000, Space::PtaCaching, 0, 1 << 30, 0, 2);
    let process = output.join("msmemscope_31_20251203091122_ascend");
    spool.write(&process).unwrap();
    // What was not recorded, and a recording that cannot be read.
    let line = format!(
        "77\t0\t/usr/{0}\t{1}\t{1}\n",
        evil("unrecorded").replace(['\t', '\n'], " "),
        evil("why").replace(['\t', '\n'], " ")
    );
    fs::write(output.join("run_1.unrecorded"), line).unwrap();
    let broken = output.join(evil("msmemscope_32_broken")).join("spool");
    fs::create_dir_all(&broken).unwrap();
    for file in ["windows.spool", "events.spool"] {
        fs::write(broken.join(file), "nothing of ours").unwrap();
    }
    output
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// What each sub-command can be asked about a recording, or about its files, and prints.
fn views(command: SubCommand, path: &Path, elsewhere: &Path) -> Vec<Vec<OsString>> {
    let with = |before: &[&str], after: &[&str]| [words(before), vec![path.into()], words(after)].concat();
    let views = |name: &str, options: &[&[&str]]| options.iter().map(|options| with(&[name], options)).collect();
    match command {
        SubCommand::Info => views("info", &[&[], &["--all"]]),
        SubCommand::Top => views("top", &[&[], &["--device=cpu"], &["--at=total", "--sort=own"], &["--json"]]),
        SubCommand::Tree => views("tree", &[&["--min=0"], &["--device=cpu", "--min=0"], &["--json"]]),
        SubCommand::Flamegraph => {
            let kinds = ["svg", "collapsed", "speedscope"].map(|kind| format!("--format={kind}"));
            kinds.iter().map(|kind| with(&["flamegraph"], &[kind, "--file=-"])).collect()
        }
        SubCommand::Diff => views(
            "diff",
            &[&["--at=0.001,end"], &["--at=0.001,end", "--json"], &["--at=0.001,end", "--svg", "--file=-"]],
        ),
        SubCommand::Analyze => {
            let mut all = vec![with(&["analyze"], &[]), with(&["analyze"], &["--json"])];
            all.extend(ANALYSES.iter().map(|row| with(&["analyze"], &[row.word])));
            all.push([with(&["analyze"], &["leaks", "--mstx-info"]), vec![evil("mark").into()]].concat());
            all
        }
        // Where the other commands ask about files, they are what this one wrote.
        SubCommand::Export => {
            let to = |format: &str| {
                [with(&["export"], &["--format", format, "-o"]), vec![elsewhere.join(format).into()]].concat()
            };
            if path.is_dir() { vec![to("csv"), to("db")] } else { Vec::new() }
        }
        // They are not about recordings.
        SubCommand::Completions | SubCommand::ManPage | SubCommand::SideKeeper => Vec::new(),
    }
}

fn run(words: &[OsString]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_msmemscope")).args(words).output().unwrap()
}

/// What was printed on both streams.
fn printed(words: &[OsString]) -> (String, Option<i32>) {
    let output = run(words);
    let text = assert_clean(&words, &output.stdout) + &assert_clean(&words, &output.stderr);
    (text, output.status.code())
}

fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_below(&path, extension)),
            path if path.extension().is_some_and(|known| known == extension) => found.push(path),
            _ => {}
        }
    }
    found
}

#[test]
fn whatever_a_recording_holds_no_view_of_it_makes_a_terminal_obey() {
    let root = tempfile::tempdir().unwrap();
    let output = recorded(root.path());
    let elsewhere = root.path().join(evil("elsewhere"));
    let mut all = String::new();
    let mut ask = |path: &Path| {
        for command in SUB_COMMANDS {
            for view in views(command.id, path, &elsewhere) {
                let (text, status) = printed(&view);
                assert!(text.len() > 40 && status != Some(101), "{view:?}: {status:?} {text}");
                all.push_str(&text);
            }
        }
    };
    ask(&output);
    for extension in ["csv", "db"] {
        let files = files_below(&elsewhere.join(extension), extension);
        let dumps: Vec<&PathBuf> = files
            .iter()
            .filter(|file| file.file_name().unwrap().to_string_lossy().contains("memscope_dump_"))
            .collect();
        assert!(!dumps.is_empty(), "{extension}: {files:?}");
        dumps.into_iter().for_each(|file| ask(file));
    }
    let compare = |more: &[&str]| {
        let inputs = output.as_os_str().to_owned();
        [
            words(&["--compare", "--steps=2,3", "--input"]),
            vec![inputs, "-o".into(), elsewhere.clone().into()],
            words(more),
        ]
        .concat()
    };
    for words in [compare(&["--level=op"]), compare(&["--level=kernel"]), compare(&["--json"])] {
        let (text, status) = printed(&words);
        assert_eq!(status, Some(0), "{words:?}: {text}");
        all.push_str(&text);
    }
    // Each of these came so far, and is shown for what it is.
    let is_shown = |tag: &&str| all.contains(&format!("{tag}\\u{{1b}}]0;owned\\u{{7}}\\u{{1b}}[2J"));
    let tags = [
        "output",
        "program",
        "argument",
        "module",
        "file",
        "outer",
        "inner",
        "library",
        "forward",
        "aten::empty",
        "aten::add",
        "kernel",
        "label",
        "mark",
        "watched",
        "watcher",
        "visible",
        "why",
        "msmemscope_32_broken",
        "elsewhere",
    ];
    // A setting ends at a semicolon.
    assert!(all.contains("--watch=watchset\\u{1b}]0,owned"));
    let unseen: Vec<&str> = tags.into_iter().filter(|tag| !is_shown(tag)).collect();
    assert_eq!(unseen, Vec::<&str>::new(), "{all}");
}

#[test]
fn whatever_is_typed_no_refusal_of_it_makes_a_terminal_obey() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join(evil("no"));
    for command in SUB_COMMANDS {
        for operand in [missing.clone().into_os_string(), evil("no").into(), format!("--{}", evil("no")).into()] {
            let (text, status) = printed(&[command.name.into(), operand.clone()]);
            // Some refuse without saying what.
            let is_told = text.contains("no\\u{1b}]0;owned") || !text.contains("owned");
            assert!(status != Some(0) && is_told, "{} {operand:?}: {text}", command.name);
        }
        for option in command.options().filter(|option| option.value.is_some()) {
            let value = format!("--{}={}", option.names[0], evil("no"));
            let (text, status) = printed(&[command.name.into(), value.clone().into(), missing.clone().into()]);
            assert!(status != Some(0) && text.contains("no\\u{1b}]0;owned"), "{} {value:?}: {text}", command.name);
        }
    }
    for words in [
        vec![OsString::from("--"), missing.clone().into()],
        vec![evil("no").into(), evil("argument").into()],
        vec![format!("--{}", evil("no")).into(), "true".into()],
        vec![format!("--steps={}", evil("no")).into(), "true".into()],
        vec![evil("no").into(), missing.into()],
    ] {
        let (text, status) = printed(&words);
        assert!(status != Some(0) && text.contains("no\\u{1b}]0;owned"), "{words:?}: {text}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

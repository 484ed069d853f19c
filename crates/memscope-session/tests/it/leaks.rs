//! The named report of leaks, of recordings made to order and of the files exported from them.
use memscope_dump::{ExportOptions, Format, Room, export_process};
use memscope_model::Process;
use memscope_session::analyze::leaks::Marks;
use memscope_session::analyze::{Analyzed, Detail, Kind, Lacking, Wishes, analyze, document};
use memscope_session::line::Line;
use memscope_session::views::layout::Layout;
use memscope_symbols::Symbolizer;
use memscope_testkit::{LaneNumber, Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const CONFIG: &str = "c=0;py=20;cpu=1;npu=ffffffff;dump=15;level=3;dir=/tmp";

/// A training script: nodes 3 and 4 are two ways from one line of it into a library, 5 is another line.
fn script(spool: &mut SpoolBuilder) -> LaneNumber {
    spool.process(31, 1).config(CONFIG);
    let lane = spool.lane(31);
    spool.code(lane, 0, "/me/train.py", "<module>", 1).code(lane, 1, "/me/train.py", "keep", 10);
    spool.code(lane, 2, "/me/train.py", "load", 20);
    spool.code(lane, 3, "/v/lib/python3.11/site-packages/torch/nn.py", "zeros", 5);
    spool.code(lane, 4, "/v/lib/python3.11/site-packages/torch/nn.py", "ones", 6);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
    spool.python_node(lane, 3, 2, 3, 0).python_node(lane, 4, 2, 4, 0).python_node(lane, 5, 1, 2, 0);
    lane
}

/// The spool's directory below `root`, as a run names it.
fn written(spool: &mut SpoolBuilder, root: &Path) -> PathBuf {
    let directory = root.join("msmemscope_31_20251203091122_ascend");
    spool.write(&directory).unwrap();
    directory
}

/// Files instead of the spool, in a directory of their own.
fn exported(directory: &Path, root: &Path, format: Format) -> PathBuf {
    let target = root.join(format!("{format:?}")).join(directory.file_name().unwrap());
    std::fs::create_dir_all(&target).unwrap();
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options = ExportOptions::quiet(format, &room, &mut symbolizer);
    export_process(&mut Process::open(directory).unwrap(), &target, options, &mut []).unwrap();
    target
}

fn told(analyzed: &Analyzed) -> Value {
    let document: Value = serde_json::from_str(&document(analyzed)).unwrap();
    let mut of_process = document["processes"][0]["leaks"].clone();
    of_process["leaks"] = document["leaks"].clone();
    of_process
}

fn leaks(path: &Path) -> Value {
    told(&analyze(&[path.to_owned()], &[Kind::Leaks], &Wishes::default(), &mut |_| {}).unwrap())
}

/// Of what was allocated between marks.
fn leaks_between_marks(path: &Path, text: &str, start: usize) -> Analyzed {
    let wishes = Wishes { marks: Some(Marks { text: text.to_owned(), start }), ..Wishes::default() };
    analyze(&[path.to_owned()], &[Kind::Leaks], &wishes, &mut |_| {}).unwrap()
}

fn lines(path: &Path, wishes: &Wishes, detail: Detail) -> String {
    let analyzed = analyze(&[path.to_owned()], &[Kind::Leaks], wishes, &mut |_| {}).unwrap();
    let (_, conclusion) = &analyzed.processes[0].conclusions[0];
    Line::text(&conclusion.as_ref().unwrap().lines(&Layout::default(), detail))
}

/// Twelve steps: a line leaks by two ways in turn, on the device and, slower, in the driver's memory; another line is replaced.
fn leaking(spool: &mut SpoolBuilder) {
    let lane = script(spool);
    for step in 1..=12u64 {
        let (time, address) = (step * 100, 0x10_0000 * step);
        let way = 3 + (step % 2) as u32;
        spool.device_alloc(lane, time, Space::PtaCaching, 0, address, 4096, 0, way);
        spool.device_alloc(lane, time + 1, Space::Driver, 0, 0x1000_0000 + address, 8192, 7, way);
        spool.device_alloc(lane, time + 2, Space::PtaCaching, 0, 0x2000_0000 + address, 512, 0, 5);
        if step > 1 {
            spool.device_free(lane, time + 3, Space::PtaCaching, 0x2000_0000 + address - 0x10_0000, 5);
        }
        spool.system(lane, time + 99, SystemKind::Step, step);
    }
}

#[test]
fn ways_of_one_line_are_one_leak_and_the_pool_comes_before_the_driver() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    leaking(&mut spool);
    let directory = written(&mut spool, root.path());
    let found = leaks(&directory);
    let row = |leak: &Value| {
        json!([
            leak["pool"],
            leak["verdict"],
            leak["bytes"],
            leak["blocks"],
            leak["first_step"],
            leak["last_step"],
            leak["owner"]
        ])
    };
    let rows: Vec<Value> = found["leaks"].as_array().unwrap().iter().map(row).collect();
    let expected = [
        json!(["PTA", "grows", 49152, 12, 1, 12, "PTA"]),
        json!(["HAL", "grows", 98304, 12, 1, 12, "CANN@RUNTIME"]),
        json!(["PTA", "carried", 512, 1, 12, 12, "PTA"]),
    ];
    assert_eq!(rows, expected);
    let first = &found["leaks"][0];
    assert_eq!(first["device"], "0");
    assert_eq!(first["site"], "/me/train.py: keep");
    assert_eq!(first["callers"], json!(["/me/train.py: <module>"]));
    assert_eq!(first["per_step"], json!(vec![4096; 12]));
    assert_eq!(first["live_per_step"], json!((1..=12).map(|step| step * 4096).collect::<Vec<u64>>()));
    assert_eq!(
        first["growth"],
        json!({ "first_step": 6, "last_step": 12, "bytes": 24576, "rises": 6, "bytes_per_step": 4096.0 })
    );
    assert_eq!(
        (first["addresses"][0].as_str(), &first["sizes"][0], &first["steps"][0]),
        (Some("0x100000"), &json!(4096), &json!(1))
    );
    assert_eq!(first["stack"].as_array().unwrap().len(), 3);
    assert_eq!(found["steps"], json!({ "begun": 13, "ended": 12, "per_place": 1 }));
    assert_eq!(found["too_short"], false);
}

#[test]
fn of_a_run_of_no_time_it_is_not_said_that_nothing_grows() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    let lane = script(&mut spool);
    for number in 0..500 {
        spool.alloc(lane, 1000 + number, 0x10_0000 + number * 64, 64, 3);
    }
    let directory = written(&mut spool, root.path());
    assert_eq!(leaks(&directory)["too_short"], true);
    let [full, brief] = [Detail::Full, Detail::Brief].map(|detail| lines(&directory, &Wishes::default(), detail));
    assert!(full.starts_with("leaks: the run is too short to tell what grows;") && !full.contains("nothing"), "{full}");
    assert_eq!(brief, "");
}

/// Whoever looks at the report after a run wants to know, steps or not.
#[test]
fn without_steps_the_report_after_a_run_names_the_line_that_grows_or_says_that_none_does() {
    const MILLISECOND: u64 = 1_000_000;
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    let lane = script(&mut spool);
    for number in 1..=100 {
        spool.alloc(lane, number * MILLISECOND, 0x10_0000 + number * 64, 64, 3);
    }
    let brief = lines(&written(&mut spool, root.path()), &Wishes::default(), Detail::Brief);
    let mut told = brief.lines();
    let headline = told.next().unwrap_or_default();
    assert!(headline.starts_with("leaks: 1 call site grows, over the time of the run"), "{brief}");
    assert!(told.next().is_some_and(|row| row.starts_with("  grows   cpu HOST: 6.2 KiB in 100 blocks")), "{brief}");
    assert!(told.next().is_some_and(|row| row.contains("/me/train.py: keep")), "{brief}");
    assert_eq!(told.next(), None, "{brief}");
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    let lane = script(&mut spool);
    for number in 1..=100 {
        spool.alloc(lane, number * MILLISECOND, 0x1000, 64, 3).free(lane, number * MILLISECOND + 9, 0x1000, 0);
    }
    let brief = lines(&written(&mut spool, root.path()), &Wishes::default(), Detail::Brief);
    assert_eq!(brief.trim_end(), "leaks: nothing grows over the time of the run");
}

#[test]
fn lines_name_what_grows_first_and_after_a_run_whether_anything_does() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    leaking(&mut spool);
    let directory = written(&mut spool, root.path());
    let text = lines(&directory, &Wishes::default(), Detail::Full);
    let expected = "\
leaks: 2 call sites grow, over 12 steps, alive at the end:
  grows   npu 0 PTA: 48.0 KiB in 12 blocks, 4.0 KiB a step, made in steps 1 to 12  ▂▃▃▄▄▅▆▆▇▇██
          /me/train.py: keep < /me/train.py: <module> [";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("npu 0 PTA, blocks of what grows"), "{text}");
    assert!(text.contains("         1  -                        0x100000                4.0 KiB\n"), "{text}");
    assert!(text.contains("    total: 48.0 KiB in 12 blocks\n"), "{text}");
    let brief = lines(&directory, &Wishes::default(), Detail::Brief);
    assert!(brief.contains("call sites grow") && !brief.contains("0x100000"), "{brief}");
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    let lane = script(&mut spool);
    spool.alloc(lane, 10, 0x1000, 64, 2).system(lane, 20, SystemKind::Step, 1);
    assert_eq!(lines(&written(&mut spool, root.path()), &Wishes::default(), Detail::Brief), "", "too few steps");
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    let lane = script(&mut spool);
    spool.alloc(lane, 10, 0x1000, 64, 2);
    for step in 1..=20 {
        spool.system(lane, 20 * step, SystemKind::Step, step);
    }
    let brief = lines(&written(&mut spool, root.path()), &Wishes::default(), Detail::Brief);
    assert_eq!(brief.trim_end(), "leaks: nothing grows over 20 steps");
}

#[test]
fn marks_are_found_in_recordings_files_and_directories_and_missing_ones_are_told() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    let lane = script(&mut spool);
    spool.system(lane, 1, SystemKind::SetDevice, 0);
    for (number, time) in (1..=4u64).zip([100, 200, 300, 400]) {
        spool.mark(lane, time, "test");
        let address = 0x10_0000 * number;
        spool.device_alloc(lane, time + 1, Space::PtaCaching, 0, address, 4096, 0, 3);
        spool.device_alloc(lane, time + 2, Space::Driver, 0, 0x1000_0000 + address, 8192, 7, 4);
        spool.device_alloc(lane, time + 3, Space::PtaCaching, 0, 0x2000_0000 + address, 512, 0, 5);
        spool.device_free(lane, time + 4, Space::PtaCaching, 0x2000_0000 + address, 5);
    }
    let directory = written(&mut spool, root.path());
    let csv = exported(&directory, root.path(), Format::Csv);
    let db = exported(&directory, root.path(), Format::Db);
    let expected = told(&leaks_between_marks(&directory, "test", 1));
    let row = |leak: &Value| json!([leak["pool"], leak["bytes"], leak["site"], leak["addresses"]]);
    let rows: Vec<Value> = expected["leaks"].as_array().unwrap().iter().map(row).collect();
    let site = "/me/train.py: keep";
    assert_eq!(rows, [json!(["HAL", 8192, site, ["0x10200000"]]), json!(["PTA", 4096, site, ["0x200000"]])]);
    assert_eq!((&expected["devices"][0]["marks"], &expected["mstx_info"]), (&json!(4), &json!("test")));
    let file = |directory: &Path| {
        let dump = directory.join("device_0/dump");
        let mut files = std::fs::read_dir(dump).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("memscope_dump")).unwrap()
    };
    for path in [&csv, &db, &file(&csv), &file(&db)] {
        assert_eq!(told(&leaks_between_marks(path, "test", 1))["leaks"], expected["leaks"], "{path:?}");
    }
    let missing = leaks_between_marks(&csv, "test", 2);
    let (_, conclusion) = &missing.processes[0].conclusions[0];
    let Err(Lacking(message)) = conclusion else { panic!("{conclusion:?}") };
    assert!(message.starts_with("there are 4 marks \"test\", and A, B and C are three, from number 2 on"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(48)))]

    #[test]
    fn spool_csv_and_database_have_the_same_leaks(
        events in proptest::collection::vec((0u8..10, 0u64..10, 1u64..5000, 1u32..6), 1..120),
    ) {
        // Without memory there are no files to read back.
        prop_assume!(events.iter().any(|(kind, ..)| *kind > 1));
        let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
        let lane = script(&mut spool);
        let mut live = std::collections::BTreeSet::new();
        spool.system(lane, 1, SystemKind::Step, 1);
        for (time, (kind, slot, size, node)) in (1u64..).map(|time| time * 1000).zip(&events) {
            let address = 0x10_0000 * (slot + 1);
            match kind {
                0 | 1 => _ = spool.system(lane, time, SystemKind::Step, 2),
                _ if live.remove(slot) => _ = spool.device_free(lane, time, Space::PtaCaching, address, *node),
                _ => {
                    live.insert(*slot);
                    spool.device_alloc(lane, time, Space::PtaCaching, 0, address, *size, 0, *node);
                }
            }
        }
        let directory = written(&mut spool, root.path());
        let expected = leaks(&directory);
        for format in [Format::Csv, Format::Db] {
            prop_assert_eq!(&leaks(&exported(&directory, root.path(), format)), &expected, "{:?}", format);
        }
    }
}

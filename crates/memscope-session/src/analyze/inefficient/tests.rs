//! Recording, csv and db of a program end in the same report, and what is written into the files is what the recording says.
use super::*;
use crate::analyze::{Kind, analyze};
use memscope_dump::{ExportOptions, Format, Room, StackForm, export_process};
use memscope_model::{Process, TraceSource};
use memscope_symbols::Symbolizer;
use memscope_testkit::{AccessMode, Space, SpoolBuilder};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

const NAMES: [&str; 3] = ["aten::add", "aten::mul", "aten::relu"];

/// What a made-up program does: which thread, what, and numbers that choose.
type Choice = (usize, u8, u64);

fn build(choices: &[Choice], spool: &mut SpoolBuilder) {
    spool.process(31, 1).config("c=0;py=20;cpu=0;npu=ffffffff;level=3;events=15;dump=15;dir=/tmp");
    let lanes = [spool.lane(31), spool.lane(32)];
    for lane in lanes {
        spool.code(lane, 0, "/me/a.py", "f", 1).code(lane, 1, "/me/a.py", "g", 2);
        spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
        for (id, name) in (0u32..).zip(NAMES) {
            spool.aten_name(lane, id, name);
        }
    }
    let mut open: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    let mut live: Vec<(Space, u64)> = Vec::new();
    let mut fresh = 1;
    for (number, &(thread, what, choice)) in (1u64..).zip(choices) {
        let (lane, ticks) = (lanes[thread], number * 100_000);
        let space = if choice.is_multiple_of(16) { Space::Atb } else { Space::PtaCaching };
        match what {
            0..=1 => {
                open[thread].push(number);
                spool.aten_start(lane, ticks, number, 0, choice as u32 % 3, choice as u32 % 3);
            }
            2..=4 => {
                if let Some(sequence) = open[thread].pop() {
                    spool.aten_end(lane, ticks, sequence);
                }
            }
            5..=6 => {
                let address = 0x12c0_0000_0000 + (fresh << 20);
                fresh += 1;
                // Mostly one device.
                let device = u32::from(choice % 32 == 1);
                live.push((space, address));
                spool.device_alloc(lane, ticks, space, device, address, choice % 5000 + 1, 0, choice as u32 % 3);
            }
            7 if !live.is_empty() => {
                let (space, address) = live.swap_remove(choice as usize % live.len());
                spool.device_free(lane, ticks, space, address, 0);
            }
            8..=11 if !live.is_empty() => {
                let (_, address) = live[choice as usize % live.len()];
                let mode = AccessMode::Read;
                spool.aten_access(lane, ticks, mode, choice as u32 % 3, 9_999, (address, 1), address, &[1]);
            }
            _ => {}
        }
    }
}

fn export(directory: &Path, format: Format, annotations: Option<&Annotations>) -> Vec<PathBuf> {
    let mut process = Process::open(directory).unwrap();
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options = ExportOptions {
        stacks: Some(StackForm::Inline),
        annotations,
        ..ExportOptions::quiet(format, &room, &mut symbolizer)
    };
    let exported = export_process(&mut process, directory, options, &mut []).unwrap();
    exported.files.into_iter().filter(|file| !file.ends_with(memscope_dump::CONFIG_FILE)).collect()
}

fn wishes() -> Wishes {
    let inefficient = InefficiencySettings { idle_threshold: 2, ..InefficiencySettings::default() };
    Wishes { inefficient, ..Wishes::default() }
}

fn report(path: &Path) -> Result<Value, Lacking> {
    let mut analyzed = analyze(&[path.to_owned()], &[Kind::Inefficient], &wishes(), &mut |_| {}).unwrap();
    assert!(analyzed.unreadable.is_empty());
    let (_, conclusion) = analyzed.processes.remove(0).conclusions.remove(0);
    conclusion.map(|report| report.json())
}

fn annotations(directory: &Path) -> Annotations {
    let mut tally = InefficiencyTally::annotating(wishes().inefficient);
    Process::open(directory).unwrap().run(&mut [&mut tally], &mut |_| {}).unwrap();
    tally.take_annotations()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(48)))]

    #[test]
    fn recording_csv_and_database_end_in_the_same_report_and_the_same_rows(
        choices in proptest::collection::vec((0usize..2, 0u8..12, any::<u64>()), 1..200),
    ) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("msmemscope_31_20251203091122_ascend");
        let mut spool = SpoolBuilder::new();
        build(&choices, &mut spool);
        spool.write(&directory).unwrap();
        let (of_recording, found) = (report(root.path()), annotations(&directory));
        for format in [Format::Csv, Format::Db] {
            let expected = export(&directory, format, Some(&found));
            let expected: Vec<Vec<u8>> = expected.iter().map(|file| fs::read(file).unwrap()).collect();
            let files = export(&directory, format, None);
            if files.is_empty() {
                continue;
            }
            // Else the recording would be read again.
            let (spool, aside) = (directory.join("spool"), root.path().join("aside"));
            fs::rename(&spool, &aside).unwrap();
            prop_assert_eq!(report(&directory), of_recording.clone(), "{:?}", format);
            fs::rename(&aside, &spool).unwrap();
            // A file that is alone knows its own device and no other.
            if let ([file], Format::Csv) = (&files[..], format)
                && of_recording.is_ok()
            {
                check_inefficient(file, &wishes(), &mut |_| {}).unwrap();
                prop_assert_eq!(String::from_utf8(fs::read(file).unwrap()), String::from_utf8(expected[0].clone()));
            }
            for device in ["0", "1"] {
                let _ = fs::remove_dir_all(directory.join(format!("device_{device}")));
            }
        }
    }
}

//! A sink that is given the spool, our csv and our database of one run ends in the same result.
//!
//! What files cannot carry is left out of the comparison, and named in [`crate::readback::summary`]: the nanoseconds by which rows
//! are later than their events, since times of rows increase strictly; when a block began that is what a partial
//! unmapping left; the numbers of ranges, and which of several open ranges of one text ended; what a pool reserved
//! without an event; how host memory was pinned; frees of device memory that was never seen. The row that makes a database
//! of a single row viewable reads as an additional start of tracing.
use crate::readback::summary::{Summary, summary, sums};
use memscope_dump::{Brand, ExportOptions, Format, Room, StackForm, export_process, open};
use memscope_model::{Outcome, Process};
use memscope_symbols::Symbolizer;
use memscope_testkit::{
    AccessMode, HOST_DEVICE, HostCall, LabelLevel, LaneNumber, Phase, Protection, Space, SpoolBuilder, SystemKind,
    TaskLogLine, TensorOwner,
};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

/// One step of a made-up program; small numbers choose addresses, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Alloc { slot: u64, size: u64, node: u32 },
    Free { slot: u64 },
    Map { page: u64, pages: u64 },
    Unmap { page: u64, pages: u64 },
    Remap { page: u64, pages: u64, to: u64 },
    Protect { page: u64, pages: u64, usable: bool },
    Device { space: u8, device: u32, slot: u64, size: u64, attributes: u32, node: u32 },
    DeviceFree { space: u8, slot: u64, node: u32 },
    Total { space: u8, device: u32, total: u64 },
    Heap { slot: u64, size: u64 },
    HeapEnd { slot: u64 },
    System { kind: u8, value: u64 },
    Mark { text: String },
    RangeStart { text: String },
    RangeEnd,
    Snapshot { device: u32, name: String },
    HostRefused { call: usize, size: u64, node: u32 },
    Refused { space: u8, device: u32, size: u64, node: u32 },
    Launch { device: u32, name: u64, task: u32, runs: bool },
    Operator { slot: u64, path: String, name: String, node: u32 },
    Aten { slot: u64, name: u32, node: u32 },
    Stream { handle: u64 },
    Label { deed: u8, level: usize, label: u32, address: u64 },
}

const SPACES: [Space; 8] = [
    Space::Driver,
    Space::DriverHandle,
    Space::Registered,
    Space::PtaCaching,
    Space::PtaWorkspace,
    Space::Atb,
    Space::MindSpore,
    Space::TensorStorage,
];

/// Any text but those that mean something in the place of a name.
fn texts() -> impl Strategy<Value = String> {
    let nasty =
        prop_oneof![Just('"'), Just(','), Just('\n'), Just('\r'), Just('{'), Just(':'), Just('\\'), any::<char>()];
    prop_oneof![
        2 => Just("step start".to_owned()),
        1 => "[a-z ]{1,9}",
        2 => proptest::collection::vec(nasty, 1..12)
            .prop_map(|characters| characters.into_iter().filter(|character| *character != '\0').collect::<String>() + "."),
    ]
}

/// Of operators: no colons, which would look like the next attribute.
fn paths() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[0-9a-zA-Z_/,\"{} \\\\]{1,20}/[a-z]"]
}

fn steps() -> impl Strategy<Value = Vec<(usize, u64, Step)>> {
    let node = 0u32..9;
    let size = prop_oneof![Just(0u64), 1u64..5000, 1u64..1 << 40];
    let step = prop_oneof![
        6 => (0u64..12, size.clone(), node.clone()).prop_map(|(slot, size, node)| Step::Alloc { slot, size, node }),
        4 => (0u64..12).prop_map(|slot| Step::Free { slot }),
        2 => (0u64..20, 1u64..6).prop_map(|(page, pages)| Step::Map { page, pages }),
        2 => (0u64..20, 1u64..6).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        1 => (0u64..20, 1u64..6, 20u64..40).prop_map(|(page, pages, to)| Step::Remap { page, pages, to }),
        1 => (0u64..20, 1u64..6, any::<bool>()).prop_map(|(page, pages, usable)| Step::Protect { page, pages, usable }),
        8 => (0u8..8, 0u32..3, 0u64..8, size.clone(), 0u32..1024, node.clone()).prop_map(
            |(space, device, slot, size, attributes, node)| Step::Device { space, device, slot, size, attributes, node }
        ),
        5 => (0u8..8, 0u64..8, node.clone()).prop_map(|(space, slot, node)| Step::DeviceFree { space, slot, node }),
        2 => (3u8..7, 0u32..3, 0u64..1 << 40).prop_map(|(space, device, total)| Step::Total { space, device, total }),
        1 => (0u64..8, 1u64..1 << 20).prop_map(|(slot, size)| Step::Heap { slot, size }),
        1 => (0u64..8).prop_map(|slot| Step::HeapEnd { slot }),
        2 => (0u8..3, 0u64..3).prop_map(|(kind, value)| Step::System { kind, value }),
        1 => texts().prop_map(|text| Step::Mark { text }),
        2 => texts().prop_map(|text| Step::RangeStart { text }),
        2 => Just(Step::RangeEnd),
        1 => (0u32..3, texts()).prop_map(|(device, name)| Step::Snapshot { device, name }),
        1 => (0u8..8, 0u32..3, size, node.clone())
            .prop_map(|(space, device, size, node)| Step::Refused { space, device, size, node }),
        1 => (0usize..11, 1u64..1 << 40, node.clone()).prop_map(|(call, size, node)| Step::HostRefused { call, size, node }),
        2 => (0u32..3, 0u64..4, 0u32..1000, any::<bool>())
            .prop_map(|(device, name, task, runs)| Step::Launch { device, name, task, runs }),
        2 => (0u64..8, paths(), texts(), node.clone())
            .prop_map(|(slot, path, name, node)| Step::Operator { slot, path, name, node }),
        2 => (0u64..8, 0u32..3, node).prop_map(|(slot, name, node)| Step::Aten { slot, name, node }),
        1 => prop_oneof![0u64..3, any::<u64>()].prop_map(|handle| Step::Stream { handle }),
        4 => (0u8..4, 0usize..6, 0u32..4, prop_oneof![0u64..12, 1000u64..1008])
            .prop_map(|(deed, level, label, address)| Step::Label { deed, level, label, address }),
    ];
    // Steps of different threads are further apart than events that are put right when they contradict each other; some of
    // one thread share a moment.
    proptest::collection::vec((0usize..2, 0u64..3, step), 1..60)
}

const PAGE: u64 = 4096;
const APART: u64 = 100_000;

fn build(steps: &[(usize, u64, Step)], spool: &mut SpoolBuilder) {
    spool.config("c=20;py=20;cpu=1;npu=ffffffff;dump=15;level=3;analysis=8;oomk=3;dir=/tmp");
    let lanes = [spool.lane(31), spool.lane(32)];
    let log = spool.lane(33);
    for lane in lanes {
        for node in 1..=4 {
            spool.unknown_node(lane, node, node - 1, 0x7f00_0000 + u64::from(node));
        }
        spool.code(lane, 1, "/a \"b\"/c,d.py", "Net.forward<é>", 10);
        spool.python_node(lane, 5, 0, 1, 0).python_node(lane, 6, 5, 1, 2);
        spool.both(lane, 7, 4, 6).both(lane, 8, 2, 5);
        // The third is never told.
        spool.aten_name(lane, 0, "aten::add.Tensor").aten_name(lane, 1, "empty, \"a\"\n");
    }
    // The last is never told.
    for lane in lanes {
        spool.label_name(lane, 0, "model").label_name(lane, 1, "a, \"b\"\n{c}").label_name(
            lane,
            2,
            "\u{6743}\u{91cd}@layer",
        );
    }
    // Hashes of names; the last is never told.
    for (hash, name) in [(1, "MatMul"), (2, "Add, \"fused\"")] {
        spool.kernel_name(lanes[0], hash, name);
    }
    spool.device_clock(log, 1, 0, 1, 1_000_000);
    // Rows of no device need a file.
    spool.alloc(lanes[0], 1, 0x10, 1, 0).alloc(lanes[0], 2, 0x20, 2, 0);
    let mut ticks = APART;
    let mut before = 0;
    let mut ranges: Vec<(LaneNumber, u64)> = Vec::new();
    for (number, (lane, wait, step)) in (1u64..).zip(steps) {
        if *lane != before || *wait > 0 {
            ticks += (wait + 1) * APART;
        }
        before = *lane;
        write_step(spool, (lanes[*lane], log), ticks, number, step, &mut ranges);
        if number % 20 == 0 {
            spool.end_generation(lanes[*lane]);
        }
    }
}

fn write_step(
    spool: &mut SpoolBuilder,
    (lane, log): (LaneNumber, LaneNumber),
    ticks: u64,
    number: u64,
    step: &Step,
    ranges: &mut Vec<(LaneNumber, u64)>,
) {
    let address = |slot: u64| 0x12c0_0000_0000 + (slot << 16);
    match step {
        Step::Alloc { slot, size, node } => spool.alloc(lane, ticks, 0x1000 + (slot << 4), *size, *node),
        Step::Free { slot } => spool.free(lane, ticks, 0x1000 + (slot << 4), 1),
        Step::Map { page, pages } => spool.map(lane, ticks, page * PAGE, pages * PAGE, 1),
        Step::Unmap { page, pages } => spool.unmap(lane, ticks, page * PAGE, pages * PAGE, 2),
        Step::Remap { page, pages, to } => {
            spool.remap(lane, ticks, (page * PAGE, pages * PAGE), (to * PAGE, pages * 2 * PAGE), 3)
        }
        Step::Protect { page, pages, usable } => {
            let protection = if *usable { Protection::READ_WRITE } else { Protection::NONE };
            spool.protect(lane, ticks, (page * PAGE, pages * PAGE), protection, 7)
        }
        Step::Device { space, device, slot, size, attributes, node } => {
            let space = SPACES[usize::from(*space)];
            let device = match space {
                Space::Registered | Space::TensorStorage => HOST_DEVICE,
                // Also the driver hands out memory of the host.
                Space::Driver if slot % 4 == 3 => HOST_DEVICE,
                _ => *device,
            };
            spool.device_alloc(lane, ticks, space, device, address(*slot), *size, *attributes, *node)
        }
        Step::DeviceFree { space, slot, node } => {
            spool.device_free(lane, ticks, SPACES[usize::from(*space)], address(*slot), *node)
        }
        Step::Total { space, device, total } => {
            spool.pool_total(lane, ticks, SPACES[usize::from(*space)], *device, *total)
        }
        Step::Heap { slot, size } => spool.heap(lane, ticks, Space::Atb, 0, address(*slot), *size),
        Step::HeapEnd { slot } => spool.heap_end(lane, ticks, Space::Atb, address(*slot)),
        Step::System { kind, value } => match kind {
            0 => spool.system(lane, ticks, SystemKind::SetDevice, *value),
            1 => spool.system(lane, ticks, SystemKind::Step, *value + 1),
            _ => spool.system(lane, ticks, if *value == 0 { SystemKind::AclInit } else { SystemKind::AclFinalize }, 0),
        },
        Step::Mark { text } => spool.mark(lane, ticks, text),
        Step::RangeStart { text } => {
            ranges.push((lane, number));
            spool.range_start(lane, ticks, number, text)
        }
        // Nested: what ended is clear from the text. Now and then one that never began.
        Step::RangeEnd => {
            let newest = ranges.iter().rposition(|(of, _)| *of == lane);
            let id = newest.map_or(1 << 40, |at| ranges.remove(at).1);
            spool.range_end(lane, ticks, id)
        }
        Step::Snapshot { device, name } => spool.snapshot(lane, ticks, *device, name),
        Step::Refused { space, device, size, node } => {
            let space = SPACES[usize::from(*space)];
            let device = if space == Space::TensorStorage { HOST_DEVICE } else { *device };
            spool.out_of_memory(lane, ticks, space, device, *size, 0x403, *node)
        }
        Step::HostRefused { call, size, node } => {
            spool.host_refused(lane, ticks, HostCall::ALL[*call], (*size, 3), *node)
        }
        Step::Launch { device, name, task, runs } => {
            spool.launch(lane, ticks).task(lane, ticks + 1, *device, 7, *task, *name);
            if *runs {
                let begin = TaskLogLine { stream: 7, task: *task, unit: 0, end: false, counter: ticks + 10 };
                let end = TaskLogLine { end: true, counter: ticks + 20, ..begin };
                spool.executions(log, ticks + 30, *device, true, &[begin, end]);
            }
            spool
        }
        Step::Operator { slot, path, name, node } => {
            spool.operator_start(lane, ticks, number, 0, (address(*slot), 512), path, name, *node);
            let (mode, owner) = match slot % 3 {
                0 => (AccessMode::Read, TensorOwner::AtbOperator),
                1 => (AccessMode::Write, TensorOwner::AtbKernel),
                _ => (AccessMode::Unknown, TensorOwner::AtbOperator),
            };
            spool.access(lane, ticks, mode, owner, 0, (address(*slot) + 8, 24), &[2, -1, 3]);
            let kernel = format!("{path}/0_AddKernel/before");
            spool.kernel(lane, ticks, Phase::Start, 0, &kernel).kernel(lane, ticks, Phase::End, 0, &kernel);
            spool.operator_end(lane, ticks, number)
        }
        Step::Label { deed, level, label, address: slot } => {
            let level = LabelLevel::ALL[*level];
            let labelled = if *slot < 1000 { 0x1000 + (slot << 4) } else { address(slot - 1000) + 3 };
            match deed {
                0 => spool.label_start(lane, ticks, level, *label),
                1 => spool.label_end(lane, ticks, level, *label),
                _ => spool.label_block(lane, ticks, level, *label, labelled),
            }
        }
        Step::Stream { handle } => spool.stream(lane, *handle),
        // One inside another, whose output comes after it.
        Step::Aten { slot, name, node } => {
            let tensor = (address(*slot) + 8, 24);
            spool.aten_start(lane, ticks, 2 * number, 0, *name, *node);
            spool.aten_access(lane, ticks, AccessMode::Read, *name, 0, tensor, address(*slot), &[2, 3]);
            spool.aten_start(lane, ticks, 2 * number + 1, 1, 0, 0).aten_end(lane, ticks, 2 * number + 1);
            spool.aten_access(lane, ticks, AccessMode::Write, *name, 0, (0x1000 + (slot << 4), 16), 0, &[]);
            spool.aten_end(lane, ticks, 2 * number)
        }
    };
}

/// A result: what a sink saw, and what it came to.
type Seen = (Summary, Outcome, Vec<String>);

/// The result of the spool in `directory`, and that of the files exported from it.
fn both(directory: &Path, format: Format, brand: Brand, stacks: Option<StackForm>) -> [Seen; 2] {
    let mut process = Process::open(directory).unwrap();
    let (of_spool, outcome) = summary(&mut process);
    let spool_sums = sums(&outcome, process.stacks());
    [(of_spool, outcome, spool_sums), of_files(directory, format, brand, stacks)]
}

fn of_files(directory: &Path, format: Format, brand: Brand, stacks: Option<StackForm>) -> Seen {
    let mut process = Process::open(directory).unwrap();
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options = ExportOptions { brand, stacks, ..ExportOptions::quiet(format, &room, &mut symbolizer) };
    export_process(&mut process, directory, options, &mut []).unwrap();
    // Else it would be read again.
    let aside = directory.with_file_name("spool");
    fs::rename(directory.join("spool"), &aside).unwrap();
    let mut files = open(directory).unwrap();
    let (of_files, files_outcome) = summary(&mut *files);
    let file_sums = sums(&files_outcome, files.stacks());
    // A second pass is the same.
    let (again, _) = summary(&mut *files);
    assert_eq!(again.events, of_files.events);
    fs::rename(aside, directory.join("spool")).unwrap();
    for device in ["cpu", "0", "1", "2"] {
        let _ = fs::remove_dir_all(directory.join(format!("device_{device}")));
    }
    (of_files, files_outcome, file_sums)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(96)))]

    #[test]
    fn spool_csv_and_database_of_a_run_end_in_the_same_result(steps in steps()) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("msmemscope_31_20251203091122_ascend");
        let mut spool = SpoolBuilder::new();
        spool.process(31, 1);
        build(&steps, &mut spool);
        spool.write(&directory).unwrap();
        for (format, brand, stacks) in [
            (Format::Csv, Brand::MsMemScope, None),
            (Format::Db, Brand::MsLeaks, Some(StackForm::Table)),
            (Format::Csv, Brand::MsLeaks, Some(StackForm::Table)),
            (Format::Db, Brand::MsMemScope, Some(StackForm::Inline)),
        ] {
            let [(spool, _, spool_sums), (mut files, outcome, file_sums)] = both(&directory, format, brand, stacks);
            prop_assert!(outcome.damage.is_empty(), "{:?}", outcome.damage);
            prop_assert_eq!((outcome.unknown_records, outcome.events_without_stack), (0, 0));
            let mut file_sums = file_sums;
            let mut spool_events = spool.events;
            // The row that makes a database of a single row viewable: it is counted, and numbers move by one.
            if format == Format::Db && files.events.first().is_some_and(|event| event.contains(" StartTrace ")) {
                let unnumbered = |event: &String| event.split_once(' ').unwrap().1.to_owned();
                files.events = files.events[1..].iter().map(unnumbered).collect();
                spool_events = spool_events.iter().map(unnumbered).collect();
                let notes = |notes: u64| format!(" {notes} notes");
                file_sums.iter_mut().for_each(|sum| *sum = sum.replace(&notes(outcome.notes), &notes(outcome.notes - 1)));
            }
            for (of_file, of_spool) in files.events.iter().zip(&spool_events) {
                prop_assert_eq!(of_file, of_spool, "{:?}", format);
            }
            prop_assert_eq!(files.events.len(), spool_events.len());
            prop_assert_eq!(&files.peaks, &spool.peaks);
            prop_assert_eq!(file_sums, spool_sums);
        }
    }
}

#[test]
fn files_begin_with_what_is_alive_when_tracing_starts_and_end_what_they_told() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("msmemscope_31_20251203091122_ascend");
    let mut spool = SpoolBuilder::new();
    spool.process(31, 1).config("mode=1;cpu=1;npu=ffffffff;dump=15;dir=/tmp");
    let lane = spool.lane(32);
    let caching = Space::PtaCaching;
    spool.region(lane, 10, caching, 0, 0x100, 1).region(lane, 11, caching, 0, 0x200, 2).alloc(lane, 12, 0x10, 7, 0);
    spool.device_free(lane, 13, caching, 0x100, 0).mark(lane, 14, "before");
    spool.system(lane, 20, SystemKind::StartTrace, 0).region(lane, 21, caching, 0, 0x300, 3);
    spool.system(lane, 30, SystemKind::StopTrace, 0).device_free(lane, 31, caching, 0x200, 0);
    spool.region(lane, 32, caching, 0, 0x400, 4).free(lane, 33, 0x10, 0);
    spool.write(&directory).unwrap();
    let (files, ..) = of_files(&directory, Format::Csv, Brand::MsMemScope, None);
    let words = |event: &String| event.split(" thread ").next().unwrap().split_once(' ').unwrap().1.to_owned();
    let told: Vec<String> = files.events.iter().map(words).collect();
    let at = |time: u64| 1_700_000_000_000_000_000 + time;
    let block = |time: u64, what: &str| format!("{} {what}", at(time));
    assert_eq!(
        told,
        [
            block(20, "N/A"),
            block(21, "Malloc block 2 0 PTA Region at 0x200 size 2 owner Some(\"PTA\")"),
            block(22, "Malloc block 3 cpu HOST Heap at 0x10 size 7 owner None"),
            block(23, "Malloc block 4 0 PTA Region at 0x300 size 3 owner Some(\"PTA\")"),
            block(30, "N/A"),
            block(31, "Free block 2 0 PTA Region at 0x200 size 2 owner Some(\"PTA\")"),
            block(33, "Free block 3 cpu HOST Heap at 0x10 size 7 owner None"),
        ]
    );
    let synthetic: Vec<bool> = files.events.iter().map(|event| event.ends_with("synthetic true")).collect();
    assert_eq!(synthetic, [false, true, true, false, false, true, true]);
}

//! Comparisons of recordings made to order.
use memscope_dump::{ExportOptions, Format, Room, StackForm, export_process};
use memscope_model::{Device, Process};
use memscope_session::compare::{CompareError, CompareWishes, Comparison, Side, compare};
use memscope_session::line::Line;
use memscope_session::place::Place;
use memscope_session::settings::LevelSet;
use memscope_session::views::layout::Layout;
use memscope_symbols::Symbolizer;
use memscope_testkit::{LaneNumber, Phase, Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const KERNELS: u32 = 3;

fn both() -> LevelSet {
    let mut level = LevelSet::OP;
    level |= LevelSet::KERNEL;
    level
}

fn of_paths(base: &Path, compared: &Path, level: LevelSet) -> Result<Comparison, CompareError> {
    let side = |path: &Path| Side { place: Place::from(path.to_owned()), step: None };
    compare(&CompareWishes { base: side(base), compared: side(compared), level: Some(level) }, &mut |_| {})
}

/// Of all rows of the file: event, name, device, base and compared.
fn rows(comparison: &Comparison) -> Vec<String> {
    let output = tempfile::tempdir().unwrap();
    let file = comparison.write(output.path()).unwrap();
    fs::read_to_string(file).unwrap().lines().skip(2).map(str::to_owned).collect()
}

/// A process with a kernel on each of some devices, which takes so many bytes.
fn process(output: &Path, pid: u32, command: &str, devices: &[u32], bytes: u64) {
    let mut spool = SpoolBuilder::new();
    spool.process(pid, 1).command("/usr/bin/python3", command).started_at(1_700_000_000_000_000_000 + u64::from(pid));
    let lane = spool.lane(pid);
    spool.kernel_name(lane, 1, "MatMul");
    for (at, device) in devices.iter().enumerate() {
        let now = 1000 * (at as u64 + 1);
        spool.region(lane, now, Space::PtaCaching, *device, 0x1000 * now, bytes);
        spool.launch(lane, now + 10).task(lane, now + 20, *device, 5, 1, 1);
    }
    spool.write(&output.join(format!("msmemscope_{pid}_20251203091122_ascend"))).unwrap();
}

fn paired(comparison: &Comparison) -> Vec<(u32, Device, u32, Device)> {
    let pairs = &comparison.report.pairs;
    pairs.iter().map(|pair| (pair.base.pid, pair.base.device, pair.compared.pid, pair.compared.device)).collect()
}

#[test]
fn processes_are_paired_by_command_and_devices_and_what_is_left_over_is_told() {
    let (base, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    process(base.path(), 10, "python3 launcher.py", &[], 0);
    process(base.path(), 11, "python3 train.py", &[0], 5);
    process(base.path(), 12, "python3 train.py", &[1, 2], 6);
    process(base.path(), 13, "python3 data.py", &[3], 7);
    // Begun in another order, on other devices, and with one rank less.
    process(other.path(), 20, "python3 train.py", &[1, 4], 9);
    process(other.path(), 21, "python3 train.py", &[0], 8);
    let comparison = of_paths(base.path(), other.path(), LevelSet::KERNEL).unwrap();
    let npu = Device::Npu;
    assert_eq!(paired(&comparison), [(11, npu(0), 21, npu(0)), (12, npu(1), 20, npu(1)), (12, npu(2), 20, npu(4))]);
    let left: Vec<u32> = comparison.report.left_over.base.iter().map(|subject| subject.pid).collect();
    assert_eq!((left, comparison.report.left_over.compared.len()), (vec![13], 0));
    assert_eq!(
        rows(&comparison),
        ["KERNEL_LAUNCH,MatMul,0,5,8,3", "KERNEL_LAUNCH,MatMul,1,6,9,3", "KERNEL_LAUNCH,MatMul,2,6,9,3"]
    );
    let text = Line::text(&comparison.lines(&Layout::default()));
    assert!(
        text.contains("left over of the base, with nothing to compare it with: process 13 python3 data.py, npu 3"),
        "{text}"
    );
    assert!(text.contains("compared: process 20 python3 train.py, npu 4"), "{text}");
}

#[test]
fn what_makes_kernels_without_memory_is_said() {
    let output = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    let (allocating, launching) = (spool.lane(1), spool.lane(2));
    spool.kernel_name(launching, 1, "MatMul").region(allocating, 10, Space::PtaCaching, 0, 0x1000, 512);
    spool.launch(launching, 20).task(launching, 30, 0, 5, 1, 1);
    spool.write(output.path()).unwrap();
    let comparison = of_paths(output.path(), output.path(), LevelSet::KERNEL).unwrap();
    assert!(comparison.remarks().iter().any(|remark| remark.contains("TASK_QUEUE_ENABLE=0")));
}

#[test]
fn what_grew_is_told_of_all_pools_even_of_those_that_only_one_has() {
    let recorded = |regions: &[(Space, u64, u32)]| {
        let output = tempfile::tempdir().unwrap();
        let mut spool = SpoolBuilder::new();
        let lane = spool.lane(1);
        spool.kernel_name(lane, 1, "MatMul");
        for (at, (space, size, module)) in (1u64..).zip(regions) {
            spool.device_alloc(lane, 10 * at, *space, 0, 0x10_0000 * at, *size, *module, 0);
        }
        spool.launch(lane, 1000).task(lane, 1010, 0, 5, 1, 1);
        spool.write(output.path()).unwrap();
        output
    };
    let base = recorded(&[(Space::PtaCaching, 512, 0), (Space::Driver, 4096, 3)]);
    let other = recorded(&[(Space::PtaCaching, 512, 0), (Space::Driver, 8192, 3), (Space::PtaWorkspace, 64, 0)]);
    let comparison = of_paths(base.path(), other.path(), LevelSet::KERNEL).unwrap();
    // The driver's memory is what the pools are made of, so it is not counted once more.
    assert_eq!(rows(&comparison), ["KERNEL_LAUNCH,MatMul,0,512,576,64"]);
    let pools = &comparison.report.pairs[0].pools;
    let told: Vec<(&str, u64, u64)> = pools.iter().map(|pool| (pool.pool.name(), pool.base, pool.compared)).collect();
    assert_eq!(told, [("HAL", 4096, 8192), ("PTA", 512, 512), ("PTA_WORKSPACE", 0, 64)]);
    let text = Line::text(&comparison.lines(&Layout::default()));
    for part in ["npu 0 HAL at the peak: 4.0 KiB → 8.0 KiB", "CANN@HCCL", "npu 0 PTA_WORKSPACE at the peak: 0 B → 64 B"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("npu 0 PTA at the peak"), "{text}");
}

/// One step of a made-up training.
#[derive(Clone, Debug)]
enum Doing {
    Take { space: u8, slot: u64, size: u64 },
    GiveBack { space: u8, slot: u64 },
    Aten { name: u32 },
    AtenEnd,
    Atb { name: u32 },
    AtbEnd,
    Kernel { name: u32 },
    AtbKernel { name: u32 },
    StepBegin,
    StepEnd,
    Start,
    Stop,
}

fn doings() -> impl Strategy<Value = Vec<(usize, Doing)>> {
    let doing = prop_oneof![
        6 => (0u8..3, 0u64..8, 1u64..10_000).prop_map(|(space, slot, size)| Doing::Take { space, slot, size }),
        4 => (0u8..3, 0u64..8).prop_map(|(space, slot)| Doing::GiveBack { space, slot }),
        3 => (0u32..4).prop_map(|name| Doing::Aten { name }),
        3 => Just(Doing::AtenEnd),
        2 => (0u32..4).prop_map(|name| Doing::Atb { name }),
        2 => Just(Doing::AtbEnd),
        3 => (0..KERNELS).prop_map(|name| Doing::Kernel { name }),
        1 => (0..KERNELS).prop_map(|name| Doing::AtbKernel { name }),
        1 => Just(Doing::StepBegin),
        1 => Just(Doing::StepEnd),
        1 => Just(Doing::Start),
        1 => Just(Doing::Stop),
    ];
    proptest::collection::vec((0usize..2, doing), 1..120)
}

/// What a thread has open.
#[derive(Default)]
struct Open {
    aten: Vec<u64>,
    atb: Vec<u64>,
    steps: Vec<u64>,
}

fn training(doings: &[(usize, Doing)], config: &str) -> SpoolBuilder {
    const SPACES: [Space; 3] = [Space::PtaCaching, Space::Atb, Space::Driver];
    let mut spool = SpoolBuilder::new();
    spool.config(config);
    let lanes: Vec<LaneNumber> = [7, 8].iter().map(|thread| spool.lane(*thread)).collect();
    for lane in &lanes {
        for name in 0..4 {
            spool.aten_name(*lane, name, &format!("aten::op{name}"));
        }
        for name in 0..KERNELS {
            spool.kernel_name(*lane, u64::from(name) + 1, &format!("kernel{name}"));
        }
    }
    let mut open = [Open::default(), Open::default()];
    let mut number = 0;
    for (at, (thread, doing)) in doings.iter().enumerate() {
        let (now, lane) = (1000 * (at as u64 + 1), lanes[*thread]);
        let open = &mut open[*thread];
        // The two threads use a device each, or it would depend on who comes first.
        let device = *thread as u32;
        number += 1;
        let address = |space: u8, slot: u64| 0x10_0000 * (u64::from(space) + 4 * *thread as u64 + 1) + 0x4000 * slot;
        match doing {
            Doing::Take { space, slot, size } => {
                spool.region(lane, now, SPACES[*space as usize], device, address(*space, *slot), *size);
            }
            Doing::GiveBack { space, slot } => {
                spool.device_free(lane, now, SPACES[*space as usize], address(*space, *slot), 0);
            }
            Doing::Aten { name } => {
                spool.aten_start(lane, now, number, device, *name, 0);
                open.aten.push(number);
            }
            Doing::Atb { name } => {
                spool.operator_start(lane, now, number, device, (0, 0), "", &format!("Atb{name}"), 0);
                open.atb.push(number);
            }
            Doing::AtenEnd => {
                if let Some(number) = open.aten.pop() {
                    spool.aten_end(lane, now, number);
                }
            }
            Doing::AtbEnd => {
                if let Some(number) = open.atb.pop() {
                    spool.operator_end(lane, now, number);
                }
            }
            Doing::Kernel { name } => {
                spool.launch(lane, now).task(lane, now + 10, device, 5, at as u32, u64::from(*name) + 1);
            }
            Doing::AtbKernel { name } => {
                spool.kernel(lane, now, Phase::Start, device, &format!("0_1/0/k{name}/before"));
                spool.kernel(lane, now + 10, Phase::End, device, &format!("0_1/0/k{name}/after"));
            }
            Doing::StepBegin => {
                spool.range_start(lane, now, number, "step start");
                open.steps.push(number);
            }
            Doing::StepEnd => {
                if let Some(number) = open.steps.pop() {
                    spool.range_end(lane, now, number);
                }
            }
            Doing::Start => {
                spool.system(lane, now, SystemKind::StartTrace, 0);
            }
            Doing::Stop => {
                spool.system(lane, now, SystemKind::StopTrace, 0);
            }
        }
    }
    spool
}

fn exported(spool: &mut SpoolBuilder, format: Format) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("msmemscope_4711_20251203091122_ascend");
    spool.write(&directory).unwrap();
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options =
        ExportOptions { stacks: Some(StackForm::Inline), ..ExportOptions::quiet(format, &room, &mut symbolizer) };
    let files = tempfile::tempdir().unwrap();
    let target = files.path().join(directory.file_name().unwrap());
    fs::create_dir(&target).unwrap();
    export_process(&mut Process::open(&directory).unwrap(), &target, options, &mut []).unwrap();
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(48)))]

    /// Whatever was chosen to be recorded. Files do not tell of steps that begin or end while nothing is traced, so there are
    /// either steps or spans of tracing.
    #[test]
    fn a_recording_does_not_differ_from_its_own_files(doings in doings(), choice in 0usize..3) {
        let config = ["level=3;events=15", "level=3;events=15;mode=0;steps=1,2", "level=3;events=15;mode=1"][choice];
        let is_kept = |doing: &Doing| match doing {
            Doing::StepBegin | Doing::StepEnd => choice < 2,
            Doing::Start | Doing::Stop => choice == 2,
            _ => true,
        };
        let doings: Vec<(usize, Doing)> = doings.into_iter().filter(|(_, doing)| is_kept(doing)).collect();
        let mut spool = training(&doings, &format!("{config};npu=ffffffff;dir=/tmp"));
        let recording = tempfile::tempdir().unwrap();
        spool.write(recording.path()).unwrap();
        for format in [Format::Csv, Format::Db] {
            let files = exported(&mut spool, format);
            let found = match of_paths(recording.path(), files.path(), both()) {
                Ok(found) => found,
                // Nothing was launched, or nothing was written of it.
                Err(CompareError::NoLaunches { .. } | CompareError::Nothing(_)) => continue,
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            prop_assert!(found.notes.is_empty(), "{:?}", found.notes);
            prop_assert!(found.report.left_over.base.is_empty() && found.report.left_over.compared.is_empty());
            for pair in &found.report.pairs {
                prop_assert_eq!(pair.bytes.difference, 0, "{:?}", config);
                for level in [&pair.operators, &pair.kernels].into_iter().flatten() {
                    prop_assert_eq!(&level.names, &[]);
                    prop_assert_eq!((level.launches.base_only, level.launches.compared_only), (0, 0));
                }
            }
            for row in rows(&found) {
                prop_assert!(row.ends_with(",0") && !row.contains("N/A"), "{}", row);
            }
        }
    }
}

#[test]
fn without_a_level_runs_that_launched_nothing_are_compared_by_who_holds_memory() {
    let (base, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |output: &Path, bytes: u64| {
        let mut spool = SpoolBuilder::new();
        spool.process(7, 1).config("cpu=1;npu=0;dir=/tmp");
        let lane = spool.lane(7);
        spool.alloc(lane, 1, 0x10, bytes, 0).alloc(lane, 2, 0x1000, 5, 0).free(lane, 3, 0x1000, 0);
        spool.write(&output.join("msmemscope_7_20251203091122_ascend")).unwrap();
    };
    write(base.path(), 100);
    write(other.path(), 300);
    let side = |path: &Path| Side { place: Place::from(path.to_owned()), step: None };
    let wishes = CompareWishes { base: side(base.path()), compared: side(other.path()), level: None };
    let comparison = compare(&wishes, &mut |_| {}).unwrap();
    let [pair] = &comparison.report.pairs[..] else { panic!("{:?}", comparison.report) };
    assert!(pair.operators.is_none() && pair.kernels.is_none());
    assert_eq!((pair.bytes.base, pair.bytes.compared, pair.bytes.difference), (100, 300, 200));
    assert_eq!((pair.pools[0].base, pair.pools[0].compared), (105, 305));
    let asked = CompareWishes { level: Some(LevelSet::OP), ..wishes.clone() };
    assert!(matches!(compare(&asked, &mut |_| {}), Err(CompareError::NoLaunches { .. })));
    let empty = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    spool.process(7, 1).write(&empty.path().join("msmemscope_7_20251203091122_ascend")).unwrap();
    let nothing = CompareWishes { compared: side(empty.path()), ..wishes };
    assert!(matches!(compare(&nothing, &mut |_| {}), Err(CompareError::NoEvents { .. })));
}

//! The named report of memory that is held for nothing: the same of a recording and of the files exported from it.
use memscope_dump::{ExportOptions, Format, Room, export_process};
use memscope_model::Process;
use memscope_session::analyze::{Kind, Wishes, analyze, value};
use memscope_symbols::Symbolizer;
use memscope_testkit::{AccessMode, LaneNumber, Space, SpoolBuilder, TensorOwner};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

const CONFIG: &str = "c=0;py=0;cpu=0;npu=ffffffff;dump=15;level=3;events=15;dir=/tmp";
const THREADS: usize = 2;
/// Further apart than events of two threads that are put in order.
const APART: u64 = 100_000;
const NAMES: [&str; 3] = ["aten::empty", "aten::add", "aten::linear"];

/// What a thread of a made-up program does; blocks go by their slot.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Its operators are on this stream from here on, 0 for one that is not known.
    On(u64),
    /// An operator begins, of ATB or of Aten.
    Start(bool),
    End,
    Malloc(u64, u64),
    Free(u64),
    Use(u64),
}

fn program() -> impl Strategy<Value = Vec<(usize, Do)>> {
    let what = prop_oneof![
        2 => (0u64..3).prop_map(|stream| Do::On(stream * 0x7000)),
        5 => any::<bool>().prop_map(Do::Start),
        5 => Just(Do::End),
        4 => (0u64..6, 1u64..50).prop_map(|(slot, size)| Do::Malloc(slot, size * 512)),
        2 => (0u64..6).prop_map(Do::Free),
        6 => (0u64..6).prop_map(Do::Use),
    ];
    proptest::collection::vec((0..THREADS, what), 1..120)
}

/// Writes a program, of which what cannot be is left out.
struct Writer {
    spool: SpoolBuilder,
    lanes: [LaneNumber; THREADS],
    /// Operators that have begun, by thread: number, and whether it is one of ATB.
    open: [Vec<(u64, bool)>; THREADS],
    live: Vec<u64>,
    ticks: u64,
    operators: u64,
}

impl Writer {
    fn new() -> Writer {
        let mut spool = SpoolBuilder::new();
        spool.process(31, 1).config(CONFIG);
        let lanes = [spool.lane(31), spool.lane(32)];
        for lane in lanes {
            for (id, text) in (0u32..).zip(NAMES) {
                spool.aten_name(lane, id, text);
            }
        }
        Writer { spool, lanes, open: Default::default(), live: Vec::new(), ticks: APART, operators: 0 }
    }

    fn write(&mut self, thread: usize, what: Do) {
        let address = |slot: u64| 0x12c0_0000_0000 + (slot << 20);
        let lane = self.lanes[thread];
        self.ticks += APART;
        let Writer { spool, open, live, ticks, operators, .. } = self;
        let ticks = *ticks;
        let open = &mut open[thread];
        match what {
            Do::On(stream) => drop(spool.stream(lane, stream)),
            Do::Start(is_atb) if open.len() < NAMES.len() => {
                *operators += 1;
                let depth = open.len();
                open.push((*operators, is_atb));
                if is_atb {
                    let path = ["0_31/0/1_Graph", "0_31/0/1_Graph/0_Linear", "0_31/0/1_Graph/0_Linear/2_Add"][depth];
                    spool.operator_start(lane, ticks, *operators, 0, (0, 0), path, path, 0);
                } else {
                    spool.aten_start(lane, ticks, *operators, 0, depth as u32, 0);
                }
            }
            Do::End => match open.pop() {
                Some((number, true)) => drop(spool.operator_end(lane, ticks, number)),
                Some((number, false)) => drop(spool.aten_end(lane, ticks, number)),
                None => {}
            },
            Do::Malloc(slot, size) if !live.contains(&slot) => {
                live.push(slot);
                spool.device_alloc(lane, ticks, Space::PtaCaching, 0, address(slot), size, 0, 0);
            }
            Do::Free(slot) if live.contains(&slot) => {
                live.retain(|other| *other != slot);
                spool.device_free(lane, ticks, Space::PtaCaching, address(slot), 0);
            }
            Do::Use(slot) => match open.last() {
                Some((_, true)) => {
                    let (mode, owner) = (AccessMode::Write, TensorOwner::AtbOperator);
                    spool.access(lane, ticks, mode, owner, 0, (address(slot) + 8, 8), &[2]);
                }
                _ => {
                    spool.aten_access(lane, ticks, AccessMode::Read, 1, 0, (address(slot) + 8, 8), address(slot), &[2]);
                }
            },
            _ => {}
        }
    }
}

fn exported(directory: &Path, root: &Path, format: Format) -> PathBuf {
    let target = root.join(format!("{format:?}")).join(directory.file_name().unwrap());
    std::fs::create_dir_all(&target).unwrap();
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options = ExportOptions::quiet(format, &room, &mut symbolizer);
    export_process(&mut Process::open(directory).unwrap(), &target, options, &mut []).unwrap();
    target
}

fn report(path: &Path, idle_threshold: u64) -> Value {
    let mut wishes = Wishes::default();
    wishes.inefficient.idle_threshold = idle_threshold;
    let mut told = value(&analyze(&[path.to_owned()], &[Kind::Inefficient], &wishes, &mut |_| {}).unwrap());
    told["processes"][0]["inefficient"].take()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(128)))]

    #[test]
    fn spool_csv_and_database_end_in_the_same_report_whatever_the_streams(
        program in program(),
        idle_threshold in 1u64..4,
    ) {
        let root = tempfile::tempdir().unwrap();
        let mut writer = Writer::new();
        // A trace has to have one of each.
        for what in [Do::Start(false), Do::Malloc(9, 512), Do::Use(9), Do::End] {
            writer.write(0, what);
        }
        for (thread, what) in program {
            writer.write(thread, what);
        }
        let directory = root.path().join("msmemscope_31_20251203091122_ascend");
        writer.spool.write(&directory).unwrap();
        let of_spool = report(&directory, idle_threshold);
        prop_assert!(of_spool["inefficient"].is_array(), "{}", of_spool);
        for format in [Format::Csv, Format::Db] {
            let of_files = report(&exported(&directory, root.path(), format), idle_threshold);
            prop_assert_eq!(&of_files, &of_spool, "{:?}", format);
        }
    }
}

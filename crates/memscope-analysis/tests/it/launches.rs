//! Operators and kernels with their change of memory, on recordings made to order.
use memscope_analysis::{LaunchKind, LaunchTally, Launches, Levels};
use memscope_model::{Device, Outcome, Pool, Process, TraceSource};
use memscope_testkit::{HOST_DEVICE, LaneNumber, Phase, Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;

const BOTH: Levels = Levels { operators: true, kernels: true };
const MATMUL: u64 = 0x11;
const ADD: u64 = 0x22;
const DEVICE: u32 = 3;

fn tallied(spool: &mut SpoolBuilder, levels: Levels) -> (Vec<Launches>, Outcome) {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut tally = LaunchTally::new(levels);
    let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut tally], &mut |_| {}).unwrap();
    (tally.finish(), outcome)
}

/// `name change`, of kernels in brackets, of operators within others indented.
fn told(spool: &mut SpoolBuilder, levels: Levels) -> Vec<(Device, Vec<String>)> {
    let (devices, outcome) = tallied(spool, levels);
    let text = |launches: &Launches| {
        let launches = launches.launches.iter().map(|launch| {
            let name = launch.name.and_then(|id| outcome.names.get(id)).map_or("?", |name| name.text);
            match launch.kind {
                LaunchKind::Operator if launch.outermost => format!("{name} {:+}", launch.change),
                LaunchKind::Operator => format!("  {name} {:+}", launch.change),
                LaunchKind::Kernel => format!("[{name}] {:+}", launch.change),
            }
        });
        launches.collect()
    };
    devices.iter().map(|launches| (launches.device, text(launches))).collect()
}

struct Training {
    spool: SpoolBuilder,
    now: u64,
    operators: u64,
}

impl Training {
    fn new() -> Training {
        Training { spool: SpoolBuilder::new(), now: 0, operators: 0 }
    }

    fn lane(&mut self, thread: u32) -> LaneNumber {
        let lane = self.spool.lane(thread);
        self.spool.kernel_name(lane, MATMUL, "MatMul").kernel_name(lane, ADD, "Add");
        lane
    }

    fn tick(&mut self) -> u64 {
        self.now += 100;
        self.now
    }

    fn take(&mut self, lane: LaneNumber, address: u64, size: u64) {
        let now = self.tick();
        self.spool.region(lane, now, Space::PtaCaching, DEVICE, address, size);
    }

    fn give_back(&mut self, lane: LaneNumber, address: u64) {
        let now = self.tick();
        self.spool.device_free(lane, now, Space::PtaCaching, address, 0);
    }

    fn begin(&mut self, lane: LaneNumber, name: &str) -> u64 {
        self.operators += 1;
        let (now, number) = (self.tick(), self.operators);
        self.spool.operator_start(lane, now, number, DEVICE, (0, 0), "", name, 0);
        number
    }

    fn end(&mut self, lane: LaneNumber, operator: u64) {
        let now = self.tick();
        self.spool.operator_end(lane, now, operator);
    }

    fn launch(&mut self, lane: LaneNumber, name: u64) {
        let now = self.tick();
        self.spool.launch(lane, now).task(lane, now + 10, DEVICE, 5, now as u32, name);
    }

    fn of_device(&mut self, levels: Levels) -> Vec<String> {
        let mut told = told(&mut self.spool, levels);
        assert_eq!(told.len(), 1, "{told:?}");
        let (device, launches) = told.remove(0);
        assert_eq!(device, Device::Npu(DEVICE as u16));
        launches
    }
}

#[test]
fn an_operator_counts_from_its_start_to_its_end_and_so_does_each_within_it() {
    let mut training = Training::new();
    let lane = training.lane(1);
    training.take(lane, 0x1000, 7);
    let linear = training.begin(lane, "linear");
    training.take(lane, 0x2000, 100);
    let add = training.begin(lane, "add");
    training.take(lane, 0x3000, 30);
    training.give_back(lane, 0x1000);
    training.end(lane, add);
    training.give_back(lane, 0x2000);
    training.end(lane, linear);
    training.take(lane, 0x4000, 1000);
    assert_eq!(training.of_device(BOTH), ["  add +23", "linear +23"]);
    let (devices, _) = tallied(&mut training.spool, BOTH);
    assert_eq!((devices[0].change(|_| true), &devices[0].pools[..]), (1030, &[Pool::PtaCaching][..]));
}

#[test]
fn a_kernel_counts_from_the_launch_before_it() {
    let mut training = Training::new();
    let lane = training.lane(1);
    training.take(lane, 0x1000, 7);
    training.launch(lane, MATMUL);
    training.take(lane, 0x2000, 100);
    training.give_back(lane, 0x1000);
    training.launch(lane, ADD);
    training.launch(lane, ADD);
    training.take(lane, 0x3000, 1000);
    assert_eq!(training.of_device(BOTH), ["[MatMul] +7", "[Add] +93", "[Add] +0"]);
    assert_eq!(told(&mut training.spool, Levels { operators: true, kernels: false }), []);
}

#[test]
fn what_other_threads_do_meanwhile_is_not_counted() {
    let mut training = Training::new();
    let (lane, other) = (training.lane(1), training.lane(2));
    let linear = training.begin(lane, "linear");
    let add = training.begin(other, "add");
    training.take(lane, 0x1000, 7);
    training.take(other, 0x2000, 100);
    training.launch(other, ADD);
    training.launch(lane, MATMUL);
    training.end(lane, linear);
    training.end(other, add);
    assert_eq!(training.of_device(BOTH), ["[Add] +100", "[MatMul] +7", "linear +7", "add +100"]);
}

#[test]
fn the_first_kernel_of_a_step_counts_from_the_beginning_of_the_step() {
    let mut training = Training::new();
    let lane = training.lane(1);
    training.launch(lane, ADD);
    for step in 1..3 {
        training.take(lane, 0x1000 * step, 1000);
        let now = training.tick();
        training.spool.range_start(lane, now, step, "step start");
        training.take(lane, 0x10_0000 * step, step);
        training.launch(lane, MATMUL);
        let now = training.tick();
        training.spool.range_end(lane, now, step);
    }
    assert_eq!(training.of_device(BOTH), ["[Add] +0", "[MatMul] +1", "[MatMul] +2"]);
    let (devices, outcome) = tallied(&mut training.spool, BOTH);
    let of_step = |number| devices[0].change(|step| outcome.steps.number(step) == number);
    assert_eq!((of_step(None), of_step(Some(1)), of_step(Some(2))), (2000, 1, 2));
}

#[test]
fn the_driver_counts_only_where_no_framework_told_of_a_pool() {
    let driver = |spool: &mut SpoolBuilder, lane, now, address, size| {
        spool.device_alloc(lane, now, Space::Driver, DEVICE, address, size, 7, 0);
    };
    let mut training = Training::new();
    let lane = training.lane(1);
    driver(&mut training.spool, lane, 10, 0x1000, 4096);
    training.launch(lane, MATMUL);
    assert_eq!(training.of_device(BOTH), ["[MatMul] +4096"]);
    training.take(lane, 0x1000, 512);
    training.launch(lane, ADD);
    assert_eq!(training.of_device(BOTH), ["[MatMul] +0", "[Add] +512"]);
}

#[test]
fn what_began_within_an_operator_is_over_with_it() {
    let mut training = Training::new();
    let lane = training.lane(1);
    let (outer, inner) = (training.begin(lane, "outer"), training.begin(lane, "ends late"));
    training.take(lane, 0x1000, 50);
    training.end(lane, outer);
    let next = training.begin(lane, "next");
    training.take(lane, 0x2000, 5);
    training.end(lane, next);
    training.take(lane, 0x3000, 1);
    training.end(lane, inner);
    // As if its start were not there: since the operator that ended before.
    assert_eq!(training.of_device(BOTH), ["outer +50", "next +5", "ends late +1"]);
}

#[test]
fn devices_are_told_apart_and_a_kernel_of_atb_counts_if_the_runtime_did_not_tell_of_it() {
    let mut training = Training::new();
    let lane = training.lane(1);
    training.take(lane, 0x1000, 7);
    let now = training.tick();
    training.spool.kernel(lane, now, Phase::Start, DEVICE, "0_9/0/1_Graph/0_Copy/before");
    training.spool.kernel(lane, now + 10, Phase::End, DEVICE, "0_9/0/1_Graph/0_Copy/after");
    training.spool.kernel(lane, now + 20, Phase::Start, DEVICE, "0_9/0/1_Graph/1_MatMul/before");
    training.launch(lane, MATMUL);
    training.now += 100;
    let now = training.tick();
    training.spool.kernel(lane, now, Phase::End, DEVICE, "0_9/0/1_Graph/1_MatMul/after");
    training.spool.system(lane, now + 1, SystemKind::SetDevice, 1);
    training.spool.region(lane, now + 2, Space::PtaCaching, 1, 0x9000, 11);
    training.spool.launch(lane, now + 10).task(lane, now + 20, 1, 5, 1, ADD);
    let told = told(&mut training.spool, BOTH);
    assert_eq!(
        told,
        [
            (Device::Npu(1), vec!["[Add] +11".to_owned()]),
            (Device::Npu(3), vec!["[0_Copy] +7".to_owned(), "[MatMul] +0".to_owned()]),
        ]
    );
}

#[derive(Clone, Debug)]
enum Doing {
    Begin(u8),
    End,
    Take(u16),
    GiveBack(usize),
    Launch,
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        (0u8..4).prop_map(Doing::Begin),
        Just(Doing::End),
        (1u16..1000).prop_map(Doing::Take),
        (0usize..20).prop_map(Doing::GiveBack),
        Just(Doing::Launch),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(64)))]
    /// Against sums over all that happened between two moments.
    #[test]
    fn changes_are_the_sums_of_what_happened_between(doings in proptest::collection::vec(doing(), 0..80)) {
        let mut training = Training::new();
        let lane = training.lane(1);
        // Every change so far, and where operators and kernels stand among them.
        let (mut changes, mut open, mut live) = (Vec::<i64>::new(), Vec::new(), Vec::new());
        let mut expected = Vec::new();
        let mut last_launch = 0;
        for (number, doing) in doings.into_iter().enumerate() {
            match doing {
                Doing::Begin(name) => {
                    let name = format!("op{name}");
                    open.push((training.begin(lane, &name), name, changes.len()));
                }
                Doing::End => {
                    let Some((operator, name, from)) = open.pop() else { continue };
                    training.end(lane, operator);
                    let indent = if open.is_empty() { "" } else { "  " };
                    expected.push(format!("{indent}{name} {:+}", changes[from..].iter().sum::<i64>()));
                }
                Doing::Take(size) => {
                    let address = 0x1000 * (number as u64 + 1);
                    training.take(lane, address, size.into());
                    live.push((address, i64::from(size)));
                    changes.push(size.into());
                }
                Doing::GiveBack(which) => {
                    if live.is_empty() {
                        continue;
                    }
                    let (address, size) = live.remove(which % live.len());
                    training.give_back(lane, address);
                    changes.push(-size);
                }
                Doing::Launch => {
                    training.launch(lane, ADD);
                    expected.push(format!("[Add] {:+}", changes[last_launch..].iter().sum::<i64>()));
                    last_launch = changes.len();
                }
            }
        }
        if !expected.is_empty() {
            prop_assert_eq!(training.of_device(BOTH), expected);
        }
    }
}

#[test]
fn on_the_host_a_storage_is_counted_with_the_block_it_lies_in() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let storage = Space::TensorStorage;
    spool.aten_name(lane, 0, "aten::add").aten_start(lane, 10, 1, HOST_DEVICE, 0, 0);
    spool.alloc(lane, 11, 0x1000, 100, 0).device_alloc(lane, 12, storage, HOST_DEVICE, 0x1000, 100, 0, 0);
    // Of an allocator of torch's own, and one that is freed.
    spool.device_alloc(lane, 13, storage, HOST_DEVICE, 0x9000, 20, 0, 0);
    spool.alloc(lane, 14, 0x2000, 7, 0).device_alloc(lane, 15, storage, HOST_DEVICE, 0x2000, 7, 0, 0);
    spool.device_free(lane, 16, storage, 0x2000, 0).free(lane, 17, 0x2000, 0).aten_end(lane, 20, 1);
    assert_eq!(told(&mut spool, BOTH), [(Device::Cpu, vec!["aten::add +120".to_owned()])]);
}

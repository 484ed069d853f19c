//! Writes the recording of a training that never was, as long as one likes, for benchmarks.
//!
//! `training DIR EVENTS device|mixed [changed]`: some EVENTS events of a device, or of a device and the host by turns. 10,000
//! parameters live all the time; each step has 500 operators that allocate, use and give back a block, and keeps one block.
//! Three marks "check" are set between steps. With `changed`, every tenth operator has another name.
use memscope_testkit::{AccessMode, LaneNumber, Space, SpoolBuilder, SystemKind};
use std::path::Path;

const PARAMETERS: u64 = 10_000;
const OPERATORS_A_STEP: u64 = 500;
/// Blocks are given back so many operators later.
const DELAY: u64 = 8;
const NAMES: u32 = 100;
const STACKS: u32 = 200;
const DEPTH: u32 = 12;
const DEVICE: u32 = 0;
const RUNTIME: u32 = 7;
const MIB: u64 = 1 << 20;
const PARAMETERS_AT: u64 = 1 << 40;
const BLOCKS_AT: u64 = 2 << 40;
const KEPT_AT: u64 = 3 << 40;
const HOST_AT: u64 = 0x7f00_0000_0000;

struct Training {
    spool: SpoolBuilder,
    lane: LaneNumber,
    ticks: u64,
    with_host: bool,
    changed: bool,
}

impl Training {
    fn new(with_host: bool, changed: bool) -> Training {
        let mut spool = SpoolBuilder::new();
        spool.command("/usr/bin/python3", "python3 train.py");
        spool.config("c=20;py=0;cpu=1;npu=ffffffff;dir=/tmp");
        let lane = spool.lane(4711);
        spool.module(lane, 0, 0x1000_0000, b"/nonexistent/program", b"\x01\x02");
        for stack in 0..STACKS {
            for frame in 0..DEPTH {
                let node = stack * DEPTH + frame + 1;
                let parent = if frame == 0 { 0 } else { node - 1 };
                spool.c_node(lane, node, parent, 0, u64::from(node) * 16);
            }
        }
        // Those after the first hundred are what a changed program calls instead.
        for name in 0..2 * NAMES {
            spool.aten_name(lane, name, &format!("aten::operator{name}"));
        }
        Training { spool, lane, ticks: 1000, with_host, changed }
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 100;
        self.ticks
    }

    fn stack(number: u64) -> u32 {
        ((number % u64::from(STACKS)) as u32 + 1) * DEPTH
    }

    fn begin(&mut self) {
        let (ticks, lane) = (self.tick(), self.lane);
        self.spool.system(lane, ticks, SystemKind::AclInit, 0);
        let ticks = self.tick();
        self.spool.device_alloc(lane, ticks, Space::Driver, DEVICE, PARAMETERS_AT, 64 << 30, RUNTIME, 0);
        let ticks = self.tick();
        self.spool.heap(lane, ticks, Space::PtaCaching, DEVICE, PARAMETERS_AT, 64 << 30);
        for number in 0..PARAMETERS {
            let (ticks, address) = (self.tick(), PARAMETERS_AT + number * MIB);
            self.spool.device_alloc(lane, ticks, Space::PtaCaching, DEVICE, address, MIB, 0, Self::stack(number));
        }
    }

    /// So many events of the device, and as many of the host if they are wanted.
    const EVENTS_AN_OPERATOR: u64 = 6;

    fn operator(&mut self, number: u64) {
        let lane = self.lane;
        let other = self.changed && number % 10 == 3;
        let name = (number % u64::from(NAMES)) as u32 + if other { NAMES } else { 0 };
        let (address, size) = (BLOCKS_AT + number % (2 * DELAY) * MIB, 1024 * (1 + number * 7919 % 1000));
        let parameter = PARAMETERS_AT + number * 31 % PARAMETERS * MIB;
        let stack = Self::stack(number * 17);
        let ticks = self.tick();
        self.spool.aten_start(lane, ticks, number, DEVICE, name, 0);
        let ticks = self.tick();
        self.spool.device_alloc(lane, ticks, Space::PtaCaching, DEVICE, address, size, 0, stack);
        let ticks = self.tick();
        self.spool.aten_access(lane, ticks, AccessMode::Read, name, DEVICE, (parameter, MIB), parameter, &[512, 512]);
        let ticks = self.tick();
        self.spool.aten_access(lane, ticks, AccessMode::Write, name, DEVICE, (address, size), address, &[16, 16]);
        let ticks = self.tick();
        self.spool.aten_end(lane, ticks, number);
        if number >= DELAY {
            let (ticks, old) = (self.tick(), BLOCKS_AT + (number - DELAY) % (2 * DELAY) * MIB);
            self.spool.device_free(lane, ticks, Space::PtaCaching, old, 0);
        }
        if self.with_host {
            for pair in 0..3 {
                let (ticks, address) = (self.tick(), HOST_AT + (number * 3 + pair) % 4096 * 4096);
                self.spool.alloc(lane, ticks, address, 64 + number % 4000, Self::stack(number + pair));
                let ticks = self.tick();
                self.spool.free(lane, ticks, address, 0);
            }
        }
    }

    fn run(&mut self, events: u64) {
        self.begin();
        let an_operator = Self::EVENTS_AN_OPERATOR * if self.with_host { 2 } else { 1 };
        let steps = (events.saturating_sub(PARAMETERS) / (an_operator * OPERATORS_A_STEP)).max(10);
        let lane = self.lane;
        for step in 0..steps {
            if [1, 5, 9].map(|tenth| steps * tenth / 10).contains(&step) {
                let ticks = self.tick();
                self.spool.mark(lane, ticks, "check");
            }
            let ticks = self.tick();
            self.spool.range_start(lane, ticks, step + 1, "step start");
            for operator in 0..OPERATORS_A_STEP {
                self.operator(step * OPERATORS_A_STEP + operator);
            }
            let (ticks, address) = (self.tick(), KEPT_AT + step * MIB);
            self.spool.device_alloc(lane, ticks, Space::PtaCaching, DEVICE, address, 64 << 10, 0, Self::stack(3));
            let ticks = self.tick();
            self.spool.range_end(lane, ticks, step + 1);
        }
    }
}

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let usage = || String::from("usage: training DIR EVENTS device|mixed [changed]");
    let (&[directory, events, kind], changed) = match words.as_slice() {
        [rest @ .., "changed"] => (<&[&str; 3]>::try_from(rest).map_err(|_| usage())?, true),
        all => (<&[&str; 3]>::try_from(all).map_err(|_| usage())?, false),
    };
    if !["device", "mixed"].contains(&kind) {
        return Err(usage());
    }
    let mut training = Training::new(kind == "mixed", changed);
    training.run(events.parse().map_err(|_| usage())?);
    let process = Path::new(directory).join("msmemscope_4711_20260101000000_ascend");
    training.spool.write(&process).map_err(|error| format!("{}: {error}", process.display()))
}

//! What an export costs: `export_cost [events] [stacks]` records synthetic events and times both formats.
//!
//! Half of the events are allocations, two threads take turns, and with `stacks` each event has one of that many stacks
//! of twenty unknown frames and ten Python frames.
#![allow(clippy::print_stdout, reason = "an example reports to its user")]
use memscope_dump::{ExportOptions, Format, Room, export_process};
use memscope_model::Process;
use memscope_symbols::Symbolizer;
use memscope_testkit::SpoolBuilder;
use std::time::Instant;

/// Wall clock and processor seconds; the second is what a busy machine does not blur.
struct Cost {
    begin: Instant,
    processor: f64,
}

impl Cost {
    fn begin() -> Cost {
        Cost { begin: Instant::now(), processor: processor_seconds() }
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (wall, processor) = (self.begin.elapsed().as_secs_f64(), processor_seconds() - self.processor);
        write!(f, "{wall:.2} s ({processor:.2} s of processor)")
    }
}

fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

const FRAMES: u32 = 20;
const PYTHON_FRAMES: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let events = arguments.next().transpose()?.unwrap_or(1_000_000);
    let stacks = arguments.next().transpose()?.unwrap_or(0);

    let root = tempfile::tempdir()?;
    let directory = root.path().join("msmemscope_31_20251203091122_ascend");
    let mut spool = SpoolBuilder::new();
    spool.config("c=50;py=50;cpu=1;npu=0;dir=/tmp");
    let lanes = [spool.lane(31), spool.lane(32)];
    for lane in lanes {
        spool.code(lane, 1, "/home/user/project/train.py", "Trainer.training_step", 10);
        let each = FRAMES + PYTHON_FRAMES + 1;
        for stack in 0..stacks {
            let first = 1 + stack * each;
            for depth in 0..FRAMES {
                let parent = if depth == 0 { 0 } else { first + depth - 1 };
                spool.unknown_node(lane, first + depth, parent, 0x7f00_0000_0000 + u64::from(stack * 64 + depth));
            }
            let python = first + FRAMES;
            for depth in 0..PYTHON_FRAMES {
                let parent = if depth == 0 { 0 } else { python + depth - 1 };
                spool.python_node(lane, python + depth, parent, 1, 2 * (stack + depth));
            }
            spool.both(lane, python + PYTHON_FRAMES, first + FRAMES - 1, python + PYTHON_FRAMES - 1);
        }
    }
    let stack_of = |number: u32| match stacks {
        0 => 0,
        _ => (number % stacks + 1) * (FRAMES + PYTHON_FRAMES + 1),
    };
    // A window of blocks is alive at a time: each is freed a thousand allocations after it was made.
    const ALIVE: u32 = 1000;
    let mut ticks = 0;
    for number in 0..events / 2 {
        let lane = lanes[number as usize % 2];
        let address = |number: u32| 0x5500_0000_0000 + u64::from(number % (2 * ALIVE)) * 4096;
        ticks += 150;
        spool.alloc(lane, ticks, address(number), u64::from(number % 5000) + 1, stack_of(number));
        ticks += 150;
        if number >= ALIVE {
            spool.free(lane, ticks, address(number - ALIVE), 0);
        }
    }
    spool.write(&directory)?;

    let cost = Cost::begin();
    let mut process = Process::open(&directory)?;
    let outcome = process.replay(&mut |_, _| std::ops::ControlFlow::Continue(()), &mut |_| {})?;
    println!("replay alone: {} events, {cost}", outcome.events);
    for format in [Format::Csv, Format::Db] {
        let cost = Cost::begin();
        let mut process = Process::open(&directory)?;
        let (room, mut symbolizer) = (Room::default(), Symbolizer::new());
        let options = ExportOptions::quiet(format, &room, &mut symbolizer);
        let exported = export_process(&mut process, &directory, options, &mut [])?;
        let size = exported.files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum::<u64>();
        println!("{format:?}: {} rows, {:.1} MB, {cost}", exported.rows, size as f64 / 1e6);
    }
    Ok(())
}

//! What the search for leaks costs beside reading, over a made-up spool: `leak_cost [events] [live blocks] [steps]`.
//! Seconds are those of the processor, so that a busy machine does not change them much.
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]
use memscope_analysis::leaks::{LeakSearch, LeakSource};
use memscope_model::{Process, TraceSink, TraceSource};
use memscope_testkit::{SpoolBuilder, SystemKind};

const STACKS: u32 = 2000;
const DEPTH: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (events, live, steps) = (number(5_000_000)?, number(200_000)?, number(1000)?);
    let directory = tempfile::tempdir()?;
    build(events, live as usize, steps).write(directory.path())?;

    let before = processor_seconds()?;
    Process::open(directory.path())?.run(&mut [], &mut |_| {})?;
    let reading = processor_seconds()? - before;

    let before = processor_seconds()?;
    let mut search = LeakSearch::new();
    let sinks: &mut [&mut dyn TraceSink] = &mut [&mut search];
    let outcome = Process::open(directory.path())?.run(sinks, &mut |_| {})?;
    let report = search.finish(&outcome);
    let sources: Vec<&LeakSource> = report.sources.iter().collect();
    let together = report.together(&sources);
    let searching = processor_seconds()? - before;
    println!(
        "{} events, {steps} steps, {} live blocks of {} sources: reading {reading:.2} s, with the search {searching:.2} s; all of it {}",
        outcome.events,
        outcome.live_blocks().len(),
        sources.len(),
        together.verdict.word()
    );
    Ok(())
}

/// Time this process spent on a processor so far.
fn processor_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: u64 = text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

/// Random allocations and frees, a step now and then.
fn build(events: u64, most_live: usize, steps: u64) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    spool.config("c=20;py=0;cpu=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.module(lane, 0, 0x7f00_0000_0000, b"/usr/lib/libprogram.so", b"build");
    let mut node = 0;
    for stack in 0..STACKS {
        for depth in 0..DEPTH {
            let parent = if depth == 0 { 0 } else { node };
            node += 1;
            spool.c_node(lane, node, parent, 0, u64::from(stack * 1000 + depth));
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut live, mut fresh) = (Vec::new(), 0u64);
    let in_a_step = events.checked_div(steps).unwrap_or(u64::MAX).max(1);
    for event in 1..=events {
        let number = next();
        let ticks = event * 50;
        if event % in_a_step == 0 {
            spool.system(lane, ticks, SystemKind::Step, event / in_a_step);
        }
        // Allocate three times out of four until the wanted number is alive, then one for one.
        let allocate = if live.len() < most_live { number & 3 != 0 } else { false };
        if allocate || live.is_empty() {
            fresh += 1;
            let address = 0x5555_0000_0000 + fresh * 64;
            spool.alloc(lane, ticks, address, number >> 54, (1 + (number >> 16) as u32 % STACKS) * DEPTH);
            live.push(address);
        } else {
            let at = (number >> 20) as usize % live.len();
            spool.free(lane, ticks, live.swap_remove(at), 0);
        }
    }
    spool
}

//! How many events a second a replay delivers, over a made-up spool: `replay_speed [events] [live blocks]`.
//! Seconds are those of the processor, so that a busy machine does not change them much.
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]
use memscope_model::{Process, StackId};
use memscope_testkit::SpoolBuilder;
use std::hint::black_box;
use std::ops::ControlFlow;

const LANES: u32 = 4;
const STACKS: u32 = 2000;
const DEPTH: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let events: u64 = arguments.next().map_or(Ok(5_000_000), |text| text.parse())?;
    let most_live: usize = arguments.next().map_or(Ok(200_000), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    build(events, most_live).write(directory.path())?;

    for _ in 0..3 {
        let started = processor_seconds()?;
        let mut process = Process::open(directory.path())?;
        let mut stacks_sum = 0u64;
        let outcome = process.replay(
            &mut |event, _| {
                stacks_sum += u64::from(event.at.stack != StackId::NONE);
                ControlFlow::Continue(())
            },
            &mut |_| {},
        )?;
        let seconds = processor_seconds()? - started;
        black_box(stacks_sum);
        println!(
            "{} events, {} stacks, {} live blocks: {seconds:.2} s, {:.2} million events a second",
            outcome.events,
            process.stacks().len(),
            outcome.live_blocks().len(),
            outcome.events as f64 / seconds / 1e6
        );
    }
    Ok(())
}

/// Time this process spent on a processor so far.
fn processor_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: u64 = text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

/// Lanes that take turns of a few events; half of the events are frees of random blocks, some by another lane.
fn build(events: u64, most_live: usize) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    let lanes: Vec<_> = (0..LANES).map(|thread| spool.lane(thread)).collect();
    for lane in &lanes {
        let mut node = 0;
        spool.module(*lane, 0, 0x7f00_0000_0000, b"/usr/lib/libprogram.so", b"build");
        for stack in 0..STACKS {
            for depth in 0..DEPTH {
                let parent = if depth == 0 { 0 } else { node };
                node += 1;
                spool.c_node(*lane, node, parent, 0, u64::from(stack * 1000 + depth));
            }
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
    let mut lane = lanes[0];
    for event in 0..events {
        let number = next();
        if number % 8 == 0 {
            lane = lanes[(number >> 8) as usize % lanes.len()];
        }
        let ticks = event * 50;
        let stack = (1 + (number >> 16) as u32 % STACKS) * DEPTH;
        // Allocate three times out of four until the wanted number is alive, then one for one.
        let allocate = if live.len() < most_live { number & 3 != 0 } else { false };
        if allocate || live.is_empty() {
            fresh += 1;
            let address = 0x5555_0000_0000 + fresh * 64;
            spool.alloc(lane, ticks, address, number >> 54, stack);
            live.push(address);
        } else {
            let at = (number >> 20) as usize % live.len();
            spool.free(lane, ticks, live.swap_remove(at), 0);
        }
    }
    spool
}

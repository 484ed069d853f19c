//! What it costs to find memory held for nothing, reading included, over a made-up training: `inefficient_cost [events]`.
//! Seconds are those of the processor, so that a busy machine does not change them much.
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]
use memscope_analysis::{InefficiencySettings, InefficiencyTally};
use memscope_model::{Process, TraceSink, TraceSource};
use memscope_testkit::{AccessMode, LaneNumber, Space, SpoolBuilder};

const LANES: u32 = 2;
const STACKS: u32 = 2000;
const LIVE: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let most: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse())?;
    for events in [most / 100, most / 10, most] {
        let directory = tempfile::tempdir()?;
        build(events).write(directory.path())?;
        let mut process = Process::open(directory.path())?;
        let mut tally = InefficiencyTally::new(InefficiencySettings::default());
        let started = processor_seconds()?;
        process.run(&mut [], &mut |_| {})?;
        let reading = processor_seconds()? - started;
        let started = processor_seconds()?;
        let sinks: &mut [&mut dyn TraceSink] = &mut [&mut tally];
        let outcome = process.run(sinks, &mut |_| {})?;
        let report = tally.report();
        println!(
            "{} events, {} operators, {} findings: {:.2} s, of which reading {reading:.2} s",
            outcome.events + outcome.notes,
            report.operators,
            report.findings.len(),
            processor_seconds()? - started,
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

/// Operators that read two of the newest blocks or any, and write one of their own; one block is freed for each.
fn build(events: u64) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    let lanes: Vec<LaneNumber> = (0..LANES).map(|thread| spool.lane(thread)).collect();
    for lane in &lanes {
        spool.aten_name(*lane, 0, "aten::add.Tensor").aten_name(*lane, 1, "aten::empty.memory_format");
        for stack in 1..=STACKS {
            spool.unknown_node(*lane, stack, 0, u64::from(stack) << 12);
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut live: Vec<u64> = Vec::new();
    let (mut fresh, mut sequence, mut written) = (0, 0, 0);
    while written < events {
        let number = next();
        let lane = lanes[(number >> 8) as usize % lanes.len()];
        // Threads take turns.
        let ticks = sequence * 1000;
        sequence += 2;
        spool.aten_start(lane, ticks, sequence, 0, 0, number as u32 % STACKS + 1);
        for place in 0..2u64 {
            if let Some(newest) = live.len().checked_sub(1) {
                let back = if number.is_multiple_of(16) { live.len() } else { live.len().min(50) };
                let address = live[newest - (number >> (16 * place + 16)) as usize % back];
                spool.aten_access(lane, ticks + 1 + place, AccessMode::Read, 0, 0, (address + 64, 4), address, &[1]);
                written += 1;
            }
        }
        spool.aten_start(lane, ticks + 10, sequence + 1, 0, 1, 0);
        fresh += 1;
        let address = 0x12c0_0000_0000 + fresh * (2 << 20);
        spool.device_alloc(
            lane,
            ticks + 11,
            Space::PtaCaching,
            0,
            address,
            512 << (number % 8),
            0,
            number as u32 % STACKS + 1,
        );
        live.push(address);
        spool.aten_end(lane, ticks + 12, sequence + 1);
        if number.is_multiple_of(3) {
            spool.aten_access(lane, ticks + 13, AccessMode::Write, 0, 0, (address, 4), address, &[1]);
            written += 1;
        }
        spool.aten_end(lane, ticks + 14, sequence);
        written += 5;
        if live.len() > LIVE {
            let freed = live.swap_remove((number >> 40) as usize % live.len());
            spool.device_free(lane, ticks + 20, Space::PtaCaching, freed, 0);
            written += 1;
        }
    }
    spool
}

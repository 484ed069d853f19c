//! Leaks on recordings made to order.
use memscope_analysis::leaks::{
    BetweenMarks, LeakReport, LeakSearch, LeakSource, LeaksBetweenMarks, RunParts, SourcesTogether, Verdict,
};
use memscope_model::{Device, Pool, Process, StackId, TraceSource};
use memscope_testkit::{EPOCH, HOST_DEVICE, LaneNumber, Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn leaks(spool: &mut SpoolBuilder) -> LeakReport {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut search = LeakSearch::new();
    let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut search], &mut |_| {}).unwrap();
    search.finish(&outcome)
}

/// A process with four stacks, 1 to 4.
fn process() -> (SpoolBuilder, LaneNumber) {
    let mut spool = SpoolBuilder::new();
    spool.config("c=20;py=0;cpu=1;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(1);
    stacks(&mut spool, lane);
    (spool, lane)
}

fn stacks(spool: &mut SpoolBuilder, lane: LaneNumber) {
    spool.module(lane, 0, 0x1000_0000, b"/usr/bin/program", b"\x01");
    for node in 1..=4 {
        spool.c_node(lane, node, 0, 0, u64::from(node));
    }
}

/// The only source, judged alone.
fn only(report: &LeakReport) -> SourcesTogether {
    let [source] = report.sources.as_slice() else { panic!("{:?}", report.sources) };
    report.together(&[source])
}

/// Stack, verdict, bytes, blocks, first and last step.
type Judged = (StackId, Verdict, u64, u64, (u32, u32));

fn judged(report: &LeakReport) -> Vec<Judged> {
    let told = |source: &LeakSource| {
        let together = report.together(&[source]);
        (source.stack, together.verdict, together.bytes, together.blocks, (together.first, together.last))
    };
    report.sources.iter().map(told).collect()
}

/// Steps by calls of `step()`: `work(spool, step, time)` has a hundred ticks for each.
fn steps(spool: &mut SpoolBuilder, lane: LaneNumber, count: u64, mut work: impl FnMut(&mut SpoolBuilder, u64, u64)) {
    for step in 1..=count {
        work(spool, step, step * 100);
        spool.system(lane, step * 100 + 99, SystemKind::Step, step);
    }
}

/// The same by ranges, each 80 ticks long, with 20 before the next.
fn ranges(spool: &mut SpoolBuilder, lane: LaneNumber, count: u64, mut work: impl FnMut(&mut SpoolBuilder, u64, u64)) {
    for step in 1..=count {
        spool.range_start(lane, step * 100, step, "step start");
        work(spool, step, step * 100 + 1);
        spool.range_end(lane, step * 100 + 80, step);
    }
}

#[test]
fn what_is_kept_in_each_step_grows_and_says_where_and_when() {
    let (mut spool, lane) = process();
    ranges(&mut spool, lane, 12, |spool, step, time| {
        spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2);
    });
    let report = leaks(&mut spool);
    assert_eq!(report.parts, RunParts::Steps { begun: 12, ended: 12, per_place: 1 });
    let leak = only(&report);
    assert_eq!((leak.verdict, leak.bytes, leak.blocks, leak.first, leak.last), (Verdict::Grows, 768, 12, 1, 12));
    assert_eq!(leak.survivors, [64; 12]);
    assert_eq!(leak.live, (1..=12).map(|step| step * 64).collect::<Vec<u64>>());
    assert_eq!(leak.growth.map(|growth| growth.rate()), Some(64.0));
    let told: Vec<(u64, u64, u32)> = leak.largest.iter().map(|block| (block.address, block.size, block.step)).collect();
    assert_eq!(told[0], (0x1100, 64, 1));
    assert_eq!(told.len(), 12);
}

#[test]
fn what_was_made_in_the_first_step_is_kept_and_what_is_replaced_is_carried() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| {
        if step == 1 {
            spool.alloc(lane, time, 0x1000, 100, 1);
        }
        // The next batch is fetched while one is worked on.
        spool.alloc(lane, time + 1, 0x2000 + step % 3 * 0x100, 50, 2);
        if step > 1 {
            spool.free(lane, time + 2, 0x2000 + (step - 1) % 3 * 0x100, 0);
        }
    });
    let expected = [(StackId(2), Verdict::Carried, 50, 1, (12, 12)), (StackId(1), Verdict::Kept, 100, 1, (1, 1))];
    assert_eq!(judged(&leaks(&mut spool)), expected);
}

#[test]
fn what_is_freed_in_a_later_step_or_after_the_last_is_not_reported() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| {
        spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2);
        if step > 4 {
            spool.free(lane, time + 1, 0x1000 + (step - 4) * 0x100, 0);
        }
    });
    for step in 9..=12 {
        spool.free(lane, 5000 + step, 0x1000 + step * 0x100, 0);
    }
    let report = leaks(&mut spool);
    assert_eq!((judged(&report), report.freed_late.len()), (vec![], 0));
}

#[test]
fn what_grew_and_was_freed_after_the_last_step_is_told_apart() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| _ = spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2));
    for step in 1..=12 {
        spool.free(lane, 5000 + step, 0x1000 + step * 0x100, 0);
    }
    let report = leaks(&mut spool);
    assert_eq!(judged(&report), []);
    let [late] = report.freed_late.as_slice() else { panic!("{:?}", report.freed_late) };
    assert_eq!(report.growth_of_freed(&[late]).map(|growth| growth.rate()), Some(64.0));
}

#[test]
fn an_address_that_is_used_again_is_another_block() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| {
        spool.alloc(lane, time, 0x1000, 64, 2);
        if step < 12 {
            spool.free(lane, time + 1, 0x1000, 0);
        }
    });
    let expected = [(StackId(1), Verdict::Kept, 64, 1, (12, 12))];
    assert_eq!(judged(&leaks(&mut spool)), expected);
}

#[test]
fn a_block_that_grows_by_reallocation_grows() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| {
        if step > 1 {
            spool.free(lane, time, 0x1000, 0);
        }
        spool.alloc(lane, time, 0x1000, step * 64, 2);
    });
    let expected = [(StackId(1), Verdict::Grows, 768, 1, (12, 12))];
    assert_eq!(judged(&leaks(&mut spool)), expected);
}

#[test]
fn blocks_of_the_time_before_the_first_range_are_not_looked_at_and_those_between_ranges_are() {
    let (mut spool, lane) = process();
    spool.alloc(lane, 10, 0x100, 1000, 1).alloc(lane, 11, 0x200, 1000, 2);
    for step in 1..=12 {
        spool.range_start(lane, step * 100, step, "step start").range_end(lane, step * 100 + 80, step);
        // That of the last step outlives none.
        spool.alloc(lane, step * 100 + 90, 0x1000 + step * 0x100, 64, 2);
    }
    let expected = [(StackId(2), Verdict::Grows, 704, 11, (1, 11))];
    assert_eq!(judged(&leaks(&mut spool)), expected);
}

#[test]
fn a_step_that_the_run_ends_in_is_not_compared() {
    let (mut spool, lane) = process();
    ranges(&mut spool, lane, 12, |spool, step, time| _ = spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2));
    spool.range_start(lane, 1300, 13, "step start").alloc(lane, 1301, 0x9000, 9999, 2).alloc(lane, 1302, 0xa000, 1, 3);
    let report = leaks(&mut spool);
    assert_eq!(report.parts, RunParts::Steps { begun: 13, ended: 12, per_place: 1 });
    assert_eq!(judged(&report), [(StackId(1), Verdict::Grows, 768, 12, (1, 12))]);
}

#[test]
fn ranges_in_a_step_do_not_end_it_and_a_step_in_a_step_is_one_of_its_own() {
    let (mut spool, lane) = process();
    spool.range_start(lane, 10, 1, "step start").range_start(lane, 11, 2, "forward");
    spool.alloc(lane, 12, 0x1000, 5, 1).range_end(lane, 13, 2).alloc(lane, 14, 0x2000, 6, 1);
    spool.range_start(lane, 15, 3, "step start").alloc(lane, 16, 0x3000, 7, 1).range_end(lane, 17, 3);
    spool.alloc(lane, 18, 0x4000, 8, 1).range_end(lane, 19, 1);
    let leak = only(&leaks(&mut spool));
    assert_eq!((leak.survivors, leak.live), (vec![11, 7], vec![11, 18]));
}

#[test]
fn devices_and_pools_are_judged_apart() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| {
        let address = 0x1000 + step * 0x100;
        spool.device_alloc(lane, time, Space::PtaCaching, 0, address, 512, 0, 2);
        spool.device_alloc(lane, time + 1, Space::PtaCaching, 1, 0x100_0000 + address, 512, 0, 2);
        spool.device_alloc(lane, time + 2, Space::Driver, 0, 0x200_0000 + address, 512, 7, 2);
        spool.alloc(lane, time + 3, 0x300_0000 + address, 512, 2);
        if step > 1 {
            spool.device_free(lane, time + 4, Space::PtaCaching, 0x100_0000 + address - 0x100, 0);
        }
    });
    let report = leaks(&mut spool);
    let told: Vec<_> = report
        .sources
        .iter()
        .map(|source| (source.device, source.pool, report.together(&[source]).verdict, source.blocks))
        .collect();
    let expected = [
        (Device::Cpu, Pool::Host, Verdict::Grows, 12),
        (Device::Npu(0), Pool::Hal, Verdict::Grows, 12),
        (Device::Npu(0), Pool::PtaCaching, Verdict::Grows, 12),
        (Device::Npu(1), Pool::PtaCaching, Verdict::Carried, 1),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_line_that_leaks_by_many_ways_grows_though_no_way_does() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 40, |spool, step, time| {
        // Each stack in a part of the run.
        let node = 1 + ((step - 1) / 10) as u32;
        spool.alloc(lane, time, 0x1000 + step * 0x100, 64, node);
    });
    let report = leaks(&mut spool);
    assert!(report.sources.iter().all(|source| report.together(&[source]).verdict == Verdict::Kept));
    let all: Vec<&LeakSource> = report.sources.iter().collect();
    let together = report.together(&all);
    assert_eq!((together.verdict, together.bytes, together.first, together.last), (Verdict::Grows, 2560, 1, 40));
}

#[test]
fn blocks_that_other_threads_make_belong_to_the_step_of_the_process() {
    let (mut spool, lane) = process();
    let other = spool.lane(2);
    stacks(&mut spool, other);
    steps(&mut spool, lane, 12, |spool, step, time| {
        spool.alloc(other, time + 10, 0x1000 + step * 0x100, 64, 2);
    });
    let leak = only(&leaks(&mut spool));
    assert_eq!((leak.verdict, leak.survivors), (Verdict::Grows, vec![64; 12]));
}

#[test]
fn steps_without_blocks_count_as_steps() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 60, |spool, step, time| {
        if step % 10 == 0 {
            spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2);
        }
    });
    let leak = only(&leaks(&mut spool));
    assert_eq!((leak.verdict, leak.survivors.len(), leak.first, leak.last), (Verdict::Grows, 60, 10, 60));
    // The same blocks, but nothing comes after the fifth.
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 60, |spool, step, time| {
        if step % 4 == 0 && step <= 20 {
            spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2);
        }
    });
    assert_eq!(only(&leaks(&mut spool)).verdict, Verdict::Kept);
}

#[test]
fn few_steps_say_nothing_about_growth() {
    for count in [1, 2, 4] {
        let (mut spool, lane) = process();
        steps(&mut spool, lane, count, |spool, step, time| _ = spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2));
        assert_eq!(only(&leaks(&mut spool)).verdict, Verdict::Kept, "{count} steps");
    }
}

#[test]
fn what_is_made_outside_of_the_chosen_time_is_not_looked_at() {
    let (mut spool, lane) = process();
    spool.config("c=20;py=0;cpu=1;mode=1;dir=/tmp");
    steps(&mut spool, lane, 30, |spool, step, time| {
        match step {
            11 | 21 => _ = spool.system(lane, time, SystemKind::StartTrace, 0),
            _ => {}
        }
        spool.alloc(lane, time + 1, 0x1000 + step * 0x100, 64, 2);
        if step == 15 || step == 29 {
            spool.system(lane, time + 2, SystemKind::StopTrace, 0);
        }
    });
    let leak = only(&leaks(&mut spool));
    assert_eq!((leak.blocks, leak.first, leak.last, leak.verdict), (14, 11, 29, Verdict::Grows));
    let made_in = |step: usize| leak.survivors[step - 1];
    assert_eq!([10, 11, 15, 16, 20, 21, 29, 30].map(made_in), [0, 64, 64, 0, 0, 64, 64, 0]);
}

#[test]
fn of_a_python_program_the_end_is_when_main_returned() {
    let mut spool = SpoolBuilder::new();
    spool.process(7, 1).config("c=0;py=20;cpu=1;dir=/tmp");
    let lane = spool.lane(7);
    spool.code(lane, 0, "/me/a.py", "<module>", 1).code(lane, 1, "/me/a.py", "keep", 3);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
    spool.alloc(lane, 10, 0x100, 1, 1);
    steps(&mut spool, lane, 12, |spool, step, time| _ = spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2));
    // The interpreter takes itself apart: it allocates without a frame, and frees what modules hold.
    spool.alloc(lane, 2000, 0x9000, 7, 0);
    for step in 1..=12 {
        spool.free(lane, 2000 + step, 0x1000 + step * 0x100, 0);
    }
    let report = leaks(&mut spool);
    assert_eq!(report.main_returned, Some(EPOCH.later_by(2000)));
    let keep = report.sources.iter().find(|source| source.blocks == 12).expect("what was kept");
    let leak = report.together(&[keep]);
    assert_eq!((leak.verdict, leak.bytes, leak.largest.len()), (Verdict::Grows, 768, 12));
}

#[test]
fn frees_of_device_memory_without_a_python_frame_show_that_main_returned() {
    let mut spool = SpoolBuilder::new();
    spool.process(7, 1).config("c=0;py=20;cpu=0;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(7);
    spool.code(lane, 0, "/me/a.py", "<module>", 1).code(lane, 1, "/me/a.py", "keep", 3);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
    let other = spool.lane(8);
    let address = |step: u64| 0x1000 + step * 0x1000;
    steps(&mut spool, lane, 12, |spool, step, time| {
        spool.device_alloc(lane, time, Space::PtaCaching, 0, address(step), 512, 0, 2);
        spool.device_alloc(lane, time + 1, Space::PtaCaching, 0, 0x10_0000, 512, 0, 1);
        spool.device_free(lane, time + 2, Space::PtaCaching, 0x10_0000, 1);
        // Another thread has no frame at all.
        spool.device_alloc(other, time + 3, Space::PtaCaching, 0, 0x20_0000, 512, 0, 0);
        spool.device_free(other, time + 4, Space::PtaCaching, 0x20_0000, 0);
    });
    for step in 1..=12 {
        spool.device_free(lane, 2000 + step, Space::PtaCaching, address(step), 0);
    }
    let report = leaks(&mut spool);
    assert_eq!(report.main_returned, Some(EPOCH.later_by(2001)));
    let leak = only(&report);
    assert_eq!((leak.verdict, leak.blocks, report.freed_late.len()), (Verdict::Grows, 12, 0));
}

#[test]
fn a_block_is_made_for_the_operator_that_is_open_or_the_newest_kernel() {
    let (mut spool, lane) = process();
    spool.config("c=20;py=0;cpu=0;npu=ffffffff;level=3;dump=15;dir=/tmp");
    let other = spool.lane(2);
    spool.kernel_name(other, 5, "MatMul");
    steps(&mut spool, lane, 3, |spool, step, time| {
        let block = |spool: &mut SpoolBuilder, at: u64| {
            let address = 0x1000 + (step * 10 + at) * 0x1000;
            spool.device_alloc(lane, time + at, Space::Atb, 0, address, 512, 0, 1 + at as u32 / 2);
        };
        match step {
            1 => block(spool, 1),
            2 => {
                // A framework launches from a thread of its own.
                spool.launch(other, time).task(other, time, 0, 1, 1, 5);
                block(spool, 3);
            }
            _ => {
                spool.operator_start(lane, time, 1, 0, (0, 0), "0/Linear", "Linear", 0);
                block(spool, 5);
                spool.operator_end(lane, time + 6, 1);
            }
        }
    });
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut search = LeakSearch::new();
    let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut search], &mut |_| {}).unwrap();
    let report = search.finish(&outcome);
    let mut told: Vec<(u32, Option<&str>)> = report
        .sources
        .iter()
        .map(|source| {
            let leak = report.together(&[source]);
            (leak.first, leak.operator.and_then(|name| outcome.names.get(name)).map(|name| name.text))
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, [(1, None), (2, Some("MatMul")), (3, Some("Linear"))]);
}

const MILLISECOND: u64 = 1 << 20;

#[test]
fn without_steps_growth_shows_over_the_time() {
    let (mut spool, lane) = process();
    spool.alloc(lane, 1, 0x100, 4096, 1);
    for number in 1..=200 {
        let time = number * MILLISECOND;
        spool.alloc(lane, time, 0x1000 + number * 0x100, 64, 2);
        // A buffer that is replaced.
        spool.alloc(lane, time + 1, 0x20_0000 + number % 2 * 0x1000, 640, 3);
        if number > 1 {
            spool.free(lane, time + 2, 0x20_0000 + (number - 1) % 2 * 0x1000, 0);
        }
    }
    let report = leaks(&mut spool);
    assert_eq!(report.parts, RunParts::Time { start: EPOCH.later_by(1), per_place: 4 * MILLISECOND });
    let told: BTreeMap<u32, (Verdict, u64)> =
        judged(&report).into_iter().map(|(stack, verdict, bytes, ..)| (stack.0, (verdict, bytes))).collect();
    let expected = [(1, (Verdict::Kept, 4096)), (2, (Verdict::Grows, 12_800)), (3, (Verdict::Carried, 640))];
    assert_eq!(told, BTreeMap::from(expected));
}

#[test]
fn of_many_steps_several_share_a_place() {
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 5000, |spool, step, time| {
        spool.alloc(lane, time, 0x1000 + step * 0x100, 64, 2);
        // Held only at the end of every third step.
        match step % 3 {
            0 => _ = spool.alloc(lane, time + 1, 0x10, 1000, 2),
            1 if step > 1 => _ = spool.free(lane, time + 1, 0x10, 0),
            _ => {}
        }
    });
    let report = leaks(&mut spool);
    assert_eq!(report.parts, RunParts::Steps { begun: 5001, ended: 5000, per_place: 8 });
    let leak = only(&report);
    assert_eq!((leak.verdict, leak.bytes, leak.survivors.len()), (Verdict::Grows, 320_000, 625));
    assert!(leak.survivors.iter().all(|bytes| *bytes == 512));
    let at_end_of = |step: u64| step * 64 + if step.is_multiple_of(3) { 1000 } else { 0 };
    let least = |place: u64| (place * 8 + 1..=place * 8 + 8).map(at_end_of).min().unwrap();
    assert!((0..).zip(&leak.live).all(|(place, live)| *live == least(place)));
}

/// What a source is expected to have left.
#[derive(Clone, PartialEq, Debug, Default)]
struct Expected {
    survivors: Vec<u64>,
    live: Vec<u64>,
    blocks: u64,
    addresses: Vec<u64>,
}

proptest! {
    #[test]
    fn agrees_with_a_list_of_blocks(
        events in proptest::collection::vec((0u8..9, 0u64..12, 1u64..50, 1u32..4), 1..200),
    ) {
        let (mut spool, lane) = process();
        let mut live: BTreeMap<u64, (u64, u32, usize)> = BTreeMap::new();
        // By stack: what was alive at the end of each step.
        let mut ends: Vec<BTreeMap<u32, u64>> = Vec::new();
        for (time, (kind, slot, size, stack)) in (10u64..).zip(&events) {
            let address = 0x1000 + slot * 0x100;
            match kind {
                0 => {
                    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
                    live.values().for_each(|(size, stack, _)| *sums.entry(*stack).or_default() += size);
                    ends.push(sums);
                    spool.system(lane, time, SystemKind::Step, ends.len() as u64);
                }
                _ if live.remove(&address).is_some() => _ = spool.free(lane, time, address, 0),
                _ => {
                    live.insert(address, (*size, *stack, ends.len()));
                    spool.alloc(lane, time, address, *size, *stack);
                }
            }
        }
        prop_assume!(!ends.is_empty());
        let mut expected: BTreeMap<u32, Expected> = BTreeMap::new();
        for (address, (size, stack, step)) in live.iter().filter(|(_, (_, _, step))| *step < ends.len()) {
            let source = expected.entry(*stack).or_insert_with(|| Expected {
                survivors: vec![0; ends.len()],
                live: ends.iter().map(|sums| sums.get(stack).copied().unwrap_or(0)).collect(),
                ..Expected::default()
            });
            source.survivors[*step] += size;
            source.blocks += 1;
            source.addresses.push(*address);
        }
        let report = leaks(&mut spool);
        let found: BTreeMap<u32, Expected> = report
            .sources
            .iter()
            .map(|source| {
                let leak = report.together(&[source]);
                let mut addresses: Vec<u64> = leak.largest.iter().map(|block| block.address).collect();
                addresses.sort_unstable();
                let found = Expected { survivors: leak.survivors, live: leak.live, blocks: leak.blocks, addresses };
                (source.stack.0, found)
            })
            .collect();
        // The process numbers stacks as they come.
        let by_content = |sources: BTreeMap<u32, Expected>| {
            let mut sources: Vec<String> = sources.into_values().map(|source| format!("{source:?}")).collect();
            sources.sort_unstable();
            sources
        };
        prop_assert_eq!(by_content(found), by_content(expected));
    }
}

fn between(spool: &mut SpoolBuilder, text: &str, start: usize) -> Vec<BetweenMarks> {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut search = LeaksBetweenMarks::new(text, start);
    Process::open(directory.path()).unwrap().run(&mut [&mut search], &mut |_| {}).unwrap();
    search.finish()
}

fn addresses(found: &BetweenMarks) -> Vec<u64> {
    found.leaks.iter().map(|(block, _)| block.address).collect()
}

#[test]
fn what_is_allocated_from_a_to_b_must_be_freed_by_c() {
    let (mut spool, lane) = process();
    spool.alloc(lane, 10, 0x1000, 8, 1).mark(lane, 20, "test").mark(lane, 21, "other");
    spool.alloc(lane, 30, 0x2000, 8, 1).alloc(lane, 31, 0x3000, 8, 1).alloc(lane, 32, 0x4000, 8, 1);
    spool.alloc(lane, 33, 0x5000, 8, 1).free(lane, 34, 0x5000, 0).mark(lane, 40, "test");
    // Too late to be looked at, soon enough to be freed, and freed too late.
    spool.alloc(lane, 50, 0x6000, 8, 1).free(lane, 51, 0x3000, 0).mark(lane, 60, "test").free(lane, 70, 0x4000, 0);
    let [found] = between(&mut spool, "test", 0).try_into().unwrap();
    assert_eq!((found.device, found.marks, addresses(&found)), (Device::Cpu, 3, vec![0x2000, 0x4000]));
    assert_eq!(found.points.unwrap().map(|point| point.time), [20, 40, 60].map(|after| EPOCH.later_by(after)));
}

#[test]
fn without_three_marks_from_the_wanted_one_on_nothing_is_said() {
    let (mut spool, lane) = process();
    spool.mark(lane, 20, "test").alloc(lane, 30, 0x2000, 8, 1).mark(lane, 40, "test").mark(lane, 60, "test");
    for (text, start, marks) in [("test", 1, 3), ("other", 0, 0), ("test", 9, 3)] {
        let [found] = between(&mut spool, text, start).try_into().unwrap();
        assert_eq!((found.marks, found.points, addresses(&found)), (marks, None, vec![]), "{text} from {start}");
    }
}

#[test]
fn the_wanted_mark_is_counted_from_zero() {
    let (mut spool, lane) = process();
    for number in 0..5 {
        spool.mark(lane, number * 10, "test").alloc(lane, number * 10 + 1, 0x1000 + number * 0x100, 8, 1);
    }
    let [found] = between(&mut spool, "test", 2).try_into().unwrap();
    assert_eq!((found.marks, addresses(&found)), (5, vec![0x1200]));
}

#[test]
fn each_device_has_marks_of_its_own_and_all_pools_count() {
    let (mut spool, lane) = process();
    let other = spool.lane(2);
    spool.system(lane, 1, SystemKind::SetDevice, 0).system(other, 2, SystemKind::SetDevice, 1);
    for (number, time) in (0..3u64).zip([100, 200, 300]) {
        spool.mark(lane, time, "test").mark(other, time + 50, "test");
        let address = 0x1000 + number * 0x1000;
        spool.device_alloc(lane, time + 60, Space::PtaCaching, 0, address, 512, 0, 1);
        spool.device_alloc(lane, time + 61, Space::Driver, 0, 0x100_0000 + address, 512, 7, 1);
        spool.device_alloc(other, time + 62, Space::MindSpore, 1, address, 512, 0, 0);
        spool.alloc(lane, time + 63, 0x9_0000 + address, 8, 1);
    }
    let found = between(&mut spool, "test", 0);
    let told: Vec<_> = found.iter().map(|found| (found.device, found.marks, addresses(found))).collect();
    let expected = [
        (Device::Cpu, 3, vec![0x9_1000]),
        (Device::Npu(0), 3, vec![0x1000, 0x100_1000]),
        (Device::Npu(1), 3, vec![0x1000]),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_storage_that_leaks_is_told_once_and_not_with_the_block_of_the_heap_it_lies_in() {
    const MIB: u64 = 1 << 20;
    let (mut spool, lane) = process();
    steps(&mut spool, lane, 12, |spool, step, time| {
        let address = 0x1000_0000 + (step << 21);
        spool.alloc(lane, time, address, MIB, 1);
        spool.device_alloc(lane, time + 1, Space::TensorStorage, HOST_DEVICE, address, MIB, 0, 2);
        // Of the same line, but no storage: what tells of the tensor.
        spool.alloc(lane, time + 2, address + MIB, 16, 3);
        if step == 3 {
            // Freed: then neither is left.
            spool.device_free(lane, time + 3, Space::TensorStorage, address, 0).free(lane, time + 4, address, 0);
        }
    });
    let report = leaks(&mut spool);
    let told: Vec<_> = report.sources.iter().map(|source| (source.pool, source.bytes, source.blocks)).collect();
    assert_eq!(told, [(Pool::PtaCaching, 11 * MIB, 11), (Pool::Host, 192, 12)]);
    let pta = report.together(&[&report.sources[0]]);
    assert_eq!((pta.verdict, pta.live.last()), (Verdict::Grows, Some(&(11 * MIB))));
}

#[test]
fn between_marks_a_storage_is_told_once_too() {
    let (mut spool, lane) = process();
    spool.mark(lane, 10, "m").alloc(lane, 11, 0x1000, 100, 1);
    spool.device_alloc(lane, 12, Space::TensorStorage, HOST_DEVICE, 0x1000, 100, 0, 2).alloc(lane, 13, 0x2000, 5, 3);
    spool.mark(lane, 20, "m").mark(lane, 30, "m");
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut search = LeaksBetweenMarks::new("m", 0);
    Process::open(directory.path()).unwrap().run(&mut [&mut search], &mut |_| {}).unwrap();
    let found = search.finish();
    let leaks: Vec<_> = found[0].leaks.iter().map(|(block, _)| (block.pool, block.size)).collect();
    assert_eq!(leaks, [(Pool::PtaCaching, 100), (Pool::Host, 5)]);
}

/// A Python program: code in its main module is node 1, in an installed module that it imports node 3.
fn python_process() -> (SpoolBuilder, LaneNumber) {
    let mut spool = SpoolBuilder::new();
    spool.process(7, 1).config("c=0;py=20;cpu=1;dir=/tmp");
    let lane = spool.lane(7);
    spool.code(lane, 0, "/me/a.py", "<module>", 1);
    spool.code(lane, 1, "<frozen importlib._bootstrap>", "_find_and_load", 1);
    spool.code(lane, 2, "/v/lib/python3.11/site-packages/torch/__init__.py", "<module>", 1);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0).python_node(lane, 3, 2, 2, 0);
    (spool, lane)
}

#[test]
fn of_parts_of_the_time_the_last_is_over_before_main_returned() {
    let (mut spool, lane) = python_process();
    let address = |number: u64| 0x10_0000 + number * 0x1000;
    for number in 1..=100 {
        spool.alloc(lane, number * MILLISECOND, address(number), 64, 1);
    }
    // The interpreter takes itself apart.
    spool.alloc(lane, 101 * MILLISECOND, 0x90_0000, 8, 0);
    for number in 1..=100 {
        spool.free(lane, 101 * MILLISECOND + number, address(number), 0);
    }
    spool.alloc(lane, 120 * MILLISECOND, 0x91_0000, 8, 0);
    let report = leaks(&mut spool);
    let leak = only(&report);
    assert_eq!((leak.verdict, leak.blocks), (Verdict::Grows, 100), "{:?}", leak.live);
    assert!(leak.live.is_sorted(), "{:?}", leak.live);
}

#[test]
fn what_imports_bring_does_not_grow_and_does_not_hide_what_does() {
    let (mut spool, lane) = python_process();
    spool.alloc(lane, 1, 0x100, 64, 1);
    for number in 1..=900 {
        spool.alloc(lane, number * MILLISECOND, 0x100_0000 + number * 0x1000, 64, 3);
    }
    for number in 901..=1000 {
        spool.alloc(lane, number * MILLISECOND, 0x100_0000 + number * 0x1000, 64, 1);
    }
    let report = leaks(&mut spool);
    let verdicts: Vec<(u64, Verdict)> = judged(&report).iter().map(|leak| (leak.3, leak.1)).collect();
    assert_eq!(verdicts, [(101, Verdict::Grows), (900, Verdict::Kept)]);
    // Of a program that only imports there is nothing to tell.
    let (mut spool, lane) = python_process();
    for number in 1..=900 {
        spool.alloc(lane, number * MILLISECOND, 0x100_0000 + number * 0x1000, 64, 3);
    }
    assert!(leaks(&mut spool).is_too_short());
}

/// In the middle of its work the program had to wait, for longer than it worked.
#[test]
fn a_leak_shows_in_the_work_where_time_is_uneven() {
    let (mut spool, lane) = process();
    for number in 1..=2000 {
        let waited = if number > 700 { 200 * MILLISECOND } else { 0 };
        let time = number * MILLISECOND / 20 + waited;
        spool.alloc(lane, time, 0x10_0000 + number * 0x100, 64, 2);
        spool.alloc(lane, time + 1, 0x1000, 640, 3);
        spool.free(lane, time + 2, 0x1000, 0);
    }
    assert_eq!(only(&leaks(&mut spool)).verdict, Verdict::Grows);
}

//! Who held the memory at moments other than the peak and the end, on recordings made to order.
use memscope_analysis::{Held, Holdings, PointInTime, UsageTally};
use memscope_model::{Device, Pool, Process, StackId, TraceSource};
use memscope_testkit::{EPOCH, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn usage(spool: &mut SpoolBuilder, points: &[PointInTime]) -> UsageTally {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut usage = UsageTally::at(points);
    Process::open(directory.path()).unwrap().run(&mut [&mut usage], &mut |_| {}).unwrap();
    usage
}

fn host(usage: &UsageTally, point: PointInTime) -> Option<Holdings> {
    usage.holdings(Device::Cpu, Pool::Host, point)
}

fn total(usage: &UsageTally, point: PointInTime) -> Option<(u64, u64)> {
    host(usage, point).map(|holdings| (holdings.total.bytes, holdings.total.blocks))
}

#[test]
fn a_moment_that_never_came_has_no_answer() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 10, 0x1000, 5, 0).range_start(lane, 20, 1, "step start").alloc(lane, 30, 0x2000, 6, 0);
    let usage = usage(&mut spool, &[PointInTime::StepEnd(2), PointInTime::MainReturned]);
    assert_eq!(total(&usage, PointInTime::StepEnd(2)), None);
    assert_eq!(total(&usage, PointInTime::MainReturned), None);
    // Nobody asked for this one.
    assert_eq!(total(&usage, PointInTime::StepEnd(1)), None);
    assert_eq!(total(&usage, PointInTime::End), Some((11, 2)));
}

#[test]
fn a_step_ends_with_its_range_or_with_the_trace() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 10, 0x1000, 5, 0);
    for (step, time) in [(1, 100), (2, 200)] {
        spool.range_start(lane, time, step, "step start");
        spool.alloc(lane, time + 1, 0x1000 + time, 10, 0).alloc(lane, time + 2, 0x9000, 1, 0);
        if step == 1 {
            spool.free(lane, time + 3, 0x9000, 0).range_end(lane, time + 4, step).alloc(lane, time + 5, 0xa000, 100, 0);
        }
    }
    let usage = usage(&mut spool, &[PointInTime::StepEnd(1), PointInTime::StepEnd(2)]);
    assert_eq!(total(&usage, PointInTime::StepEnd(1)), Some((15, 2)));
    assert_eq!(total(&usage, PointInTime::StepEnd(2)), Some((126, 5)));
}

#[test]
fn what_is_allocated_while_nothing_is_traced_counts_when_it_is_alive_as_tracing_begins() {
    let mut spool = SpoolBuilder::new();
    spool.process(7, 1).config("cpu=1;mode=1;dir=/tmp");
    let lane = spool.lane(7);
    spool.alloc(lane, 1, 0x10, 1, 0).alloc(lane, 2, 0x20, 2, 0).free(lane, 3, 0x20, 0);
    spool.system(lane, 10, SystemKind::StartTrace, 0).alloc(lane, 11, 0x30, 4, 0).alloc(lane, 12, 0x40, 8, 0);
    spool.system(lane, 20, SystemKind::StopTrace, 0).alloc(lane, 21, 0x50, 16, 0).alloc(lane, 22, 0x60, 32, 0);
    spool.free(lane, 23, 0x50, 0).free(lane, 24, 0x40, 0);
    let mut again = spool.clone();
    let once = usage(&mut spool, &[]);
    assert_eq!(total(&once, PointInTime::Peak), Some((13, 3)));
    assert_eq!(total(&once, PointInTime::End), Some((5, 2)));
    again.system(lane, 30, SystemKind::StartTrace, 0).alloc(lane, 31, 0x70, 64, 0).free(lane, 32, 0x60, 0);
    again.system(lane, 40, SystemKind::StopTrace, 0).alloc(lane, 41, 0x80, 128, 0);
    let twice = usage(&mut again, &[]);
    assert_eq!(total(&twice, PointInTime::Peak), Some((101, 4)));
    assert_eq!(total(&twice, PointInTime::End), Some((69, 3)));
}

/// A Python program: `<module>` of the script is node 1, a function of it 2, an import before it 3, `atexit` 4.
fn python() -> (SpoolBuilder, memscope_testkit::LaneNumber) {
    let mut spool = SpoolBuilder::new();
    spool.process(7, 1).config("c=0;py=20;cpu=1;dir=/tmp");
    let lane = spool.lane(7);
    spool.code(lane, 0, "/me/a.py", "<module>", 1).code(lane, 1, "/me/a.py", "f", 3);
    spool.code(lane, 2, "<frozen importlib._bootstrap>", "_find_and_load", 1).code(lane, 3, "/lib/x.py", "at_exit", 1);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
    spool.python_node(lane, 3, 0, 2, 0).python_node(lane, 4, 0, 3, 0);
    (spool, lane)
}

#[test]
fn main_has_returned_before_the_interpreter_allocates_for_its_own_end() {
    let (mut spool, lane) = python();
    spool.alloc(lane, 10, 0x1000, 1, 0).alloc(lane, 20, 0x2000, 2, 3);
    spool.alloc(lane, 30, 0x3000, 100, 2).alloc(lane, 40, 0x4000, 1000, 2).free(lane, 50, 0x4000, 0);
    // Another thread tells nothing.
    let other = spool.lane(8);
    spool.alloc(other, 60, 0x8000, 10_000, 0);
    spool.alloc(lane, 70, 0x5000, 4, 4).free(lane, 80, 0x3000, 0).alloc(lane, 90, 0x6000, 8, 0);
    let usage = usage(&mut spool, &[PointInTime::MainReturned]);
    assert_eq!(total(&usage, PointInTime::MainReturned), Some((10_103, 4)));
    assert_eq!(host(&usage, PointInTime::MainReturned).unwrap().time, EPOCH.later_by(60));
}

#[test]
fn a_module_without_functions_goes_when_what_it_was_compiled_in_does() {
    let (mut spool, lane) = python();
    // The import machinery itself is a module without a caller.
    spool.code(lane, 4, "<frozen importlib._bootstrap>", "<module>", 1).python_node(lane, 5, 0, 4, 0);
    spool.alloc(lane, 5, 0x800, 1, 5).free(lane, 6, 0x800, 0);
    // Before the last import, and before the script's code: only the latter goes with it.
    spool.alloc(lane, 10, 0x1000, 1, 0).alloc(lane, 20, 0x2000, 2, 3).alloc(lane, 25, 0x2800, 7, 0);
    spool.alloc(lane, 30, 0x3000, 100, 1).alloc(lane, 40, 0x4000, 1000, 1);
    spool.free(lane, 45, 0x1000, 0).free(lane, 50, 0x4000, 0);
    spool.free(lane, 60, 0x2800, 0).free(lane, 70, 0x3000, 0).alloc(lane, 80, 0x5000, 4, 0);
    let usage = usage(&mut spool, &[PointInTime::MainReturned]);
    assert_eq!(total(&usage, PointInTime::MainReturned), Some((109, 3)));
}

#[test]
fn a_program_that_is_killed_in_main_has_what_it_had() {
    let (mut spool, lane) = python();
    spool.alloc(lane, 10, 0x1000, 1, 0).alloc(lane, 30, 0x3000, 100, 2);
    let usage = usage(&mut spool, &[PointInTime::MainReturned]);
    assert_eq!(total(&usage, PointInTime::MainReturned), Some((101, 2)));
}

#[test]
fn a_program_with_python_inside_goes_on_when_a_module_has_run() {
    let end = |later: u64| {
        let (mut spool, lane) = python();
        spool.alloc(lane, 10, 0x1000, 1, 0).alloc(lane, 30, 0x3000, 100, 2);
        for number in 0..later {
            spool.alloc(lane, 40 + number, 0x10_0000 + number * 16, 1, 0);
        }
        total(&usage(&mut spool, &[PointInTime::MainReturned]), PointInTime::MainReturned)
    };
    assert_eq!(end(4000), Some((101, 2)));
    assert_eq!(end(6000), None);
}

proptest! {
    #[test]
    fn any_time_and_any_step_agree_with_a_replay_up_to_there(
        events in proptest::collection::vec((0u8..8, 0usize..12, 1u64..50, 0u32..4), 1..120),
        until in 0u64..140,
        step in 1u32..6,
    ) {
        let mut spool = SpoolBuilder::new();
        spool.config("c=20;py=0;cpu=1;dir=/tmp");
        let lane = spool.lane(1);
        spool.module(lane, 0, 0x1000_0000, b"/usr/bin/program", b"\x01");
        for node in 1..4 {
            spool.c_node(lane, node, 0, 0, u64::from(node));
        }
        // By address, what is alive; after the events up to `until`, and when the step ended.
        let mut live: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let (mut at_time, mut at_step) = (live.clone(), None);
        let mut steps = 0u32;
        for (time, (kind, slot, size, stack)) in (10u64..).zip(&events) {
            let address = 0x1000 + *slot as u64 * 0x1000;
            match kind {
                0 => {
                    steps += 1;
                    spool.system(lane, time, SystemKind::Step, u64::from(steps));
                    if steps == step {
                        at_step = Some(live.clone());
                    }
                }
                _ if live.remove(&address).is_some() => _ = spool.free(lane, time, address, 0),
                _ => {
                    live.insert(address, (*size, *stack));
                    spool.alloc(lane, time, address, *size, *stack);
                }
            }
            if time <= until {
                at_time = live.clone();
            }
        }
        // A step that no call ended goes on to the end.
        if steps > 0 && steps + 1 == step {
            at_step = Some(live.clone());
        }
        let points = [PointInTime::Time(EPOCH.later_by(until)), PointInTime::StepEnd(step)];
        let usage = usage(&mut spool, &points);
        let by_stack = |holdings: &Holdings| -> Vec<(StackId, u64, u64)> {
            let mut stacks: Vec<_> = holdings.stacks.iter().map(|held| (held.stack, held.bytes, held.blocks)).collect();
            stacks.sort_unstable();
            stacks
        };
        let sums = |live: &BTreeMap<u64, (u64, u32)>| {
            let bytes = live.values().map(|(size, _)| size).sum::<u64>();
            let mut by_stack: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for (size, stack) in live.values() {
                let held = by_stack.entry(*stack).or_default();
                *held = (held.0 + size, held.1 + 1);
            }
            let mut shares: Vec<(u64, u64)> = by_stack.into_values().collect();
            shares.sort_unstable();
            (Held { bytes, blocks: live.len() as u64 }, shares)
        };
        let answers = |holdings: &Holdings| {
            let mut shares: Vec<(u64, u64)> = by_stack(holdings).iter().map(|(_, bytes, blocks)| (*bytes, *blocks)).collect();
            shares.sort_unstable();
            (holdings.total, shares)
        };
        if usage.pool(Device::Cpu, Pool::Host).is_some() {
            prop_assert_eq!(answers(&host(&usage, points[0]).unwrap()), sums(&at_time));
            if let Some(at_step) = at_step {
                let holdings = host(&usage, points[1]).or(host(&usage, PointInTime::End)).unwrap();
                prop_assert_eq!(answers(&holdings), sums(&at_step));
            }
        }
    }
}

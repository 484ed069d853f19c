//! What is said of memory that ran out, on recordings made to order.
use memscope_analysis::oom::{Fate, Holder, Oom, OomReport, OomWatch, PoolSituation};
use memscope_model::{Block, Device, Pool, Process, RefusedCall, TimestampNs, TraceSource};
use memscope_testkit::{EPOCH, HOST_DEVICE, HostCall, LaneNumber, Space, SpoolBuilder};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;

const LISTED: usize = 3;
const PTA: Space = Space::PtaCaching;
const DRIVER: Space = Space::Driver;

fn report(spool: &mut SpoolBuilder) -> OomReport {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut watch = OomWatch::new(LISTED);
    Process::open(directory.path()).unwrap().run(&mut [&mut watch], &mut |_| {}).unwrap();
    watch.finish()
}

/// Nodes 1 to 4 are C frames of their own, 5 and 6 are those of two lines of Python, 7 and 8 both together.
fn spool() -> (SpoolBuilder, LaneNumber) {
    let mut spool = SpoolBuilder::new();
    spool.config("c=20;py=20;cpu=1;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(7);
    define(&mut spool, lane);
    (spool, lane)
}

fn define(spool: &mut SpoolBuilder, lane: LaneNumber) {
    for node in 1..=4 {
        spool.unknown_node(lane, node, 0, 0x7f00 + u64::from(node));
    }
    spool.code(lane, 0, "/me/a.py", "first", 1).code(lane, 1, "/me/a.py", "second", 9);
    spool.python_node(lane, 5, 0, 0, 0).python_node(lane, 6, 0, 1, 0);
    spool.both(lane, 7, 1, 5).both(lane, 8, 2, 5);
}

fn brief(oom: &Oom) -> (&'static str, u64, u32) {
    (oom.request.call.name(), oom.request.size, oom.tries)
}

fn pool(oom: &Oom, pool: Pool) -> &PoolSituation {
    let situation = oom.situation.as_ref().unwrap();
    situation.pools.iter().find(|found| found.usage.pool == pool).unwrap()
}

#[test]
fn a_trace_in_which_all_was_granted_has_no_out_of_memory() {
    let (mut spool, lane) = spool();
    spool.alloc(lane, 1, 0x10, 5, 0).device_alloc(lane, 2, DRIVER, 0, 0x1000, 7, 0, 1);
    assert_eq!(report(&mut spool), OomReport::default());
}

#[test]
fn the_request_is_told_with_the_memory_of_its_own_device_by_pool() {
    let (mut spool, lane) = spool();
    spool.device_alloc(lane, 10, DRIVER, 0, 0x1000, 100, 7, 1).device_alloc(lane, 11, DRIVER, 1, 0x9000, 999, 7, 1);
    spool.pool_total(lane, 12, PTA, 0, 100);
    for (number, size, node) in [(1, 10, 2), (2, 30, 3), (3, 20, 2), (4, 30, 3)] {
        spool.device_alloc(lane, 20 + number, PTA, 0, 0x1000 + number, size, 0, node);
    }
    spool.device_free(lane, 30, PTA, 0x1001, 0).range_start(lane, 31, 1, "step start");
    spool.out_of_memory(lane, 1000, DRIVER, 0, 15, 0x403, 4);
    let found = report(&mut spool);
    assert_eq!((found.refusals, found.count, found.first.len(), found.last.is_none()), (1, 1, 1, true));
    let oom = &found.first[0];
    let request = oom.request;
    assert_eq!(
        (request.device, request.call, request.size, request.flag),
        (Device::Npu(0), RefusedCall::MemAlloc, 15, 0x403)
    );
    assert_eq!((request.thread, request.time, request.step.0), (7, EPOCH.later_by(1000), 1));
    assert_eq!((oom.tries, oom.first_time, oom.fate), (1, request.time, Fate::AskedNoMore));
    let pools: Vec<Pool> = oom.situation.as_ref().unwrap().pools.iter().map(|pool| pool.usage.pool).collect();
    assert_eq!(pools, [Pool::Hal, Pool::PtaCaching], "of the refused device alone");
    assert_eq!((pool(oom, Pool::Hal).usage.live_bytes, pool(oom, Pool::Hal).idle_bytes()), (100, None));
    let pta = pool(oom, Pool::PtaCaching);
    assert_eq!((pta.usage.live_bytes, pta.idle_bytes()), (80, Some(20)), "more than was asked for, but in pieces");
    let blocks = |blocks: &[Block]| -> Vec<(u64, u64)> {
        blocks.iter().map(|block| (block.address & 0xf, block.size)).collect()
    };
    assert_eq!(blocks(&pta.largest), [(2, 30), (4, 30), (3, 20)]);
    assert_eq!(blocks(&pta.newest), [(4, 30), (3, 20), (2, 30)]);
    let sums: Vec<(u64, u64)> = pta.by_stack.first.iter().map(|holder| (holder.bytes, holder.blocks)).collect();
    assert_eq!(sums, [(60, 2), (20, 1)]);
    assert_eq!((pta.by_owner.first[0].bytes, pta.by_stack.bytes(), pta.by_stack.blocks()), (80, 80, 3));
    // The pool's first event is at 21: the last tenth of the time begins at 903, and nothing was allocated since.
    assert_eq!((pta.lately, pta.new_by_stack.blocks()), (EPOCH.later_by(1000 - 97), 0));
    assert_eq!(pta.history.iter().map(|point| point.most_bytes).collect::<Vec<_>>(), [90]);
}

#[test]
fn what_was_allocated_lately_is_told_of_its_own() {
    let (mut spool, lane) = spool();
    spool
        .alloc(lane, 0, 0x10, 1000, 1)
        .alloc(lane, 899, 0x20, 10, 2)
        .alloc(lane, 900, 0x30, 20, 2)
        .alloc(lane, 950, 0x40, 5, 3);
    spool.free(lane, 960, 0x40, 0).host_refused(lane, 1000, HostCall::Malloc, (1 << 50, 0), 4);
    let found = report(&mut spool);
    let host = pool(&found.first[0], Pool::Host);
    assert_eq!(host.lately, EPOCH.later_by(900));
    assert_eq!(
        host.new_by_stack.first.iter().map(|holder| (holder.bytes, holder.blocks)).collect::<Vec<_>>(),
        [(20, 1)]
    );
}

/// A caching allocator gives back what it caches and asks again.
#[test]
fn tries_for_the_same_without_success_are_one_out_of_memory() {
    let (mut spool, lane) = spool();
    spool.device_alloc(lane, 1, DRIVER, 0, 0x1000, 100, 0, 1).device_alloc(lane, 2, PTA, 0, 0x1000, 100, 0, 1);
    spool.out_of_memory(lane, 10, DRIVER, 0, 64, 0, 7);
    // An allocator that takes its memory by handle may be given pieces of it.
    spool.device_free(lane, 11, DRIVER, 0x1000, 0).device_alloc(lane, 12, DRIVER, 0, 0x2000, 20, 0, 1);
    spool.out_of_memory(lane, 13, DRIVER, 0, 64, 0, 8).out_of_memory(lane, 14, DRIVER, 0, 64, 0, 7);
    let found = report(&mut spool);
    assert_eq!((found.refusals, found.count), (3, 1));
    let oom = &found.first[0];
    assert_eq!((brief(oom), oom.first_time), (("halMemAlloc", 64, 3), EPOCH.later_by(10)));
    assert_eq!(oom.request.time, EPOCH.later_by(14));
    assert_eq!(pool(oom, Pool::Hal).usage.live_bytes, 20, "as it was at the last try");
}

#[test]
fn an_allocator_that_tells_what_it_was_told_adds_nothing() {
    let (mut spool, lane) = spool();
    spool.device_alloc(lane, 1, DRIVER, 0, 0x1000, 100, 0, 1);
    spool.out_of_memory(lane, 10, DRIVER, 0, 20 << 20, 0, 7).out_of_memory(lane, 11, PTA, 0, 512, 0, 8);
    let found = report(&mut spool);
    assert_eq!(found.first.iter().map(brief).collect::<Vec<_>>(), [("PTA", 512, 2)]);
}

#[test]
fn two_in_a_row_are_two() {
    let refused = |spool: &mut SpoolBuilder, lane, ticks, size, node| {
        _ = spool.out_of_memory(lane, ticks, DRIVER, 0, size, 0, node)
    };
    // Another size, another line of Python, another device, something granted in between.
    for (second, between) in [((65, 7), false), ((64, 6), false), ((64, 7), true)] {
        let (mut spool, lane) = spool();
        spool.device_alloc(lane, 1, DRIVER, 0, 0x1000, 100, 0, 1);
        refused(&mut spool, lane, 10, 64, 7);
        if between {
            spool.device_alloc(lane, 11, DRIVER, 0, 0x2000, 8, 0, 1);
        }
        refused(&mut spool, lane, 12, second.0, second.1);
        let found = report(&mut spool);
        let expected = [("halMemAlloc", 64, 1), ("halMemAlloc", second.0, 1)];
        assert_eq!(found.first.iter().map(brief).collect::<Vec<_>>(), expected);
        assert_eq!(found.first[0].fate, if between { Fate::GivenLess } else { Fate::RefusedAgain });
        assert_eq!(found.first[1].fate, Fate::AskedNoMore);
    }
    let (mut spool, lane) = spool();
    let other = spool.lane(8);
    define(&mut spool, other);
    refused(&mut spool, lane, 10, 64, 7);
    refused(&mut spool, other, 11, 64, 7);
    spool.out_of_memory(lane, 12, DRIVER, 1, 64, 0, 7);
    refused(&mut spool, lane, 13, 64, 7);
    let found = report(&mut spool);
    // The fourth is the first's thread and device again.
    assert_eq!(
        found.first.iter().map(|oom| (oom.request.thread, oom.tries)).collect::<Vec<_>>(),
        [(7, 2), (8, 1), (7, 1)]
    );
}

#[test]
fn a_program_that_is_given_as_much_later_went_on() {
    // By the allocator, whatever the driver gives it in pieces, or by the driver.
    for (by_handle, expected) in [(true, 15), (false, 13)] {
        let (mut spool, lane) = spool();
        let other = spool.lane(8);
        let space = if by_handle { Space::DriverHandle } else { DRIVER };
        spool.device_alloc(lane, 1, PTA, 0, 0x1000, 100, 0, 1).out_of_memory(lane, 10, space, 0, 64, 0, 7);
        // What another thread is given is no answer.
        spool.device_alloc(other, 11, PTA, 0, 0x2000, 64, 0, 0).device_alloc(lane, 12, space, 0, 0x8000, 63, 0, 1);
        spool.device_alloc(lane, 13, space, 0, 0x9000, 64, 0, 1).device_alloc(lane, 14, PTA, 0, 0x3000, 63, 0, 1);
        spool.device_alloc(lane, 15, PTA, 0, 0x4000, 64, 0, 1);
        let found = report(&mut spool);
        assert_eq!(found.first[0].fate, Fate::Given(EPOCH.later_by(expected)), "by handle: {by_handle}");
    }
}

#[test]
fn of_the_host_the_same_call_site_must_ask_again() {
    let (mut spool, lane) = spool();
    let refuse =
        |spool: &mut SpoolBuilder, ticks, call, size, node| _ = spool.host_refused(lane, ticks, call, (size, 0), node);
    spool.alloc(lane, 1, 0x10, 5, 1);
    refuse(&mut spool, 10, HostCall::Malloc, 100, 2);
    refuse(&mut spool, 11, HostCall::Malloc, 100, 2);
    refuse(&mut spool, 12, HostCall::Malloc, 100, 3);
    // Python's allocator turns to `malloc` when it is given no arena.
    refuse(&mut spool, 13, HostCall::Mmap, 1 << 20, 7);
    refuse(&mut spool, 14, HostCall::Malloc, 50, 8);
    spool.device_alloc(lane, 15, Space::Registered, 0, 0x10, 60, 0, 1).alloc(lane, 16, 0x20, 60, 1);
    let found = report(&mut spool);
    let expected = [("malloc", 100, 2), ("malloc", 100, 1), ("malloc", 50, 2)];
    assert_eq!(found.first.iter().map(brief).collect::<Vec<_>>(), expected);
    assert_eq!(found.first[2].fate, Fate::Given(EPOCH.later_by(16)));
}

#[test]
fn of_very_many_the_first_and_the_last_are_told() {
    let (mut spool, lane) = spool();
    spool.alloc(lane, 1, 0x10, 5, 1);
    for number in 0..100 {
        spool.host_refused(lane, 10 + number, HostCall::Malloc, (1000 + number, 0), 2);
    }
    spool.host_refused(lane, 500, HostCall::Malloc, (1099, 0), 2);
    let found = report(&mut spool);
    assert_eq!((found.refusals, found.count), (101, 100));
    let sizes: Vec<u64> = found.told().map(|oom| oom.request.size).collect();
    assert_eq!(sizes, (1000..1020).chain([1099]).collect::<Vec<_>>());
    assert_eq!(found.last.as_ref().map(|oom| oom.tries), Some(2));
}

#[test]
fn at_the_end_the_host_is_made_of_what_was_never_freed() {
    let (mut spool, lane) = spool();
    spool.alloc(lane, 1, 0x10, 5, 1).alloc(lane, 2, 0x20, 7, 2).free(lane, 3, 0x10, 0);
    spool.device_alloc(lane, 4, DRIVER, 0, 0x1000, 100, 0, 1);
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut watch = OomWatch::new(LISTED);
    let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut watch], &mut |_| {}).unwrap();
    let situation = watch.at_end(Device::Cpu, &outcome);
    assert_eq!(situation.pools.len(), 1);
    let host = &situation.pools[0];
    assert_eq!((host.usage.live_bytes, host.largest.len(), host.by_stack.first.len()), (7, 1, 1));
    assert_eq!(host.history.iter().map(|point| point.most_bytes).collect::<Vec<_>>(), [12]);
}

/// What a test does: on thread and device, in this order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { slot: u64, size: u64, node: u32 },
    Free { slot: u64 },
    Refuse { size: u64 },
}

fn steps() -> impl Strategy<Value = Vec<(u32, u32, Step)>> {
    let step = prop_oneof![
        4 => (0u64..12, 1u64..50, 1u32..5).prop_map(|(slot, size, node)| Step::Alloc { slot, size, node }),
        3 => (0u64..12).prop_map(|slot| Step::Free { slot }),
        2 => (1u64..3).prop_map(|size| Step::Refuse { size }),
    ];
    proptest::collection::vec((0u32..2, 0u32..2, step), 0..80)
}

/// A live block: when it came, its size and its node.
type Live = BTreeMap<(u32, u64), (u64, u64, u32)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(200)))]

    /// Against a model too simple to be wrong: all live blocks in a map, sorted anew at each refusal.
    #[test]
    fn lists_and_sums_are_those_of_the_live_blocks(steps in steps()) {
        let mut spool = SpoolBuilder::new();
        spool.config("c=20;cpu=1;npu=ffffffff;dir=/tmp");
        let lanes = [spool.lane(70), spool.lane(71)];
        for lane in lanes {
            define(&mut spool, lane);
        }
        let mut live = Live::new();
        let mut expected: Vec<(u64, u32, Live)> = Vec::new();
        let mut tries: Vec<u32> = Vec::new();
        // The open out of memory of a thread and device: its place and size.
        let mut open: BTreeMap<(u32, u32), (usize, u64)> = BTreeMap::new();
        for (ticks, (thread, device, step)) in (1u64..).zip(&steps) {
            // Far enough apart for the order of two lanes to be certain.
            let (time, lane) = (ticks * 1000, lanes[*thread as usize]);
            match *step {
                Step::Alloc { slot, size, node } => {
                    spool.device_alloc(lane, time, DRIVER, *device, u64::from(*device) << 20 | slot << 8, size, 0, node);
                    live.insert((*device, slot), (ticks, size, node));
                    open.remove(&(*thread, *device));
                }
                Step::Free { slot } => {
                    spool.device_free(lane, time, DRIVER, u64::from(*device) << 20 | slot << 8, 0);
                    live.remove(&(*device, slot));
                }
                Step::Refuse { size } => {
                    spool.out_of_memory(lane, time, DRIVER, *device, size, 0, 1);
                    match open.get(&(*thread, *device)).filter(|(_, before)| *before == size) {
                        Some((place, _)) => {
                            tries[*place] += 1;
                            expected[*place] = (time, *device, live.clone());
                        }
                        None => {
                            open.insert((*thread, *device), (tries.len(), size));
                            tries.push(1);
                            expected.push((time, *device, live.clone()));
                        }
                    }
                }
            }
        }
        let found = report(&mut spool);
        prop_assert_eq!(found.count as usize, expected.len());
        prop_assert_eq!(found.refusals, tries.iter().map(|tries| u64::from(*tries)).sum::<u64>());
        for (oom, ((time, device, live), tries)) in found.first.iter().zip(expected.iter().zip(&tries)) {
            prop_assert_eq!((oom.request.time, oom.tries), (EPOCH.later_by(*time), *tries));
            let mut blocks: Vec<(u64, u64, u32)> =
                live.iter().filter(|((of, _), _)| of == device).map(|(_, block)| *block).collect();
            let Some(pool) = oom.situation.as_ref().unwrap().pools.first() else {
                prop_assert!(blocks.is_empty());
                continue;
            };
            prop_assert_eq!(pool.usage.live_bytes, blocks.iter().map(|block| block.1).sum::<u64>());
            let times = |blocks: &[Block]| -> Vec<TimestampNs> { blocks.iter().map(|block| block.made.time).collect() };
            let first = |blocks: &[(u64, u64, u32)]| -> Vec<TimestampNs> {
                blocks.iter().take(LISTED).map(|block| EPOCH.later_by(block.0 * 1000)).collect()
            };
            blocks.sort_by_key(|(time, size, _)| (Reverse(*size), *time));
            prop_assert_eq!(times(&pool.largest), first(&blocks));
            blocks.sort_by_key(|(time, ..)| Reverse(*time));
            prop_assert_eq!(times(&pool.newest), first(&blocks));
            let mut by_node: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for (_, size, node) in &blocks {
                let sum = by_node.entry(*node).or_default();
                *sum = (sum.0 + size, sum.1 + 1);
            }
            let mut sums: Vec<(u64, u64)> = by_node.into_values().collect();
            sums.sort_by_key(|sum| Reverse(*sum));
            let of = |holder: &Holder<_>| (holder.bytes, holder.blocks);
            prop_assert_eq!(pool.by_stack.first.iter().map(of).collect::<Vec<_>>(), sums);
            prop_assert_eq!(pool.history.last().map(|point| point.time <= oom.request.time), Some(true));
        }
    }
}

#[test]
fn what_torch_is_refused_on_the_host_twice_in_a_row_is_two_out_of_memory_and_its_error_text_no_answer() {
    let (mut spool, lane) = spool();
    let storage = Space::TensorStorage;
    spool.alloc(lane, 10, 0x1000, 100, 1).device_alloc(lane, 11, storage, HOST_DEVICE, 0x1000, 100, 0, 7);
    for ticks in [20, 30] {
        spool.out_of_memory(lane, ticks, storage, HOST_DEVICE, 5000, 0, 7).alloc(
            lane,
            ticks + 1,
            0x5000 + ticks,
            48,
            7,
        );
    }
    spool.alloc(lane, 40, 0x9000, 60, 1).device_alloc(lane, 41, storage, HOST_DEVICE, 0x9000, 60, 0, 7);
    let report = report(&mut spool);
    assert_eq!(report.first.iter().map(brief).collect::<Vec<_>>(), [("PTA", 5000, 1), ("PTA", 5000, 1)]);
    assert_eq!(report.first.iter().map(|oom| oom.fate).collect::<Vec<_>>(), [Fate::RefusedAgain, Fate::GivenLess]);
    let used = |oom: &Oom| (pool(oom, Pool::Host).usage.live_bytes, pool(oom, Pool::PtaCaching).usage.live_bytes);
    assert_eq!(report.first.iter().map(used).collect::<Vec<_>>(), [(100, 100), (148, 100)]);
}

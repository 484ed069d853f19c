//! How the use of pools goes up and down, on recordings made to order.
use memscope_analysis::{Basis, Bin, Fluctuation, FluctuationReport, Gap, Gaps, Holder, PoolFluctuation, StepUse};
use memscope_model::{Device, Pool, Process, TimestampNs, TraceSource};
use memscope_testkit::{EPOCH, LaneNumber, Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn report(spool: &mut SpoolBuilder) -> FluctuationReport {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let mut fluctuation = Fluctuation::new();
    let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut fluctuation], &mut |_| {}).unwrap();
    fluctuation.finish(&outcome)
}

fn pool(report: &FluctuationReport, device: Device, pool: Pool) -> &PoolFluctuation {
    report.pools.iter().find(|found| (found.device, found.pool) == (device, pool)).expect("the pool had events")
}

fn host(report: &FluctuationReport) -> &PoolFluctuation {
    pool(report, Device::Cpu, Pool::Host)
}

/// Number, least, most, begin, end.
fn steps(pool: &PoolFluctuation) -> Vec<(u32, u64, u64, u64, u64)> {
    let row = |used: &StepUse| (used.number, used.least, used.most, used.begin, used.end);
    pool.steps.iter().map(row).collect()
}

fn gap(number: u32, least: u64, most: u64) -> Gap {
    Gap { number, least, most }
}

fn step_range(spool: &mut SpoolBuilder, lane: LaneNumber, number: u64, from: u64, to: u64) {
    spool.range_start(lane, from, number, "step start").range_end(lane, to, number);
}

#[test]
fn the_first_step_and_what_is_outside_of_steps_do_not_count() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0);
    spool.range_start(lane, 10, 1, "step start").alloc(lane, 11, 0x2000, 900, 0).free(lane, 12, 0x2000, 0);
    spool.range_end(lane, 19, 1).alloc(lane, 20, 0x3000, 5000, 0).free(lane, 21, 0x3000, 0);
    spool.range_start(lane, 30, 2, "step start").alloc(lane, 31, 0x2000, 300, 0).free(lane, 32, 0x2000, 0);
    spool.range_end(lane, 39, 2);
    spool.range_start(lane, 40, 3, "step start").alloc(lane, 41, 0x2000, 100, 0).range_end(lane, 49, 3);
    // Not over: the program's end is no step's.
    spool.range_start(lane, 50, 4, "step start").free(lane, 51, 0x1000, 0).free(lane, 52, 0x2000, 0);
    let report = report(&mut spool);
    assert_eq!((report.basis, report.steps), (Basis::Steps, 4));
    let host = host(&report);
    assert_eq!(steps(host), [(1, 100, 1000, 100, 100), (2, 100, 400, 100, 100), (3, 100, 200, 100, 200)]);
    assert_eq!(host.gaps, Some(Gaps { min: gap(2, 100, 400), max: gap(3, 100, 200) }));
}

#[test]
fn what_a_step_begins_with_counts_and_one_without_events_is_level() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0);
    step_range(&mut spool, lane, 1, 10, 19);
    spool.range_start(lane, 20, 2, "step start").free(lane, 21, 0x1000, 0).alloc(lane, 22, 0x1000, 40, 0);
    spool.range_end(lane, 29, 2);
    step_range(&mut spool, lane, 3, 30, 39);
    let report = report(&mut spool);
    let host = host(&report);
    assert_eq!(steps(host), [(1, 100, 100, 100, 100), (2, 0, 100, 100, 40), (3, 40, 40, 40, 40)]);
    // Nothing in use at all is a value like any other.
    assert_eq!(host.gaps, Some(Gaps { min: gap(2, 0, 100), max: gap(3, 40, 40) }));
}

#[test]
fn a_pool_that_was_empty_all_the_step_has_nothing_to_compare() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0).free(lane, 2, 0x1000, 0);
    step_range(&mut spool, lane, 1, 10, 19);
    step_range(&mut spool, lane, 2, 20, 29);
    let report = report(&mut spool);
    assert_eq!(steps(host(&report)), [(1, 0, 0, 0, 0), (2, 0, 0, 0, 0)]);
    assert_eq!((report.basis, host(&report).gaps), (Basis::Steps, None));
}

#[test]
fn ranges_within_a_step_do_not_end_it_and_steps_may_overlap() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 10, 0);
    spool.range_start(lane, 10, 1, "step start").range_start(lane, 11, 2, "forward");
    spool.alloc(lane, 12, 0x2000, 20, 0).range_end(lane, 13, 2).alloc(lane, 14, 0x3000, 40, 0);
    // Another thread's step, that goes on after this one's end.
    let other = spool.lane(2);
    spool.range_start(other, 15, 3, "step start").alloc(other, 16, 0x4000, 80, 0);
    spool.range_end(lane, 17, 1).free(lane, 18, 0x3000, 0).free(lane, 19, 0x1000, 0).range_end(other, 20, 3);
    let report = report(&mut spool);
    assert_eq!(steps(host(&report)), [(1, 10, 150, 10, 150), (2, 70, 150, 70, 100)]);
}

#[test]
fn calls_of_step_end_steps_and_what_comes_after_the_last_is_none() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0).system(lane, 10, SystemKind::Step, 1);
    spool.alloc(lane, 11, 0x2000, 60, 0).free(lane, 12, 0x2000, 0);
    spool.system(lane, 20, SystemKind::Step, 2).system(lane, 30, SystemKind::Step, 3);
    spool.free(lane, 40, 0x1000, 0);
    let report = report(&mut spool);
    assert_eq!(report.steps, 4);
    assert_eq!(steps(host(&report)), [(1, 0, 100, 0, 100), (2, 100, 160, 100, 100), (3, 100, 100, 100, 100)]);
}

#[test]
fn devices_and_pools_have_figures_of_their_own() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    for device in 0..2 {
        spool.region(lane, 1, Space::PtaCaching, device, 0x1000 * (1 + u64::from(device)), 100);
    }
    step_range(&mut spool, lane, 1, 10, 19);
    spool.range_start(lane, 20, 2, "step start");
    spool.region(lane, 21, Space::PtaCaching, 1, 0x9000, 300).device_free(lane, 22, Space::PtaCaching, 0x9000, 0);
    spool.device_alloc(lane, 23, Space::Driver, 0, 0x10_0000, 1 << 20, 7, 0).range_end(lane, 29, 2);
    let report = report(&mut spool);
    let found: Vec<_> =
        report.pools.iter().map(|pool| (pool.device, pool.pool, pool.gaps.map(|gaps| gaps.min))).collect();
    let (npu0, npu1) = (Device::Npu(0), Device::Npu(1));
    assert_eq!(
        found,
        [
            (npu0, Pool::Hal, Some(gap(2, 0, 1 << 20))),
            (npu0, Pool::PtaCaching, Some(gap(2, 100, 100))),
            (npu1, Pool::PtaCaching, Some(gap(2, 100, 400))),
        ]
    );
}

#[test]
fn only_the_chosen_time_counts() {
    let mut spool = SpoolBuilder::new();
    spool.config("c=0;py=0;cpu=1;mode=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0).alloc(lane, 2, 0x2000, 9000, 0).free(lane, 3, 0x2000, 0);
    step_range(&mut spool, lane, 1, 4, 5);
    // A span that begins and ends within a step,
    spool.range_start(lane, 10, 2, "step start").alloc(lane, 11, 0x2000, 5000, 0).free(lane, 12, 0x2000, 0);
    spool.system(lane, 13, SystemKind::StartTrace, 0).alloc(lane, 14, 0x3000, 50, 0).free(lane, 15, 0x3000, 0);
    spool.system(lane, 16, SystemKind::StopTrace, 0).free(lane, 17, 0x1000, 0).range_end(lane, 18, 2);
    // no span at all, and one that begins in one step and ends in the next.
    step_range(&mut spool, lane, 3, 20, 29);
    spool.range_start(lane, 30, 4, "step start").alloc(lane, 31, 0x1000, 70, 0);
    spool.system(lane, 32, SystemKind::StartTrace, 0).range_end(lane, 33, 4);
    spool.range_start(lane, 34, 5, "step start").alloc(lane, 35, 0x2000, 7, 0);
    spool.system(lane, 36, SystemKind::StopTrace, 0).alloc(lane, 37, 0x4000, 7000, 0).range_end(lane, 38, 5);
    let report = report(&mut spool);
    let host = host(&report);
    assert_eq!(steps(host), [(2, 100, 150, 100, 100), (4, 70, 70, 70, 70), (5, 70, 77, 70, 77)]);
    let peak = host.peak.as_ref().unwrap();
    assert_eq!((peak.at.used, peak.blocks, peak.at.time, peak.at.step), (150, 2, EPOCH.later_by(14), Some(2)));
}

#[test]
fn memory_that_was_there_before_the_chosen_time_can_be_the_peak() {
    let mut spool = SpoolBuilder::new();
    spool.config("c=0;py=0;cpu=1;mode=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0).system(lane, 10, SystemKind::StartTrace, 0).free(lane, 20, 0x1000, 0);
    let report = report(&mut spool);
    let peak = host(&report).peak.as_ref().unwrap();
    assert_eq!((peak.at.used, peak.at.time), (100, EPOCH.later_by(10)));
}

#[test]
fn two_halves_of_one_change_are_one() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    // A workspace is registered again at each use; a mapping is cut.
    spool.region(lane, 1, Space::PtaWorkspace, 0, 0x1000, 100).map(lane, 2, 0x10_0000, 0x8000, 0);
    step_range(&mut spool, lane, 1, 10, 19);
    spool.range_start(lane, 20, 2, "step start").region(lane, 21, Space::PtaWorkspace, 0, 0x1000, 100);
    spool.unmap(lane, 22, 0x10_2000, 0x2000, 0).region(lane, 23, Space::PtaWorkspace, 0, 0x1000, 120);
    spool.range_end(lane, 29, 2);
    let report = report(&mut spool);
    assert_eq!(steps(pool(&report, Device::Npu(0), Pool::PtaWorkspace))[1], (2, 100, 120, 100, 120));
    assert_eq!(steps(host(&report))[1], (2, 0x6000, 0x8000, 0x8000, 0x6000));
}

#[test]
fn the_peak_says_who_held_it_and_what_was_reserved() {
    let mut spool = SpoolBuilder::new();
    spool.config("c=20;py=0;cpu=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.module(lane, 0, 0x1000_0000, b"/usr/bin/program", b"\x01");
    spool.c_node(lane, 1, 0, 0, 0x10).c_node(lane, 2, 0, 0, 0x20);
    let pta = Space::PtaCaching;
    spool.pool_total(lane, 1, pta, 0, 1000);
    spool.device_alloc(lane, 2, pta, 0, 0x1000, 600, 0, 1).device_alloc(lane, 3, pta, 0, 0x2000, 200, 0, 2);
    spool.device_alloc(lane, 4, pta, 0, 0x3000, 100, 0, 2).device_free(lane, 5, pta, 0x1000, 0);
    spool.pool_total(lane, 6, pta, 0, 4000).device_free(lane, 7, pta, 0x2000, 0);
    spool.device_alloc(lane, 8, pta, 0, 0x1000, 700, 0, 1);
    let report = report(&mut spool);
    let pool = pool(&report, Device::Npu(0), Pool::PtaCaching);
    let peak = pool.peak.as_ref().unwrap();
    assert_eq!((peak.at.used, peak.at.reserved, peak.at.unused(), peak.blocks), (900, Some(1000), 100, 3));
    assert_eq!(peak.at.time, EPOCH.later_by(4));
    let held: Vec<_> = peak.stacks.iter().map(|(_, held)| (held.bytes, held.blocks)).collect();
    assert_eq!(held, [(600, 1), (300, 2)]);
    let owners: Vec<_> = peak.owners.iter().map(|share| (share.holder.clone(), share.held.bytes)).collect();
    assert_eq!(owners, [(Holder::Owner("PTA".to_owned()), 900)]);
    let worst = pool.worst.unwrap();
    assert_eq!((worst.time, worst.used, worst.reserved), (EPOCH.later_by(7), 100, Some(4000)));
}

#[test]
fn without_steps_pieces_of_time_are_compared() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let million = 1_000_000;
    spool.alloc(lane, million, 0x1000, 100, 0).alloc(lane, 20 * million, 0x2000, 300, 0);
    spool.free(lane, 20 * million + 100, 0x2000, 0).free(lane, 41 * million, 0x1000, 0);
    let report = report(&mut spool);
    assert_eq!((report.basis, report.steps), (Basis::Time, 0));
    let host = host(&report);
    assert!(host.bins.len() > 32 && host.bins.len() <= 64, "{}", host.bins.len());
    let gaps = host.gaps.unwrap();
    assert_eq!((gaps.min.least, gaps.min.most, gaps.max.least, gaps.max.most), (100, 400, 100, 100));
    let begin = report.bins_from.later_by(u64::from(gaps.min.number - 1) * report.bin_ns);
    let moment = EPOCH.later_by(20 * million);
    assert!(begin <= moment && moment.since(begin) < report.bin_ns);
}

#[test]
fn one_step_is_too_few_to_compare() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0);
    step_range(&mut spool, lane, 1, 10, 19);
    let report = report(&mut spool);
    assert_eq!((report.basis, report.steps), (Basis::Time, 1));
}

/// What a program did next, a time after what it did before.
#[derive(Clone, Debug)]
enum Deed {
    Toggle { slot: u64, size: u64, stack: u32 },
    Reserve(u64),
    Step,
}

fn deeds() -> impl Strategy<Value = Vec<(u64, Deed)>> {
    let deed = prop_oneof![
        8 => (0u64..12, 1u64..50, 0u32..3).prop_map(|(slot, size, stack)| Deed::Toggle { slot, size, stack }),
        1 => (0u64..1000).prop_map(Deed::Reserve),
        3 => Just(Deed::Step),
    ];
    proptest::collection::vec((prop_oneof![Just(1u64), 1u64..100_000], deed), 1..150)
}

/// Blocks by address: size and stack.
type Live = BTreeMap<u64, (u64, u32)>;
/// Time, bytes in use, reserved, and the blocks, after an event.
type After = (u64, u64, Option<u64>, Live);

/// A pool, remembered in full.
#[derive(Clone, Default)]
struct Remembered {
    live: Live,
    reserved: Option<u64>,
    history: Vec<After>,
}

impl Remembered {
    fn used(&self) -> u64 {
        self.live.values().map(|(size, _)| size).sum()
    }
}

proptest! {
    #[test]
    fn agrees_with_a_pool_remembered_in_full(deeds in deeds(), by_ranges in any::<bool>()) {
        let mut spool = SpoolBuilder::new();
        spool.config("c=20;py=0;cpu=1;dir=/tmp");
        let lane = spool.lane(1);
        spool.module(lane, 0, 0x1000_0000, b"/usr/bin/program", b"\x01");
        spool.c_node(lane, 1, 0, 0, 0x10).c_node(lane, 2, 0, 0, 0x20);
        let pta = Space::PtaCaching;
        let mut pool = Remembered::default();
        let (mut now, mut marks, mut last) = (0u64, 0u64, 5);
        // The first event of all, so that the pool is there from the beginning.
        spool.region(lane, 5, pta, 0, 0x8_0000, 1);
        pool.live.insert(0x8_0000, (1, 0));
        pool.history.push((5, 1, None, pool.live.clone()));
        // What was in use, from a step's beginning to its end.
        let mut open: Option<(u32, Vec<u64>)> = (!by_ranges).then_some((1, vec![0, 1]));
        let mut ended: Vec<(u32, Vec<u64>)> = Vec::new();
        for (later, deed) in &deeds {
            now += later;
            let time = now + 5;
            if !matches!(deed, Deed::Reserve(_)) {
                last = time;
            }
            match deed {
                Deed::Toggle { slot, size, stack } => {
                    let address = 0x1000 + slot * 0x1000;
                    if pool.live.remove(&address).is_some() {
                        spool.device_free(lane, time, pta, address, 0);
                    } else {
                        pool.live.insert(address, (*size, *stack));
                        spool.device_alloc(lane, time, pta, 0, address, *size, 0, *stack);
                    }
                    let used = pool.used();
                    pool.history.push((time, used, pool.reserved, pool.live.clone()));
                    if let Some((_, values)) = &mut open {
                        values.push(used);
                    }
                }
                // No event: heard of with the next block.
                Deed::Reserve(bytes) => {
                    pool.reserved = Some(*bytes);
                    spool.pool_total(lane, time, pta, 0, *bytes);
                }
                Deed::Step => {
                    marks += 1;
                    let used = pool.used();
                    if !by_ranges {
                        spool.system(lane, time, SystemKind::Step, marks);
                        ended.extend(open.replace((marks as u32 + 1, vec![used])));
                    } else if let Some(over) = open.take() {
                        spool.range_end(lane, time, u64::from(over.0));
                        ended.push(over);
                    } else {
                        let number = ended.len() as u32 + 1;
                        spool.range_start(lane, time, u64::from(number), "step start");
                        open = Some((number, vec![used]));
                    }
                }
            }
        }
        let report = report(&mut spool);
        let found = self::pool(&report, Device::Npu(0), Pool::PtaCaching);
        let expected: Vec<_> = ended
            .iter()
            // Without a mark there was no step.
            .filter(|_| marks > 0)
            .map(|(number, values)| {
                let (least, most) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
                (*number, least, most, values[0], *values.last().unwrap())
            })
            .collect();
        prop_assert_eq!(steps(found), expected.clone());
        if report.basis == Basis::Steps {
            let ratios: Vec<(f64, u32)> = expected.iter().filter(|step| step.0 > 1 && step.2 > 0)
                .map(|step| (step.1 as f64 / step.2 as f64, step.0)).collect();
            let least = ratios.iter().copied().reduce(|a, b| if b.0 < a.0 { b } else { a });
            let most = ratios.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
            prop_assert_eq!(found.gaps.map(|gaps| (gaps.min.ratio(), gaps.min.number)), least);
            prop_assert_eq!(found.gaps.map(|gaps| (gaps.max.ratio(), gaps.max.number)), most);
        } else {
            prop_assert!(expected.iter().all(|step| step.0 == 1));
        }

        let peak = found.peak.as_ref().unwrap();
        let most = pool.history.iter().map(|(_, used, ..)| *used).max().unwrap();
        let (time, _, reserved, live) = pool.history.iter().find(|(_, used, ..)| *used == most).unwrap();
        prop_assert_eq!((peak.at.time, peak.at.used, peak.at.reserved), (EPOCH.later_by(*time), most, *reserved));
        prop_assert_eq!(peak.blocks, live.len() as u64);
        let mut shares: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (size, stack) in live.values() {
            let share = shares.entry(*stack).or_default();
            *share = (share.0 + size, share.1 + 1);
        }
        let mut shares: Vec<(u64, u64)> = shares.into_values().collect();
        let mut stacks: Vec<(u64, u64)> = peak.stacks.iter().map(|(_, held)| (held.bytes, held.blocks)).collect();
        shares.sort_unstable();
        stacks.sort_unstable();
        prop_assert_eq!(stacks, shares);

        let unused = |(_, used, reserved, _): &After| reserved.map(|all| all.saturating_sub(*used));
        let worst = pool.history.iter().filter_map(unused).max();
        prop_assert_eq!(found.worst.map(|worst| worst.unused()), worst);

        prop_assert!(report.bin_ns.is_power_of_two() && found.bins.len() <= 64);
        prop_assert_eq!(report.bins_from, EPOCH.later_by(5));
        let mut bins: Vec<Option<Bin>> = vec![None; found.bins.len()];
        let ends = pool.history.iter().skip(1).map(|(time, ..)| *time).chain([last]);
        for ((time, used, reserved, _), end) in pool.history.iter().zip(ends) {
            let place = |time: u64| ((time - 5) / report.bin_ns) as usize;
            for bin in &mut bins[place(*time)..=place(end)] {
                let unused = reserved.map_or(0, |all| all.saturating_sub(*used));
                let seen = bin.get_or_insert(Bin { least: *used, most: *used, most_reserved: *reserved, most_unused: unused });
                seen.least = seen.least.min(*used);
                seen.most = seen.most.max(*used);
                seen.most_reserved = seen.most_reserved.max(*reserved);
                seen.most_unused = seen.most_unused.max(unused);
            }
        }
        // When the pool appeared, it held nothing.
        bins[0].as_mut().unwrap().least = 0;
        prop_assert_eq!(&found.bins, &bins);
        prop_assert!(peak.at.time != TimestampNs::default());
    }
}

//! Who owns the memory of devices, on recordings made to order.
use memscope_analysis::{
    Decomposition, DecompositionReport, DeviceDecomposition, DeviceMoment, Held, Holder, Making, OwnerNode,
    PointInTime, PoolDecomposition,
};
use memscope_model::{Device, Pool, Process, TraceSource};
use memscope_testkit::{EPOCH, HOST_DEVICE, Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn run(spool: &mut SpoolBuilder, mut decomposition: Decomposition) -> DecompositionReport {
    let directory = tempfile::tempdir().unwrap();
    spool.write(directory.path()).unwrap();
    let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut decomposition], &mut |_| {}).unwrap();
    decomposition.finish(&outcome)
}

fn device(report: &DecompositionReport, device: Device) -> &DeviceDecomposition {
    report.devices.iter().find(|found| found.device == device).expect("the device had events")
}

fn owners(pool: &PoolDecomposition) -> Vec<(String, u64, u64)> {
    let words = |holder: &Holder| match holder {
        Holder::Owner(words) => words.clone(),
        Holder::Unlabelled(making) => format!("{making:?}"),
    };
    pool.owners.iter().map(|share| (words(&share.holder), share.held.bytes, share.held.blocks)).collect()
}

fn pools(moment: &DeviceMoment) -> Vec<(Pool, u64, Option<u64>)> {
    moment.pools.iter().map(|pool| (pool.pool, pool.used.bytes, pool.reserved)).collect()
}

const HCCL: u32 = 3;
const RUNTIME: u32 = 7;
const MIB: u64 = 1 << 20;

#[test]
fn the_peak_of_a_device_is_when_its_driver_and_then_its_pools_held_most() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let (driver, pta) = (Space::Driver, Space::PtaCaching);
    spool.device_alloc(lane, 1, driver, 0, 0x1000_0000, 20 * MIB, RUNTIME, 0);
    spool.device_alloc(lane, 2, driver, 0, 0x3000_0000, 4 * MIB, HCCL, 0);
    // The driver's peak comes with a segment, the blocks it was taken for after it.
    spool.pool_total(lane, 3, pta, 0, 20 * MIB);
    spool.region(lane, 4, pta, 0, 0x1000_0000, 12 * MIB).region(lane, 5, pta, 0, 0x1100_0000, 3 * MIB);
    spool.device_free(lane, 6, pta, 0x1000_0000, 0).region(lane, 7, pta, 0, 0x1000_0000, MIB);
    // More in the pool, but less of the device.
    spool.device_free(lane, 8, driver, 0x3000_0000, 0).region(lane, 9, pta, 0, 0x1080_0000, 14 * MIB);
    let report = run(&mut spool, Decomposition::at(None));
    let peak = device(&report, Device::Npu(0)).peak.as_ref().unwrap();
    assert_eq!(peak.time, EPOCH.later_by(5));
    assert_eq!(pools(peak), [(Pool::Hal, 24 * MIB, None), (Pool::PtaCaching, 15 * MIB, Some(20 * MIB))]);
    assert_eq!(
        owners(&peak.pools[0]),
        [("CANN@RUNTIME".to_owned(), 20 * MIB, 1), ("CANN@HCCL".to_owned(), 4 * MIB, 1)]
    );
    // The driver's memory contains what the pool reserved.
    assert_eq!((peak.driver_bytes(), peak.pool_bytes()), (Some(24 * MIB), 20 * MIB));
}

#[test]
fn host_memory_is_unlabelled_and_told_by_what_made_it() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 100, 0).map(lane, 2, 0x10_0000, 0x2000, 0).alloc(lane, 3, 0x2000, 11, 0);
    let report = run(&mut spool, Decomposition::at(Some(PointInTime::Time(EPOCH.later_by(2)))));
    let cpu = device(&report, Device::Cpu);
    let peak = &cpu.peak.as_ref().unwrap().pools[0];
    assert_eq!(owners(peak), [("Mapping".to_owned(), 0x2000, 1), ("Heap".to_owned(), 111, 2)]);
    assert_eq!(peak.owners[0].holder, Holder::Unlabelled(Making::Mapping));
    assert_eq!(owners(&cpu.asked.as_ref().unwrap().pools[0])[1], ("Heap".to_owned(), 100, 1));
    assert_eq!(cpu.asked.as_ref().unwrap().driver_bytes(), None);
}

#[test]
fn each_step_has_what_it_ended_with_and_devices_have_their_own() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let pta = Space::PtaCaching;
    spool.region(lane, 1, pta, 0, 0x1000, 100).system(lane, 10, SystemKind::Step, 1);
    spool.region(lane, 11, pta, 0, 0x2000, 10).region(lane, 12, pta, 1, 0x9000, 7).system(
        lane,
        20,
        SystemKind::Step,
        2,
    );
    spool
        .system(lane, 30, SystemKind::Step, 3)
        .device_free(lane, 31, pta, 0x1000, 0)
        .device_free(lane, 32, pta, 0x2000, 0);
    spool.system(lane, 40, SystemKind::Step, 4).region(lane, 41, pta, 0, 0x1000, 100);
    let report = run(&mut spool, Decomposition::at(Some(PointInTime::StepEnd(5))));
    let steps = |number| -> Vec<(u32, Option<u64>)> {
        let steps = &device(&report, Device::Npu(number)).steps;
        steps.iter().map(|step| (step.number, step.pools.first().map(|pool| pool.used.bytes))).collect()
    };
    assert_eq!(steps(0), [(1, Some(100)), (2, Some(110)), (3, Some(110)), (4, Some(0))]);
    assert_eq!(steps(1), [(1, None), (2, Some(7)), (3, Some(7)), (4, Some(7))]);
    // The last is not over, and ends with the trace if it is asked for.
    assert_eq!(pools(device(&report, Device::Npu(0)).asked.as_ref().unwrap()), [(Pool::PtaCaching, 100, None)]);
}

#[test]
fn only_the_chosen_time_has_a_peak_and_steps() {
    let mut spool = SpoolBuilder::new();
    spool.config("mode=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 1000, 0).free(lane, 2, 0x1000, 0).alloc(lane, 3, 0x2000, 10, 0);
    spool.range_start(lane, 4, 1, "step start").range_end(lane, 5, 1);
    spool.system(lane, 6, SystemKind::StartTrace, 0).range_start(lane, 7, 2, "step start").free(lane, 8, 0x2000, 0);
    spool.range_end(lane, 9, 2).system(lane, 10, SystemKind::StopTrace, 0).alloc(lane, 11, 0x1000, 1000, 0);
    let report = run(&mut spool, Decomposition::at(None));
    let cpu = device(&report, Device::Cpu);
    assert_eq!(
        cpu.peak.as_ref().map(|peak| (peak.time, pools(peak))),
        Some((EPOCH.later_by(6), vec![(Pool::Host, 10, None)]))
    );
    assert_eq!(cpu.steps.iter().map(|step| step.number).collect::<Vec<_>>(), [2]);
}

/// Owners with bytes and blocks, by pool.
type Shares = Vec<(Pool, Vec<(String, u64, u64)>)>;

/// All blocks by pool and address: size and owner.
type Live = BTreeMap<(Pool, u64), (u64, String)>;

fn by_pool(live: &Live) -> Shares {
    let mut pools: BTreeMap<Pool, BTreeMap<String, (u64, u64)>> = BTreeMap::new();
    for ((pool, _), (size, owner)) in live {
        let share = pools.entry(*pool).or_default().entry(owner.clone()).or_default();
        *share = (share.0 + size, share.1 + 1);
    }
    let flat = |shares: BTreeMap<String, (u64, u64)>| {
        shares.into_iter().map(|(owner, (bytes, blocks))| (owner, bytes, blocks)).collect()
    };
    pools.into_iter().map(|(pool, shares)| (pool, flat(shares))).collect()
}

fn found(pools: &[PoolDecomposition]) -> Shares {
    let held = pools.iter().filter(|pool| pool.used.blocks > 0);
    held.map(|pool| {
        let mut owners = owners(pool);
        owners.sort_unstable();
        (pool.pool, owners)
    })
    .collect()
}

fn sum(nodes: &[OwnerNode]) -> Held {
    nodes.iter().fold(Held::default(), |sum, node| {
        if !node.children.is_empty() {
            assert_eq!(self::sum(&node.children), node.held);
        }
        Held { bytes: sum.bytes + node.held.bytes, blocks: sum.blocks + node.held.blocks }
    })
}

proptest! {
    #[test]
    fn every_moment_agrees_with_the_blocks_alive_then(
        deeds in proptest::collection::vec((0u8..10, 0u32..6, 0u64..8, 1u64..1000), 1..150),
        until in 0u64..160,
    ) {
        let mut spool = SpoolBuilder::new();
        let lane = spool.lane(1);
        let mut live = Live::new();
        let (mut at_time, mut at_steps) = (live.clone(), Vec::new());
        let (mut peak, mut at_peak) = ((0, 0), live.clone());
        for (time, (kind, number, slot, size)) in (10u64..).zip(&deeds) {
            let (space, pool, owner) = match number {
                0..=2 => (Space::Driver, Pool::Hal, ["CANN@SLOG", "CANN@IDEDD", "CANN@IDEDH"][*number as usize]),
                3 => (Space::PtaCaching, Pool::PtaCaching, "PTA"),
                4 => (Space::Atb, Pool::Atb, "ATB"),
                _ => (Space::MindSpore, Pool::MindSpore, "MINDSPORE"),
            };
            let address = 0x1000 + slot * 0x1_0000;
            if *kind == 0 {
                spool.system(lane, time, SystemKind::Step, at_steps.len() as u64 + 1);
                at_steps.push(live.clone());
            } else if live.remove(&(pool, address)).is_some() {
                spool.device_free(lane, time, space, address, 0);
            } else {
                live.insert((pool, address), (*size, owner.to_owned()));
                spool.device_alloc(lane, time, space, 0, address, *size, *number, 0);
            }
            if time <= until {
                at_time = live.clone();
            }
            let of = |is_driver: bool| -> u64 {
                let blocks = live.iter().filter(|((pool, _), _)| (*pool == Pool::Hal) == is_driver);
                blocks.map(|(_, (size, _))| size).sum()
            };
            let level = (of(true), of(false));
            if level > peak {
                (peak, at_peak) = (level, live.clone());
            }
        }
        let report = run(&mut spool, Decomposition::at(Some(PointInTime::Time(EPOCH.later_by(until)))));
        let Some(npu) = report.devices.first() else {
            prop_assert!(deeds.iter().all(|deed| deed.0 == 0));
            return Ok(());
        };
        let peak = npu.peak.as_ref().unwrap();
        prop_assert_eq!(found(&peak.pools), by_pool(&at_peak));
        let asked = npu.asked.as_ref().unwrap();
        prop_assert_eq!(found(&asked.pools), by_pool(&at_time));
        let numbers: Vec<u32> = npu.steps.iter().map(|step| step.number).collect();
        prop_assert_eq!(numbers, (1..=at_steps.len() as u32).collect::<Vec<_>>());
        for (step, expected) in npu.steps.iter().zip(&at_steps) {
            prop_assert_eq!(found(&step.pools), by_pool(expected));
        }
        let everywhere = npu.steps.iter().flat_map(|step| &step.pools).chain(&peak.pools).chain(&asked.pools);
        for pool in everywhere {
            prop_assert_eq!(sum(&OwnerNode::tree(&pool.owners)), pool.used);
        }
    }
}

#[test]
fn the_peak_of_the_host_is_when_its_own_memory_is_and_storages_add_nothing_to_it() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let storage = Space::TensorStorage;
    spool.alloc(lane, 10, 0x1000, 100, 0).device_alloc(lane, 11, storage, HOST_DEVICE, 0x1000, 100, 0, 0);
    spool.device_free(lane, 20, storage, 0x1000, 0).free(lane, 21, 0x1000, 0).alloc(lane, 30, 0x5000, 150, 0);
    let report = run(&mut spool, Decomposition::at(None));
    let peak = device(&report, Device::Cpu).peak.as_ref().expect("a peak");
    assert_eq!((peak.time.since(EPOCH), pools(peak)), (30, vec![(Pool::Host, 150, None)]));
}

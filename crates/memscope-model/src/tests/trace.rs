//! The trace as its consumers see it: state, steps, several sinks, suspended passes.
use super::record;
use crate::{
    Action, Block, BlockEvent, BlockId, Device, Pool, PoolUsage, State, Status, TraceEvent, TraceSink, TraceSource,
};
use memscope_testkit::{Space, SpoolBuilder, SystemKind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Keeps its own books from the events alone, and compares them with the state after each.
#[derive(Default)]
struct Auditor {
    live: BTreeMap<BlockId, Block>,
    events: Vec<BlockEvent>,
}

impl TraceSink for Auditor {
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        if let TraceEvent::Memory(event) = event {
            match event.action {
                Action::Malloc => {
                    self.live.insert(event.block.id, event.block);
                }
                Action::Free => {
                    self.live.remove(&event.block.id);
                }
            }
            self.events.push(**event);
            let usage = state.pool(event.block.device, event.block.pool).expect("a pool with an event");
            assert_eq!((usage.live_bytes, usage.reserved_bytes), (event.used, event.reserved));
        }
        assert_eq!(state.live_blocks(), self.live.values().copied().collect::<Vec<Block>>());
        for PoolUsage { device, pool, live_bytes, live_blocks, .. } in state.pools() {
            let held = self.live.values().filter(|block| (block.device, block.pool) == (device, pool));
            let (bytes, blocks) = held.fold((0, 0), |(bytes, blocks), block| (bytes + block.size, blocks + 1));
            assert_eq!((live_bytes, live_blocks), (bytes, blocks));
            let mut sizes: Vec<u64> = self
                .live
                .values()
                .filter(|block| (block.device, block.pool) == (device, pool))
                .map(|block| block.size)
                .collect();
            sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
            sizes.truncate(3);
            let largest: Vec<u64> = state.largest(device, pool, 3).iter().map(|block| block.size).collect();
            assert_eq!(largest, sizes);
        }
        ControlFlow::Continue(())
    }
}

/// Allocations and frees of few addresses, of the heap, of mappings and of a device.
fn random_spool(steps: &[(u8, u8, u16)]) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    let lanes = [spool.lane(11), spool.lane(12)];
    for (tick, (what, address, size)) in (1..).zip(steps) {
        let (lane, address, size) = (lanes[tick as usize % 2], u64::from(*address % 8), u64::from(*size) + 1);
        match what % 6 {
            0 | 1 => spool.alloc(lane, tick * 10, 0x1000 + address * 64, size, 0),
            2 => spool.free(lane, tick * 10, 0x1000 + address * 64, 0),
            3 => spool.map(lane, tick * 10, 0x10_0000 + address * 4096, size * 64, 0),
            4 => spool.unmap(lane, tick * 10, 0x10_0000 + address * 4096, 4096, 0),
            _ => spool.device_alloc(lane, tick * 10, Space::PtaCaching, 0, 0x8000 + address * 64, size, 0, 0),
        };
    }
    spool
}

proptest! {
    #[test]
    fn the_state_agrees_with_the_events_after_each_of_them(steps in proptest::collection::vec(any::<(u8, u8, u16)>(), 0..120)) {
        let mut recorded = record(&mut random_spool(&steps));
        recorded.process.trace(&mut Auditor::default(), &mut |_| {}).unwrap();
    }
}

#[test]
fn several_sinks_get_the_same_events_in_one_pass_and_each_can_end_it() {
    let steps: Vec<(u8, u8, u16)> = (0..200u8).map(|number| (number, number / 3, u16::from(number))).collect();
    let mut recorded = record(&mut random_spool(&steps));
    let (mut first, mut second) = (Auditor::default(), Auditor::default());
    recorded.process.run(&mut [&mut first, &mut second], &mut |_| {}).unwrap();
    assert!(first.events.len() > 100);
    assert_eq!(first.events, second.events);

    let (mut before, mut after) = (Auditor::default(), Auditor::default());
    let mut left = 50;
    let mut stop = |_: &TraceEvent<'_>, _: &State<'_>| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome = recorded.process.run(&mut [&mut before, &mut stop, &mut after], &mut |_| {}).unwrap();
    assert!(outcome.interrupted);
    assert_eq!((before.events.len(), after.events.len(), outcome.events), (50, 49, 50));
    assert_eq!(before.events, first.events[..50]);
}

#[test]
fn a_pass_can_be_suspended_and_gone_on_with() {
    let mut spool = SpoolBuilder::new();
    let lanes = [spool.lane(1), spool.lane(2)];
    for tick in 1..30_000 {
        spool.alloc(lanes[tick as usize / 7 % 2], tick, 0x1000 + tick * 16, 8, 0);
    }
    let mut recorded = record(&mut spool);
    let mut whole = Vec::new();
    let mut keep = |event: &TraceEvent<'_>, _: &State<'_>| {
        if let TraceEvent::Memory(event) = event {
            whole.push(**event);
        }
        ControlFlow::Continue(())
    };
    let outcome = recorded.process.trace(&mut keep, &mut |_| {}).unwrap();
    assert_eq!(outcome.events, 29_999);

    let (mut pieces, mut steps, mut fractions) = (Vec::new(), 0, Vec::new());
    loop {
        let mut keep = |event: &TraceEvent<'_>, _: &State<'_>| {
            if let TraceEvent::Memory(event) = event {
                pieces.push(**event);
            }
            ControlFlow::Continue(())
        };
        let status = recorded.process.step(&mut [&mut keep]).unwrap();
        fractions.push(recorded.process.progress());
        steps += 1;
        if status == Status::Over {
            break;
        }
        assert_eq!(recorded.process.outcome().events, pieces.len() as u64);
    }
    assert!(steps > 5 && fractions.is_sorted(), "{steps} {fractions:?}");
    assert_eq!(pieces, whole);
    assert_eq!(recorded.process.outcome().live_blocks().len(), 29_999);
}

#[test]
fn a_block_knows_the_steps_it_begins_and_ends_in() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 10, 0x1000, 8, 0);
    spool.system(lane, 20, SystemKind::Step, 1);
    spool.alloc(lane, 30, 0x2000, 8, 0);
    spool.free(lane, 40, 0x1000, 0);
    let mut recorded = record(&mut spool);
    let mut told = Vec::new();
    let mut keep = |event: &TraceEvent<'_>, state: &State<'_>| {
        if let TraceEvent::Memory(event) = event {
            told.push((
                event.block.address,
                state.steps.number(event.block.made.step),
                state.steps.number(event.at.step),
            ));
        }
        ControlFlow::Continue(())
    };
    let outcome = recorded.process.trace(&mut keep, &mut |_| {}).unwrap();
    assert_eq!(told[1..], [(0x2000, Some(2), Some(2)), (0x1000, Some(1), Some(2))]);
    // What the first step is shows only when it ends.
    assert_eq!(told[0], (0x1000, None, None));
    let alive = outcome.live_blocks().next().expect("one block is alive");
    assert_eq!((alive.device, alive.pool, outcome.steps.number(alive.made.step)), (Device::Cpu, Pool::Host, Some(2)));
}

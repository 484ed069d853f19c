//! Device memory, pools and marks.
use super::{record, replay};
use crate::{
    Action, BlockEvent, Device, DriverTraits, Origin, Outcome, PageSize, Pool, Problem, Process, RefusedCall,
    TraceEvent,
};
use memscope_testkit::{EPOCH, HOST_DEVICE, HostCall, Space, SpoolBuilder, SystemKind, UNKNOWN_DEVICE};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use Action::{Free, Malloc};

/// What a test says of an event: action, device, pool, size, used, reserved.
type Brief = (Action, Device, Pool, u64, u64, Option<u64>);

fn brief(event: &BlockEvent) -> Brief {
    (event.action, event.block.device, event.block.pool, event.block.size, event.used, event.reserved)
}

fn briefs(spool: &mut SpoolBuilder) -> (Vec<Brief>, Outcome) {
    let (events, outcome) = replay(&mut record(spool).process);
    (events.iter().map(brief).collect(), outcome)
}

/// The notes of a trace, each as text: time, device, what.
pub(super) fn notes(process: &mut Process) -> Vec<String> {
    let mut notes = Vec::new();
    let mut visit = |event: &TraceEvent<'_>, _: &crate::State<'_>| {
        if let TraceEvent::Note(note) = event {
            notes.push(format!("{} {} {:?} {}", note.at.time.since(EPOCH), note.device, note.kind, note.chosen));
        }
        ControlFlow::Continue(())
    };
    process.trace(&mut visit, &mut |_| {}).unwrap();
    notes
}

#[test]
fn driver_memory_is_booked_by_device_with_what_the_driver_was_told() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.device_alloc(lane, 1, Space::Driver, 3, 0x1000, 100, 7 | 1 << 8, 0);
    spool.device_alloc(lane, 2, Space::DriverHandle, 3, 0x1000, 50, 3 | 2 << 8, 0);
    spool.device_alloc(lane, 3, Space::Driver, HOST_DEVICE, 0x2000, 10, 48, 0);
    spool.device_alloc(lane, 4, Space::Registered, HOST_DEVICE, 0x3000, 20, 0, 0);
    spool.device_free(lane, 5, Space::DriverHandle, 0x1000, 0).device_free(lane, 6, Space::Driver, 0x2000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let npu = Device::Npu(3);
    assert_eq!(
        events.iter().map(brief).collect::<Vec<_>>(),
        [
            (Malloc, npu, Pool::Hal, 100, 100, None),
            (Malloc, npu, Pool::Hal, 50, 150, None),
            (Malloc, Device::Cpu, Pool::Pinned, 10, 10, None),
            (Malloc, Device::Cpu, Pool::Pinned, 20, 30, None),
            (Free, npu, Pool::Hal, 50, 100, None),
            (Free, Device::Cpu, Pool::Pinned, 10, 20, None),
        ]
    );
    assert_eq!(events[0].block.origin, Origin::Driver(DriverTraits { module: 7, page: PageSize::Huge }));
    assert_eq!(events[1].block.origin, Origin::DriverHandle(DriverTraits { module: 3, page: PageSize::Giant }));
    assert_eq!(events[3].block.origin, Origin::Registered);
    assert_eq!(outcome.pools.iter().map(|usage| usage.pool).collect::<Vec<_>>(), [Pool::Pinned, Pool::Hal]);
    assert_eq!(outcome.live_blocks().len(), 2);
}

#[test]
fn spaces_do_not_share_addresses_and_pinned_memory_is_not_the_heap() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 5, 0).device_alloc(lane, 2, Space::Registered, HOST_DEVICE, 0x1000, 7, 0, 0);
    spool.device_alloc(lane, 3, Space::Driver, 0, 0x1000, 11, 0, 0).region(lane, 4, Space::Atb, 0, 0x1000, 13);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!(events.iter().map(|event| event.used).collect::<Vec<_>>(), [5, 7, 11, 13]);
    assert_eq!((outcome.replaced_blocks, outcome.pools.len()), (0, 4));
}

#[test]
fn a_caching_pool_tells_its_total_before_the_block() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.pool_total(lane, 1, Space::PtaCaching, 0, 1000).region(lane, 2, Space::PtaCaching, 0, 0x10, 100);
    spool.pool_total(lane, 3, Space::PtaCaching, 0, 2000).region(lane, 4, Space::PtaCaching, 0, 0x20, 200);
    spool.pool_total(lane, 5, Space::PtaCaching, 0, 500).device_free(lane, 6, Space::PtaCaching, 0x10, 0);
    let npu = Device::Npu(0);
    let (told, outcome) = briefs(&mut spool);
    assert_eq!(
        told,
        [
            (Malloc, npu, Pool::PtaCaching, 100, 100, Some(1000)),
            (Malloc, npu, Pool::PtaCaching, 200, 300, Some(2000)),
            (Free, npu, Pool::PtaCaching, 100, 200, Some(500)),
        ]
    );
    let usage = outcome.pools[0];
    assert_eq!((usage.reserved_bytes, usage.peak_reserved_bytes), (Some(500), Some(2000)));
}

#[test]
fn mindspore_tells_its_total_after_the_block_it_belongs_to() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.region(lane, 10, Space::MindSpore, 0, 0x10, 100).pool_total(lane, 20, Space::MindSpore, 0, 1000);
    spool.region(lane, 30, Space::MindSpore, 0, 0x20, 200).pool_total(lane, 40, Space::MindSpore, 0, 2000);
    spool.device_free(lane, 50, Space::MindSpore, 0x10, 0).pool_total(lane, 60, Space::MindSpore, 0, 1500);
    // Killed before it could tell.
    spool.region(lane, 70, Space::MindSpore, 0, 0x30, 1);
    // Another thread's block does not take the total away from its own.
    spool.alloc(other, 15, 0x5000, 1, 0).alloc(other, 35, 0x6000, 1, 0);
    let (told, _) = briefs(&mut spool);
    let npu = Device::Npu(0);
    let pool: Vec<_> = told.into_iter().filter(|(_, device, ..)| *device == npu).collect();
    assert_eq!(
        pool,
        [
            (Malloc, npu, Pool::MindSpore, 100, 100, Some(1000)),
            (Malloc, npu, Pool::MindSpore, 200, 300, Some(2000)),
            (Free, npu, Pool::MindSpore, 100, 200, Some(1500)),
            (Malloc, npu, Pool::MindSpore, 1, 201, Some(1500)),
        ]
    );
}

#[test]
fn a_workspace_is_registered_again_at_each_use_with_the_size_of_all() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let workspace = Space::PtaWorkspace;
    spool.pool_total(lane, 1, workspace, 0, 500).region(lane, 2, workspace, 0, 0x10, 100);
    spool.region(lane, 3, workspace, 0, 0x10, 150);
    // A second stream's: 250 together.
    spool.region(lane, 4, workspace, 0, 0x20, 250);
    spool.device_free(lane, 5, workspace, 0x10, 0).device_free(lane, 6, workspace, 0x20, 0);
    let npu = Device::Npu(0);
    let (told, outcome) = briefs(&mut spool);
    assert_eq!(
        told,
        [
            (Malloc, npu, Pool::PtaWorkspace, 100, 100, Some(500)),
            (Free, npu, Pool::PtaWorkspace, 100, 0, Some(500)),
            (Malloc, npu, Pool::PtaWorkspace, 150, 150, Some(500)),
            (Malloc, npu, Pool::PtaWorkspace, 100, 250, Some(500)),
            (Free, npu, Pool::PtaWorkspace, 150, 100, Some(500)),
            (Free, npu, Pool::PtaWorkspace, 100, 0, Some(500)),
        ]
    );
    assert_eq!((outcome.replaced_blocks, outcome.pools[0].peak_bytes), (0, 250));
}

#[test]
fn a_region_at_a_live_address_ends_the_old_one_even_on_another_device() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.region(lane, 1, Space::PtaCaching, 0, 0x10, 100).region(lane, 2, Space::PtaCaching, 1, 0x10, 50);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!(brief(&events[1]), (Free, Device::Npu(0), Pool::PtaCaching, 100, 0, None));
    assert!(events[1].synthetic && outcome.replaced_blocks == 1);
    assert_eq!(brief(&events[2]), (Malloc, Device::Npu(1), Pool::PtaCaching, 50, 50, None));
}

#[test]
fn a_free_nobody_can_match_is_counted_and_belongs_to_no_device() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.device_free(lane, 1, Space::MindSpore, 0x99, 0).region(lane, 2, Space::MindSpore, 2, 0x10, 100);
    spool.device_free(lane, 3, Space::MindSpore, 0x99, 0).device_free(lane, 4, Space::Driver, 0x99, 0);
    let (told, outcome) = briefs(&mut spool);
    assert_eq!(told, [(Malloc, Device::Npu(2), Pool::MindSpore, 100, 100, None)]);
    assert_eq!(outcome.unmatched_frees, 3);
    assert_eq!(outcome.pools.iter().map(|usage| usage.device).collect::<Vec<_>>(), [Device::Npu(2)]);
}

#[test]
fn host_memory_that_was_registered_but_not_pinned_is_not_ours_to_miss() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.device_alloc(lane, 1, Space::Registered, HOST_DEVICE, 0x1000, 20, 0, 0);
    spool.device_free(lane, 2, Space::Registered, 0x2000, 0).device_free(lane, 3, Space::Registered, 0x1000, 0);
    let (told, outcome) = briefs(&mut spool);
    assert_eq!(
        told,
        [(Malloc, Device::Cpu, Pool::Pinned, 20, 20, None), (Free, Device::Cpu, Pool::Pinned, 20, 0, None)]
    );
    assert_eq!((outcome.unmatched_frees, outcome.frees), (0, 1));
}

#[test]
fn a_snapshot_tells_the_frameworks_pool_or_else_the_drivers_memory_of_its_device() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.visible_devices(lane, "4,5").system(lane, 1, SystemKind::SetDevice, 0);
    spool.device_alloc(lane, 2, Space::Driver, 4, 0x1000, 1000, 0, 0);
    spool.device_alloc(lane, 3, Space::Driver, 4, 0x2000, 500, 0, 0).device_free(lane, 4, Space::Driver, 0x2000, 0);
    spool.snapshot(lane, 5, UNKNOWN_DEVICE, "driver");
    spool.pool_total(lane, 6, Space::PtaCaching, 0, 900).region(lane, 7, Space::PtaCaching, 0, 0x1000, 300);
    spool.region(lane, 8, Space::PtaCaching, 0, 0x1200, 200).device_free(lane, 9, Space::PtaCaching, 0x1000, 0);
    spool.pool_total(lane, 10, Space::PtaCaching, 0, 600).snapshot(lane, 11, UNKNOWN_DEVICE, "pool");
    spool.snapshot(other, 12, 1, "empty").system(other, 13, SystemKind::SetDevice, 1);
    spool.snapshot(other, 14, 0, "by number");
    let told = notes(&mut record(&mut spool).process);
    let memory = |reserved: u64, max_reserved: u64, allocated: u64, max_allocated: u64| {
        format!("{:?}", crate::SnapshotMemory { reserved, max_reserved, allocated, max_allocated, of_device: None })
    };
    let pool = memory(600, 900, 200, 500);
    let expected = [
        format!("5 4 Snapshot {{ name: \"driver\", memory: {} }} true", memory(1000, 1500, 1000, 1500)),
        format!("11 4 Snapshot {{ name: \"pool\", memory: {pool} }} true"),
        format!("12 5 Snapshot {{ name: \"empty\", memory: {} }} true", memory(0, 0, 0, 0)),
        format!("14 4 Snapshot {{ name: \"by number\", memory: {pool} }} true"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn pool_devices_are_mapped_through_the_visible_ones_and_driver_devices_are_not() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.visible_devices(lane, "2,5").device_alloc(lane, 1, Space::Driver, 5, 0x1000, 100, 0, 0);
    spool.region(other, 2, Space::PtaCaching, 1, 0x1000, 10).pool_total(other, 3, Space::PtaCaching, 1, 77);
    spool.system(lane, 4, SystemKind::SetDevice, 0).mark(lane, 5, "here");
    spool.out_of_memory(lane, 6, Space::Driver, 2, 8, 9, 0);
    let mut recorded = record(&mut spool);
    let (events, outcome) = replay(&mut recorded.process);
    assert_eq!(events.iter().map(|event| event.block.device).collect::<Vec<_>>(), [Device::Npu(5), Device::Npu(5)]);
    assert_eq!(outcome.pools[1].reserved_bytes, Some(77));
    assert_eq!(outcome.out_of_memory[0].device, Device::Npu(2));
    assert!(outcome.problems.is_empty());
    assert_eq!(notes(&mut recorded.process)[0], "5 2 Mark(\"here\") true");
}

#[test]
fn a_bad_list_of_visible_devices_is_a_problem_and_numbers_stay() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.visible_devices(lane, "2,five").region(lane, 2, Space::PtaCaching, 1, 0x1000, 10);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!(events[0].block.device, Device::Npu(1));
    assert_eq!(outcome.problems, [Problem::VisibleDevices { value: "2,five".to_owned() }]);
}

#[test]
fn devices_that_cannot_be_are_unknown_and_sizes_that_cannot_be_are_left_out() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.device_alloc(lane, 1, Space::Driver, UNKNOWN_DEVICE, 0x10, 1, 0, 0);
    spool.region(lane, 2, Space::PtaCaching, u32::MAX, 0x20, 2);
    spool.region(lane, 3, Space::PtaCaching, 0, 0x30, u64::MAX).pool_total(lane, 4, Space::Atb, 0, u64::MAX);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!(events.iter().map(|event| event.block.device).collect::<Vec<_>>(), [Device::Unknown; 2]);
    assert_eq!(outcome.implausible_events, 2);
}

#[test]
fn refused_memory_is_told_with_what_the_driver_had_given() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.unknown_node(lane, 1, 0, 0xabc).device_alloc(lane, 1, Space::Driver, 0, 0x10, 100, 0, 0);
    spool.out_of_memory(lane, 2, Space::DriverHandle, 0, 1 << 30, 5, 1);
    let mut recorded = record(&mut spool);
    let (_, outcome) = replay(&mut recorded.process);
    let refused = outcome.out_of_memory[0];
    assert_eq!((refused.size, refused.used_bytes, refused.thread), (1 << 30, 100, 7));
    assert_eq!((refused.call, refused.call.name()), (RefusedCall::MemCreate, "halMemCreate"));
    assert_ne!(refused.stack, crate::StackId::NONE);
    assert_eq!(outcome.refusals, 1);
    let told = notes(&mut recorded.process);
    assert_eq!(told.len(), 3);
    assert!(told[2].contains("Snapshot { name: \"OOM_Snapshot_After\""), "{told:?}");
    assert!(told[0].contains("Snapshot { name: \"OOM_Snapshot\"") && told[0].contains("allocated: 100"), "{told:?}");
    assert!(told[1].contains("OutOfMemory"), "{told:?}");
}

#[test]
fn refused_host_memory_is_told_with_what_the_host_had_given() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.unknown_node(lane, 1, 0, 0xabc).alloc(lane, 1, 0x10, 100, 0);
    spool.host_refused(lane, 2, HostCall::Mmap, (1 << 50, 3), 1).free(lane, 3, 0x10, 0).alloc(lane, 4, 0x10, 7, 0);
    let mut recorded = record(&mut spool);
    let (_, outcome) = replay(&mut recorded.process);
    let refused = outcome.out_of_memory[0];
    assert_eq!((refused.device, refused.size, refused.used_bytes), (Device::Cpu, 1 << 50, 100));
    assert_eq!((refused.call.name(), RefusedCall::from_name("mmap")), ("mmap", Some(refused.call)));
    assert_ne!(refused.stack, crate::StackId::NONE);
    let told = notes(&mut recorded.process);
    assert!(told[0].contains("OOM_Snapshot\"") && told[0].contains(" allocated: 100,"), "{told:?}");
    assert!(told[1].contains("OutOfMemory { call: Host(Mmap)"), "{told:?}");
    assert!(told[2].contains("OOM_Snapshot_After") && told[2].contains(" allocated: 0,"), "{told:?}");
    assert_eq!(told.len(), 3);
}

#[test]
fn marks_and_ranges_have_their_texts_and_the_device_of_their_thread() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.system(lane, 1, SystemKind::AclInit, 0).mark(other, 2, "early");
    spool.system(lane, 3, SystemKind::SetDevice, 4).range_start(lane, 4, 1, "a \"b\", c");
    spool.range_start(other, 5, 2, "inner").range_end(lane, 6, 2).range_end(other, 7, 1).range_end(lane, 8, 9);
    spool.system(other, 9, SystemKind::SetDevice, 5).mark(other, 10, "").mark(lane, 11, "still 4");
    spool.system(lane, 12, SystemKind::Step, 3).system(lane, 13, SystemKind::AclFinalize, 0);
    let told = notes(&mut record(&mut spool).process);
    let expected = [
        "1 N/A AclInit true",
        "2 N/A Mark(\"early\") true",
        "4 4 RangeStart { id: 1, text: \"a \\\"b\\\", c\" } true",
        // The only device so far.
        "5 4 RangeStart { id: 2, text: \"inner\" } true",
        "6 4 RangeEnd { id: 2, text: Some(\"inner\") } true",
        "7 4 RangeEnd { id: 1, text: Some(\"a \\\"b\\\", c\") } true",
        "8 4 RangeEnd { id: 9, text: None } true",
        "10 5 Mark(\"\") true",
        "11 4 Mark(\"still 4\") true",
        "12 4 Step(3) true",
        "13 N/A AclFinalize true",
    ];
    assert_eq!(told, expected);
}

#[test]
fn ids_count_notes_too() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.mark(lane, 1, "a").region(lane, 2, Space::Atb, 0, 0x10, 1).mark(lane, 3, "b").alloc(lane, 4, 0x10, 1, 0);
    let mut ids = Vec::new();
    let mut visit = |event: &TraceEvent<'_>, _: &crate::State<'_>| {
        ids.push(match event {
            TraceEvent::Memory(event) | TraceEvent::Alive(event) => event.at.event,
            TraceEvent::Note(note) => note.at.event,
        });
        ControlFlow::Continue(())
    };
    record(&mut spool).process.trace(&mut visit, &mut |_| {}).unwrap();
    assert_eq!(ids, [0, 1, 2, 3]);
}

#[test]
fn a_visitor_may_break_off_at_any_event() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.region(lane, 1, Space::MindSpore, 0, 0x10, 1).region(lane, 2, Space::MindSpore, 0, 0x10, 2);
    spool.mark(lane, 3, "x").device_free(lane, 4, Space::MindSpore, 0x10, 0);
    let mut recorded = record(&mut spool);
    for stop_after in 1..=5 {
        let (mut events, mut seen) = (Vec::new(), 0);
        let mut visit = |event: &TraceEvent<'_>, _: &crate::State<'_>| {
            if let TraceEvent::Memory(event) = event {
                events.push(**event);
            }
            seen += 1;
            if seen == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let outcome = recorded.process.trace(&mut visit, &mut |_| {}).unwrap();
        assert!(outcome.interrupted);
        super::check_books(&events, &outcome);
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Alloc { space: usize, device: u32, slot: u64, size: u64 },
    Free { space: usize, slot: u64 },
    Total { space: usize, device: u32, total: u64 },
    Mark,
    Refusal { device: u32 },
    Snapshot { device: u32 },
    EndBlock,
}

/// Lane, ticks since the step before, step.
pub(super) fn steps() -> impl Strategy<Value = Vec<(usize, u64, Step)>> {
    let device = prop_oneof![0u32..3, Just(HOST_DEVICE)];
    let step = prop_oneof![
        6 => (0..7usize, device, 0u64..8, 0u64..1 << 40)
            .prop_map(|(space, device, slot, size)| Step::Alloc { space, device, slot, size }),
        5 => (0..7usize, 0u64..8).prop_map(|(space, slot)| Step::Free { space, slot }),
        4 => (3..7usize, 0u32..3, 0u64..1 << 40)
            .prop_map(|(space, device, total)| Step::Total { space, device, total }),
        1 => Just(Step::Mark),
        1 => (0u32..3).prop_map(|device| Step::Refusal { device }),
        1 => (0u32..3).prop_map(|device| Step::Snapshot { device }),
        1 => Just(Step::EndBlock),
    ];
    proptest::collection::vec((0..2usize, 0u64..1000, step), 0..200)
}

/// When each step happens.
fn times(steps: &[(usize, u64, Step)]) -> Vec<u64> {
    let mut ticks = 0;
    let times = steps.iter().map(|(_, wait, _)| {
        ticks += wait + 1;
        ticks
    });
    times.collect()
}

pub(super) fn build(steps: &[(usize, u64, Step)]) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    let lanes = [spool.lane(1), spool.lane(2)];
    for ((lane, _, step), ticks) in steps.iter().zip(times(steps)) {
        let lane = lanes[*lane];
        match *step {
            Step::Alloc { space, device, slot, size } => {
                spool.region(lane, ticks, Space::ALL[space], device, slot << 9, size)
            }
            Step::Free { space, slot } => spool.device_free(lane, ticks, Space::ALL[space], slot << 9, 0),
            Step::Total { space, device, total } => spool.pool_total(lane, ticks, Space::ALL[space], device, total),
            Step::Mark => spool.mark(lane, ticks, "m"),
            Step::Refusal { device } => spool.out_of_memory(lane, ticks, Space::Driver, device, 1, 2, 0),
            Step::Snapshot { device } => spool.snapshot(lane, ticks, device, "s"),
            Step::EndBlock => spool.end_generation(lane),
        };
    }
    spool
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(128)))]

    /// Sums by device and pool are checked by [`replay`]; here, that the totals are the newest ones told.
    #[test]
    fn books_of_devices_add_up(steps in steps()) {
        let mut totals: BTreeMap<(Device, Pool), Vec<(u64, u64)>> = BTreeMap::new();
        for ((_, _, step), ticks) in steps.iter().zip(times(&steps)) {
            if let Step::Total { space, device, total } = *step {
                let device = Device::Npu(device as u16);
                totals.entry((device, Pool::of(Space::ALL[space], device))).or_default().push((ticks, total));
            }
        }
        let mut spool = build(&steps);
        let mut recorded = record(&mut spool);
        let (events, outcome) = replay(&mut recorded.process);
        prop_assert!(outcome.damage.is_empty());
        let last = |device, pool, until: u64| {
            let told = totals.get(&(device, pool)).into_iter().flatten();
            told.take_while(|(ticks, _)| *ticks < until).last().map(|(_, total)| *total)
        };
        for usage in &outcome.pools {
            prop_assert_eq!(usage.reserved_bytes, last(usage.device, usage.pool, u64::MAX));
        }
        // A MindSpore event may have the total that came right after it.
        for event in events.iter().filter(|event| event.block.pool != Pool::MindSpore) {
            prop_assert_eq!(event.reserved, last(event.block.device, event.block.pool, event.at.time.since(EPOCH)));
        }
        let expected = steps.iter().map(|(_, _, step)| match step {
            Step::Mark | Step::Snapshot { .. } => 1,
            // With a snapshot of its own.
            Step::Refusal { .. } => 2,
            _ => 0,
        });
        // Another one follows when the thread is given memory of the device again, or at the end.
        let mut refused: BTreeSet<(usize, u32)> = BTreeSet::new();
        let mut answers = 0;
        for (lane, _, step) in &steps {
            match *step {
                Step::Refusal { device } => _ = refused.insert((*lane, device)),
                Step::Alloc { device, .. } => answers += usize::from(refused.remove(&(*lane, device))),
                _ => {}
            }
        }
        let expected = expected.sum::<usize>() + answers + refused.len();
        prop_assert_eq!(notes(&mut recorded.process).len(), expected);
    }
}

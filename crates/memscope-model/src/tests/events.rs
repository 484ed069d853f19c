use super::{record, replay};
use crate::{Action, BlockEvent, Origin, StackId, Stopped, TimestampNs};
use memscope_format::layout::StopReason;
use memscope_testkit::{EPOCH, SpoolBuilder};
use std::ops::ControlFlow;

/// What a test says of an event: time, thread, action, address, size, block.
fn brief(event: &BlockEvent) -> (u64, u32, Action, u64, u64, u64) {
    (event.at.time.since(EPOCH), event.at.thread, event.action, event.block.address, event.block.size, event.block.id.0)
}

use Action::{Free, Malloc};

#[test]
fn lanes_are_merged_by_time_and_a_block_may_be_freed_by_another_thread() {
    let mut spool = SpoolBuilder::new();
    let (first, second) = (spool.lane(11), spool.lane(12));
    spool.alloc(first, 10, 0x1000, 100, 0).free(first, 40, 0x2000, 0);
    spool.alloc(second, 20, 0x2000, 200, 0).free(second, 30, 0x1000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let briefs: Vec<_> = events.iter().map(brief).collect();
    assert_eq!(
        briefs,
        [
            (10, 11, Malloc, 0x1000, 100, 1),
            (20, 12, Malloc, 0x2000, 200, 2),
            (30, 12, Free, 0x1000, 100, 1),
            (40, 11, Free, 0x2000, 200, 2),
        ]
    );
    assert_eq!(outcome.pools[0].peak_bytes, 300);
    assert_eq!(outcome.pools[0].peak_time, EPOCH.later_by(20));
    assert_eq!(outcome.live_blocks().len(), 0);
}

#[test]
fn a_lane_taken_over_by_another_thread_says_so() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 1, 0).thread(lane, 2).alloc(lane, 2, 0x20, 1, 0);
    spool.end_generation(lane).alloc(lane, 3, 0x30, 1, 0);
    let (events, _) = replay(&mut record(&mut spool).process);
    assert_eq!(events.iter().map(|event| event.at.thread).collect::<Vec<_>>(), [1, 2, 2]);
}

#[test]
fn an_allocation_at_a_live_address_ends_the_old_block_first() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x1000, 10, 0).alloc(lane, 2, 0x1000, 20, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let briefs: Vec<_> = events.iter().map(|event| (brief(event), event.synthetic)).collect();
    assert_eq!(
        briefs,
        [
            ((1, 1, Malloc, 0x1000, 10, 1), false),
            ((2, 1, Free, 0x1000, 10, 1), true),
            ((2, 1, Malloc, 0x1000, 20, 2), false),
        ]
    );
    assert_eq!(outcome.replaced_blocks, 1);
}

#[test]
fn a_free_of_an_unknown_block_has_a_number_of_its_own_and_no_size() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.free(lane, 1, 0x1000, 0).alloc(lane, 2, 0x1000, 0, 0).free(lane, 3, 0x1000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let briefs: Vec<_> = events.iter().map(|event| (brief(event), event.matched)).collect();
    assert_eq!(
        briefs,
        [((1, 1, Free, 0x1000, 0, 1), false), ((2, 1, Malloc, 0x1000, 0, 2), true), ((3, 1, Free, 0x1000, 0, 2), true),]
    );
    assert_eq!(outcome.unmatched_frees, 1);
    assert_eq!(outcome.pools[0].peak_time, TimestampNs::default());
}

#[test]
fn unmapping_the_middle_leaves_two_blocks_of_the_original_stack_and_thread() {
    let mut spool = SpoolBuilder::new();
    let (mapper, other) = (spool.lane(1), spool.lane(2));
    spool.unknown_node(mapper, 1, 0, 0xabc).map(mapper, 10, 0x10_0000, 0x4000, 1);
    spool.unmap(other, 20, 0x10_1000, 0x1000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let mut pieces: Vec<_> =
        events[2..].iter().map(|event| (event.block.address, event.block.size, event.at.thread)).collect();
    pieces.sort_unstable();
    assert_eq!(brief(&events[1]), (20, 2, Free, 0x10_0000, 0x4000, 1));
    assert!(!events[1].synthetic);
    assert_eq!(pieces, [(0x10_0000, 0x1000, 1), (0x10_2000, 0x2000, 1)]);
    for event in &events[2..] {
        assert!(event.synthetic && event.action == Malloc && event.at.stack == events[0].at.stack);
        assert_eq!((event.at.time, event.block.origin), (EPOCH.later_by(20), Origin::Mapping));
    }
    assert_ne!(events[0].at.stack, StackId::NONE);
    // For a report on leaks the memory is as old as the mapping.
    assert!(outcome.live_blocks().all(|block| block.made.time == EPOCH.later_by(10)));
}

#[test]
fn one_unmapping_ends_several_mappings_and_whole_pages() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.map(lane, 1, 0x1000, 0x1001, 0).map(lane, 2, 0x3000, 0x1000, 0).map(lane, 3, 0x4000, 0x2000, 0);
    // From the second page of the first to one byte into the last: the kernel takes that byte's page.
    spool.unmap(lane, 4, 0x2000, 0x2001, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!(events.iter().filter(|event| event.action == Free).count(), 3);
    let mut left: Vec<_> = outcome.live_blocks().map(|block| (block.address, block.size)).collect();
    left.sort_unstable();
    assert_eq!(left, [(0x1000, 0x1000), (0x5000, 0x1000)]);
}

#[test]
fn mapping_over_a_mapping_ends_what_it_covers() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.map(lane, 1, 0x1000, 0x3000, 0).map(lane, 2, 0x2000, 0x5000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert!(events[1].synthetic && events[1].action == Free);
    let mut left: Vec<_> = outcome.live_blocks().map(|block| (block.address, block.size)).collect();
    left.sort_unstable();
    assert_eq!(left, [(0x1000, 0x1000), (0x2000, 0x5000)]);
}

#[test]
fn unmapping_what_nobody_mapped_is_counted_only() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.map(lane, 1, 0x1000, 0x1000, 0).unmap(lane, 2, 0x2000, 0x1000, 0).unmap(lane, 3, 0, 0x1000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((events.len(), outcome.unknown_unmaps), (1, 2));
}

#[test]
fn heap_and_mappings_share_a_total_but_not_addresses() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.map(lane, 1, 0x1000, 0x1000, 0).alloc(lane, 2, 0x1000, 5, 0).free(lane, 3, 0x1000, 0);
    let (events, _) = replay(&mut record(&mut spool).process);
    assert_eq!(events.iter().map(|event| event.used).collect::<Vec<_>>(), [0x1000, 0x1005, 0x1000]);
    assert_eq!(events[2].block.origin, Origin::Heap);
}

#[test]
fn sizes_that_cannot_be_are_left_out() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, u64::MAX, 0).alloc(lane, 2, 0x20, i64::MAX as u64, 0).alloc(lane, 3, 0x30, 1, 0);
    spool.map(lane, 4, u64::MAX - 0x1000, 0x2000, 0).map(lane, 5, 0x1000, 0, 0).unmap(lane, 6, u64::MAX, 9, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((events.len(), outcome.implausible_events), (1, 5));
}

#[test]
fn a_visitor_that_breaks_off_leaves_books_of_what_it_saw() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 10, 0).alloc(lane, 2, 0x10, 20, 0).alloc(lane, 3, 0x20, 30, 0);
    let mut recorded = record(&mut spool);
    for stop_after in 1..=4 {
        let mut events = Vec::new();
        let outcome = recorded
            .process
            .replay(
                &mut |event, _| {
                    events.push(*event);
                    if events.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                },
                &mut |_| {},
            )
            .unwrap();
        assert!(outcome.interrupted);
        assert_eq!(events.len(), stop_after);
        super::check_books(&events, &outcome);
    }
}

#[test]
fn what_the_recorder_knows_to_be_missing_is_passed_on() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 10, 0).lose(lane, 7).stopped(StopReason::WriteFailed, 28).process(99, 5);
    spool.config("c=20;py=10;watch=%3B;dir=/a;b");
    let mut recorded = record(&mut spool);
    let (_, outcome) = replay(&mut recorded.process);
    assert_eq!(outcome.lost_events, 7);
    assert_eq!(outcome.stopped, Some(Stopped { reason: StopReason::WriteFailed, errno: 28 }));
    assert_eq!((recorded.process.info().pid, recorded.process.info().run_id), (99, 5));
    let settings = recorded.process.settings();
    assert_eq!((settings.c_depth, settings.dir), (Some(20), Some(b"/a;b".as_slice())));
    assert_eq!(settings.watch.map(|watch| watch.to_string()).as_deref(), Some(";"));
}

#[test]
fn a_process_without_events_gives_an_empty_outcome() {
    let (events, outcome) = replay(&mut record(&mut SpoolBuilder::new()).process);
    assert!(events.is_empty() && outcome.pools.is_empty() && outcome.damage.is_empty());
    let mut idle = SpoolBuilder::new();
    idle.lane(1);
    assert_eq!(replay(&mut record(&mut idle).process).0.len(), 0);
}

#[test]
fn a_moved_mapping_is_freed_and_allocated_and_a_moved_file_mapping_is_nothing() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.map(lane, 1, 0x10000, 8192, 0);
    spool.remap(lane, 2, (0x10000, 8192), (0x50000, 16384), 0);
    spool.remap(lane, 3, (0x9000_0000, 4096), (0xa000_0000, 8192), 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let told: Vec<_> =
        events.iter().map(|event| (event.action, event.block.address, event.block.size, event.used)).collect();
    let expected = [
        (Action::Malloc, 0x10000, 8192, 8192),
        (Action::Free, 0x10000, 8192, 0),
        (Action::Malloc, 0x50000, 16384, 16384),
    ];
    assert_eq!(told, expected);
    assert_eq!(outcome.unknown_unmaps, 1);
}

#[test]
fn events_of_one_address_dated_in_the_wrong_order_on_two_threads_are_put_right() {
    // Thread 2 frees what thread 1 allocated, and thread 1 is then given the address again; each dated a little early.
    let mut spool = SpoolBuilder::new();
    let (one, two) = (spool.lane(1), spool.lane(2));
    spool.free(two, 1000, 0x40, 0).free(two, 9000, 0x80, 0);
    spool.alloc(one, 1020, 0x40, 7, 0).alloc(one, 2000, 0x80, 5, 0).alloc(one, 8990, 0x80, 6, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let told: Vec<_> = events.iter().map(|event| (event.action, event.block.address, event.block.size)).collect();
    let expected = [
        (Action::Malloc, 0x40, 7),
        (Action::Free, 0x40, 7),
        (Action::Malloc, 0x80, 5),
        (Action::Free, 0x80, 5),
        (Action::Malloc, 0x80, 6),
    ];
    assert_eq!(told, expected);
    assert_eq!((outcome.unmatched_frees, outcome.replaced_blocks), (0, 0));
    super::check_books(&events, &outcome);
}

#[test]
fn an_event_that_is_missing_for_long_is_not_looked_for() {
    let mut spool = SpoolBuilder::new();
    let (one, two) = (spool.lane(1), spool.lane(2));
    spool.free(two, 1000, 0x40, 0).alloc(two, 2_000_000, 0x90, 1, 0);
    spool.alloc(one, 1_000_000, 0x40, 7, 0);
    let (_, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((outcome.unmatched_frees, outcome.mallocs), (1, 2));
}

#[test]
fn a_free_dated_before_the_realloc_it_follows_does_not_leave_a_block_behind() {
    // Thread 1 resizes in place and hands over; thread 2's free is dated before the resize began.
    let mut spool = SpoolBuilder::new();
    let (one, two) = (spool.lane(1), spool.lane(2));
    spool.alloc(one, 10, 0x40, 7, 0).free(one, 1010, 0x40, 0).alloc(one, 1030, 0x40, 9, 0);
    spool.free(two, 1000, 0x40, 0).alloc(two, 5000, 0x90, 1, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((outcome.unmatched_frees, outcome.replaced_blocks, outcome.live_blocks().len()), (0, 0, 1));
    super::check_books(&events, &outcome);
}

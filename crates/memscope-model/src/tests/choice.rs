//! What the user chose: devices, steps, the time between start and stop.
use super::devices::notes;
use super::{Recorded, record};
use crate::{Action, Device, NothingChosen, Outcome, Selection, TraceEvent};
use memscope_testkit::{EPOCH, HOST_DEVICE, Space, SpoolBuilder, SystemKind};
use std::num::NonZeroU32;
use std::ops::ControlFlow;

/// Memory events as text: how they were told, time, address and size.
fn told(recorded: &mut Recorded) -> (Vec<String>, Outcome) {
    let mut told = Vec::new();
    let mut visit = |event: &TraceEvent<'_>, _: &crate::State<'_>| {
        let (event, kind) = match event {
            TraceEvent::Memory(event) => (event, format!("{:?}", event.selection)),
            TraceEvent::Alive(event) => {
                assert!(event.synthetic && event.action == Action::Malloc && event.selection == Selection::Chosen);
                (event, "Alive".to_owned())
            }
            TraceEvent::Note(_) => return ControlFlow::Continue(()),
        };
        let time = event.at.time.since(EPOCH);
        told.push(format!("{kind} {time} {:?} {:#x} {}", event.action, event.block.address, event.block.size));
        ControlFlow::Continue(())
    };
    let outcome = recorded.process.trace(&mut visit, &mut |_| {}).unwrap();
    (told, outcome)
}

#[test]
fn events_of_devices_not_asked_for_are_booked_and_not_told() {
    let mut spool = SpoolBuilder::new();
    spool.config("cpu=0;npu=2;dir=/tmp");
    let lane = spool.lane(1);
    for device in 0..3 {
        spool.device_alloc(lane, 1, Space::Driver, device, u64::from(device), 10, 0, 0);
    }
    spool.device_alloc(lane, 2, Space::Registered, HOST_DEVICE, 0x10, 5, 0, 0).alloc(lane, 3, 0x20, 6, 0);
    spool.out_of_memory(lane, 4, Space::Driver, 0, 1, 1, 0);
    spool.system(lane, 5, SystemKind::SetDevice, 2).mark(lane, 6, "of device 2");
    spool.system(lane, 7, SystemKind::SetDevice, 1).mark(lane, 8, "of device 1");
    let mut recorded = record(&mut spool);
    let (told, outcome) = told(&mut recorded);
    assert_eq!(told, ["Chosen 1 Malloc 0x1 10"]);
    assert_eq!((outcome.events, outcome.mallocs, outcome.refusals), (1, 5, 0));
    assert_eq!(outcome.pools.iter().map(|usage| usage.device).collect::<Vec<_>>(), [Device::Npu(1)]);
    assert_eq!(outcome.live_blocks().map(|block| block.device).collect::<Vec<_>>(), [Device::Npu(1)]);
    assert_eq!(notes(&mut recorded.process), ["8 1 Mark(\"of device 1\") true"]);
}

#[test]
fn a_full_mask_means_all_devices_and_marks_are_told_without_any() {
    for (mask, expected) in [("ffffffff", 1), ("1", 0)] {
        let mut spool = SpoolBuilder::new();
        spool.config(&format!("cpu=1;npu={mask};dir=/tmp"));
        let lane = spool.lane(1);
        spool.device_alloc(lane, 1, Space::Driver, 40, 0x10, 10, 0, 0);
        assert_eq!(told(&mut record(&mut spool)).0.len(), expected);
    }
    let mut spool = SpoolBuilder::new();
    spool.config("cpu=1;npu=0;dir=/tmp");
    let lane = spool.lane(1);
    spool.system(lane, 1, SystemKind::SetDevice, 2).mark(lane, 2, "x");
    assert_eq!(notes(&mut record(&mut spool).process), ["2 N/A Mark(\"x\") true"]);
}

fn with_steps(steps: &str) -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    spool.config(&format!("mode=0;steps={steps};dir=/tmp"));
    spool
}

#[test]
fn only_chosen_step_ranges_are_chosen() {
    let mut spool = with_steps("2+3");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 1, 0);
    for step in 1..=4u64 {
        let ticks = step * 100;
        spool.range_start(lane, ticks, step, "step start").free(lane, ticks + 1, 0x10, 0);
        spool.range_start(lane, ticks + 2, 100 + step, "inner").range_end(lane, ticks + 3, 100 + step);
        spool.alloc(lane, ticks + 4, 0x10, step, 0).range_end(lane, ticks + 5, step).alloc(lane, ticks + 6, 0x20, 1, 0);
        spool.free(lane, ticks + 7, 0x20, 0);
    }
    let mut recorded = record(&mut spool);
    let (told, outcome) = told(&mut recorded);
    let chosen: Vec<_> = told.iter().filter(|text| !text.starts_with("NotChosen")).collect();
    let expected =
        ["Chosen 201 Free 0x10 1", "Chosen 204 Malloc 0x10 2", "Chosen 301 Free 0x10 2", "Chosen 304 Malloc 0x10 3"];
    assert_eq!(chosen, expected);
    assert_eq!((outcome.chosen_events, outcome.events), (4, 17));
    assert_eq!(outcome.nothing_chosen, None);
    let chosen_notes: Vec<_> = notes(&mut recorded.process).into_iter().filter(|note| note.ends_with("true")).collect();
    assert_eq!(chosen_notes.len(), 8);
    assert_eq!(chosen_notes[0], "200 N/A RangeStart { id: 2, text: \"step start\" } true");
    assert_eq!(chosen_notes[3], "205 N/A RangeEnd { id: 2, text: Some(\"step start\") } true");
}

#[test]
fn the_nth_step_mark_ends_step_n() {
    let mut spool = with_steps("1+3");
    let lane = spool.lane(1);
    for step in 1..=4u64 {
        spool.alloc(lane, step * 10, step << 4, 1, 0).system(lane, step * 10 + 1, SystemKind::Step, step);
        // Marks came first, so ranges are no steps.
        spool.range_start(lane, step * 10 + 2, step, "step start").range_end(lane, step * 10 + 3, step);
    }
    let chosen: Vec<_> =
        told(&mut record(&mut spool)).0.into_iter().filter(|text| text.starts_with("Chosen")).collect();
    assert_eq!(chosen, ["Chosen 10 Malloc 0x10 1", "Chosen 30 Malloc 0x30 1"]);
}

#[test]
fn steps_that_never_come_leave_nothing_and_say_so() {
    let mut spool = with_steps("7");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 1, 0);
    let (events, outcome) = told(&mut record(&mut spool));
    assert_eq!(events, ["NotChosen 1 Malloc 0x10 1"]);
    assert!(
        matches!(&outcome.nothing_chosen, Some(NothingChosen::NoSteps { chosen }) if chosen == &[7]),
        "{:?}",
        outcome.nothing_chosen
    );
    spool.range_start(lane, 2, 1, "step start").range_end(lane, 3, 1);
    let (_, outcome) = told(&mut record(&mut spool));
    assert!(matches!(outcome.nothing_chosen, Some(NothingChosen::OtherSteps { .. })), "{outcome:?}");
}

#[test]
fn deferred_tracing_tells_what_was_alive_and_closes_what_it_told() {
    let mut spool = SpoolBuilder::new();
    spool.config("mode=1;steps=;dir=/tmp");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 1, 0).alloc(lane, 2, 0x20, 2, 0).free(lane, 3, 0x10, 0);
    spool.region(lane, 4, Space::PtaCaching, 0, 0x30, 3).mark(lane, 5, "unseen");
    spool.system(lane, 10, SystemKind::StartTrace, 0).alloc(lane, 11, 0x40, 4, 0).mark(lane, 12, "seen");
    spool.system(lane, 20, SystemKind::StopTrace, 0);
    // Of a block that was told, of one that never was.
    spool.free(lane, 21, 0x20, 0).alloc(lane, 22, 0x50, 5, 0).alloc(lane, 23, 0x60, 6, 0).free(lane, 24, 0x50, 0);
    spool.system(lane, 30, SystemKind::StartTrace, 0).free(lane, 31, 0x60, 0);
    spool.system(lane, 32, SystemKind::StartTrace, 0);
    let mut recorded = record(&mut spool);
    let (told, outcome) = told(&mut recorded);
    assert_eq!(
        told,
        [
            "NotChosen 1 Malloc 0x10 1",
            "NotChosen 2 Malloc 0x20 2",
            "NotChosen 3 Free 0x10 1",
            "NotChosen 4 Malloc 0x30 3",
            "Alive 10 Malloc 0x20 2",
            "Alive 10 Malloc 0x30 3",
            "Chosen 11 Malloc 0x40 4",
            "Closing 21 Free 0x20 2",
            "NotChosen 22 Malloc 0x50 5",
            "NotChosen 23 Malloc 0x60 6",
            "NotChosen 24 Free 0x50 5",
            "Alive 30 Malloc 0x60 6",
            "Chosen 31 Free 0x60 6",
        ]
    );
    assert_eq!((outcome.chosen_events, outcome.events), (3, 10));
    let notes = notes(&mut recorded.process);
    assert_eq!(
        notes,
        [
            "5 N/A Mark(\"unseen\") false",
            "10 N/A StartTrace true",
            "12 N/A Mark(\"seen\") true",
            "20 N/A StopTrace true",
            "30 N/A StartTrace true",
            "32 N/A StartTrace true",
        ]
    );
}

#[test]
fn deferred_tracing_that_never_starts_says_so() {
    let mut spool = SpoolBuilder::new();
    spool.config("mode=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.alloc(lane, 1, 0x10, 1, 0);
    let (events, outcome) = told(&mut record(&mut spool));
    assert_eq!(events, ["NotChosen 1 Malloc 0x10 1"]);
    assert_eq!(outcome.nothing_chosen, Some(NothingChosen::NeverStarted));
    assert_eq!(outcome.pools[0].device, Device::Cpu);
}

#[test]
fn of_one_span_alone_only_its_own_events_and_steps_count() {
    let mut spool = SpoolBuilder::new();
    spool.config("cpu=1;mode=1;dir=/tmp");
    let lane = spool.lane(1);
    for (ticks, span) in [(100, 1u64), (200, 2), (300, 3)] {
        spool.system(lane, ticks, SystemKind::StartTrace, 0).alloc(lane, ticks + 1, 0x10 * span, span, 0);
        spool.system(lane, ticks + 2, SystemKind::Step, 2 * span - 1).mark(lane, ticks + 3, "inside");
        spool.system(lane, ticks + 4, SystemKind::StopTrace, 0).alloc(lane, ticks + 5, 0x1000 * span, 9, 0);
        spool.system(lane, ticks + 6, SystemKind::Step, 2 * span).mark(lane, ticks + 7, "outside");
    }
    spool.free(lane, 400, 0x10, 0).free(lane, 401, 0x20, 0).free(lane, 402, 0x30, 0);
    let mut recorded = record(&mut spool);
    recorded.process.choose_span(NonZeroU32::new(2).unwrap());
    let (events, outcome) = told(&mut recorded);
    let chosen: Vec<_> = events.iter().filter(|text| !text.starts_with("NotChosen")).collect();
    let expected = [
        "Alive 200 Malloc 0x10 1",
        "Alive 200 Malloc 0x1000 9",
        "Chosen 201 Malloc 0x20 2",
        "Closing 400 Free 0x10 1",
        "Closing 401 Free 0x20 2",
    ];
    assert_eq!(chosen, expected);
    assert_eq!(outcome.steps.count(), 2);
    let chosen_notes: Vec<String> =
        notes(&mut recorded.process).into_iter().filter(|text| text.ends_with("true")).collect();
    assert_eq!(chosen_notes, ["202 N/A Step(3) true", "203 N/A Mark(\"inside\") true", "204 N/A StopTrace true"]);
    recorded.process.choose_span(NonZeroU32::new(7).unwrap());
    let (events, outcome) = told(&mut recorded);
    assert!(events.iter().all(|text| text.starts_with("NotChosen")));
    assert_eq!(outcome.nothing_chosen, Some(NothingChosen::NeverStarted));
}

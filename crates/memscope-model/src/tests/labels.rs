//! Owners by labels, of threads and of blocks.
use super::{record, replay};
use crate::{
    BlockEvent, Device, DeviceRoom, NoteKind, Outcome, Process, SnapshotMemory, State, Status, TraceEvent, TraceSource,
};
use memscope_testkit::{Extended, LabelLevel, LogicalDevice, Space, SpoolBuilder};
use std::ops::ControlFlow;

const PTA: Space = Space::PtaCaching;

/// By block, in the order of their allocations.
fn owners(events: &[BlockEvent], outcome: &Outcome) -> Vec<String> {
    let allocations = events.iter().filter(|event| event.action == crate::Action::Malloc);
    allocations.map(|event| outcome.owners.name(event.block.owner).unwrap_or("nobody").to_owned()).collect()
}

fn owners_of(spool: &mut SpoolBuilder) -> Vec<String> {
    let (events, outcome) = replay(&mut record(spool).process);
    owners(&events, &outcome)
}

#[test]
fn what_a_thread_allocates_in_a_window_has_its_labels_and_other_threads_have_theirs() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.label_name(lane, 1, "model").label_name(lane, 2, "layer").label_name(other, 1, "loader");
    spool
        .region(lane, 1, PTA, 0, 0x1000, 8)
        .label_start(lane, 2, LabelLevel::User, 1)
        .region(lane, 3, PTA, 0, 0x2000, 8);
    spool.region(other, 4, PTA, 0, 0x3000, 8).label_start(other, 5, LabelLevel::User, 1).alloc(other, 6, 0x50, 8, 0);
    spool.label_start(lane, 7, LabelLevel::Process, 2).region(lane, 8, Space::Atb, 0, 0x1000, 8);
    spool.device_alloc(lane, 9, Space::Driver, 0, 0x10_0000, 64, 7, 0).label_end(lane, 10, LabelLevel::User, 1);
    spool.region(lane, 11, PTA, 0, 0x4000, 8).label_end(lane, 12, LabelLevel::Process, 2).alloc(lane, 13, 0x90, 8, 0);
    assert_eq!(
        owners_of(&mut spool),
        [
            "PTA",
            "PTA@model",
            "PTA",
            "HOST@loader",
            "ATB@layer@model",
            "CANN@RUNTIME@layer@model",
            "PTA@layer",
            "nobody"
        ]
    );
}

#[test]
fn a_block_has_from_its_beginning_the_labels_it_is_given_later() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.label_name(lane, 1, "weight").label_name(lane, 2, "mine").label_name(other, 7, "kv_cache");
    // Driver memory, in which a pool's block lies, labelled by an address inside it and by another thread.
    spool.device_alloc(lane, 1, Space::Driver, 0, 0x10_0000, 0x10_0000, 7, 0).region(lane, 2, PTA, 0, 0x10_0000, 0x100);
    spool.label_block(other, 3, LabelLevel::User, 7, 0x10_00ff).label_block(lane, 4, LabelLevel::Detail1, 1, 0x10_0000);
    // Outside of the pool's block it is the driver's; the same address is another block later.
    spool.label_block(lane, 5, LabelLevel::User, 2, 0x10_0100).device_free(lane, 6, PTA, 0x10_0000, 0);
    spool.region(lane, 7, PTA, 0, 0x10_0000, 0x100).label_block(lane, 8, LabelLevel::User, 2, 0xdead_0000);
    assert_eq!(owners_of(&mut spool), ["CANN@RUNTIME@mine", "PTA@weight@kv_cache", "PTA"]);
}

#[test]
fn a_block_of_the_heap_is_found_by_any_address_in_it_and_a_mapping_where_there_is_none() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.label_name(lane, 1, "a").label_name(lane, 2, "b").label_name(lane, 3, "c").label_name(lane, 4, "d");
    let user = LabelLevel::User;
    spool.alloc(lane, 1, 0x1000, 0x100, 0).alloc(lane, 2, 0x2000, 0x100, 0).label_block(lane, 3, user, 1, 0x1000);
    spool.label_block(lane, 4, user, 2, 0x20ff).label_block(lane, 5, user, 3, 0x2100);
    // Blocks that come and go after the first search are found, too.
    spool.alloc(lane, 6, 0x3000, 0x100, 0).free(lane, 7, 0x2000, 0).label_block(lane, 8, user, 3, 0x2010);
    spool
        .label_block(lane, 9, user, 3, 0x3080)
        .map(lane, 10, 0x10_0000, 0x4000, 0)
        .label_block(lane, 11, user, 4, 0x10_3fff);
    // Of what a partial unmapping leaves, the label stays.
    spool.unmap(lane, 12, 0x10_1000, 0x1000, 0);
    assert_eq!(owners_of(&mut spool), ["HOST@a", "HOST@b", "HOST@c", "HOST@d", "HOST@d", "HOST@d"]);
}

#[test]
fn every_pass_tells_the_same_owners_and_one_can_be_left_in_the_search_for_labels() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.label_name(lane, 1, "late");
    for number in 0..10_000u64 {
        spool.region(lane, 10 * number + 1, PTA, 0, 0x1000 * (number + 1), 8);
    }
    spool.label_block(lane, 200_000, LabelLevel::User, 1, 0x1000);
    let mut recorded = record(&mut spool);
    assert_eq!(recorded.process.step(&mut []).unwrap(), Status::More);
    assert!((0.0..0.5).contains(&recorded.process.progress()));
    let all: Vec<Vec<String>> = (0..3)
        .map(|_| {
            let (events, outcome) = replay(&mut recorded.process);
            owners(&events, &outcome)
        })
        .collect();
    assert_eq!((all[0][0].as_str(), all[0][1].as_str(), all[0].len()), ("PTA@late", "PTA", 10_000));
    assert!(all[1] == all[0] && all[2] == all[0]);
}

#[test]
fn a_label_whose_text_is_lost_is_left_out_at_both_ends() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.label_name(lane, 1, "known").label_name(lane, 2, "");
    spool.label_start(lane, 1, LabelLevel::User, 1).label_start(lane, 2, LabelLevel::User, 99);
    spool.label_start(lane, 3, LabelLevel::User, 2).region(lane, 4, PTA, 0, 0x1000, 8);
    spool.label_end(lane, 5, LabelLevel::User, 99).region(lane, 6, PTA, 0, 0x2000, 8);
    assert_eq!(owners_of(&mut spool), ["PTA@known", "PTA@known"]);
}

/// A training: names 1 forward, 2 backward, 3 the module, 4 weight.
fn training() -> (SpoolBuilder, memscope_testkit::LaneNumber, memscope_testkit::LaneNumber) {
    let mut spool = SpoolBuilder::new();
    let (lane, autograd) = (spool.lane(1), spool.lane(2));
    spool.label_name(lane, 1, "forward").label_name(lane, 2, "backward").label_name(lane, 3, "layer");
    spool.label_name(lane, 4, "weight");
    let phase = LabelLevel::Phase;
    spool.region(lane, 1, PTA, 0, 0x1000, 8).label_block(lane, 2, LabelLevel::Detail1, 4, 0x1000);
    spool.label_start(lane, 3, phase, 1).label_start(lane, 4, LabelLevel::Detail2, 3);
    spool.region(lane, 5, PTA, 0, 0x2000, 8).region(lane, 6, PTA, 0, 0x3000, 8).region(lane, 7, PTA, 0, 0x4000, 8);
    spool.alloc(lane, 8, 0x9000, 8, 0).device_free(lane, 9, PTA, 0x2000, 0);
    spool.label_end(lane, 10, LabelLevel::Detail2, 3).label_end(lane, 11, phase, 1);
    spool.label_start(lane, 12, phase, 2).region(autograd, 13, PTA, 0, 0x5000, 8);
    (spool, lane, autograd)
}

#[test]
fn activations_and_temporaries_show_by_the_phases_they_live_through() {
    let (mut spool, lane, autograd) = training();
    spool.device_free(autograd, 14, PTA, 0x3000, 0).device_free(autograd, 15, PTA, 0x5000, 0);
    spool.label_end(lane, 16, LabelLevel::Phase, 2).region(lane, 17, PTA, 0, 0x6000, 8);
    assert_eq!(
        owners_of(&mut spool),
        [
            "PTA@weight",
            "PTA@temporary@layer",
            "PTA@activation@layer",
            "PTA@activation@layer",
            "HOST@layer",
            "PTA@temporary",
            "PTA"
        ]
    );
}

#[test]
fn where_accesses_are_recorded_an_activation_is_what_backward_reads() {
    let (mut spool, lane, autograd) = training();
    spool.aten_name(autograd, 1, "aten::mul");
    spool.aten_start(autograd, 14, 1, 0, 1, 0);
    spool.aten_access(autograd, 15, crate::AccessMode::Read, 1, 0, (0x3000, 8), 0x3000, &[2]);
    spool.aten_end(autograd, 16, 1).label_end(lane, 17, LabelLevel::Phase, 2);
    let owners = owners_of(&mut spool);
    assert_eq!(owners[2..4], ["PTA@activation@layer", "PTA@layer"]);
}

#[test]
fn what_autograd_allocates_has_the_labels_of_the_thread_that_waits_for_it() {
    let mut spool = SpoolBuilder::new();
    let (lane, autograd) = (spool.lane(1), spool.lane(2));
    spool.label_name(lane, 1, "mine").label_name(lane, 2, "backward");
    spool.label_start(lane, 1, LabelLevel::User, 1).label_start(lane, 2, LabelLevel::Phase, 2);
    spool.region(autograd, 3, PTA, 0, 0x1000, 8).alloc(autograd, 4, 0x9000, 8, 0);
    spool.label_end(lane, 5, LabelLevel::Phase, 2).region(autograd, 6, PTA, 0, 0x2000, 8);
    assert_eq!(owners_of(&mut spool), ["PTA@mine", "nobody", "PTA"]);
}

fn notes(process: &mut Process) -> Vec<String> {
    let mut told = Vec::new();
    let mut keep = |event: &TraceEvent<'_>, _: &State<'_>| {
        if let TraceEvent::Note(note) = event {
            told.push(match note.kind {
                NoteKind::Function { phase, name } => format!("{phase:?} {} {}", name.text, note.at.thread),
                NoteKind::Snapshot { name, memory } => format!("{name} {} {memory:?}", note.device),
                other => format!("{other:?}"),
            });
        }
        ControlFlow::Continue(())
    };
    process.trace(&mut keep, &mut |_| {}).unwrap();
    told
}

#[test]
fn functions_are_told_by_name_and_snapshots_with_what_the_program_says() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.visible_devices(lane, "3,1").label_name(lane, 1, "forward_pass");
    spool.record(lane, 1, &Extended::FunctionStart { name: 1 }).record(lane, 3, &Extended::FunctionEnd { name: 1 });
    spool.record(lane, 4, &Extended::FunctionStart { name: 2 });
    let told = |device| Extended::ToldSnapshot {
        device: LogicalDevice(device),
        reserved: 20,
        max_reserved: 30,
        allocated: 5,
        max_allocated: 6,
        free: 70,
        total: 100,
        name: b"after load",
    };
    spool.alloc(lane, 5, 0x1000, 48, 0).alloc(lane, 6, 0x2000, 16, 0).free(lane, 7, 0x2000, 0);
    spool.region(lane, 8, PTA, 1, 0x8000, 8).region(lane, 9, PTA, 0, 0x9000, 16);
    spool
        .record(lane, 10, &told(1))
        .record(lane, 11, &told(memscope_testkit::HOST_DEVICE))
        .snapshot(lane, 12, 9_998, "all");
    let books = |allocated, max_allocated| SnapshotMemory {
        reserved: allocated,
        max_reserved: max_allocated,
        allocated,
        max_allocated,
        of_device: None,
    };
    let memory = SnapshotMemory {
        reserved: 20,
        max_reserved: 30,
        allocated: 5,
        max_allocated: 6,
        of_device: Some(DeviceRoom { free: 70, total: 100 }),
    };
    assert_eq!(
        notes(&mut record(&mut spool).process),
        [
            "Start forward_pass 7".to_owned(),
            "End forward_pass 7".to_owned(),
            format!("after load {} {memory:?}", Device::Npu(1)),
            // What the host's heap holds is the books' to say.
            format!("after load cpu {:?}", SnapshotMemory { allocated: 48, max_allocated: 64, ..memory }),
            format!("all 1 {:?}", books(8, 8)),
            format!("all 3 {:?}", books(16, 16)),
        ]
    );
}

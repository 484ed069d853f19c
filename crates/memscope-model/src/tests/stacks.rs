use super::{record, replay};
use crate::{Frame, Process, StackId};
use memscope_testkit::{LaneNumber, SpoolBuilder};

/// Readable frames: `path+offset`, `?address`, `function@instruction`.
fn spelled(process: &Process, stack: StackId) -> (Vec<String>, Vec<String>) {
    let stacks = process.stacks();
    let spell = |frame: Frame| match frame {
        Frame::C { module, offset } => format!("{}+{offset}", stacks.module(module).path.display()),
        Frame::Unknown { address } => format!("?{address}"),
        Frame::Text(text) => stacks.text(text).to_owned(),
        Frame::Python { code, instruction } => format!("{}@{instruction}", stacks.code(code).function),
    };
    (stacks.c_frames(stack).map(spell).collect(), stacks.python_frames(stack).map(spell).collect())
}

/// C stack 1←2←3 in one module, Python stack 4←5, pair 6 of both; numbers shifted by `shift`.
fn define(spool: &mut SpoolBuilder, lane: LaneNumber, shift: u32) {
    let at = |node: u32| if node == 0 { 0 } else { node + shift };
    for unused in 1..=shift {
        spool.unknown_node(lane, unused, 0, u64::from(unused));
    }
    spool.module(lane, shift, 0x1000, b"prog", b"id").code(lane, shift, "m.py", "f", 1).code(
        lane,
        shift + 1,
        "m.py",
        "g",
        9,
    );
    spool.c_node(lane, at(1), 0, shift, 100).c_node(lane, at(2), at(1), shift, 200).unknown_node(lane, at(3), at(2), 7);
    spool.python_node(lane, at(4), 0, shift, 2).python_node(lane, at(5), at(4), shift + 1, 4);
    spool.both(lane, at(6), at(3), at(5));
}

#[test]
fn equal_stacks_of_different_lanes_are_one() {
    let mut spool = SpoolBuilder::new();
    let (first, second) = (spool.lane(1), spool.lane(2));
    define(&mut spool, first, 0);
    define(&mut spool, second, 3);
    for node in 1..=6 {
        spool.alloc(first, u64::from(node), u64::from(node) << 8, 1, node);
        spool.free(second, 10 + u64::from(node), u64::from(node) << 8, node + 3);
    }
    let mut recorded = record(&mut spool);
    let (events, outcome) = replay(&mut recorded.process);
    assert_eq!(outcome.events_without_stack, 0);
    let (allocs, frees) = events.split_at(6);
    for (alloc, free) in allocs.iter().zip(frees) {
        assert_eq!(alloc.at.stack, free.at.stack);
    }
    assert_eq!(recorded.process.stacks().len(), 6);
    let c = vec!["?7".to_owned(), "prog+200".to_owned(), "prog+100".to_owned()];
    let python = vec!["g@4".to_owned(), "f@2".to_owned()];
    assert_eq!(spelled(&recorded.process, allocs[2].at.stack), (c.clone(), vec![]));
    assert_eq!(spelled(&recorded.process, allocs[4].at.stack), (vec![], python.clone()));
    assert_eq!(spelled(&recorded.process, allocs[5].at.stack), (c, python));
}

#[test]
fn frames_beyond_the_recorded_depth_neither_show_nor_tell_stacks_apart() {
    let mut spool = SpoolBuilder::new();
    spool.config("c=2;py=1;dir=/");
    let lane = spool.lane(1);
    define(&mut spool, lane, 0);
    // The same two innermost frames called from somewhere else.
    spool.unknown_node(lane, 7, 0, 1).c_node(lane, 8, 7, 0, 200).unknown_node(lane, 9, 8, 7);
    spool.alloc(lane, 1, 0x10, 1, 6).alloc(lane, 2, 0x20, 1, 3).alloc(lane, 3, 0x30, 1, 9);
    let mut recorded = record(&mut spool);
    let (events, _) = replay(&mut recorded.process);
    let expected = (vec!["?7".to_owned(), "prog+200".to_owned()], vec!["g@4".to_owned()]);
    assert_eq!(spelled(&recorded.process, events[0].at.stack), expected);
    assert_eq!(events[1].at.stack, events[2].at.stack);
}

#[test]
fn no_depth_no_stack() {
    let mut spool = SpoolBuilder::new();
    spool.config("c=0;py=0;dir=/");
    let lane = spool.lane(1);
    define(&mut spool, lane, 0);
    spool.alloc(lane, 1, 0x10, 1, 6);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((events[0].at.stack, outcome.events_without_stack), (StackId::NONE, 0));
}

#[test]
fn a_module_loaded_elsewhere_is_another_module() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.module(lane, 0, 0x1000, b"prog", b"id").module(lane, 1, 0x2000, b"prog", b"id");
    spool.module(lane, 2, 0x1000, b"prog", b"id");
    for (id, module) in [(1, 0), (2, 1), (3, 2)] {
        spool.c_node(lane, id, 0, module, 5).alloc(lane, 1, u64::from(id) << 8, 1, id);
    }
    let (events, _) = replay(&mut record(&mut spool).process);
    assert_ne!(events[0].at.stack, events[1].at.stack);
    assert_eq!(events[0].at.stack, events[2].at.stack);
}

#[test]
fn undefined_nodes_are_counted_and_half_defined_stacks_keep_what_is_known() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.unknown_node(lane, 5, 4, 55).c_node(lane, 6, 5, 3, 66).python_node(lane, 7, 0, 9, 1);
    // A number far ahead of all others, as after many lost blocks.
    spool.unknown_node(lane, 3_000_000_000, 5, 77);
    spool.alloc(lane, 1, 0x10, 1, 9).alloc(lane, 2, 0x20, 1, 6).alloc(lane, 3, 0x30, 1, 7);
    spool.alloc(lane, 4, 0x40, 1, 3_000_000_000).alloc(lane, 5, 0x50, 1, 3_000_000_000);
    let mut recorded = record(&mut spool);
    let (events, outcome) = replay(&mut recorded.process);
    assert_eq!((events[0].at.stack, outcome.events_without_stack), (StackId::NONE, 1));
    assert_eq!(spelled(&recorded.process, events[1].at.stack).0, ["+66", "?55"]);
    assert_eq!(spelled(&recorded.process, events[2].at.stack).1, ["@1"]);
    assert_eq!(spelled(&recorded.process, events[3].at.stack).0, ["?77", "?55"]);
    assert_eq!(events[3].at.stack, events[4].at.stack);
}

#[test]
fn a_second_replay_gives_the_same_stacks() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    define(&mut spool, lane, 0);
    spool.alloc(lane, 1, 0x10, 1, 6).alloc(lane, 2, 0x20, 1, 2);
    let mut recorded = record(&mut spool);
    let first = replay(&mut recorded.process).0;
    assert_eq!(replay(&mut recorded.process).0, first);
    assert_eq!(recorded.process.stacks().len(), 2);
}

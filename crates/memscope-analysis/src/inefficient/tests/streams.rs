//! Streams, which operators tell, and which do not wait for each other.
use super::*;

/// A block is allocated and used on stream 1 by thread 1, `between` comes in between.
fn held_on_one_stream(between: &[Do]) -> Vec<(u64, Vec<&'static str>)> {
    let before = [Malloc(2, 9, 10), On(1, 1), Start(1, "empty"), Malloc(1, 1, 100), End(1, "empty")];
    let access = [On(1, 1), Start(1, "add"), Use(1, 1, 0), End(1, "add")];
    found_with(3, &joined(&[&before, between, &access, between, &access, between, &[Free(1, 1)]]))
}

#[test]
fn what_happens_on_another_stream_is_neither_room_nor_time_for_a_block() {
    // A block lives a short while on stream 2, in an operator of its own each.
    let lived = |thread, stream, slot| {
        let malloc = [On(thread, stream), Start(thread, "empty"), Malloc(thread, slot, 10), End(thread, "empty")];
        let free = [Start(thread, "drop"), Free(thread, slot), End(thread, "drop")];
        joined(&[&malloc, &other(thread), &other(thread), &free])
    };
    let all = [(2, vec![EARLY, LATE, IDLE])];
    // Two streams in one thread.
    assert_eq!(held_on_one_stream(&lived(1, 2, 5)), []);
    assert_eq!(held_on_one_stream(&lived(1, 1, 5)), all);
    // One stream in two threads, and two.
    assert_eq!(held_on_one_stream(&lived(2, 1, 5)), all);
    assert_eq!(held_on_one_stream(&lived(2, 2, 5)), []);
    // One that is not known may be the same.
    assert_eq!(held_on_one_stream(&lived(1, 0, 5)), all);
    // The memory of a block is that of the stream it was allocated for, whoever frees it and wherever.
    let freed = |malloc: u64, free: u64| {
        let free = match free {
            0 => vec![Free(1, 5)],
            free => vec![On(1, free), Start(1, "drop"), Free(1, 5), End(1, "drop")],
        };
        let made = [On(1, malloc), Start(1, "empty"), Malloc(1, 5, 1), End(1, "empty")];
        let held = [On(1, 1), Start(1, "empty"), Malloc(1, 1, 100), End(1, "empty")];
        let used = [On(1, 1), Start(1, "add"), Use(1, 1, 0), End(1, "add")];
        found(&joined(&[&made, &held, &free, &used]))
    };
    assert_eq!((freed(2, 0), freed(2, 1)), (vec![], vec![]));
    let early = vec![(2, vec![EARLY])];
    assert_eq!(
        (freed(1, 0), freed(1, 2), freed(0, 0), freed(0, 1)),
        (early.clone(), early.clone(), early.clone(), early)
    );
    assert_eq!(freed(0, 2), []);
}

#[test]
fn of_a_block_that_two_streams_use_nothing_is_said_and_its_memory_is_no_room_for_others() {
    let used_on = |stream, slot| [On(1, stream), Start(1, "add"), Use(1, slot, 0), End(1, "add")];
    let others: Vec<Do> = (0..4).flat_map(|_| other(1)).collect();
    let made = [On(1, 1), Start(1, "empty"), Malloc(1, 1, 10), End(1, "empty")];
    // Idle on stream 1, before stream 2 used it and after.
    let (one, two) = (used_on(1, 1), used_on(2, 1));
    assert_eq!(found_with(3, &joined(&[&made, &one, &others, &one, &two])), [(1, vec![IDLE])]);
    assert_eq!(found_with(3, &joined(&[&made, &one, &two, &one, &others, &one])), []);
    assert_eq!(found_with(3, &joined(&[&made, &one, &others, &two, &others, &one])), []);
    // First used on another stream than it was allocated for, with room in between; freed while stream 1 wants memory.
    let room = [Malloc(1, 7, 1), Free(1, 7)];
    assert_eq!(found(&joined(&[&made, &room, &two, &room, &[Free(1, 1)]])), []);
    assert_eq!(found(&joined(&[&made, &room, &one, &room, &[Free(1, 1)]])), [(1, vec![EARLY, LATE])]);
    // A block of stream 1, not yet used, cannot have the memory of one that stream 2 may still use.
    let waiting = [On(1, 1), Start(1, "empty"), Malloc(1, 2, 10), End(1, "empty"), Free(1, 1)];
    assert_eq!(found(&joined(&[&made, &one, &two, &waiting, &used_on(1, 2)])), []);
    assert_eq!(found(&joined(&[&made, &one, &one, &waiting, &used_on(1, 2)])), [(1, vec![LATE]), (2, vec![EARLY])]);
    // Used where nobody knows the stream, it is as if there were one.
    assert_eq!(found_with(3, &joined(&[&made, &one, &others, &used_on(0, 1), &one])), [(1, vec![IDLE])]);
}

#[test]
fn an_operator_inside_another_says_the_stream_of_what_it_does() {
    // The outermost is on stream 1, the one inside it on 2, the one inside that does not know.
    let inside = |what: Do| {
        let inner = [On(1, 2), Start(1, "inner"), On(1, 0), Start(1, "innermost"), what, End(1, "innermost")];
        joined(&[&[On(1, 1), Start(1, "outer")], &inner, &[End(1, "inner"), End(1, "outer")]])
    };
    let (made, used) = (inside(Malloc(1, 1, 10)), inside(Use(1, 1, 0)));
    let freed = |stream| {
        let made = [On(1, stream), Start(1, "empty"), Malloc(1, 5, 1), End(1, "empty")];
        found(&joined(&[&made, &inside(Malloc(1, 1, 10)), &[Free(1, 5)], &used]))
    };
    assert_eq!((freed(1), freed(2)), (vec![], vec![(2, vec![EARLY])]));
    // Behind the inner one the outer goes on, on its own stream: then the block is used on two.
    let outer =
        |what: Do| [On(1, 1), Start(1, "outer"), On(1, 2), Start(1, "inner"), End(1, "inner"), what, End(1, "outer")];
    let room = [Malloc(1, 7, 1), Free(1, 7)];
    assert_eq!(found(&joined(&[&made, &room, &outer(Use(1, 1, 0))])), []);
    assert_eq!(found(&joined(&[&outer(Malloc(1, 1, 10)), &room, &outer(Use(1, 1, 0))])), [(1, vec![EARLY])]);
    // One unit, whatever the streams: what it frees is no room for what it allocates.
    let steps = [
        On(1, 1),
        Malloc(1, 5, 1),
        Start(1, "outer"),
        Malloc(1, 1, 10),
        On(1, 2),
        Start(1, "inner"),
        Free(1, 5),
        End(1, "inner"),
        Use(1, 1, 0),
        End(1, "outer"),
    ];
    assert_eq!(found(&steps), []);
    // An operator of ATB inside one of Aten, on the stream that Aten does not know.
    let mut played = Played::new(InefficiencySettings::default());
    played.play(&[
        On(1, 3),
        Start(1, "empty"),
        Malloc(1, 1, 10),
        End(1, "empty"),
        On(1, 0),
        Start(1, "npu::attention"),
    ]);
    played.play(&[On(1, 2)]);
    played.atb_operator(10, 1, Phase::Start, "0_1/0/1_Graph");
    played.malloc(11, 1, DEVICE, Pool::PtaCaching, 2, 10);
    played.atb_operator(12, 1, Phase::End, "0_1/0/1_Graph");
    played.play(&[End(1, "npu::attention"), Free(1, 1), On(1, 2), Start(1, "add"), Use(1, 2, 0), End(1, "add")]);
    assert_eq!((played.found(), played.tally.report().operators), (vec![], 3));
}

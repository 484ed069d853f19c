//! Calls of Python functions.
use super::{record, replay};
use crate::{PythonCall, TimestampNs};
use memscope_testkit::{Extended, LaneNumber, SpoolBuilder};
use proptest::prelude::*;
use std::ops::ControlFlow;

/// Function, start, end, thread.
type Call = (String, Option<u64>, Option<u64>, u32);

/// The calls, with times that count from the beginning.
fn calls(spool: &mut SpoolBuilder) -> Vec<Call> {
    let recorded = record(spool);
    let start = recorded.process.info().start;
    let since = |time: Option<TimestampNs>| time.map(|time| time.since(start));
    let mut calls = Vec::new();
    let visit = &mut |call: &PythonCall<'_>| {
        calls.push((call.function.to_owned(), since(call.start), since(call.end), call.thread));
        ControlFlow::Continue(())
    };
    recorded.process.python_calls().each(visit).unwrap();
    calls
}

fn call(spool: &mut SpoolBuilder, lane: LaneNumber, ticks: u64, code: u32) {
    spool.record(lane, ticks, &Extended::Call { code });
}

fn end(spool: &mut SpoolBuilder, lane: LaneNumber, ticks: u64) {
    spool.record(lane, ticks, &Extended::CallEnd {});
}

fn spool() -> (SpoolBuilder, LaneNumber) {
    let mut spool = SpoolBuilder::new();
    spool.calls_traced();
    let lane = spool.lane(7);
    spool.code(lane, 0, "/train.py", "main", 1).code(lane, 1, "/train.py", "step", 9);
    (spool, lane)
}

#[test]
fn calls_come_in_the_order_of_their_ends() {
    let (mut spool, lane) = spool();
    call(&mut spool, lane, 10, 0);
    call(&mut spool, lane, 20, 1);
    end(&mut spool, lane, 30);
    call(&mut spool, lane, 40, 1);
    end(&mut spool, lane, 50);
    end(&mut spool, lane, 60);
    let expected = [
        ("/train.py(9): step".to_owned(), Some(20), Some(30), 7),
        ("/train.py(9): step".to_owned(), Some(40), Some(50), 7),
        ("/train.py(1): main".to_owned(), Some(10), Some(60), 7),
    ];
    assert_eq!(calls(&mut spool), expected);
}

#[test]
fn what_was_there_before_and_what_has_not_ended_has_no_time() {
    let (mut spool, lane) = spool();
    spool.record(lane, 10, &Extended::CallsBegin {});
    spool.record(lane, 10, &Extended::CallFound { code: 0 }).record(lane, 10, &Extended::CallFound { code: 1 });
    end(&mut spool, lane, 20);
    call(&mut spool, lane, 30, 1);
    // Another trace begins: of what was open nothing more is known.
    spool.record(lane, 40, &Extended::CallsBegin {}).record(lane, 40, &Extended::CallFound { code: 0 });
    end(&mut spool, lane, 50);
    // One that has no beginning.
    end(&mut spool, lane, 55);
    call(&mut spool, lane, 60, 9);
    let (main, step) = ("/train.py(1): main".to_owned(), "/train.py(9): step".to_owned());
    let expected = [
        (step.clone(), None, Some(20), 7),
        (step, Some(30), None, 7),
        (main.clone(), None, None, 7),
        (main, None, Some(50), 7),
        ("unknown".to_owned(), Some(60), None, 7),
    ];
    assert_eq!(calls(&mut spool), expected);
}

#[test]
fn a_lane_that_changes_its_thread_ends_what_the_old_one_was_in() {
    let (mut spool, lane) = spool();
    call(&mut spool, lane, 10, 0);
    spool.thread(lane, 8);
    call(&mut spool, lane, 20, 1);
    end(&mut spool, lane, 30);
    let expected = [
        ("/train.py(1): main".to_owned(), Some(10), None, 7),
        ("/train.py(9): step".to_owned(), Some(20), Some(30), 8),
    ];
    assert_eq!(calls(&mut spool), expected);
}

#[test]
fn functions_in_c_and_modules_have_names_of_their_own() {
    let (mut spool, lane) = spool();
    spool.code(lane, 2, "/torch/nn/modules/module.py", "Module._wrapped_call_impl", 5);
    spool.code(lane, 3, "/torch/nn/modules/module.py", "Module._call_impl", 8);
    spool.call_name(lane, 0, "len", "").call_name(lane, 1, "append", "list").call_name(lane, 2, "Linear", "");
    for (ticks, function) in [(10, 0), (20, 1)] {
        spool.record(lane, ticks, &Extended::NativeCall { function });
        end(&mut spool, lane, ticks + 1);
    }
    // The outer of the two is the call of the module.
    spool.record(lane, 30, &Extended::ModuleCall { code: 2, class: 2 });
    spool.record(lane, 31, &Extended::ModuleCall { code: 3, class: 2 });
    end(&mut spool, lane, 32);
    end(&mut spool, lane, 33);
    // Where there is but one, it is that.
    spool.record(lane, 40, &Extended::ModuleCall { code: 3, class: 2 });
    end(&mut spool, lane, 41);
    let names: Vec<String> = calls(&mut spool).into_iter().map(|call| call.0).collect();
    let expected = [
        "<built-in function len>",
        "<built-in method append of list object>",
        "/torch/nn/modules/module.py(8): Module._call_impl",
        "nn.Module: Linear",
        "nn.Module: Linear",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_package_itself_is_not_shown() {
    let (mut spool, lane) = spool();
    spool.code(lane, 2, "/site-packages/msmemscope/tracer.py", "stop", 27).call_name(lane, 0, "calls_end", "");
    call(&mut spool, lane, 10, 1);
    call(&mut spool, lane, 20, 2);
    spool.record(lane, 30, &Extended::NativeCall { function: 0 });
    assert_eq!(calls(&mut spool), [("/train.py(9): step".to_owned(), Some(10), None, 7)]);
}

#[test]
fn what_the_program_names_is_among_them_wherever_it_ends() {
    let (mut spool, lane) = spool();
    spool.label_name(lane, 1, "forward").label_name(lane, 2, "backward");
    call(&mut spool, lane, 10, 0);
    spool.record(lane, 20, &Extended::FunctionStart { name: 1 });
    end(&mut spool, lane, 30);
    spool.record(lane, 40, &Extended::FunctionStart { name: 2 });
    // A trace of calls that begins anew says nothing about them, and so does an end without a beginning.
    spool.record(lane, 45, &Extended::CallsBegin {}).record(lane, 46, &Extended::FunctionEnd { name: 3 });
    spool.record(lane, 50, &Extended::FunctionEnd { name: 1 });
    let expected = [
        ("/train.py(1): main".to_owned(), Some(10), Some(30), 7),
        ("forward".to_owned(), Some(20), Some(50), 7),
        ("backward".to_owned(), Some(40), None, 7),
    ];
    assert_eq!(calls(&mut spool), expected);
}

#[test]
fn a_name_is_one_line_whatever_it_holds() {
    let (mut spool, lane) = spool();
    spool.code(lane, 2, "a\nb\u{7}.py", "f,\"\u{8bad}", 3);
    call(&mut spool, lane, 10, 2);
    end(&mut spool, lane, 20);
    assert_eq!(calls(&mut spool)[0].0, "a\\nb\\u{7}.py(3): f,\"\u{8bad}");
}

#[test]
fn the_trace_of_memory_is_the_same_without_them() {
    let build = |with_calls: bool| {
        let (mut spool, lane) = spool();
        for number in 0..100 {
            if with_calls {
                call(&mut spool, lane, number * 10 + 1, 0);
            }
            spool.alloc(lane, number * 10 + 5, 0x5000 + number * 64, 64, 0);
            if with_calls {
                end(&mut spool, lane, number * 10 + 6);
            }
        }
        replay(&mut record(&mut spool).process)
    };
    let ((with, outcome), (without, _)) = (build(true), build(false));
    assert_eq!(with, without);
    assert_eq!((outcome.unknown_records, outcome.implausible_events), (0, 0));
}

proptest! {
    /// Whatever comes, each call is told once, its times are in order, and there are as many as began.
    #[test]
    fn every_call_is_told_once(steps in proptest::collection::vec((0u8..5, 0u32..3, 1u64..50), 0..200)) {
        let (mut spool, lane) = spool();
        let (mut ticks, mut began) = (10, 0);
        for (what, code, later) in steps {
            ticks += later;
            match what {
                0 | 1 => call(&mut spool, lane, ticks, code),
                2 => { spool.record(lane, ticks, &Extended::CallFound { code }); }
                3 => end(&mut spool, lane, ticks),
                _ => { spool.record(lane, ticks, &Extended::CallsBegin {}); }
            }
            began += usize::from(what <= 2);
        }
        let calls = calls(&mut spool);
        prop_assert_eq!(calls.len(), began);
        for (_, start, end, _) in calls {
            prop_assert!(start.zip(end).is_none_or(|(start, end)| start < end));
        }
    }
}

#[test]
fn code_that_the_program_named_is_among_the_calls_whatever_it_lies_in() {
    let (mut spool, lane) = spool();
    let named = |spool: &mut SpoolBuilder, ticks, name| {
        spool.record(lane, ticks, &Extended::FunctionStart { name });
    };
    let named_end = |spool: &mut SpoolBuilder, ticks, name| {
        spool.record(lane, ticks, &Extended::FunctionEnd { name });
    };
    spool.code(lane, 2, "/site-packages/msmemscope/_span.py", "__enter__", 40);
    spool.label_name(lane, 1, "forward\npass").label_name(lane, 2, "layer").label_name(lane, 3, "layer");
    call(&mut spool, lane, 10, 0);
    // Of our own package, which begins it and is not shown.
    call(&mut spool, lane, 20, 2);
    named(&mut spool, 21, 1);
    end(&mut spool, lane, 22);
    named(&mut spool, 30, 2);
    call(&mut spool, lane, 31, 1);
    // Ended out of order, by another number of the same name; one that never began; one that never ends.
    named_end(&mut spool, 40, 1);
    named_end(&mut spool, 41, 3);
    named_end(&mut spool, 42, 1);
    end(&mut spool, lane, 50);
    named(&mut spool, 51, 3);
    end(&mut spool, lane, 60);
    let expected = [
        ("forward\\npass".to_owned(), Some(21), Some(40), 7),
        ("layer".to_owned(), Some(30), Some(41), 7),
        ("/train.py(9): step".to_owned(), Some(31), Some(50), 7),
        ("/train.py(1): main".to_owned(), Some(10), Some(60), 7),
        ("layer".to_owned(), Some(51), None, 7),
    ];
    assert_eq!(calls(&mut spool), expected);
}

//! Launches, the tasks they become, and their executions by the device's clock.
use super::devices::notes;
use super::{record, replay};
use crate::{KernelPhase, NoteKind, Problem, TraceEvent};
use memscope_testkit::{LaneNumber, SpoolBuilder, SystemKind, TaskLogLine};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const MATMUL: u64 = 0x11;
const ADD: u64 = 0x22;

/// The notes of kernels in few words: time, device, phase, name, stream, task, whether it was chosen.
fn kernels(spool: &mut SpoolBuilder) -> Vec<String> {
    let short = |note: String| {
        note.replace("Kernel { phase: ", "")
            .replace("name: ", "")
            .replace("stream: ", "")
            .replace("task: ", "")
            .replace("Some(\"", "")
            .replace("\")", "")
            .replace("Some(", "")
            .replace(')', "")
            .replace(" }", "")
    };
    notes(&mut record(spool).process).into_iter().map(short).collect()
}

/// Launches on two threads and a log of their executions, some of them in ended blocks.
pub(super) fn kernels_on_two_threads() -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    let other = spool.lane(9);
    for number in 0..60u32 {
        let ticks = 100 + u64::from(number) * 1000;
        let lane = if number % 3 == 0 { other } else { lane };
        spool.launch(lane, ticks).task(lane, ticks + 10, 3, 5, number, if number % 2 == 0 { MATMUL } else { ADD });
        let began = ticks / 2 + 50;
        spool.executions(log, ticks + 500, 3, true, &[begin(5, number, began), end(5, number, began + 20)]);
        if number % 20 == 10 {
            spool.device_clock(log, ticks + 600, 3, (ticks + 600) / 2, 500_000);
            spool.end_generation(lane).end_generation(log);
        }
    }
    spool
}

fn begin(stream: u16, task: u32, counter: u64) -> TaskLogLine {
    TaskLogLine { stream, task, unit: 0, end: false, counter }
}

fn end(stream: u16, task: u32, counter: u64) -> TaskLogLine {
    TaskLogLine { end: true, ..begin(stream, task, counter) }
}

/// A lane that launches and a log whose counter is at tick 0 when it starts and runs at half a tick.
fn with_log(spool: &mut SpoolBuilder) -> (LaneNumber, LaneNumber) {
    let (lane, log) = (spool.lane(7), spool.lane(8));
    spool.kernel_name(lane, MATMUL, "MatMul").kernel_name(lane, ADD, "Add");
    spool.device_clock(log, 0, 3, 0, 500_000);
    (lane, log)
}

#[test]
fn a_launch_has_its_task_and_its_executions_have_the_time_of_the_device() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    spool.launch(lane, 100).task(lane, 150, 3, 5, 9, MATMUL).launch(lane, 200).task(lane, 210, 3, 5, 0xab_000a, ADD);
    // Read long after.
    spool.executions(log, 9_000_000, 3, true, &[begin(5, 9, 80), end(5, 9, 130), begin(5, 10, 131), end(5, 10, 140)]);
    assert_eq!(
        kernels(&mut spool),
        [
            "100 3 Launch, MatMul, 5, 9 true",
            "160 3 ExecuteStart, MatMul, 5, 9 true",
            "200 3 Launch, Add, 5, 10 true",
            "260 3 ExecuteEnd, MatMul, 5, 9 true",
            "262 3 ExecuteStart, Add, 5, 10 true",
            "280 3 ExecuteEnd, Add, 5, 10 true",
        ]
    );
    let outcome = replay(&mut record(&mut spool).process).1;
    assert_eq!((outcome.kernels.launches, outcome.kernels.executions, outcome.problems.len()), (2, 2, 0));
}

#[test]
fn executions_take_their_turn_among_the_events_of_all_lanes() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    let other = spool.lane(9);
    spool.launch(lane, 100).task(lane, 110, 3, 5, 9, MATMUL).mark(lane, 400, "late");
    spool.mark(other, 120, "before").mark(other, 200, "between").mark(other, 300, "after");
    spool.executions(log, 1000, 3, true, &[begin(5, 9, 75), end(5, 9, 125)]);
    let times: Vec<u64> = notes(&mut record(&mut spool).process)
        .iter()
        .map(|note| note.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(times, [100, 120, 150, 200, 250, 300, 400]);
}

#[test]
fn what_happens_within_a_launch_does_not_hide_its_task() {
    let mut spool = SpoolBuilder::new();
    let (lane, _) = with_log(&mut spool);
    spool.launch(lane, 100).alloc(lane, 110, 0x10, 1, 0);
    // A copy of arguments is no kernel; another thread's task is not this launch's.
    spool.task(lane, 120, 3, 5, 8, 0).free(lane, 130, 0x10, 0).task(lane, 140, 3, 5, 9, MATMUL);
    spool.launch(lane, 200).mark(lane, 210, "not to be passed").task(lane, 220, 3, 5, 10, ADD);
    assert_eq!(
        kernels(&mut spool),
        [
            "100 3 Launch, MatMul, 5, 9 true",
            "200 N/A Launch, None, None, None true",
            "210 N/A Mark(\"not to be passed true",
            // Launched by a function nobody stands in front of, as far as can be told.
            "220 3 Launch, Add, 5, 10 true",
        ]
    );
    let outcome = replay(&mut record(&mut spool).process).1;
    assert_eq!(outcome.problems, [Problem::LaunchesWithoutTask { number: 1, launches: 3 }]);
}

#[test]
fn a_launch_without_a_task_is_of_the_device_of_its_thread() {
    let mut spool = SpoolBuilder::new();
    spool.profiling_taken();
    let lane = spool.lane(7);
    spool.system(lane, 1, SystemKind::SetDevice, 4).launch(lane, 2).launch(lane, 3);
    assert_eq!(kernels(&mut spool), ["2 4 Launch, None, None, None true", "3 4 Launch, None, None, None true"]);
    // The process's header says why; the count would only repeat it.
    assert_eq!(replay(&mut record(&mut spool).process).1.problems, []);
}

#[test]
fn copies_are_no_kernels_and_strays_have_no_name() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    spool.task(lane, 100, 3, 5, 1, 0).mark(lane, 9_000_000, "end");
    let lines = [begin(5, 1, 60), end(5, 1, 70), begin(5, 2, 80), end(5, 2, 90), end(6, 3, 100)];
    spool.executions(log, 1000, 3, true, &lines);
    let told = kernels(&mut spool);
    // A stray waits for its launch.
    let waited = ["2000160 3 ExecuteStart, None, 5, 2 true", "2000160 3 ExecuteEnd, None, 5, 2 true"];
    assert_eq!(told[..3], ["200 3 ExecuteEnd, None, 6, 3 true", waited[0], waited[1]]);
    let outcome = replay(&mut record(&mut spool).process).1;
    assert_eq!((outcome.kernels.stray_executions, outcome.kernels.launches), (1, 0));
    assert_eq!(outcome.problems, [Problem::StrayExecutions { number: 1 }]);
}

#[test]
fn an_execution_dated_before_its_launch_is_told_right_after_it() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    spool.launch(lane, 100_000).task(lane, 100_010, 3, 5, 9, MATMUL);
    spool.executions(log, 200_000, 3, true, &[begin(5, 9, 49_000), end(5, 9, 49_999)]);
    assert_eq!(
        kernels(&mut spool),
        [
            "100000 3 Launch, MatMul, 5, 9 true",
            "100000 3 ExecuteStart, MatMul, 5, 9 true",
            "100000 3 ExecuteEnd, MatMul, 5, 9 true",
        ]
    );
}

#[test]
fn a_name_first_asked_for_by_another_thread_within_the_launch_is_found() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(7), spool.lane(8));
    spool.launch(lane, 100).task(lane, 300, 0, 1, 1, MATMUL);
    // Its record stands behind an event of its lane that comes after the launch.
    spool
        .mark(other, 50, "a")
        .launch(other, 150)
        .kernel_name(other, MATMUL, "MatMul")
        .task(other, 200, 0, 2, 1, MATMUL);
    assert_eq!(kernels(&mut spool)[1..], ["100 0 Launch, MatMul, 1, 1 true", "150 0 Launch, MatMul, 2, 1 true"]);
}

#[test]
fn a_name_nobody_told_is_missing_and_counted() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.launch(lane, 100).task(lane, 110, 0, 1, 1, 77).launch(lane, 200).task(lane, 210, 0, 1, 2, 77);
    assert_eq!(kernels(&mut spool), ["100 0 Launch, None, 1, 1 true", "200 0 Launch, None, 1, 2 true"]);
    let outcome = replay(&mut record(&mut spool).process).1;
    assert_eq!(outcome.problems, [Problem::LaunchesWithoutName { number: 2, launches: 2 }]);
}

#[test]
fn kernels_belong_to_the_step_and_the_tracing_they_were_launched_in() {
    let mut spool = SpoolBuilder::new();
    spool.config("mode=1;npu=8;dir=/tmp");
    let (lane, log) = with_log(&mut spool);
    spool.launch(lane, 100).task(lane, 110, 3, 5, 1, MATMUL);
    spool.system(lane, 200, SystemKind::StartTrace, 0).launch(lane, 300).task(lane, 310, 3, 5, 2, ADD);
    spool.launch(lane, 320).task(lane, 330, 4, 5, 2, ADD);
    spool.system(lane, 400, SystemKind::StopTrace, 0);
    spool.executions(log, 1000, 3, true, &[begin(5, 1, 110), end(5, 1, 120), begin(5, 2, 160), end(5, 2, 300)]);
    let chosen: Vec<String> =
        kernels(&mut spool).into_iter().filter(|note| note.ends_with("true") && !note.contains("Trace")).collect();
    assert_eq!(
        chosen,
        [
            "300 3 Launch, Add, 5, 2 true",
            "320 3 ExecuteStart, Add, 5, 2 true",
            // After tracing ended, but of a launch that was told.
            "600 3 ExecuteEnd, Add, 5, 2 true",
        ]
    );
}

#[test]
fn a_log_without_streams_takes_them_from_the_tasks() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    spool.launch(lane, 100).task(lane, 110, 3, 17, 9, MATMUL);
    spool.executions(log, 1000, 3, false, &[begin(0, 9, 60), end(0, 9, 70)]);
    assert_eq!(kernels(&mut spool)[2], "140 3 ExecuteEnd, MatMul, 17, 9 true");
}

#[test]
fn expanded_stream_numbers_are_unpacked() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = with_log(&mut spool);
    spool.stream_expansion(lane, 50, 1).launch(lane, 100).task(lane, 110, 3, 0x4321, 0x8123, MATMUL);
    spool.executions(log, 1000, 3, true, &[begin(0x8123, 0xc321, 60)]);
    assert_eq!(kernels(&mut spool)[1], "120 3 ExecuteStart, MatMul, 17185, 33059 true");
}

#[test]
fn without_a_clock_an_execution_has_the_time_it_was_read() {
    let mut spool = SpoolBuilder::new();
    let (lane, log) = (spool.lane(7), spool.lane(8));
    spool.kernel_name(lane, MATMUL, "MatMul").launch(lane, 100).task(lane, 110, 3, 5, 9, MATMUL);
    spool.executions(log, 700, 3, true, &[begin(5, 9, 60), end(5, 9, 70)]);
    assert_eq!(kernels(&mut spool)[1], "700 3 ExecuteStart, MatMul, 5, 9 true");
    let outcome = replay(&mut record(&mut spool).process).1;
    assert!(matches!(outcome.problems[..], [Problem::UndatedExecutions { .. }]), "{:?}", outcome.problems);
}

#[test]
fn lines_of_a_task_log_in_another_lane_cannot_be() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.mark(lane, 1, "x").executions(lane, 2, 3, true, &[begin(5, 9, 60)]).device_clock(lane, 3, 3, 1, 1);
    let log = spool.lane(8);
    spool.device_clock(log, 1, 3, 1, 1).mark(log, 2, "not here");
    assert_eq!(replay(&mut record(&mut spool).process).1.implausible_events, 3);
}

/// What one thread does next.
#[derive(Clone, Copy, Debug)]
struct Step {
    thread: usize,
    wait: u64,
    stream: u32,
    name: u64,
    queued: u64,
    runs: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..3usize, 1u64..5000, 1u32..4, 0u64..4, 0u64..1 << 20, 0u64..1 << 16)
        .prop_map(|(thread, wait, stream, name, queued, runs)| Step { thread, wait, stream, name, queued, runs });
    proptest::collection::vec(step, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(64)))]

    /// Whatever is launched where, each kernel has its three rows with its own name, in the order of time.
    #[test]
    fn every_launch_is_followed_by_its_executions(steps in steps(), first_task in 65_500u32..65_536) {
        let mut spool = SpoolBuilder::new();
        let lanes = [spool.lane(1), spool.lane(2), spool.lane(3)];
        let log = spool.lane(4);
        spool.device_clock(log, 0, 0, 0, 1_000_000);
        for name in 1..4 {
            spool.kernel_name(lanes[0], name, &format!("k{name}"));
        }
        let (mut ticks, mut tasks) = (0, BTreeMap::new());
        let mut lines = Vec::new();
        for step in &steps {
            ticks += step.wait;
            let lane = lanes[step.thread];
            let task = tasks.entry(step.stream).or_insert(first_task);
            *task = (*task + 1) & 0xffff;
            if step.name != 0 {
                spool.launch(lane, ticks);
            }
            spool.task(lane, ticks + 1, 0, step.stream, *task, step.name);
            let began = ticks + 2 + step.queued;
            lines.extend([begin(step.stream as u16, *task, began), end(step.stream as u16, *task, began + step.runs)]);
            ticks += 2;
        }
        // The device tells when something ends, in the order of ends.
        lines.sort_by_key(|line| line.counter);
        for (number, batch) in lines.chunks(40).enumerate() {
            spool.executions(log, (1 << 22) + number as u64, 0, true, batch);
        }
        let mut told: Vec<(u64, KernelPhase, String, u32, u32)> = Vec::new();
        let mut visit = |event: &TraceEvent<'_>, _: &crate::State<'_>| {
            if let TraceEvent::Note(note) = event
                && let NoteKind::Kernel { phase, name, stream, task } = note.kind
            {
                let name = name.map_or("N/A", |name| name.text).to_owned();
                told.push((note.at.time.0, phase, name, stream.unwrap(), task.unwrap()));
            }
            ControlFlow::Continue(())
        };
        let outcome = record(&mut spool).process.trace(&mut visit, &mut |_| {}).unwrap();
        let launched = steps.iter().filter(|step| step.name != 0).count();
        prop_assert_eq!(told.len(), launched * 3);
        prop_assert_eq!((outcome.kernels.launches, outcome.kernels.stray_executions), (launched as u64, 0));
        prop_assert!(told.is_sorted_by_key(|row| row.0));
        let mut open: BTreeMap<(u32, u32), (KernelPhase, String)> = BTreeMap::new();
        for (_, phase, name, stream, task) in told {
            let before = open.insert((stream, task), (phase, name.clone()));
            match phase {
                KernelPhase::Launch => prop_assert!(before.is_none_or(|(phase, _)| phase == KernelPhase::ExecuteEnd)),
                KernelPhase::ExecuteStart => prop_assert_eq!(before, Some((KernelPhase::Launch, name))),
                KernelPhase::ExecuteEnd => prop_assert_eq!(before, Some((KernelPhase::ExecuteStart, name))),
            }
        }
    }
}

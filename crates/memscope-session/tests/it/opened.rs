//! Events and blocks as columns, of recordings made to order and of the files exported from them.
use memscope_dump::rows::Event;
use memscope_dump::{ExportOptions, Format, Room, StackForm, export_process};
use memscope_model::{Device, Pool, Process};
use memscope_session::opened::words::{EVENTS, POOLS, device_of_code, type_words};
use memscope_session::opened::{
    BlockColumns, Choice, ChosenSteps, EventColumns, OpenedProcess, OpenedRun, ReadFailure, ReadStatus, StackNames,
    step_numbers,
};
use memscope_session::place::Place;
use memscope_symbols::Symbolizer;
use memscope_testkit::{AccessMode, EPOCH, Space, SpoolBuilder, SystemKind};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Two steps on the host and on a device, with a mark, an operator and an access.
fn training(root: &Path) -> PathBuf {
    let mut spool = SpoolBuilder::new();
    spool.process(31, 1).command("/usr/bin/python3", "python3 train.py");
    spool.config("c=0;py=20;cpu=1;npu=ffffffff;dump=15;level=3;dir=/tmp");
    let lane = spool.lane(31);
    spool.code(lane, 0, "/me/train.py", "<module>", 1).code(lane, 1, "/me/train.py", "keep", 10);
    spool.python_node(lane, 1, 0, 0, 0).python_node(lane, 2, 1, 1, 0);
    spool.aten_name(lane, 0, "aten::add");
    for step in 1..=2u64 {
        let ticks = step * 1000;
        spool.alloc(lane, ticks, 0x1000 * step, 100 + step, 2);
        spool.aten_start(lane, ticks + 1, step, 0, 0, 1);
        spool.device_alloc(lane, ticks + 2, Space::PtaCaching, 1, 0x12c0_0000 * step, 4096, 0, 2);
        spool.aten_access(
            lane,
            ticks + 3,
            AccessMode::Write,
            1,
            9_999,
            (0x12c0_0000 * step, 16),
            0x12c0_0000 * step,
            &[4],
        );
        spool.aten_end(lane, ticks + 4, step);
        spool.mark(lane, ticks + 5, "a mark");
        spool.device_free(lane, ticks + 6, Space::PtaCaching, 0x12c0_0000 * step, 1);
        spool.system(lane, ticks + 7, SystemKind::Step, step);
    }
    spool.free(lane, 5000, 0x1000, 0);
    let directory = root.join("msmemscope_31_20251203091122_ascend");
    spool.write(&directory).unwrap();
    directory
}

fn exported(directory: &Path, root: &Path, format: Format) -> PathBuf {
    let target = root.join(format!("{format:?}")).join(directory.file_name().unwrap());
    std::fs::create_dir_all(&target).unwrap();
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options =
        ExportOptions { stacks: Some(StackForm::Inline), ..ExportOptions::quiet(format, &room, &mut symbolizer) };
    export_process(&mut Process::open(directory).unwrap(), &target, options, &mut []).unwrap();
    target
}

fn opened(path: &Path) -> OpenedRun {
    OpenedRun::open(Place::from(path.to_owned())).unwrap()
}

fn go_on(_: f64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn events(process: &OpenedProcess, choice: Choice) -> (EventColumns, Vec<Vec<String>>) {
    let mut reader = process.events(choice).unwrap();
    let (mut columns, mut names) = (EventColumns::default(), StackNames::default());
    while reader.step(&mut columns).unwrap() == ReadStatus::More {}
    assert_eq!(reader.step(&mut columns).unwrap(), ReadStatus::Over);
    let stacks = columns.stack.iter().map(|stack| reader.stack(*stack, &mut names)).collect();
    (columns, stacks)
}

fn blocks(process: &OpenedProcess, choice: Choice) -> BlockColumns {
    let mut reader = process.blocks(choice).unwrap();
    let mut columns = BlockColumns::default();
    while reader.step(&mut columns).unwrap() == ReadStatus::More {}
    columns
}

/// One line an event: what a file says of it.
fn rows(process: &OpenedProcess, choice: Choice) -> Vec<String> {
    let (columns, stacks) = events(process, choice);
    let types: Vec<&str> = type_words().collect();
    let source = process.overview(&mut go_on).unwrap().step_source;
    let steps = step_numbers(&columns.step, source);
    let row = |at: usize| {
        format!(
            "{} {} {} pool {:?} step {} block {} at {:#x} of {}, used {}, {:?} of {:?}, {}",
            EVENTS[usize::from(columns.event[at])].text(),
            types[usize::from(columns.event_type[at])],
            device_of_code(columns.device[at]),
            POOLS.get(usize::from(columns.pool[at])).map(|pool| pool.name()),
            steps[at],
            columns.block[at],
            columns.address[at],
            columns.size[at],
            columns.used[at],
            columns.texts.get(columns.name[at]),
            columns.texts.get(columns.owner[at]),
            stacks[at].join(" < "),
        )
    };
    (0..columns.len()).map(row).collect()
}

#[test]
fn recording_csv_and_db_have_the_same_events() {
    let root = tempfile::tempdir().unwrap();
    let directory = training(root.path());
    let recording = opened(&directory);
    let told = rows(&recording.processes[0], Choice::default());
    assert_eq!(
        told[..4],
        [
            "MALLOC HOST cpu pool Some(\"HOST\") step 1 block 1 at 0x1000 of 101, used 101, None of None, \
             /me/train.py: keep < /me/train.py: <module>",
            "OP_LAUNCH ATEN_START 0 pool None step 1 block 0 at 0x0 of 0, used 0, Some(\"aten::add\") of None, \
             /me/train.py: <module>",
            "MALLOC PTA 1 pool Some(\"PTA\") step 1 block 2 at 0x12c00000 of 4096, used 4096, None of Some(\"PTA\"), \
             /me/train.py: keep < /me/train.py: <module>",
            "ACCESS WRITE 1 pool None step 1 block 2 at 0x12c00000 of 16, used 0, None of None, ",
        ]
    );
    assert_eq!(told.len(), 17);
    for format in [Format::Csv, Format::Db] {
        let files = opened(&exported(&directory, root.path(), format));
        let of_file = rows(&files.processes[0], Choice::default());
        assert_eq!(of_file, told, "{format:?}");
    }
}

#[test]
fn events_are_chosen_by_device_pool_kind_step_and_time() {
    let root = tempfile::tempdir().unwrap();
    let run = opened(&training(root.path()));
    let process = &run.processes[0];
    let count = |choice: Choice| events(process, choice).0.len();
    let source = process.overview(&mut go_on).unwrap().step_source;
    let steps = |numbers: &[u32]| Choice {
        steps: Some(ChosenSteps { numbers: numbers.to_vec(), source }),
        ..Choice::default()
    };
    assert_eq!(count(Choice { pools: vec![Pool::Host], ..Choice::default() }), 3);
    assert_eq!(count(Choice { pools: vec![Pool::Host, Pool::PtaCaching], ..Choice::default() }), 7);
    assert_eq!(count(Choice { events: vec![Event::Mstx], ..Choice::default() }), 2);
    assert_eq!(count(Choice { devices: vec![Device::Npu(7)], events: vec![Event::Malloc], ..Choice::default() }), 0);
    assert_eq!(count(Choice { devices: vec![Device::Npu(1)], events: vec![Event::Malloc], ..Choice::default() }), 2);
    assert_eq!((count(steps(&[1])), count(steps(&[2])), count(steps(&[3])), count(steps(&[1, 3]))), (8, 8, 1, 9));
    let from = EPOCH.later_by(2000).0;
    assert_eq!(count(Choice { time: Some(from..u64::MAX), ..Choice::default() }), 9);
    assert_eq!(count(Choice { time: Some(from..from + 1), ..Choice::default() }), 1);
    let none = Choice { steps: Some(ChosenSteps { numbers: vec![1], source: None }), ..Choice::default() };
    assert_eq!(count(none), 0);
}

#[test]
fn blocks_come_when_they_end_and_at_last_those_that_do_not() {
    let root = tempfile::tempdir().unwrap();
    let directory = training(root.path());
    let csv = exported(&directory, root.path(), Format::Csv);
    for path in [directory, csv] {
        let run = opened(&path);
        let columns = blocks(&run.processes[0], Choice::default());
        assert_eq!(columns.id, [2, 4, 1, 3]);
        assert_eq!(columns.size, [4096, 4096, 101, 102]);
        assert_eq!(columns.freed.iter().map(|freed| *freed != 0).collect::<Vec<_>>(), [true, true, true, false]);
        let source = run.processes[0].overview(&mut go_on).unwrap().step_source;
        assert_eq!(step_numbers(&columns.made_step, source), [1, 2, 1, 2]);
        assert_eq!(step_numbers(&columns.freed_step, source)[..3], [1, 2, 3]);
        let owners: Vec<Option<&str>> = columns.owner.iter().map(|owner| columns.texts.get(*owner)).collect();
        assert_eq!(owners, [Some("PTA"), Some("PTA"), None, None]);
        let of_host = blocks(&run.processes[0], Choice { pools: vec![Pool::Host], ..Choice::default() });
        assert_eq!(of_host.id, [1, 3]);
        let of_step = Choice { steps: Some(ChosenSteps { numbers: vec![2], source }), ..Choice::default() };
        assert_eq!(blocks(&run.processes[0], of_step).id, [4, 3]);
    }
}

#[test]
fn the_overview_has_steps_with_their_times_and_pools_with_their_peaks() {
    let root = tempfile::tempdir().unwrap();
    let run = opened(&training(root.path()));
    let overview = run.processes[0].overview(&mut go_on).unwrap();
    let since = |time: memscope_model::TimestampNs| time.since(EPOCH);
    let steps: Vec<(u32, u64, Option<u64>)> =
        overview.steps.iter().map(|step| (step.number, since(step.begin), step.end.map(since))).collect();
    assert_eq!(steps, [(1, 1000, Some(1007)), (2, 1007, Some(2007)), (3, 2007, None)]);
    let pools: Vec<(Pool, u64, u64, u64, u64)> = overview
        .pools
        .iter()
        .map(|pool| (pool.pool, pool.allocations, pool.frees, pool.peak_bytes, pool.live_bytes))
        .collect();
    assert_eq!(pools, [(Pool::Host, 2, 1, 203, 102), (Pool::PtaCaching, 2, 2, 4096, 0)]);
    assert_eq!((overview.events, since(overview.first_time), since(overview.last_time)), (17, 1000, 5000));
}

#[test]
fn steps_by_ranges_begin_and_end_with_them() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    spool.process(31, 1).config("cpu=1;dir=/tmp");
    let lane = spool.lane(31);
    spool.alloc(lane, 1, 0x10, 1, 0);
    for step in 1..=2u64 {
        spool.range_start(lane, step * 100, step, "step start").alloc(lane, step * 100 + 1, 0x1000 * step, 1, 0);
        spool.range_end(lane, step * 100 + 2, step).alloc(lane, step * 100 + 50, 0x1001 * step, 1, 0);
    }
    spool.write(root.path()).unwrap();
    let run = opened(root.path());
    let overview = run.processes[0].overview(&mut go_on).unwrap();
    let since = |time: memscope_model::TimestampNs| time.since(EPOCH);
    let steps: Vec<(u32, u64, Option<u64>)> =
        overview.steps.iter().map(|step| (step.number, since(step.begin), step.end.map(since))).collect();
    assert_eq!(steps, [(1, 100, Some(102)), (2, 200, Some(202))]);
}

#[test]
fn one_span_is_read_as_if_there_were_no_other() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    spool.process(31, 1).config("cpu=1;mode=1;dir=/tmp");
    let lane = spool.lane(31);
    for span in 1..=2u64 {
        let ticks = span * 100;
        spool.system(lane, ticks, SystemKind::StartTrace, 0).alloc(lane, ticks + 1, 0x10 * span, span, 0);
        spool.system(lane, ticks + 2, SystemKind::StopTrace, 0).alloc(lane, ticks + 3, 0x1000 * span, 9, 0);
    }
    spool.write(root.path()).unwrap();
    for number in [1, 2] {
        let span = NonZeroU32::new(number);
        let run = OpenedRun::open(Place { span, ..Place::from(root.path().to_owned()) }).unwrap();
        let (columns, _) = events(&run.processes[0], Choice { events: vec![Event::Malloc], ..Choice::default() });
        assert_eq!(columns.size, [u64::from(number)]);
        assert_eq!(blocks(&run.processes[0], Choice::default()).size, [u64::from(number)]);
    }
    let all = opened(root.path());
    let (columns, _) = events(&all.processes[0], Choice { events: vec![Event::Malloc], ..Choice::default() });
    // What is alive when a span begins is told there.
    assert_eq!(columns.size, [1, 9, 2]);
}

#[test]
fn what_is_alive_at_the_end_is_of_what_was_traced() {
    let (root, mut spool) = (tempfile::tempdir().unwrap(), SpoolBuilder::new());
    spool.process(31, 1).config("cpu=1;mode=1;dir=/tmp");
    let lane = spool.lane(31);
    spool.alloc(lane, 1, 0x10, 1, 0).system(lane, 2, SystemKind::StartTrace, 0);
    spool.alloc(lane, 3, 0x20, 2, 0).alloc(lane, 4, 0x30, 4, 0).system(lane, 5, SystemKind::StopTrace, 0);
    spool.alloc(lane, 6, 0x40, 8, 0).free(lane, 7, 0x30, 0).free(lane, 8, 0x999, 0).alloc(lane, 9, 0x50, 16, 0);
    spool.write(root.path()).unwrap();
    let run = opened(root.path());
    let overview = run.processes[0].overview(&mut go_on).unwrap();
    let (pool, rest) = overview.pools.split_first().unwrap();
    assert_eq!((pool.allocations, pool.frees, pool.peak_bytes, pool.live_bytes), (2, 1, 7, 3));
    assert!(rest.is_empty());
}

#[test]
fn whoever_breaks_off_gets_no_answer() {
    let root = tempfile::tempdir().unwrap();
    let run = opened(&training(root.path()));
    let broken = run.processes[0].overview(&mut |_| ControlFlow::Break(()));
    assert!(matches!(broken, Err(ReadFailure::Interrupted)));
    assert!(run.processes[0].known_overview().is_none());
}

#[test]
fn what_holds_nothing_cannot_be_opened() {
    let root = tempfile::tempdir().unwrap();
    let Err(error) = OpenedRun::open(Place::from(root.path().to_owned())) else { panic!("it was opened") };
    assert!(error.to_string().starts_with("there is neither a recording nor a csv or db file in"), "{error}");
    let other = Place { pid: Some(32), ..Place::from(training(root.path())) };
    assert!(OpenedRun::open(other).is_err());
}

#[test]
fn the_model_numbers_events_of_a_source_alike_in_every_pass() {
    let root = tempfile::tempdir().unwrap();
    let run = opened(&training(root.path()));
    let (first, _) = events(&run.processes[0], Choice::default());
    let (second, _) = events(&run.processes[0], Choice::default());
    assert_eq!(first.id, second.id);
    assert!(first.id.is_sorted());
}

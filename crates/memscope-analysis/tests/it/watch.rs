//! Who is said to have changed a watched block, on recordings made to order.
use memscope_analysis::watch::{Doubt, WatchReport, WatchTally, WatchedReport};
use memscope_model::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};
use memscope_model::{Phase, Process, TraceSource};
use memscope_testkit::{DevAddr, Extended, LaneNumber, LogicalDevice, Space, SpoolBuilder, StackRef};
use proptest::prelude::*;

const NPU: LogicalDevice = LogicalDevice(0);
const CPU: LogicalDevice = LogicalDevice(10_000);
const BLOCKING: u8 = 2;
const ADDRESS: u64 = 0x1240_0000_2000;
const SIZE: u64 = 0x1000;

/// A recording that is told step by step.
struct Story {
    spool: SpoolBuilder,
    lane: LaneNumber,
    ticks: u64,
    operators: u64,
}

impl Story {
    fn new() -> Story {
        let mut spool = SpoolBuilder::new();
        spool.config("c=20;py=20;cpu=1;npu=ffffffff;level=3;dir=/tmp");
        let lane = spool.lane(7);
        Story { spool, lane, ticks: 10, operators: 0 }
    }

    fn tell_in(&mut self, lane: LaneNumber, record: &Extended<'_>) -> &mut Story {
        self.ticks += 10;
        self.spool.record(lane, self.ticks, record);
        self
    }

    fn tell(&mut self, record: &Extended<'_>) -> &mut Story {
        self.tell_in(self.lane, record)
    }

    fn watch(&mut self, watch: u32, device: LogicalDevice, flags: u8, checksum: u64) -> &mut Story {
        self.tell(&Extended::WatchBegin {
            watch,
            origin: WatchOrigin::Program,
            flags,
            device,
            address: DevAddr(ADDRESS),
            size: SIZE,
            output: 0,
            checksum,
            content: 0,
            stack: StackRef::NONE,
            name: b"w",
        })
    }

    fn moment(&mut self, lane: LaneNumber, source: WatchSource, phase: Phase, operator: u64, name: &str) -> &mut Story {
        let (stack, name) = (StackRef::NONE, name.as_bytes());
        self.tell_in(lane, &Extended::WatchMoment { source, phase, operator, kernel: 0, stack, name })
    }

    fn look(&mut self, lane: LaneNumber, watch: u32, given: GivenFor, checksum: u64) -> &mut Story {
        self.tell_in(lane, &Extended::WatchLook { watch, given, checksum, content: 0 })
    }

    fn begins(&mut self, name: &str, given: GivenFor, checksum: u64) -> u64 {
        self.operators += 1;
        let (lane, operator) = (self.lane, self.operators);
        self.moment(lane, WatchSource::Aten, Phase::Start, operator, name).look(lane, 1, given, checksum);
        operator
    }

    fn ends(&mut self, operator: u64, given: GivenFor, checksum: u64) {
        let lane = self.lane;
        self.moment(lane, WatchSource::Aten, Phase::End, operator, "").look(lane, 1, given, checksum);
    }

    /// An operator that finds one content and leaves another.
    fn operator(&mut self, name: &str, given: GivenFor, (before, after): (u64, u64)) -> &mut Story {
        let operator = self.begins(name, given, before);
        self.ends(operator, GivenFor::Nothing, after);
        self
    }

    fn report(&mut self) -> (WatchReport, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        self.spool.write(directory.path()).unwrap();
        let mut tally = WatchTally::new();
        let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut tally], &mut |_| {}).unwrap();
        let name = |id: u32| outcome.names.get(memscope_model::NameId(id)).map_or("", |name| name.text).to_owned();
        (tally.finish(), (0..outcome.names.len() as u32).map(name).collect())
    }

    /// Of the one watch.
    fn found(&mut self) -> Found {
        let (report, names) = self.report();
        let [watched]: [WatchedReport; 1] = report.watches.try_into().unwrap();
        Found { watched, names }
    }
}

struct Found {
    watched: WatchedReport,
    names: Vec<String>,
}

impl Found {
    fn calls<'c>(&self, calls: impl IntoIterator<Item = &'c memscope_analysis::watch::OperatorCall>) -> Vec<String> {
        let name = |id: memscope_model::NameId| self.names[id.0 as usize].clone();
        calls.into_iter().map(|call| format!("{}#{}", call.name.map(name).unwrap_or_default(), call.call)).collect()
    }

    /// Why, who may own the block, and how many of them there were.
    fn doubts(&self) -> Vec<(Doubt, String, u64)> {
        let each = self.watched.doubts.iter();
        each.map(|told| (told.doubt, self.calls([&told.owner]).concat(), told.times)).collect()
    }

    /// Who is named, one list for each alarm.
    fn during(&self) -> Vec<Vec<String>> {
        self.watched.changes.iter().map(|change| self.calls(&change.during)).collect()
    }
}

#[test]
fn the_operator_that_was_not_given_the_block_is_named_and_no_other() {
    let mut story = Story::new();
    story.watch(1, CPU, 0, 5);
    for number in 0..200 {
        let left = if number >= 136 { 6 } else { 5 };
        story.operator("aten::add", GivenFor::Reading, (if number > 136 { 6 } else { 5 }, left));
    }
    let found = story.found();
    assert_eq!((found.watched.alarms, found.watched.legal, found.watched.looks), (1, 0, 400));
    assert_eq!(found.during(), [["aten::add#137"]]);
    assert!(found.watched.changes[0].exact);
}

#[test]
fn a_block_that_an_operator_was_given_to_write_is_its_own() {
    let mut story = Story::new();
    story.watch(1, CPU, 0, 5).operator("aten::add_", GivenFor::Writing, (5, 6));
    story.operator("aten::mul", GivenFor::Reading, (6, 6));
    // What it puts out it may say only at its end.
    let operator = story.begins("aten::foo.out", GivenFor::Nothing, 6);
    story.ends(operator, GivenFor::Writing, 7);
    let found = story.found();
    assert_eq!((found.watched.alarms, found.watched.legal, found.watched.doubtful), (0, 2, 0));
    assert!(!found.watched.is_late);
}

#[test]
fn an_operator_that_does_not_say_what_it_was_given_the_block_for_may_own_it() {
    let mut story = Story::new();
    story.watch(1, CPU, 0, 5);
    for content in 5..8 {
        story.operator("Attention", GivenFor::Unknown, (content, content + 1));
    }
    story.operator("Cache", GivenFor::Unknown, (8, 9)).operator("other", GivenFor::Reading, (9, 10));
    let found = story.found();
    assert_eq!((found.watched.alarms, found.watched.legal, found.watched.doubtful), (1, 0, 4));
    assert_eq!(found.during(), [["other#1"]]);
    assert_eq!(
        found.doubts(),
        [(Doubt::Purpose, "Attention#1".to_owned(), 3), (Doubt::Purpose, "Cache#1".to_owned(), 1)]
    );
    assert_eq!(found.watched.doubts[1].change.checksums, (8, 9));
}

#[test]
fn an_owner_around_one_that_may_own_the_block_is_its_owner() {
    let mut story = Story::new();
    story.watch(1, CPU, 0, 5);
    let outside = story.begins("outer", GivenFor::Writing, 5);
    story.operator("inner", GivenFor::Unknown, (5, 6));
    story.ends(outside, GivenFor::Nothing, 6);
    let found = story.found();
    assert_eq!((found.watched.alarms, found.watched.legal, found.watched.doubtful), (0, 1, 0));
}

#[test]
fn a_change_outside_of_operators_is_between_two() {
    let mut story = Story::new();
    story.watch(1, CPU, 0, 5).operator("a", GivenFor::Writing, (5, 5)).operator("b", GivenFor::Writing, (6, 6));
    let found = story.found();
    assert_eq!((found.watched.alarms, found.during()), (1, vec![Vec::<String>::new()]));
    let change = &found.watched.changes[0];
    assert_eq!(found.calls(change.after.iter().chain(&change.before)), ["a#1", "b#1"]);
    assert_eq!(change.checksums, (5, 6));
}

#[test]
fn within_an_operator_the_inner_one_is_named_and_the_outer_one_may_own_the_block() {
    for (outer, alarms) in [(GivenFor::Reading, 2), (GivenFor::Writing, 0)] {
        let mut story = Story::new();
        story.watch(1, CPU, 0, 5);
        let outside = story.begins("outer", outer, 5);
        story.operator("inner", GivenFor::Nothing, (5, 6));
        // And once more between its inner operators.
        story.operator("inner", GivenFor::Nothing, (7, 7));
        story.ends(outside, GivenFor::Nothing, 7);
        let found = story.found();
        assert_eq!((found.watched.alarms, found.watched.legal), (alarms, 2 - alarms));
        if alarms > 0 {
            assert_eq!(found.during(), [["inner#1"], ["outer#1"]]);
        }
    }
}

#[test]
fn a_kernel_is_its_operators_also_if_that_says_so_only_at_its_end() {
    let mut story = Story::new();
    story.watch(1, NPU, 0, 5);
    let operator = story.begins("aten::op", GivenFor::Nothing, 5);
    let lane = story.lane;
    story.moment(lane, WatchSource::Kernel, Phase::Start, 90, "").look(lane, 1, GivenFor::Nothing, 5);
    story.moment(lane, WatchSource::Kernel, Phase::End, 90, "").look(lane, 1, GivenFor::Nothing, 6);
    story.ends(operator, GivenFor::Writing, 6);
    let found = story.found();
    assert_eq!((found.watched.alarms, found.watched.legal), (0, 1));
}

#[test]
fn operators_of_several_threads_are_all_suspects() {
    let mut story = Story::new();
    let other = story.spool.lane(8);
    story.watch(1, CPU, 0, 5);
    story.moment(other, WatchSource::Aten, Phase::Start, 50, "theirs").look(other, 1, GivenFor::Nothing, 5);
    story.operator("mine", GivenFor::Nothing, (5, 6));
    story.moment(other, WatchSource::Aten, Phase::End, 50, "").look(other, 1, GivenFor::Nothing, 6);
    let found = story.found();
    let mut during = found.during();
    during[0].sort();
    assert_eq!(during, [["mine#1", "theirs#1"]]);
}

#[test]
fn an_operator_left_by_an_exception_is_no_suspect_for_ever() {
    let mut story = Story::new();
    story.watch(1, CPU, 0, 5);
    let outer = story.begins("outer", GivenFor::Nothing, 5);
    story.begins("left", GivenFor::Writing, 5);
    story.ends(outer, GivenFor::Nothing, 5);
    story.operator("next", GivenFor::Nothing, (5, 6));
    assert_eq!(story.found().during(), [["next#1"]]);
}

#[test]
fn what_runs_later_than_it_is_launched_is_a_range() {
    for (device, flags, exact) in [(NPU, 0, false), (NPU, BLOCKING, true), (CPU, 0, true)] {
        let mut story = Story::new();
        story.watch(1, device, flags, 5);
        for name in ["a", "b", "c"] {
            story.operator(name, GivenFor::Nothing, (5, if name == "c" { 6 } else { 5 }));
        }
        let found = story.found();
        let change = &found.watched.changes[0];
        assert_eq!((change.exact, change.operators_since), (exact, 3));
        assert_eq!(found.calls(&change.since), ["a#1"]);
    }
}

#[test]
fn a_watch_ends_with_its_block_and_what_comes_later_is_another_blocks() {
    let mut story = Story::new();
    let lane = story.lane;
    story.spool.device_alloc(lane, 1, Space::PtaCaching, 0, ADDRESS - 0x100, SIZE + 0x200, 0, 0);
    story.watch(1, NPU, 0, 5).operator("a", GivenFor::Nothing, (5, 5));
    story.ticks += 10;
    story.spool.device_free(lane, story.ticks, Space::PtaCaching, ADDRESS - 0x100, 0);
    story.operator("b", GivenFor::Nothing, (9, 10));
    let found = story.found();
    assert_eq!((found.watched.alarms, found.watched.looks), (0, 2));
    assert_eq!(found.watched.ended.map(|(reason, _)| reason), Some(WatchEnding::Freed));
}

#[test]
fn the_blocks_beside_are_told_alive_or_freed() {
    let mut story = Story::new();
    let lane = story.lane;
    let mut block = |ticks, address| {
        story.spool.device_alloc(lane, ticks, Space::PtaCaching, 0, address, SIZE, 0, 0);
    };
    block(1, ADDRESS);
    block(2, ADDRESS - SIZE);
    block(3, ADDRESS - 2 * SIZE);
    block(4, ADDRESS + SIZE);
    block(5, ADDRESS + 2 * SIZE);
    story.watch(1, NPU, 0, 5);
    story.ticks += 10;
    story.spool.device_free(lane, story.ticks, Space::PtaCaching, ADDRESS + SIZE, 0);
    story.operator("a", GivenFor::Nothing, (5, 6));
    let found = story.found();
    let neighbours = &found.watched.changes[0].neighbours;
    let place = |found: &Option<memscope_analysis::watch::Neighbour>| {
        found.map(|found| (found.address + 2 * SIZE - ADDRESS, found.distance, found.freed.is_some()))
    };
    assert_eq!(place(&neighbours.before), Some((SIZE, 0, false)));
    assert_eq!(place(&neighbours.behind), Some((4 * SIZE, SIZE, false)));
    assert_eq!((place(&neighbours.freed_before), place(&neighbours.freed_behind)), (None, Some((3 * SIZE, 0, true))));
}

proptest! {
    /// Operators one after the other, each with what it may do and whether it, or the program before it, writes.
    #[test]
    fn exactly_the_writes_of_others_are_alarms(
        steps in proptest::collection::vec((0..4u8, any::<bool>(), proptest::bool::weighted(0.2)), 0..60),
    ) {
        let mut story = Story::new();
        story.watch(1, CPU, 0, 0);
        let (mut content, mut expected, mut doubtful) = (0, Vec::new(), 0);
        for (number, (given, writes, host_writes)) in (1u64..).zip(steps) {
            let given = GivenFor::from_code(given).unwrap();
            content += u64::from(host_writes);
            if host_writes {
                expected.push(Vec::new());
            }
            let before = content;
            content += u64::from(writes);
            match given {
                GivenFor::Nothing | GivenFor::Reading if writes => expected.push(vec![format!("op#{number}")]),
                GivenFor::Unknown if writes => doubtful += 1,
                _ => {}
            }
            story.operator("op", given, (before, content));
        }
        let found = story.found();
        prop_assert_eq!((found.watched.alarms, found.watched.doubtful), (expected.len() as u64, doubtful));
        expected.truncate(32);
        prop_assert_eq!(found.during(), expected);
    }
}

/// An operator that is given the block, and whether what it holds changes while the operator is at work.
fn tell(story: &mut Story, steps: &[(&str, GivenFor, bool)]) {
    let mut content = 5;
    for &(name, given, changes) in steps {
        let before = content;
        content += u64::from(changes);
        story.operator(name, given, (before, content));
    }
}

#[test]
fn a_change_that_comes_late_may_be_its_owners_and_is_told() {
    // The owner's kernel is in a queue, and runs when the next operator is at work; the last change cannot be the owner's.
    let steps = [
        ("first", GivenFor::Nothing, false),
        ("owner", GivenFor::Writing, false),
        ("next", GivenFor::Nothing, true),
        ("other", GivenFor::Nothing, true),
    ];
    let mut story = Story::new();
    story.watch(1, NPU, 0, 5);
    tell(&mut story, &steps);
    let found = story.found();
    assert_eq!((found.watched.legal, found.watched.doubtful, found.watched.alarms), (0, 1, 1));
    assert_eq!(found.doubts(), [(Doubt::Late, "owner#1".to_owned(), 1)]);
    let change = &found.watched.doubts[0].change;
    assert_eq!(
        (found.calls(&change.during), found.calls(&change.since)),
        (vec!["next#1".into()], vec!["first#1".into()])
    );
    assert_eq!((change.exact, change.operators_since), (false, 3));
    assert_eq!(found.during(), [["other#1"]]);
    // Where launches wait for their end it cannot be.
    let mut story = Story::new();
    story.watch(1, NPU, BLOCKING, 5);
    tell(&mut story, &steps);
    let found = story.found();
    assert_eq!((found.watched.doubtful, found.during()), (0, vec![vec!["next#1".into()], vec!["other#1".into()]]));
}

#[test]
fn changes_of_owners_that_all_come_late_are_no_alarm() {
    // Each is seen while the next owner, or somebody else, is at work.
    let mut story = Story::new();
    story.watch(1, NPU, 0, 5);
    let owner = |changes| ("owner", GivenFor::Writing, changes);
    tell(&mut story, &[owner(false), owner(true), owner(true), ("other", GivenFor::Nothing, true)]);
    let found = story.found();
    assert_eq!((found.watched.legal, found.watched.doubtful, found.watched.alarms), (2, 1, 0));
    assert!(found.watched.is_late);
}

#[test]
fn the_range_of_a_late_change_begins_with_the_last_owner_that_was_seen_to_change_the_block() {
    let mut story = Story::new();
    story.watch(1, NPU, 0, 5);
    let none = |name, changes| (name, GivenFor::Nothing, changes);
    tell(&mut story, &[none("a", false), ("owner", GivenFor::Writing, true), none("b", true), none("c", true)]);
    let found = story.found();
    assert_eq!(found.during(), [["b#1"], ["c#1"]]);
    // The second of them may still be of the first's time.
    for (change, operators) in found.watched.changes.iter().zip([2, 3]) {
        assert_eq!((found.calls(&change.since), change.operators_since), (vec!["owner#1".to_owned()], operators));
    }
}

#[test]
fn looks_that_a_capture_forbade_are_counted() {
    let mut story = Story::new();
    story.watch(1, NPU, BLOCKING, 5);
    for value in [1, 2] {
        story.tell(&Extended::WatchProblem { problem: WatchTrouble::Captured, value });
    }
    let (report, _) = story.report();
    assert_eq!((report.not_looked, report.problems.len()), (3, 0));
}

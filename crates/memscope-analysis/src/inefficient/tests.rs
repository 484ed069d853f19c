//! Each rule and its boundaries.
mod plain;
mod streams;

use super::*;
use memscope_model::{
    AccessMode, AtbOperator, Circumstances, DevAddr, Ledger, Name, NewBlock, OldBlock, Origin, TensorOwner,
};

/// What a made-up program does; blocks go by their slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Do {
    /// What operators the thread begins from here on are on this stream, 0 for one that is not known.
    On(u32, u64),
    /// An operator of Aten begins.
    Start(u32, &'static str),
    End(u32, &'static str),
    Malloc(u32, u64, u64),
    Free(u32, u64),
    /// So many bytes behind the beginning of the block.
    Access(u32, u64, u64),
}
use Do::{Access as Use, End, Free, Malloc, On, Start};

const SLOT: u64 = 0x10000;
const DEVICE: Device = Device::Npu(0);

struct Played {
    tally: InefficiencyTally,
    ledger: Ledger,
    /// By thread.
    streams: FxHashMap<u32, Option<StreamHandle>>,
}

impl Played {
    fn new(settings: InefficiencySettings) -> Played {
        let streams = FxHashMap::default();
        Played { tally: InefficiencyTally::annotating(settings), ledger: Ledger::new(), streams }
    }

    fn malloc(&mut self, time: u64, thread: u32, device: Device, pool: Pool, slot: u64, size: u64) {
        let block = NewBlock {
            id: None,
            device,
            pool,
            origin: Origin::Region,
            address: slot * SLOT,
            size,
            owner: OwnerId::NONE,
            synthetic: false,
        };
        assert!(self.ledger.malloc(at(time, thread), block, &mut [&mut self.tally]).is_continue());
    }

    fn free(&mut self, time: u64, thread: u32, device: Device, pool: Pool, slot: u64, synthetic: bool) {
        let old = OldBlock { id: None, device, pool, address: slot * SLOT, synthetic };
        assert!(self.ledger.free(at(time, thread), old, &mut [&mut self.tally]).is_continue());
    }

    fn operator(&mut self, time: u64, thread: u32, device: Device, phase: Phase, name: &str) {
        let id = self.ledger.names.intern(name);
        let kind = NoteKind::AtenOperator { phase, name: Some(Name { id, text: name }), stream: self.stream(thread) };
        assert!(self.ledger.note(at(time, thread), device, kind, &mut [&mut self.tally]).is_continue());
    }

    fn atb_operator(&mut self, time: u64, thread: u32, phase: Phase, path: &str) {
        let id = self.ledger.names.intern(path);
        let name = Some(Name { id, text: path });
        let stream = self.stream(thread);
        let operator = AtbOperator { name, path: Some(path), workspace: DevAddr(0), workspace_size: 0, stream };
        let kind = NoteKind::AtbOperator { phase, operator };
        assert!(self.ledger.note(at(time, thread), DEVICE, kind, &mut [&mut self.tally]).is_continue());
    }

    fn stream(&self, thread: u32) -> Option<StreamHandle> {
        self.streams.get(&thread).copied().flatten()
    }

    fn access(&mut self, time: u64, thread: u32, address: u64) {
        let block = self.ledger.state().around(Device::Unknown, DevAddr(address));
        let access = Access {
            mode: AccessMode::Read,
            owner: TensorOwner::Aten,
            name: None,
            address: DevAddr(address),
            size: 1,
            block,
            dtype: 6,
            format: -1,
            dimensions: &[],
        };
        let device = block.map_or(DEVICE, |block| block.device);
        let kind = NoteKind::Access(access);
        assert!(self.ledger.note(at(time, thread), device, kind, &mut [&mut self.tally]).is_continue());
    }

    fn play(&mut self, steps: &[Do]) -> &mut Self {
        for (time, step) in (1u64..).zip(steps) {
            match *step {
                On(thread, stream) => drop(self.streams.insert(thread, StreamHandle::known(stream))),
                Start(thread, name) => self.operator(time, thread, DEVICE, Phase::Start, name),
                End(thread, name) => self.operator(time, thread, DEVICE, Phase::End, name),
                Malloc(thread, slot, size) => self.malloc(time, thread, DEVICE, Pool::PtaCaching, slot, size),
                Free(thread, slot) => self.free(time, thread, DEVICE, Pool::PtaCaching, slot, false),
                Use(thread, slot, offset) => self.access(time, thread, slot * SLOT + offset),
            }
        }
        self
    }

    /// What was found of each block, in the order of the blocks.
    fn found(&mut self) -> Vec<(u64, Vec<&'static str>)> {
        let annotations = self.tally.take_annotations();
        let mut found: Vec<_> = annotations.iter().map(|(block, found)| (block.0, found.words().collect())).collect();
        found.sort_unstable();
        found
    }
}

fn at(time: u64, thread: u32) -> Circumstances {
    Circumstances { time: TimestampNs(time), thread, stack: StackId::NONE }
}

fn found(steps: &[Do]) -> Vec<(u64, Vec<&'static str>)> {
    Played::new(InefficiencySettings::default()).play(steps).found()
}

fn found_with(idle_threshold: u64, steps: &[Do]) -> Vec<(u64, Vec<&'static str>)> {
    Played::new(InefficiencySettings { idle_threshold, ..InefficiencySettings::default() }).play(steps).found()
}

const EARLY: &str = "early_allocation";
const LATE: &str = "late_deallocation";
const IDLE: &str = "temporary_idleness";

/// An operator with nothing in it.
const fn other(thread: u32) -> [Do; 2] {
    [Start(thread, "other"), End(thread, "other")]
}

fn joined(parts: &[&[Do]]) -> Vec<Do> {
    parts.concat()
}

#[test]
fn a_block_is_early_if_another_operator_frees_another_block_before_its_first_access() {
    let before = [Malloc(1, 1, 10), Start(1, "empty"), Malloc(1, 2, 20), End(1, "empty")];
    let access = [Start(1, "add"), Use(1, 2, 0), End(1, "add")];
    let free_in_another = [Start(1, "drop"), Free(1, 1), End(1, "drop")];
    assert_eq!(found(&joined(&[&before, &free_in_another, &access])), [(2, vec![EARLY])]);
    // A free outside of all operators counts as one of its own.
    assert_eq!(found(&joined(&[&before, &[Free(1, 1)], &access])), [(2, vec![EARLY])]);
    // A free in the operator that allocates or accesses it is not in another.
    let in_first = [Malloc(1, 1, 10), Start(1, "empty"), Malloc(1, 2, 20), Free(1, 1), End(1, "empty")];
    assert_eq!(found(&joined(&[&in_first, &other(1), &access])), []);
    assert_eq!(found(&joined(&[&before, &[Start(1, "add"), Free(1, 1), Use(1, 2, 0), End(1, "add")]])), []);
    // Nothing was freed, or before it was allocated.
    assert_eq!(found(&joined(&[&before, &other(1), &access])), []);
    let freed_before = [Malloc(1, 1, 10), Free(1, 1), Malloc(1, 2, 20)];
    assert_eq!(found(&joined(&[&freed_before, &access])), []);
}

#[test]
fn a_block_that_its_own_operator_writes_is_not_early_however_late_it_is_read() {
    let steps = [
        Malloc(1, 1, 10),
        Start(1, "zeros"),
        Malloc(1, 2, 20),
        Use(1, 2, 0),
        End(1, "zeros"),
        Free(1, 1),
        Start(1, "add"),
        Use(1, 2, 0),
        End(1, "add"),
    ];
    assert_eq!(found(&steps), []);
}

#[test]
fn a_block_is_late_if_another_operator_allocates_another_block_after_its_last_access() {
    let before = [Malloc(1, 1, 10), Start(1, "add"), Use(1, 1, 0), End(1, "add")];
    let malloc_in_another = [Start(1, "empty"), Malloc(1, 2, 20), End(1, "empty")];
    assert_eq!(found(&joined(&[&before, &malloc_in_another, &[Free(1, 1)]])), [(1, vec![LATE])]);
    assert_eq!(found(&joined(&[&before, &[Malloc(1, 2, 20)], &[Free(1, 1)]])), [(1, vec![LATE])]);
    // An allocation in the operator of the last access or of the free is not in another.
    let in_last = [Malloc(1, 1, 10), Start(1, "add"), Use(1, 1, 0), Malloc(1, 2, 20), End(1, "add"), Free(1, 1)];
    assert_eq!(found(&in_last), []);
    let in_free = [Start(1, "resize"), Malloc(1, 2, 20), Free(1, 1), End(1, "resize")];
    assert_eq!(found(&joined(&[&before, &in_free])), []);
    // An access after the allocation makes up for it.
    let again = [Start(1, "mul"), Use(1, 1, 0), End(1, "mul"), Free(1, 1)];
    assert_eq!(found(&joined(&[&before, &malloc_in_another, &again])), []);
    assert_eq!(found(&joined(&[&before, &other(1), &[Free(1, 1)]])), []);
}

#[test]
fn a_block_is_idle_if_more_operators_than_the_threshold_are_between_two_accesses() {
    let access: &[Do] = &[Start(1, "add"), Use(1, 1, 0), End(1, "add")];
    let between = |count: usize| {
        let others: Vec<Do> = (0..count).flat_map(|_| other(1)).collect();
        found_with(3, &joined(&[&[Malloc(1, 1, 10)], access, &others, access]))
    };
    assert_eq!((between(3), between(4)), (vec![], vec![(1, vec![IDLE])]));
    // Events outside of operators are no operators.
    let lone: Vec<Do> = (2..20).flat_map(|slot| [Malloc(1, slot, 1), Free(1, slot)]).collect();
    assert_eq!(found_with(3, &joined(&[&[Malloc(1, 1, 10)], access, &lone, access])), []);
    // Neither are those inside another.
    let mut nested = vec![Start(1, "outer")];
    nested.extend((0..20).flat_map(|_| other(1)));
    nested.push(End(1, "outer"));
    assert_eq!(found_with(3, &joined(&[&[Malloc(1, 1, 10)], access, &nested, access])), []);
    // The time before the first access is another matter.
    let others: Vec<Do> = (0..9).flat_map(|_| other(1)).collect();
    assert_eq!(found_with(3, &joined(&[&[Malloc(1, 1, 10)], &others, access, &others, &[Free(1, 1)]])), []);
}

#[test]
fn an_access_outside_of_all_operators_is_one_of_its_own() {
    let others: Vec<Do> = (0..4).flat_map(|_| other(1)).collect();
    let steps = joined(&[&[Malloc(1, 1, 10), Use(1, 1, 0)], &others, &[Use(1, 1, 0)]]);
    assert_eq!((found_with(3, &steps), found_with(4, &steps)), (vec![(1, vec![IDLE])], vec![]));
    let early = [Malloc(1, 1, 10), Malloc(1, 2, 10), Free(1, 1), Use(1, 2, 0)];
    assert_eq!(found(&early), [(2, vec![EARLY])]);
}

#[test]
fn what_an_operator_does_inside_another_is_the_outermost_ones_doing() {
    // linear allocates, its addmm frees, another of its operators accesses: all one operator.
    let steps = [
        Malloc(1, 1, 10),
        Start(1, "linear"),
        Start(1, "empty"),
        Malloc(1, 2, 20),
        End(1, "empty"),
        Start(1, "addmm"),
        Free(1, 1),
        End(1, "addmm"),
        Start(1, "copy_"),
        Use(1, 2, 0),
        End(1, "copy_"),
        End(1, "linear"),
    ];
    assert_eq!(found(&steps), []);
    let report = Played::new(InefficiencySettings::default()).play(&steps).tally.report();
    assert_eq!((report.operators, report.accesses), (1, 1));
}

#[test]
fn threads_have_operators_of_their_own() {
    // The free is thread 2's while thread 1 is within the operator that allocates and then accesses.
    let within = [Malloc(2, 1, 10), Start(1, "add"), Malloc(1, 2, 20), Free(2, 1), Use(1, 2, 0), End(1, "add")];
    assert_eq!(found(&within), []);
    // Between two operators of thread 1 it counts, whichever thread it is.
    let between = [
        Malloc(2, 1, 10),
        Start(1, "empty"),
        Malloc(1, 2, 20),
        End(1, "empty"),
        Start(2, "drop"),
        Free(2, 1),
        End(2, "drop"),
        Start(1, "add"),
        Use(1, 2, 0),
        End(1, "add"),
    ];
    assert_eq!(found(&between), [(2, vec![EARLY])]);
    // Forward in one thread, backward in another: operators that began in the meantime count.
    let mut steps = vec![Malloc(1, 1, 10), Start(1, "add"), Use(1, 1, 0), End(1, "add"), Start(2, "backward")];
    steps.extend((0..4).flat_map(|_| other(1)));
    steps.extend([Use(2, 1, 0), End(2, "backward")]);
    assert_eq!((found_with(3, &steps), found_with(4, &steps)), (vec![(1, vec![IDLE])], vec![]));
}

#[test]
fn a_view_inside_a_block_is_an_access_of_it_and_a_block_at_the_same_address_is_another() {
    let view = [Malloc(1, 1, 10), Malloc(1, 2, 100), Free(1, 1), Start(1, "add"), Use(1, 2, 99), End(1, "add")];
    assert_eq!(found(&view), [(2, vec![EARLY])]);
    // The first block of slot 1 is accessed; the second, at its address, never is, and is freed at once.
    let again = [
        Malloc(1, 1, 10),
        Start(1, "add"),
        Use(1, 1, 0),
        End(1, "add"),
        Free(1, 1),
        Malloc(1, 1, 10),
        Malloc(1, 2, 10),
        Free(1, 1),
    ];
    assert_eq!(found(&again), []);
}

#[test]
fn a_block_that_is_never_accessed_or_freed_by_no_call_is_nothing_of_this() {
    let never = [Malloc(1, 1, 10), Malloc(1, 2, 10), Malloc(1, 3, 10), Free(1, 2), Free(1, 1)];
    assert_eq!(found(&never), []);
    let mut played = Played::new(InefficiencySettings::default());
    played.play(&[Malloc(1, 1, 10), Start(1, "add"), Use(1, 1, 0), End(1, "add"), Malloc(1, 2, 10)]);
    played.free(100, 1, DEVICE, Pool::PtaCaching, 1, true);
    assert_eq!(played.found(), []);
    // One that was there before the trace: only its free is seen.
    let mut played = Played::new(InefficiencySettings::default());
    played.free(1, 1, DEVICE, Pool::PtaCaching, 7, false);
    played.access(2, 1, 7 * SLOT);
    assert_eq!((played.found(), played.tally.report().accesses), (vec![], 0));
}

#[test]
fn pools_devices_and_the_host_are_apart() {
    let mut played = Played::new(InefficiencySettings { idle_threshold: 3, ..InefficiencySettings::default() });
    let (pta, other_device) = (Pool::PtaCaching, Device::Npu(1));
    played.malloc(1, 1, DEVICE, Pool::Atb, 1, 10);
    played.malloc(2, 1, other_device, pta, 2, 10);
    played.malloc(3, 1, DEVICE, pta, 3, 10);
    // Frees of another pool and of another device are no room for block 3.
    played.free(4, 1, DEVICE, Pool::Atb, 1, false);
    played.free(5, 1, other_device, pta, 2, false);
    played.access(6, 1, 3 * SLOT);
    // Operators on another device do not let it idle; those of nobody knows which may.
    for number in 0..10 {
        played.operator(7 + number, 1, other_device, Phase::Start, "other");
        played.operator(7 + number, 1, other_device, Phase::End, "other");
    }
    played.access(20, 1, 3 * SLOT);
    assert_eq!(played.tally.report().findings, []);
    for number in 0..4 {
        played.operator(21 + number, 1, Device::Unknown, Phase::Start, "other");
        played.operator(21 + number, 1, Device::Unknown, Phase::End, "other");
    }
    played.access(30, 1, 3 * SLOT);
    played.malloc(31, 1, Device::Cpu, Pool::Host, 4, 10);
    played.free(32, 1, Device::Cpu, Pool::Host, 4, false);
    assert_eq!(played.found(), [(3, vec![IDLE])]);
    assert!(played.tally.report().pools.iter().all(|pool| pool.device != Device::Cpu));
}

#[test]
fn tensors_of_the_host_are_held_for_nothing_too() {
    let mut played = Played::new(InefficiencySettings::default());
    let (cpu, pta) = (Device::Cpu, Pool::PtaCaching);
    played.malloc(1, 1, cpu, pta, 1, 10);
    played.malloc(2, 1, cpu, pta, 2, 10);
    played.operator(3, 1, cpu, Phase::Start, "frees");
    played.free(4, 1, cpu, pta, 2, false);
    played.operator(5, 1, cpu, Phase::End, "frees");
    played.operator(6, 1, cpu, Phase::Start, "uses");
    played.access(7, 1, SLOT);
    played.operator(8, 1, cpu, Phase::End, "uses");
    assert_eq!(played.found(), [(1, vec![EARLY])]);
}

#[test]
fn an_operator_that_was_left_by_an_exception_does_not_hold_the_rest() {
    let mut played = Played::new(InefficiencySettings::default());
    let pta = Pool::PtaCaching;
    played.malloc(1, 1, DEVICE, pta, 1, 10);
    played.atb_operator(2, 1, Phase::Start, "0_1/0/1_Graph");
    played.atb_operator(3, 1, Phase::Start, "0_1/0/1_Graph/0_Linear");
    // Neither ends; what comes next is outside of them, as its path says.
    played.atb_operator(4, 1, Phase::Start, "0_1/0/2_Graph");
    played.malloc(5, 1, DEVICE, pta, 2, 10);
    played.atb_operator(6, 1, Phase::End, "0_1/0/2_Graph");
    played.free(7, 1, DEVICE, pta, 1, false);
    played.atb_operator(8, 1, Phase::Start, "0_1/0/3_Graph");
    played.access(9, 1, 2 * SLOT);
    played.atb_operator(10, 1, Phase::End, "0_1/0/3_Graph");
    assert_eq!(played.tally.report().operators, 3);
    assert_eq!(played.found(), [(2, vec![EARLY])]);
    // One of Aten may end in another thread.
    let steps = [Start(1, "async"), End(2, "async"), Start(1, "add"), End(1, "add"), End(1, "none")];
    assert_eq!(Played::new(InefficiencySettings::default()).play(&steps).tally.report().operators, 2);
}

#[test]
fn settings_leave_out_small_blocks_and_kinds_that_were_not_asked_for() {
    let steps = [
        Malloc(1, 1, 10),
        Malloc(1, 2, 20),
        Free(1, 1),
        Start(1, "add"),
        Use(1, 2, 0),
        End(1, "add"),
        Malloc(1, 3, 1),
        Free(1, 2),
    ];
    let of = |least_bytes, kinds| {
        Played::new(InefficiencySettings { least_bytes, kinds, ..InefficiencySettings::default() }).play(&steps).found()
    };
    assert_eq!(of(0, Inefficiencies::ALL), [(2, vec![EARLY, LATE])]);
    assert_eq!(of(20, Inefficiencies::LATE_DEALLOCATION), [(2, vec![LATE])]);
    assert_eq!(of(21, Inefficiencies::ALL), []);
    assert_eq!(of(0, Inefficiencies::TEMPORARY_IDLENESS), []);
}

#[test]
fn findings_say_what_they_cost_and_what_of_it_was_held_at_the_peak() {
    // The second block is early over two operators, and so when the third makes the peak.
    let steps = [
        Malloc(1, 1, 10),
        Start(1, "empty"),
        Malloc(1, 2, 100),
        End(1, "empty"),
        Free(1, 1),
        Start(1, "relu"),
        Malloc(1, 3, 1000),
        End(1, "relu"),
        Start(1, "relu"),
        End(1, "relu"),
        Start(1, "add"),
        Use(1, 2, 0),
        End(1, "add"),
    ];
    let mut played = Played::new(InefficiencySettings::default());
    let report = played.play(&steps).tally.report();
    let name = |text: &str| played.ledger.names.clone().intern(text);
    let [found] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!((found.kind, found.blocks, found.times), (Inefficiencies::EARLY_ALLOCATION, 1, 1));
    assert_eq!((found.bytes, found.byte_operators, found.bytes_at_peak), (100, 200, 100));
    assert_eq!(found.operator, Some(name("empty")));
    let worst = found.worst;
    assert_eq!((worst.block, worst.operators, worst.address), (BlockId(2), 2, 2 * SLOT));
    assert_eq!((worst.from, worst.to), (Some(name("empty")), Some(name("add"))));
    let [pool] = report.pools[..] else { panic!("{report:?}") };
    assert_eq!((pool.peak_bytes, pool.bytes_at_peak, pool.peak_time), (1100, 100, TimestampNs(7)));
    // A higher peak, at which it is in use, begins from nothing.
    let report = played.play(&[Malloc(1, 4, 5000)]).tally.report();
    assert_eq!((report.pools[0].bytes_at_peak, report.findings[0].bytes_at_peak), (0, 0));
}

#[test]
fn findings_are_ranked_by_bytes_times_operators() {
    let mut steps = vec![Malloc(1, 9, 1)];
    for (name, slot, size) in [("small", 1, 10), ("large", 2, 1000), ("middle", 3, 100)] {
        steps.extend([Start(1, name), Malloc(1, slot, size), End(1, name)]);
    }
    steps.extend([Free(1, 9), Start(1, "add"), Use(1, 1, 0), Use(1, 2, 0), Use(1, 3, 0), End(1, "add")]);
    let report = Played::new(InefficiencySettings::default()).play(&steps).tally.report();
    let told: Vec<(u64, u64)> = report.findings.iter().map(|found| (found.worst.size, found.byte_operators)).collect();
    assert_eq!(told, [(1000, 1000), (10, 20), (100, 0)]);
}

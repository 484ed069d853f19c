//! Operators and kernels of ATB, accesses, and heaps.
use super::devices::notes;
use super::{record, replay};
use crate::{Access, Action, Device, NoteKind, Pool, Process, TraceEvent};
use memscope_format::layout::{PROCESS_HEADER_SIZE, WINDOW_HEADER_SIZE, WINDOWS_FILE};
use memscope_testkit::{AccessMode, EPOCH, Phase, Space, SpoolBuilder, SystemKind, TensorOwner, UNKNOWN_DEVICE};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What a test says of an access: time, device, name, block and where it begins.
type Brief = (u64, Device, Option<String>, Option<(u64, u64)>);

fn accesses(process: &mut Process) -> Vec<Brief> {
    let mut found = Vec::new();
    let mut visit = |event: &TraceEvent<'_>, _: &crate::State<'_>| {
        if let TraceEvent::Note(note) = event
            && let NoteKind::Access(Access { name, block, .. }) = note.kind
        {
            let block = block.map(|block| (block.block.0, block.address.0));
            found.push((note.at.time.since(EPOCH), note.device, name.map(|name| name.text.to_owned()), block));
        }
        ControlFlow::Continue(())
    };
    process.trace(&mut visit, &mut |_| {}).unwrap();
    found
}

#[test]
fn an_operator_ends_with_the_words_of_its_start_and_its_kernel_is_named_by_its_path() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(7);
    spool.operator_start(lane, 1, 10, 2, (0x5000, 64), "0_9/0/1_Graph", "Graph", 0);
    spool.operator_start(lane, 2, 11, 2, (0x5040, 32), "0_9/0/1_Graph/0_Linear", "Linear", 0);
    spool.kernel(lane, 3, Phase::Start, 2, "0_9/0/1_Graph/0_Linear/0_MatMul/before");
    // A block ends here: the next path cannot be told by what it has in common with the last.
    spool.end_generation(lane).kernel(lane, 4, Phase::End, 2, "0_9/0/1_Graph/0_Linear/0_MatMul/after");
    spool.operator_end(lane, 5, 11).operator_end(lane, 6, 10).operator_end(lane, 7, 10);
    let graph = "operator: AtbOperator { name: Some(\"Graph\"), path: Some(\"0_9/0/1_Graph\"), \
                 workspace: DevAddr(20480), workspace_size: 64, stream: None } }";
    let linear = "operator: AtbOperator { name: Some(\"Linear\"), path: Some(\"0_9/0/1_Graph/0_Linear\"), \
                  workspace: DevAddr(20544), workspace_size: 32, stream: None } }";
    let kernel = |phase, end| {
        format!(
            "AtbKernel {{ phase: {phase}, name: Some(\"0_MatMul\"), path: Some(\"0_9/0/1_Graph/0_Linear/0_MatMul/{end}\") }}"
        )
    };
    let expected = [
        format!("1 2 AtbOperator {{ phase: Start, {graph} true"),
        format!("2 2 AtbOperator {{ phase: Start, {linear} true"),
        format!("3 2 {} true", kernel("Start", "before")),
        format!("4 2 {} true", kernel("End", "after")),
        format!("5 2 AtbOperator {{ phase: End, {linear} true"),
        format!("6 2 AtbOperator {{ phase: End, {graph} true"),
    ];
    assert_eq!(notes(&mut record(&mut spool).process), expected);
}

#[test]
fn what_atb_did_not_tell_is_missing_and_the_rest_is_there() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.operator_start(lane, 1, 1, 0, (0, 0), "", "", 0).operator_start(lane, 2, 2, 0, (0, 0), "dir", "", 0);
    spool.operator_start(lane, 3, 3, 0, (0, 0), "", "name", 0);
    let told = notes(&mut record(&mut spool).process);
    assert!(told[0].contains("name: None, path: None,"), "{told:?}");
    assert!(told[1].contains("name: None, path: Some(\"dir\"),"), "{told:?}");
    assert!(told[2].contains("name: Some(\"name\"), path: None,"), "{told:?}");
}

#[test]
fn an_operator_is_on_the_device_the_program_named_or_else_its_threads() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.visible_devices(lane, "4,6").operator_start(lane, 1, 1, 1, (0, 0), "a", "a", 0);
    spool.system(other, 2, SystemKind::SetDevice, 0);
    spool.operator_start(other, 3, 2, UNKNOWN_DEVICE, (0, 0), "b", "b", 0).operator_end(other, 4, 2);
    let told = notes(&mut record(&mut spool).process);
    let devices: Vec<&str> = told.iter().filter_map(|note| note.split(' ').nth(1)).collect();
    assert_eq!(devices, ["6", "4", "4"]);
}

#[test]
fn operators_of_devices_and_steps_that_were_not_asked_for_are_not_chosen() {
    let mut spool = SpoolBuilder::new();
    spool.config("npu=2;steps=1;dir=/tmp");
    let lane = spool.lane(1);
    spool.operator_start(lane, 1, 1, 0, (0, 0), "a", "a", 0).operator_end(lane, 2, 1);
    spool.operator_start(lane, 3, 2, 1, (0, 0), "b", "b", 0).operator_end(lane, 4, 2);
    spool.range_start(lane, 5, 1, "step start").kernel(lane, 6, Phase::Start, 1, "k/before").range_end(lane, 7, 1);
    let told = notes(&mut record(&mut spool).process);
    let chosen: Vec<bool> = told.iter().map(|note| note.ends_with("true")).collect();
    // The two of device 1 outside the step; then the step, the kernel in it, and its end.
    assert_eq!(chosen, [false, false, true, true, true], "{told:?}");
}

#[test]
fn an_access_is_to_the_smallest_block_around_its_address_on_its_device() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    let (read, operator, kernel) = (AccessMode::Unknown, TensorOwner::AtbOperator, TensorOwner::AtbKernel);
    spool.device_alloc(lane, 1, Space::Driver, 0, 0x1000, 0x10000, 0, 0);
    spool.region(lane, 2, Space::PtaCaching, 0, 0x2000, 0x1000).region(lane, 3, Space::Atb, 0, 0x2800, 0x100);
    spool.device_alloc(lane, 4, Space::DriverHandle, 0, 0x2810, 0x10, 0, 0);
    spool.region(lane, 5, Space::MindSpore, 1, 0x2800, 0x10);
    spool.operator_start(lane, 6, 1, 0, (0, 0), "1_Add", "Add", 0);
    for (ticks, address) in [(7, 0x1000), (8, 0x2000), (9, 0x2810), (10, 0x2900), (11, 0x3000), (12, 0x11000)] {
        spool.access(lane, ticks, read, operator, 0, (address, 16), &[2, 4]);
    }
    spool.kernel(lane, 13, Phase::Start, 0, "1_Add/0_AddKernel/before");
    spool.access(lane, 14, AccessMode::Write, kernel, 1, (0x2808, 8), &[]);
    spool.device_free(lane, 15, Space::Atb, 0x2800, 0).access(lane, 16, read, kernel, 0, (0x2810, 8), &[]);
    spool.access(lane, 17, read, kernel, UNKNOWN_DEVICE, (0x2808, 8), &[]);
    let (zero, one) = (Device::Npu(0), Device::Npu(1));
    let (add, of_kernel) = (Some("Add".to_owned()), Some("0_AddKernel".to_owned()));
    let expected = [
        (7, zero, add.clone(), Some((1, 0x1000))),
        (8, zero, add.clone(), Some((2, 0x2000))),
        (9, zero, add.clone(), Some((3, 0x2800))),
        (10, zero, add.clone(), Some((2, 0x2000))),
        (11, zero, add.clone(), Some((1, 0x1000))),
        (12, zero, add, None),
        (14, one, of_kernel.clone(), Some((5, 0x2800))),
        (16, zero, of_kernel.clone(), Some((2, 0x2000))),
        // Of no device: the smallest of all, and its device.
        (17, one, of_kernel, Some((5, 0x2800))),
    ];
    assert_eq!(accesses(&mut record(&mut spool).process), expected);
}

#[test]
fn an_access_is_by_the_operator_of_its_own_thread() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(1), spool.lane(2));
    spool.operator_start(lane, 1, 1, 0, (0, 0), "1_Add", "Add", 0);
    spool.operator_start(other, 2, 2, 0, (0, 0), "2_Mul", "Mul", 0).operator_end(other, 4, 2);
    spool.access(lane, 3, AccessMode::Write, TensorOwner::AtbOperator, 0, (0x10, 1), &[]);
    let names: Vec<_> = accesses(&mut record(&mut spool).process).into_iter().map(|(_, _, name, _)| name).collect();
    assert_eq!(names, [Some("Add".to_owned())]);
}

#[test]
fn a_heap_that_is_given_up_is_no_longer_reserved_and_takes_its_regions_along() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.heap(lane, 1, Space::Atb, 0, 0x1000, 0x1000).region(lane, 2, Space::Atb, 0, 0x1000, 0x100);
    spool.heap(lane, 3, Space::Atb, 0, 0x5000, 0x200).region(lane, 4, Space::Atb, 0, 0x1f00, 0x100);
    spool.region(lane, 5, Space::Atb, 0, 0x5000, 0x80).device_free(lane, 6, Space::Atb, 0x1000, 0);
    spool.heap_end(lane, 7, Space::Atb, 0x1000).heap_end(lane, 8, Space::Atb, 0x1000);
    spool.region(lane, 9, Space::Atb, 0, 0x5080, 0x80);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let told: Vec<_> =
        events.iter().map(|event| (event.action, event.block.address, event.used, event.reserved)).collect();
    let expected = [
        (Action::Malloc, 0x1000, 0x100, Some(0x1000)),
        (Action::Malloc, 0x1f00, 0x200, Some(0x1200)),
        (Action::Malloc, 0x5000, 0x280, Some(0x1200)),
        (Action::Free, 0x1000, 0x180, Some(0x1200)),
        (Action::Free, 0x1f00, 0x80, Some(0x200)),
        (Action::Malloc, 0x5080, 0x100, Some(0x200)),
    ];
    assert_eq!(told, expected);
    let usage = outcome.pools[0];
    assert_eq!((usage.reserved_bytes, usage.peak_reserved_bytes), (Some(0x200), Some(0x1200)));
    assert_eq!(outcome.unmatched_frees, 0);
}

#[test]
fn a_heap_told_twice_is_counted_once_and_one_that_cannot_be_is_not() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.heap(lane, 1, Space::Atb, 0, 0x1000, 100).heap(lane, 2, Space::Atb, 0, 0x1000, 300);
    spool.heap(lane, 3, Space::Atb, 0, 0x9000, u64::MAX).heap(lane, 4, Space::Atb, 1, 0x2000, 7);
    let (_, outcome) = replay(&mut record(&mut spool).process);
    let reserved: Vec<_> = outcome.pools.iter().map(|usage| usage.reserved_bytes).collect();
    assert_eq!((reserved, outcome.implausible_events), (vec![Some(300), Some(7)], 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(128)))]

    #[test]
    fn what_is_reserved_is_the_sum_of_the_heaps_that_are_there(
        steps in proptest::collection::vec((0u32..2, 0u64..6, proptest::option::of(1u64..1 << 30)), 0..80),
    ) {
        let mut spool = SpoolBuilder::new();
        let lane = spool.lane(1);
        let mut heaps: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        let mut seen = [false; 2];
        for (ticks, (device, slot, size)) in (1..).zip(&steps) {
            let address = slot << 32;
            match size {
                Some(size) => {
                    spool.heap(lane, ticks, Space::Atb, *device, address, *size);
                    heaps.insert(address, (*device, *size));
                    seen[*device as usize] = true;
                }
                None => {
                    spool.heap_end(lane, ticks, Space::Atb, address);
                    heaps.remove(&address);
                }
            }
        }
        let (_, outcome) = replay(&mut record(&mut spool).process);
        for device in 0..2u32 {
            let sum = heaps.values().filter(|(of, _)| *of == device).map(|(_, size)| size).sum::<u64>();
            let usage = outcome.pools.iter().find(|usage| usage.device == Device::Npu(device as u16));
            let expected = seen[device as usize].then_some(sum);
            prop_assert_eq!(usage.and_then(|usage| usage.reserved_bytes), expected);
            prop_assert!(usage.is_none_or(|usage| usage.pool == Pool::Atb));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(256)))]

    #[test]
    fn harmed_operators_end_in_books_that_agree(
        harms in proptest::collection::vec((0usize..900, any::<u8>()), 1..6),
    ) {
        let mut spool = SpoolBuilder::new();
        let lane = spool.lane(1);
        for number in 1..8u64 {
            let (ticks, address) = (number * 10, 0x12c0_0000_0000 + (number << 12));
            spool.heap(lane, ticks, Space::Atb, 0, address, 4096).region(lane, ticks, Space::Atb, 0, address, 512);
            spool.operator_start(lane, ticks, number, 0, (address, 512), &format!("0_1/{number}/7_Add"), "Add", 0);
            let (write, operator) = (AccessMode::Write, TensorOwner::AtbOperator);
            spool.access(lane, ticks, write, operator, 0, (address + 8, 24), &[2, 3, -1]);
            spool.kernel(lane, ticks, Phase::Start, 0, "0_1/7_Add/0_AddKernel/before").operator_end(lane, ticks, number);
            spool.heap_end(lane, ticks, Space::Atb, address);
        }
        let directory = tempfile::tempdir().unwrap();
        spool.write(directory.path()).unwrap();
        let path = directory.path().join("spool").join(WINDOWS_FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, value) in harms {
            bytes[PROCESS_HEADER_SIZE + WINDOW_HEADER_SIZE + at] = value;
        }
        std::fs::write(path, bytes).unwrap();
        let mut process = Process::open(directory.path()).unwrap();
        replay(&mut process);
        let told = notes(&mut process);
        // No record is shorter than five bytes.
        prop_assert!(told.len() <= 1000 / 5, "{told:?}");
    }
}

#[test]
fn an_operator_of_aten_ends_with_its_name_also_in_another_thread_and_one_may_be_inside_another() {
    let mut spool = SpoolBuilder::new();
    let (lane, other) = (spool.lane(7), spool.lane(8));
    spool.aten_name(lane, 3, "aten::linear").aten_name(lane, 4, "aten::addmm");
    spool.aten_start(lane, 1, 10, 0, 3, 0).aten_start(lane, 2, 11, 0, 4, 0).aten_end(lane, 3, 11);
    // Its start, and the name of its number, are in the other lane.
    spool.end_generation(lane).aten_end(other, 4, 10).aten_end(other, 5, 99).aten_start(other, 6, 12, 0, 3, 0);
    let told = notes(&mut record(&mut spool).process);
    let operator =
        |phase, name: Option<&str>| format!("AtenOperator {{ phase: {phase}, name: {name:?}, stream: None }} true");
    let expected = [
        format!("1 0 {}", operator("Start", Some("aten::linear"))),
        format!("2 0 {}", operator("Start", Some("aten::addmm"))),
        format!("3 0 {}", operator("End", Some("aten::addmm"))),
        format!("4 0 {}", operator("End", Some("aten::linear"))),
        format!("6 0 {}", operator("Start", None)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_operator_is_on_the_stream_its_lane_told_last_and_ends_on_it() {
    let mut spool = SpoolBuilder::new();
    spool.config("cpu=1;npu=ffffffff;level=1;events=15;dir=/a");
    let (lane, other) = (spool.lane(7), spool.lane(8));
    spool.aten_name(lane, 0, "aten::add").aten_start(lane, 1, 1, 0, 0, 0).stream(lane, 0x700);
    spool.operator_start(lane, 2, 1, 0, (0x5000, 64), "0_9/0/1_Graph", "Graph", 0).stream(lane, 0x800);
    // Another lane has told nothing yet; one that is told no more is not known.
    spool.end_generation(lane).aten_start(lane, 3, 2, 0, 0, 0).aten_start(other, 4, 3, 0, 0, 0).stream(lane, 0);
    spool.aten_start(lane, 5, 4, 0, 0, 0).stream(lane, 0x900);
    for (ticks, sequence) in [(6, 4), (7, 3), (8, 2)] {
        spool.aten_end(lane, ticks, sequence);
    }
    spool.operator_end(lane, 9, 1).aten_end(lane, 10, 1).aten_start(lane, 11, 5, memscope_testkit::HOST_DEVICE, 0, 0);
    let told = notes(&mut record(&mut spool).process);
    let stream = |note: &String| {
        let behind = note.split("stream: ").nth(1).unwrap_or_default();
        behind.split([' ', ',']).next().unwrap_or_default().to_owned()
    };
    let (first, second, none) = ("Some(StreamHandle(1792))", "Some(StreamHandle(2048))", "None");
    // The last is on the host, which has no streams.
    let expected = [none, first, second, none, none, none, none, second, first, none, none];
    assert_eq!(told.iter().map(stream).collect::<Vec<String>>(), expected);
}

#[test]
fn an_operator_of_aten_without_tensors_is_on_the_device_of_its_thread_or_else_on_the_host() {
    let devices = |config: &str| {
        let mut spool = SpoolBuilder::new();
        spool.config(config);
        let lane = spool.lane(1);
        spool.aten_name(lane, 0, "aten::zeros").aten_start(lane, 1, 1, UNKNOWN_DEVICE, 0, 0).aten_end(lane, 2, 1);
        spool
            .system(lane, 3, SystemKind::SetDevice, 3)
            .aten_start(lane, 4, 2, UNKNOWN_DEVICE, 0, 0)
            .aten_end(lane, 5, 2);
        let told = notes(&mut record(&mut spool).process);
        let device = |note: &String| note.split(' ').nth(1).unwrap_or_default().to_owned();
        told.iter().filter(|note| note.contains("AtenOperator")).map(device).collect::<Vec<String>>()
    };
    assert_eq!(devices("cpu=1;npu=ffffffff;level=1;events=15;dir=/a"), ["cpu", "cpu", "3", "3"]);
    assert_eq!(devices("cpu=0;npu=ffffffff;level=1;events=15;dir=/a"), ["N/A", "N/A", "3", "3"]);
}

#[test]
fn a_tensor_of_torch_is_in_the_block_of_its_storage_also_on_the_host() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    spool.aten_name(lane, 0, "aten::add").alloc(lane, 1, 0x5000, 64, 0);
    spool.region(lane, 2, Space::PtaCaching, 0, 0x2000, 0x100).region(lane, 3, Space::PtaCaching, 0, 0x2100, 0x100);
    let read = AccessMode::Read;
    // A view of nothing at the end of its storage; one whose storage nobody knows; one of no block.
    spool.aten_access(lane, 4, read, 0, 0, (0x2100, 0), 0x2000, &[0]);
    spool.aten_access(lane, 5, read, 0, 0, (0x2180, 4), 0, &[1]).aten_access(lane, 6, read, 0, 0, (0x9000, 4), 0, &[1]);
    let host = memscope_testkit::HOST_DEVICE;
    spool.aten_access(lane, 7, read, 0, host, (0x5010, 4), 0x5000, &[1]);
    spool.aten_access(lane, 8, read, 0, host, (0x6010, 4), 0x6000, &[1]);
    let (zero, add) = (Device::Npu(0), Some("aten::add".to_owned()));
    let expected = [
        (4, zero, add.clone(), Some((2, 0x2000))),
        (5, zero, add.clone(), Some((3, 0x2100))),
        (6, zero, add.clone(), None),
        (7, Device::Cpu, add.clone(), Some((1, 0x5000))),
        (8, Device::Cpu, add, None),
    ];
    assert_eq!(accesses(&mut record(&mut spool).process), expected);
}

//! Records come back as they were written, and bytes that are none are refused.
use super::*;
use crate::encode::{self, Extended, MAX_EVENT};
use proptest::prelude::*;

fn event() -> impl Strategy<Value = (u64, StackRef, EventKind)> {
    let address = prop_oneof![any::<u64>(), (0u64..1 << 43).prop_map(|a| a << 4), Just(0u64)];
    let size = prop_oneof![0u64..300, any::<u64>(), 60_000u64..70_000];
    let kind = (address, size, 0..13u8).prop_map(|(address, size, which)| match which {
        0 => EventKind::HostAlloc { address, size },
        1 => EventKind::HostFree { address },
        2 => EventKind::HostMap { address, size, protection: Protection(size as u8) },
        12 => EventKind::HostProtect { address, size, protection: Protection(size as u8) },
        4 => EventKind::DeviceAlloc {
            space: Space::ALL[size as usize % 7],
            device: size as u32,
            address,
            size,
            attributes: address as u32,
        },
        5 => EventKind::DeviceFree { space: Space::ALL[size as usize % 7], address },
        6 => EventKind::OutOfMemory { space: Space::Driver, device: 3, size, flag: address },
        3 => EventKind::HostRemap { old: !address, old_size: size / 2, new: address, new_size: size },
        7 => EventKind::Heap { space: Space::ALL[size as usize % 7], device: size as u32, address, size },
        8 => EventKind::HeapEnd { space: Space::ALL[size as usize % 7], address },
        9 => EventKind::AtbOperatorEnd { launch: size },
        _ => EventKind::HostUnmap { address, size },
    });
    let wait = prop_oneof![0u64..300, 0u64..1 << 40];
    let part = || prop_oneof![Just(0u32), 1u32..5, any::<u32>()];
    let stack = (part(), part()).prop_map(|(c, python)| StackRef { c, python });
    (wait, stack, kind)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(events in proptest::collection::vec(event(), 0..200), base in 0u64..1 << 60) {
        let mut bytes = vec![0u8; events.len() * (MAX_EVENT + 90)];
        let mut last = Deltas::at(base);
        let mut at = 0;
        let mut ticks = base;
        let mut expected = Vec::new();
        for (wait, stack, kind) in &events {
            ticks += wait;
            let out = bytes[at..].as_mut_ptr();
            // SAFETY: the buffer holds the largest record for each event.
            let end = unsafe {
                match *kind {
                    EventKind::HostAlloc { address, size } => {
                        encode::host_alloc(out, &mut last, ticks, address, size, *stack)
                    }
                    EventKind::HostFree { address } => {
                        encode::host_free(out, &mut last, ticks, address, *stack)
                    }
                    EventKind::HostMap { address, size, protection } => {
                        let record = Extended::HostMap { address, size, protection, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::HostProtect { address, size, protection } => {
                        let record = Extended::HostProtect { address, size, protection, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::HostRemap { old, old_size, new, new_size } => {
                        let record = Extended::HostRemap { old, old_size, new, new_size, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::DeviceAlloc { space, device, address, size, attributes } => {
                        let record =
                            Extended::DeviceAlloc { space, device, address, size, attributes, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::DeviceFree { space, address } => {
                        let record = Extended::DeviceFree { space, address, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::OutOfMemory { space, device, size, flag } => {
                        let record = Extended::OutOfMemory { space, device, size, flag, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::HostUnmap { address, size } => {
                        let record = Extended::HostUnmap { address, size, stack: *stack };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::Heap { space, device, address, size } => {
                        let record = Extended::Heap { space, device, address, size };
                        encode::extended(out, &mut last, ticks, &record)
                    }
                    EventKind::HeapEnd { space, address } => {
                        encode::extended(out, &mut last, ticks, &Extended::HeapEnd { space, address })
                    }
                    EventKind::AtbOperatorEnd { launch } => {
                        encode::extended(out, &mut last, ticks, &Extended::AtbOperatorEnd { launch })
                    }
                    other => panic!("{other:?} is not generated"),
                }
            };
            at += end as usize - out as usize;
            let has_stack = !matches!(
                kind,
                EventKind::Heap { .. } | EventKind::HeapEnd { .. } | EventKind::AtbOperatorEnd { .. }
            );
            expected.push((ticks, if has_stack { *stack } else { StackRef::NONE }, *kind));
        }
        let mut last = Deltas::at(base);
        let mut rest = &bytes[..at];
        let mut decoded = Vec::new();
        while !rest.is_empty() {
            let (ticks, record, length) = read(rest, &mut last, &mut NodeDeltas::new()).unwrap();
            let Record::Event { stack, kind } = record else { panic!("{record:?}") };
            decoded.push((ticks, stack, kind));
            rest = &rest[length..];
        }
        prop_assert_eq!(decoded, expected);
    }

    #[test]
    fn any_bytes_end_in_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (mut last, mut last_node) = (Deltas::at(0), NodeDeltas::new());
        let mut rest = bytes.as_slice();
        while let Ok((_, _, length)) = read(rest, &mut last, &mut last_node) {
            prop_assert!(length > 0 && length <= rest.len());
            rest = &rest[length..];
        }
    }

    #[test]
    fn definitions_come_back(
        id in 1u32.., path in proptest::collection::vec(any::<u8>(), 0..5000),
        table in proptest::collection::vec(any::<u8>(), 0..60_000), numbers in any::<(u64, u64, u64)>(),
    ) {
        let name = &path[..path.len().min(4096)];
        let (start, end, bias) = numbers;
        let record = Extended::Module { id, start, end, bias, build_id: b"abc", path: &path };
        let read = Definition::Module { id, start, end, bias, build_id: b"abc", path: name };
        round_trip(&record, read)?;
        let (python_version, first_line, function) = (0x30b, 7, b"f".as_slice());
        let record =
            Extended::Code { id, python_version, first_line, file: &path, function, line_table: &table };
        let line_table = &table[..table.len().min(48 * 1024)];
        let read = Definition::Code { id, python_version, first_line, file: name, function, line_table };
        round_trip(&record, read)?;
    }

    /// Few modules, offsets and parents, so that frames come again below the same ones.
    #[test]
    fn nodes_come_back(nodes in proptest::collection::vec((1u32..4, 0u8..3, 0u32..5, node_frame()), 0..300)) {
        let mut bytes = vec![0u8; nodes.len() * encode::MAX_NODE];
        let mut last_node = NodeDeltas::new();
        let (mut id, mut at) = (0, 0);
        let mut expected = Vec::new();
        for (step, parent, distance, frame) in nodes {
            id += if distance == 0 { step } else { 1 };
            let parent = match parent { 0 => id - 1, 1 => 0, _ => id.saturating_sub(distance + 1) };
            let out = bytes[at..].as_mut_ptr();
            // SAFETY: the buffer holds the largest node for each.
            at += unsafe { encode::node(out, &mut last_node, id, parent, frame) } as usize - out as usize;
            expected.push(Record::Definition(Definition::Node { id, parent, frame }));
        }
        let (mut last, mut last_node) = (Deltas::at(0), NodeDeltas::new());
        let mut rest = &bytes[..at];
        let mut decoded = Vec::new();
        while !rest.is_empty() {
            let (_, record, length) = read(rest, &mut last, &mut last_node).unwrap();
            decoded.push(record);
            rest = &rest[length..];
        }
        prop_assert_eq!(decoded, expected);
    }
}

fn node_frame() -> impl Strategy<Value = FrameRecord> {
    let offset = prop_oneof![0u64..4, any::<u64>()];
    (0u8..6, 0u32..3, offset).prop_map(|(which, container, offset)| match which {
        0 => FrameRecord::Unknown { address: offset },
        1 => FrameRecord::Python { code: container, instruction: offset as u32 },
        _ => FrameRecord::C { module: container, offset },
    })
}

/// One launch: a path below a few directories, and a name that may be its end.
fn launch() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, bool, u64)> {
    let component = prop_oneof![Just("0_7"), Just("12_Linear"), Just("before"), Just("after"), Just("")];
    let path = proptest::collection::vec(component, 0..5).prop_map(|parts| parts.join("/").into_bytes());
    let long = proptest::collection::vec(any::<u8>(), 0..2000);
    let name = prop_oneof![Just(b"Linear".to_vec()), Just(Vec::new()), proptest::collection::vec(any::<u8>(), 0..9)];
    (prop_oneof![4 => path, 1 => long], name, any::<bool>(), any::<u64>())
}

proptest! {
    #[test]
    fn paths_and_names_of_launches_come_back_in_their_order(
        launches in proptest::collection::vec(launch(), 0..30), node in 0u32..9,
    ) {
        let stack = StackRef { c: node, python: node / 2 };
        let (mut writing, mut reading) = (Deltas::at(0), Deltas::at(0));
        let (mut last_written, mut last_read) = (Vec::new(), Vec::new());
        for (path, name, is_operator, number) in &launches {
            let coded = Path::after(&last_written, path);
            let kept = coded.kept().to_vec();
            let (launch, workspace, workspace_size, device) = (*number, !number, number / 3, *number as u32);
            let (record, kind, name) = if *is_operator {
                let record = Extended::AtbOperatorStart {
                    launch, device, workspace, workspace_size, stack, path: coded, name,
                };
                (record, EventKind::AtbOperatorStart { launch, device, workspace, workspace_size }, name.as_slice())
            } else {
                let phase = if number % 2 == 0 { Phase::Start } else { Phase::End };
                (Extended::AtbKernel { phase, device, path: coded }, EventKind::AtbKernel { phase, device }, &b""[..])
            };
            let mut bytes = vec![0u8; record.room()];
            // SAFETY: the buffer has the room the record asks for.
            let end = unsafe { encode::extended(bytes.as_mut_ptr(), &mut writing, 5, &record) };
            let length = end as usize - bytes.as_ptr() as usize;
            prop_assert!(length <= bytes.len());
            let (_, read, _) = read(&bytes[..length], &mut reading, &mut NodeDeltas::new()).unwrap();
            let Record::LaunchEvent { stack: read_stack, texts, kind: read_kind } = read else { panic!("{read:?}") };
            prop_assert_eq!((read_stack, read_kind), (if *is_operator { stack } else { StackRef::NONE }, kind));
            let launch = launch_texts(texts, read_kind, &mut last_read).unwrap();
            prop_assert_eq!((launch.path, launch.name), (kept.as_slice(), name));
            last_written = kept;
        }
    }

    #[test]
    fn accesses_come_back_with_at_most_eight_dimensions(
        address in any::<u64>(), size in any::<u64>(), codes in any::<(i32, i32, u32)>(),
        dimensions in proptest::collection::vec(any::<i64>(), 0..12), mode in 0u8..3, owner in 0u8..2,
    ) {
        let (mode, owner) = (AccessMode::from_code(mode).unwrap(), TensorOwner::from_code(owner).unwrap());
        let (dtype, format, device) = codes;
        let record =
            Extended::Access { mode, owner, device, address, size, dtype, format, dimensions: &dimensions };
        let mut bytes = vec![0u8; record.room()];
        // SAFETY: the buffer has the room the record asks for.
        let end = unsafe { encode::extended(bytes.as_mut_ptr(), &mut Deltas::at(0), 5, &record) };
        let length = end as usize - bytes.as_ptr() as usize;
        prop_assert!(length <= bytes.len());
        let (_, read, _) = read(&bytes[..length], &mut Deltas::at(0), &mut NodeDeltas::new()).unwrap();
        let Record::TensorEvent { tensor: shape, kind } = read else { panic!("{read:?}") };
        prop_assert_eq!(kind, EventKind::Access { mode, owner, device, address, size });
        let shape = tensor(shape).unwrap();
        prop_assert_eq!((shape.dtype, shape.format), (dtype, format));
        prop_assert_eq!(shape.dimensions(), &dimensions[..dimensions.len().min(MOST_DIMENSIONS)]);
    }

    #[test]
    fn made_up_texts_and_tensors_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..40), path in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let kind = EventKind::AtbOperatorStart { launch: 1, device: 0, workspace: 0, workspace_size: 0 };
        if let Ok(launch) = launch_texts(&bytes, kind, &mut path.clone()) {
            prop_assert!(launch.path.len() <= path.len() + bytes.len());
        }
        if let Ok(shape) = tensor(&bytes) {
            prop_assert!(shape.dimensions().len() <= MOST_DIMENSIONS);
        }
    }
}

#[test]
fn a_path_that_shares_more_than_there_was_is_nonsense() {
    let kind = EventKind::AtbKernel { phase: Phase::Start, device: 0 };
    assert!(launch_texts(&[3, 1, b'x'], kind, &mut b"ab".to_vec()).is_err());
    assert_eq!(
        launch_texts(&[2, 1, b'x'], kind, &mut b"ab".to_vec()).map(|launch| launch.path.to_vec()),
        Ok(b"abx".to_vec())
    );
}

fn round_trip(record: &Extended<'_>, expected: Definition<'_>) -> Result<(), TestCaseError> {
    let mut bytes = vec![0u8; record.room()];
    // SAFETY: the buffer has the room the record asks for.
    let end = unsafe { encode::extended(bytes.as_mut_ptr(), &mut Deltas::at(3), u64::MAX / 2, record) };
    let length = end as usize - bytes.as_ptr() as usize;
    prop_assert!(length <= bytes.len());
    let (_, read, read_length) = read(&bytes[..length], &mut Deltas::at(3), &mut NodeDeltas::new()).unwrap();
    prop_assert_eq!(read, Record::Definition(expected));
    prop_assert_eq!(read_length, length);
    Ok(())
}

#[test]
fn a_node_below_a_younger_one_is_nonsense() {
    let mut bytes = [0u8; encode::MAX_NODE];
    let frame = FrameRecord::Unknown { address: 1 };
    // SAFETY: the buffer has room for a node.
    unsafe { encode::node(bytes.as_mut_ptr(), &mut NodeDeltas::new(), 5, 5, frame) };
    assert_eq!(read(&bytes, &mut Deltas::at(0), &mut NodeDeltas::new()), Err(Nonsense));
}

#[test]
fn a_frame_met_before_costs_one_byte() {
    let mut bytes = [0u8; 4 * encode::MAX_NODE];
    let mut last_node = NodeDeltas::new();
    let mut lengths = Vec::new();
    for (id, parent, offset) in [(1, 0, 0x7000), (2, 1, 0x123_4567), (3, 0, 0x7000), (4, 3, 0x123_4567)] {
        let frame = FrameRecord::C { module: 3, offset };
        let out = bytes.as_mut_ptr();
        // SAFETY: the buffer has room for a node.
        let end = unsafe { encode::node(out, &mut last_node, id, parent, frame) };
        lengths.push(end as usize - out as usize);
    }
    assert_eq!(lengths, [5, 5, 2, 1]);
}

#[test]
fn mappings_of_version_2_count_as_usable() {
    let mut bytes = vec![kind::EXTENDED, extended::HOST_MAP, 7, 11, 0];
    bytes.extend(0x7000u64.to_le_bytes());
    // 4096 bytes, no stack.
    bytes.extend([0x80, 0x20, stack_field::NO_STACK as u8]);
    let (ticks, record, length) = read(&bytes, &mut Deltas::at(100), &mut NodeDeltas::new()).unwrap();
    assert_eq!((ticks, length), (107, bytes.len()));
    let Record::Event { kind, .. } = record else { panic!("{record:?}") };
    assert_eq!(kind, EventKind::HostMap { address: 0x7000, size: 4096, protection: Protection::READ_WRITE });
}

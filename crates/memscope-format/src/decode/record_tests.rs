//! Events of host memory and nodes come back as they were written, and bytes that are none are refused. Extended records: see
//! `round_trips`.
use super::super::fields::{names, tensor};
use super::*;
use crate::encode::{self, MAX_EVENT};
use crate::record::{MOST_DIMENSIONS, stack_field};
use proptest::prelude::*;

fn event() -> impl Strategy<Value = (u64, StackRef, EventKind)> {
    let address = prop_oneof![any::<u64>(), (0u64..1 << 43).prop_map(|a| a << 4), Just(0u64)];
    let size = prop_oneof![0u64..300, any::<u64>(), 60_000u64..70_000];
    let kind = (address, size, any::<bool>()).prop_map(|(address, size, is_free)| match is_free {
        true => EventKind::HostFree { address: HostAddr(address) },
        false => EventKind::HostAlloc { address: HostAddr(address), size },
    });
    let wait = prop_oneof![0u64..300, 0u64..1 << 40];
    let part = || prop_oneof![Just(0u32), 1u32..5, any::<u32>()];
    let stack = (part(), part()).prop_map(|(c, python)| StackRef { c, python });
    (wait, stack, kind)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(events in proptest::collection::vec(event(), 0..200), base in 0u64..1 << 60) {
        let mut bytes = vec![0u8; (events.len() + 1) * MAX_EVENT];
        let mut last = Deltas::at(base);
        let (mut at, mut ticks) = (0, base);
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
                    EventKind::HostFree { address } => encode::host_free(out, &mut last, ticks, address, *stack),
                    other => panic!("{other:?} is not generated"),
                }
            };
            at += end as usize - out as usize;
            expected.push((ticks, Record::Event { stack: *stack, kind: *kind, tail: Tail::Nothing }));
        }
        let mut last = Deltas::at(base);
        let mut rest = &bytes[..at];
        let mut decoded = Vec::new();
        while !rest.is_empty() {
            let (ticks, record, length) = read(rest, &mut last, &mut NodeDeltas::new()).unwrap();
            decoded.push((ticks, record));
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

    /// Any type, with a payload of any bytes.
    #[test]
    fn made_up_payloads_are_read_or_refused(
        record_type in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..60),
        path in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        match extended_record(record_type, &bytes, &mut Deltas::at(0)) {
            Ok(Record::Event { tail: Tail::Operator(texts) | Tail::Kernel(texts), kind, .. }) => {
                let has_name = matches!(kind, EventKind::AtbOperatorStart { .. });
                if let Ok(Definition::AtbNames { path: read, .. }) = names(texts, has_name, &mut path.clone()) {
                    prop_assert!(read.len() <= path.len() + bytes.len());
                }
            }
            Ok(Record::Event { tail: Tail::Tensor(bytes), .. }) => {
                if let Ok(shape) = tensor(bytes) {
                    prop_assert!(shape.dimensions().len() <= MOST_DIMENSIONS);
                }
            }
            _ => {}
        }
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
fn a_path_that_shares_more_than_there_was_is_nonsense() {
    assert!(names(&[3, 1, b'x'], false, &mut b"ab".to_vec()).is_err());
    let mut path = b"ab".to_vec();
    assert_eq!(names(&[2, 1, b'x'], false, &mut path), Ok(Definition::AtbNames { path: b"abx", name: b"" }));
}

#[test]
fn mappings_without_a_protection_count_as_usable() {
    let mut bytes = vec![kind::EXTENDED, 5, 7, 11, 0];
    bytes.extend(0x7000u64.to_le_bytes());
    // 4096 bytes, no stack.
    bytes.extend([0x80, 0x20, stack_field::NO_STACK as u8]);
    let (ticks, record, length) = read(&bytes, &mut Deltas::at(100), &mut NodeDeltas::new()).unwrap();
    assert_eq!((ticks, length), (107, bytes.len()));
    let Record::Event { kind, .. } = record else { panic!("{record:?}") };
    assert_eq!(kind, EventKind::HostMap { address: HostAddr(0x7000), size: 4096, protection: Protection::READ_WRITE });
}

//! Records of kernels come back as they were written, and bytes that are none are refused.
use super::EventKind;
use super::records::{Definition, Record, execution_line, read};
use crate::encode::{self, Deltas, Extended, NodeDeltas};
use crate::record::{Execution, MOST_EXECUTIONS, StackRef};
use proptest::prelude::*;

fn written(record: &Extended<'_>) -> Vec<u8> {
    let mut bytes = vec![0u8; record.room()];
    // SAFETY: the buffer has the room the record asks for.
    let end = unsafe { encode::extended(bytes.as_mut_ptr(), &mut Deltas::at(3), 1000, record) };
    let length = end as usize - bytes.as_ptr() as usize;
    assert!(length <= bytes.len(), "{record:?}");
    bytes.truncate(length);
    bytes
}

fn line() -> impl Strategy<Value = Execution> {
    let task = prop_oneof![0u32..70_000, any::<u32>()];
    let counter = prop_oneof![0u64..1 << 40, any::<u64>()];
    (any::<u16>(), task, 0u8..64, any::<bool>(), counter).prop_map(|(stream, task, unit, end, counter)| Execution {
        stream,
        task,
        unit,
        end,
        counter,
    })
}

proptest! {
    #[test]
    fn launches_tasks_clocks_and_names_come_back(
        numbers in any::<(u32, u32, u32, u64, u64, u64)>(), text in proptest::collection::vec(any::<u8>(), 0..5000),
    ) {
        let (device, stream, task, name, counter, width) = numbers;
        let frequency_khz = name >> 3;
        for (record, expected) in [
            (Extended::Launch, EventKind::Launch),
            (Extended::Task { device, stream, task, name }, EventKind::Task { device, stream, task, name }),
            (Extended::StreamExpansion { status: task as u8 }, EventKind::StreamExpansion { status: task as u8 }),
            (
                Extended::DeviceClock { device, frequency_khz, counter, width },
                EventKind::DeviceClock { device, frequency_khz, counter, width },
            ),
        ] {
            let bytes = written(&record);
            let (ticks, read, length) = read(&bytes, &mut Deltas::at(3), &mut NodeDeltas::new()).unwrap();
            prop_assert_eq!((ticks, length), (1000, bytes.len()));
            prop_assert_eq!(read, Record::Event { stack: StackRef::NONE, kind: expected });
        }
        let bytes = written(&Extended::KernelName { hash: name, text: &text });
        let kept = Definition::KernelName { hash: name, text: &text[..text.len().min(4096)] };
        prop_assert_eq!(read(&bytes, &mut Deltas::at(3), &mut NodeDeltas::new()).unwrap().1, Record::Definition(kept));
    }

    #[test]
    fn lines_of_a_task_log_come_back(
        lines in proptest::collection::vec(line(), 0..MOST_EXECUTIONS + 9), streams in any::<bool>(), device in any::<u32>(),
    ) {
        let bytes = written(&Extended::Executions { device, streams, lines: &lines });
        let (_, record, length) = read(&bytes, &mut Deltas::at(3), &mut NodeDeltas::new()).unwrap();
        prop_assert_eq!(length, bytes.len());
        let Record::Executions { device: on, streams: told, lines: mut rest } = record else { panic!("{record:?}") };
        prop_assert_eq!((on, told), (device, streams));
        let mut last = Execution::default();
        for expected in lines.iter().take(MOST_EXECUTIONS) {
            let (read, length) = execution_line(rest, streams, last).unwrap();
            let stream = if streams { expected.stream } else { 0 };
            prop_assert_eq!(read, Execution { stream, ..*expected });
            (last, rest) = (read, &rest[length..]);
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_bytes_are_lines_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), streams in any::<bool>()) {
        let (mut rest, mut last) = (bytes.as_slice(), Execution::default());
        while let Ok((line, length)) = execution_line(rest, streams, last) {
            prop_assert!(length >= 2 && length <= rest.len());
            (last, rest) = (line, &rest[length..]);
        }
    }
}

#[test]
fn a_task_of_the_usual_log_takes_few_bytes() {
    let lines: Vec<Execution> = (0..100u32)
        .flat_map(|task| {
            let began = 1_000_000_000 + u64::from(task) * 500;
            [(false, began), (true, began + 50)].map(|(end, counter)| Execution {
                stream: 7,
                task,
                unit: 0,
                end,
                counter,
            })
        })
        .collect();
    let bytes = written(&Extended::Executions { device: 0, streams: true, lines: &lines });
    assert!(bytes.len() < 100 * 9 + 20, "{}", bytes.len());
}

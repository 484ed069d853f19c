//! Lines of a task log: small, and bytes that are none are refused.
use super::fields::execution_line;
use crate::encode::{self, Deltas, Extended};
use crate::record::{PhysicalDevice, TaskLogLine};
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

proptest! {
    #[test]
    fn any_bytes_are_lines_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), streams in any::<bool>()) {
        let (mut rest, mut last) = (bytes.as_slice(), TaskLogLine::default());
        while let Ok((line, length)) = execution_line(rest, streams, last) {
            prop_assert!(length >= 2 && length <= rest.len());
            (last, rest) = (line, &rest[length..]);
        }
    }
}

#[test]
fn a_task_of_the_usual_log_takes_few_bytes() {
    let lines: Vec<TaskLogLine> = (0..100u32)
        .flat_map(|task| {
            let began = 1_000_000_000 + u64::from(task) * 500;
            [(false, began), (true, began + 50)].map(|(end, counter)| TaskLogLine {
                stream: 7,
                task,
                unit: 0,
                end,
                counter,
            })
        })
        .collect();
    let bytes = written(&Extended::Executions { device: PhysicalDevice(0), streams: true, lines: &lines });
    assert!(bytes.len() < 100 * 9 + 20, "{}", bytes.len());
}

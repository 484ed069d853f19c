use super::*;
use crate::{DeviceMemory, LogWriter, ProcessMemory, UsageSample};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;

const RUN: u64 = 77;

fn usage(used: u64, processes: &[(u32, u64)]) -> UsageSample {
    let processes = processes.iter().map(|&(pid, bytes)| ProcessMemory { pid, bytes }).collect();
    UsageSample { device: Some(DeviceMemory { used_bytes: used, total_bytes: 1000 }), processes: Some(processes) }
}

/// The log after these samples of (time, device, usage), and its bytes.
fn logged(samples: &[(u64, u32, UsageSample)]) -> (UsageLog, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(directory.path(), RUN).unwrap();
    for (time_ns, device, usage) in samples {
        writer.append(*time_ns, *device, usage).unwrap();
    }
    let bytes = std::fs::read(log_path(directory.path(), RUN)).unwrap();
    (UsageLog::open(directory.path(), RUN).unwrap().unwrap(), bytes)
}

fn pair(log: &UsageLog, device: u32, pid: u32, time_ns: u64) -> (Option<u64>, Option<u64>) {
    let at = log.at(device, pid, time_ns);
    (at.process_used, at.device_used)
}

#[test]
fn the_latest_sample_at_or_before_a_time_counts() {
    let (log, _) = logged(&[(100, 0, usage(50, &[(7, 5)])), (200, 0, usage(60, &[(7, 6)]))]);
    assert_eq!(pair(&log, 0, 7, 99), (None, None));
    assert_eq!(pair(&log, 0, 7, 100), (Some(5), Some(50)));
    assert_eq!(pair(&log, 0, 7, 199), (Some(5), Some(50)));
    assert_eq!(pair(&log, 0, 7, 200), (Some(6), Some(60)));
    assert_eq!(pair(&log, 0, 7, u64::MAX), (Some(6), Some(60)));
    assert_eq!(log.at(0, 7, 100).device_total, Some(1000));
}

#[test]
fn a_process_that_was_never_listed_has_no_value_and_its_device_has() {
    let (log, _) = logged(&[(100, 0, usage(50, &[(7, 5)]))]);
    assert_eq!(pair(&log, 0, 8, 100), (None, Some(50)));
    assert_eq!(pair(&log, 1, 7, 100), (None, None));
}

#[test]
fn a_process_that_is_listed_no_more_holds_nothing() {
    let samples = [(1, 0, usage(50, &[(7, 5), (8, 2)])), (2, 0, usage(50, &[(8, 2)])), (3, 0, usage(50, &[(7, 4)]))];
    let (log, _) = logged(&samples);
    let held = |pid| [1, 2, 3].map(|time| log.at(0, pid, time).process_used);
    assert_eq!(held(7), [Some(5), Some(0), Some(4)]);
    assert_eq!(held(8), [Some(2), Some(2), Some(0)]);
}

#[test]
fn where_the_driver_is_silent_the_last_answer_stands() {
    let silent = UsageSample { device: None, processes: None };
    let (log, bytes) = logged(&[(1, 0, silent.clone()), (2, 0, usage(50, &[(7, 5)])), (3, 0, silent)]);
    assert_eq!(pair(&log, 0, 7, 1), (None, None));
    assert_eq!(pair(&log, 0, 7, 3), (Some(5), Some(50)));
    assert_eq!(bytes.len(), HEADER_BYTES + RECORD_BYTES);

    let no_memory = UsageSample { device: None, ..usage(0, &[(7, 5)]) };
    let (log, _) = logged(&[(1, 0, no_memory)]);
    assert_eq!(log.at(0, 7, 1), UsageAt { process_used: Some(5), device_used: None, device_total: None });
}

#[test]
fn a_device_at_rest_adds_nothing_to_the_log() {
    let at_rest: Vec<_> = (1..1000).map(|time| (time, 0, usage(50, &[(7, 5), (8, 6)]))).collect();
    assert_eq!(logged(&at_rest).1.len(), HEADER_BYTES + 2 * RECORD_BYTES);
    let one_moves: Vec<_> = (1..11).map(|time| (time, 0, usage(50, &[(7, time), (8, 6)]))).collect();
    assert_eq!(logged(&one_moves).1.len(), HEADER_BYTES + 11 * RECORD_BYTES);
    let device_moves: Vec<_> = (1..11).map(|time| (time, 0, usage(time, &[]))).collect();
    assert_eq!(logged(&device_moves).1.len(), HEADER_BYTES + 10 * RECORD_BYTES);
}

#[test]
fn thirty_two_devices_are_kept_apart() {
    let samples: Vec<_> =
        (0..64).map(|n| (10 + n, n as u32 % 32, usage(1000 * (n + 1), &[(5, n + 1), (6, 100 + n)]))).collect();
    let (log, _) = logged(&samples);
    for device in 0..32u64 {
        let second = 10 + 32 + device;
        assert_eq!(pair(&log, device as u32, 5, second - 1), (Some(device + 1), Some(1000 * (device + 1))));
        assert_eq!(pair(&log, device as u32, 6, second), (Some(132 + device), Some(1000 * (device + 33))));
    }
}

#[test]
fn a_wall_clock_set_back_leaves_times_in_order() {
    let samples = [(10, 0, usage(1, &[])), (5, 0, usage(2, &[])), (12, 0, usage(2, &[(7, 1)]))];
    let (log, _) = logged(&samples);
    assert_eq!([4, 5, 10, 12].map(|time| log.at(0, 0, time).device_used), [None, Some(2), Some(1), Some(2)]);
}

#[test]
fn the_bytes_are_those_of_the_documentation() {
    let (_, bytes) = logged(&[(0x0102, 3, usage(4, &[(5, 6)]))]);
    let mut expected = b"MSMUSAGE\x01\0\0\0\x28\0\0\0\x4d\0\0\0\0\0\0\0".to_vec();
    expected.extend_from_slice(
        b"\x02\x01\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\xe8\x03\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x03\0\0\0\x05\0\0\0",
    );
    assert_eq!(bytes, expected);
}

#[test]
fn the_log_is_the_users_own_and_never_somebody_elses_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = log_path(directory.path(), RUN);
    std::os::unix::fs::symlink(directory.path().join("elsewhere"), &path).unwrap();
    assert!(matches!(LogWriter::create(directory.path(), RUN), Err(UsageError::Write { .. })));
    assert!(!directory.path().join("elsewhere").exists());
    std::fs::remove_file(&path).unwrap();
    let mut log = LogWriter::create(directory.path(), RUN).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    log.append(1, 0, &usage(1, &[])).unwrap();
    drop(log);
    assert!(path.exists());
}

#[test]
fn a_log_that_says_nothing_is_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = LogWriter::create(directory.path(), RUN).unwrap();
    log.append(1, 0, &UsageSample { device: None, processes: Some(Vec::new()) }).unwrap();
    assert!(log_path(directory.path(), RUN).exists());
    drop(log);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn no_log_a_foreign_file_and_a_directory_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let open = |run| UsageLog::open(directory.path(), run);
    assert!(open(1).unwrap().is_none());
    std::fs::write(log_path(directory.path(), 2), b"something else entirely, longer than a header").unwrap();
    assert!(matches!(open(2), Err(UsageError::Foreign { .. })));
    let mut log = LogWriter::create(directory.path(), 3).unwrap();
    log.append(1, 0, &usage(1, &[])).unwrap();
    std::fs::rename(log_path(directory.path(), 3), log_path(directory.path(), 4)).unwrap();
    assert!(matches!(open(4), Err(UsageError::Foreign { .. })));
    std::fs::create_dir(log_path(directory.path(), 5)).unwrap();
    assert!(matches!(open(5), Err(UsageError::Read { .. })));
}

#[test]
fn longer_records_of_a_later_writer_are_read_by_their_beginning() {
    let record = Record { time_ns: 9, device_used: 8, device_total: 7, process_used: 6, device: 5, pid: 4 };
    let mut bytes = header(RUN).to_vec();
    bytes[12] = RECORD_BYTES as u8 + 8;
    for _ in 0..2 {
        bytes.extend_from_slice(&record.encode());
        bytes.extend_from_slice(&[0xff; 8]);
    }
    let log = UsageLog::read(&bytes[..], RUN).unwrap().unwrap();
    assert_eq!(pair(&log, 5, 4, 9), (Some(6), Some(8)));
    assert_eq!((log.devices.len(), log.processes.len()), (1, 1));
}

proptest! {
    #[test]
    fn a_log_cut_anywhere_keeps_its_whole_records(length in 0usize..500) {
        let samples: Vec<_> = (1..11).map(|time| (time, 0, usage(50, &[(7, time)]))).collect();
        let (_, bytes) = logged(&samples);
        let length = length.min(bytes.len());
        match UsageLog::read(&bytes[..length], RUN).unwrap() {
            None => prop_assert!(length < HEADER_BYTES),
            Some(log) => {
                let whole = ((length - HEADER_BYTES) / RECORD_BYTES) as u64;
                prop_assert_eq!(log.at(0, 7, u64::MAX).process_used, (whole > 0).then_some(whole));
            }
        }
    }

    #[test]
    fn any_bytes_after_a_header_are_read_without_failing(
        tail in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut bytes = header(RUN).to_vec();
        bytes.extend_from_slice(&tail);
        let log = UsageLog::read(&bytes[..], RUN).unwrap().unwrap();
        prop_assert!(log.devices.len() <= tail.len() / RECORD_BYTES);
        for ((device, pid), series) in &log.processes {
            prop_assert!(series.0.is_sorted_by_key(|(time_ns, _)| *time_ns));
            let last = series.0.last().map(|(_, value)| *value);
            prop_assert_eq!(log.at(*device, *pid, u64::MAX).process_used, last);
        }
    }

    #[test]
    fn bytes_that_are_no_header_are_no_log(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assume!(!bytes.starts_with(&MAGIC));
        prop_assert!(UsageLog::read(&bytes[..], RUN).unwrap().is_none());
    }

    /// Against the plain definition: go through all samples and remember the last that is not too late.
    #[test]
    fn at_agrees_with_a_walk_through_all_samples(
        steps in prop::collection::vec((0u64..5, 0u32..3, 1u64..5, prop::option::of(0u64..4)), 0..60),
        asked in 0u64..200,
        device in 0u32..3,
    ) {
        let mut time_ns = 1;
        let mut samples = Vec::new();
        for (step, device, used, held) in steps {
            time_ns += step;
            let processes: Vec<(u32, u64)> = held.map(|bytes| (7, bytes)).into_iter().collect();
            samples.push((time_ns, device, usage(used, &processes)));
        }
        let (mut expected_process, mut expected_device) = (None, None);
        for (_, _, usage) in samples.iter().filter(|(time, of, _)| *time <= asked && *of == device) {
            expected_device = usage.device.map(|memory| memory.used_bytes);
            let listed = usage.processes.as_ref().and_then(|list| list.first()).map(|process| process.bytes);
            expected_process = listed.or(expected_process.map(|_| 0));
        }
        let (log, _) = logged(&samples);
        prop_assert_eq!(pair(&log, device, 7, asked), (expected_process, expected_device));
    }
}

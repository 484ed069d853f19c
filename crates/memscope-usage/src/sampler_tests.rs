use super::*;
use crate::{DeviceMemory, HOST, ProcessMemory, UsageLog, UsageSample, log_path};
use std::path::Path;
use std::sync::mpsc::SyncSender;

const RUN: u64 = 5;
/// However busy the machine.
const LONG: Duration = Duration::from_secs(600);

/// Answers with numbers that count its questions; tells `asked` after each, if somebody listens.
struct Counting {
    devices: Vec<u32>,
    questions: u64,
    asked: Option<SyncSender<u64>>,
    broken: Vec<u32>,
}

impl Counting {
    fn new(devices: impl IntoIterator<Item = u32>) -> Counting {
        Counting { devices: devices.into_iter().collect(), questions: 0, asked: None, broken: Vec::new() }
    }
}

impl UsageSource for Counting {
    fn devices(&self) -> Vec<u32> {
        self.devices.clone()
    }

    fn sample(&mut self, device: u32) -> Result<UsageSample, UsageError> {
        if self.broken.contains(&device) {
            return Err(UsageError::Refused { function: "test", code: -1 });
        }
        self.questions += 1;
        if let Some(asked) = &self.asked {
            let _ = asked.send(self.questions);
        }
        let memory = DeviceMemory { used_bytes: self.questions, total_bytes: 100 };
        let process = ProcessMemory { pid: 9, bytes: 1000 + u64::from(device) };
        Ok(UsageSample { device: Some(memory), processes: Some(vec![process]) })
    }
}

fn start(source: Counting, directory: &Path, selected: impl Fn(u32) -> bool + Send + 'static) -> Sampler {
    Sampler::start_with(move || Ok(source), directory.to_owned(), RUN, selected).unwrap()
}

#[test]
fn one_sample_of_each_selected_device_is_taken_however_short_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let sampler = start(Counting::new(0..32), directory.path(), |device| device % 2 == 1);
    assert!(matches!(sampler.finish(LONG), SamplerEnd::Sampled));
    let log = UsageLog::open(directory.path(), RUN).unwrap().unwrap();
    for device in 0..32 {
        let expected = (device % 2 == 1).then_some(1000 + u64::from(device));
        assert_eq!(log.at(device, 9, u64::MAX).process_used, expected, "{device}");
    }
}

#[test]
fn samples_go_on_until_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (asked, questions) = mpsc::sync_channel(0);
    let source = Counting { asked: Some(asked), ..Counting::new([0]) };
    let sampler = start(source, directory.path(), |_| true);
    let before_ns = wall_clock_ns();
    for expected in 1..4 {
        assert_eq!(questions.recv().unwrap(), expected);
    }
    // A question that nobody waits for any more must not hold the thread.
    drop(questions);
    assert!(matches!(sampler.finish(LONG), SamplerEnd::Sampled));
    let after_ns = wall_clock_ns();
    let log = UsageLog::open(directory.path(), RUN).unwrap().unwrap();
    assert!(log.at(0, 9, after_ns).device_used >= Some(3));
    assert_eq!(log.at(0, 9, before_ns - 1_000_000_000).device_used, None);
}

#[test]
fn a_device_that_does_not_answer_does_not_silence_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let sampler = start(Counting { broken: vec![0], ..Counting::new([0, 1]) }, directory.path(), |_| true);
    assert!(matches!(sampler.finish(LONG), SamplerEnd::Sampled));
    let log = UsageLog::open(directory.path(), RUN).unwrap().unwrap();
    assert_eq!(log.at(0, 9, u64::MAX).process_used, None);
    assert_eq!(log.at(1, 9, u64::MAX).process_used, Some(1001));
}

#[test]
fn without_an_answer_there_is_a_reason_and_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let sampler = start(Counting { broken: vec![0], ..Counting::new([0]) }, directory.path(), |_| true);
    assert!(matches!(sampler.finish(LONG), SamplerEnd::Unavailable(UsageError::Refused { code: -1, .. })));
    let sampler = start(Counting::new([0, 1]), directory.path(), |device| device == 2);
    assert!(matches!(sampler.finish(LONG), SamplerEnd::Unavailable(UsageError::NoDevice)));
    let absent = || Err::<Counting, _>(UsageError::NoLibrary { reason: String::from("none") });
    let sampler = Sampler::start_with(absent, directory.path().to_owned(), RUN, |_| true).unwrap();
    assert!(matches!(sampler.finish(LONG), SamplerEnd::Unavailable(UsageError::NoLibrary { .. })));
    assert!(!log_path(directory.path(), RUN).exists());
}

#[test]
fn host_memory_is_in_a_log_of_its_own_and_both_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    assert!(matches!(Sampler::start_host(directory.path().to_owned(), RUN).unwrap().finish(LONG), SamplerEnd::Sampled));
    assert!(UsageLog::open(directory.path(), RUN).unwrap().is_none(), "a log without a recorded process");
    std::fs::create_dir(directory.path().join(format!("msmemscope_{pid}_1_ascend"))).unwrap();
    let devices = start(Counting::new([0]), directory.path(), |_| true);
    let host = Sampler::start_host(directory.path().to_owned(), RUN).unwrap();
    assert!(matches!((devices.finish(LONG), host.finish(LONG)), (SamplerEnd::Sampled, SamplerEnd::Sampled)));
    let log = UsageLog::open(directory.path(), RUN).unwrap().unwrap();
    assert!(log.at(HOST, pid, u64::MAX).process_used > Some(1 << 16));
    assert_eq!(log.at(HOST, pid, u64::MAX).device_used, None);
    assert_eq!(log.at(0, 9, u64::MAX).process_used, Some(1000));
}

#[test]
fn a_log_that_cannot_be_written_stops_the_sampling_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let SamplerEnd::Stopped(error) = start(Counting::new([0]), &missing, |_| true).finish(LONG) else {
        panic!("sampled into a directory that is not there")
    };
    assert!(error.to_string().contains("missing/run_5.usage cannot be written"), "{error}");
}

#[test]
fn a_driver_that_hangs_does_not_hold_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (asked, held) = mpsc::sync_channel(0);
    let sampler = start(Counting { asked: Some(asked), ..Counting::new([0]) }, directory.path(), |_| true);
    assert!(matches!(sampler.finish(Duration::ZERO), SamplerEnd::Unresponsive));
    drop(held);
}

#[test]
fn a_slow_driver_is_asked_less_often() {
    let after = |milliseconds| pause(Duration::from_millis(milliseconds)).as_millis();
    assert_eq!([after(0), after(10), after(30), after(500)], [50, 40, 30, 500]);
}

//! A program that is killed leaves every event that had happened.
use memscope_format::decode::{Event, EventKind};
use memscope_format::layout::{SPOOL_DIRECTORY, WINDOWS_FILE};
use memscope_format::record::HostAddr;
use memscope_tests::{Recorder, Workshop, random, read_events, rounds};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// As in `killed.c`.
const RING: usize = 1 << 16;
const SLOTS: usize = 64;
const MARK: u64 = 123_457;
const LOG_BYTES: usize = 64 + RING * 8;

/// More by `MSMEMSCOPE_KILL_ROUNDS`.
const RUNS: u32 = 28;

#[test]
fn one_thread_killed_loses_no_event() {
    kill_again_and_again(1, 0);
}

#[test]
fn one_thread_with_native_stacks_killed_loses_no_event() {
    kill_again_and_again(1, 16);
}

#[test]
fn four_threads_killed_lose_no_event() {
    kill_again_and_again(4, 0);
}

#[test]
fn four_threads_with_native_stacks_killed_lose_no_event() {
    kill_again_and_again(4, 16);
}

fn kill_again_and_again(threads: usize, c_depth: u32) {
    let workshop = Workshop::new();
    let program = workshop.compile("killed.c");
    let mut random = random();
    let mut seen = 0;
    for run in 0..rounds("MSMEMSCOPE_KILL_ROUNDS", RUNS) {
        let delay = Duration::from_micros(1_000 + random() % 59_000);
        let output = workshop.directory(&format!("run{run}"));
        let recorder = Recorder::into_directory(&output).c_stacks(c_depth);
        let log = workshop.path(&format!("log{run}"));
        File::create(&log).and_then(|file| file.set_len((threads * LOG_BYTES) as u64)).expect("the log can be made");
        let mut command = Command::new(&program);
        command.arg(&log).arg(threads.to_string()).stdin(Stdio::null());
        let mut child = recorder.apply(&mut command).spawn().expect("the program starts");
        // The moment is the point: everything that has returned by then must be in the recording.
        thread::sleep(delay);
        child.kill().expect("the program runs until it is killed");
        child.wait().expect("the killed program can be waited for");
        let log = fs::read(&log).expect("the log can be read");
        seen += check(&output, &log, threads, &format!("run {run}, killed after {delay:?}"));
        fs::remove_dir_all(&output).expect("the run's directory is ours");
    }
    assert!(seen > 0, "no run got as far as an event");
}

/// Compares a recording with the log; returns how many events the log tells of.
fn check(output: &Path, log: &[u8], threads: usize, run: &str) -> u64 {
    let done = |thread: usize| word(log, thread * LOG_BYTES);
    let total = (0..threads).map(done).sum();
    let directories: Vec<_> = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path()).collect();
    let Some(directory) = directories.first() else {
        assert_eq!(total, 0, "{run}: no recording");
        return 0;
    };
    assert_eq!(directories.len(), 1, "{run}");
    let header = directory.join(SPOOL_DIRECTORY).join(WINDOWS_FILE);
    // Killed between the making of the directory and of the header.
    if total == 0 && fs::read(header).ok().is_none_or(|bytes| !bytes.starts_with(b"msmspool")) {
        return 0;
    }
    let read = read_events(directory);
    assert_eq!(read.damage, Vec::<String>::new(), "{run}");
    assert_eq!(read.lost, 0, "{run}");
    let mut workers: Vec<Vec<Event>> = Vec::new();
    for lane in &read.lanes {
        assert!(lane.iter().all(|event| event.thread == lane[0].thread), "{run}: a lane of two threads");
        let is_mark = |event: &Event| matches!(event.kind, EventKind::HostAlloc { size: MARK, .. });
        if let Some(mark) = lane.iter().position(is_mark) {
            workers.push(lane[mark + 1..].to_vec());
        }
    }
    for thread in 0..threads {
        let done = done(thread) as usize;
        let ring = &log[thread * LOG_BYTES + 64..][..RING * 8];
        let mut answers = workers.iter().map(|events| compare(events, thread as u64, done, ring));
        // Which lane is whose: the sequences differ from their first events on.
        assert!(
            answers.any(|answer| answer.is_ok()) || done == 0,
            "{run}: thread {thread}: {:?}",
            workers.iter().map(|events| compare(events, thread as u64, done, ring)).collect::<Vec<_>>()
        );
    }
    total
}

/// Whether `events` are what the thread did: all that returned, and at most the one that was under way.
fn compare(events: &[Event], thread: u64, done: usize, ring: &[u8]) -> Result<(), String> {
    if events.len() != done && events.len() != done + 1 {
        return Err(format!("{} events recorded, {done} had happened", events.len()));
    }
    let mut state = thread;
    let mut slots = [HostAddr(0); SLOTS];
    for (index, event) in events.iter().enumerate() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let choice = state >> 33;
        let slot = &mut slots[choice as usize % SLOTS];
        // The place of the oldest may already be taken by the event that was under way.
        let logged = (index < done && index + RING > done).then(|| word(ring, index % RING * 8));
        let expected_size = choice % 5000;
        match event.kind {
            EventKind::HostAlloc { address, size } if *slot == HostAddr(0) && size == expected_size => *slot = address,
            EventKind::HostFree { address } if *slot == address && address != HostAddr(0) => *slot = HostAddr(0),
            kind => return Err(format!("event {index} of {done}: {kind:?}, slot {slot:x?}, size {expected_size}")),
        }
        let (EventKind::HostAlloc { address, .. } | EventKind::HostFree { address }) = event.kind else { continue };
        if logged.is_some_and(|logged| logged != address.0) {
            return Err(format!("event {index} of {done}: {:?}, but the log says {logged:x?}", event.kind));
        }
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

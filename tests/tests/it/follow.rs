//! Reading along while the program runs.
use memscope_format::decode::{Event, EventKind, LaneCursor, Spool};
use memscope_format::layout::SPOOL_DIRECTORY;
use memscope_tests::{Workshop, finish, read_events};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// A reader that takes in whatever is there.
struct Follower {
    spool: Spool,
    lanes: Vec<(LaneCursor, Vec<Event>)>,
}

impl Follower {
    fn catch_up(&mut self) -> usize {
        self.spool.refresh().unwrap();
        for lane in self.spool.lanes() {
            if self.lanes.iter().all(|(cursor, _)| cursor.lane() != lane) {
                self.lanes.push((LaneCursor::new(lane), Vec::new()));
            }
        }
        for (cursor, events) in &mut self.lanes {
            while let Some(event) = cursor.next_event(&self.spool, &mut |_| {}).unwrap() {
                events.push(event);
            }
        }
        self.lanes.iter().map(|(_, events)| events.len()).sum()
    }
}

#[test]
fn a_follower_sees_events_while_they_happen_and_in_the_end_the_same_as_a_late_reader() {
    const ROUNDS: usize = 100_000;
    let workshop = Workshop::new();
    let program = workshop.compile("steps.c");
    let recorder = workshop.recorder().c_stacks(4);
    let mut command = Command::new(&program);
    command.arg(ROUNDS.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = recorder.apply(&mut command).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut say = |text: &str| {
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    };
    let mut hear = || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    };
    say("go\n");
    hear();
    let directory = fs::read_dir(recorder.output()).unwrap().next().expect("recorded by now").unwrap().path();
    let mut follower = Follower { spool: Spool::open(&directory.join(SPOOL_DIRECTORY)).unwrap(), lanes: Vec::new() };
    assert!(follower.catch_up() >= 2 * ROUNDS);
    // Waiting program: what it has done is there, all of it.
    for round in 2..5 {
        say("go\n");
        hear();
        assert!(follower.catch_up() >= round * 2 * ROUNDS);
    }
    // Running program: windows are turned over under the reader.
    for round in 5..15 {
        say("go\n");
        let target = round * 2 * ROUNDS;
        let mut moments = 0;
        while follower.catch_up() < target {
            moments += 1;
            assert!(moments < 1_000_000, "the follower does not come to event {target}");
        }
        hear();
    }
    drop(input);
    let ended = finish(child);
    assert!(ended.status.success());
    follower.catch_up();
    let late = read_events(&directory);
    assert_eq!(late.damage, Vec::<String>::new());
    for (cursor, _) in &follower.lanes {
        assert!(cursor.damage().is_empty(), "{:?}", cursor.damage());
    }
    assert!(follower.spool.damage().is_empty(), "{:?}", follower.spool.damage());
    let followed: Vec<&Vec<Event>> = follower.lanes.iter().map(|(_, events)| events).collect();
    assert_eq!(followed.len(), late.lanes.len());
    for (followed, late) in followed.iter().zip(&late.lanes) {
        assert_eq!(followed.len(), late.len());
        assert!(*followed == late, "the same number of events, but not the same");
    }
    let blocks = late.lanes.iter().flatten().filter(|event| matches!(event.kind, EventKind::HostAlloc { .. }));
    assert!(blocks.count() >= 14 * ROUNDS);
}

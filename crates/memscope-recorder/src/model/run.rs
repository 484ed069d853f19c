//! One schedule: programs of a few threads, what they did, and what the files say of it.
use super::{Act, Left, Thread, WORLD, World, with_thread};
use crate::slot::{Guard, MARK_WORD};
use crate::{Extended, event, forks, host_alloc, process};
use memscope_format::decode::{Definition, EventKind, LaneCursor, Spool};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Numbers of model threads begin here: none of the system has such a one.
const FIRST_THREAD: u32 = 1 << 20;

/// What came of an event that the program asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The hook came back.
    Done,
    /// Its thread was ended, or the hook left by a jump.
    Left,
    /// It was asked for by a handler in the middle of another, and may be refused, and counted.
    OnTop,
}

thread_local! {
    /// By number of the event: its thread, and what came of it. A forked child goes on with its own.
    static ASKED: RefCell<BTreeMap<u64, (u32, Fate)>> = const { RefCell::new(BTreeMap::new()) };
    /// The processes that were forked.
    static CHILDREN: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

/// Runs what [`threads`] does under one schedule, in a directory of its own below `root`; says how many of the acts found their place.
/// To be called by shuttle.
pub(super) fn schedule(root: &Path, number: u64, acts: &[(usize, usize, Act)]) -> usize {
    let output = root.join(number.to_string());
    fs::create_dir(&output).expect("the number is new");
    WORLD.with_borrow_mut(|world| {
        *world = World { acts: acts.to_vec(), handler: Some(record_on_top), ..World::default() };
    });
    ASKED.with_borrow_mut(BTreeMap::clear);
    CHILDREN.with_borrow_mut(Vec::clear);
    enter_thread(0);
    process::forget_image();
    let settings = format!("cpu=1;dir={}", output.display());
    assert_eq!(process::begin(settings.as_bytes()), process::Beginning::Begun);
    // The recording is begun by one thread alone: who waits for a start waits in the kernel, where the others have no turn.
    ask();
    threads();
    check(&output, acts);
    process::release_windows();
    let _ = fs::remove_dir_all(&output);
    WORLD.with_borrow(|world| world.happened)
}

/// Two threads side by side, then one after the other, so that lanes are taken over.
fn threads() {
    let first: Vec<_> = (1..3).map(|thread| shuttle::thread::spawn(move || work(thread))).collect();
    first.into_iter().for_each(|thread| thread.join().expect("a thread of the model does not panic"));
    for thread in 3..6 {
        shuttle::thread::spawn(move || work(thread)).join().expect("a thread of the model does not panic");
    }
}

/// What a thread does: small events and some that fill a window, so that it appends, moves to a larger one and begins anew.
fn work(thread: u32) {
    const EVENTS: usize = 6;
    enter_thread(thread);
    for _ in 0..EVENTS {
        if !ask() {
            break;
        }
    }
    with_thread(|thread| thread.is_alive = false);
}

fn enter_thread(thread: u32) {
    let tasks = super::task().expect("a schedule is under way");
    let slot = Box::new([0; 24]);
    let thread = Thread { number: FIRST_THREAD + thread, is_alive: true, slot, steps: 0, handlers: 0, tasks };
    WORLD.with_borrow_mut(|world| world.threads.push(thread));
}

/// Asks for one event; `false` if the thread was ended in it.
fn ask() -> bool {
    let number = note_asked(Fate::Left);
    let left = panic::catch_unwind(AssertUnwindSafe(|| record(number))).err();
    end_child();
    match left.map(how) {
        None => {
            note_fate(number, Fate::Done);
            true
        }
        Some(Left::ByJump) => {
            with_thread(|thread| thread.handlers = 0);
            true
        }
        Some(Left::ByEnd) => {
            with_thread(|thread| thread.is_alive = false);
            false
        }
    }
}

/// What a panic stands for; one that stands for nothing goes on.
fn how(panic: Box<dyn Any + Send>) -> Left {
    match panic.downcast::<Left>() {
        Ok(left) => *left,
        Err(other) => panic::resume_unwind(other),
    }
}

/// In a handler: one event, on top of what is under way.
fn record_on_top() {
    record(note_asked(Fate::OnTop));
}

fn note_asked(fate: Fate) -> u64 {
    let thread = super::current_thread().expect("a thread of the model");
    ASKED.with_borrow_mut(|asked| {
        let number = asked.len() as u64 + 1;
        asked.insert(number, (thread, fate));
        number
    })
}

fn note_fate(number: u64, fate: Fate) {
    ASKED.with_borrow_mut(|asked| {
        if let Some((_, known)) = asked.get_mut(&number) {
            *known = fate;
        }
    });
}

/// The event of that number: an allocation at that address, or a mark with a text that begins with it and fills a third of a window.
fn record(number: u64) {
    let mark = MARK_WORD;
    let Some(guard) = Guard::enter_at(&mark) else { return };
    if number.is_multiple_of(3) {
        host_alloc(&guard, number as usize, 16);
    } else {
        let text = format!("{number:<1300}");
        event(&guard, &Extended::Mark { text: text.as_bytes() });
    }
}

/// In a handler: a real fork. The child records, and goes on with what was interrupted.
pub(super) fn fork_in_handler() {
    let fork = forks::before();
    // SAFETY: the schedules run on one thread of the system; the child ends by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            WORLD.with_borrow_mut(|world| world.is_child = true);
            forks::in_child(&fork);
            // What its parent asked for is its parent's.
            ASKED.with_borrow_mut(BTreeMap::clear);
            for _ in 0..4 {
                record(CHILDS + note_asked(Fate::Done));
            }
        }
        child => {
            assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
            CHILDREN.with_borrow_mut(|children| children.push(child));
            let mut status = 0;
            // SAFETY: a child of ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child of a fork in a handler ended with wait status {status:#x}");
        }
    }
}

/// Events of a child are numbered from here.
const CHILDS: u64 = 1000;

/// In a forked child that has come back to where its parent's hook was called: a few events more, and the end.
fn end_child() {
    if WORLD.with_borrow(|world| world.is_child) {
        for _ in 0..4 {
            record(CHILDS + note_asked(Fate::Done));
        }
        // SAFETY: nothing is to be put right.
        unsafe { libc::_exit(0) };
    }
}

/// What the files say, against what was asked.
fn check(output: &Path, acts: &[(usize, usize, Act)]) {
    let mut children = CHILDREN.with_borrow(Vec::clone);
    let parent = std::process::id();
    for entry in fs::read_dir(output).expect("the output is there") {
        let directory = entry.expect("the output can be read").path();
        let recorded = read(&directory.join("spool"));
        if recorded.process == parent {
            check_parent(&recorded, acts);
        } else {
            children.retain(|child| *child as u32 != recorded.process);
            assert_eq!(recorded.damage, "", "of a child, {acts:?}");
            assert_eq!(recorded.lost, 0, "of a child, {acts:?}");
            let (own, inherited): (Vec<u64>, Vec<u64>) =
                recorded.events.iter().map(|(number, _)| *number).partition(|number| *number > CHILDS);
            let expected: Vec<u64> = (1..=8).map(|number| CHILDS + number).collect();
            assert_eq!(sorted(own), expected, "of a child, {acts:?}");
            // What was interrupted before the recorder was at work on it happens in the child, too.
            assert!(inherited.len() <= 1, "a child has {inherited:?} of its parent, {acts:?}");
        }
    }
    assert!(children.is_empty(), "children without a recording: {children:?}, {acts:?}");
}

fn check_parent(recorded: &Recorded, acts: &[(usize, usize, Act)]) {
    assert_eq!(recorded.damage, "", "{acts:?}");
    ASKED.with_borrow(|asked| {
        let mut missing = 0;
        for (number, (thread, fate)) in asked {
            let found: Vec<u32> =
                recorded.events.iter().filter(|(found, _)| found == number).map(|(_, thread)| *thread).collect();
            match found.as_slice() {
                [] if *fate == Fate::Done => panic!("event {number} came back and is not recorded, {acts:?}"),
                [] => missing += 1,
                [on] => assert_eq!(on, thread, "event {number} is on another thread, {acts:?}"),
                _ => panic!("event {number} is recorded {} times, {acts:?}", found.len()),
            }
        }
        let unasked = recorded.events.iter().filter(|(number, _)| !asked.contains_key(number)).count();
        assert_eq!(unasked, 0, "events that nobody asked for, {acts:?}");
        // The thread may have been ended before the hook took its guard, or in a lane that nobody has taken over, or after it was
        // counted and before that was noted.
        let ends = acts.iter().filter(|(.., act)| matches!(act, Act::End | Act::SignalEnd | Act::Jump)).count() as u64;
        let signals = acts.iter().filter(|(.., act)| matches!(act, Act::Signal | Act::SignalEnd)).count() as u64;
        assert!(missing <= ends + signals, "{missing} events are missing, {acts:?}");
        assert!(recorded.lost <= missing + ends, "{} lost, {missing} missing, {acts:?}", recorded.lost);
        if ends == 0 {
            assert_eq!(recorded.lost, missing, "{acts:?}");
        }
    });
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

struct Recorded {
    process: u32,
    /// Number and thread.
    events: Vec<(u64, u32)>,
    lost: u64,
    damage: String,
}

fn read(spool: &Path) -> Recorded {
    let spool = Spool::open(spool).unwrap_or_else(|error| panic!("{error}"));
    let mut damage: Vec<String> = spool.damage().iter().map(|damage| format!("{damage:?}")).collect();
    let mut events = Vec::new();
    for lane in spool.lanes() {
        let mut cursor = LaneCursor::new(lane);
        let mut text = 0;
        loop {
            let event = cursor.next_event(&spool, &mut |definition| {
                if let Definition::Text { text: bytes } = definition {
                    text = String::from_utf8_lossy(bytes).trim().parse().unwrap_or(0);
                }
            });
            let Some(event) = event.expect("the spool can be read") else { break };
            match event.kind {
                EventKind::HostAlloc { address, .. } => events.push((address.0, event.thread)),
                _ => events.push((text, event.thread)),
            }
        }
        damage.extend(cursor.damage().iter().map(|damage| format!("{damage:?}")));
    }
    Recorded { process: spool.process().pid, events, lost: spool.lost_events(), damage: damage.join(", ") }
}

/// A directory for the files of many schedules, in memory where there is some.
pub(super) fn scratch(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let root = parent.join(format!("memscope-model-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir(&root).expect("a directory can be made");
    root
}

//! The schedules.
use super::Act;
use super::run::{schedule, scratch};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};
use std::cell::Cell;
use std::fs;
use std::path::Path;

const ACTS: [Act; 5] = [Act::End, Act::Jump, Act::Signal, Act::SignalEnd, Act::Fork];

thread_local! {
    static SCHEDULES: Cell<u64> = const { Cell::new(0) };
    static HAPPENED: Cell<usize> = const { Cell::new(0) };
}

/// Runs the acts under so many interleavings of the threads; says how many of them found their place the last time.
fn explore(root: &Path, seed: u64, interleavings: usize, acts: &[(usize, usize, Act)]) -> usize {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = shuttle::FailurePersistence::Print;
    let (root, acts) = (root.to_owned(), acts.to_vec());
    Runner::new(RandomScheduler::new_from_seed(seed, interleavings), config).run(move || {
        let number = SCHEDULES.get();
        SCHEDULES.set(number + 1);
        HAPPENED.set(schedule(&root, number, &acts));
    });
    HAPPENED.get()
}

#[expect(clippy::print_stdout, reason = "how much was explored is the result")]
fn told(name: &str, root: &Path) {
    println!("model: {name}: {} schedules", SCHEDULES.get());
    fs::remove_dir_all(root).expect("the directory is ours");
}

#[test]
fn whatever_happens_at_whichever_place_nothing_is_lost_or_damaged() {
    let root = scratch("each-place");
    // Thread 1 begins beside another, thread 3 takes over a lane.
    for thread in [1, 3, 4] {
        for act in ACTS {
            let mut step = 1;
            while explore(&root, step as u64, 3, &[(thread, step, act)]) > 0 {
                step += 1;
            }
            assert!(step > 40, "thread {thread} has been at {step} places only");
        }
    }
    told("one act at each place", &root);
}

#[test]
fn nor_do_two_or_three_things_that_happen_one_after_the_other() {
    let root = scratch("several");
    let mut random = Random(7);
    for round in 0..schedules(1500) {
        let acts: Vec<_> = (0..2 + random.below(2))
            .map(|_| (1 + random.below(5), 1 + random.below(180), ACTS[random.below(ACTS.len())]))
            .collect();
        explore(&root, round, 2, &acts);
    }
    told("two or three acts at random places", &root);
}

/// More by `MSMEMSCOPE_MODEL_ROUNDS`.
fn schedules(default: u64) -> u64 {
    std::env::var("MSMEMSCOPE_MODEL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

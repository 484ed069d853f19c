//! The same work for many recordings, on all processors.
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Each worker holds the live blocks of a process in memory: on large machines fewer work than could.
const MOST_WORKERS: usize = 16;

/// What `work` makes of each item, in the order of the items. It begins with the heaviest, so that none is left over when
/// all others are done.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    weight: impl Fn(&T) -> u64,
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<(u64, usize)> = items.iter().map(weight).zip(0..).collect();
    order.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_WORKERS).min(items.len());
    let next = AtomicUsize::new(0);
    let take_turns = |done: &mut dyn FnMut(usize, R)| {
        while let Some((_, index)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            done(*index, work(*index, &items[*index]));
        }
    };
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (done, all_done) = mpsc::channel();
        let mut threads = Vec::new();
        for _ in 1..workers {
            let (done, take_turns) = (done.clone(), &take_turns);
            let worker = thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, move || {
                take_turns(&mut |index, result| drop(done.send((index, result))));
            });
            // Where no thread is to be had the others do its part.
            threads.extend(worker);
        }
        drop(done);
        take_turns(&mut |index, result| results[index] = Some(result));
        for (index, result) in all_done {
            results[index] = Some(result);
        }
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_however_heavy_they_are() {
        let items: Vec<u64> = (0..100).map(|number| number * 7 % 31).collect();
        let results = each(&items, |item| *item, |index, item| (index, item * 2));
        let expected: Vec<(usize, u64)> = items.iter().map(|item| item * 2).enumerate().collect();
        assert_eq!(results, expected);
        assert_eq!(each(&[], |()| 0, |_, ()| ()), []);
    }

    #[test]
    fn a_panic_of_a_worker_comes_with_its_message() {
        let items: Vec<usize> = (0..50).collect();
        for wrong in [0, 7, 49] {
            let all = || each(&items, |_| 1, |_, item| assert!(*item != wrong, "item {item} is wrong"));
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(all)).unwrap_err();
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("item {wrong} is wrong")));
        }
    }
}

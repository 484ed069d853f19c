//! Whether what a source keeps is growing.
//!
//! What is judged is what was alive at the ends of steps (or of equal parts of the time, where there are no steps): not the
//! survivors alone, since a list that grows by reallocation is one block, however long it grew, and the last batch of a
//! loader that is always one batch ahead survives without being a leak.
//!
//! The *floor* at a moment is the least that was alive then or at any later moment: memory below it was never given back. A
//! source grows if its floor does, and
//!
//! * still does at the end: its last rise is no further back than two of the gaps between rises. What grew to step 20 of 50
//!   and then stayed is kept;
//! * evenly: the rises lie near a straight line. A single jump does not, nor does what only looks like growth because nothing
//!   comes after the end that could give it back (the last batch, the last tooth of a saw);
//! * to what it never held before: in the middle of the growth it had not yet held as much at any end of a step. Memory that goes
//!   up and down does not;
//! * as fast as before: in the second half of the run at least two thirds as fast as in the quarter before it. A cache that has seen nearly
//!   everything does not;
//! * beyond its own unrest: by more than what is otherwise held and given back between two moments;
//! * by bytes that matter: see [`least_growth`].
//!
//! The second half of the run decides, where there are rises enough in it; else all of it but the first step, in which
//! everything is new. A run of few steps must show a rise of about the same size in each of them.
//!
//! Without steps there is time, and a machine that has other things to do makes it uneven. So growth may also show in equal parts of
//! the program's allocations, if in time it is at least no thing of the past: see [`growth_by_work`].

/// What becomes of the memory of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// More of it from step to step, up to the end.
    Grows,
    /// Made and never given back, but no longer more of it: caches, state of optimizers, buffers made when first needed.
    Kept,
    /// Alive beyond its step, and replaced later: most of what was alive at an earlier step is gone. What a program would
    /// have given back had it gone on.
    Carried,
}

impl Verdict {
    /// As reports say it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Grows => "grows",
            Verdict::Kept => "kept",
            Verdict::Carried => "carried",
        }
    }
}

/// What shows that a source grows. Moments are places of the row, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// The part of the run that shows it: its first and last moment.
    pub first: usize,
    pub last: usize,
    /// By how many bytes the floor rose meanwhile.
    pub bytes: u64,
    /// At how many moments it did.
    pub rises: usize,
}

impl Growth {
    /// Bytes a moment.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / (self.last - self.first).max(1) as f64
    }
}

/// With fewer moments than this nothing can be said about growth.
pub const FEWEST_MOMENTS: usize = 5;
/// Fewer than this are a short run.
const SHORT_RUN: usize = 10;
/// Of rises of a short run: the largest is at most so many times the smallest.
const EVEN_RISES: u64 = 4;
/// Fewest rises in the second half of a run, and in all of it.
const LATE_RISES: usize = 3;
const SPARSE_RISES: usize = 4;
/// The part of the growth that must be above what was ever alive before the middle of it, of one over this.
const NEW_PART: u64 = 4;
/// What grew so many times faster before is not growing any more.
const SLACKENED: f64 = 1.5;
/// The part of all growth that must come in the second half of the time, one over this.
const LATE_PART: u64 = 5;
/// How far from a straight line rises may be, as a part of the growth.
const MOST_DEVIATION: f64 = 0.35;
/// How many times its own unrest a source must have grown.
const ABOVE_UNREST: f64 = 2.0;

/// The growth, in a run, that is worth a verdict: a thousandth of the most that was ever in use of the pool. Below it lie lists of
/// losses, logs, tables of interned strings, and what an interpreter does with its own memory.
pub fn least_growth(peak_bytes: u64) -> u64 {
    (peak_bytes / 1000).max(1)
}

/// The memory of a source over a run.
#[derive(Clone, Copy, Debug)]
pub struct Course<'c> {
    /// Bytes alive at each moment.
    pub live: &'c [u64],
    /// The same at the ends of equal parts of the allocations, where there are no steps.
    pub worked: &'c [u64],
    /// Bytes alive at the end, by the moment they were made before.
    pub survivors: &'c [u64],
    /// Bytes alive at the end that were made before the first step.
    pub older: u64,
    /// Least growth worth a verdict.
    pub least: u64,
}

impl Course<'_> {
    pub fn judge(&self) -> (Verdict, Option<Growth>) {
        let survived: u64 = self.survivors.iter().sum();
        // What grew and was given back after the last step is no leak.
        let growth = growth(self.live, self.least).or_else(|| growth_by_work(self.live, self.worked, self.least));
        let growth = growth.filter(|growth| survived >= growth.bytes / 2);
        match growth {
            Some(growth) => (Verdict::Grows, Some(growth)),
            None if self.most_replaced() > 0 && self.most_replaced() >= survived / 2 => (Verdict::Carried, None),
            None => (Verdict::Kept, None),
        }
    }

    /// The most bytes that were alive at the end of a step and have been given back since.
    fn most_replaced(&self) -> u64 {
        let mut still_alive = self.older;
        let replaced = self.live.iter().zip(self.survivors).map(|(live, made)| {
            still_alive += made;
            live.saturating_sub(still_alive)
        });
        replaced.max().unwrap_or(0)
    }
}

/// The growth of what was alive at moments, if it is any.
pub fn growth(live: &[u64], least: u64) -> Option<Growth> {
    if live.len() < FEWEST_MOMENTS {
        return None;
    }
    let floor = floor_of(live);
    let last = floor.len() - 1;
    if live.len() < SHORT_RUN {
        return short_growth(&floor, least);
    }
    let late = window(&floor, last / 2);
    let seen = if late.rises >= LATE_RISES { late } else { window(&floor, 1) };
    let enough = if seen.first == 1 { SPARSE_RISES } else { LATE_RISES };
    let grows = seen.rises >= enough
        && seen.bytes >= least
        && is_recent(&floor, &seen)
        && is_new(live, &floor, &seen)
        && !has_slackened(&floor)
        && deviation(&floor, &seen) <= MOST_DEVIATION
        && seen.bytes as f64 >= ABOVE_UNREST * unrest(live, &floor, &seen);
    grows.then_some(seen)
}

/// The growth that shows in equal parts of the allocations. A program that fills a table first and then computes without
/// allocating fills it, by its allocations, up to the end: so in time it must have gone on in the last quarter of the run, and made
/// a good part of the growth in its second half. Places are those of `live`.
fn growth_by_work(live: &[u64], worked: &[u64], least: u64) -> Option<Growth> {
    if live.len() < FEWEST_MOMENTS {
        return None;
    }
    growth(worked, least)?;
    let floor = floor_of(live);
    let seen = window(&floor, (floor.len() - 1) / 2);
    let newest = rises(&floor, seen.first).next_back()?;
    let is_recent = seen.last - newest <= floor.len() / 4;
    let all = floor[seen.last] - floor[0];
    (is_recent && seen.bytes >= least.max(all / LATE_PART)).then_some(seen)
}

/// The least that was alive at each place or at any later one.
fn floor_of(live: &[u64]) -> Vec<u64> {
    let mut floor = live.to_vec();
    for at in (1..floor.len()).rev() {
        floor[at - 1] = floor[at - 1].min(floor[at]);
    }
    floor
}

fn window(floor: &[u64], first: usize) -> Growth {
    let last = floor.len() - 1;
    Growth { first, last, bytes: floor[last] - floor[first], rises: rises(floor, first).count() }
}

/// The moments after `first` at which the floor rose.
fn rises(floor: &[u64], first: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
    (first + 1..floor.len()).filter(|at| floor[*at] > floor[*at - 1])
}

/// In each step but the first, and by about as much.
fn short_growth(floor: &[u64], least: u64) -> Option<Growth> {
    let seen = window(floor, 1);
    let by = floor[1..].windows(2).map(|pair| pair[1] - pair[0]);
    let (smallest, largest) = (by.clone().min()?, by.max()?);
    let is_even = smallest > 0 && largest / EVEN_RISES <= smallest;
    (is_even && seen.bytes >= least).then_some(seen)
}

/// The next rise is not long overdue.
fn is_recent(floor: &[u64], seen: &Growth) -> bool {
    let mut latest = rises(floor, seen.first).rev();
    let (Some(last), Some(before)) = (latest.next(), latest.next()) else { return false };
    // Of growth by doubling gaps double: the last one counts, unless it is unusually short.
    let usual = (last - seen.first).div_ceil(seen.rises);
    seen.last - last <= 2 * usual.max(last - before) + 1
}

/// It ends well above all that was ever alive before the middle of the growth.
fn is_new(live: &[u64], floor: &[u64], seen: &Growth) -> bool {
    let middle = seen.first.midpoint(seen.last);
    let before = live[1..=middle].iter().max().copied().unwrap_or(0);
    floor[seen.last].saturating_sub(before) >= seen.bytes / NEW_PART
}

/// In the second half of the run the floor rose much less than before: a cache that will soon have seen everything. The first
/// quarter, in which everything is new, does not count, nor does a single jump.
fn has_slackened(floor: &[u64]) -> bool {
    let (quarter, middle, last) = (floor.len() / 4, floor.len() / 2, floor.len() - 1);
    let jump = floor[quarter..=middle].windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let before = (floor[middle] - floor[quarter] - jump) as f64 / (middle - quarter) as f64;
    let after = (floor[last] - floor[middle]) as f64 / (last - middle) as f64;
    after < before / SLACKENED
}

/// How far the points to which the floor rose lie from a straight line at most, as a part of the growth.
fn deviation(floor: &[u64], seen: &Growth) -> f64 {
    let Some(end) = rises(floor, seen.first).next_back() else { return 1.0 };
    let (bytes, moments) = (seen.bytes as f64, (end - seen.first) as f64);
    let from_line = |at: usize| {
        let risen = (floor[at] - floor[seen.first]) as f64 / bytes;
        (risen - (at - seen.first) as f64 / moments).abs()
    };
    rises(floor, seen.first).map(from_line).fold(0.0, f64::max)
}

/// What was alive above the floor, on average.
fn unrest(live: &[u64], floor: &[u64], seen: &Growth) -> f64 {
    let above = live[seen.first..].iter().zip(&floor[seen.first..]).map(|(live, floor)| (live - floor) as f64);
    above.sum::<f64>() / (live.len() - seen.first) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grows(live: &[u64]) -> bool {
        growth(live, 1).is_some()
    }

    fn steps(count: u64, live: impl Fn(u64) -> u64) -> Vec<u64> {
        (1..=count).map(live).collect()
    }

    #[test]
    fn what_is_appended_to_in_each_step_grows() {
        for count in [5, 6, 9, 10, 11, 20, 50, 1000] {
            assert!(grows(&steps(count, |step| step * 4096)), "{count} steps");
            assert!(grows(&steps(count, |step| (1 << 30) + step * 4096)), "{count} steps beside what was there before");
        }
    }

    #[test]
    fn a_steady_period_is_growth_too() {
        for period in 1..=12 {
            for count in [period * 5, period * 5 + period / 2, period * 6 - 1, period * 40] {
                assert!(grows(&steps(count.max(10), |step| step / period * 100)), "every {period} of {count}");
            }
        }
    }

    #[test]
    fn growth_by_doubling_is_growth() {
        for count in [20, 100, 500, 513, 1000] {
            assert!(grows(&steps(count, |step| step.next_power_of_two() * 8)), "{count} steps");
        }
    }

    #[test]
    fn what_over_allocates_by_an_eighth_grows() {
        let capacity =
            |step: u64| (1..=step).fold(0, |held, needed| if needed > held { needed + needed / 8 + 6 } else { held });
        for count in [50, 80, 200] {
            assert!(grows(&steps(count, |step| capacity(step) * 8)), "{count} steps");
        }
    }

    #[test]
    fn a_cache_that_stopped_growing_does_not_grow() {
        for end in [1, 2, 5, 10, 20, 25, 30, 40, 45] {
            assert!(!grows(&steps(50, |step| step.min(end) * 1000)), "up to step {end}");
        }
    }

    /// Kernels are compiled for each of 89 lengths of a sentence, which come at random.
    #[test]
    fn a_cache_that_has_seen_nearly_everything_does_not_grow() {
        let wrong = (1..=100u64).filter(|seed| {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut seen = std::collections::BTreeSet::new();
            let live: Vec<u64> = (0..300)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    seen.insert(random % 89);
                    seen.len() as u64 * 332_000
                })
                .collect();
            grows(&live)
        });
        assert!(wrong.count() <= 5);
    }

    #[test]
    fn few_steps_say_nothing() {
        assert!(!grows(&[]));
        for count in 1..FEWEST_MOMENTS as u64 {
            assert!(!grows(&steps(count, |step| step * 4096)), "{count} steps");
        }
        // Everything is new in the first steps.
        assert!(!grows(&[10, 900, 1000, 1010, 1011]));
    }

    #[test]
    fn a_jump_does_not_grow_wherever_it_is() {
        for at in 1..=50 {
            assert!(!grows(&steps(50, |step| if step >= at { 1 << 20 } else { 0 })), "at step {at}");
        }
    }

    #[test]
    fn a_saw_does_not_grow_whatever_tooth_it_ends_in() {
        for period in 2..=25 {
            for count in 50..50 + period {
                assert!(!grows(&steps(count, |step| step % period * 100)), "period {period}, {count} steps");
            }
        }
    }

    #[test]
    fn a_saw_on_a_slope_grows() {
        assert!(grows(&steps(50, |step| step * 100 + step % 3 * 150)));
    }

    #[test]
    fn a_level_with_its_last_steps_a_little_higher_does_not_grow() {
        for late in 1..=6 {
            assert!(!grows(&steps(50, |step| 1000 + (step + late).saturating_sub(50) * 10)), "{late} steps");
        }
    }

    #[test]
    fn bytes_that_do_not_matter_do_not_grow() {
        let live = steps(50, |step| step * 32);
        assert_eq!(growth(&live, 100_000), None);
        assert_eq!(least_growth(100_000_000), 100_000);
    }

    fn judged(live: &[u64], survivors: &[u64]) -> Verdict {
        Course { live, worked: &[], survivors, older: 0, least: 1 }.judge().0
    }

    #[test]
    fn what_is_replaced_is_carried_and_what_stays_is_kept() {
        let last_only = |bytes: u64| [vec![0; 49], vec![bytes]].concat();
        let first_only = |bytes: u64| [vec![bytes], vec![0; 49]].concat();
        assert_eq!(judged(&[64; 50], &last_only(64)), Verdict::Carried);
        assert_eq!(judged(&[64; 50], &first_only(64)), Verdict::Kept);
        // Made once, late.
        assert_eq!(judged(&last_only(64), &last_only(64)), Verdict::Kept);
        // Gradients that are accumulated over three steps, in the second of which the run ends.
        let accumulated = steps(50, |step| if step % 3 == 0 { 0 } else { 700 });
        assert_eq!(judged(&accumulated, &[vec![0; 48], vec![700, 0]].concat()), Verdict::Carried);
        // One block that was reallocated in each step.
        assert_eq!(judged(&steps(50, |step| step * 8), &last_only(400)), Verdict::Grows);
        // Given back after the last step.
        assert_eq!(judged(&steps(50, |step| step * 8), &last_only(8)), Verdict::Carried);
    }

    /// A machine with other things to do: the program stands still in the middle of its run, and shortly before its end.
    #[test]
    fn a_leak_of_a_program_that_had_to_wait_shows_in_its_work() {
        let at_work = |time: u64| match time {
            0..=15 => time,
            16..=45 => 15,
            46..=58 => time - 30,
            _ => 28,
        };
        let live = steps(64, |time| at_work(time) * 1000);
        assert!(!grows(&live));
        let worked = steps(28, |part| part * 1000);
        assert!(growth_by_work(&live, &worked, 1).is_some());
    }

    #[test]
    fn a_table_that_is_filled_before_the_work_begins_does_not_grow_by_its_allocations() {
        let worked = steps(64, |part| part * 1000);
        for end in [1, 5, 20, 31, 40] {
            let live = steps(64, |time| time.min(end) * 1000);
            assert_eq!(growth_by_work(&live, &worked, 1), None, "filled at {end} of 64");
        }
        // A cache that allocates only for what it has not seen yet.
        let cache = steps(64, |time| (64_000.0 * (1.0 - (-(time as f64) / 16.0).exp())) as u64);
        assert_eq!(growth_by_work(&cache, &worked, 1), None);
    }

    #[test]
    fn what_was_there_before_the_first_step_is_not_taken_for_replaced() {
        let survivors = [vec![64], vec![0; 49]].concat();
        let course = Course { live: &[1064; 50], worked: &[], survivors: &survivors, older: 1000, least: 1 };
        assert_eq!(course.judge().0, Verdict::Kept);
    }

    proptest! {
        #[test]
        fn what_never_rises_never_grows(mut live in proptest::collection::vec(0u64..1000, 0..200)) {
            live.sort_unstable_by(|one, other| other.cmp(one));
            prop_assert!(!grows(&live));
        }

        #[test]
        fn a_leak_shows_whatever_else_a_source_does(
            noise in proptest::collection::vec(0u64..200, 20..200),
            leak in 100u64..1000,
        ) {
            let live: Vec<u64> = (1..).zip(&noise).map(|(step, noise)| step * leak + noise).collect();
            prop_assert!(grows(&live), "{live:?}");
        }
    }

    /// Of rows in which nothing leaks and everything changes, hardly any seem to grow.
    #[test]
    fn unrest_is_hardly_ever_taken_for_growth() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut wrong = 0;
        for _ in 0..10_000 {
            let live: Vec<u64> = (0..50).map(|_| next(1000)).collect();
            wrong += u32::from(grows(&live));
        }
        assert!(wrong <= 20, "{wrong} of 10,000");
    }
}

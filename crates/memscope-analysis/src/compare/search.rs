//! The search for what two sequences have in common.
//!
//! The longest common subsequence is what one wants, and it costs too much where sequences differ in many places: the greedy
//! search (Myers 1986) takes time in proportion to their length times the number of differences. So it is done in windows: it
//! goes on from where it is until it has made [`Limits::edits`] deletions and insertions, and the first half of what it found is
//! kept; the next window begins there. Within a window nothing better exists, and the whole takes time in proportion to the
//! lengths, whatever the sequences hold.
//!
//! A window does not see past a long piece that only one of the two has, such as an evaluation between two steps. Where hardly
//! anything in a window fits, the search goes on at the nearest place where both say the same for a while ([`Limits::run`]).
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Deletions and insertions in a window.
    pub(super) edits: usize,
    /// So many entries in a row that both have are no accident.
    pub(super) run: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { edits: 1024, run: 8 }
    }
}

/// Takes entries that belong together: where in base and compared they begin, and how many they are. They come in order.
pub(super) type Emit<'e> = &'e mut dyn FnMut(usize, usize, usize);

pub(super) struct Search<'l> {
    limits: &'l Limits,
    /// Whether to look for the next place where both say the same, when lost.
    resumes: bool,
    window: Window,
}

/// How far one gets with so many edits. A diagonal is the difference of the places in base and compared; with `d` edits those
/// from `-d` to `d` are reached, in steps of two.
#[derive(Default)]
struct Window {
    /// The furthest place in the base, by number of edits and diagonal: row `d` begins at `d * (d + 1) / 2`.
    furthest: Vec<Option<u32>>,
    /// The lengths of base and compared.
    ends: (u32, u32),
}

/// What a window came to.
struct Reached {
    edits: usize,
    /// The place of its diagonal in the row.
    at: usize,
    base: usize,
    compared: usize,
    complete: bool,
}

impl<'l> Search<'l> {
    pub(super) fn new(limits: &'l Limits) -> Search<'l> {
        Search { limits, resumes: true, window: Window::default() }
    }

    pub(super) fn align(&mut self, base: &[u32], compared: &[u32], emit: Emit<'_>) {
        let (mut x, mut y) = (0, 0);
        while x < base.len() && y < compared.len() {
            let (left, right) = (&base[x..], &compared[y..]);
            let reached = self.window.search(left, right, self.limits.edits);
            let same = (reached.base + reached.compared - reached.edits) / 2;
            // Less than a third of the entries fit.
            let lost = !reached.complete && 4 * same < reached.edits;
            if lost && self.resumes {
                self.resumes = false;
                if let Some((i, j)) = next_run(left, right, self.limits.run) {
                    self.align(&left[..i], &right[..j], &mut |a, b, length| emit(x + a, y + b, length));
                    emit(x + i, y + j, self.limits.run);
                    (x, y) = (x + i + self.limits.run, y + j + self.limits.run);
                    self.resumes = true;
                    continue;
                }
            }
            // The end of a path is the least certain part of it.
            let kept = if reached.complete || lost { reached.edits } else { reached.edits.div_ceil(2) };
            let (i, j) = self.window.path(&reached, kept, &mut |a, b, length| emit(x + a, y + b, length));
            (x, y) = (x + i, y + j);
        }
    }
}

impl Window {
    /// Searches from the beginning of both until their ends, or until the edits are used up.
    fn search(&mut self, base: &[u32], compared: &[u32], most: usize) -> Reached {
        self.ends = (base.len() as u32, compared.len() as u32);
        self.furthest.clear();
        let mut edits = 0;
        loop {
            let mut best = Reached { edits, at: 0, base: 0, compared: 0, complete: false };
            for at in 0..=edits {
                let place = self.beginning(edits, at).map(|(_, x)| {
                    let y = compared_place(x, edits, at);
                    let same =
                        base[x as usize..].iter().zip(&compared[y as usize..]).take_while(|(one, other)| one == other);
                    x + same.count() as u32
                });
                self.furthest.push(place);
                let Some(x) = place else { continue };
                let y = compared_place(x, edits, at);
                let complete = (x, y) == self.ends;
                if complete || x as usize + y as usize > best.base + best.compared {
                    best = Reached { edits, at, base: x as usize, compared: y as usize, complete };
                }
                if complete {
                    return best;
                }
            }
            if edits == most {
                return best;
            }
            edits += 1;
        }
    }

    /// The diagonal that another is reached from by one edit, and where in the base one is then; of the two neighbours the
    /// further counts.
    fn beginning(&self, edits: usize, at: usize) -> Option<(usize, u32)> {
        if edits == 0 {
            return Some((0, 0));
        }
        let before = |at: usize| self.furthest[row(edits - 1) + at];
        let deletion = at.checked_sub(1).and_then(|from| Some((from, before(from).filter(|x| *x < self.ends.0)? + 1)));
        let insertion = (at < edits).then(|| before(at)).flatten();
        let insertion = insertion.filter(|x| compared_place(*x, edits - 1, at) < self.ends.1).map(|x| (at, x));
        match (deletion, insertion) {
            (Some(one), Some(other)) => Some(if one.1 > other.1 { one } else { other }),
            (one, other) => one.or(other),
        }
    }

    /// Tells what fits on the way to where the window came, up to the first `kept` edits; returns where that part ends.
    fn path(&self, reached: &Reached, kept: usize, emit: Emit<'_>) -> (usize, usize) {
        let mut found = Vec::new();
        let mut end = (reached.base, reached.compared);
        let mut at = reached.at;
        for edits in (0..=reached.edits).rev() {
            let Some(furthest) = self.furthest[row(edits) + at] else { break };
            let Some((from, begins)) = self.beginning(edits, at) else { break };
            if edits == kept {
                end = (furthest as usize, compared_place(furthest, edits, at) as usize);
            }
            if edits <= kept {
                found.push((begins as usize, compared_place(begins, edits, at) as usize, (furthest - begins) as usize));
            }
            at = from;
        }
        found.iter().rev().filter(|(.., length)| *length > 0).for_each(|(x, y, length)| emit(*x, *y, *length));
        end
    }
}

fn row(edits: usize) -> usize {
    edits * (edits + 1) / 2
}

/// The place in the compared sequence, on the diagonal at this place of its row.
fn compared_place(base_place: u32, edits: usize, at: usize) -> u32 {
    // The diagonal is `2 * at - edits`, and no place is before the beginning.
    (base_place as usize + edits - 2 * at) as u32
}

/// The nearest two places from which on both say the same for `length` entries.
fn next_run(base: &[u32], compared: &[u32], length: usize) -> Option<(usize, usize)> {
    let mut seen: [FxHashMap<u64, usize>; 2] = [FxHashMap::default(), FxHashMap::default()];
    for at in 0..base.len().max(compared.len()) {
        for (own, (sequence, other)) in [(base, compared), (compared, base)].into_iter().enumerate() {
            let Some(run) = sequence.get(at..at + length) else { continue };
            let hash = hash_of(run);
            seen[own].entry(hash).or_insert(at);
            if let Some(place) = seen[1 - own].get(&hash)
                && other[*place..*place + length] == *run
            {
                return Some(if own == 0 { (at, *place) } else { (*place, at) });
            }
        }
    }
    None
}

fn hash_of(run: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    run.iter().for_each(|number| hasher.write_u32(*number));
    hasher.finish()
}

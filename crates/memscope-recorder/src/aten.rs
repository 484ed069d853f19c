//! Operators of torch, and the tensors they are given.
//!
//! torch calls operators from operators. Recorded is the outermost on each thread that does something itself, and what it does:
//! whoever observes torch decides which that is, and asks here whether one is at work. [`begin`] and [`end`] are the one place
//! where an operator begins and ends.
use crate::control;
use crate::device::{LogicalDevice, note_visible_devices};
use crate::lane::{Lane, record};
use crate::process;
use crate::slot::{self, Guard, is_within};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use memscope_format::encode::Extended;
use memscope_format::layout::notes;
pub use memscope_format::record::{AccessMode, DevAddr, HOST_DEVICE};

/// Names go by numbers below this.
pub const MOST_NAMES: usize = 4096;

/// What a lane remembers of operators. In its zeroed memory no name was defined and no number is left.
#[repr(C)]
pub(crate) struct LaneOperators {
    /// Which names were defined, a bit each.
    defined: [u64; MOST_NAMES / 64],
    /// Numbers for operators that begin, up to the next multiple of [`LaneOperators::NUMBERS`].
    next_number: u64,
    stream: ToldStream,
}

/// The stream that a lane has told last, for operators of ATB and torch alike.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ToldStream {
    handle: u64,
    /// Where it was told. It is told again in each generation: whoever misses one does not take it for an older stream.
    generation: u32,
    /// Whether it ever was: a lane that knows no stream says nothing.
    is_told: bool,
}

/// Says in the lane which stream the operator about to be told uses, 0 for one that is not known, if that was not said yet. `false` if it
/// cannot be.
#[inline(always)]
pub(crate) fn tell_stream(lane: &mut Lane, ticks: u64, handle: u64) -> bool {
    let generation = lane.writer.generation();
    let Some(operators) = lane.operators() else { return handle == 0 };
    let told = operators.stream;
    if told.handle == handle && (told.generation == generation || !told.is_told) {
        return true;
    }
    tell_other_stream(lane, ticks, handle)
}

#[cold]
#[inline(never)]
fn tell_other_stream(lane: &mut Lane, ticks: u64, handle: u64) -> bool {
    lane.writer.definition(ticks, &Extended::Stream { handle });
    if lane.writer.has_dropped() {
        return false;
    }
    let generation = lane.writer.generation();
    if let Some(operators) = lane.operators() {
        operators.stream = ToldStream { handle, generation, is_told: true };
    }
    true
}

impl LaneOperators {
    /// Taken at once: threads that took one each time would take the cache line from each other.
    const NUMBERS: u64 = 1024;

    fn place(&mut self, name: u32) -> Option<(&mut u64, u64)> {
        Some((self.defined.get_mut(name as usize / 64)?, 1 << (name % 64)))
    }

    /// A number that no operator of the process had.
    #[inline(always)]
    fn number(&mut self) -> u64 {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if self.next_number.is_multiple_of(LaneOperators::NUMBERS) {
            // The first of each is left out: 0 is none.
            self.next_number = NUMBERS.fetch_add(LaneOperators::NUMBERS, Relaxed) + 1;
        }
        self.next_number += 1;
        self.next_number - 1
    }
}

/// An operator at work, in its thread's slot. Zeroes are none.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct OpenOperator {
    /// A place in the object that stands for the call, on the thread's stack, and the word there, which stays as long as it is at
    /// work.
    place: usize,
    word: usize,
    sequence: u64,
    name: u32,
    flags: u32,
}

/// An operator that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    pub sequence: u64,
    /// The number its name goes by.
    pub name: u32,
    /// What the observer wants to know at its end.
    pub flags: u32,
}

/// An operator about to run.
#[derive(Clone, Copy)]
pub struct Operator {
    /// As in [`OpenOperator`].
    pub place: usize,
    pub name: u32,
    /// That of its tensors; unknown if it has none.
    pub device: LogicalDevice,
    /// The handle of the stream that its kernels go to, 0 if that is not known.
    pub stream: u64,
    /// The observer's own.
    pub flags: u32,
    /// Whether beginning and end are recorded, and not only its tensors.
    pub is_wanted: bool,
}

/// A tensor an operator is given, or gives.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub mode: AccessMode,
    pub device: LogicalDevice,
    pub address: DevAddr,
    pub size: u64,
    pub storage: DevAddr,
    pub dtype: i32,
    pub dimensions: &'a [i64],
}

/// Operators outside of tracing explain nothing within it.
#[inline(always)]
pub fn is_traced() -> bool {
    control::is_tracing()
}

/// Whether a call whose object has `place` is made within an operator that has begun and not ended. One that was left by a jump, and
/// never ends, is told by its place or by what is there now.
#[inline(always)]
pub fn is_inside(place: usize) -> bool {
    // SAFETY: the slot is the thread's own; the place is on its stack.
    unsafe {
        let open = &(*slot::current()).operator;
        open.place != 0 && open.place != place && is_within(place, open.place, open.word)
    }
}

/// Whether a call that is about to be made, by a frame that has `place`, is made within an operator that has begun. "No" also where
/// the place is so close that its frame may be the one the operator's own call is made by, which then was left by a jump.
#[inline(always)]
pub fn is_called_inside(place: usize) -> bool {
    const SAME_FRAME: usize = 512;
    // SAFETY: as above.
    unsafe {
        let open = &(*slot::current()).operator;
        open.place != 0 && open.place.wrapping_sub(place) > SAME_FRAME && is_within(place, open.place, open.word)
    }
}

/// The calling thread asks who listens to a call, and has been told at this place of its stack.
pub fn note_question(place: usize) {
    // SAFETY: the slot is the thread's own.
    unsafe { (*slot::current()).question = place };
}

/// Whether the calling thread has asked just that of this call, whose object is then in the same frame or the next.
pub fn was_question_of(call: usize) -> bool {
    const NEAR: usize = 16 << 10;
    // SAFETY: the slot is the thread's own.
    let place = unsafe { core::mem::take(&mut (*slot::current()).question) };
    place.abs_diff(call) < NEAR
}

/// An operator begins, and gets its number, 0 if nothing can be recorded. `text` is its name, asked for once in each lane;
/// `tensors` says what it is given.
#[inline]
pub fn begin<T: AsRef<[u8]>>(
    guard: &Guard<'_>,
    operator: &Operator,
    text: impl FnOnce() -> T,
    tensors: impl FnOnce(&mut Tensors<'_>),
) -> u64 {
    let Operator { place, name, device, stream: handle, flags, is_wanted } = *operator;
    note_visible_devices(guard);
    let mut sequence = 0;
    let entry = if is_wanted { guard.python_only() } else { guard.no_stack() };
    record(entry, 1, |lane, ticks, stack| {
        if !define(lane, ticks, name, text) || (is_wanted && !tell_stream(lane, ticks, handle)) {
            lane.writer.lose(1);
            return;
        }
        sequence = lane.operators().map_or(0, LaneOperators::number);
        if is_wanted {
            lane.writer.frequent_event(ticks, &Extended::AtenOperatorStart { sequence, device, name, stack });
        }
        tensors(&mut Tensors { lane, ticks, name });
    });
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and the word at the place is that of an object on its stack.
    unsafe { (*slot).operator = OpenOperator { place, word: *(place as *const usize), sequence, name, flags } };
    sequence
}

/// The operator whose call has this place, if it is the one that has begun; from here on it is not at work any more.
#[inline(always)]
pub fn ending(place: usize) -> Option<Begun> {
    let slot = slot::current();
    // SAFETY: the slot is the thread's own.
    unsafe {
        let OpenOperator { place: open, sequence, name, flags, .. } = (*slot).operator;
        if open != place || open == 0 {
            return None;
        }
        (*slot).operator.place = 0;
        Some(Begun { sequence, name, flags })
    }
}

/// An operator ends. `tensors` says what it gives.
#[inline]
pub fn end(guard: &Guard<'_>, begun: Begun, is_wanted: bool, tensors: impl FnOnce(&mut Tensors<'_>)) {
    record(guard.no_stack(), 1, |lane, ticks, _| {
        tensors(&mut Tensors { lane, ticks, name: begun.name });
        if is_wanted {
            lane.writer.frequent_event(ticks, &Extended::AtenOperatorEnd { sequence: begun.sequence });
        }
    });
}

/// Where the tensors of an operator are told.
pub struct Tensors<'l> {
    lane: &'l mut Lane,
    ticks: u64,
    name: u32,
}

impl Tensors<'_> {
    #[inline]
    pub fn access(&mut self, access: &Access<'_>) {
        /// Nobody asks in which order a tensor's elements are.
        const FORMAT: i32 = -1;
        let Access { mode, device, address, size, storage, dtype, dimensions } = *access;
        let (name, format) = (self.name, FORMAT);
        let record = Extended::AtenAccess { mode, name, device, address, size, storage, dtype, format, dimensions };
        self.lane.writer.frequent_event(self.ticks, &record);
    }
}

/// Says in the lane what a number stands for, if it was not said yet. `false` if it cannot be.
#[inline(always)]
fn define<T: AsRef<[u8]>>(lane: &mut Lane, ticks: u64, name: u32, text: impl FnOnce() -> T) -> bool {
    let known = |lane: &mut Lane| lane.operators()?.place(name).map(|(word, bit)| *word & bit != 0);
    match known(lane) {
        Some(true) => return true,
        None => return false,
        Some(false) => {}
    }
    lane.writer.definition(ticks, &Extended::AtenName { id: name, text: text().as_ref() });
    if lane.writer.has_dropped() {
        return false;
    }
    if let Some((word, bit)) = lane.operators().and_then(|operators| operators.place(name)) {
        *word |= bit;
    }
    true
}

/// torch is not as any version we know.
#[cold]
pub fn note_unknown_torch() {
    if let Some(process) = process::ensure() {
        process.note(notes::TORCH_UNKNOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_bit_of_its_own_and_beyond_the_last_there_is_none() {
        let mut names = LaneOperators { defined: [0; MOST_NAMES / 64], next_number: 0, stream: ToldStream::default() };
        for name in [0, 63, 64, MOST_NAMES as u32 - 1] {
            let (word, bit) = names.place(name).unwrap();
            assert_eq!(*word & bit, 0);
            *word |= bit;
        }
        assert_eq!(names.defined.iter().map(|word| word.count_ones()).sum::<u32>(), 4);
        assert!(names.place(MOST_NAMES as u32).is_none());
    }

    #[test]
    fn no_number_comes_twice() {
        let mut lanes = [(); 2].map(|()| LaneOperators {
            defined: [0; MOST_NAMES / 64],
            next_number: 0,
            stream: ToldStream::default(),
        });
        let mut numbers: Vec<u64> = (0..5000).map(|turn| lanes[turn % 2].number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers.contains(&0)), (5000, false));
    }

    #[test]
    fn what_is_called_within_an_operator_is_inside_it_until_it_ends_or_is_left() {
        let mut stack = [7usize, 9];
        let (inner, outer) = (&raw const stack[0] as usize, &raw const stack[1] as usize);
        assert!(!is_inside(inner));
        let open = OpenOperator { place: outer, word: 9, sequence: 3, name: 5, flags: 1 };
        // SAFETY: the slot is this thread's.
        unsafe { (*slot::current()).operator = open };
        assert!(is_inside(inner) && !is_called_inside(inner) && is_called_inside(inner - 4096));
        assert_eq!(ending(inner), None);
        assert_eq!(ending(outer), Some(Begun { sequence: 3, name: 5, flags: 1 }));
        assert!(!is_inside(inner) && ending(outer).is_none());
        // One that was left: another object is at its place.
        // SAFETY: as above.
        unsafe { (*slot::current()).operator = open };
        // SAFETY: the word is ours.
        unsafe { (&raw mut stack[1]).write_volatile(8) };
        assert!(!is_inside(inner));
        // SAFETY: as above.
        unsafe { (*slot::current()).operator = OpenOperator { place: inner, word: 7, ..open } };
        assert!(!is_inside(outer), "further out on the stack");
    }
}

//! What the program calls its memory and its code: labels of threads and of blocks, and functions it wants to see.
//!
//! A text is written once in each lane; the records that follow have its number. Whether it was is known by its hash, so that no
//! text is kept and none is compared. A place that two texts share costs a second definition, with another number.
use crate::calls;
use crate::control;
use crate::lane::{Lane, record};
use crate::process;
use crate::slot::{self, Guard};
use crate::step;
use core::ptr;
use memscope_format::encode::{Extended, text_hash};
use memscope_format::layout::notes;
pub use memscope_format::record::{DevAddr, LabelLevel};
use memscope_sys as sys;

/// What the calling thread allocates from here on has this label, until [`end`].
pub fn start(level: LabelLevel, text: &[u8]) {
    named(text, |label| {
        if level == LabelLevel::Phase {
            note_late_labels();
        }
        Extended::LabelStart { level, label }
    });
}

/// Ends the innermost label of this level and text.
pub fn end(level: LabelLevel, text: &[u8]) {
    named(text, |label| Extended::LabelEnd { level, label });
}

/// The block around this address has this label.
pub fn block(address: usize, level: LabelLevel, text: &[u8]) {
    named(text, |label| {
        note_late_labels();
        Extended::LabelBlock { level, label, address: DevAddr(address as u64) }
    });
}

/// Before the record: a reader that finds it knows that it has to look for labels first.
fn note_late_labels() {
    if let Some(process) = process::current() {
        process.note_once(notes::BLOCK_LABELS);
    }
}

/// A piece of code that the program wants to see among the functions begins. Where neither memory nor calls
/// are traced it explains nothing.
pub fn function_start(text: &[u8]) {
    if !control::is_tracing() && !calls::are_traced() {
        return;
    }
    named(text, |name| {
        if let Some(process) = process::current() {
            process.note_once(notes::CALLS_TRACED);
        }
        Extended::FunctionStart { name }
    });
}

pub fn function_end(text: &[u8]) {
    named(text, |name| Extended::FunctionEnd { name });
}

fn named(text: &[u8], make: impl FnOnce(u32) -> Extended<'static>) {
    let mark = slot::MARK_WORD;
    let Some(guard) = Guard::enter_at(&mark) else { return };
    record(guard.no_stack(), 1, |lane, ticks, _| match number(lane, ticks, text) {
        Some(number) => lane.writer.extended_event(ticks, &make(number)),
        None => lane.writer.lose(1),
    });
}

/// The texts a lane has defined, by their hashes. Zeroes are an empty table.
#[repr(C)]
pub(crate) struct LabelNames {
    newest: u32,
    places: [Place; PLACES],
}

const PLACES: usize = 255;

#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    hash: u64,
    /// 0 in a place that is free.
    number: u32,
}

/// A page for each thread that ever uses a label.
const _: () = assert!(size_of::<LabelNames>() <= 4096);

impl LabelNames {
    /// The place of a text, and its number if it is known.
    fn find(&mut self, hash: u64) -> Option<(&mut Place, Option<u32>)> {
        let place = self.places.get_mut((hash % PLACES as u64) as usize)?;
        let known = (place.number != 0 && place.hash == hash).then_some(place.number);
        Some((place, known))
    }
}

/// The lane's number for a text, which is defined if it is new; `None` if it cannot be.
fn number(lane: &mut Lane, ticks: u64, text: &[u8]) -> Option<u32> {
    let hash = text_hash(text);
    if lane.labels.is_null() {
        lane.labels = sys::map_own(size_of::<LabelNames>()).map_or(ptr::null_mut(), |memory| memory.cast().as_ptr());
    }
    // SAFETY: null, or the lane's own; only the thread that has the lane comes here, and its guard keeps it from coming twice.
    let names = unsafe { lane.labels.as_mut() }?;
    let id = names.newest.checked_add(1)?;
    let (place, known) = names.find(hash)?;
    if known.is_some() {
        return known;
    }
    lane.writer.definition(ticks, &Extended::LabelName { id, text });
    if lane.writer.has_dropped() {
        return None;
    }
    // Last: who jumps out before has defined a text that nothing refers to, and its number is given again. A place that is half
    // changed is free.
    place.number = 0;
    step::fence();
    place.hash = hash;
    step::fence();
    place.number = id;
    names.newest = id;
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_known_until_another_takes_its_place() {
        let mut names = LabelNames { newest: 0, places: [Place { hash: 0, number: 0 }; PLACES] };
        let (first, other) = (7, 7 + PLACES as u64);
        assert_eq!(names.find(first).and_then(|(_, known)| known), None);
        let Some((place, _)) = names.find(first) else { unreachable!() };
        *place = Place { hash: first, number: 3 };
        assert_eq!(names.find(first).and_then(|(_, known)| known), Some(3));
        assert_eq!(names.find(other).and_then(|(_, known)| known), None);
    }
}

//! `std::optional<at::StepCallbacks>`: whom torch tells of a call, found anew for each.
use crate::callback::{Callback, FUNCTION};
use core::slice;

/// The same in all versions: a `RecordFunction` has it behind its first word. Where nobody listens, only the last member is
/// initialised.
#[repr(C)]
pub struct Listeners {
    /// A vector that has room for a few in itself.
    first: *mut Listener,
    number: u32,
    room: u32,
    in_place: [Listener; IN_PLACE],
    /// As torch numbers them. Only for those who listen.
    thread: u64,
    scope: u8,
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
    padding: u32,
    are_there: bool,
}

const IN_PLACE: usize = 4;
const _: () =
    assert!(core::mem::offset_of!(Listeners, scope) == 88 && core::mem::offset_of!(Listeners, are_there) == 96);

/// What is called when a call begins, and when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
struct Listener {
    start: usize,
    end: usize,
}

/// What became of one that was to be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    Done,
    /// It was there already.
    Known,
    NoRoom,
}

impl Listeners {
    /// Nobody listens.
    ///
    /// # Safety
    /// `place` has room for this.
    pub unsafe fn none_at(place: usize) {
        // SAFETY: the caller's.
        unsafe { (&raw mut (*(place as *mut Listeners)).are_there).write(false) };
    }

    /// Whether those torch has put there are all in place, so that they can be forgotten.
    ///
    /// # Safety
    /// torch has just put this there.
    pub unsafe fn are_in_place(place: usize) -> bool {
        let this = place as *const Listeners;
        // SAFETY: the caller's.
        unsafe { !(*this).are_there || core::ptr::eq((*this).first, (&raw const (*this).in_place).cast()) }
    }

    /// What torch has put there, with `callback` among them.
    ///
    /// # Safety
    /// torch has just put this there, for a call of [`FUNCTION`], or [`Listeners::none_at`] has.
    #[inline(always)]
    pub unsafe fn add(place: usize, callback: &Callback) -> Added {
        let this = place as *mut Listeners;
        let new = Listener { start: callback.start as usize, end: callback.end as usize };
        // SAFETY: the caller's. What is not initialised is written and not read.
        unsafe {
            if (*this).are_there {
                let needs = [callback.needs_inputs, callback.needs_outputs, callback.needs_ids];
                return (*this).add_to_others(new, needs);
            }
            (&raw mut (*this).first).write((&raw mut (*this).in_place).cast());
            (&raw mut (*this).number).write(1);
            (&raw mut (*this).room).write(IN_PLACE as u32);
            (&raw mut (*this).in_place[0]).write(new);
            (&raw mut (*this).thread).write(0);
            (&raw mut (*this).scope).write(FUNCTION as u8);
            (&raw mut (*this).needs_inputs).write(callback.needs_inputs);
            (&raw mut (*this).needs_outputs).write(callback.needs_outputs);
            (&raw mut (*this).needs_ids).write(callback.needs_ids);
            (&raw mut (*this).are_there).write(true);
        }
        Added::Done
    }

    #[cold]
    #[inline(never)]
    unsafe fn add_to_others(&mut self, new: Listener, [inputs, outputs, ids]: [bool; 3]) -> Added {
        // SAFETY: the vector has so many, and room for so many.
        unsafe {
            if slice::from_raw_parts(self.first, self.number as usize).contains(&new) {
                return Added::Known;
            }
            if self.number >= self.room {
                return Added::NoRoom;
            }
            self.first.add(self.number as usize).write(new);
        }
        self.number += 1;
        self.needs_inputs |= inputs;
        self.needs_outputs |= outputs;
        self.needs_ids |= ids;
        Added::Done
    }

    /// Whether what torch has put there is as we think, and has `callback`: to be asked before anything is added.
    ///
    /// # Safety
    /// So many bytes can be read at `place`.
    pub unsafe fn has(place: usize, callback: &Callback) -> bool {
        let this = place as *const Listeners;
        // SAFETY: the caller's. Of what may be anything, words and bytes are read.
        unsafe {
            let flag = |flag: *const bool| flag.cast::<u8>().read();
            let (first, number, room) = ((*this).first, (*this).number, (*this).room);
            let is_vector = core::ptr::eq(first, (&raw const (*this).in_place).cast())
                && room as usize == IN_PLACE
                && (1..=IN_PLACE as u32).contains(&number);
            let needs = [(&raw const (*this).needs_inputs), (&raw const (*this).needs_outputs)].map(flag);
            let is_as_asked = needs.iter().all(|need| *need <= 1)
                && needs[0] >= u8::from(callback.needs_inputs)
                && needs[1] >= u8::from(callback.needs_outputs);
            let new = Listener { start: callback.start as usize, end: callback.end as usize };
            flag(&raw const (*this).are_there) == 1
                && (*this).scope == FUNCTION as u8
                && is_as_asked
                && is_vector
                && slice::from_raw_parts(first, number as usize).contains(&new)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;

    unsafe extern "C" fn start() {}
    unsafe extern "C" fn end(_: usize, _: usize) {}
    unsafe extern "C" fn other_end(_: usize, _: usize) {}

    struct Room(Box<MaybeUninit<Listeners>>);

    impl Room {
        fn empty() -> Room {
            let room = Room(Box::new(MaybeUninit::zeroed()));
            // SAFETY: it has room for this.
            unsafe { Listeners::none_at(room.place()) };
            room
        }

        fn place(&self) -> usize {
            self.0.as_ptr() as usize
        }

        fn add(&self, callback: &Callback) -> Added {
            // SAFETY: made by `none_at`.
            unsafe { Listeners::add(self.place(), callback) }
        }

        fn has(&self, callback: &Callback) -> bool {
            // SAFETY: zeroed, or what was put there.
            unsafe { Listeners::has(self.place(), callback) }
        }

        fn get(&self) -> &Listeners {
            // SAFETY: zeroes are one.
            unsafe { self.0.assume_init_ref() }
        }
    }

    #[test]
    fn where_nobody_listens_one_is_put() {
        let (room, ours) = (Room::empty(), Callback::new(start, end, true));
        assert!(!room.has(&ours));
        assert_eq!((room.add(&ours), room.add(&ours)), (Added::Done, Added::Known));
        assert!(room.has(&ours) && !room.has(&Callback::new(start, other_end, true)));
        let listeners = room.get();
        assert_eq!((listeners.number, listeners.room, listeners.scope, listeners.are_there), (1, 4, 0, true));
        assert_eq!((listeners.needs_inputs, listeners.needs_outputs, listeners.needs_ids), (true, true, false));
    }

    #[test]
    fn others_that_listen_stay_and_get_what_they_need() {
        let (room, with_tensors) = (Room::empty(), Callback::new(start, other_end, true));
        room.add(&with_tensors);
        let ours = Callback::new(start, end, false);
        assert_eq!(room.add(&ours), Added::Done);
        assert!(room.has(&ours) && room.has(&with_tensors));
        assert!(room.get().needs_inputs && room.get().needs_outputs);
    }

    #[test]
    fn where_no_room_is_left_nothing_changes() {
        let mut room = Room::empty();
        let others = Callback::new(start, other_end, false);
        room.add(&others);
        // SAFETY: as above.
        unsafe { room.0.assume_init_mut() }.number = 4;
        assert_eq!(room.add(&Callback::new(start, end, true)), Added::NoRoom);
        assert_eq!((room.get().number, room.get().needs_inputs), (4, false));
        // SAFETY: as above.
        assert!(unsafe { Listeners::are_in_place(room.place()) });
    }
}

//! `std::string` in the two forms libstdc++ has had: which one ATB uses, its symbols tell.
use super::helper::Helper;
use crate::original::CXX;
use memscope_hook::around::call_for_object;

memscope_hook::functions! {
    found by Helper;
    EndOld is _ZNSsD1Ev(string: *mut usize), in CXX;
    EndCxx11 is _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEED1Ev(string: *mut usize), in CXX;
}

/// Longer texts are cut.
const LONGEST: usize = 1024;

#[derive(Clone, Copy)]
pub(super) enum Abi {
    /// One word, the address of the characters; before them stand length, capacity and count of owners.
    Old,
    /// Four words: address, length, and the characters themselves or a capacity.
    Cxx11,
}

impl Abi {
    /// # Safety
    /// `string` is the address of one of this form.
    pub(super) unsafe fn text<'a>(self, string: *const usize) -> &'a [u8] {
        // SAFETY: the caller's string is whole, and its characters live as long as it does.
        unsafe {
            let first = *string as *const u8;
            let length = match self {
                Abi::Old => *first.cast::<usize>().sub(3),
                Abi::Cxx11 => *string.add(1),
            };
            core::slice::from_raw_parts(first, length.min(LONGEST))
        }
    }

    fn destructor(self) -> Option<Destructor> {
        match self {
            Abi::Old => EndOld::find(),
            Abi::Cxx11 => EndCxx11::find(),
        }
    }
}

type Destructor = unsafe extern "C" fn(*mut usize);

/// A string that a function of ATB returned; empty if it was not asked. Must not be moved once it holds one.
pub(super) struct ReturnedText {
    words: [usize; 4],
    /// What is in it, and what ends it.
    held: Option<(Abi, Destructor)>,
}

impl ReturnedText {
    pub(super) const fn empty() -> ReturnedText {
        ReturnedText { words: [0; 4], held: None }
    }

    /// Asks the one of two member functions that is there. A string we could not end is not asked for.
    ///
    /// # Safety
    /// `this` is an object of the functions' class.
    pub(super) unsafe fn ask(&mut self, this: usize, old: &Helper, cxx11: &Helper) {
        for (abi, helper) in [(Abi::Cxx11, cxx11), (Abi::Old, old)] {
            let function = helper.address();
            if self.held.is_none()
                && function != 0
                && let Some(destructor) = abi.destructor()
            {
                // SAFETY: the function of this name returns a string of this form, for which there is room.
                unsafe { call_for_object(function, this, (&raw mut self.words).cast()) };
                self.held = Some((abi, destructor));
            }
        }
    }

    pub(super) fn text(&self) -> &[u8] {
        match self.held {
            // SAFETY: a string of this form is there until it is dropped.
            Some((abi, _)) => unsafe { abi.text(self.words.as_ptr()) },
            None => b"",
        }
    }
}

impl Drop for ReturnedText {
    fn drop(&mut self) {
        let Some((abi, destructor)) = self.held else { return };
        // An empty string of the old form owns nothing, and of several copies of libstdc++ only its own can tell that.
        // SAFETY: the capacity stands before the characters.
        if matches!(abi, Abi::Old) && unsafe { *(self.words[0] as *const usize).sub(2) } == 0 {
            return;
        }
        // SAFETY: the destructor is that of this form of string; the string is whole, was not moved, and is not used again.
        unsafe { destructor(self.words.as_mut_ptr()) };
    }
}

//! `c10::FunctionSchema`: what an operator is called, and what it says of its arguments.
use crate::layout::{Layout, fixed};
use crate::memory::{at, can_read, elements};
use crate::text::Text;
use core::marker::PhantomData;

/// The schema of an operator that is being called.
#[derive(Clone, Copy)]
pub struct Schema<'a> {
    address: usize,
    layout: &'static Layout,
    call: PhantomData<&'a ()>,
}

/// What a schema says of how an argument or a result shares memory with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alias {
    None,
    /// It is, or has, a view of the same memory.
    View,
    Written,
}

/// No operator has more arguments or results.
const MOST_ARGUMENTS: usize = 1024;

impl<'a> Schema<'a> {
    /// # Safety
    /// `address` is that of a schema that lives for `'a`, or whatever it is, nothing is asked of it but
    /// [`Schema::can_be_read`].
    pub(crate) unsafe fn at(address: usize, layout: &'static Layout) -> Schema<'a> {
        Schema { address, layout, call: PhantomData }
    }

    pub fn address(&self) -> usize {
        self.address
    }

    /// Words that tell this schema from another that was at its address before.
    #[inline(always)]
    pub fn identity(&self) -> [usize; 2] {
        // SAFETY: a schema has these members.
        unsafe { [at(self.address, 0), at(self.address, self.layout.arguments)] }
    }

    pub(crate) fn name(&self) -> &'a [u8] {
        // SAFETY: either form of string begins with the address of its characters, which a zero ends.
        unsafe { characters(at(self.address, 0)) }
    }

    pub(crate) fn overload(&self) -> &'a [u8] {
        // SAFETY: as above.
        unsafe { characters(at(self.address, self.layout.overload)) }
    }

    /// As it is shown.
    pub fn text(&self) -> Text {
        let mut text = Text::new();
        text.push(self.name());
        if !self.overload().is_empty() {
            text.push(b".").push(self.overload());
        }
        text
    }

    pub(crate) fn arguments(&self) -> Option<Arguments> {
        self.vector(self.layout.arguments)
    }

    pub(crate) fn returns(&self) -> Option<Arguments> {
        self.vector(self.layout.returns)
    }

    fn vector(&self, offset: usize) -> Option<Arguments> {
        // SAFETY: a schema has this vector.
        let [begin, end] = unsafe { at::<[usize; 2]>(self.address, offset) };
        let (begin, number) = elements(begin, end, self.layout.argument_size, MOST_ARGUMENTS)?;
        Some(Arguments { begin, number, layout: self.layout })
    }

    /// The entry of the dispatcher the schema is part of: it stands behind the operator's name, which the schema repeats.
    /// `None` if it does not.
    pub(crate) fn entry(&self) -> Option<usize> {
        let size = self.layout.string_size;
        let entry = self.address.checked_sub(2 * size)?;
        // SAFETY: what can be read is read, and an address in it before it is followed.
        let text = |place: usize| unsafe {
            let first = at::<usize>(place, 0);
            can_read(first, 8).then(|| characters(first))
        };
        let is_it = can_read(entry, 2 * size)
            && text(entry) == Some(self.name())
            && text(entry + size) == Some(self.overload());
        is_it.then_some(entry)
    }

    /// Whether all that the others read is there.
    pub(crate) fn can_be_read(&self) -> bool {
        // SAFETY: each part can be read before it is.
        unsafe {
            can_read(self.address, self.layout.returns + 24)
                && [0, self.layout.overload].iter().all(|string| can_read(at(self.address, *string), 8))
                && [self.arguments(), self.returns()].iter().all(|list| list.is_some_and(|list| list.can_be_read()))
        }
    }
}

/// Arguments or results of a schema.
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    begin: usize,
    pub(crate) number: usize,
    layout: &'static Layout,
}

impl Arguments {
    fn can_be_read(&self) -> bool {
        let each = |place| {
            // SAFETY: the arguments can be read as far as they go.
            let info = unsafe { at::<usize>(self.begin + place * self.layout.argument_size, self.layout.alias) };
            // SAFETY: asked before.
            info == 0
                || can_read(info, fixed::ALIAS_IS_WRITE + 1) && unsafe { at::<u8>(info, fixed::ALIAS_IS_WRITE) } <= 1
        };
        self.number == 0 || can_read(self.begin, self.number * self.layout.argument_size) && (0..self.number).all(each)
    }

    /// `place` is less than the number.
    pub(crate) fn alias(&self, place: usize) -> Alias {
        // SAFETY: an argument has this member, which is null or points to one that says so.
        unsafe {
            match at::<usize>(self.begin + place * self.layout.argument_size, self.layout.alias) {
                0 => Alias::None,
                info if at::<u8>(info, fixed::ALIAS_IS_WRITE) == 1 => Alias::Written,
                _ => Alias::View,
            }
        }
    }
}

/// The characters up to a zero, or as many as are shown.
///
/// # Safety
/// `first` is the address of such characters.
pub(crate) unsafe fn characters<'a>(first: usize) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the caller's; nothing behind the zero is read.
    unsafe {
        while length < Text::LIMIT && at::<u8>(first, length) != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(first as *const u8, length)
    }
}

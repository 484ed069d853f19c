//! Extended records, as the table says.
use super::fields::{
    BuildId, Byte, Called, DeviceAddress, Encode, Kernel, Label, LineTable, Lines, Name, Operator, Stack, Tensor,
    Varint, Word,
};
use super::output::Output;
use super::{Deltas, advance, log_code, store};
use crate::record::{
    AccessMode, DevAddr, HostAddr, HostCall, LabelLevel, LogicalDevice, Phase, PhysicalDevice, Protection, Space,
    SpaceAddr, SpaceDevice, StackRef, SystemKind, TaskLogLine, TensorOwner, kind,
};
use crate::records::records;
use crate::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};

/// A path that is written as what it does not have in common with the lane's last path of the same generation: paths of
/// operators and kernels differ in their last components.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    whole: &'a [u8],
    pub(super) shared: usize,
}

impl<'a> Path<'a> {
    /// Longer ones are cut.
    pub const LIMIT: usize = 1024;

    /// `last` is the path of the record before, empty at the beginning of a generation.
    pub fn after(last: &[u8], path: &'a [u8]) -> Path<'a> {
        let whole = path.get(..path.len().min(Path::LIMIT)).unwrap_or_default();
        let shared = whole.iter().zip(last).take_while(|(one, other)| one == other).count();
        Path { whole, shared }
    }

    /// As it is read again.
    pub fn kept(self) -> &'a [u8] {
        self.whole
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.whole.get(self.shared..).unwrap_or_default()
    }
}

/// First bytes, time and length of an extended record, and the overshoot of their stores.
const OVERHEAD: usize = 20;

macro_rules! make_encoder {
    (lane { $($lane:tt)* } definitions { $($definition:tt)* } events { $($event:tt)* } superseded { $($old:tt)* }) => {
        make_encoder! { rows $($lane)* $($definition)* $($event)* }
    };
    (rows $(
        $(#[$meta:meta])*
        $code:literal $name:ident $variant:ident
        $({ $($field:ident: $type:ty as $encoding:ident),* $(,)? } $(with $tail:ident($($part:ident: $part_type:ty),*))?)?;
    )*) => {
        /// An extended record, and what it says.
        #[derive(Clone, Copy, Debug)]
        pub enum Extended<'a> {
            $($(#[$meta])* $variant $({ $($field: $type,)* $($($part: $part_type,)*)? })?,)*
        }

        impl<'a> Extended<'a> {
            /// Room to keep before [`extended`]: no encoding of this record needs more.
            pub fn room(&self) -> usize {
                self.room_in_place()
            }

            /// The same where the compiler is to see which record it is.
            #[inline(always)]
            pub fn room_in_place(&self) -> usize {
                match *self {
                    $(Extended::$variant $({ $($field,)* $($($part,)*)? })? => {
                        OVERHEAD $($(+ <$encoding as Encode<$type>>::room($field))* $(+ $tail::room($($part),*))?)?
                    })*
                }
            }

            /// Writes the payload and gives the type.
            ///
            /// # Safety
            /// There is room for [`Extended::room`] bytes less the overhead at the output.
            #[inline(always)]
            unsafe fn fill(&self, out: &mut Output, last: &mut Deltas) -> u8 {
                match *self {
                    $(Extended::$variant $({ $($field,)* $($($part,)*)? })? => {
                        $($(<$encoding as Encode<$type>>::put(out, last, $field);)* $($tail::put(out, last, $($part),*);)?)?
                        $code
                    })*
                }
            }
        }
    };
}

records!(make_encoder);

/// Writes an extended record and returns its end.
///
/// # Safety
/// `out` must be valid for writes of `record.room()` bytes that overlap nothing the record refers to.
pub unsafe fn extended(out: *mut u8, last: &mut Deltas, ticks: u64, record: &Extended<'_>) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe { extended_in_place(out, last, ticks, record) }
}

/// The same where the compiler is to see which record it is.
///
/// # Safety
/// As for [`extended`].
#[inline(always)]
pub unsafe fn extended_in_place(out: *mut u8, last: &mut Deltas, ticks: u64, record: &Extended<'_>) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    // SAFETY: the caller keeps the room for overhead and payload.
    unsafe {
        out.write(kind::EXTENDED | time_code << 2);
        let length_at = store(out.add(2), time, 1 << time_code);
        let mut payload = Output(length_at.add(2));
        let record_type = record.fill(&mut payload, last);
        out.add(1).write(record_type);
        let length = payload.0 as usize - length_at as usize - 2;
        length_at.cast::<[u8; 2]>().write((length as u16).to_le_bytes());
        payload.0
    }
}

//! Reading a spool back, from bytes that may be truncated, damaged or made up.
//!
//! [`Spool`] indexes the spool blocks of `events.spool` and the windows of `windows.spool`; a [`LaneCursor`] walks one
//! lane's records in order, one spool block in memory at a time. Both keep going past what is damaged and say what it was
//! ([`Damage`]). A spool that is still being written is followed by [`Spool::refresh`] and more calls of
//! [`LaneCursor::next_event`].
mod clock;
mod error;
mod fields;
#[cfg(test)]
mod kernel_record_tests;
mod lane;
mod nodes;
mod process;
mod records;
#[cfg(test)]
mod round_trips;
mod spool;
pub mod text;

pub use crate::record::{FrameRecord, StackRef};
pub use clock::{Stretch, Timeline};
pub use error::{Damage, SpoolError};
pub use fields::TensorShape;
pub use lane::LaneCursor;
pub use process::{ProcessInfo, ProcessState};
pub use records::{Definition, Event, EventKind};
pub use spool::Spool;

/// A little-endian integer at `offset`, if the bytes reach that far.
fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

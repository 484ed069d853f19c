//! Recordings and dump files, read and analyzed.
//!
//! * [`recording`]: what is at a path.
//! * [`events`], [`blocks`]: in batches of columns, and one by one.
//! * [`analyses`]: the command's analyses, as documents and texts.
//!
//! Everything runs without the GIL, and ends when the user presses Ctrl-C ([`waiting`]).
pub(crate) mod analyses;
mod batches;
pub(crate) mod blocks;
mod choice;
pub(crate) mod events;
pub(crate) mod recording;
mod views;
pub(crate) mod waiting;

//! Watched blocks, as a trace tells of them.
use crate::{AccessedBlock, DevAddr, Device, Name};
use memscope_format::layout::SPOOL_DIRECTORY;
use memscope_format::record::Phase;
use memscope_format::watch::CONTENTS_FILE;
pub use memscope_format::watch::{Checksum, Contents, GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};
use std::path::Path;

/// The bytes of watched blocks in a process directory or its spool's; `None` if none were kept.
pub fn contents(directory: &Path) -> Option<Contents> {
    let places = [directory.join(SPOOL_DIRECTORY), directory.to_owned()];
    places.into_iter().find_map(|place| Contents::open(&place.join(CONTENTS_FILE)).ok())
}

/// The number of a watch within its process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatchId(pub u32);

/// A block that is watched from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedBlock<'e> {
    pub watch: WatchId,
    pub origin: WatchOrigin,
    /// The start operator's, or the one the program gave.
    pub name: &'e str,
    pub device: Device,
    pub address: DevAddr,
    pub size: u64,
    /// Which one of the start operator's outputs.
    pub output: u32,
    pub checksum: u64,
    /// Its bytes in [`Contents`], 0 if they are not kept.
    pub content: u64,
    pub full_content: bool,
    /// Every launch waited for its end.
    pub blocking: bool,
    /// The start operator has no output of the number that was asked for: all are watched.
    pub no_such_output: bool,
    /// The live block around it.
    pub block: Option<AccessedBlock>,
}

/// An operator or kernel begins or ends while something is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchMoment<'e> {
    pub source: WatchSource,
    pub phase: Phase,
    /// Its number, which with the source is nobody else's while it is at work.
    pub operator: u64,
    pub name: Option<Name<'e>>,
    /// The how manieth call of that name it is since something was watched for the first time, from 1.
    pub call: u64,
}

/// What a watched block held at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchLook<'e> {
    pub watch: WatchId,
    pub moment: WatchMoment<'e>,
    /// As far as is known at this moment: what the operator may do with the block.
    pub given: GivenFor,
    pub checksum: u64,
    /// Its bytes in [`Contents`], 0 if they are not kept.
    pub content: u64,
}

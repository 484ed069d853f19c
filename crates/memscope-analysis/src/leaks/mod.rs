//! Leaks: memory that outlives the step it was made in and is not given back, by who made it.
//!
//! A [`LeakSearch`] watches a trace and ends in a [`LeakReport`]. Its unit is a *source*: one allocating stack (or, without
//! stacks, one owner) of one pool of one device. Who knows which stacks are the same line of code puts sources together
//! ([`LeakReport::together`]) and gets a [`Verdict`] of them all: verdicts are made from what sources of a line held in sum,
//! since a leak in a line may come by many ways.
//!
//! Without steps the time of the run is cut into equal parts, whose ends take the place of the ends of steps, and all
//! that is alive at the end is looked at. Time that Python programs spend on imports does not count.
//!
//! The end is when a Python program's own code has ended, where that is known: what follows takes the interpreter apart.
//! What is freed by then is in no report, with one exception: sources that grew from step to step, all of which was freed
//! after the last one ([`LeakReport::freed_late`]); a longer run would need more.
//!
//! A storage of a tensor on the host lies in a block of the heap, which is the same memory: the storage is the leak.
//!
//! Memory: live blocks (those of devices, and those that are freed after the end), sources, and for each source the steps
//! in which something changed, at most 1024; of more steps, several share a place.
mod between;
mod imports;
mod operators;
mod report;
mod row;
mod run;
mod run_clock;
mod search;
pub mod verdict;

pub use between::{BetweenMarks, LeaksBetweenMarks};
pub use report::{LeakReport, LeakSource, LeakedBlock, RunParts, SourcesTogether};
pub use search::LeakSearch;
pub use verdict::{Growth, Verdict};

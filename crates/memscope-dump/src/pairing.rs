//! Which rows a viewer can pair, and what becomes of the others.
//!
//! MindStudio Insight keys a block by pool and address text, and silently drops an allocation of an address that is
//! still allocated, a free without allocation, and either of them without a size. Rows it would drop are kept out of
//! its way, in a table of their own, so that what it shows adds up and nothing is lost.
use crate::rows::{Event, EventType, Row};
use rustc_hash::FxHashMap;
use std::fmt;

/// Why a row cannot be paired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unpaired {
    /// No size, or one no signed number holds.
    Size,
    /// The address is allocated already, by another block in the table, or a block that is not in it is freed.
    Address,
}

/// The blocks that are alive in the table, by pool and address.
#[derive(Default)]
pub(crate) struct Pairing {
    live: FxHashMap<(EventType, u64), LiveRow>,
    pub(crate) counts: UnpairedCounts,
}

#[derive(Clone, Copy)]
struct LiveRow {
    block: u64,
    row: u64,
    size: u64,
}

/// How many rows were put aside, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnpairedCounts {
    pub(crate) by_size: u64,
    pub(crate) by_address: u64,
}

impl Pairing {
    /// Takes note of the next row; `Err` if it must not go to the main table.
    pub(crate) fn admit(&mut self, row: &Row<'_>) -> Result<(), Unpaired> {
        let admitted = match row.event {
            Event::Malloc => self.admit_malloc(row),
            Event::Free => self.admit_free(row),
            Event::System
            | Event::Mstx
            | Event::OomDetail
            | Event::Snapshot
            | Event::OpLaunch
            | Event::KernelLaunch
            | Event::Access => Ok(()),
        };
        match admitted {
            Err(Unpaired::Size) => self.counts.by_size += 1,
            Err(Unpaired::Address) => self.counts.by_address += 1,
            Ok(()) => {}
        }
        admitted
    }

    /// The rows in the table that allocated the given blocks, whose numbers ascend, and the blocks' sizes. Not all that is alive in the table is
    /// in the process: frees may not have been asked for.
    pub(crate) fn rows_of(&self, blocks: &[u64]) -> impl Iterator<Item = (u64, u64)> {
        let mut rows: Vec<(u64, u64)> = self
            .live
            .values()
            .filter(|live| blocks.binary_search(&live.block).is_ok())
            .map(|live| (live.row, live.size))
            .collect();
        rows.sort_unstable();
        rows.into_iter()
    }

    fn admit_malloc(&mut self, row: &Row<'_>) -> Result<(), Unpaired> {
        let (key, block) = identity(row)?;
        match self.live.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => Err(Unpaired::Address),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(LiveRow { block, row: row.id, size: row.size().unwrap_or(0) });
                Ok(())
            }
        }
    }

    fn admit_free(&mut self, row: &Row<'_>) -> Result<(), Unpaired> {
        let (key, block) = identity(row)?;
        match self.live.entry(key) {
            std::collections::hash_map::Entry::Occupied(live) if live.get().block == block => {
                live.remove();
                Ok(())
            }
            _ => Err(Unpaired::Address),
        }
    }
}

fn identity(row: &Row<'_>) -> Result<((EventType, u64), u64), Unpaired> {
    let usable = row.size().is_some_and(|size| size > 0 && i64::try_from(size).is_ok());
    match (row.pointer, row.allocation_id()) {
        (Some(pointer), Some(block)) if usable => Ok(((row.event_type, pointer), block)),
        _ => Err(Unpaired::Size),
    }
}

impl UnpairedCounts {
    pub(crate) fn add(&mut self, more: &UnpairedCounts) {
        self.by_size += more.by_size;
        self.by_address += more.by_address;
    }

    pub(crate) fn total(self) -> u64 {
        self.by_size + self.by_address
    }
}

impl fmt::Display for UnpairedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.by_size > 0 {
            write!(f, "{} of blocks of no bytes or unknown size", self.by_size)?;
        }
        if self.by_size > 0 && self.by_address > 0 {
            f.write_str(" and ")?;
        }
        if self.by_address > 0 {
            write!(f, "{} whose address is taken by another block or not allocated", self.by_address)?;
        }
        Ok(())
    }
}

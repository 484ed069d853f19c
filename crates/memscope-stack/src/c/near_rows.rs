//! A lane's own unwind rows, in front of the process's: a loop in a large program needs a thousand of them, which the large
//! table spreads over as many cache lines and hundreds of pages.
use super::row::Row;
use crate::tables::{Entry, Sets, hash};

/// Rows by return address, in the unload epoch at hand. Zeroed memory is empty; each set is a cache line.
#[repr(C, align(64))]
pub(super) struct NearRows(Sets<NearRow, 512, 4, 24>);

#[derive(Clone, Copy)]
#[repr(C)]
struct NearRow {
    return_address: usize,
    row: Row,
}

// SAFETY: integers; no frame returns to address 0.
unsafe impl Entry for NearRow {}

impl NearRows {
    pub(super) const fn new() -> NearRows {
        NearRows(Sets::new())
    }

    pub(super) fn forget(&mut self) {
        self.0.forget();
    }

    #[inline(always)]
    pub(super) fn find(&self, return_address: usize) -> Option<Row> {
        // Written out, for this is the heart of every walk.
        let [a, b, c, d] = self.0.get(hash(return_address as u64))?;
        if a.return_address == return_address {
            Some(a.row)
        } else if b.return_address == return_address {
            Some(b.row)
        } else if c.return_address == return_address {
            Some(c.row)
        } else if d.return_address == return_address {
            Some(d.row)
        } else {
            None
        }
    }

    pub(super) fn insert(&mut self, return_address: usize, row: Row) {
        self.0.insert(hash(return_address as u64), NearRow { return_address, row });
    }
}
